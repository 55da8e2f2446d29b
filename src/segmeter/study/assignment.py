"""Assignment: who is shown what next, so that every cell fills evenly.

A cell is a task (scene, target, condition) on a device. The rarest cells come first, nobody
sees an image twice, and a batch that is not finished in time goes back.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from segmeter.core.seeds import generator
from segmeter.study import tables as t
from segmeter.study.ledger import Writing
from segmeter.study.plan import Plan

__all__ = ["Candidate", "assign", "choose", "choose_condition", "give_back_late"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that could be given, and how many have it or had it."""

    task: str
    scene: str
    target: str
    given: int
    place: int


def choose(
    candidates: Sequence[Candidate], many: int, *, unit: str, order: Sequence[float]
) -> list[Candidate]:
    """The rarest candidates, no two of one scene (or target); `order` breaks ties.

    >>> a, b = Candidate("a", "dog", "1", 2, 0), Candidate("b", "dog", "2", 1, 1)
    >>> [c.task for c in choose([a, b], 2, unit="scene", order=[0.1, 0.2])]
    ['b']
    """
    ranked = sorted(zip(candidates, order, strict=True), key=lambda pair: (pair[0].given, pair[1]))
    chosen: list[Candidate] = []
    seen: set[tuple[str, str]] = set()
    for candidate, _ in ranked:
        key = (candidate.scene, candidate.target if unit == "target" else "")
        if key not in seen:
            seen.add(key)
            chosen.append(candidate)
        if len(chosen) == many:
            break
    return chosen


def assign(work: Writing, plan: Plan, person: sa.RowMapping) -> str | None:
    """Give a person the next batch; None when there is nothing left for them."""
    device = cell_device(plan, person)
    training = _training(work.connection, plan, person)
    if training:
        return _give(work, plan, person, device, "training", training)
    if _has_enough(work.connection, plan, person["id"]):
        return None
    found = _candidates(work.connection, plan, person, device)
    rating = plan.kind == "rate"
    rng = generator(plan.seed, "order", person["id"], len(found))
    # Ratings come in the order of the queue, clicks in any.
    order = [float(c.place) for c in found] if rating else rng.random(len(found)).tolist()
    chosen = choose(found, plan.batch, unit="target" if rating else "scene", order=order)
    if not chosen:
        return None
    tasks = [candidate.task for candidate in chosen] + _gold(work.connection, plan, person)
    mixed = rng.permutation(len(tasks)).tolist()
    return _give(work, plan, person, device, "main", [tasks[k] for k in mixed])


def cell_device(plan: Plan, person: sa.RowMapping) -> str:
    """Which cells a person fills: those of their device, of all, or of testers."""
    if person["role"] == "tester":
        return "tester"
    return "any" if plan.kind == "rate" else str(person["device"])


def choose_condition(connection: sa.Connection, plan: Plan, device: str) -> str:
    """The condition that is farthest from full; people who have begun nothing count too."""
    c, given = t.tasks.c, t.cells.c.valid + t.cells.c.open
    asked = (
        sa.select(c.condition, sa.func.sum(given), sa.func.sum(t.cells.c.wanted))
        .join(t.cells, t.cells.c.task == c.id)
        .where(t.cells.c.device == device, c.role == "main")
        .group_by(c.condition)
    )
    filled = {row[0]: (row[1], row[2]) for row in connection.execute(asked)}
    begun = sa.select(t.batches.c.person)
    waiting = (
        sa.select(t.people.c.condition, sa.func.count())
        .where(t.people.c.device == device, t.people.c.id.not_in(begun))
        .group_by(t.people.c.condition)
    )
    idle = {row[0]: row[1] for row in connection.execute(waiting)}

    def fullness(name: str) -> float:
        have, wanted = filled.get(name, (0, 0))
        return (have + plan.batch * idle.get(name, 0)) / wanted if wanted else float("inf")

    return min(plan.conditions, key=lambda name: (fullness(name), plan.conditions.index(name)))


