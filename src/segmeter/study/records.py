"""Records: queries and changes of a study's rows, each inside a caller's transaction."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import sqlalchemy as sa

from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.grouping import grouped_pairs
from segmeter.study import database as db
from segmeter.study.assignment import Task, cells_of, tasks_of
from segmeter.study.plan import Plan, parse_plan
from segmeter.study.stimuli import Stimuli
from segmeter.study.validity import answer_flags, conclude

Row = sa.RowMapping


class Refused(SegmeterError):
    """A request that is refused; `status` is the HTTP status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status

    @property
    def sentence(self) -> str:
        """For a page: with a capital and a full stop.

        >>> Refused(403, "log in first").sentence
        'Log in first.'
        """
        why = str(self)
        return f"{why[:1].upper()}{why[1:]}."


def hashed(token: str) -> str:
    """The digest of a secret token, which is stored instead of it."""
    return hashlib.sha256(token.encode()).hexdigest()


def steps_of(
    connection: sa.Connection, trial: str, *, all_kinds: bool = False
) -> list[dict[str, Any]]:
    """The steps of a trial in their order; those that were taken back are left out."""
    a = db.answers.c
    asked = sa.select(a.kind, a.at, a.body).where(a.trial == trial, a.kind != "answer")
    every: list[dict[str, Any]] = []
    standing: list[dict[str, Any]] = []
    for kind, at, body in connection.execute(asked.order_by(a.number)):
        every.append({**json.loads(body), "kind": kind, "at": at, "undone": False})
        if kind == "undo":
            standing.pop()["undone"] = True
        else:
            standing.append(every[-1])
    return every if all_kinds else standing


def store(
    connection: sa.Connection, plan: Plan, task: Row, kind: str, body: Any, at: float
) -> None:
    """Append an answer, a step or an undo to a trial; its batch may stay open longer."""
    row = {"trial": task["id"], "kind": kind, "at": at, "body": json.dumps(body)}
    connection.execute(sa.insert(db.answers), row)
    later = at + 60 * plan.design.lease_minutes
    db.change(connection, db.batches, task["batch"], deadline=later)


def server_ms_since_last(connection: sa.Connection, task: Row, now: float) -> float:
    """Milliseconds since the last step of a trial, or since the answer before it."""
    last = sa.select(sa.func.max(db.answers.c.at)).where(db.answers.c.trial == task["id"])
    at = connection.execute(last).scalar() or last_answer(connection, task["batch"])
    return float(1000 * (now - at))


# Queries


def open_batch(connection: sa.Connection, person: str) -> str | None:
    b = db.batches.c
    asked = sa.select(b.id).where(b.person == person, b.state == "open", b.deadline > time.time())
    return connection.execute(asked).scalar()


def late_batches(connection: sa.Connection) -> Sequence[Row]:
    late = (db.batches.c.state == "open", db.batches.c.deadline <= time.time())
    return connection.execute(sa.select(db.batches).where(*late)).mappings().all()


def answered_questions(connection: sa.Connection, person: str) -> set[str]:
    r = db.responses.c
    return set(connection.execute(sa.select(r.question).where(r.person == person)).scalars())


def own_batch(connection: sa.Connection, person: str, batch: str) -> Row:
    found = db.find(connection, db.batches, id=batch, person=person)
    if found is None:
        raise Refused(404, "there is no such batch")
    return found


def _with_tasks() -> sa.Select[Any]:
    t, b = db.tasks.c, db.batches.c
    task = (t.scene, t.target, t.part, t.source, t.condition)
    named = (t.role.label("task_role"), t.place.label("task_place"))
    batch = (b.state, b.role, b.deadline, b.opened)
    return sa.select(db.trials, *task, *named, *batch).select_from(db.ALL)


def own_trial(connection: sa.Connection, person: str, trial: str) -> Row:
    asked = _with_tasks().where(db.trials.c.id == trial, db.batches.c.person == person)
    found = connection.execute(asked).mappings().first()
    if found is None:
        raise Refused(404, "there is no such trial")
    return found


def trials_of(connection: sa.Connection, batch: str) -> Sequence[Row]:
    asked = _with_tasks().where(db.trials.c.batch == batch).order_by(db.trials.c.place)
    return connection.execute(asked).mappings().all()


def left(connection: sa.Connection, batch: str) -> int:
    """How many trials of a batch have no answer."""
    return db.count(connection, db.trials.c.batch == batch, db.trials.c.answered.is_(None))


def first_open(connection: sa.Connection, batch: str) -> str | None:
    c = db.trials.c
    asked = sa.select(c.id).where(c.batch == batch, c.answered.is_(None)).order_by(c.place)
    return connection.execute(asked.limit(1)).scalar()


def last_answer(connection: sa.Connection, batch: str) -> float:
    """When the last answer of a batch came, or when the batch was opened."""
    c = db.trials.c
    last = connection.execute(sa.select(sa.func.max(c.answered)).where(c.batch == batch)).scalar()
    opened = sa.select(db.batches.c.opened).where(db.batches.c.id == batch)
    return float(last or connection.execute(opened).scalar_one())


