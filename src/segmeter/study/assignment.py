"""Assignment: all tasks of a plan, which condition a participant gets, which tasks come next.

A cell is a task (scene, target, condition) on a device. The rarest cells come first, no
participant sees an image twice, and an abandoned batch is assigned again. All draws follow from
the plan's seed and the participant's number, both of which are exported.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

import sqlalchemy as sa

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.seeds import generator
from segmeter.study import database as db
from segmeter.study.plan import Plan
from segmeter.study.stimuli import Stimuli

Person = sa.RowMapping | Mapping[str, Any]
Candidate = Any
"""A task that could be given, as a row, and how many participants have it (`given`)."""


@dataclass(frozen=True, slots=True)
class Task:
    """One target under one condition.

    `part` is `first` (the target), `fn` or `fp` (missing or extra area of a mask), or `mask`;
    `source` names the mask or model. `role` is `main`, `training` or `gold` (a check with a known
    answer).
    """

    scene: str
    target: str
    condition: str
    part: str
    source: str = ""
    role: str = "main"
    place: int = 0
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))


def tasks_of(plan: Plan, stimuli: Stimuli) -> list[Task]:
    """All tasks of a plan; the order of the queue follows from the plan's seed."""
    for model in plan.design.models:
        catalogue.models.check(model)  # before any participant waits for it
    found = list(_wanted(plan, stimuli))
    if not found:
        raise BadInput("the plan leaves no target to show; check [data]")
    order = generator(plan.seed, "queue").permutation(len(found)).tolist()
    return [replace(found[k], place=place) for place, k in enumerate(order)] + list(_known(plan))


def cells_of(plan: Plan, tasks: Sequence[Task]) -> list[tuple[str, str, int]]:
    """`(task, device, wanted)` of every cell.

    Ratings: `pilot` per mask, one more for the share that overlaps, and a tester's for the share
    that is spot-checked.
    """
    main = [task for task in tasks if task.role == "main"]
    if plan.kind != "rate":
        devices, wanted = plan.design.devices, plan.design.per_cell
        return [(task.id, device, wanted) for task in main for device in devices]
    rng = generator(plan.seed, "overlap")
    twice = _some(len(main), plan.rating.overlap, rng.permutation(len(main)).tolist())
    checked = _some(len(main), plan.rating.spot_checks, rng.permutation(len(main)).tolist())
    cells = []
    for k, task in enumerate(main):
        again = 1 if k in twice and plan.rating.pilot == 1 else 0
        cells.append((task.id, "any", plan.rating.pilot + again))
        if k in checked:
            cells.append((task.id, "tester", 1))
    return cells


def _known(plan: Plan) -> Iterator[Task]:
    """Practice and check trials, whose right answer is known."""
    if plan.kind == "rate":
        for role in ("training", "gold"):
            for place, each in enumerate(getattr(plan.rating, role)):
                masks = each.masks
                yield Task(each.scene, each.target, masks, "mask", masks, role, place)
        return
    roles = {"training": plan.design.practice, "gold": plan.design.checks}
    for role, names in roles.items():
        for place, name in enumerate(names):
            scene, _, target = name.rpartition("/")
            for condition in plan.conditions:
                source = condition if plan.kind == "interact" else ""
                yield Task(scene, target, condition, "first", source, role, place)


def _some(many: int, share: float, order: Sequence[int]) -> set[int]:
    """A share of the places, rounded up: ten per cent means at least ten per cent."""
    return set(order[: ceil(round(many * share, 9))])  # 100 * 0.07 is 7.000000000000001


def _wanted(plan: Plan, stimuli: Stimuli) -> Iterator[Task]:
    """Every main task."""
    known = {*plan.design.practice, *plan.design.checks}
    references = (*plan.rating.training, *plan.rating.gold)
    scored = {(each.scene, each.target, each.masks) for each in references}
    for scene, target in stimuli.targets():
        match plan.kind:
            case "rate":
                for masks in plan.masks:
                    key = (scene, target, masks.name)
                    # A mask with a known score is never rated as a main task, too.
                    if not masks.rated or key in scored:
                        continue
                    if stimuli.rated_mask(scene, target, masks.name) is not None:
                        yield Task(scene, target, masks.name, "mask", masks.name)
            case _ if f"{scene}/{target}" in known:
                continue
            case "clicks":
                yield from (Task(scene, target, mode.name, "first") for mode in plan.modes)
            case "interact":
                models = plan.design.models
                yield from (Task(scene, target, model, "first", model) for model in models)
            case _:
                for part, source in stimuli.errors_of(scene, target):
                    names = (mode.name for mode in plan.modes)
                    yield from (Task(scene, target, name, part, source) for name in names)


def latin_square(size: int) -> list[list[int]]:
    """Rows of a square balanced for first-order carry-over (Williams 1949).

    Every number is once in every row and column, and follows every other equally often; an odd
    size needs twice as many rows.

    >>> latin_square(4)
    [[0, 1, 3, 2], [1, 2, 0, 3], [2, 3, 1, 0], [3, 0, 2, 1]]
    >>> len(latin_square(3))
    6
    """
    first = [0]
    for k in range(1, size):
        first.append((first[-1] + (k if k % 2 else -k)) % size)
    rows = [[(value + shift) % size for value in first] for shift in range(size)]
    return rows if size % 2 == 0 or size == 1 else rows + [row[::-1] for row in rows]


