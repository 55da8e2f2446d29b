"""Statistics of the benchmark: ODS, OIS and AP of each method, and the human point.

`published` numbers follow the authors: F_b from counts pooled over pictures and F_op from
mean precision and recall, under the rule `seism`; covering, PRI and VoI as in the region
benchmark of BSDS500; one setting for all pictures, chosen on the very same pictures.
`sound` numbers choose the setting of each picture on all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.seism.methods import PEOPLE
from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.core.errors import BadInput
from segmeter.measures.curves import Curve, MeanScores, Point, PooledCounts, summarize
from segmeter.measures.objects_and_parts import harmonics
from segmeter.stats.intervals import Floats, Resampling
from segmeter.stats.pairwise import PairedValues, Where, corrected, paired_difference

__all__ = ["Group", "differences", "groups", "human_points", "summary"]

_RESAMPLES = 1000
_COUNTS = ("matched_truth", "truth_pixels", "matched_guess", "guess_pixels")
_REGION = ("pop", "rop", "fop", "covered", "coverable", "best_covered", "pri", "voi")
Columns = dict[str, Floats]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Group:
    """One method on one data set; columns are pictures x settings."""

    model: str
    dataset: str
    scenes: tuple[str, ...]
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


# A set's value at each setting, from columns whose first axis (pictures) was averaged.
SetValue = Callable[[Columns], Floats]


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _set_fb(means: Columns) -> Floats:
    precision = _ratio(means["matched_guess"], means["guess_pixels"])
    return harmonics(precision, _ratio(means["matched_truth"], means["truth_pixels"]))


_VALUES: dict[str, SetValue] = {
    "fb": _set_fb,
    "fop": lambda means: harmonics(means["pop"], means["rop"]),
    "covering": lambda means: _ratio(means["covered"], means["coverable"]),
    "pri": lambda means: means["pri"],
    "voi": lambda means: -means["voi"],
}
"""All larger is better; VoI is turned back when it is shown."""

_SIGN = {"voi": -1.0}


def groups(run: Results) -> list[Group]:
    """All methods of a run, people left out."""
    table = run.sql(f"""
        select model, dataset, scene, round, setting, {", ".join(_present(run))}
        from rows where model <> '{PEOPLE}' order by model, dataset, scene, round
    """).to_pylist()
    found: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for row in table:
        scenes = found.setdefault((row["model"], row["dataset"]), {})
        scenes.setdefault(row["scene"], []).append(row)
    return [_group(*key, scenes) for key, scenes in found.items()]


def human_points(run: Results) -> dict[str, dict[str, Point]]:
    """By data set: where people stand on `fb` (counts pooled) and `fop` (means), as methods.

    F_op averages a picture's annotators first, then pictures.
    """
    sums = ", ".join(f"sum({name}) as {name}" for name in _COUNTS)
    table = run.sql(f"""
        with pictures as (
            select dataset, scene, {sums}, avg(pop) as pop, avg(rop) as rop
            from rows where model = '{PEOPLE}' group by dataset, scene)
        select dataset, {sums}, avg(pop) as pop, avg(rop) as rop from pictures group by dataset
    """)
    return {row["dataset"]: _point(row) for row in table.to_pylist()}


def summary(run: Results) -> list[SummaryRow]:
    """Every statistic of every method, with its interval over pictures."""
    return [row for group in groups(run) for row in _summary(group)]


def differences(run: Results) -> list[Difference]:
    """Every pair of methods by F of each picture at the setting chosen on the others."""
    found: list[Difference] = []
    by_dataset: dict[str, list[Group]] = {}
    for group in groups(run):
        by_dataset.setdefault(group.dataset, []).append(group)
    for members in by_dataset.values():
        found += corrected(
            paired_difference(
                Where(first.dataset, "", "sound", measure),
                _paired_values(first, measure),
                _paired_values(second, measure),
            )
            for first, second in combinations(members, 2)
            for measure in ("fb", "fop")
            if measure == "fb" or (first.has_regions and second.has_regions)
        )
    return found


def _present(run: Results) -> list[str]:
    """The columns that are needed; edge maps leave the region measures empty."""
    names = set(run.sql("select * from rows limit 0").column_names)
    return [
        f"{name}::double as {name}" if name in names else f"null::double as {name}"
        for name in ("fb", *_COUNTS, *_REGION)
    ]


def _group(model: str, dataset: str, scenes: dict[str, list[dict[str, Any]]]) -> Group:
    settings = {tuple(row["setting"] for row in rows) for rows in scenes.values()}
    if len(settings) != 1:
        raise BadInput(f"{model} on {dataset} has other settings on some pictures than on others")
    columns = {
        name: np.array(
            [[np.nan if r[name] is None else r[name] for r in rows] for rows in scenes.values()]
        )
        for name in ("fb", *_COUNTS, *_REGION)
    }
    return Group(model, dataset, tuple(scenes), settings.pop(), columns)


def _point(row: dict[str, Any]) -> dict[str, Point]:
    return {
        "fb": Point(
            None,
            float(row["matched_guess"] / max(row["guess_pixels"], 1)),
            float(row["matched_truth"] / max(row["truth_pixels"], 1)),
        ),
        "fop": Point(None, row["pop"], row["rop"]),
    }


def _summary(group: Group) -> Iterator[SummaryRow]:
    drawn = Resampling(group.scenes, resamples=_RESAMPLES, seed=group.dataset)
    for reading, measure, value, draws in _statistics(group, drawn):
        low, high = np.quantile(draws, [0.025, 0.975]) if len(group.scenes) > 1 else (np.nan,) * 2
        yield SummaryRow(
            group.model,
            group.dataset,
            "",
            reading,
            measure,
            value,
            float(low),
            float(high),
            len(group.scenes),
        )


def _statistics(group: Group, drawn: Resampling) -> Iterator[tuple[str, str, float, Floats]]:
    """Reading, name, value and the values of resampled sets of pictures."""
    for name in _measures(group):
        value_of, sign = _VALUES[name], _SIGN.get(name, 1.0)
        columns = _columns_of(group, name)
        resampled = value_of({k: drawn.means(v) for k, v in columns.items()})
        at_each = value_of({k: v.mean(axis=0) for k, v in columns.items()})
        # A resample chooses its own best setting, as the set itself did.
        yield "published", f"{name}-ods", sign * float(at_each.max()), sign * resampled.max(axis=1)
        yield ("published", f"{name}-ois", *_chosen(group, name, _own_best(group, name), drawn))
        yield ("sound", f"{name}-ods", *_chosen(group, name, _best_elsewhere(group, name), drawn))
    if group.has_regions:
        yield ("published", "covering-best", *_best_covering(group, drawn))
    for name in ("fb", "fop") if group.has_regions else ("fb",):
        if len(group.settings) > 1:
            yield ("published", f"{name}-ap", *_average_precision(group, name, drawn))


def _best_covering(group: Group, drawn: Resampling) -> tuple[float, Floats]:
    columns = {
        "covered": group.columns["best_covered"][:, :1],
        "coverable": group.columns["coverable"][:, :1],
    }
    value = columns["covered"].sum() / columns["coverable"].sum()
    draws = _VALUES["covering"]({k: drawn.means(v) for k, v in columns.items()})
    return float(value), draws[:, 0]


def _average_precision(group: Group, name: str, drawn: Resampling) -> tuple[float, Floats]:
    """AP of the curve, and of the curve of every resampled set."""
    columns = [drawn.means(column) for column in _columns_of(group, name).values()]
    draws = [_curve(name, [c[k : k + 1] for c in columns]).ap for k in range(len(columns[0]))]
    return (group.boundary_curve if name == "fb" else group.op_curve).ap, np.array(draws)


def _curve(name: str, columns: list[Floats]) -> Curve:
    """The curve of a set that is given by its counts, or by its precision and recall."""
    places = np.arange(columns[0].shape[1], dtype=np.float64)
    if name == "fop":
        return summarize(MeanScores(places, *columns))
    # Means over pictures; in thousandths of a pixel they are whole numbers near enough.
    return summarize(PooledCounts(places, *(np.rint(1000 * c).astype(np.int64) for c in columns)))


def _chosen(group: Group, name: str, places: Places, drawn: Resampling) -> tuple[float, Floats]:
    """The set's value with each picture at its own place, and that of resampled sets."""
    columns = _columns_of(group, name)
    rows = np.arange(len(group.scenes))
    picked = {k: v[rows, places][:, None] for k, v in columns.items()}
    sign = _SIGN.get(name, 1.0)
    value = _VALUES[name]({k: v.mean(axis=0) for k, v in picked.items()})
    return sign * float(value[0]), sign * _VALUES[name](
        {k: drawn.means(v) for k, v in picked.items()}
    )[:, 0]


