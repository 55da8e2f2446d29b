"""Groups of sessions or images: who is compared with whom, and how numbers are told of them.

Every benchmark computes its statistics of groups (`segmeter.core.benchmarks.Group`): one
model, data set, user and reading. What follows from that alone is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from segmeter.core.benchmarks import Curves, Difference, Group, Results, SummaryRow
from segmeter.core.dataset_names import dataset_names
from segmeter.core.sections import Note
from segmeter.stats.effort import CostModel
from segmeter.stats.intervals import Floats, Interval, Resampling
from segmeter.stats.pairwise import PairedValues, Where, pairwise_differences

__all__ = [
    "by_image",
    "comparisons",
    "cost_of",
    "curves_of",
    "differences_in",
    "image_keys",
    "image_table",
    "measured",
    "paired",
    "percentiles",
    "resampling",
    "summary_row",
    "uneven",
]

G = TypeVar("G", bound=Group)


def measured(run: Results, *measures: str) -> Iterator[tuple[Curves, dict[str, Floats]]]:
    """Every group's curves of the first measure, and beside them those of all others by name."""
    first, *others = measures
    beside = {name: {c.key: c.values for c in run.curves(name)} for name in others}
    for curves in curves_of(run, first):
        yield curves, {name: by_key[curves.key] for name, by_key in beside.items()}


def curves_of(run: Results, measure: str) -> list[Curves]:
    """The curves of a measure, each by the name of its data set and its label."""
    names = dataset_names(run.plan.datasets)
    return [replace(c, dataset=names.get(c.dataset, c.dataset)) for c in run.curves(measure)]


def comparisons(groups: Iterable[G]) -> list[list[G]]:
    """Groups that differ in their model alone, together, in the order of the first of each."""
    found: dict[tuple[str, str, str], list[G]] = {}
    for group in groups:
        found.setdefault(group.comparison, []).append(group)
    return list(found.values())


def differences_in(
    measures: Sequence[str], groups: Iterable[G], values: Callable[[G, str], Floats]
) -> list[Difference]:
    """Every pair of models that are compared; the pairs of a measure are corrected together.

    `values` gives one number per target, whose mean is the statistic of that name.
    """
    return [
        found
        for members in comparisons(groups)
        for measure in measures
        for found in pairwise_differences(
            Where(*members[0].comparison, measure),
            [paired(group, values(group, measure)) for group in members],
        )
    ]


def paired(group: Group, values: Floats) -> PairedValues:
    """One number per target of a group (or a row of them), to be compared with another's."""
    return PairedValues(group.model, group.keys, group.clusters, values)


def cost_of(run: Results) -> CostModel:
    """The cost model that whoever reads the run asked for, else the default."""
    path = run.settings.get("cost")
    return CostModel() if path is None else CostModel.read(Path(path))


def uneven(where: str, groups: Sequence[Group]) -> Note | None:
    """A warning where models were not scored on the same targets."""
    if len({frozenset(group.keys) for group in groups}) < 2:
        return None
    counts = ", ".join(f"{group.model} {len(group.keys)}" for group in groups)
    return Note(
        f"On {where} the models were not scored on the same objects ({counts}): their means are "
        "not comparable, their paired differences are.",
        "warning",
    )


def resampling(group: Group, resamples: int = 2000) -> Resampling:
    """Draws of a group's images; the same for all models on a data set."""
    return Resampling(group.clusters, resamples=resamples, seed=group.dataset)


def summary_row(
    group: Group, measure: str, interval: Interval, targets: int | None = None
) -> SummaryRow:
    """A number of a group; of all its targets unless told otherwise."""
    many = len(group.keys) if targets is None else targets
    return SummaryRow(*group.key, measure, interval.value, interval.low, interval.high, many)


def percentiles(value: float, draws: Floats) -> Interval:
    """A number with the middle 95 % of what resampled sets give; no limits without draws."""
    low, high = np.quantile(draws, (0.025, 0.975)) if draws.size else (np.nan, np.nan)
    return Interval(value, float(low), float(high))


def by_image(
    run: Results, rows: Iterable[Mapping[str, Any]], identity: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...], dict[str, list[Mapping[str, Any]]]]]:
    """Rows of images by the columns that tell groups apart, then by scene, in their order."""
    names = dataset_names(run.plan.datasets)
    found: dict[tuple[Any, ...], dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        scenes = found.setdefault(tuple(names.get(row[n], row[n]) for n in identity), {})
        scenes.setdefault(row["scene"], []).append(row)
    yield from found.items()


def image_table(scenes: Mapping[str, Sequence[Mapping[str, Any]]], column: str) -> Floats:
    """A column as `(images, rounds)`; NaN where a row has no number."""
    return np.array(
        [[np.nan if r[column] is None else r[column] for r in rows] for rows in scenes.values()],
        dtype=np.float64,
    )


def image_keys(scenes: Iterable[str]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Keys and clusters of a group whose rows are whole images."""
    names = tuple(scenes)
    return tuple((name, "") for name in names), names