def choose(
    candidates: Sequence[Candidate],
    many: int,
    *,
    unit: str,
    order: Sequence[float],
    conditions: Sequence[str] = (),
) -> list[Candidate]:
    """The rarest candidates, no two of one scene (or target); `order` breaks ties.

    `conditions`, if given, has the condition of each place in turn.

    >>> from types import SimpleNamespace as Row
    >>> a, b = (Row(id=i, scene="dog", condition="m", given=n) for i, n in (("a", 2), ("b", 1)))
    >>> [c.id for c in choose([a, b], 2, unit="scene", order=[0.1, 0.2])]
    ['b']
    """
    ranked = sorted(zip(candidates, order, strict=True), key=lambda pair: (pair[0].given, pair[1]))
    left = [candidate for candidate, _ in ranked]
    chosen: list[Candidate] = []
    while left and len(chosen) < many:
        wanted = conditions[len(chosen) % len(conditions)] if conditions else ""
        found = next((c for c in left if c.condition == wanted), left[0])
        chosen.append(found)
        left = [
            c
            for c in left
            if c.scene != found.scene or (unit == "target" and c.target != found.target)
        ]
    return chosen


def choose_condition(connection: sa.Connection, plan: Plan, device: str) -> str:
    """The condition of the next participant on a device, by the plan's rule of assignment."""
    people, names = db.people.c, list(plan.conditions)
    number = db.count(connection, people.device == device, people.condition.is_not(None))
    need = _need(connection, plan, device)
    if plan.design.assignment != "random":
        block, place = divmod(number, len(names))
        if plan.design.assignment == "latin-square":
            square = latin_square(len(names))
            row = square[block % len(square)]
        else:
            row = generator(plan.seed, "block", device, block).permutation(len(names)).tolist()
        if need[names[row[place]]] > 0:
            return names[row[place]]
    left = [max(0.0, need[name]) for name in names]
    if not any(left):
        left = [1.0] * len(names)
    rng = generator(plan.seed, "condition", device, number)
    return names[int(rng.choice(len(names), p=[each / sum(left) for each in left]))]


def _need(connection: sa.Connection, plan: Plan, device: str) -> dict[str, float]:
    """Answers that each condition still lacks; participants who have not begun count as a batch."""
    c, cells = db.tasks.c, db.cells.c
    asked = (
        sa.select(c.condition, sa.func.sum(cells.wanted - cells.valid - cells.open))
        .join(db.cells)
        .where(cells.device == device, c.role == "main")
        .group_by(c.condition)
    )
    need = dict.fromkeys(plan.conditions, 0.0)
    need |= {row[0]: float(row[1]) for row in connection.execute(asked)}
    begun = sa.select(db.batches.c.person)
    waiting = (
        sa.select(db.people.c.condition, sa.func.count())
        .where(db.people.c.device == device, db.people.c.id.not_in(begun))
        .group_by(db.people.c.condition)
    )
    for name, count in connection.execute(waiting):
        if name in need:
            need[name] -= count * plan.design.batch
    return need


def ended_batches(connection: sa.Connection, person: str) -> int:
    b = db.batches.c
    ended = b.state.in_(["done", "dropped"])
    return db.count(connection, b.person == person, b.role == "main", ended)


def unproven_batches(connection: sa.Connection) -> list[str]:
    """Open batches without a single answer that is free of flags: they may be abandoned."""
    good = sa.select(db.trials.c.batch).where(db.trials.c.flags.contains('"bad": []'))
    asked = sa.select(db.batches.c.id).where(
        db.batches.c.state == "open", db.batches.c.id.not_in(good)
    )
    return list(connection.execute(asked).scalars())


