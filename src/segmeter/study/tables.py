"""The tables of a study's database, on SQLite or PostgreSQL."""

from __future__ import annotations

from typing import Any

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


Columns = list[sa.Column[Any]]


def _texts(*names: str, optional: bool = False) -> Columns:
    return [sa.Column(name, sa.Text, nullable=optional) for name in names]


def _numbers(*names: str, optional: bool = False) -> Columns:
    return [sa.Column(name, sa.Double, nullable=optional) for name in names]


def _wholes(*names: str) -> Columns:
    return [sa.Column(name, sa.Integer, nullable=False) for name in names]


def _key(name: str, *to: str) -> sa.Column[str]:
    """A primary key of text, perhaps that of another table."""
    return sa.Column(name, sa.Text, *map(sa.ForeignKey, to), primary_key=True)


def _refers(name: str, to: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, sa.ForeignKey(to), nullable=False)


def _by_trial(name: str, text: str) -> sa.Table:
    """What happened in a trial, one after the other."""
    number = sa.Column("number", sa.Integer, primary_key=True)
    trial = _key("trial", "trials.id")
    return sa.Table(name, METADATA, trial, number, *_numbers("at"), *_texts(text))


study = sa.Table(
    "study",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    *_texts("secret", "plan", "state"),
)
plans = sa.Table("plans", METADATA, _key("hash"), *_texts("text"), *_numbers("since"))
tasks = sa.Table(
    "tasks",
    METADATA,
    _key("id"),
    *_texts("scene", "target", "condition", "part", "source", "role"),
    *_wholes("place"),
)
cells = sa.Table(
    "cells",
    METADATA,
    _key("task", "tasks.id"),
    _key("device"),
    *_wholes("wanted", "valid", "open"),
)
invitations = sa.Table(
    "invitations",
    METADATA,
    _key("id"),
    *_texts("role", "label"),
    *_numbers("made"),
    *_texts("person", optional=True),
)
people = sa.Table(
    "people",
    METADATA,
    _key("id"),
    *_texts("session", "role", "language"),
    *_texts("device", "condition", optional=True),
    *_numbers("joined"),
    sa.Column("passed", sa.Boolean, nullable=True),
    *_texts("plan"),
    sa.Index("people_session", "session", unique=True),
)
batches = sa.Table(
    "batches",
    METADATA,
    _key("id"),
    _refers("person", "people.id"),
    *_texts("device", "condition", "role", "state", "reason"),
    *_numbers("opened", "deadline"),
    *_numbers("closed", optional=True),
    *_texts("plan"),
    sa.Index("batches_person", "person"),
    sa.Index("batches_state", "state", "deadline"),
)
trials = sa.Table(
    "trials",
    METADATA,
    _key("id"),
    _refers("batch", "batches.id"),
    *_wholes("place"),
    _refers("task", "tasks.id"),
    *_numbers("answered", optional=True),
    *_texts("answer", "flags"),
    *_wholes("counts"),
    *_texts("plan"),
    sa.Index("trials_batch", "batch", "place"),
    sa.Index("trials_task", "task"),
)
answers = _by_trial("answers", "answer")
steps = _by_trial("steps", "step")
events = sa.Table(
    "events",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    *_numbers("at"),
    *_texts("kind"),
    *_texts("person", optional=True),
    *_texts("body"),
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