def stored(connection: sa.Connection, trial: str) -> dict[str, Any] | None:
    """The valid answer of a trial."""
    a = db.answers.c
    asked = sa.select(a.body).where(a.trial == trial, a.kind == "answer")
    found = connection.execute(asked.order_by(a.number.desc()).limit(1)).scalar()
    return None if found is None else dict(json.loads(found))


# Changes


def show_again(connection: sa.Connection, plan: Plan, batch: str) -> None:
    """A page was loaded again: the trial that was open is shown a second time."""
    first = first_open(connection, batch)
    if first is not None:
        db.change(connection, db.trials, first, shown_again=db.trials.c.shown_again + 1)
    db.change(connection, db.batches, batch, deadline=time.time() + 60 * plan.design.lease_minutes)


def close(connection: sa.Connection, plan: Plan, batch: Row, returned: bool = False) -> None:
    """End a batch: decide which of its answers count."""
    rows = trials_of(connection, batch["id"])
    flags = [json.loads(row["flags"]) if row["flags"] else None for row in rows]
    if batch["role"] == "training":
        right = sum(bool(each and each["right"]) for each in flags) / len(flags)
        passed = right >= plan.rating.pass_mark and not returned
        reason = "" if passed else f"practice: {math.floor(100 * right)} % right"
        state, counts = ("done" if passed else "dropped"), [0] * len(rows)
        state = "returned" if returned else state
        db.change(connection, db.people, batch["person"], passed=passed)
    else:
        roles = [row["task_role"] for row in rows]
        state, reason, counts = conclude(plan, roles, flags, returned)
    db.change(connection, db.batches, batch["id"], state=state, reason=reason, closed=time.time())
    for row, each in zip(rows, counts, strict=True):
        db.settle(connection, row["id"], each)
    if batch["role"] == "training" and state == "dropped":
        b = db.batches.c
        failed = (b.person == batch["person"], b.state == "dropped", b.role == "training")
        if db.count(connection, *failed) >= plan.validity.practice_tries:
            db.change(connection, db.people, batch["person"], state="screened_out")


def revalidate(connection: sa.Connection, plan: Plan, stimuli: Stimuli) -> int:
    """Apply a plan's rules to all closed batches; returns how many trials changed."""
    b = db.batches.c
    asked = sa.select(db.batches).where(b.state != "open", b.role == "main")
    changed = 0
    for batch in connection.execute(asked).mappings().all():
        rows = trials_of(connection, batch["id"])
        bodies = [stored(connection, row["id"]) for row in rows]
        flags = [
            None if body is None else answer_flags(plan, stimuli, row, body)
            for row, body in zip(rows, bodies, strict=True)
        ]
        roles = [row["task_role"] for row in rows]
        state, reason, counts = conclude(plan, roles, flags, batch["state"] == "returned")
        for row, each, count in zip(rows, flags, counts, strict=True):
            text = "" if each is None else json.dumps(each)
            if count != row["counts"] or text != row["flags"]:
                db.change(connection, db.trials, row["id"], flags=text)
                db.settle(connection, row["id"], count)
                changed += 1
        db.change(connection, db.batches, batch["id"], state=state, reason=reason)
    return changed


# For the conductor


def progress(connection: sa.Connection) -> dict[str, Any]:
    """Counts now: `cells` by condition and device, `dropped` the last dropped batches."""
    b, c, cell = db.batches.c, db.cells.c, (db.tasks.c.condition, db.cells.c.device)
    sums = [sa.func.sum(c[name]).label(name) for name in ("wanted", "valid", "open")]
    ends = sa.func.min(c.valid).label("least"), sa.func.max(c.valid).label("most")
    counts = sa.select(*cell, sa.func.count().label("targets"), *sums, *ends).join(db.tasks)
    cells = db.rows(connection, counts.group_by(*cell).order_by(*cell))
    dropped = sa.select(b.person, b.device, b.condition, b.state, b.reason, b.closed)
    dropped = dropped.where(b.state.in_(["dropped", "returned"])).order_by(b.closed.desc())
    states = sa.select(db.batches.c.state, sa.func.count()).group_by(db.batches.c.state)
    batches = {row[0]: row[1] for row in connection.execute(states)}
    used = db.count(connection, db.invitations.c.person.is_not(None))
    return {
        "state": connection.execute(sa.select(db.study.c.state)).scalar_one(),
        "people": db.count(connection, db.people.c.number >= 0),
        "working": batches.get("open", 0),
        **{name: sum(cell[name] for cell in cells) for name in ("wanted", "valid", "open")},
        "batches": batches,
        "cells": cells,
        "dropped": db.rows(connection, dropped.limit(20)),
        "seconds": _seconds(connection),
        "invitations": (used, db.count(connection, db.invitations.c.made > 0)),
    }


