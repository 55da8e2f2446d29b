"""Sessions of benchmarks with users: run those of a scene, one row per round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import fields
from itertools import combinations, product
from operator import attrgetter
from time import perf_counter
from typing import Any

import numpy as np

from segmeter.core.benchmarks import Row, RunOption
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import SimulatedSession, Trajectory, simulate
from segmeter.core.masks import Mask
from segmeter.core.measures import mask_measure
from segmeter.core.models import EncodedScene, Model, Request, in_protocol, render
from segmeter.core.plans import Plan
from segmeter.core.prompts import Click, MaskHint, kind_of, round_to_json
from segmeter.core.rows import RESPONSES
from segmeter.core.scenes import Scene, Target, Volume
from segmeter.core.seeds import generator
from segmeter.core.sessions import Round
from segmeter.core.users import User
from segmeter.measures.judging import judge_by
from segmeter.measures.obedience import Response, responses
from segmeter.measures.objects import iou
from segmeter.users.starts import starts_of


def simulate_scene(
    model: Model, scene: Scene, plan: Plan, users: Sequence[User], **options: Any
) -> Iterator[tuple[Trajectory, Row]]:
    """Encode once and simulate every target with every user in every protocol, together.

    Yields every row with its trajectory. `options` go to `simulate`: `until` ends a session once
    the scores of a round satisfy it; in the first `oracle_rounds` every candidate is judged.
    """
    encoded, seconds_encode = timed_encode(model, scene)
    sessions = [
        SimulatedSession(target, user, protocol, start=start)
        for target, starts in zip(scene.targets, starts_of(scene, plan, model), strict=True)
        for user in users
        for protocol in plan.protocols
        for start in starts
    ]
    for record in run_sessions(scene, encoded, sessions, plan, **options):
        for row in rows_of(scene, record, seconds_encode, plan.keep_masks):
            yield record, row


def run_sessions(
    scene: Scene,
    encoded: EncodedScene,
    sessions: Sequence[SimulatedSession],
    plan: Plan,
    rounds: int | None = None,
    **options: Any,
) -> list[Trajectory]:
    """Simulate sessions together, judged by the plan's measures; `options` go to `simulate`.

    If the plan requests it, the clicks of whole sessions are also given in other orders.
    """
    judge = judge_by(plan.measures, scene.header.spacing_mm, plan.options)
    threads = ThreadPoolExecutor(plan.threads) if plan.threads > 1 else nullcontext()
    with threads as pool:  # for the users' own arithmetic
        records = simulate(
            scene, encoded, sessions, rounds or plan.rounds, judge, seed=plan.seed, pool=pool,
            **options,
        )  # fmt: skip
    if rounds is None and plan.options.get("consistency"):
        for record in records:
            record.consistency = consistency(scene, encoded, record, plan.seed)
    return records


CONSISTENCY = RunOption(
    "consistency", bool, None, "Also give each session's clicks in other orders, and the last one "
    "moved.",
)  # fmt: skip
_ORDERS, _JITTER = 3, (-2, 0, 2)  # further orders of clicks; moves of the last, in pixels


def consistency(
    scene: Scene, encoded: EncodedScene, record: Trajectory, seed: int
) -> dict[str, float]:
    """Whether the mask for a session's clicks, given at once, depends on their order and place.

    Mean pairwise IoU over the order of the session and three drawn ones; mean IoU with the masks
    for a last click moved by 2 pixels without leaving the region of its label, and their spread
    of IoU with the target. Empty where other prompts than clicks were given.
    """
    simulated = record.simulated
    prompts = [prompt for made in record.rounds for prompt in made.prompts]
    clicks = [prompt for prompt in prompts if isinstance(prompt, Click)]
    if not clicks or len(clicks) < len(prompts):
        return {}
    target = simulated.target
    rng = generator(seed, scene.dataset, scene.id, target.id, simulated.user.name, "order")
    orders = [[clicks[i] for i in rng.permutation(len(clicks))] for _ in range(_ORDERS)]
    moved = [(*clicks[:-1], near) for near in _near(clicks[-1], target.mask)]
    start = simulated.start.mask if simulated.start else None
    hint = (MaskHint(start),) if start else ()
    seen = in_protocol(encoded, simulated.protocol)
    requests = [Request((*hint, *given)) for given in (clicks, *orders, *moved)]
    masks = render(seen, seen.predict(requests))
    found = {}
    if len(clicks) > 1:
        pairs = combinations(masks[: 1 + _ORDERS], 2)
        found["order_iou"] = float(np.mean([iou(a, b) for a, b in pairs]))
    if moved:
        others = masks[1 + _ORDERS :]
        right = [_iou(target, mask) for mask in (masks[0], *others)]
        found["jitter_iou"] = float(np.mean([iou(masks[0], mask) for mask in others]))
        found["jitter_spread"] = max(right) - min(right)
    return found


def _near(click: Click, mask: Mask) -> Iterator[Click]:
    *before, y, x = click.point
    for dy, dx in product(_JITTER, repeat=2):
        point = (*before, y + dy, x + dx)
        inside = all(0 <= c < n for c, n in zip(point, mask.shape, strict=True))
        pixel = tuple(round(c) for c in point)
        if (dy or dx) and inside and mask[pixel] == click.positive:
            yield Click(point, click.positive)


def timed_encode(model: Model, scene: Scene) -> tuple[EncodedScene, float]:
    start = perf_counter()
    try:
        encoded = model.encode(scene)
    except BadInput as error:
        if isinstance(scene, Volume) and "volume" not in model.card.abilities:
            raise BadInput(f"{error}; evaluate volumes with 'segmeter run volumes'") from error
        raise
    return encoded, perf_counter() - start


_counts = attrgetter(*(field.name for field in fields(Response)))


def rows_of(
    scene: Scene, record: Trajectory, seconds_encode: float, keep_masks: bool
) -> Iterator[Row]:
    """One row per round."""
    simulated = record.simulated
    start = None if simulated.start is None else simulated.start.mask
    head: Row = {
        "user": simulated.name,
        "protocol": simulated.protocol,
        "seconds_encode": seconds_encode,
        "start_from": simulated.start.source if simulated.start else None,
        "start_mask_iou": None if start is None else _iou(simulated.target, start),
        **target_columns(scene, simulated.target),
    }
    given = [(made.prompts, made.mask) for made in record.rounds]
    found = responses(given, simulated.target.ignore, start or None)
    last = max((made.number for made in record.rounds if made.prompts), default=0)
    for made, response in zip(record.rounds, found, strict=True):
        mask = made.mask.encoded() if keep_masks else None
        more = record.consistency if made.number == last else {}
        obeyed = dict(zip(RESPONSES, _counts(response), strict=True))
        yield head | _round_columns(made) | obeyed | more | {"mask": mask}


def _iou(target: Target, mask: Mask) -> float:
    return float(mask_measure("iou")(target.mask, mask, target.ignore))


def _extent(target: Target) -> dict[str, int | None]:
    """How large a target is and how long its outline, in edges of pixels and in contour pixels."""
    mask = target.mask
    if len(mask.shape) != 2:
        return {"area": mask.area, "outline_px": None, "contour_px": None}
    inside = np.pad(mask.bits.astype(np.int8), 1)
    edges = sum(int(np.count_nonzero(np.diff(inside, axis=axis))) for axis in (0, 1))
    contour = whole_path(target)
    return {"area": mask.area, "outline_px": edges, "contour_px": int(contour)}


def whole_path(target: Target, spacing_mm: Sequence[float] | None = None) -> float:
    """The length of a target's contour in the unit of `redrawn-path`: the cost of drawing it."""
    redrawn = mask_measure("redrawn-path", spacing_mm)
    return redrawn(target.mask, Mask.empty(target.mask.shape), target.ignore)


