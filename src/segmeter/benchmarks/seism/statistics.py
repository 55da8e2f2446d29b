"""Statistics of the benchmark: ODS, OIS and AP of each method, and the human point.

`published` numbers follow the authors: F_b from counts pooled over images and F_op from
mean precision and recall, under the rule `seism`; covering, PRI and VoI as in the region
benchmark of BSDS500; one setting for all images, chosen on the very same images.
`corrected` numbers choose the setting of each image on all others.
"""

from __future__ import annotations

from collections.abc import Callable
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
_COUNTS = ("matched_ground_truth", "ground_truth_pixels", "matched_prediction", "prediction_pixels")
_REGION = ("pop", "rop", "fop", "covered", "coverable", "best_covered", "pri", "voi")
Columns = dict[str, Floats]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class MethodTables(Group):
    """One method on one data set in one protocol; columns are images x settings."""

    settings: tuple[str, ...]
    columns: Columns

    @property
    def has_regions(self) -> bool:
        """Whether the method gives partitions, not boundaries alone."""
        return bool(np.isfinite(self.columns["fop"]).all())

    @cached_property
    def boundary_curve(self) -> Curve:
        parts = [self.columns[name].astype(np.int64) for name in _COUNTS]
        return summarize(PooledCounts(self._places, *parts))

    @cached_property
    def op_curve(self) -> Curve:
        return summarize(MeanScores(self._places, self.columns["pop"], self.columns["rop"]))

    @property
    def _places(self) -> Floats:
        """Settings by place: their names need not be numbers."""
        return np.arange(len(self.settings), dtype=np.float64)


# A set's value at each setting, from columns whose first axis (images) was averaged.
SetValue = Callable[[Columns], Floats]


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _set_fb(means: Columns) -> Floats:
    precision = _ratio(means["matched_prediction"], means["prediction_pixels"])
    return harmonics(precision, _ratio(means["matched_ground_truth"], means["ground_truth_pixels"]))


_VALUES: dict[str, SetValue] = {
    "fb": _set_fb,
    "fop": lambda means: harmonics(means["pop"], means["rop"]),
    "covering": lambda means: _ratio(means["covered"], means["coverable"]),
    "pri": lambda means: means["pri"],
    "voi": lambda means: -means["voi"],
}
"""All larger is better; VoI is turned back when it is shown."""

_SIGN = {"voi": -1.0}


def groups(run: Results) -> list[MethodTables]:
    """All methods of a run in both protocols, people left out."""
    found = load_tables(
        run,
        ["setting", "fb", *_COUNTS, *_REGION],
        by=("model", "dataset"),
        unit=("scene",),
        axis="place",
        where=f"model <> '{PEOPLE}'",
    )
    return [_group(tables, protocol) for tables in found for protocol in ("published", "corrected")]


def human_points(run: Results) -> dict[str, dict[str, Point]]:
    """By data set: where people stand on `fb` (counts pooled) and `fop` (means), as methods.

    F_op averages an image's annotators first, then images.
    """
    sums = ", ".join(f"sum({name}) as {name}" for name in _COUNTS)
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
    columns = {name: tables.table(name) for name in ("fb", *_COUNTS, *_REGION)}
    who = (tables.model, tables.dataset, "", protocol)
    return MethodTables(*who, tables.keys, tables.clusters, settings.pop(), columns)  # type: ignore[arg-type]  # one of the two


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


def _drawn(group: MethodTables) -> Resampling:
    return resampling(group, _RESAMPLES)


def _best_setting(group: MethodTables, name: str) -> Interval:
    """ODS: one setting for all images. A resample chooses its own, as the set itself did."""
    value_of, sign, drawn = _VALUES[name], _SIGN.get(name, 1.0), _drawn(group)
    columns = _columns_of(group, name)
    resampled = value_of({k: drawn.means(v) for k, v in columns.items()})
    at_each = value_of({k: v.mean(axis=0) for k, v in columns.items()})
    return _interval(group, sign * float(at_each.max()), sign * resampled.max(axis=1))