@dataclass(frozen=True, slots=True)
class NextWork:
    """The next work of one person; reservations in the batches `ignored` do not count as taken."""

    connection: sa.Connection
    plan: Plan
    person: Person
    ignored: Collection[str] = ()

    def offer(self) -> dict[str, Any]:
        """The work now: `work`, `full` (others hold all places) or `done`."""
        role, tasks = self._next()
        if tasks:
            return {"state": "work", "count": len(tasks), "training": role == "training"}
        held = not self._has_enough() and self._candidates(count_open=False)
        return {"state": "full" if held else "done"}

    def assign(self) -> str | None:
        """Reserve the next batch; None if there is nothing for this person now."""
        role, tasks = self._next()
        return self._reserve(role, tasks) if tasks else None

    def _next(self) -> tuple[str, list[str]]:
        """Practice for those who have not passed it, else the next tasks."""
        trained = self.plan.rating.training or self.plan.design.practice
        if trained and not self.person["passed"] and self.person["role"] != "tester":
            practice = [row["id"] for row in self._known_tasks("training").values()]
            if practice:
                return "training", practice
        return "main", [] if self._has_enough() else self._chosen()

    def _chosen(self) -> list[str]:
        """The tasks of the next batch in their order, checks included."""
        plan, person, b = self.plan, self.person, db.batches.c
        rating = plan.kind == "rate"
        turn = db.count(self.connection, b.person == person["id"], b.role == "main")
        check = self._check(turn)
        found = [
            c
            for c in self._candidates()
            if check is None
            or c.scene != check["scene"]
            or (rating and c.target != check["target"])
        ]
        rng = generator(plan.seed, "order", person["number"], turn)
        # Ratings come in the order of the queue, clicks in any.
        order = [float(c.place) for c in found] if rating else rng.random(len(found)).tolist()
        conditions: list[str] = []
        if not plan.fixed and plan.design.assignment == "latin-square" and not rating:
            square = latin_square(len(plan.conditions))
            row = square[person["number"] % len(square)]
            conditions = [plan.conditions[k] for k in row]
        unit, many = "target" if rating else "scene", plan.design.batch
        picked = choose(found, many, unit=unit, order=order, conditions=conditions)
        if not picked:
            return []
        tasks = [candidate.id for candidate in picked]
        if not conditions:
            tasks = [tasks[k] for k in rng.permutation(len(tasks)).tolist()]
        if check is not None:
            tasks.insert(int(rng.integers(len(tasks) + 1)), check["id"])
        return tasks

    def _reserve(self, role: str, tasks: Sequence[str]) -> str:
        batch, now, plan, person = secrets.token_urlsafe(16), time.time(), self.plan, self.person
        row = {"id": batch, "person": person["id"], "role": role, "state": "open", "reason": ""}
        row |= {"device": self._device if role == "main" else "training", "plan": plan.hash}
        row |= {"condition": person["condition"] or "", "opened": now}
        row |= {"deadline": now + 60 * plan.design.start_minutes, "closed": None}
        self.connection.execute(sa.insert(db.batches), row)
        trial = {"batch": batch, "flags": "", "counts": db.PENDING, "shown_again": 0}
        trials = [
            {**trial, "plan": plan.hash, "id": secrets.token_urlsafe(16), "place": k, "task": task}
            for k, task in enumerate(tasks)
        ]
        self.connection.execute(sa.insert(db.trials), trials)
        own = db.cells.c.task.in_(tasks) & (db.cells.c.device == row["device"])
        self.connection.execute(sa.update(db.cells).where(own).values(open=db.cells.c.open + 1))
        return batch

    @property
    def _device(self) -> str:
        """The cells that a person fills: those of their device, of all devices, or of testers."""
        if self.person["role"] == "tester":
            return "tester"
        return "any" if self.plan.kind == "rate" else str(self.person["device"])

    def _known_tasks(self, role: str) -> dict[int, sa.RowMapping]:
        """Practice or check tasks by place, in the participant's own condition."""
        c = db.tasks.c
        asked = sa.select(db.tasks).where(c.role == role).order_by(c.place, c.condition)
        if self.person["condition"]:
            asked = asked.where(c.condition == self.person["condition"])
        found: dict[int, sa.RowMapping] = {}
        for row in self.connection.execute(asked).mappings():
            found.setdefault(row["place"], row)
        return found

    def _check(self, turn: int) -> sa.RowMapping | None:
        """One check for a batch, each in turn; none is shown twice."""
        many = len(self.plan.rating.gold) or len(self.plan.design.checks)
        if turn >= many or self.person["role"] == "tester":
            return None
        return self._known_tasks("gold").get((self.person["number"] + turn) % many)

    def _has_enough(self) -> bool:
        most = self.plan.design.batches_per_person
        return bool(most) and ended_batches(self.connection, self.person["id"]) >= most

    def _candidates(self, *, count_open: bool = True) -> Sequence[Candidate]:
        """Tasks with room in the person's cells, without what they have seen.

        `given` counts the answers that are valid and the places that are held, except in `ignored`.
        """
        tasks, cells, trials = db.tasks.c, db.cells.c, db.trials.c
        own = tasks.id if self.plan.kind == "rate" else tasks.scene
        seen = sa.select(own).select_from(db.ALL).where(db.batches.c.person == self.person["id"])
        given: sa.ColumnElement[Any] = cells.valid + cells.open if count_open else cells.valid
        if count_open and self.ignored:
            freed = (
                sa.select(sa.func.count())
                .select_from(db.trials.join(db.batches))
                .where(
                    trials.task == cells.task,
                    trials.counts == db.PENDING,
                    trials.batch.in_(self.ignored),
                    db.batches.c.device == cells.device,
                )
            )
            given = given - freed.correlate(db.cells).scalar_subquery()
        asked = (
            sa.select(db.tasks, given.label("given"))
            .join(db.cells)
            .where(cells.device == self._device, tasks.role == "main")
            .where(own.not_in(seen), given < cells.wanted)
            .order_by(tasks.place)
        )
        if self.plan.fixed and self.person["role"] != "tester":
            asked = asked.where(tasks.condition == self.person["condition"])
        return self.connection.execute(asked).all()
