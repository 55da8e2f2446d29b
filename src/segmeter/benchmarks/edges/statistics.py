"""Statistics of the benchmark: ODS, OIS, AP and R50 of each method, with intervals.

`published` numbers follow the benchmark of BSDS500 and the structured-edges toolbox: AP sums
101 samples over 100, R50 is read off a curve whose precision need not fall steadily. `sound`
takes the area under the upper envelope and the largest recall at a precision of half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import numpy.typing as npt

from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.measures.curves import Curve, PooledCounts, summarize
from segmeter.measures.objects_and_parts import harmonics
from segmeter.stats.intervals import Floats, Resampling
from segmeter.stats.pairwise import PairedValues, Where, pairwise_differences

__all__ = ["Group", "differences", "groups", "rows_of_group", "summary"]

RESAMPLES = 300
MEASURES = ("ods", "ois", "ap", "r50")
_COUNTS = ("matched_truth", "truth_pixels", "matched_guess", "guess_pixels")


@dataclass(frozen=True)
class Group:
    """One method on one data set in one reading.

    `counts` are four tables, pictures x thresholds.
    """

    model: str
    dataset: str
    reading: str
    scenes: tuple[str, ...]
    thresholds: Floats
    counts: tuple[Floats, Floats, Floats, Floats]

    @cached_property
    def curve(self) -> Curve:
        return summarize(self._pooled(*self.counts), "edges")

    @cached_property
    def values(self) -> tuple[float, ...]:
        """ODS, OIS, AP and R50."""
        return self._numbers(self.curve, self.curve.ois.f)

    @cached_property
    def resampled(self) -> Floats:
        """The same of resampled sets of pictures, `(resamples, 4)`."""
        drawn = Resampling(self.scenes, resamples=RESAMPLES, seed=self.dataset)
        sums = [drawn.means(table) for table in self.counts]
        own = [drawn.means(table)[:, 0] for table in self._at(self._own_best)]
        ois = harmonics(_rate(own[2], own[3]), _rate(own[0], own[1]))
        found = []
        for k in range(RESAMPLES):
            # Means over pictures; in thousandths of a pixel they are whole numbers near enough.
            curve = summarize(self._pooled(*(1000 * s[k : k + 1] for s in sums)), "edges")
            found.append(self._numbers(curve, float(ois[k])))
        return np.array(found)

    def elsewhere(self) -> Floats:
        """F of each picture at the threshold that is best on all other pictures."""
        if len(self.scenes) == 1:
            places = self._own_best
        else:
            others = [table.sum(axis=0) - table for table in self.counts]
            places = np.argmax(self._f(others), axis=1)
        found: Floats = self._f(self._at(places))[:, 0]
        return found

    @property
    def _own_best(self) -> npt.NDArray[np.intp]:
        return np.asarray(np.argmax(self._f(self.counts), axis=1), dtype=np.intp)

    def _at(self, places: npt.NDArray[np.intp]) -> list[Floats]:
        rows = np.arange(len(self.scenes))
        return [table[rows, places][:, None] for table in self.counts]

    @staticmethod
    def _f(counts: Sequence[Floats]) -> Floats:
        matched_truth, truth, matched_guess, guess = np.asarray(counts, dtype=np.float64)
        return harmonics(_rate(matched_guess, guess), _rate(matched_truth, truth))

    def _pooled(self, *counts: Floats) -> PooledCounts:
        return PooledCounts(self.thresholds, *(np.rint(c).astype(np.int64) for c in counts))

    def _numbers(self, curve: Curve, ois: float) -> tuple[float, ...]:
        if self.reading == "sound":
            return curve.ods.f, ois, curve.sound_ap, curve.sound_r50
        return curve.ods.f, ois, curve.ap, np.nan if curve.r50 is None else curve.r50


def groups(run: Results) -> list[Group]:
    """All methods of a run, data set by data set, reading by reading."""
    table = run.sql(f"""
        select model, dataset, reading, scene, round, threshold, {", ".join(_COUNTS)}
        from rows order by dataset, model, reading, scene, round
    """).to_pylist()
    found = []
    keys = ("dataset", "model", "reading")
    for (dataset, model, reading), rows in groupby(table, lambda r: tuple(r[k] for k in keys)):
        scenes = {s: list(of) for s, of in groupby(rows, lambda r: r["scene"])}
        thresholds = [row["threshold"] for row in next(iter(scenes.values()))]
        counts = [
            np.array([[row[name] for row in of] for of in scenes.values()], dtype=np.float64)
            for name in _COUNTS
        ]
        found.append(
            Group(
                model,
                dataset,
                reading,
                tuple(scenes),
                np.array(thresholds),
                (counts[0], counts[1], counts[2], counts[3]),
            )
        )
    return found


def summary(run: Results) -> list[SummaryRow]:
    """Every number of every method, with its interval over pictures."""
    return [row for group in groups(run) for row in rows_of_group(group)]


def differences(run: Results) -> list[Difference]:
    """Every pair of methods by F of each picture at the threshold chosen on the others."""
    together: dict[tuple[str, str], list[Group]] = {}
    for group in groups(run):
        together.setdefault((group.dataset, group.reading), []).append(group)
    return [
        gap
        for (dataset, reading), members in together.items()
        for gap in pairwise_differences(
            Where(dataset, "", reading, "f"),
            [PairedValues(g.model, g.scenes, g.scenes, g.elsewhere()) for g in members],
        )
    ]


def rows_of_group(group: Group) -> list[SummaryRow]:
    """One method's numbers with their intervals."""
    several = len(group.scenes) > 1
    limits = _limits(group.resampled) if several else np.full((2, len(MEASURES)), np.nan)
    return [
        SummaryRow(
            group.model,
            group.dataset,
            "",
            group.reading,
            name,
            value,
            float(limits[0, k]),
            float(limits[1, k]),
            len(group.scenes),
        )
        for k, (name, value) in enumerate(zip(MEASURES, group.values, strict=True))
    ]


def _limits(draws: Floats) -> Floats:
    """The middle 95 %; a number that no resample has, has no limits."""
    limits = np.full((2, draws.shape[1]), np.nan)
    for k, column in enumerate(draws.T):
        known = column[~np.isnan(column)]
        if known.size:
            limits[:, k] = np.quantile(known, (0.025, 0.975))
    return limits


def _rate(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
