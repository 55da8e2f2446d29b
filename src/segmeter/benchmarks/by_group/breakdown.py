"""Any benchmark's sessions split by group: class, size, shape, or what a groups file says.

Each group's mean has an interval (`published` normal over targets, `corrected` from drawing
images anew), and every pair of groups is tested by permuting the groups of whole images.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from segmeter.benchmarks.by_group.splitting import Splittable, TargetGroups, said_of_targets
from segmeter.benchmarks.grouping import curves_of
from segmeter.core.benchmarks import Curves, Results
from segmeter.core.errors import BadInput
from segmeter.core.sections import Block, Cell, Column, Label, Note, Section, Table, Value
from segmeter.stats.fairness import (
    GroupDifference,
    GroupMean,
    group_differences,
    group_means,
)
from segmeter.stats.rounds import at_round

__all__ = ["Split", "breakdown", "splits"]

ROUNDS = (1, 3)
_MOST_COMPARED = 12
_METHOD = (
    "Reading **published** has the normal interval of Segment Anything's supplement, as if "
    "every mask were a draw of its own; **corrected** draws images anew. Intervals that overlap "
    "do not mean that there is no difference: every pair of groups is tested by permuting the "
    "groups of whole images, 10 000 times, and corrected by Holm."
)


@dataclass(frozen=True, slots=True)
class Split:
    """One model, data set, user and reading after so many rounds, group by group."""

    model: str
    dataset: str
    user: str
    protocol: str
    round: int
    means: tuple[GroupMean, ...]
    differences: tuple[GroupDifference, ...]


_OWN = {
    "boxes": "segmeter.benchmarks.zeroshot.boxes.statistics",
    "edges": "segmeter.benchmarks.zeroshot.edges.statistics",
    "proposals": "segmeter.benchmarks.zeroshot.proposals.statistics",
    "seism": "segmeter.benchmarks.seism.statistics",
}
"""Where benchmarks without sessions say what is split."""


def breakdown(run: Results, by: str, groups: Path | None = None) -> Section:
    """The section that a report adds for `--by`."""
    told = _splittable(run, by)
    found = _found(told, by, groups)
    blocks: list[Block] = [_means(found, by, told.measure)]
    if any(split.differences for split in found):
        blocks.append(_differences(found, by))
    many = max(len(split.means) for split in found)
    if many > _MOST_COMPARED:
        blocks.append(
            Note(f"{many} groups are too many to compare pair by pair; at most {_MOST_COMPARED}.")
        )
    return Section(f"By {by}", blocks=[*blocks, Note(_METHOD)])


def splits(run: Results, by: str, groups: Path | None = None) -> list[Split]:
    """Means and differences of the groups: IoU after one and three rounds, or what has none."""
    return _found(_splittable(run, by), by, groups)


def _found(told: Splittable, by: str, groups: Path | None) -> list[Split]:
    named = TargetGroups(told.said, by, groups)
    found = [split for curves in told.curves for split in _splits(curves, told, named)]
    if not any(split.means for split in found):
        raise named.unknown()
    return found


def _splittable(run: Results, by: str) -> Splittable:
    own = _OWN.get(run.plan.benchmark)
    if own is not None:
        told: Splittable = importlib.import_module(own).splittable(run)
        return told
    if run.plan.kind == "method":
        raise BadInput(
            f"rows of '{run.plan.benchmark}' are of whole images and methods; --by splits "
            f"sessions with users, and runs of {', '.join(_OWN)}"
        )
    known = run.sql("select * from rows limit 0").column_names
    measure, name = ("iou", "mIoU") if "iou" in known else ("dice", "mean Dice")
    return Splittable(tuple(curves_of(run, measure)), said_of_targets(run, by), name, ROUNDS)


def _splits(curves: Curves, told: Splittable, named: TargetGroups) -> list[Split]:
    names = named.of([(curves.dataset, *key) for key in curves.keys])
    made = []
    for number in (n for n in told.rounds if n <= curves.values.shape[1]):
        values = 100 * at_round(curves.values, number)
        seed = (*curves.key, number)
        means = group_means(values, names, curves.clusters, curves.protocol, seed=seed)
        tested = 1 < len(means) <= _MOST_COMPARED and curves.protocol == "corrected"
        pairs = group_differences(values, names, curves.clusters, seed=seed) if tested else []
        made.append(Split(*curves.key, number, tuple(means), tuple(pairs)))
    return made


def _means(found: Sequence[Split], by: str, measure: str) -> Table:
    rows: list[list[Cell]] = [
        [
            Label(split.model, protocol=split.protocol), split.dataset, split.user, split.round,
            mean.group, Value(mean.interval.value, *_limits(mean)), mean.targets, mean.images,
        ]
        for split in found
        for mean in split.means
    ]  # fmt: skip
    columns = [
        Column("model"), Column("data"), Column("user"), Column("round", digits=0), Column(by),
        Column(measure, "%", 1, plot=True), Column("masks", digits=0), Column("images", digits=0),
    ]  # fmt: skip
    title = "Mean IoU" if measure == "mIoU" else f"{measure[0].upper()}{measure[1:]}"
    return Table(f"by-{by}", columns, rows, f"{title} by {by}")


def _limits(mean: GroupMean) -> tuple[float | None, float | None]:
    low, high = mean.interval.low, mean.interval.high
    return (None, None) if np.isnan(low) or np.isnan(high) else (low, high)


def _differences(found: Sequence[Split], by: str) -> Table:
    rows: list[list[Cell]] = [
        [
            split.model, split.dataset, split.user, split.round, f"{d.first} minus {d.second}",
            Value(d.interval.value, d.interval.low, d.interval.high), d.p_holm,
            "yes" if d.significant else "no",
        ]
        for split in found
        for d in split.differences
    ]  # fmt: skip
    columns = [
        Column("model"), Column("data"), Column("user"), Column("round", digits=0),
        Column("groups"), Column("difference", "% points", 1), Column("p", "Holm", 4),
        Column("significant"),
    ]  # fmt: skip
    return Table(f"by-{by}-differences", columns, rows, f"Differences between groups of {by}")
