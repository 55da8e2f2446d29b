"""Lookups: what a running study asks its tables about people, batches and trials."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

import sqlalchemy as sa

from segmeter.study import tables as t
from segmeter.study.refusals import Refused

__all__ = [
    "Row",
    "first_open",
    "hashed",
    "invitation",
    "left",
    "open_batch",
    "own_batch",
    "own_trial",
    "person",
    "trials_of",
]

Row = sa.RowMapping


def hashed(token: str) -> str:
    """What is stored of a secret token."""
    return hashlib.sha256(token.encode()).hexdigest()


def invitation(connection: sa.Connection, token: str) -> Row | None:
    """The invitation that a link's token belongs to."""
    asked = sa.select(t.invitations).where(t.invitations.c.id == hashed(token))
    return connection.execute(asked).mappings().first()


def person(connection: sa.Connection, session: str) -> Row | None:
    """Whose session this is."""
    asked = sa.select(t.people).where(t.people.c.session == hashed(session))
    return connection.execute(asked).mappings().first()


def open_batch(connection: sa.Connection, person: str) -> str | None:
    """The batch that a person is at, if its time is not over."""
    b = t.batches.c
    asked = sa.select(b.id).where(b.person == person, b.state == "open", b.deadline > time.time())
    return connection.execute(asked).scalar()


def own_batch(connection: sa.Connection, person: str, batch: str) -> Row:
    """A batch of the person's own; others do not exist for them."""
    asked = sa.select(t.batches).where(t.batches.c.id == batch, t.batches.c.person == person)
    found = connection.execute(asked).mappings().first()
    if found is None:
        raise Refused(404, "there is no such batch")
    return found


def own_trial(connection: sa.Connection, person: str, trial: str) -> Row:
    """A trial of the person's own, with its task and batch; others do not exist for them."""
    asked = (
        _trials(t.tasks.c.condition, t.batches.c.state, t.batches.c.role, t.batches.c.deadline)
        .join(t.batches, t.batches.c.id == t.trials.c.batch)
        .where(t.trials.c.id == trial, t.batches.c.person == person)
    )
    found = connection.execute(asked).mappings().first()
    if found is None:
        raise Refused(404, "there is no such trial")
    return found


def trials_of(connection: sa.Connection, batch: str) -> Sequence[Row]:
    """The trials of a batch in their order, with their tasks."""
    asked = _trials().where(t.trials.c.batch == batch).order_by(t.trials.c.place)
    return connection.execute(asked).mappings().all()


def left(connection: sa.Connection, batch: str) -> int:
    """How many trials of a batch are without an answer."""
    asked = sa.select(sa.func.count()).where(*_unanswered(batch))
    return int(connection.execute(asked).scalar_one())


def first_open(connection: sa.Connection, batch: str) -> str | None:
    """The trial that comes next."""
    asked = sa.select(t.trials.c.id).where(*_unanswered(batch))
    return connection.execute(asked.order_by(t.trials.c.place).limit(1)).scalar()


def _trials(*more: sa.ColumnElement[str] | sa.ColumnElement[float]) -> sa.Select[tuple[object]]:
    joined = sa.select(t.trials, *t.TASK_COLUMNS, *more)
    return joined.join(t.tasks, t.tasks.c.id == t.trials.c.task)


def _unanswered(batch: str) -> tuple[sa.ColumnElement[bool], ...]:
    return t.trials.c.batch == batch, t.trials.c.answered.is_(None)
