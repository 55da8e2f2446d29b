"""Statistics of the point evaluation: mIoU after N points, the oracle, unweighted over data sets.

mIoU of a data set is the mean over all its masks, not over pictures or classes; the top line
is the unweighted mean over data sets, so a set of 546 masks counts as much as one of 11 953.
Intervals draw pictures anew inside every data set, 2000 times, and take percentiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from segmeter.core.benchmarks import Curves, Difference, Results, SummaryRow
from segmeter.stats.intervals import Floats, Interval, Resampling
from segmeter.stats.pairwise import PairedValues, Where, pairwise_differences
from segmeter.stats.rounds import at_round

__all__ = [
    "ALL",
    "COMPARED",
    "POINTS",
    "Played",
    "differences",
    "played",
    "summary",
    "summary_of",
    "top_line",
]

POINTS = (1, 2, 3, 5, 9)
ALL = "all data sets, unweighted"
COMPARED = ("iou@1", "oracle@1", "iou@3", "iou@9")


@dataclass(frozen=True, slots=True)
class Played:
    """One model, data set, user and reading: percent IoU of each target by measure."""

    model: str
    dataset: str
    user: str
    reading: str
    keys: tuple[tuple[str, str], ...]
    clusters: tuple[str, ...]
    values: dict[str, Floats]

    @property
    def place(self) -> tuple[str, str, str]:
        """Where it can be compared with other models: data set, user, reading."""
        return self.dataset, self.user, self.reading

    def drawn(self) -> Resampling:
        return Resampling(self.clusters, seed=self.dataset)


def played(run: Results) -> list[Played]:
    """All that was played, measure by measure."""
    oracles = {_key(c): c for c in run.curves("oracle-iou")}
    return [_played(curves, oracles[_key(curves)]) for curves in run.curves("iou")]


def _played(iou: Curves, oracle: Curves) -> Played:
    rounds = iou.values.shape[1]
    values = {f"iou@{n}": 100 * at_round(iou.values, n) for n in POINTS if n <= rounds}
    values["oracle@1"] = 100 * oracle.values[:, 0]
    return Played(iou.model, iou.dataset, iou.user, iou.reading, iou.keys, iou.clusters, values)


def summary(run: Results) -> list[SummaryRow]:
    """Every mean with its interval, by data set and over them."""
    return summary_of(played(run))


def summary_of(groups: Sequence[Played]) -> list[SummaryRow]:
    rows = [
        SummaryRow(*_who(group, group.dataset), name, *_limits(group, name), len(group.keys))
        for group in groups
        for name in group.values
    ]
    together: dict[tuple[str, str, str], list[Played]] = {}
    for group in groups:
        together.setdefault((group.model, group.user, group.reading), []).append(group)
    for members in together.values():
        if len(members) > 1:
            rows += _top_rows(members)
    return rows


def top_line(members: Sequence[Played], measure: str) -> Interval:
    """The unweighted mean over data sets; pictures are drawn anew inside each of them."""
    means = [float(m.values[measure].mean()) for m in members]
    draws = np.mean([m.drawn().means(m.values[measure])[:, 0] for m in members], axis=0)
    low, high = np.quantile(draws, [0.025, 0.975])
    return Interval(float(np.mean(means)), float(low), float(high))


def differences(run: Results) -> list[Difference]:
    """Every pair of models on the targets they share, by data set, user and reading."""
    return differences_of(played(run))


def differences_of(groups: Sequence[Played]) -> list[Difference]:
    places: dict[tuple[str, str, str], list[Played]] = {}
    for group in groups:
        places.setdefault(group.place, []).append(group)
    return [
        found
        for place, members in places.items()
        for measure in COMPARED
        if all(measure in m.values for m in members)
        for found in pairwise_differences(
            Where(*place, measure),
            [PairedValues(m.model, m.keys, m.clusters, m.values[measure]) for m in members],
        )
    ]


def _top_rows(members: Sequence[Played]) -> Iterable[SummaryRow]:
    shared = [name for name in members[0].values if all(name in m.values for m in members)]
    masks = sum(len(m.keys) for m in members)
    for name in shared:
        line = top_line(members, name)
        yield SummaryRow(*_who(members[0], ALL), name, line.value, line.low, line.high, masks)


def _who(group: Played, dataset: str) -> tuple[str, str, str, str]:
    return group.model, dataset, group.user, group.reading


def _limits(group: Played, name: str) -> tuple[float, float, float]:
    values = group.values[name]
    drawn = group.drawn()
    if drawn.clusters < 2:
        return float(values.mean()), np.nan, np.nan
    low, high = np.quantile(drawn.means(values)[:, 0], [0.025, 0.975])
    return float(values.mean()), float(low), float(high)


def _key(curves: Curves) -> tuple[str, str, str, str]:
    return curves.model, curves.dataset, curves.user, curves.reading
