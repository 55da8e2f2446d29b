"""Any benchmark's sessions split by group: class, size, shape, or what a groups file says.

Each group's mean has an interval (`published` normal over targets, `sound` from drawing
pictures anew), and every pair of groups is tested by permuting the groups of whole pictures.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.benchmarks.grouping import curves_of
from segmeter.benchmarks.splitting import Key, Said, Splittable
from segmeter.benchmarks.target_groups import DERIVED, groups_of_targets
from segmeter.core.benchmarks import Curves, Results
from segmeter.core.errors import BadInput
from segmeter.core.sections import Block, Cell, Column, Label, Note, Section, Table, Value
from segmeter.datasets.groups import Groups, read_groups
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
    "every mask were a draw of its own; **sound** draws pictures anew. Intervals that overlap "
    "do not mean that there is no difference: every pair of groups is tested by permuting the "
    "groups of whole pictures, 10 000 times, and corrected by Holm."
)


@dataclass(frozen=True, slots=True)
class Split:
    """One model, data set, user and reading after so many rounds, group by group."""

    model: str
    dataset: str
    user: str
    reading: str
    round: int
    means: tuple[GroupMean, ...]
    differences: tuple[GroupDifference, ...]


_OWN = {
    "boxes": "segmeter.benchmarks.boxes.statistics",
    "edges": "segmeter.benchmarks.edges.statistics",
    "proposals": "segmeter.benchmarks.proposals.statistics",
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
    file = None if groups is None else read_groups(groups)
    if file is not None:
        file.check({name for key in told.said for name in _aliases(key)})
    found = [split for curves in told.curves for split in _splits(curves, told, by, file)]
    if not any(split.means for split in found):
        raise BadInput(f"no mask has a group under '{by}'; {_known(told.said, file)}")
    return found


def _splittable(run: Results, by: str) -> Splittable:
    own = _OWN.get(run.plan.benchmark)
    if own is not None:
        told: Splittable = importlib.import_module(own).splittable(run)
        return told
    if run.plan.kind == "method":
        raise BadInput(
            f"rows of '{run.plan.benchmark}' are of whole pictures and methods; --by splits "
            f"sessions with users, and runs of {', '.join(_OWN)}"
        )
    return Splittable(tuple(curves_of(run, "iou")), _said(run, by), "mIoU", ROUNDS)


def _said(run: Results, by: str) -> dict[Key, dict[str, str]]:
    """Class and groups of every target as the rows have them, and what follows from it."""
    table = run.sql("""
        select dataset, scene, target, any_value(label) as label, any_value(groups) as groups
        from rows group by dataset, scene, target
    """)
    found = {}
    for row in table.to_pylist():
        known = {"class": row["label"] or ""} | _mapping(row["groups"])
        found[row["dataset"], row["scene"], row["target"]] = known
    if by in DERIVED and not any(by in known for known in found.values()):
        derived = groups_of_targets(run, by)
        found = {key: {**known, by: derived.get(key, "")} for key, known in found.items()}
    return found


def _mapping(stored: Any) -> dict[str, str]:
    """Groups as a map column or as JSON has them."""
    if not stored:
        return {}
    pairs = json.loads(stored) if isinstance(stored, str) else dict(stored)
    return {str(key): str(value) for key, value in pairs.items()}


def _aliases(key: Key) -> tuple[str, str]:
    """What a groups file may call a mask; a whole picture goes by its own name."""
    dataset, *place = key
    name = "/".join(filter(None, place))
    return name, f"{dataset}/{name}"


def _splits(curves: Curves, told: Splittable, by: str, file: Groups | None) -> list[Split]:
    keys = [(curves.dataset, *key) for key in curves.keys]
    names = _groups(keys, told.said, by, file)
    who = (curves.model, curves.dataset, curves.user, curves.reading)
    made = []
    for number in (n for n in told.rounds if n <= curves.values.shape[1]):
        values = 100 * at_round(curves.values, number)
        seed = (*who, number)
        means = group_means(values, names, curves.clusters, curves.reading, seed=seed)
        tested = 1 < len(means) <= _MOST_COMPARED and curves.reading == "sound"
        pairs = group_differences(values, names, curves.clusters, seed=seed) if tested else []
        made.append(Split(*who, number, tuple(means), tuple(pairs)))
    return made


def _groups(keys: Sequence[Key], said: Said, by: str, file: Groups | None) -> list[str | None]:
    if file is not None:
        return file.of([_aliases(key) for key in keys], by)
    return [said[key].get(by) or None for key in keys]


def _known(said: Said, file: Groups | None) -> str:
    if file is not None:
        return f"'{file.path}' has {', '.join(file.attributes)}"
    names = sorted({name for known in said.values() for name, value in known.items() if value})
    told = ", ".join([*names, *(name for name in DERIVED if name not in names)])
    return f"rows know {told}; --groups FILE brings your own"


def _means(found: Sequence[Split], by: str, measure: str) -> Table:
    rows: list[list[Cell]] = [
        [
            Label(split.model, reading=split.reading), split.dataset, split.user, split.round,
            mean.group, Value(mean.interval.value, *_limits(mean)), mean.targets, mean.pictures,
        ]
        for split in found
        for mean in split.means
    ]  # fmt: skip
    columns = [
        Column("model"), Column("data"), Column("user"), Column("round", digits=0), Column(by),
        Column(measure, "%", 1, plot=True), Column("masks", digits=0), Column("pictures", digits=0),
    ]  # fmt: skip
    title = "Mean IoU" if measure == "mIoU" else measure.capitalize()
    return Table(f"by-{by}", columns, rows, f"{title} by {by}")


def _limits(mean: GroupMean) -> tuple[float | None, float | None]:
    low, high = mean.interval.low, mean.interval.high
    return (None, None) if np.isnan(low) or np.isnan(high) else (low, high)


def _differences(found: Sequence[Split], by: str) -> Table:
    rows: list[list[Cell]] = [
        [
            split.model, split.dataset, split.user, split.round, f"{d.first} minus {d.second}",
            Value(d.interval.value, d.interval.low, d.interval.high), d.p_holm,
            "yes" if d.established else "no",
        ]
        for split in found
        for d in split.differences
    ]  # fmt: skip
    columns = [
        Column("model"), Column("data"), Column("user"), Column("round", digits=0),
        Column("groups"), Column("difference", "% points", 1), Column("p", "Holm", 4),
        Column("established"),
    ]  # fmt: skip
    return Table(f"by-{by}-differences", columns, rows, f"Differences between groups of {by}")
