"""First clicks: the click prior calibrated on the published statistics of real ones.

The tables of RClicks hold, for each target, statistics measured at about 48 real clicks.
Each is a mean of known functions of the clicks, so the fit compares what a prior predicts
with what was seen, weighing every target by the sampling noise that the prior itself implies
plus a variance between targets. Whole datasets are held out in turn.

The statistics are NSS and PDE of the uniform and of the distance map, and the mean distance (PL1)
to clicks drawn from each: a prior predicts them exactly, without a draw. A `Shape` keeps a target
on a coarse grid, fast enough for fitting.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.clickability.map_sources import scores_by_key, source
from segmeter.clickability.maps import REACH, Numbers, depth_px, distance
from segmeter.clickability.training.samples import TrainingSample, samples_of
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import Dataset
from segmeter.datasets.groups import read_table
from segmeter.datasets.image_files import named_errors
from segmeter.datasets.recorded_clicks import Clicks

Grid = npt.NDArray[np.float32]
Places = npt.NDArray[np.float64]
_CELLS = 72
# Added to sum and deviation by the original, see segmeter.measures.clickability_maps.
_EPSILON = 1e-9
# Published click counts over targets: 185 349 first-round clicks, about 48 each.
CLICKS = 48
# Clicks that miss the object are clustered by person; this widens their binomial distribution.
_OVERDISPERSION = 3.0
_START = (2.5, 0.2, 0.32, 0.0087, 0.19, 0.018)
# Fewer clicks say too little about one target.
LEAST_CLICKS = 4


@dataclass(frozen=True, slots=True)
class ExpectedStatistics:
    """Expected statistics of clicks on one target.

    `inside` is the share of clicks on the target, `gain` their mean depth over that of a
    uniform click, `pl1_uniform` and `pl1_depth` the mean distances to clicks drawn from the
    two baseline maps, in box sides; variances are those of a single click.
    """

    inside: float
    gain: float
    nss: float
    pl1_uniform: float
    pl1_depth: float
    gain_variance: float = math.nan
    pl1_variance: float = math.nan


@dataclass(frozen=True, slots=True)
class Shape:
    """A target on a grid of at most 72 cells a side, with a margin for leaking clicks.

    `near` are the cells within reach of the target, `middle` how far rows and columns lie from the
    middle of its box, in its sides.
    """

    cell_px: int
    diagonal_px: float
    box: tuple[int, int]
    area: int
    filled: Grid
    depth: Grid
    published: Grid
    near: Grid
    middle: tuple[Grid, Grid]
    uniform: tuple[Grid, Grid]
    by_depth: tuple[Grid, Grid]
    away: tuple[Grid, Grid]
    nss_scale: float
    nss_shift: float


def shape_of(mask: Mask, sides: tuple[int, int] | None = None) -> Shape:
    """The grid of a target: filled pixels a cell, mean depth, marginals of the baselines.

    `sides` are the box sides that PL1 is measured in, where not the mask's own.
    """
    height, width = mask.bits.shape
    sides = sides or (height, width)
    cell = max(1, math.ceil(max(height, width) / _CELLS))
    diagonal = math.hypot(*mask.shape)
    margin = math.ceil(REACH * diagonal / cell) + 1
    ringed, plain = distance(mask, "corrected").weights, distance(mask, "published").weights
    filled = _cells(mask.bits, cell, margin)
    some = np.maximum(filled, 1)
    depth, published = (_cells(d * mask.bits, cell, margin) / some for d in (ringed, plain))
    total = float(plain.sum(dtype=np.float64))
    even, deep = filled / mask.area, filled * published / total
    rows, columns = ((np.arange(n) - margin) * cell + (cell - 1) / 2 for n in filled.shape)
    near = np.asarray(depth_px(filled == 0) * cell <= REACH * diagonal + cell / 2, dtype=np.float32)
    from_top = ((rows - (height - 1) / 2) / height).astype(np.float32)
    from_left = ((columns - (width - 1) / 2) / width).astype(np.float32)
    down = _mean_away(rows, even.sum(axis=1), sides[0])
    across = _mean_away(columns, even.sum(axis=0), sides[1])
    # From a pixel's depth to its NSS, the map taken over the whole image.
    pixels, density = math.prod(mask.shape), plain.astype(np.float64) / total
    deviation = math.sqrt(float((density**2).sum()) / pixels - 1 / pixels**2) + _EPSILON
    return Shape(
        cell, diagonal, sides, mask.area,
        filled, depth.astype(np.float32), published.astype(np.float32), near,
        (from_top, from_left), _running(even), _running(deep), (down, across),
        1 / (total * deviation), -1 / (pixels * deviation),
    )  # fmt: skip


def _mean_away(places: Places, chance: npt.NDArray[np.floating], side: int) -> Grid:
    """How far each place lies from a draw of the marginal `chance`, in box sides, on average."""
    gaps = np.abs(np.subtract.outer(places, places)) / side
    return np.asarray(gaps @ chance, dtype=np.float32)


def expect(shape: Shape, numbers: Numbers) -> ExpectedStatistics:
    """A prior's statistics on the grid; their means within 1 % of the exact ones."""
    rows, columns = (np.exp(-0.5 * (m / numbers.spread) ** 2) for m in shape.middle)
    weights = shape.filled * cv2.pow(shape.depth, numbers.depth) * rows[:, None] * columns[None]
    weights /= weights.sum()
    sigma = numbers.jitter * shape.diagonal_px / shape.cell_px
    loose = weights
    if sigma > 0.15:
        loose = cv2.GaussianBlur(weights, (0, 0), sigma, borderType=cv2.BORDER_CONSTANT)
        loose = loose * shape.near
        loose /= loose.sum()
    covered = shape.filled / shape.cell_px**2 if sigma > 0.15 else 1.0
    inside = (1 - numbers.sloppy) * weights + numbers.sloppy * loose * covered
    clicks = (1 - numbers.sloppy) * weights + numbers.sloppy * loose
    return _statistics(shape, inside, clicks)


