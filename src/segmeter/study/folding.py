"""Folding: what each kind of event does to the tables; nothing else changes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from segmeter.core.errors import BadInput
from segmeter.study import tables as t

__all__ = ["PENDING", "apply", "erase_person"]

Body = Mapping[str, Any]
# A trial is pending, does not count (0), or counts (1) towards its cell.
PENDING = -1


def apply(connection: sa.Connection, event: Mapping[str, Any]) -> None:
    """Change the tables as an event says."""
    rule = _RULES.get(event["kind"])
    if rule is None:
        raise BadInput(f"event {event['number']} is of the unknown kind '{event['kind']}'")
    rule(connection, event["body"], event)


def _planned(connection: sa.Connection, body: Body, event: Body) -> None:
    row = {"hash": body["hash"], "text": body["text"], "since": event["at"]}
    known = sa.select(t.plans.c.hash).where(t.plans.c.hash == body["hash"])
    if connection.execute(known).first() is None:
        connection.execute(sa.insert(t.plans), row)
    connection.execute(sa.update(t.study).values(plan=body["hash"]))


def _tasks(connection: sa.Connection, body: Body, event: Body) -> None:
    columns = [column.name for column in t.tasks.columns]
    rows = [dict(zip(columns, row, strict=True)) for row in body["tasks"]]
    connection.execute(sa.insert(t.tasks), rows)
    wanted = [
        {"task": task, "device": device, "wanted": count, "valid": 0, "open": 0}
        for task, device, count in body["cells"]
    ]
    if wanted:
        connection.execute(sa.insert(t.cells), wanted)


def _state(connection: sa.Connection, body: Body, event: Body) -> None:
    connection.execute(sa.update(t.study).values(state=body["state"]))


def _invited(connection: sa.Connection, body: Body, event: Body) -> None:
    rows = [
        {"id": id, "role": body["role"], "label": body["label"], "made": event["at"]}
        for id in body["ids"]
    ]
    connection.execute(sa.insert(t.invitations), rows)


def _joined(connection: sa.Connection, body: Body, event: Body) -> None:
    row = {name: body[name] for name in ("session", "role", "language", "plan")}
    row |= {"id": event["person"], "joined": event["at"]}
    connection.execute(sa.insert(t.people), row)
    if body["invitation"]:
        used = sa.update(t.invitations).where(t.invitations.c.id == body["invitation"])
        connection.execute(used.values(person=event["person"]))


def _settled(connection: sa.Connection, body: Body, event: Body) -> None:
    """A person's device, condition, language or training result."""
    changed = sa.update(t.people).where(t.people.c.id == event["person"])
    connection.execute(changed.values(**body))


def _assigned(connection: sa.Connection, body: Body, event: Body) -> None:
    names = ("device", "condition", "role", "deadline", "plan")
    row = {name: body[name] for name in names}
    row |= {"id": body["batch"], "person": event["person"], "opened": event["at"]}
    connection.execute(sa.insert(t.batches), {**row, "state": "open", "reason": ""})
    rows = [
        {
            "id": trial,
            "batch": body["batch"],
            "place": place,
            "task": task,
            "answer": "",
            "flags": "",
            "counts": PENDING,
            "plan": body["plan"],
        }
        for place, (trial, task) in enumerate(body["trials"])
    ]
    connection.execute(sa.insert(t.trials), rows)
    for _, task in body["trials"]:
        _count(connection, task, body["device"], open=1)


def _answered(connection: sa.Connection, body: Body, event: Body) -> None:
    text = json.dumps(body["answer"])
    one = t.trials.c.id == body["trial"]
    flags = json.dumps(body["flags"])
    change = {"answered": event["at"], "answer": text, "flags": flags, "plan": body["plan"]}
    connection.execute(sa.update(t.trials).where(one).values(**change))
    earlier = sa.select(sa.func.count()).where(t.answers.c.trial == body["trial"])
    number = connection.execute(earlier).scalar_one()
    row = {"trial": body["trial"], "number": number, "at": event["at"], "answer": text}
    connection.execute(sa.insert(t.answers), row)
    if body["counts"] is not None:
        _settle(connection, body["trial"], body["counts"])
    if body["deadline"]:
        batch = sa.select(t.trials.c.batch).where(one).scalar_subquery()
        later = sa.update(t.batches).where(t.batches.c.id == batch)
        connection.execute(later.values(deadline=body["deadline"]))


