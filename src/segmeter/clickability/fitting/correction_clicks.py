"""Correction clicks: the prior's numbers for clicks of later rounds, on an error region.

The study showed people, per target, the best mask of several models that was not yet good. Those
masks are not published, only statistics of the clicks on them. The same choice is made here with
available models and images (proxy errors). Distributions are compared, never single targets, and
error regions are matched by kind and size.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from segmeter.clickability.fitting.first_clicks import KeyStatistics, Shape, expect, shape_of
from segmeter.clickability.groups import draw_corrected
from segmeter.clickability.maps import Numbers, prior
from segmeter.core.error_regions import error_regions
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Model, Request, render
from segmeter.core.prompts import Click
from segmeter.core.scenes import Scene
from segmeter.datasets.image_files import named_errors
from segmeter.measures.objects import iou

SMALLEST_PX = 10
_CLICKS = 12  # tried on each target
# People were shown the best mask up to this IoU: beyond it they would stop.
_GOOD_ENOUGH = 0.95
_NEIGHBOURS = 5
_EPSILON = 1e-9
_FOLDS = 10
# A spread of two box sides is hardly a pull to the middle; more cannot be told from it.
_WIDEST = 2.0
_MOST = {"spread": _WIDEST, "sloppy": 1.0}
_LEVELS = (np.arange(50) + 0.5) / 50
_STATISTICS = ("gain", "nearer", "inside")
Values = npt.NDArray[np.float64]


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


def proxy_errors_of(model: Model, scene: Scene, rng: np.random.Generator) -> list[ProxyError]:
    """Error regions that a model leaves after one likely click, as the study chose its own."""
    encoded = model.encode(scene)
    found = []
    for target in scene.targets:
        map = prior(target.mask)
        points = [draw_corrected(map, (0.0, 1.0), rng.random(), 0) for _ in range(_CLICKS)]
        requests = [Request((Click(point, True),)) for point in points if point is not None]
        predictions = render(encoded, encoded.predict(requests))
        unfinished = [g for g in predictions if iou(target.mask, g) <= _GOOD_ENOUGH]
        if not unfinished:
            continue
        best = max(unfinished, key=lambda prediction: iou(target.mask, prediction))
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
    with named_errors(path, "holds no error regions of models, remove it"), gzip.open(path) as file:
        return [
            ProxyError(row["scene"], row["kind"], Mask.from_coco(row["mask"]), (height, width))
            for row in json.load(file)
            for height, width in [row["sides"]]
        ]


@dataclass(frozen=True, slots=True)
class Recovered:
    """Published facts about an unpublished error region: its size, and three statistics.

    `nearer` is the ratio of PL1 to clicks by depth and PL1 to uniform clicks: the sides of the
    object, which both are measured in, drop out.
    """

    kind: str
    share: float
    inside: float
    gain: float
    nearer: float


@dataclass(frozen=True, slots=True)
class CorrectionFit:
    """Numbers for later rounds, and the distributions of what was seen and predicted.

    `errors` are relative standard errors by leaving out a tenth of keys and proxy errors at a
    time; jitter is taken over from the first round and has none.
    """

    numbers: Numbers
    errors: Numbers
    seen: Mapping[str, Values]
    predicted: Mapping[str, Values]
    proxy_errors: int
    keys: int

    def apart(self, name: str) -> float:
        """Distance of the two distributions by quantiles, in standard deviations."""
        return _apart(self.seen[name], self.predicted[name])

    def interval(self, name: str) -> tuple[float, float]:
        """95 % interval, on the log scale."""
        value, error = getattr(self.numbers, name), getattr(self.errors, name)
        low, high = value * math.exp(-1.96 * error), value * math.exp(1.96 * error)
        return low, min(high, _MOST[name]) if name in _MOST else high


def recovered(seen: Sequence[KeyStatistics], pixels: Mapping[str, int]) -> list[Recovered]:
    """Later-round keys with what can be recovered; `pixels` are the images' sizes by stem."""
    later = (row for row in seen if row.kind in ("fn", "fp"))
    found = (recover(row, pixels[_stem(row.key, pixels)]) for row in later)
    return [row for row in found if row is not None]


def recover(seen: KeyStatistics, pixels: int) -> Recovered | None:
    """Size of the error region and share of clicks on it, from NSS and PDE of the uniform map.

    Both are functions of these two alone: `nss = (pde - 1/N) / sqrt(1/(A N) - 1/N^2)`.
    """
    if seen.nss_uniform <= 0:
        return None
    deviation = (seen.pde_uniform - 1 / pixels) / seen.nss_uniform - _EPSILON
    area = 1 / (pixels * (deviation**2 + 1 / pixels**2))
    inside = seen.pde_uniform * area
    if not SMALLEST_PX <= area < pixels or inside > 1.05:
        return None
    nearer = seen.pl1_depth / seen.pl1_uniform
    return Recovered(seen.kind, area / pixels, min(1.0, inside), seen.pde_depth * area, nearer)


