"""The tables of a study's database, on SQLite or PostgreSQL."""

from __future__ import annotations

import sqlalchemy as sa

__all__ = [
    "METADATA",
    "TASK_COLUMNS",
    "answers",
    "batches",
    "cells",
    "events",
    "invitations",
    "people",
    "plans",
    "steps",
    "study",
    "tasks",
    "trials",
]

METADATA = sa.MetaData()


def _text(name: str, *, key: bool = False, optional: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, primary_key=key, nullable=optional)


def _number(name: str, *, optional: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=optional)


def _whole(name: str, *, key: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, primary_key=key, nullable=False)


def _by_trial(name: str, text: str) -> sa.Table:
    """What happened in a trial, one after the other."""
    trial = sa.Column("trial", sa.Text, sa.ForeignKey("trials.id"), primary_key=True)
    return sa.Table(name, METADATA, trial, _whole("number", key=True), _number("at"), _text(text))


study = sa.Table(
    "study",
    METADATA,
    _whole("id", key=True),
    _text("secret"),
    _text("plan"),
    _text("state"),
)
plans = sa.Table("plans", METADATA, _text("hash", key=True), _text("text"), _number("since"))
tasks = sa.Table(
    "tasks",
    METADATA,
    _text("id", key=True),
    _text("scene"),
    _text("target"),
    _text("condition"),
    _text("part"),
    _text("source"),
    _text("role"),
    _whole("place"),
)
cells = sa.Table(
    "cells",
    METADATA,
    sa.Column("task", sa.Text, sa.ForeignKey("tasks.id"), primary_key=True),
    _text("device", key=True),
    _whole("wanted"),
    _whole("valid"),
    _whole("open"),
)
invitations = sa.Table(
    "invitations",
    METADATA,
    _text("id", key=True),
    _text("role"),
    _text("label"),
    _number("made"),
    _text("person", optional=True),
)
people = sa.Table(
    "people",
    METADATA,
    _text("id", key=True),
    _text("session"),
    _text("role"),
    _text("language"),
    _text("device", optional=True),
    _text("condition", optional=True),
    _number("joined"),
    sa.Column("passed", sa.Boolean, nullable=True),
    _text("plan"),
    sa.Index("people_session", "session", unique=True),
)
batches = sa.Table(
    "batches",
    METADATA,
    _text("id", key=True),
    sa.Column("person", sa.Text, sa.ForeignKey("people.id"), nullable=False),
    _text("device"),
    _text("condition"),
    _text("role"),
    _text("state"),
    _text("reason"),
    _number("opened"),
    _number("deadline"),
    _number("closed", optional=True),
    _text("plan"),
    sa.Index("batches_person", "person"),
    sa.Index("batches_state", "state", "deadline"),
)
trials = sa.Table(
    "trials",
    METADATA,
    _text("id", key=True),
    sa.Column("batch", sa.Text, sa.ForeignKey("batches.id"), nullable=False),
    _whole("place"),
    sa.Column("task", sa.Text, sa.ForeignKey("tasks.id"), nullable=False),
    _number("answered", optional=True),
    _text("answer"),
    _text("flags"),
    _whole("counts"),
    _text("plan"),
    sa.Index("trials_batch", "batch", "place"),
    sa.Index("trials_task", "task"),
)
answers = _by_trial("answers", "answer")
steps = _by_trial("steps", "step")
events = sa.Table(
    "events",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    _number("at"),
    _text("kind"),
    _text("person", optional=True),
    _text("body"),
    sa.Index("events_person", "person"),
)

TASK_COLUMNS = (
    tasks.c.scene,
    tasks.c.target,
    tasks.c.part,
    tasks.c.source,
    tasks.c.role.label("task_role"),
    tasks.c.place.label("task_place"),
)
"""What a trial's row says of its task, beside columns of the same names of its own."""
