"""The environment in which Alembic runs migrations: the connection it is handed."""

from __future__ import annotations

from alembic import context

from segmeter.study.tables import METADATA


def migrate() -> None:
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=METADATA,
        transaction_per_migration=False,
    )
    with context.begin_transaction():
        context.run_migrations()


if hasattr(context, "config"):  # only while Alembic runs: merely imported, this does nothing
    migrate()