def fit_correction_clicks(
    seen: Sequence[Recovered], proxy_errors: Sequence[ProxyError], start: Numbers
) -> CorrectionFit:
    """The parameters for which the distributions of the three statistics are closest.

    Each key is matched with the proxy errors of its kind that are nearest in size. The
    size of the jitter stays that of the first round, where masks were available.
    """
    kinds = {s.kind for s in proxy_errors}
    if not seen or any(s.kind not in kinds for s in seen):
        raise BadInput(
            "later rounds need error regions of both kinds, false negatives and false positives"
        )
    shapes = [shape_of(s.mask, s.sides) for s in proxy_errors]
    begin = np.log([start.depth, start.spread, start.sloppy])
    best = _nearest(seen, proxy_errors, shapes, begin, start, tries=200)
    # Without every tenth scene: error regions of one scene go together.
    order = {name: i for i, name in enumerate(dict.fromkeys(s.scene for s in proxy_errors))}
    folds = []
    for fold in range(_FOLDS):
        others = [s for i, s in enumerate(seen) if i % _FOLDS != fold]
        kept = [i for i, s in enumerate(proxy_errors) if order[s.scene] % _FOLDS != fold]
        left = [proxy_errors[i] for i in kept], [shapes[i] for i in kept]
        folds.append(_nearest(others, *left, best, start, tries=60))
    spread = np.sqrt((_FOLDS - 1) / _FOLDS * ((np.array(folds) - best) ** 2).sum(axis=0))
    numbers = _numbers(best, start)
    errors = Numbers(*np.append(spread, 0.0).tolist())
    values = {name: np.array([getattr(s, name) for s in seen]) for name in _STATISTICS}
    predicted = _predicted(shapes, numbers, _matched(seen, proxy_errors))
    return CorrectionFit(numbers, errors, values, predicted, len(proxy_errors), len(seen))


def _nearest(
    seen: Sequence[Recovered],
    proxy_errors: Sequence[ProxyError],
    shapes: Sequence[Shape],
    begin: Values,
    start: Numbers,
    tries: int,
) -> Values:
    from scipy.optimize import minimize

    matched = _matched(seen, proxy_errors)
    targets = {name: np.array([getattr(s, name) for s in seen]) for name in _STATISTICS}

    def distance(logs: Values) -> float:
        if logs[2] > 0 or logs[1] > math.log(_WIDEST):
            return math.inf
        predicted = _predicted(shapes, _numbers(logs, start), matched)
        return sum(_apart(targets[name], predicted[name]) for name in targets)

    found = minimize(distance, begin, method="Nelder-Mead", options={"maxfev": tries})
    return np.asarray(found.x, dtype=np.float64)


def _numbers(logs: Values, start: Numbers) -> Numbers:
    return Numbers(*np.append(np.exp(logs), start.jitter).tolist())


def _matched(seen: Sequence[Recovered], proxy_errors: Sequence[ProxyError]) -> npt.NDArray[np.intp]:
    """For each key the proxy errors of its kind that are nearest in size, by ratio."""
    sizes = np.log([m.share for m in proxy_errors])
    kinds = np.array([m.kind for m in proxy_errors])
    rows = []
    for key in seen:
        away = np.abs(sizes - math.log(key.share)) + np.where(kinds == key.kind, 0.0, 1e6)
        rows.append(np.argsort(away, kind="stable")[:_NEIGHBOURS])
    return np.concatenate(rows)


def _predicted(
    shapes: Sequence[Shape], numbers: Numbers, matched: npt.NDArray[np.intp]
) -> dict[str, Values]:
    predicted = [expect(shape, numbers) for shape in shapes]
    values = {
        "gain": np.array([t.gain for t in predicted]),
        "nearer": np.array([t.pl1_depth / t.pl1_uniform for t in predicted]),
        "inside": np.array([t.inside for t in predicted]),
    }
    return {name: column[matched] for name, column in values.items()}


def _apart(seen: Values, predicted: Values) -> float:
    """Mean gap of fifty quantiles, in standard deviations of the seen one."""
    gap = np.abs(np.quantile(seen, _LEVELS) - np.quantile(predicted, _LEVELS)).mean()
    return float(gap / seen.std())


def _stem(key: str, stems: Mapping[str, int]) -> str:
    """The image of a key such as `21077_ritm_fn`: the longest known name it starts with."""
    parts = key.split("_")
    for end in range(len(parts), 0, -1):
        name = "_".join(parts[:end])
        if name in stems:
            return name
    raise BadInput(f"the table's key '{key}' names no available image")