def _statistics(shape: Shape, inside: Grid, clicks: Grid) -> ExpectedStatistics:
    depth = float((inside * shape.published).sum())
    depth_squared = float((inside * shape.published**2).sum())
    mean = float((shape.filled * shape.published).sum()) / shape.area
    sums = _running(clicks)
    chances = clicks.sum(axis=1), clicks.sum(axis=0)
    pairs = zip(chances, shape.away, strict=True)
    variance = sum(float(c @ a**2) - float(c @ a) ** 2 for c, a in pairs)
    return ExpectedStatistics(
        float(inside.sum()),
        depth / mean,
        depth * shape.nss_scale + shape.nss_shift,
        _apart(sums, shape.uniform, shape.cell_px, shape.box),
        _apart(sums, shape.by_depth, shape.cell_px, shape.box),
        (depth_squared - depth**2) / mean**2,
        variance,
    )


def _cells(values: npt.NDArray[np.generic], cell: int, margin: int) -> Grid:
    """Sums over square cells, with empty cells around."""
    height, width = (math.ceil(n / cell) for n in values.shape)
    whole = np.zeros((height * cell, width * cell), dtype=np.float64)
    whole[: values.shape[0], : values.shape[1]] = values
    sums = whole.reshape(height, cell, width, cell).sum(axis=(1, 3))
    return np.pad(sums, margin).astype(np.float32)


def _running(grid: npt.NDArray[np.floating]) -> tuple[Grid, Grid]:
    rows, columns = (np.cumsum(grid.sum(axis=1 - k, dtype=np.float64)) for k in (0, 1))
    return rows.astype(np.float32), columns.astype(np.float32)


