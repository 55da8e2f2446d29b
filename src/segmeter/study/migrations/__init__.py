"""Migrations: bring a study's database to the tables of today, from any earlier ones."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

__all__ = ["upgrade"]


def upgrade(engine: sa.Engine) -> None:
    """Run the migrations that a database has not seen; none on one of today."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
