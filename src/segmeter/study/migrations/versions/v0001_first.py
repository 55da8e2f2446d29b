"""The first tables; what they are called and hold here never changes any more."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Columns = list[sa.Column[Any]]


def _texts(*names: str, **more: Any) -> Columns:
    return [sa.Column(name, sa.Text(), **{"nullable": False, **more}) for name in names]


def _wholes(*names: str, **more: Any) -> Columns:
    return [sa.Column(name, sa.Integer(), nullable=False, **more) for name in names]


def _numbers(*names: str, nullable: bool = False) -> Columns:
    return [sa.Column(name, sa.Double(), nullable=nullable) for name in names]


def _refers(name: str, to: str, **more: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), sa.ForeignKey(to), nullable=False, **more)


def upgrade() -> None:
    _events()
    _people()
    _plan()
    _work()
    _answers()


def _events() -> None:
    op.create_table(
        "events",
        *_wholes("number", primary_key=True, autoincrement=False),
        *_numbers("at"),
        *_texts("kind"),
        *_texts("person", nullable=True),
        *_texts("body"),
    )
    op.create_index("events_person", "events", ["person"])


def _people() -> None:
    op.create_table(
        "invitations",
        *_texts("id", primary_key=True),
        *_texts("role", "label"),
        *_numbers("made"),
        *_texts("person", nullable=True),
    )
    op.create_table(
        "people",
        *_texts("id", primary_key=True),
        *_texts("session", "role", "language"),
        *_texts("device", "condition", nullable=True),
        *_numbers("joined"),
        sa.Column("passed", sa.Boolean(), nullable=True),
        *_texts("plan"),
    )
    op.create_index("people_session", "people", ["session"], unique=True)


def _plan() -> None:
    op.create_table("plans", *_texts("hash", primary_key=True), *_texts("text"), *_numbers("since"))
    op.create_table("study", *_wholes("id", primary_key=True), *_texts("secret", "plan", "state"))
    op.create_table(
        "tasks",
        *_texts("id", primary_key=True),
        *_texts("scene", "target", "condition", "part", "source", "role"),
        *_wholes("place"),
    )


def _work() -> None:
    op.create_table(
        "batches",
        *_texts("id", primary_key=True),
        _refers("person", "people.id"),
        *_texts("device", "condition", "role", "state", "reason"),
        *_numbers("opened", "deadline"),
        *_numbers("closed", nullable=True),
        *_texts("plan"),
    )
    op.create_index("batches_person", "batches", ["person"])
    op.create_index("batches_state", "batches", ["state", "deadline"])
    op.create_table(
        "cells",
        _refers("task", "tasks.id", primary_key=True),
        *_texts("device", primary_key=True),
        *_wholes("wanted", "valid", "open"),
    )
    op.create_table(
        "trials",
        *_texts("id", primary_key=True),
        _refers("batch", "batches.id"),
        *_wholes("place"),
        _refers("task", "tasks.id"),
        *_numbers("answered", nullable=True),
        *_texts("answer", "flags"),
        *_wholes("counts"),
        *_texts("plan"),
    )
    op.create_index("trials_batch", "trials", ["batch", "place"])
    op.create_index("trials_task", "trials", ["task"])


def _answers() -> None:
    for table, text in (("answers", "answer"), ("steps", "step")):
        op.create_table(
            table,
            _refers("trial", "trials.id", primary_key=True),
            *_wholes("number", primary_key=True),
            *_numbers("at"),
            *_texts(text),
        )


def downgrade() -> None:
    made = "events invitations people plans study tasks batches cells trials answers steps"
    for table in reversed(made.split()):
        op.drop_table(table)
