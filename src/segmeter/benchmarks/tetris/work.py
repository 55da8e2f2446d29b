"""One scene: the centre click's session, and the attacks on it in both directions at once.

In `corrected` the attacks are bound by the centre click's session: an attack whose greedy
choices led to the wrong side of it continues from a copy of that session. So after
every click of every object Min <= Base <= Max. `published` lets them drift, as the authors'
code does, and needs a gradient; models without one are attacked in `corrected` only. Boxes are
attacked within human-like jitter of the tight one.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.benchmarks.tetris.click_response import (
    ScoreMap,
    click_response_map,
    score_prompts,
    shift_map,
)
from segmeter.core import catalogue
from segmeter.core.benchmarks import Row
from segmeter.core.capabilities import Differentiable
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import Bound, SimulatedSession, Trajectory
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Model, ProtocolName, Request, render
from segmeter.core.plans import Plan
from segmeter.core.prompts import Click, Prompt, to_json
from segmeter.core.scenes import Scene, Target
from segmeter.core.seeds import fingerprint
from segmeter.core.users import Observation, User
from segmeter.measures.judging import judge_by
from segmeter.users.adversary import Adversary, Attempt, Attempts, Direction, search
from segmeter.users.box_prompts import AdversarialBox
from segmeter.users.simulation import rows_of, run_sessions, target_columns, timed_encode

BASES = ("centre-click", "tight-box")


def work(model: Model, scene: Scene, plan: Plan) -> list[Row]:
    """Encode once; run base and attacks together, then use what is known of the first click."""
    encoded, seconds_encode = timed_encode(model, scene)
    attempts: Attempts = {}
    users = [catalogue.users.make(spec) for spec in plan.users]
    sessions = simulated_sessions(scene, encoded, users, plan.protocols, attempts)
    records = run_sessions(scene, encoded, sessions, plan)

    def tried(simulated: SimulatedSession, number: int) -> Row:
        key = simulated.user.name, simulated.target.id, simulated.protocol, number
        return _tried(attempts.get(key))

    def single(target: Target, user: str, point: tuple[float, ...]) -> Row:
        """A session of one positive click."""
        mask = render(encoded, encoded.predict([Request((Click(point),))]))[0]
        return {
            "user": user,
            "protocol": "corrected",
            **target_columns(scene, target),
            "seconds_encode": seconds_encode,
            "round": 1,
            "kinds": "click",
            "prompt": to_json(Click(point)),
            "y": float(point[0]),
            "x": float(point[1]),
            "positive": True,
            **judge_by(plan.measures)(target, mask),
            "mask": mask.encoded() if plan.keep_masks else None,
            "inherited": False,
            "diagonal_px": diagonal_px(target),
        }

    rows = attacked_rows(scene, records, seconds_encode, plan, tried)
    # Scenes that are clicked everywhere are drawn by their names, so they are always the same.
    if int(fingerprint("probed", scene.name, size=4), 16) / 16**8 < plan.options["exhaustive"]:
        rows += extreme_rows(encoded, scene, plan.options["stride"], single)
    if plan.options["clicks"]:
        rows += people_rows(encoded, scene, Path(plan.options["clicks"]), single)
    return rows


def box_work(model: Model, scene: Scene, plan: Plan) -> list[Row]:
    """Encode once; run the tight, the worst and the best box, then move the tight one."""
    if "box" not in model.card.abilities:
        raise BadInput(f"model '{model.card.name}' takes no boxes; leave it out")
    encoded, seconds = timed_encode(model, scene)
    users = [catalogue.users.make(spec) for spec in plan.users]
    sessions = simulated_sessions(scene, encoded, users, plan.protocols, {})
    records = run_sessions(scene, encoded, sessions, plan)
    maps = {t.id: shift_map(encoded, t).iou.astype("<f4").tobytes() for t in scene.targets}

    def shifts(simulated: SimulatedSession, number: int) -> Row:
        return {"shifts": maps[simulated.target.id]}

    return attacked_rows(scene, records, seconds, plan, shifts)


def attacked_rows(
    scene: Scene,
    records: Sequence[Trajectory],
    seconds_encode: float,
    plan: Plan,
    more: Callable[[SimulatedSession, int], Row],
) -> list[Row]:
    """Rows of sessions; `more` are the columns of a session and round that the attack adds."""
    return [
        row
        | {"inherited": happened.inherited, "diagonal_px": diagonal_px(record.simulated.target)}
        | more(record.simulated, happened.number)
        for record in records
        for row, happened in zip(
            rows_of(scene, record, seconds_encode, plan.keep_masks), record.rounds, strict=True
        )
    ]


def diagonal_px(target: Target) -> float:
    return math.hypot(*target.mask.bits.shape)


def simulated_sessions(
    scene: Scene,
    encoded: EncodedScene,
    users: Sequence[User],
    protocols: Sequence[ProtocolName],
    attempts: Attempts,
) -> list[SimulatedSession]:
    """All users of a scene; attacks by boxes, and in `corrected` all, are bound by the base.

    What adversaries try is kept in `attempts`.
    """
    slope = isinstance(encoded, Differentiable)
    ordered = sorted(users, key=lambda u: u.name not in BASES)
    keeping = [replace(u, kept=attempts) if isinstance(u, Adversary) else u for u in ordered]
    made: list[SimulatedSession] = []
    for target, protocol in product(scene.targets, protocols):
        leader = len(made)
        for user in keeping:
            bound = None
            if isinstance(user, Adversary) and protocol != "corrected":
                if not slope or user.by == "search":
                    continue
            elif isinstance(user, Adversary | AdversarialBox):
                bound = Bound(leader, "below" if user.direction == "worst" else "above")
            made.append(SimulatedSession(target, user, protocol, bound))
    return made


def _tried(attempt: Attempt | None) -> dict[str, Any]:
    """Start of the attack, and every click it tried: y, x, IoU, BIoU, fair, accepted."""
    if attempt is None:
        return {}
    trials = [
        [round(t.point[0], 3), round(t.point[1], 3), round(t.iou, 5), round(t.boundary_iou, 5),
         int(t.fair), int(t.accepted)]
        for t in attempt.trials
    ]  # fmt: skip
    first, text = attempt.trials[0], json.dumps(trials, separators=(",", ":"))
    y, x = map(float, first.point[:2])
    return {"start_y": y, "start_x": x, "start_iou": first.iou, "trials": text}


DIRECTIONS: tuple[Direction, ...] = ("worst", "best")


Single = Callable[[Target, str, tuple[float, ...]], Row]
"""Makes the row of one click on a target, by its user."""


def extreme_rows(encoded: EncodedScene, scene: Scene, stride: int, single: Single) -> Iterator[Row]:
    """The worst and the best of every `stride`-th first click, and what a search finds.

    For a model without a gradient the attack is the search already.
    """
    for target in scene.targets:
        found = click_response_map(encoded, target, stride)
        worst, best = (found.extreme(worst=worst)[0] for worst in (True, False))
        yield single(target, "worst-of-all", worst) | {"map": packed(found)}
        yield single(target, "best-of-all", best)
        if isinstance(encoded, Differentiable):
            nothing = Mask.empty(scene.shape)
            observation = Observation(scene, target, nothing, (), "corrected", encoded)
            attempts = search([observation] * 2, DIRECTIONS)
            for attempt, direction in zip(attempts, DIRECTIONS, strict=True):
                assert attempt is not None  # an empty mask leaves something to click
                row = single(target, f"{direction}-click-search", attempt.click.point)
                yield row | {"tries": len(attempt.trials)}


def people_rows(encoded: EncodedScene, scene: Scene, clicks: Path, single: Single) -> Iterator[Row]:
    """Scores of each recorded first click; all of a target in one row."""
    from segmeter.users.replay import open_clicks, recorded

    file, first_rounds = open_clicks(clicks)
    shape = (scene.shape[0], scene.shape[1])
    for target in scene.targets:
        places = recorded(first_rounds, scene.dataset, scene.id, target.id)
        if not len(places):
            continue
        points = np.clip(file.scaled(places, shape), 0, np.array(shape) - 1)
        prompts: list[Prompt] = [Click((float(y), float(x))) for y, x in points]
        scores = score_prompts(encoded, target, prompts)
        people = np.column_stack([points, scores]).round(5).tolist()
        middle = int(np.argsort(scores[:, 0], kind="stable")[len(scores) // 2])
        point = (float(points[middle, 0]), float(points[middle, 1]))
        yield single(target, "people", point) | {"people": json.dumps(people)}


def packed(found: ScoreMap) -> bytes:
    """A map in few bytes: IoU in half precision, where it begins, and its stride."""
    file, iou = io.BytesIO(), found.iou.astype(np.float16)
    np.savez_compressed(file, iou=iou, low=np.array(found.low), stride=found.stride)
    return file.getvalue()


_LARGEST_MAP = 1 << 28
_DAMAGED = (ValueError, KeyError, IndexError, TypeError, OSError, EOFError, OverflowError,
            MemoryError, SyntaxError, RuntimeError, NotImplementedError, zipfile.BadZipFile,
            zlib.error)  # fmt: skip


def map_of(data: bytes) -> tuple[Any, tuple[int, int], int]:
    """Unpack a map: IoU `(rows, columns)`, the first pixel, the stride."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            if sum(entry.file_size for entry in packed.infolist()) > _LARGEST_MAP:
                raise ValueError("it is too large for an image")
        with np.load(io.BytesIO(data), allow_pickle=False) as held:
            low, iou = held["low"], held["iou"].astype(np.float64)
            if iou.ndim != 2:
                raise ValueError("a map has rows and columns")
            return iou, (int(low[0]), int(low[1])), int(held["stride"])
    except _DAMAGED as error:
        raise BadInput(f"column 'map' cannot be unpacked ({error})") from error
