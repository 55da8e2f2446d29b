"""Statistics of the benchmark: ODS, OIS and AP of each method, and the human point.

`published` numbers follow the authors: F_b from counts pooled over images and F_op from
mean precision and recall, under the rule `seism`; covering, PRI and VoI as in the region
benchmark of BSDS500; one setting for all images, chosen on the very same images.
`corrected` numbers choose the setting of each image on all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.by_group.splitting import Splittable, ungrouped
from segmeter.benchmarks.grouping import (
    by_image,
    comparisons,
    image_keys,
    image_table,
    paired,
    percentiles,
    resampling,
    summary_row,
)
from segmeter.benchmarks.seism.methods import PEOPLE
from segmeter.core.benchmarks import Curves, Difference, Group, Results, SummaryRow
from segmeter.core.errors import BadInput
from segmeter.core.models import ProtocolName
from segmeter.measures.curves import Curve, MeanScores, Point, PooledCounts, summarize
from segmeter.measures.objects_and_parts import harmonics
from segmeter.stats.intervals import Floats, Resampling
from segmeter.stats.pairwise import Where, corrected, paired_difference

__all__ = ["MethodTables", "differences", "groups", "human_points", "splittable", "summary"]

_RESAMPLES = 1000
_COUNTS = ("matched_ground_truth", "ground_truth_pixels", "matched_prediction", "prediction_pixels")
_REGION = ("pop", "rop", "fop", "covered", "coverable", "best_covered", "pri", "voi")
Columns = dict[str, Floats]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class MethodTables(Group):
    """One method on one data set, for both protocols; columns are images x settings."""

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
    """All methods of a run, people left out."""
    table = run.sql(f"""
        select model, dataset, scene, round, setting, {", ".join(_present(run))}
        from rows where model <> '{PEOPLE}' order by model, dataset, scene, round
    """).to_pylist()
    found = by_image(run, table, ("model", "dataset"))
    return [_group(model, dataset, scenes) for (model, dataset), scenes in found]


def splittable(run: Results) -> Splittable:
    """F_b of each image at the setting that is best on all others; groups come from a file."""
    found = groups(run)
    curves = tuple(
        Curves(*group.key, group.keys, group.clusters, _elsewhere(group, "fb")[:, None])
        for group in found
    )
    return Splittable(curves, ungrouped(found), "F_b", (1,))


def human_points(run: Results) -> dict[str, dict[str, Point]]:
    """By data set: where people stand on `fb` (counts pooled) and `fop` (means), as methods.

    F_op averages an image's annotators first, then images.
    """
    sums = ", ".join(f"sum({name}) as {name}" for name in _COUNTS)
    within = 'target, "user", protocol, round'  # sums of numbers follow their order
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


def summary(run: Results) -> list[SummaryRow]:
    """Every statistic of every method, with its interval over images."""
    return [row for group in groups(run) for row in _summary(group)]


def differences(run: Results) -> list[Difference]:
    """Every pair of methods by F of each image at the setting chosen on the others."""
    return [found for members in comparisons(groups(run)) for found in _differences(members)]


def _differences(members: Sequence[MethodTables]) -> list[Difference]:
    """All pairs in both measures, corrected together."""
    return corrected(
        paired_difference(
            Where(*first.comparison, measure),
            paired(first, _elsewhere(first, measure)),
            paired(second, _elsewhere(second, measure)),
        )
        for first, second in combinations(members, 2)
        for measure in ("fb", "fop")
        if measure == "fb" or (first.has_regions and second.has_regions)
    )


def _present(run: Results) -> list[str]:
    """The columns that are needed; edge maps leave the region measures empty."""
    names = set(run.sql("select * from rows limit 0").column_names)
    return [
        f"{name}::double as {name}" if name in names else f"null::double as {name}"
        for name in ("fb", *_COUNTS, *_REGION)
    ]


def _group(
    model: str, dataset: str, scenes: Mapping[str, Sequence[Mapping[str, Any]]]
) -> MethodTables:
    settings = {tuple(row["setting"] for row in rows) for rows in scenes.values()}
    if len(settings) != 1:
        raise BadInput(f"{model} on {dataset} has other settings on some images than on others")
    columns = {name: image_table(scenes, name) for name in ("fb", *_COUNTS, *_REGION)}
    # Models are compared in `corrected`: each image at the setting that is best elsewhere.
    return MethodTables(
        model, dataset, "", "corrected", *image_keys(scenes), settings.pop(), columns
    )


def _point(row: dict[str, Any]) -> dict[str, Point]:
    return {
        "fb": Point(
            None,
            float(row["matched_prediction"] / max(row["prediction_pixels"], 1)),
            float(row["matched_ground_truth"] / max(row["ground_truth_pixels"], 1)),
        ),
        "fop": Point(None, row["pop"], row["rop"]),
    }


def _summary(group: MethodTables) -> Iterator[SummaryRow]:
    drawn = resampling(group, _RESAMPLES)
    for protocol, measure, value, draws in _statistics(group, drawn):
        found = percentiles(value, draws if len(group.keys) > 1 else draws[:0])
        yield summary_row(replace(group, protocol=protocol), measure, found)


def _statistics(
    group: MethodTables, drawn: Resampling
) -> Iterator[tuple[ProtocolName, str, float, Floats]]:
    """Reading, name, value and the values of resampled sets of images."""
    for name in _measures(group):
        value_of, sign = _VALUES[name], _SIGN.get(name, 1.0)
        columns = _columns_of(group, name)
        resampled = value_of({k: drawn.means(v) for k, v in columns.items()})
        at_each = value_of({k: v.mean(axis=0) for k, v in columns.items()})
        # A resample chooses its own best setting, as the set itself did.
        yield "published", f"{name}-ods", sign * float(at_each.max()), sign * resampled.max(axis=1)
        yield ("published", f"{name}-ois", *_chosen(group, name, _own_best(group, name), drawn))
        yield (
            "corrected",
            f"{name}-ods",
            *_chosen(group, name, _best_elsewhere(group, name), drawn),
        )
    if group.has_regions:
        yield ("published", "covering-best", *_best_covering(group, drawn))
    for name in ("fb", "fop") if group.has_regions else ("fb",):
        if len(group.settings) > 1:
            yield ("published", f"{name}-ap", *_average_precision(group, name, drawn))


def _best_covering(group: MethodTables, drawn: Resampling) -> tuple[float, Floats]:
    columns = {
        "covered": group.columns["best_covered"][:, :1],
        "coverable": group.columns["coverable"][:, :1],
    }
    value = columns["covered"].sum() / columns["coverable"].sum()
    draws = _VALUES["covering"]({k: drawn.means(v) for k, v in columns.items()})
    return float(value), draws[:, 0]


def _average_precision(group: MethodTables, name: str, drawn: Resampling) -> tuple[float, Floats]:
    """AP of the curve, and of the curve of every resampled set."""
    columns = [drawn.means(column) for column in _columns_of(group, name).values()]
    draws = [_curve(name, [c[k : k + 1] for c in columns]).ap for k in range(len(columns[0]))]
    return (group.boundary_curve if name == "fb" else group.op_curve).ap, np.array(draws)


def _curve(name: str, columns: list[Floats]) -> Curve:
    """The curve of a set that is given by its counts, or by its precision and recall."""
    places = np.arange(columns[0].shape[1], dtype=np.float64)
    if name == "fop":
        return summarize(MeanScores(places, *columns))
    # Means over images; in thousandths of a pixel they are whole numbers near enough.
    return summarize(PooledCounts(places, *(np.rint(1000 * c).astype(np.int64) for c in columns)))


def _chosen(
    group: MethodTables, name: str, places: Places, drawn: Resampling
) -> tuple[float, Floats]:
    """The set's value with each image at its own place, and that of resampled sets."""
    columns = _columns_of(group, name)
    rows = np.arange(len(group.keys))
    picked = {k: v[rows, places][:, None] for k, v in columns.items()}
    sign = _SIGN.get(name, 1.0)
    value = _VALUES[name]({k: v.mean(axis=0) for k, v in picked.items()})
    return sign * float(value[0]), sign * _VALUES[name](
        {k: drawn.means(v) for k, v in picked.items()}
    )[:, 0]


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


def _measures(group: MethodTables) -> list[str]:
    return list(_VALUES) if group.has_regions else ["fb"]


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
