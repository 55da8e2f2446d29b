"""Statistics of the benchmark: ODS, OIS and AP of each method, and the human point.

`published` numbers follow the authors: F_b from counts pooled over images and F_op from
mean precision and recall, under the rule `seism`; covering, PRI and VoI as in the region
benchmark of BSDS500; one setting for all images, chosen on the very same images.
`corrected` numbers choose the setting of each image on all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.seism.methods import PEOPLE
from segmeter.core.benchmarks import Group, Results
from segmeter.core.errors import BadInput
from segmeter.core.scores_by_step import Tables, load_tables
from segmeter.measures.curves import Curve, MeanScores, Point, PooledCounts, summarize
from segmeter.measures.objects_and_parts import harmonics
from segmeter.stats.intervals import Floats, Interval, Resampling
from segmeter.stats.statistics import Statistic, percentiles, resampling

_RESAMPLES = 1000
COUNTS = ("matched_ground_truth", "ground_truth_pixels", "matched_prediction", "prediction_pixels")
_REGION = ("pop", "rop", "fop", "covered", "coverable", "best_covered", "pri", "voi")
Columns = dict[str, Floats]
Places = npt.NDArray[np.intp]


# A set's value at each setting, from columns whose first axis (images) was averaged.
SetValue = Callable[[Columns], Floats]


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def set_fb(means: Columns) -> Floats:
    """F of boundaries from counts."""
    precision = _ratio(means["matched_prediction"], means["prediction_pixels"])
    return harmonics(precision, _ratio(means["matched_ground_truth"], means["ground_truth_pixels"]))


_VALUES: dict[str, tuple[tuple[str, ...], SetValue]] = {
    "fb": (COUNTS, set_fb),
    "fop": (("pop", "rop"), lambda means: harmonics(means["pop"], means["rop"])),
    "covering": (
        ("covered", "coverable"),
        lambda means: _ratio(means["covered"], means["coverable"]),
    ),
    "pri": (("pri",), lambda means: means["pri"]),
    "voi": (("voi",), lambda means: -means["voi"]),
}
"""Columns and value of each measure, larger is better; VoI is turned back when it is shown."""

_SIGN = {"voi": -1.0}


@dataclass(frozen=True)
class SweptTables(Group):
    """One method on one dataset in one protocol; columns are images x settings."""

    columns: Columns

    def own_best(self, measure: str) -> Places:
        """OIS: the first best setting of each image."""
        names, value = _VALUES[measure]
        return np.asarray(np.argmax(value({n: self.columns[n] for n in names}), axis=1))

    def best_elsewhere(self, measure: str) -> Places:
        """The first setting that is best on all other images together."""
        if len(self.keys) == 1:
            return self.own_best(measure)
        names, value = _VALUES[measure]
        others = {n: self.columns[n].sum(axis=0) - self.columns[n] for n in names}
        mean = {n: column / (len(self.keys) - 1) for n, column in others.items()}
        return np.asarray(np.argmax(value(mean), axis=1))

    def at(self, names: Iterable[str], places: Places) -> Columns:
        """Columns with each image at its own place, `(images, 1)`."""
        rows = np.arange(len(self.keys))
        return {n: self.columns[n][rows, places][:, None] for n in names}

    def values_at(self, measure: str, places: Places, drawn: Resampling) -> tuple[float, Floats]:
        """The set's value with each image at its own place, and that of resampled sets."""
        names, value = _VALUES[measure]
        picked = self.at(names, places)
        mean = value({n: column.mean(axis=0) for n, column in picked.items()})
        return float(mean[0]), value({n: drawn.means(c) for n, c in picked.items()})[:, 0]


@dataclass(frozen=True)
class MethodTables(SweptTables):
    """A method with its settings."""

    settings: tuple[str, ...]

    @property
    def has_regions(self) -> bool:
        """Whether the method gives partitions, not boundaries alone."""
        return bool(np.isfinite(self.columns["fop"]).all())

    def curve(self, measure: str) -> Curve:
        """Precision over recall of `fb`, counts pooled, or of `fop`, means over images."""
        return _curve(measure, [self.columns[name] for name in _VALUES[measure][0]])

    @cached_property
    def drawn(self) -> Resampling:
        return resampling(self, _RESAMPLES)


def groups(run: Results) -> list[MethodTables]:
    """All methods of a run in both protocols, people left out."""
    found = load_tables(
        run,
        ["setting", "fb", *COUNTS, *_REGION],
        by=("model", "dataset"),
        unit=("scene",),
        axis="place",
        where=f"model <> '{PEOPLE}'",
    )
    return [_group(tables, protocol) for tables in found for protocol in ("published", "corrected")]


def human_points(run: Results) -> dict[str, dict[str, Point]]:
    """By dataset: where people stand on `fb` (counts pooled) and `fop` (means), as methods.

    F_op averages an image's annotators first, then images.
    """
    sums = ", ".join(f"sum({name}) as {name}" for name in COUNTS)
    within = "place"  # sums of numbers follow their order
    table = run.sql(f"""
        with images as (
            select dataset, scene, {sums},
                   list_avg(list(pop order by {within})) as pop,
                   list_avg(list(rop order by {within})) as rop
            from rows where model = '{PEOPLE}' group by dataset, scene)
        select dataset, {sums}, list_avg(list(pop order by scene)) as pop,
               list_avg(list(rop order by scene)) as rop
        from images group by dataset order by dataset
    """)
    return {row["dataset"]: _point(row) for row in table.to_pylist()}


