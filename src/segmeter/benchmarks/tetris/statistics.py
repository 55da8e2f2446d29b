"""Statistics of TETRIS: Min, Base, Max and D as areas over ten clicks, and the first click.

All areas are AuC@K by trapezoids over rounds 1 to K divided by K - 1, in percent, as the
paper prints them. `iou-min` is the session of the worst clicks, `iou-max` that of the best,
`iou-base` that of centre clicks, `iou-d` the difference of the first two. Boundary IoU is
taken of the same sessions, which were chosen by IoU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from segmeter.benchmarks.grouping import differences_in, summary_row
from segmeter.benchmarks.tetris.groups import WITHIN, AttackedSessions, Floats, groups
from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.stats.intervals import Resampling, share_interval

__all__ = ["AREAS", "differences", "differences_of", "rows_of", "summary"]

AREAS = tuple(f"{kind}-{role}" for kind in ("iou", "biou") for role in ("min", "base", "max", "d"))
FIRSTS = ("first-min", "first-base", "first-max")
COMPARED = ("iou-d", "iou-min", "iou-max", "iou-base")


def summary(run: Results) -> list[SummaryRow]:
    """Every statistic of every model, data set and reading, with its interval."""
    return [row for group in groups(run) for row in rows_of(group)]


def rows_of(group: AttackedSessions) -> Iterator[SummaryRow]:
    """Every statistic of one group; singles over the targets that have them."""
    names = [*AREAS, *FIRSTS] if group.complete else ["iou-base", "biou-base", "first-base"]
    for name in [*names, *group.singles]:
        yield _row(group, name, group.each(name))
    for name, values in group.singles.items():
        if "gap" in name:
            near = np.where(np.isnan(values), np.nan, values <= 100 * WITHIN + 1e-9)
            yield _row(group, name.replace("gap", "found"), near, share=True)


def _row(group: AttackedSessions, measure: str, values: Floats, share: bool = False) -> SummaryRow:
    known = ~np.isnan(values)
    clusters = [c for c, k in zip(group.clusters, known, strict=True) if k]
    if share:
        limits = share_interval(values[known], clusters).times(100)
    else:
        limits = Resampling(clusters, seed=group.dataset).interval(values[known])
    return summary_row(group, measure, limits, int(known.sum()))


def differences(run: Results) -> list[Difference]:
    """Every pair of models on the targets they share, by data set and reading."""
    return differences_of([group for group in groups(run) if group.complete])


def differences_of(members: Sequence[AttackedSessions]) -> list[Difference]:
    """All pairs of models; the pairs of a measure are corrected together (Holm)."""
    return differences_in(COMPARED, members, AttackedSessions.each)