def target_columns(scene: Scene, target: Target) -> Row:
    return {
        "target": target.id,
        "cluster": target.groups.get("image", scene.id),
        "label": target.label,
        "groups": dict(target.groups),
        **target.mask.derived(("extent", target.ignore), lambda: _extent(target)),
        "shape": list(scene.shape),
    }


def mask_of(row: Row, shape: tuple[int, ...]) -> Mask:
    """The mask that a row keeps; BadInput if it is not one of the scene's shape.

    The row's own `shape` is not used: a run may claim any.
    """
    try:
        return Mask.decoded(row["mask"], shape)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise BadInput(f"the mask of {row['scene']}, {row['target']} is damaged") from error


def _round_columns(made: Round) -> dict[str, Any]:
    alone = made.prompts[0] if len(made.prompts) == 1 else None
    click = alone if isinstance(alone, Click) else None
    return {
        "round": made.number,
        "kinds": "+".join(kind_of(prompt) for prompt in made.prompts),
        "prompt": round_to_json(made.prompts),
        "z": None if click is None or len(click.point) < 3 else float(click.point[-3]),
        "y": None if click is None else float(click.point[-2]),
        "x": None if click is None else float(click.point[-1]),
        "positive": None if click is None else click.positive,
        **made.scores,
        "score": made.model_score,
        "mask_index": made.mask_index,
        "mask_fed_back": made.mask_fed_back,
        "stopped": made.stopped,
        "batch_size": made.batch_size,
        "seconds_predict": made.seconds_predict,
        "seconds_user": made.seconds_user,
    }
