"""Statistics of the benchmark: average recall, pooled over images, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from segmeter.benchmarks.by_group.splitting import Key, Splittable
from segmeter.benchmarks.grouping import (
    differences_in,
    image_keys,
    percentiles,
    resampling,
    summary_row,
)
from segmeter.core.benchmarks import Curves, Difference, Group, Results, SummaryRow
from segmeter.core.dataset_names import dataset_names
from segmeter.measures.proposal_recall import average_recall_of
from segmeter.stats.intervals import Floats, Interval

__all__ = ["Recalls", "differences", "groups", "measure_name", "splittable", "summary"]

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Recalls(Group):
    """One model, data set, protocol, kind of objects and number of proposals.

    `matched` is images x thresholds, `objects` and `proposals` one number per image.
    """

    objects_of: str
    number: int
    objects: Floats
    matched: Floats
    proposals: Floats

    @property
    def value(self) -> float:
        """Share of all objects of all images, averaged over thresholds; NaN without any."""
        return float(average_recall_of(self.matched.sum(axis=0), self.objects.sum()))

    def limits(self) -> tuple[float, float]:
        """The middle 95 % of resampled sets of images."""
        if len(self.keys) < 2 or not self.objects.any():
            return np.nan, np.nan
        drawn = resampling(self, RESAMPLES)
        draws = average_recall_of(drawn.means(self.matched), drawn.means(self.objects)[:, 0])
        low, high = np.nanquantile(draws, (0.025, 0.975))
        return float(low), float(high)


def measure_name(group: Recalls) -> str:
    """`ar@1000`, `ar@1000-small`."""
    end = "" if group.objects_of == "all" else f"-{group.objects_of}"
    return f"ar@{group.number}{end}"


def splittable(run: Results) -> Splittable:
    """Recall of each image with objects, of all its proposals; groups come from a file."""
    every = [g for g in groups(run) if g.objects_of == "all"]
    most = max((g.number for g in every), default=0)
    curves, said = [], dict[Key, dict[str, str]]()
    for group in (g for g in every if g.number == most):
        kept = np.flatnonzero(group.objects)
        keys = tuple(group.keys[i] for i in kept)
        shares = group.matched[kept].mean(axis=1) / group.objects[kept]
        clusters = tuple(group.clusters[i] for i in kept)
        curves.append(Curves(*group.key, keys, clusters, shares[:, None]))
        said |= {(group.dataset, *key): {} for key in keys}
    return Splittable(tuple(curves), said, f"AR@{most} of images", (1,))


def groups(run: Results) -> list[Recalls]:
    """All numbers of a run, the largest number of proposals first."""
    keys = ("dataset", "model", "protocol", "round", "target")
    table = run.sql(f"""
        select {", ".join(keys)}, scene, objects, matched, proposals from rows
        order by dataset, model, protocol desc, round desc, target, scene
    """).to_pylist()
    names = dataset_names(run.plan.datasets)
    return [
        _group((names.get(dataset, dataset), *rest), list(rows))
        for (dataset, *rest), rows in groupby(table, lambda r: tuple(r[k] for k in keys))
    ]


def _group(key: Sequence[Any], rows: list[dict[str, object]]) -> Recalls:
    dataset, model, protocol, number, objects_of = key
    columns = {
        name: np.array([row[name] for row in rows], dtype=np.float64)
        for name in ("objects", "matched", "proposals")
    }
    keys, scenes = image_keys(str(row["scene"]) for row in rows)
    return Recalls(model, dataset, "", protocol, keys, scenes, objects_of, int(number), **columns)


def summary(run: Results) -> list[SummaryRow]:
    """Average recall of every group, and how many masks were proposed."""
    return [row for group in groups(run) for row in _rows(group)]


def differences(run: Results) -> list[Difference]:
    """Every pair of models by recall of each image, at the largest number of proposals."""
    everything = groups(run)
    most = max((group.number for group in everything), default=0)
    whole = [g for g in everything if (g.objects_of, g.number) == ("all", most)]
    return differences_in([f"ar@{most}"], whole, _each)


def _each(group: Recalls, measure: str) -> Floats:
    """Recall of each image; NaN, and so not compared, where it has no object."""
    found = np.full(len(group.keys), np.nan)
    some = np.flatnonzero(group.objects > 0)
    found[some] = average_recall_of(group.matched[some], group.objects[some])
    return found


def _rows(group: Recalls) -> Iterator[SummaryRow]:
    if not group.objects.any():
        return
    yield summary_row(group, measure_name(group), Interval(group.value, *group.limits()))
    if group.objects_of == "all" and group.number >= group.proposals.max(initial=0):
        draws = resampling(group, RESAMPLES).means(group.proposals)[:, 0]
        several = draws if len(group.keys) > 1 else draws[:0]
        yield summary_row(group, "masks", percentiles(float(group.proposals.mean()), several))
