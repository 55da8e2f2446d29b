"""Tasks: everything that a plan wants answered, and how often."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.seeds import generator
from segmeter.study.plan import Plan
from segmeter.study.stimuli import Stimuli

__all__ = ["Task", "cells_of", "tasks_of"]


_Wanted = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to be answered under one condition.

    `part` is `first` (the target), `fn` or `fp` (what a mask misses or has too much), or
    `mask`; `source` says whose mask. Its `id` is random and the only name people's
    browsers could ever learn.
    """

    id: str
    scene: str
    target: str
    condition: str
    part: str
    source: str
    role: str
    place: int

    def row(self) -> list[str | int]:
        return [getattr(self, name) for name in self.__slots__]


def tasks_of(plan: Plan, stimuli: Stimuli) -> list[Task]:
    """All tasks of a plan, the queue in an order that the plan's seed decides."""
    for model in plan.models:
        catalogue.models.check(model)  # while nobody waits for it
    found = list(_wanted(plan, stimuli))
    if not found:
        raise BadInput("the plan leaves no target to show; look at [data]")
    order = generator(plan.seed, "queue").permutation(len(found)).tolist()
    main = [_task(found[k], place) for place, k in enumerate(order)]
    with_answers = [
        Task(secrets.token_urlsafe(12), r.scene, r.target, r.masks, "mask", r.masks, role, place)
        for role, references in plan.rating.known.items()
        for place, r in enumerate(references)
    ]
    return main + with_answers


def _task(wanted: _Wanted, place: int) -> Task:
    scene, target, condition, part, source = wanted
    id = secrets.token_urlsafe(12)
    return Task(id, scene, target, condition, part, source, "main", place)


def cells_of(plan: Plan, tasks: Sequence[Task]) -> list[tuple[str, str, int]]:
    """`(task, device, wanted)` of every cell.

    Ratings: one per job, one more for the share that overlaps, and a tester's for the share
    that is checked.
    """
    main = [task for task in tasks if task.role == "main"]
    if plan.kind != "rate":
        return [(task.id, device, plan.per_cell) for task in main for device in plan.devices]
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


def _some(many: int, share: float, order: Sequence[int]) -> set[int]:
    """A share of the places, rounded up: ten per cent means at least ten per cent."""
    return set(order[: -int(-many * share // 1)])


def _wanted(plan: Plan, stimuli: Stimuli) -> Iterator[_Wanted]:
    """Scene, target, condition, part and source of everything asked for."""
    for scene, target in stimuli.targets():
        match plan.kind:
            case "clicks":
                yield from ((scene, target, mode.name, "first", "") for mode in plan.modes)
            case "interact":
                yield from ((scene, target, model, "first", model) for model in plan.models)
            case "rate":
                for masks in plan.masks:
                    if stimuli.rated_mask(scene, target, masks.name) is not None:
                        yield scene, target, masks.name, "mask", masks.name
            case _:
                for part, source in stimuli.errors_of(scene, target):
                    yield from ((scene, target, mode.name, part, source) for mode in plan.modes)