def _group(tables: Tables, protocol: str) -> MethodTables:
    settings = {tuple(each) for each in tables.fact("setting")}
    if len(settings) != 1:
        raise BadInput(
            f"{tables.model} on {tables.dataset} has other settings on some images than on others"
        )
    columns = {name: tables.table(name) for name in ("fb", *COUNTS, *_REGION)}
    who = (tables.model, tables.dataset, "", protocol)
    return MethodTables(*who, tables.keys, tables.clusters, columns, settings.pop())  # type: ignore[arg-type]  # one of the two


def _point(row: dict[str, Any]) -> dict[str, Point]:
    return {
        "fb": Point(
            None,
            float(row["matched_prediction"] / max(row["prediction_pixels"], 1)),
            float(row["matched_ground_truth"] / max(row["ground_truth_pixels"], 1)),
        ),
        "fop": Point(None, row["pop"], row["rop"]),
    }


def _interval(group: MethodTables, value: float, draws: Floats) -> Interval:
    return percentiles(value, draws if len(group.keys) > 1 else draws[:0])


def _best_setting(group: MethodTables, measure: str) -> Interval:
    """ODS: one setting for all images. A resample chooses its own, as the set itself did."""
    (names, value), sign = _VALUES[measure], _SIGN.get(measure, 1.0)
    resampled = value({n: group.drawn.means(group.columns[n]) for n in names})
    at_each = value({n: group.columns[n].mean(axis=0) for n in names})
    return _interval(group, sign * float(at_each.max()), sign * resampled.max(axis=1))


def _best_covering(group: MethodTables) -> Interval:
    """Covering where every region of the ground truth chooses its own setting."""
    covered, coverable = (group.columns[n][:, :1] for n in ("best_covered", "coverable"))
    draws = _ratio(group.drawn.means(covered), group.drawn.means(coverable))
    return _interval(group, float(covered.sum() / coverable.sum()), draws[:, 0])


def _average_precision(group: MethodTables, measure: str) -> Interval:
    """AP of the curve, and of the curve of every resampled set."""
    # Means over images; in thousandths of a pixel they are whole numbers near enough.
    scale = 1 if measure == "fop" else 1000
    means = [scale * group.drawn.means(group.columns[n]) for n in _VALUES[measure][0]]
    draws = [_curve(measure, [m[k : k + 1] for m in means]).ap for k in range(len(means[0]))]
    return _interval(group, group.curve(measure).ap, np.array(draws))


def _curve(measure: str, columns: list[Floats]) -> Curve:
    """The curve of a set that is given by its counts, or by its precision and recall."""
    places = np.arange(columns[0].shape[1], dtype=np.float64)  # names need not be numbers
    if measure == "fop":
        return summarize(MeanScores(places, *columns))
    return summarize(PooledCounts(places, *(np.rint(c).astype(np.int64) for c in columns)))


def _chosen(group: MethodTables, measure: str, places: Places) -> Interval:
    """The set's value with each image at its own place."""
    sign = _SIGN.get(measure, 1.0)
    value, draws = group.values_at(measure, places, group.drawn)
    return _interval(group, sign * value, sign * draws)


_TITLES = {"fb": "F_b", "fop": "F_op", "covering": "covering", "pri": "PRI", "voi": "VoI"}


def _of(
    name: str,
    kind: str,
    compute: Callable[[MethodTables, str], Interval],
    protocol: str,
    several: bool = False,
) -> Statistic:
    """A statistic of one measure in one protocol; none of what a method does not have."""

    def whole(group: MethodTables) -> Interval | None:
        there = group.protocol == protocol and (name == "fb" or group.has_regions)
        return compute(group, name) if there and (not several or len(group.settings) > 1) else None

    return Statistic(
        f"{name}-{kind.lower()}",
        f"{_TITLES[name]} {kind}",
        "bits" if name == "voi" else "",
        3,
        "lower" if name == "voi" else "higher",
        whole=whole,
        of=MethodTables,
        tested="no",
    )


def _compared(name: str) -> Statistic:
    """F of each image at the setting that is best on the others."""

    def values(group: MethodTables) -> Floats:
        if group.protocol != "corrected" or not (name == "fb" or group.has_regions):
            return np.full(len(group.keys), np.nan)
        return group.at([name], group.best_elsewhere(name))[name][:, 0]

    return Statistic(
        name, _TITLES[name], "", 3, "higher", values=values, of=MethodTables, tested="yes"
    )


STATISTICS = [
    *(_of(name, "ODS", _best_setting, "published") for name in _VALUES),
    *(_of(name, "OIS", lambda g, n: _chosen(g, n, g.own_best(n)), "published") for name in _VALUES),
    *(
        _of(name, "ODS", lambda g, n: _chosen(g, n, g.best_elsewhere(n)), "corrected")
        for name in _VALUES
    ),
    _of("covering", "best", lambda g, _: _best_covering(g), "published"),
    *(_of(name, "AP", _average_precision, "published", several=True) for name in ("fb", "fop")),
    _compared("fb"),
    _compared("fop"),
]
"""ODS, OIS and AP; methods are compared by F of each image at the setting best elsewhere."""
