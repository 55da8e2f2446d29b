"""Statistics of the benchmark: average recall, pooled over pictures, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.measures.proposal_recall import average_recall_of
from segmeter.stats.intervals import Floats, Resampling
from segmeter.stats.pairwise import PairedValues, Where, pairwise_differences

__all__ = ["Group", "differences", "groups", "measure_name", "summary"]

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Group:
    """One model, data set, reading, kind of objects and number of proposals.

    `matched` is pictures x thresholds, `objects` and `proposals` one number per picture.
    """

    model: str
    dataset: str
    reading: str
    objects_of: str
    number: int
    scenes: tuple[str, ...]
    objects: Floats
    matched: Floats
    proposals: Floats

    @property
    def value(self) -> float:
        """Share of all objects of all pictures, averaged over thresholds; NaN without any."""
        return float(average_recall_of(self.matched.sum(axis=0), self.objects.sum()))

    def limits(self) -> tuple[float, float]:
        """The middle 95 % of resampled sets of pictures."""
        if len(self.scenes) < 2 or not self.objects.any():
            return np.nan, np.nan
        drawn = Resampling(self.scenes, resamples=RESAMPLES, seed=self.dataset)
        draws = average_recall_of(drawn.means(self.matched), drawn.means(self.objects)[:, 0])
        low, high = np.nanquantile(draws, (0.025, 0.975))
        return float(low), float(high)


def measure_name(group: Group) -> str:
    """`ar@1000`, `ar@1000-small`."""
    end = "" if group.objects_of == "all" else f"-{group.objects_of}"
    return f"ar@{group.number}{end}"


def groups(run: Results) -> list[Group]:
    """All numbers of a run, the largest number of proposals first."""
    keys = ("dataset", "model", "reading", "round", "target")
    table = run.sql(f"""
        select {", ".join(keys)}, scene, objects, matched, proposals from rows
        order by dataset, model, reading, round desc, target, scene
    """).to_pylist()
    return [
        _group(key, list(rows)) for key, rows in groupby(table, lambda r: tuple(r[k] for k in keys))
    ]


def _group(key: tuple[str, str, str, int, str], rows: list[dict[str, object]]) -> Group:
    dataset, model, reading, number, objects_of = key
    columns = {
        name: np.array([row[name] for row in rows], dtype=np.float64)
        for name in ("objects", "matched", "proposals")
    }
    scenes = tuple(str(row["scene"]) for row in rows)
    return Group(model, dataset, reading, objects_of, int(number), scenes, **columns)


def summary(run: Results) -> list[SummaryRow]:
    """Average recall of every group, and how many masks were proposed."""
    return [row for group in groups(run) for row in _rows(group)]


def differences(run: Results) -> list[Difference]:
    """Every pair of models by recall of each picture, at the largest number of proposals."""
    together: dict[tuple[str, str], list[Group]] = {}
    everything = groups(run)
    most = max((group.number for group in everything), default=0)
    for group in everything:
        if (group.objects_of, group.number) == ("all", most):
            together.setdefault((group.dataset, group.reading), []).append(group)
    return [
        gap
        for (dataset, reading), members in together.items()
        for gap in pairwise_differences(
            Where(dataset, "", reading, f"ar@{most}"), [_paired(group) for group in members]
        )
    ]


def _paired(group: Group) -> PairedValues:
    some = np.flatnonzero(group.objects > 0)
    scenes = [group.scenes[i] for i in some]
    values = average_recall_of(group.matched[some], group.objects[some])
    return PairedValues(group.model, scenes, scenes, values)


def _rows(group: Group) -> Iterator[SummaryRow]:
    if not group.objects.any():
        return
    place = (group.model, group.dataset, "", group.reading)
    pictures = len(group.scenes)
    yield SummaryRow(*place, measure_name(group), group.value, *group.limits(), pictures)
    if group.objects_of == "all" and group.number >= group.proposals.max(initial=0):
        drawn = Resampling(group.scenes, resamples=RESAMPLES, seed=group.dataset)
        draws = drawn.means(group.proposals)[:, 0]
        low, high = np.quantile(draws, (0.025, 0.975)) if pictures > 1 else (np.nan,) * 2
        mean = float(group.proposals.mean())
        yield SummaryRow(*place, "masks", mean, float(low), float(high), pictures)