def _best_covering(group: MethodTables) -> Interval:
    """Covering where every region of the ground truth chooses its own setting."""
    drawn = _drawn(group)
    columns = {
        "covered": group.columns["best_covered"][:, :1],
        "coverable": group.columns["coverable"][:, :1],
    }
    value = columns["covered"].sum() / columns["coverable"].sum()
    draws = _VALUES["covering"]({k: drawn.means(v) for k, v in columns.items()})
    return _interval(group, float(value), draws[:, 0])


def _average_precision(group: MethodTables, name: str) -> Interval:
    """AP of the curve, and of the curve of every resampled set."""
    drawn = _drawn(group)
    columns = [drawn.means(column) for column in _columns_of(group, name).values()]
    draws = [_curve(name, [c[k : k + 1] for c in columns]).ap for k in range(len(columns[0]))]
    curve = group.boundary_curve if name == "fb" else group.op_curve
    return _interval(group, curve.ap, np.array(draws))


def _curve(name: str, columns: list[Floats]) -> Curve:
    """The curve of a set that is given by its counts, or by its precision and recall."""
    places = np.arange(columns[0].shape[1], dtype=np.float64)
    if name == "fop":
        return summarize(MeanScores(places, *columns))
    # Means over images; in thousandths of a pixel they are whole numbers near enough.
    return summarize(PooledCounts(places, *(np.rint(1000 * c).astype(np.int64) for c in columns)))


def _chosen(group: MethodTables, name: str, places: Places) -> Interval:
    """The set's value with each image at its own place, and that of resampled sets."""
    drawn, rows = _drawn(group), np.arange(len(group.keys))
    picked = {k: v[rows, places][:, None] for k, v in _columns_of(group, name).items()}
    sign = _SIGN.get(name, 1.0)
    value = _VALUES[name]({k: v.mean(axis=0) for k, v in picked.items()})
    draws = _VALUES[name]({k: drawn.means(v) for k, v in picked.items()})
    return _interval(group, sign * float(value[0]), sign * draws[:, 0])


def _own_best(group: MethodTables, name: str) -> Places:
    """OIS: the first best setting of each image."""
    return np.asarray(np.argmax(_VALUES[name](_columns_of(group, name)), axis=1))


def _best_elsewhere(group: MethodTables, name: str) -> Places:
    """The first setting that is best on all other images together."""
    columns = _columns_of(group, name)
    if len(group.keys) == 1:
        return _own_best(group, name)
    others = {k: (v.sum(axis=0) - v) / (len(group.keys) - 1) for k, v in columns.items()}
    return np.asarray(np.argmax(_VALUES[name](others), axis=1))


def _columns_of(group: MethodTables, name: str) -> Columns:
    needed = {
        "fb": _COUNTS,
        "fop": ("pop", "rop"),
        "covering": ("covered", "coverable"),
        "pri": ("pri",),
        "voi": ("voi",),
    }
    return {column: group.columns[column] for column in needed[name]}


def _elsewhere(group: MethodTables, measure: str) -> Floats:
    """F of each image at the setting that is best on the other images."""
    places = _best_elsewhere(group, measure)
    found: Floats = group.columns[measure][np.arange(len(group.keys)), places]
    return found


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
        there = group.protocol == "corrected" and (name == "fb" or group.has_regions)
        return _elsewhere(group, name) if there else np.full(len(group.keys), np.nan)

    return Statistic(
        name, _TITLES[name], "", 3, "higher", values=values, of=MethodTables, tested="yes"
    )


STATISTICS = [
    *(_of(name, "ODS", _best_setting, "published") for name in _VALUES),
    *(
        _of(name, "OIS", lambda g, n: _chosen(g, n, _own_best(g, n)), "published")
        for name in _VALUES
    ),
    *(
        _of(name, "ODS", lambda g, n: _chosen(g, n, _best_elsewhere(g, n)), "corrected")
        for name in _VALUES
    ),
    _of("covering", "best", lambda g, _: _best_covering(g), "published"),
    *(_of(name, "AP", _average_precision, "published", several=True) for name in ("fb", "fop")),
    _compared("fb"),
    _compared("fop"),
]
"""ODS, OIS and AP; methods are compared by F of each image at the setting best elsewhere."""
