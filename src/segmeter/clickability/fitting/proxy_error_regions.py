"""Proxy errors: errors of real models in place of the unpublished error regions.

The study showed people, per target, the best mask of several models that was not yet good;
those masks are not published. The same choice is made here with models and images at hand.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.clickability.groups import draw_corrected
from segmeter.clickability.prior import prior
from segmeter.core.error_regions import error_regions
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Model, Request, render
from segmeter.core.prompts import Click
from segmeter.core.scenes import Scene

__all__ = [
    "SMALLEST_PX",
    "ProxyError",
    "proxy_errors_of",
    "read_proxy_errors",
    "write_proxy_errors",
]

SMALLEST_PX = 10
# People were shown the best mask up to this IoU: beyond it they would stop.
_GOOD_ENOUGH = 0.95


@dataclass(frozen=True, slots=True)
class ProxyError:
    """A real model's false negatives (`fn`) or positives (`fp`), and its object's sides."""

    scene: str
    kind: str
    mask: Mask
    sides: tuple[int, int]

    @property
    def share(self) -> float:
        """The error region's share of the image."""
        return self.mask.area / math.prod(self.mask.shape)


def proxy_errors_of(
    model: Model, scene: Scene, rng: np.random.Generator, clicks: int = 12
) -> list[ProxyError]:
    """Error regions that a model leaves after one likely click, as the study chose its own."""
    encoded = model.encode(scene)
    found = []
    for target in scene.targets:
        map = prior(target.mask)
        points = [draw_corrected(map, (0.0, 1.0), rng.random(), 0) for _ in range(clicks)]
        requests = [Request((Click(point, True),)) for point in points if point is not None]
        predictions = render(encoded, encoded.predict(requests))
        unfinished = [g for g in predictions if _iou(target.mask, g) <= _GOOD_ENOUGH]
        if not unfinished:
            continue
        best = max(unfinished, key=lambda prediction: _iou(target.mask, prediction))
        sides = (target.mask.bits.shape[0], target.mask.bits.shape[1])
        found += [
            ProxyError(scene.name, kind, wrong, sides)
            for kind, wrong in zip(("fn", "fp"), error_regions(target, best), strict=True)
            if wrong.area >= SMALLEST_PX
        ]
    return found


def write_proxy_errors(path: Path, found: Sequence[ProxyError]) -> None:
    """Keep proxy errors, so that the models need not run again."""
    rows = [
        {"scene": s.scene, "kind": s.kind, "mask": s.mask.to_coco(), "sides": s.sides}
        for s in found
    ]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(rows, file)


def read_proxy_errors(path: Path) -> list[ProxyError]:
    """Proxy errors kept by `write_proxy_errors`."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows = json.load(file)
        return [_proxy_error(row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"'{path}' holds no error regions of models: {error}; remove it") from None


def _proxy_error(row: Mapping[str, Any]) -> ProxyError:
    height, width = row["sides"]
    return ProxyError(
        row["scene"], row["kind"], Mask.from_coco(row["mask"]), (int(height), int(width))
    )


def _iou(ground_truth: Mask, prediction: Mask) -> float:
    both = ground_truth.overlap(prediction)
    return both / max(1, ground_truth.area + prediction.area - both)
