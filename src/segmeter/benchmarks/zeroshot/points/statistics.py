"""Statistics of the point evaluation: mIoU after N points, the oracle, unweighted over data sets.

mIoU of a data set is the mean over all its masks, not over images or classes; the top line
is the unweighted mean over data sets, so a set of 546 masks counts as much as one of 11 953.
Intervals draw images anew inside every data set, 2000 times, and take percentiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from segmeter.benchmarks.grouping import (
    comparisons,
    differences_in,
    measured,
    percentiles,
    resampling,
    summary_row,
)
from segmeter.core.benchmarks import Curves, Difference, Group, Results, SummaryRow
from segmeter.stats.intervals import Floats, Interval
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
class Played(Group):
    """The sessions of a group: percent IoU of each target by measure."""

    values: dict[str, Floats]


def played(run: Results) -> list[Played]:
    """All that was played, measure by measure."""
    return [
        _played(iou, beside["oracle-iou"]) for iou, beside in measured(run, "iou", "oracle-iou")
    ]


def _played(iou: Curves, oracle: Floats) -> Played:
    rounds = iou.values.shape[1]
    values = {f"iou@{n}": 100 * at_round(iou.values, n) for n in POINTS if n <= rounds}
    values["oracle@1"] = 100 * oracle[:, 0]
    return Played(*iou.key, iou.keys, iou.clusters, values)


def summary(run: Results) -> list[SummaryRow]:
    """Every mean with its interval, by data set and over them."""
    return summary_of(played(run))


def summary_of(groups: Sequence[Played]) -> list[SummaryRow]:
    rows = [summary_row(g, name, _interval(g, name)) for g in groups for name in g.values]
    together: dict[tuple[str, str, str], list[Played]] = {}
    for group in groups:
        together.setdefault((group.model, group.user, group.protocol), []).append(group)
    for members in together.values():
        if len(members) > 1:
            rows += _top_rows(members)
    return rows


def top_line(members: Sequence[Played], measure: str) -> Interval:
    """The unweighted mean over data sets; images are drawn anew inside each of them."""
    means = [float(m.values[measure].mean()) for m in members]
    draws = np.mean([resampling(m).means(m.values[measure])[:, 0] for m in members], axis=0)
    return percentiles(float(np.mean(means)), draws)


def differences(run: Results) -> list[Difference]:
    """Every pair of models on the targets they share, by data set, user and reading."""
    return differences_of(played(run))


def differences_of(groups: Sequence[Played]) -> list[Difference]:
    return [
        found
        for members in comparisons(groups)
        for found in differences_in(
            [name for name in COMPARED if all(name in m.values for m in members)],
            members,
            lambda group, measure: group.values[measure],
        )
    ]


def _top_rows(members: Sequence[Played]) -> Iterable[SummaryRow]:
    shared = [name for name in members[0].values if all(name in m.values for m in members)]
    masks = sum(len(m.keys) for m in members)
    for name in shared:
        line = top_line(members, name)
        yield summary_row(replace(members[0], dataset=ALL), name, line, masks)


def _interval(group: Played, name: str) -> Interval:
    values, drawn = group.values[name], resampling(group)
    draws = drawn.means(values)[:, 0] if drawn.clusters > 1 else np.empty(0)
    return percentiles(float(values.mean()), draws)
