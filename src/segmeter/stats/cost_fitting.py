"""Cost fitting: the cost model's seconds per action, fitted to logs of real annotators.

A step takes `locate` if it is an object's first prompt, plus the price of its kind: an additive
model, fitted by least squares, so that prices are means and their sum reproduces the hours. Pauses
and slips are left out first: within each kind, separately for first and later prompts, steps whose
logarithm lies more than 3.5 robust standard deviations from the median.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from segmeter.core.annotation_events import Timing
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.core.wording import counted
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.intervals import Floats, Interval

_NAMES = ("locate", "click", "box", "scribble", "other", "by_hand", "review")
_PRICE_OF = {"done": "review"}
_FAR = 3.5
_LEAST_SPREAD = 0.1  # in logarithms: steps within a tenth of each other are no outliers
_FEW_PEOPLE = 3


@dataclass(frozen=True, slots=True)
class FittedCosts:
    """Prices with their intervals, and the data that they rest on."""

    prices: dict[str, Interval]  # by name; limits are nan where there is nothing to resample
    steps: dict[str, int]  # from which each price is fitted
    annotators: int
    over: str  # what was resampled: `annotators`, or `images` of fewer than three people
    left_out: int  # steps that took no time, or far longer or shorter than others of their kind

    def model(self) -> CostModel:
        """The cost model, with its defaults where the log has no data."""
        return CostModel(**{name: price.value for name, price in self.prices.items()})

    def toml(self) -> str:
        """A cost model that `--cost` reads, each price with its interval."""
        people = counted(self.annotators, "annotator")
        header = f"# fitted to {sum(self.steps.values())} steps of {people}, means\n"
        lines = []
        for name, price in self.prices.items():
            limits = f"95 % {price.low:.3f} to {price.high:.3f}, "
            known = "" if np.isnan(price.low) else limits
            lines.append(f"{name} = {price.value:.3f}  # {known}{self.steps[name]} steps\n")
        return header + "".join(lines)


def fit_costs(timings: Sequence[Timing]) -> FittedCosts:
    """Prices from timed steps, robust to pauses, with intervals over people.

    >>> from segmeter.core.annotation_events import Timing
    >>> steps = [Timing(who, "p", "click", first, 2.5 if first else 1.5)
    ...          for who in "abc" for first in (True, False, False)]
    >>> found = fit_costs(steps)
    >>> {name: round(price.value, 6) for name, price in found.prices.items()}
    {'locate': 1.0, 'click': 1.5}
    """
    kept = _without_pauses([t for t in timings if t.seconds > 0])
    if not kept:
        raise BadInput("no step is timed: a log needs a 'start' and what was done after it")
    rows, seconds, names, given = _design(kept)
    people = list(dict.fromkeys(t.annotator for t in kept))
    over = "annotators" if len(people) >= _FEW_PEOPLE else "images"
    clusters = [t.annotator if over == "annotators" else t.image for t in kept]
    owners = [np.array([cluster == own for cluster in clusters]) for own in dict.fromkeys(clusters)]
    wanted = np.column_stack([rows, seconds - given])
    equations = np.stack([rows[own].T @ wanted[own] for own in owners])
    prices = dict(zip(names, _jackknifed(equations, _prices), strict=True))
    steps = {name: int(rows[:, k].sum()) for k, name in enumerate(names)}
    locate = prices["locate"].value if "locate" in prices else CostModel().locate
    if (price := _touch_up(kept, clusters, locate)) is not None:
        prices["touch_up"] = price
        steps["touch_up"] = sum(t.kind == "touch_up" for t in kept)
    return FittedCosts(prices, steps, len(people), over, len(timings) - len(kept))


def _touch_up(timings: Sequence[Timing], clusters: Sequence[str], locate: float) -> Interval | None:
    """Seconds per corrected contour pixel over seconds per drawn pixel: a ratio of ratios.

    Finding the object does not count as drawing, as in `seconds_with_touch_up`. Limits by the
    jackknife over people (or images), as for the other prices. None where the log has no lengths
    of corrected or of drawn outlines.
    """
    names = list(dict.fromkeys(clusters))
    sums = np.zeros((len(names), 4))
    for t, cluster in zip(timings, clusters, strict=True):
        if t.kind in ("touch_up", "by_hand") and t.length_px > 0:
            place, found = (0, 0.0) if t.kind == "touch_up" else (2, locate)
            spent = max(0.0, t.seconds - found)
            sums[names.index(cluster), place : place + 2] += (spent, t.length_px)

    def ratio(of: Floats) -> Floats:
        seconds, length, drawing, drawn = of.T
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((seconds / length) / (drawing / drawn))[:, None]

    (price,) = _jackknifed(sums, ratio)
    return price if np.isfinite(price.value) else None


def _without_pauses(timings: Sequence[Timing]) -> list[Timing]:
    """Steps that took about as long as others of their kind."""
    cells = grouped_pairs(((t.kind, t.first), t) for t in timings)
    usual: list[Timing] = []
    for held in cells.values():
        logs = np.log([t.seconds for t in held])
        away = np.abs(logs - np.median(logs))
        spread = max(1.4826 * float(np.median(away)), _LEAST_SPREAD)
        usual += [t for t, far in zip(held, away, strict=True) if far <= _FAR * spread]
    return usual


def _design(timings: Sequence[Timing]) -> tuple[Floats, Floats, list[str], Floats]:
    """The prices of each step, its seconds, the prices' names, and the given prices.

    If first prompts are of kinds that never occur later, finding the object and prompting cannot be
    separated: the default `locate` is then taken as given.
    """
    kinds = [_PRICE_OF.get(t.kind, t.kind) for t in timings]
    prompts = np.array([k not in ("by_hand", "review", "touch_up") for k in kinds])
    first = np.array([t.first for t in timings]) & prompts
    full = np.stack([first if n == "locate" else np.array([k == n for k in kinds]) for n in _NAMES])
    used = [k for k in range(len(_NAMES)) if full[k].any()]
    rows = full[used].T.astype(float)
    names = [_NAMES[k] for k in used]
    given = np.zeros(len(rows))
    if "locate" in names and np.linalg.matrix_rank(rows) < len(names):
        given = CostModel().locate * rows[:, names.index("locate")]
        rows = np.delete(rows, names.index("locate"), axis=1)
        names.remove("locate")
    return rows, np.array([t.seconds for t in timings]), names, given


def _jackknifed(sums: Floats, estimate: Callable[[Floats], Floats]) -> list[Interval]:
    """Estimates from the sums of all people (or images); limits from leaving out one at a time.

    The standard error times Student's t of n - 1 degrees of freedom: with few people percentiles
    of a bootstrap are too narrow (70 % instead of 95 % with three). nan without others.
    """
    from scipy import special

    values, many = estimate(sums.sum(axis=0)[None])[0], len(sums)
    left = estimate(sums.sum(axis=0) - sums)
    known = np.where(np.isfinite(left), left, np.nan)
    error = np.sqrt((many - 1) / many * ((known - values) ** 2).sum(axis=0))
    reach = special.stdtrit(many - 1, 0.975) * error
    ends = np.maximum(0.0, [values, values - reach, values + reach])
    return [Interval(*map(float, three)) for three in ends.T]


def _prices(equations: Floats) -> Floats:
    """Least squares of many small systems; nan for a price of which a resample has no step."""
    squares, sums = equations[..., :-1], equations[..., -1:]
    found: Floats = (np.linalg.pinv(squares) @ sums)[..., 0]
    return np.where(np.diagonal(squares, axis1=1, axis2=2) > 0, found, np.nan)
