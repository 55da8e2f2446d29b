"""Extremes of the first click without the attack: every click, a search, real people."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segmeter.benchmarks.sessions import judge_by, target_columns
from segmeter.benchmarks.tetris.clickmap import ScoreMap, click_map, score_prompts
from segmeter.core.benchmarks import Row
from segmeter.core.differentiable import Differentiable
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Request, render
from segmeter.core.plans import Plan
from segmeter.core.prompts import Click, Prompt, to_json
from segmeter.core.scenes import Scene, Target
from segmeter.core.seeds import fingerprint
from segmeter.core.users import Observation
from segmeter.users.click_search import search
from segmeter.users.gradient_attack import Direction

if TYPE_CHECKING:
    from segmeter.benchmarks.tetris import Settings

__all__ = ["extreme_rows", "map_of", "people_rows", "probed"]

DIRECTIONS: tuple[Direction, ...] = ("worst", "best")

_LARGEST_MAP = 1 << 28
_DAMAGED = (ValueError, KeyError, IndexError, TypeError, OSError, EOFError, OverflowError,
            MemoryError, SyntaxError, RuntimeError, NotImplementedError, zipfile.BadZipFile,
            zlib.error)  # fmt: skip


def probed(scene: Scene, settings: Settings) -> bool:
    """Whether a scene is among those clicked everywhere; by its name, so the same always."""
    draw = int(fingerprint("probed", scene.name, size=4), 16) / 16**8
    return draw < settings.exhaustive


def extreme_rows(
    encoded: EncodedScene, scene: Scene, plan: Plan, settings: Settings, seconds_encode: float
) -> Iterator[Row]:
    """The worst and the best of every `stride`-th first click, and what a search finds.

    For a model without a gradient the attack is the search already.
    """
    for target in scene.targets:
        found = click_map(encoded, target, int(settings.stride))
        for direction in DIRECTIONS:
            point, _ = found.extreme(worst=direction == "worst")
            kept = {"map": packed(found)} if direction == "worst" else {"map": None}
            user = f"{direction}-of-all"
            yield _row(encoded, scene, target, plan, user, point, seconds_encode) | kept
        if isinstance(encoded, Differentiable):
            nothing = Mask.empty(scene.shape)
            observation = Observation(scene, target, nothing, (), "corrected", encoded)
            for attempt, direction in zip(
                search([observation] * 2, DIRECTIONS), DIRECTIONS, strict=True
            ):
                assert attempt is not None  # an empty mask leaves something to click
                user = f"{direction}-click-search"
                row = _row(encoded, scene, target, plan, user, attempt.click.point, seconds_encode)
                yield row | {"tries": len(attempt.trials)}


def people_rows(
    encoded: EncodedScene, scene: Scene, plan: Plan, settings: Settings, seconds_encode: float
) -> Iterator[Row]:
    """Scores of each recorded first click; all of a target in one row."""
    from segmeter.users.replay import open_clicks, recorded

    file, first_rounds = open_clicks(Path(settings.clicks))
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
        row = _row(encoded, scene, target, plan, "people", point, seconds_encode)
        yield row | {"people": json.dumps(people)}


def packed(found: ScoreMap) -> bytes:
    """A map in few bytes: IoU in half precision, where it begins, and its stride."""
    file = io.BytesIO()
    np.savez_compressed(
        file, iou=found.iou.astype(np.float16), low=np.array(found.low), stride=found.stride
    )
    return file.getvalue()


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


def _row(
    encoded: EncodedScene,
    scene: Scene,
    target: Target,
    plan: Plan,
    user: str,
    point: tuple[float, ...],
    seconds_encode: float,
) -> Row:
    """A session of one positive click."""
    click = Click(point)
    mask = render(encoded, encoded.predict([Request((click,))]))[0]
    return {
        "user": user,
        "protocol": "corrected",
        **target_columns(scene, target),
        "seconds_encode": seconds_encode,
        "round": 1,
        "kinds": "click",
        "prompt": to_json(click),
        "y": float(point[0]),
        "x": float(point[1]),
        "positive": True,
        **judge_by(plan.measures)(target, mask),
        "mask": mask.encoded() if plan.keep_masks else None,
    }