def _stepped(connection: sa.Connection, body: Body, event: Body) -> None:
    row = {"trial": body["trial"], "number": body["number"], "at": event["at"]}
    connection.execute(sa.insert(t.steps), {**row, "step": json.dumps(body["step"])})


def _closed(connection: sa.Connection, body: Body, event: Body) -> None:
    """A batch that was finished, dropped or given back."""
    change = {"state": body["state"], "reason": body["reason"], "closed": event["at"]}
    one = t.batches.c.id == body["batch"]
    connection.execute(sa.update(t.batches).where(one).values(**change))
    for trial, counts in body["counts"]:
        _settle(connection, trial, counts)


def _revalidated(connection: sa.Connection, body: Body, event: Body) -> None:
    """Rules run again over finished batches."""
    for batch, state, reason in body["batches"]:
        one = sa.update(t.batches).where(t.batches.c.id == batch)
        connection.execute(one.values(state=state, reason=reason))
    for trial, flags, counts in body["trials"]:
        one = sa.update(t.trials).where(t.trials.c.id == trial)
        connection.execute(one.values(flags=json.dumps(flags)))
        _settle(connection, trial, counts)


def _erased(connection: sa.Connection, body: Body, event: Body) -> None:
    """Somebody withdrew: what they did is gone; their invitation must not work again."""
    used = sa.update(t.invitations).where(t.invitations.c.id == body["invitation"])
    connection.execute(used.values(person=""))


_RULES: Mapping[str, Callable[[sa.Connection, Body, Body], None]] = {
    "planned": _planned,
    "tasks": _tasks,
    "state": _state,
    "invited": _invited,
    "joined": _joined,
    "settled": _settled,
    "assigned": _assigned,
    "answered": _answered,
    "stepped": _stepped,
    "closed": _closed,
    "revalidated": _revalidated,
    "erased": _erased,
}


def erase_person(connection: sa.Connection, person: str) -> bool:
    """Delete a person's rows and give their places back; False where there is none."""
    known = sa.select(t.people.c.id).where(t.people.c.id == person)
    if connection.execute(known).first() is None:
        return False
    batches = sa.select(t.batches.c.id).where(t.batches.c.person == person)
    trials = sa.select(t.trials.c.id).where(t.trials.c.batch.in_(batches))
    for trial in connection.execute(trials).scalars().all():
        _settle(connection, trial, 0)
    for table in (t.answers, t.steps):
        connection.execute(sa.delete(table).where(table.c.trial.in_(trials)))
    connection.execute(sa.delete(t.trials).where(t.trials.c.batch.in_(batches)))
    connection.execute(sa.delete(t.batches).where(t.batches.c.person == person))
    connection.execute(sa.delete(t.people).where(t.people.c.id == person))
    return True


def _settle(connection: sa.Connection, trial: str, counts: int) -> None:
    """Let a trial count or not, and keep its cell's numbers right."""
    asked = (
        sa.select(t.trials.c.counts, t.trials.c.task, t.batches.c.device)
        .join(t.batches, t.batches.c.id == t.trials.c.batch)
        .where(t.trials.c.id == trial)
    )
    found = connection.execute(asked).first()
    if found is None or found.counts == counts:
        return
    opened = -1 if found.counts == PENDING else 0
    valid = (counts == 1) - (found.counts == 1)
    connection.execute(sa.update(t.trials).where(t.trials.c.id == trial).values(counts=counts))
    _count(connection, found.task, found.device, open=opened, valid=valid)


def _count(
    connection: sa.Connection, task: str, device: str, *, open: int = 0, valid: int = 0
) -> None:
    c = t.cells.c
    one = sa.update(t.cells).where(c.task == task, c.device == device)
    connection.execute(one.values(open=c.open + open, valid=c.valid + valid))
