"""Statistics of the point evaluation: mIoU after N points, the oracle, unweighted over data sets.

mIoU of a data set is the mean over all its masks, not over images or classes; the top line
is the unweighted mean over data sets, so a set of 546 masks counts as much as one of 11 953.
Intervals resample images inside every data set, 2000 times, and take percentiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from segmeter.core.benchmarks import Group, Results
from segmeter.core.tables import load_tables
from segmeter.stats.goals import at_round
from segmeter.stats.intervals import Floats, Interval
from segmeter.stats.statistics import Statistic, percentile_interval, percentiles, resampling

POINTS = (1, 2, 3, 5, 9)
ALL = "all data sets, unweighted"
_TESTED = ("iou@1", "oracle@1", "iou@3", "iou@9")


@dataclass(frozen=True, slots=True)
class PointSessions(Group):
    """The sessions of a group: IoU of each object by statistic."""

    values: dict[str, Floats]


@dataclass(frozen=True, slots=True)
class OverDatasets(Group):
    """A model's groups on several data sets."""

    members: tuple[PointSessions, ...]

    @property
    def size(self) -> int:
        return sum(member.size for member in self.members)

    def mean(self, name: str) -> Interval | None:
        """The unweighted mean over data sets; images are resampled inside each of them."""
        if not all(name in m.values for m in self.members):
            return None
        means = [float(m.values[name].mean()) for m in self.members]
        draws = [resampling(m).means(m.values[name])[:, 0] for m in self.members]
        return percentiles(float(np.mean(means)), np.mean(draws, axis=0))


def point_sessions(run: Results) -> list[PointSessions]:
    """All sessions, with IoU after N points and the oracle's after one."""
    made = []
    for tables in load_tables(run, ["iou", "oracle_iou"]):
        iou, oracle = tables.table("iou"), tables.table("oracle_iou")
        values = {f"iou@{n}": at_round(iou, n) for n in POINTS if n <= iou.shape[1]}
        values["oracle@1"] = oracle[:, 0]
        made.append(PointSessions(*tables.key, tables.keys, tables.clusters, values))
    return made


def with_means(groups: Sequence[PointSessions]) -> list[Group]:
    """The groups, and the mean over data sets of every model that has several."""
    together: dict[tuple[str, str, str], list[PointSessions]] = {}
    for group in groups:
        together.setdefault((group.model, group.user, group.protocol), []).append(group)
    several = [tuple(members) for members in together.values() if len(members) > 1]
    means = [OverDatasets(m[0].model, ALL, m[0].user, m[0].protocol, (), (), m) for m in several]
    return [*groups, *means]


def _statistics(name: str, title: str) -> list[Statistic]:
    """A mean IoU of one data set, and the same over data sets."""

    def of_objects(n: str) -> Callable[[PointSessions], Floats]:
        return lambda g: g.values.get(n, np.full(g.size, np.nan))

    def of_sets(n: str) -> Callable[[OverDatasets], Interval | None]:
        return lambda g: g.mean(n)

    one = Statistic(
        name, title, "%", 1, "higher", percent=True, values=of_objects(name),
        interval=_known, of=PointSessions, tested="yes" if name in _TESTED else "on request",
    )  # fmt: skip
    return [one, replace(one, values=None, whole=of_sets(name), of=OverDatasets, tested="no")]


def _known(group: Group, values: Floats) -> Interval | None:
    return None if np.isnan(values).any() else percentile_interval(group, values)


STATISTICS = [
    statistic
    for name in (*(f"iou@{n}" for n in POINTS), "oracle@1")
    for statistic in _statistics(name, name.replace("iou", "mIoU"))
]
"""mIoU@1 to 9 and the oracle's, each of a data set and over data sets."""