def give_back_late(work: Writing, now: float | None = None) -> int:
    """Close the batches whose time is over; their places can be given again."""
    moment = time.time() if now is None else now
    late = sa.select(t.batches.c.id, t.batches.c.person).where(
        t.batches.c.state == "open", t.batches.c.deadline < moment
    )
    found = work.connection.execute(late).all()
    for batch, person in found:
        open = sa.select(t.trials.c.id).where(t.trials.c.batch == batch, t.trials.c.counts == -1)
        counts = [[trial, 0] for trial in work.connection.execute(open).scalars()]
        body = {"batch": batch, "state": "returned", "reason": "time", "counts": counts}
        work.record("closed", body, person)
    return len(found)


def _give(
    work: Writing, plan: Plan, person: sa.RowMapping, device: str, role: str, tasks: Sequence[str]
) -> str:
    batch = secrets.token_urlsafe(16)
    body = {
        "batch": batch,
        "device": device if role == "main" else "training",
        "condition": person["condition"] or "",
        "role": role,
        "deadline": time.time() + 60 * plan.lease_minutes,
        "plan": plan.hash,
        "trials": [[secrets.token_urlsafe(16), task] for task in tasks],
    }
    work.record("assigned", body, person["id"])
    return batch


def _training(connection: sa.Connection, plan: Plan, person: sa.RowMapping) -> list[str]:
    """The training tasks, for somebody who has not passed yet."""
    if not plan.rating.training or person["passed"] or person["role"] == "tester":
        return []
    asked = sa.select(t.tasks.c.id).where(t.tasks.c.role == "training").order_by(t.tasks.c.place)
    return list(connection.execute(asked).scalars())


def _gold(connection: sa.Connection, plan: Plan, person: sa.RowMapping) -> list[str]:
    """One mask with a known answer for a rater's batch, each in turn."""
    if not plan.rating.gold or person["role"] == "tester":
        return []
    b = t.batches.c
    had = sa.select(sa.func.count()).where(b.person == person["id"], b.role == "main")
    turn = connection.execute(had).scalar_one() % len(plan.rating.gold)
    asked = sa.select(t.tasks.c.id).where(t.tasks.c.role == "gold", t.tasks.c.place == turn)
    return list(connection.execute(asked).scalars())


def _has_enough(connection: sa.Connection, plan: Plan, person: str) -> bool:
    if not plan.batches_per_person:
        return False
    b = t.batches.c
    done = sa.select(sa.func.count()).where(b.person == person, b.role == "main", b.state == "done")
    return bool(connection.execute(done).scalar_one() >= plan.batches_per_person)


def _candidates(
    connection: sa.Connection, plan: Plan, person: sa.RowMapping, device: str
) -> list[Candidate]:
    """Tasks with room in the person's cells, without what they have seen."""
    seen = (
        sa.select(t.tasks.c.scene, t.tasks.c.id)
        .join(t.trials, t.trials.c.task == t.tasks.c.id)
        .join(t.batches, t.batches.c.id == t.trials.c.batch)
        .where(t.batches.c.person == person["id"], t.tasks.c.role == "main")
    ).subquery()
    given = t.cells.c.valid + t.cells.c.open
    asked = (
        sa.select(t.tasks.c.id, t.tasks.c.scene, t.tasks.c.target, given, t.tasks.c.place)
        .join(t.cells, t.cells.c.task == t.tasks.c.id)
        .where(t.cells.c.device == device, given < t.cells.c.wanted, t.tasks.c.role == "main")
        .order_by(t.tasks.c.place)
    )
    if plan.kind == "rate":
        asked = asked.where(t.tasks.c.id.not_in(sa.select(seen.c.id)))
    else:
        asked = asked.where(t.tasks.c.scene.not_in(sa.select(seen.c.scene)))
    if plan.fixed:
        asked = asked.where(t.tasks.c.condition == person["condition"])
    return [Candidate(*row) for row in connection.execute(asked)]