def _own_best(group: Group, name: str) -> Places:
    """OIS: the first best setting of each picture."""
    return np.asarray(np.argmax(_VALUES[name](_columns_of(group, name)), axis=1))


def _best_elsewhere(group: Group, name: str) -> Places:
    """The first setting that is best on all other pictures together."""
    columns = _columns_of(group, name)
    if len(group.scenes) == 1:
        return _own_best(group, name)
    others = {k: (v.sum(axis=0) - v) / (len(group.scenes) - 1) for k, v in columns.items()}
    return np.asarray(np.argmax(_VALUES[name](others), axis=1))


def _measures(group: Group) -> list[str]:
    return list(_VALUES) if group.has_regions else ["fb"]


def _columns_of(group: Group, name: str) -> Columns:
    needed = {
        "fb": _COUNTS,
        "fop": ("pop", "rop"),
        "covering": ("covered", "coverable"),
        "pri": ("pri",),
        "voi": ("voi",),
    }
    return {column: group.columns[column] for column in needed[name]}


def _paired_values(group: Group, measure: str) -> PairedValues:
    """F of each picture at the setting that is best on the other pictures."""
    places = _best_elsewhere(group, measure)
    values = group.columns[measure][np.arange(len(group.scenes)), places]
    return PairedValues(group.model, group.scenes, group.scenes, values)
