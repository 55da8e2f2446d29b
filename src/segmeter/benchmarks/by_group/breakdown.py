"""Any benchmark's statistics broken down by group: class, size, shape, or a groups file.

Each group's mean has an interval (`published` normal over objects, `corrected` from resampling
images), and every pair of groups is tested by permuting the groups of whole images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from segmeter.benchmarks.by_group.splitting import TargetGroups, known_of_groups
from segmeter.benchmarks.difference_table import P_VALUE
from segmeter.core.benchmarks import Benchmark, Group, Results, StatisticCard
from segmeter.core.errors import BadInput
from segmeter.core.sections import Block, Cell, Column, Label, Note, Section, Table, Value
from segmeter.stats.fairness import (
    GroupDifference,
    GroupMean,
    group_differences,
    group_means,
)
from segmeter.stats.intervals import Floats

__all__ = ["Split", "breakdown", "splits"]

_MOST_COMPARED = 12
_METHOD = (
    "Reading **published** has the normal interval of Segment Anything's supplement, as if "
    "every mask were drawn independently; **corrected** resamples images. Intervals that overlap "
    "do not mean that there is no difference: every pair of groups is tested by permuting the "
    "groups of whole images, 10 000 times, and corrected by Holm."
)


@dataclass(frozen=True, slots=True)
class Split:
    """One statistic of one model, data set, user and reading, group by group."""

    model: str
    dataset: str
    user: str
    protocol: str
    statistic: StatisticCard
    means: tuple[GroupMean, ...]
    differences: tuple[GroupDifference, ...]


def breakdown(benchmark: Benchmark, run: Results, by: str, groups: Path | None = None) -> Section:
    """The section that a report adds for `--by`."""
    found = splits(benchmark, run, by, groups)
    blocks: list[Block] = [_means(found, by)]
    if any(split.differences for split in found):
        blocks.append(_differences(found, by))
    many = max(len(split.means) for split in found)
    if many > _MOST_COMPARED:
        blocks.append(
            Note(f"{many} groups are too many to compare pair by pair; at most {_MOST_COMPARED}.")
        )
    return Section(f"Results by {by}", blocks=[*blocks, Note(_METHOD)])


def splits(benchmark: Benchmark, run: Results, by: str, groups: Path | None = None) -> list[Split]:
    """Means and differences of the groups, in the statistics that the benchmark breaks down."""
    cards = [s for s in benchmark.statistics(run) if _is_split(s, benchmark.split_by)]
    values = [
        (group, card, found)
        for group in benchmark.groups(run)
        for card in cards
        if (found := card.compared(group)) is not None and not np.isnan(found).all()
    ]
    if not values:
        raise BadInput(f"benchmark '{benchmark.name}' has no statistic of single objects to split")
    chosen = list({group.key: group for group, _, _ in values}.values())
    named = TargetGroups(known_of_groups(run, chosen, by), by, groups)
    made = [_split(group, card, found, named) for group, card, found in values]
    if not any(split.means for split in made):
        raise named.unknown()
    return made


def _is_split(card: StatisticCard, wanted: Sequence[str]) -> bool:
    return card.name in wanted if wanted else card.tested == "yes"


def _split(group: Group, card: StatisticCard, values: Floats, named: TargetGroups) -> Split:
    kept = np.flatnonzero(~np.isnan(values))
    names = named.of([(group.dataset, *group.keys[i]) for i in kept])
    clusters = [group.clusters[i] for i in kept]
    seed = (*group.key, card.name)
    means = group_means(values[kept], names, clusters, group.protocol, seed=seed)
    tested = 1 < len(means) <= _MOST_COMPARED and group.protocol == "corrected"
    pairs = group_differences(values[kept], names, clusters, seed=seed) if tested else []
    return Split(*group.key, card, tuple(means), tuple(pairs))


def _means(found: Sequence[Split], by: str) -> Table:
    rows: list[list[Cell]] = [
        [
            Label(split.model, protocol=split.protocol), split.dataset, split.user,
            _titled(split.statistic), mean.group,
            Value(mean.interval.value, *_limits(mean)), mean.targets, mean.images,
        ]
        for split in found
        for mean in split.means
    ]  # fmt: skip
    columns = [
        Column("model"), Column("data set"), Column("user"), Column("statistic"), Column(by),
        Column("mean", "95 % interval", 2, plot=True), Column("objects", digits=0),
        Column("images", digits=0),
    ]  # fmt: skip
    return Table(f"by-{by}", columns, rows, f"Statistics by {by}")


def _titled(card: StatisticCard) -> str:
    return f"{card.title}, {card.unit}" if card.unit else card.title


def _limits(mean: GroupMean) -> tuple[float | None, float | None]:
    low, high = mean.interval.low, mean.interval.high
    return (None, None) if np.isnan(low) or np.isnan(high) else (low, high)


def _differences(found: Sequence[Split], by: str) -> Table:
    rows: list[list[Cell]] = [
        [
            split.model, split.dataset, split.user, _titled(split.statistic), d.first, d.second,
            Value(d.interval.value, d.interval.low, d.interval.high), d.p_holm,
            "yes" if d.significant else "no",
        ]
        for split in found
        for d in split.differences
    ]  # fmt: skip
    columns = [
        Column("model"), Column("data set"), Column("user"), Column("statistic"), Column("first"),
        Column("second"), Column("difference", "first − second", 2), P_VALUE,
        Column("significant"),
    ]  # fmt: skip
    return Table(f"by-{by}-differences", columns, rows, f"Differences between groups of {by}")
