"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
    )
    op.create_index("events_person", "events", ["person"])
    op.create_table(
        "invitations",
        sa.Column("id", sa.Text(), primary_key=True, nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("made", sa.Double(), nullable=False),
        sa.Column("person", sa.Text(), nullable=True),
    )
    _people()
    _work()


def _people() -> None:
    op.create_table(
        "people",
        sa.Column("id", sa.Text(), primary_key=True, nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=True),
        sa.Column("condition", sa.Text(), nullable=True),
        sa.Column("joined", sa.Double(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=True),
        sa.Column("plan", sa.Text(), nullable=False),
    )
    op.create_index("people_session", "people", ["session"], unique=True)
    op.create_table(
        "plans",
        sa.Column("hash", sa.Text(), primary_key=True, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
    )
    op.create_table(
        "study",
        sa.Column("id", sa.Integer(), primary_key=True, nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
    )
    op.create_table(
        "tasks",
        sa.Column("id", sa.Text(), primary_key=True, nullable=False),
        sa.Column("scene", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("condition", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
    )


def _work() -> None:
    op.create_table(
        "batches",
        sa.Column("id", sa.Text(), primary_key=True, nullable=False),
        sa.Column("person", sa.Text(), sa.ForeignKey("people.id"), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("condition", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("opened", sa.Double(), nullable=False),
        sa.Column("deadline", sa.Double(), nullable=False),
        sa.Column("closed", sa.Double(), nullable=True),
        sa.Column("plan", sa.Text(), nullable=False),
    )
    op.create_index("batches_person", "batches", ["person"])
    op.create_index("batches_state", "batches", ["state", "deadline"])
    op.create_table(
        "cells",
        sa.Column("task", sa.Text(), sa.ForeignKey("tasks.id"), primary_key=True, nullable=False),
        sa.Column("device", sa.Text(), primary_key=True, nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("valid", sa.Integer(), nullable=False),
        sa.Column("open", sa.Integer(), nullable=False),
    )
    op.create_table(
        "trials",
        sa.Column("id", sa.Text(), primary_key=True, nullable=False),
        sa.Column("batch", sa.Text(), sa.ForeignKey("batches.id"), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("task", sa.Text(), sa.ForeignKey("tasks.id"), nullable=False),
        sa.Column("answered", sa.Double(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("counts", sa.Integer(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
    )
    op.create_index("trials_batch", "trials", ["batch", "place"])
    op.create_index("trials_task", "trials", ["task"])
    op.create_table(
        "answers",
        sa.Column("trial", sa.Text(), sa.ForeignKey("trials.id"), primary_key=True, nullable=False),
        sa.Column("number", sa.Integer(), primary_key=True, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
    )
    op.create_table(
        "steps",
        sa.Column("trial", sa.Text(), sa.ForeignKey("trials.id"), primary_key=True, nullable=False),
        sa.Column("number", sa.Integer(), primary_key=True, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("steps")
    op.drop_table("answers")
    op.drop_table("trials")
    op.drop_table("cells")
    op.drop_table("batches")
    op.drop_table("tasks")
    op.drop_table("study")
    op.drop_table("plans")
    op.drop_table("people")
    op.drop_table("invitations")
    op.drop_table("events")
