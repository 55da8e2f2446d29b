"""Tasks: everything that a plan asks for, and how often."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.seeds import generator
from segmeter.study.plan import Plan
from segmeter.study.stimuli import Stimuli

_Wanted = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Task:
    """One target under one condition.

    `part` is `first` (the target), `fn` or `fp` (missing or extra area of a mask), or `mask`;
    `source` names the mask or model. `role` is `main`, `training` or `gold` (a check with a known
    answer). The `id` is random.
    """

    id: str
    scene: str
    target: str
    condition: str
    part: str
    source: str
    role: str
    place: int


def tasks_of(plan: Plan, stimuli: Stimuli) -> list[Task]:
    """All tasks of a plan; the order of the queue follows from the plan's seed."""
    for model in plan.design.models:
        catalogue.models.check(model)  # before any participant waits for it
    found = list(_wanted(plan, stimuli))
    if not found:
        raise BadInput("the plan leaves no target to show; check [data]")
    order = generator(plan.seed, "queue").permutation(len(found)).tolist()
    main = [_task(found[k], "main", place) for place, k in enumerate(order)]
    return main + list(_known(plan))


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


def _task(wanted: _Wanted, role: str, place: int) -> Task:
    scene, target, condition, part, source = wanted
    return Task(secrets.token_urlsafe(12), scene, target, condition, part, source, role, place)


def _known(plan: Plan) -> Iterator[Task]:
    """Practice and check trials, whose right answer is known."""
    if plan.kind == "rate":
        for role in ("training", "gold"):
            for place, each in enumerate(getattr(plan.rating, role)):
                wanted = (each.scene, each.target, each.masks, "mask", each.masks)
                yield _task(wanted, role, place)
        return
    roles = {"training": plan.design.practice, "gold": plan.design.checks}
    for role, names in roles.items():
        for place, name in enumerate(names):
            scene, _, target = name.rpartition("/")
            for condition in plan.conditions:
                source = condition if plan.kind == "interact" else ""
                yield _task((scene, target, condition, "first", source), role, place)


def _some(many: int, share: float, order: Sequence[int]) -> set[int]:
    """A share of the places, rounded up: ten per cent means at least ten per cent."""
    return set(order[: -int(-many * share // 1)])


def _wanted(plan: Plan, stimuli: Stimuli) -> Iterator[_Wanted]:
    """Scene, target, condition, part and source of every main task."""
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
                        yield scene, target, masks.name, "mask", masks.name
            case _ if f"{scene}/{target}" in known:
                continue
            case "clicks":
                yield from ((scene, target, mode.name, "first", "") for mode in plan.modes)
            case "interact":
                models = plan.design.models
                yield from ((scene, target, model, "first", model) for model in models)
            case _:
                for part, source in stimuli.errors_of(scene, target):
                    yield from ((scene, target, mode.name, part, source) for mode in plan.modes)