def _apart(
    a: tuple[Grid, Grid], b: tuple[Grid, Grid], step: float, sides: tuple[int, ...]
) -> float:
    """Mean distance along the axes of draws from two distributions, from their running sums."""
    parts = zip(a, b, sides, strict=True)
    return sum(float((p * (1 - q) + q * (1 - p)).sum()) * step / side for p, q, side in parts)


@dataclass(frozen=True, slots=True)
class KeyStatistics:
    """Published statistics of one key: NSS, PDE and PL1 of the two baseline maps."""

    key: str
    kind: str
    nss_uniform: float
    pde_uniform: float
    pl1_uniform: float
    nss_depth: float
    pde_depth: float
    pl1_depth: float


@dataclass(frozen=True, slots=True)
class Case:
    """A target: its mask, its grid, and what was seen at the real clicks on it."""

    mask: Mask
    shape: Shape
    seen: KeyStatistics
    clicks: int = CLICKS

    @property
    def inside(self) -> float:
        """Share of real clicks on the target: the uniform density times the area."""
        return min(1.0, self.seen.pde_uniform * self.mask.area)

    @property
    def gain(self) -> float:
        """Mean depth of real clicks over that of uniform ones."""
        return self.seen.pde_depth * self.mask.area


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted numbers, their standard errors (relative), the loss, and the targets used."""

    numbers: Numbers
    errors: Numbers
    between_gain: float
    between_pl1: float
    loss: float
    targets: int

    def interval(self, name: str) -> tuple[float, float]:
        """95 % interval, from the sandwich estimate on the log scale.

        A handful of clicks can leave a number open; its interval then ends at a factor of 1e12.
        """
        value, error = getattr(self.numbers, name), getattr(self.errors, name)
        factor = min(math.exp(min(1.96 * error, 700.0)), 1e12)
        return value / factor, value * factor


def read_tables(path: Path) -> list[KeyStatistics]:
    """One dataset's `*_per_image.csv`: the uniform and distance rows of every key."""
    found: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {}
    columns = ("full_stem", "model_name", "click_type", "nss", "pde", "l1")
    for number, row in enumerate(read_table(path, "table of statistics", *columns), start=2):
        key, model, kind, *values = (row[column] for column in columns)
        with named_errors(f"{path}, row {number}", "has a value that is not a number"):
            found.setdefault((key, kind), {})[model] = tuple(map(float, values))
    both = {k: v for k, v in found.items() if {"ud", "dt"} <= v.keys()}
    return [KeyStatistics(key, kind, *v["ud"], *v["dt"]) for (key, kind), v in both.items()]


def read_masks(path: Path) -> dict[str, Mask]:
    """Targets without images: `{name: run lengths}` in a gzipped JSON file."""
    with named_errors(path, "holds no masks by name"), gzip.open(path) as file:
        return {name: Mask.from_coco(runs) for name, runs in json.load(file).items()}


def read_cases(seen: Sequence[KeyStatistics], masks: Mapping[str, Mask]) -> list[Case]:
    """First-round targets with their masks; refuses masks that the tables contradict."""
    cases = []
    for row in (s for s in seen if s.kind == "first"):
        if row.key not in masks:
            raise NotFound(f"the table has target '{row.key}', but there is no mask of it")
        mask = masks[row.key]
        if row.pde_uniform * mask.area > 1.001:
            raise BadInput(f"target '{row.key}': its mask is larger than the table allows")
        cases.append(Case(mask, shape_of(mask), row))
    return cases


def fit(cases: Sequence[Case], start: Sequence[float] = _START) -> Fit:
    """The numbers that predict best what was seen, with sandwich errors."""
    from scipy.optimize import minimize

    def mean_loss(logs: npt.NDArray[np.float64]) -> float:
        return float(_losses(logs, cases).mean()) if logs[2] < 0 else math.inf

    best = minimize(
        mean_loss, np.log(start), method="Nelder-Mead",
        options={"maxfev": 400, "xatol": 2e-3, "fatol": 1e-5},
    )  # fmt: skip
    values = [float(v) for v in np.exp(best.x)]
    numbers, errors = Numbers(*values[:4]), Numbers(*_errors(best.x, cases)[:4])
    return Fit(numbers, errors, values[4], values[5], float(best.fun), len(cases))