def heat_targets(connection: sa.Connection, most: int = 24) -> list[dict[str, Any]]:
    """The targets with the most clicks so far."""
    asked = (
        sa.select(db.tasks.c.scene, db.tasks.c.target, sa.func.count().label("clicks"))
        .join(db.trials)
        .where(db.trials.c.answered.is_not(None), db.tasks.c.role != "training")
        .group_by(db.tasks.c.scene, db.tasks.c.target)
        .order_by(sa.func.count().desc(), db.tasks.c.scene, db.tasks.c.target)
        .limit(most)
    )
    return db.rows(connection, asked)


def clicks_on(connection: sa.Connection, scene: str, target: str) -> list[tuple[int, int]]:
    """Pixels `(y, x)` that were clicked on a target."""
    last = db.latest_answers()
    asked = sa.select(last.c.body).select_from(db.ALL.join(last, last.c.trial == db.trials.c.id))
    asked = asked.where(db.tasks.c.scene == scene, db.tasks.c.target == target)
    given = [json.loads(text)["given"] for text in connection.execute(asked).scalars()]
    return [(int(each["y"]), int(each["x"])) for each in given if "x" in each]


def _seconds(connection: sa.Connection) -> list[dict[str, Any]]:
    """Median seconds per answer, by condition: latency of clicks, else the server's time."""
    last = db.latest_answers()
    asked = sa.select(db.tasks.c.condition, last.c.body).where(db.tasks.c.role != "training")
    asked = asked.select_from(db.ALL.join(last, last.c.trial == db.trials.c.id))
    bodies = grouped_pairs((name, json.loads(text)) for name, text in connection.execute(asked))
    seconds = {
        name: [b["given"].get("latency_ms", b["server"]["total_ms"]) / 1000 for b in some]
        for name, some in sorted(bodies.items())
    }
    return [
        {"condition": name, "answers": len(values), "median": float(np.median(values))}
        for name, values in seconds.items()
    ]


# Plans


def begin_or_resume(connection: sa.Connection, plan: Plan, stimuli: Stimuli) -> None:
    """Write the tasks into a new database, or check that the plan may follow the last one."""
    current = connection.execute(sa.select(db.study.c.plan)).scalar_one()
    if current == plan.hash:
        return
    if current:
        text = sa.select(db.plans.c.text).where(db.plans.c.hash == current)
        before = parse_plan(str(connection.execute(text).scalar_one()), plan.folder)
        if _fixed_part(before) != _fixed_part(plan):
            raise BadInput(
                "the plan's design differs from the one this database was begun with; texts, "
                "questions, [validity], per_cell and limits of time may change, for anything else "
                "begin a new study with another --db"
            )
    if not db.count(connection, db.plans.c.hash == plan.hash):
        row = {"hash": plan.hash, "text": plan.text, "since": time.time()}
        connection.execute(sa.insert(db.plans), row)
    connection.execute(sa.update(db.study).values(plan=plan.hash))
    if not current:
        tasks = tasks_of(plan, stimuli)
        connection.execute(sa.insert(db.tasks), [asdict(task) for task in tasks])
        _set_cells(connection, plan, tasks)
        connection.execute(sa.update(db.study).values(state="open"))
        return
    rows = connection.execute(sa.select(db.tasks).order_by(db.tasks.c.place)).mappings()
    _set_cells(connection, plan, [Task(**row) for row in rows])
    if before.validity != plan.validity:
        revalidate(connection, plan, stimuli)


def _set_cells(connection: sa.Connection, plan: Plan, tasks: Sequence[Task]) -> None:
    """Write how many answers every cell needs; counters of cells that exist stay."""
    c = db.cells.c
    have = {(row.task, row.device) for row in connection.execute(sa.select(c.task, c.device))}
    new = []
    for task, device, wanted in cells_of(plan, tasks):
        if (task, device) in have:
            one = sa.update(db.cells).where(c.task == task, c.device == device)
            connection.execute(one.values(wanted=wanted))
        else:
            cell = {"task": task, "device": device, "wanted": wanted, "valid": 0, "open": 0}
            new.append(cell)
    if new:
        connection.execute(sa.insert(db.cells), new)


_MAY_CHANGE = {
    "title", "languages", "words", "texts", "consent_boxes", "validity", "recruiting", "questions",
    "questionnaires",
}  # fmt: skip
_MAY_CHANGE_IN = {
    "design": {
        "per_cell", "batches_per_person", "start_minutes", "lease_minutes", "open_to_all", "quotas",
    },
    "rating": {"pilot", "overlap", "spot_checks"},
}  # fmt: skip


def _fixed_part(plan: Plan) -> dict[str, Any]:
    """A plan without what may change while a study runs."""
    found = plan.model_dump(exclude=_MAY_CHANGE)
    for table, names in _MAY_CHANGE_IN.items():
        found[table] = {key: v for key, v in found[table].items() if key not in names}
    return found