def hold_out(sets: Mapping[str, Sequence[Case]], whole: Fit) -> Iterator[tuple[str, Fit]]:
    """For each dataset, the fit on all others, begun at the fit on all."""
    start = [*astuple(whole.numbers), whole.between_gain, whole.between_pl1]
    for name in sets:
        others = [case for other, cases in sets.items() if other != name for case in cases]
        yield name, fit(others, start)


def _losses(logs: npt.NDArray[np.float64], cases: Sequence[Case]) -> npt.NDArray[np.float64]:
    """Minus twice the log quasi-likelihood of each target, up to a constant."""
    values = np.exp(logs)
    numbers = Numbers(*(float(v) for v in values[:4]))
    losses = [_loss(expect(c.shape, numbers), c, values[4], values[5]) for c in cases]
    return np.array(losses)


def _loss(
    predicted: ExpectedStatistics, case: Case, between_gain: float, between_pl1: float
) -> float:
    of_gain = predicted.gain_variance / case.clicks + between_gain**2
    of_pl1 = predicted.pl1_variance / case.clicks + between_pl1**2
    share = min(max(predicted.inside, 1e-4), 1 - 1e-4)
    hits = case.inside * case.clicks
    leak = hits * math.log(share) + (case.clicks - hits) * math.log1p(-share)
    return (
        (case.gain - predicted.gain) ** 2 / of_gain
        + math.log(of_gain)
        + (case.seen.pl1_uniform - predicted.pl1_uniform) ** 2 / of_pl1
        + math.log(of_pl1)
        - 2 * leak / _OVERDISPERSION
    )


def _errors(logs: npt.NDArray[np.float64], cases: Sequence[Case]) -> list[float]:
    """Standard errors of the logarithms: inverse curvature, scores, inverse curvature."""
    size, step = logs.size, 0.02
    unit = np.eye(size) * step
    gaps = [_losses(logs + u, cases) - _losses(logs - u, cases) for u in unit]
    scores = np.array(gaps) / (2 * step)
    curvature = np.empty((size, size))
    for i in range(size):
        for j in range(i, size):
            corners = [
                s * t * _losses(logs + s * unit[i] + t * unit[j], cases).mean()
                for s in (1, -1)
                for t in (1, -1)
            ]
            curvature[i, j] = curvature[j, i] = sum(corners) / (4 * step**2)
    inverse = np.linalg.pinv(curvature)
    spread = inverse @ (scores @ scores.T / len(cases)) @ inverse / len(cases)
    return [float(e) for e in np.sqrt(np.maximum(np.diag(spread), 0))]


def cases_of(clicks: Clicks, datasets: Mapping[str, Dataset]) -> list[Case]:
    """First-round targets with at least four clicks: what the published tables would hold.

    The statistics are those of the tables (protocol `published`), so that a fit on a study's
    own clicks and one on the published tables mean the same.
    """
    firsts = (s for s in samples_of(clicks, datasets) if s.name.endswith("/first"))
    found = (_case(sample) for sample in firsts if len(sample.points) >= LEAST_CLICKS)
    cases = [case for case in found if case is not None]
    if not cases:
        raise BadInput(f"no target has {LEAST_CLICKS} first clicks; collect more before fitting")
    return cases


def _case(sample: TrainingSample) -> Case | None:
    _, object, _ = sample.show()
    scores: list[float] = []
    for name in ("uniform", "distance"):
        found = scores_by_key([sample], source(name, None).inner, "published")
        if not found:
            return None
        scores += [found[0][1].nss, found[0][1].pde, found[0][1].pl1]
    mask = Mask.of(object)
    return Case(
        mask, shape_of(mask), KeyStatistics(sample.name, "first", *scores), len(sample.points)
    )
