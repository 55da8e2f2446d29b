"""Statistics of partitions (ODS, OIS and AP of each method, the human point) and their sections.

`published` numbers follow the authors: F_b from counts pooled over images and F_op from
mean precision and recall, under the rule `seism`; covering, PRI and VoI as in the region
benchmark of BSDS500; one setting for all images, chosen on the very same images.
`corrected` numbers choose the setting of each image on all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from segmeter.analysis import report_parts as parts
from segmeter.benchmarks.seism.methods import PEOPLE
from segmeter.core import sections as page
from segmeter.core.benchmarks import Results
from segmeter.core.errors import BadInput
from segmeter.core.models import PROTOCOLS
from segmeter.core.scores_by_step import Tables
from segmeter.measures.curves import Curve, MeanScores, Point, PooledCounts, Rule, summarize
from segmeter.measures.objects_and_parts import harmonics
from segmeter.stats.intervals import Floats, Interval, Resampling, percentiles
from segmeter.stats.statistics import Statistic, resampling

COUNTS = ("matched_ground_truth", "ground_truth_pixels", "matched_prediction", "prediction_pixels")
_REGION = ("pop", "rop", "fop", "covered", "coverable", "best_covered", "pri", "voi")
Columns = dict[str, Floats]
Places = npt.NDArray[np.intp]


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def set_fb(means: Columns) -> Floats:
    precision = _ratio(means["matched_prediction"], means["prediction_pixels"])
    return harmonics(precision, _ratio(means["matched_ground_truth"], means["ground_truth_pixels"]))


_VALUES: dict[str, tuple[tuple[str, ...], Callable[[Columns], Floats]]] = {
    "fb": (COUNTS, set_fb),
    "fop": (("pop", "rop"), lambda means: harmonics(means["pop"], means["rop"])),
    "covering": (
        ("covered", "coverable"),
        lambda means: _ratio(means["covered"], means["coverable"]),
    ),
    "pri": (("pri",), lambda means: means["pri"]),
    "voi": (("voi",), lambda means: -means["voi"]),
}
"""Columns of each measure, and a set's value at each setting from their means over images.

Larger is better, so VoI is negative here; its sign is changed back when it is shown.
"""


class SweptTables(Tables):
    """One method on one dataset in one protocol; tables are images x settings."""

    rule: ClassVar[Rule] = "seism"
    resamples: ClassVar[int] = 1000

    @property
    def thresholds(self) -> Floats:
        """The settings along a curve: their places, since names need not be numbers."""
        return np.arange(self.table("fb").shape[1], dtype=np.float64)

    @property
    def has_regions(self) -> bool:
        """Whether the method gives partitions, not boundaries alone."""
        return bool(np.isfinite(self.table("fop")).all())

    @cached_property
    def drawn(self) -> Resampling:
        return resampling(self, self.resamples)

    def own_best(self, measure: str) -> Places:
        """OIS: the first best setting of each image."""
        names, value = _VALUES[measure]
        return np.asarray(np.argmax(value({n: self.table(n) for n in names}), axis=1))

    def best_elsewhere(self, measure: str) -> Places:
        """The first setting that is best on all other images together."""
        if len(self.keys) == 1:
            return self.own_best(measure)
        names, value = _VALUES[measure]
        others = {n: self.table(n).sum(axis=0) - self.table(n) for n in names}
        mean = {n: column / (len(self.keys) - 1) for n, column in others.items()}
        return np.asarray(np.argmax(value(mean), axis=1))

    def at(self, names: Iterable[str], places: Places) -> Columns:
        """Columns with each image at its own place, `(images, 1)`."""
        rows = np.arange(len(self.keys))
        return {n: self.table(n)[rows, places][:, None] for n in names}

    def best(self, measure: str, places: Places | None = None) -> Interval:
        """The set's value at its best setting, or with each image at a place of its own.

        A resample chooses its best setting itself, as the set did.
        """
        (names, value), sign = _VALUES[measure], -1.0 if measure == "voi" else 1.0
        columns = {n: self.table(n) for n in names} if places is None else self.at(names, places)
        resampled = value({n: self.drawn.means(column) for n, column in columns.items()})
        at_each = value({n: column.mean(axis=0) for n, column in columns.items()})
        draws = sign * resampled.max(axis=1)
        return percentiles(sign * float(at_each.max()), draws, len(self.keys))

    def of_curve(
        self, measure: str, numbers: Mapping[str, Callable[[Curve], float]]
    ) -> dict[str, Interval]:
        """Numbers of the curve, with their limits from the curves of resampled sets."""
        curve, drawn = self.curve(measure), list(self._resampled_curves(measure))
        return {
            name: percentiles(number(curve), np.array([*map(number, drawn)]), len(self.keys))
            for name, number in numbers.items()
        }

    def curve(self, measure: str = "fb") -> Curve:
        """Precision over recall of `fb`, counts pooled, or of `fop`, means over images."""
        return self._curve(measure, [self.table(name) for name in _VALUES[measure][0]])

    def _resampled_curves(self, measure: str) -> Iterator[Curve]:
        # Means over images; in thousandths of a pixel they are whole numbers near enough.
        scale = 1 if measure == "fop" else 1000
        means = [scale * self.drawn.means(self.table(n)) for n in _VALUES[measure][0]]
        for k in range(self.resamples):
            yield self._curve(measure, [m[k : k + 1] for m in means])

    def _curve(self, measure: str, columns: Sequence[Floats]) -> Curve:
        if measure == "fop":
            return summarize(MeanScores(self.thresholds, *columns), self.rule)
        whole = (np.rint(c).astype(np.int64) for c in columns)
        return summarize(PooledCounts(self.thresholds, *whole), self.rule)


def groups(run: Results) -> list[SweptTables]:
    """All methods of a run in both protocols, people left out."""
    made = []
    for tables in _load(run, "<>"):
        if len({tuple(each) for each in tables.fact("setting")}) != 1:
            raise BadInput(
                f"{tables.model} on {tables.dataset} has other settings on some images than on "
                "others"
            )
        made += [replace(tables, protocol=protocol) for protocol in PROTOCOLS]
    return made


def human_points(run: Results) -> dict[str, dict[str, Point]]:
    """People's precision and recall by dataset and measure, each judged by the others."""
    found = {}
    for tables in _load(run, "="):
        # Counts pooled over images and annotators; means over annotators, then over images.
        recalled, ground_truth, precise, prediction = (np.nansum(tables.table(n)) for n in COUNTS)
        precision, recall = (np.nanmean(tables.table(n), axis=1).mean() for n in ("pop", "rop"))
        fb = precise / max(prediction, 1), recalled / max(ground_truth, 1)
        found[tables.dataset] = {
            "fb": Point(None, *map(float, fb)),
            "fop": Point(None, float(precision), float(recall)),
        }
    return found


def _load(run: Results, people: str) -> list[SweptTables]:
    return SweptTables.load(
        run,
        ["setting", "fb", *COUNTS, *_REGION],
        by=("model", "dataset"),
        unit=("scene",),
        axis="place",
        where=f"model {people} '{PEOPLE}'",
    )


def _best_covering(group: SweptTables, measure: str) -> Interval:
    """Covering where every region of the ground truth chooses its own setting."""
    covered, coverable = (group.table(n)[:, :1] for n in ("best_covered", "coverable"))
    draws = _ratio(group.drawn.means(covered), group.drawn.means(coverable))
    return percentiles(float(covered.sum() / coverable.sum()), draws[:, 0], len(group.keys))


_TITLES = {"fb": "F_b", "fop": "F_op", "covering": "covering", "pri": "PRI", "voi": "VoI"}


def _of(
    name: str,
    kind: str,
    compute: Callable[[SweptTables, str], Interval],
    protocol: str,
    several: bool = False,
) -> Statistic:
    """A statistic of one measure in one protocol; none of what a method does not have."""

    def whole(group: SweptTables) -> Interval | None:
        there = group.protocol == protocol and (name == "fb" or group.has_regions)
        swept = not several or len(group.thresholds) > 1
        return compute(group, name) if there and swept else None

    return Statistic(
        f"{name}-{kind.lower()}",
        f"{_TITLES[name]} {kind}",
        "bits" if name == "voi" else "",
        3,
        "lower" if name == "voi" else "higher",
        whole=whole,
        of=SweptTables,
        tested="no",
    )


def _compared(name: str) -> Statistic:
    """F of each image at the setting that is best on the others."""

    def values(group: SweptTables) -> Floats:
        if group.protocol != "corrected" or not (name == "fb" or group.has_regions):
            return np.full(len(group.keys), np.nan)
        return group.at([name], group.best_elsewhere(name))[name][:, 0]

    return Statistic(
        name, _TITLES[name], "", 3, "higher", values=values, of=SweptTables, tested="yes"
    )


_AREA: dict[str, Callable[[Curve], float]] = {"ap": lambda curve: curve.ap}
STATISTICS = [
    *(_of(name, "ODS", lambda g, m: g.best(m), "published") for name in _VALUES),
    *(_of(name, "OIS", lambda g, m: g.best(m, g.own_best(m)), "published") for name in _VALUES),
    *(
        _of(name, "ODS", lambda g, m: g.best(m, g.best_elsewhere(m)), "corrected")
        for name in _VALUES
    ),
    _of("covering", "best", _best_covering, "published"),
    *(
        _of(name, "AP", lambda g, m: g.of_curve(m, _AREA)["ap"], "published", several=True)
        for name in ("fb", "fop")
    ),
    _compared("fb"),
    _compared("fop"),
]
"""ODS, OIS and AP; methods are compared by F of each image at the setting best elsewhere."""


_NAMES = {"fb": "F of boundaries, F_b", "fop": "F of objects and parts, F_op"}
_PROTOCOLS = (
    "**published**: as the authors' programs compute it, with one setting for all images "
    "chosen on the evaluated images themselves; F_b from pooled counts, F_op from mean "
    "precision and recall (objects from 0.9, regions that make up 99 % of an image); AP sums "
    "101 samples over 100.\n\n**corrected**: each image at the setting that is best on all "
    "others. Boundary pixels are matched exactly and deterministically in both."
)


def sections(run: Results) -> list[page.Section]:
    found, points = parts.Findings(run), human_points(run)
    made = []
    for dataset, here, rows in found.datasets(found.groups(SweptTables, "corrected")):
        people = points.get(dataset, {})
        charts = [
            precision_recall_chart(title, [(g.model, g.curve(m)) for g in drawn], people.get(m))
            for m, title in _NAMES.items()
            if (drawn := [g for g in here if m == "fb" or g.has_regions])
        ]
        table = partial(found.table, rows=rows, who="method", ranked=True)
        curves = table(
            f"{dataset}-curves",
            names=[f"{m}-{kind}" for m in _NAMES for kind in ("ods", "ois", "ap")],
            caption="F over settings, with 95 % intervals; people are each judged by the others",
        )
        regions = table(
            f"{dataset}-regions",
            names=[
                f"{m}-{kind}" for m in ("covering", "pri", "voi") for kind in ("ods", "ois", "best")
            ],
            caption="The region benchmark of BSDS500 (VoI in bits, lower is better)",
        )
        if people:
            # As text: people are no method, and the best of the methods is the one set strong.
            human = {found.cards[f"{m}-ods"].title: f"{point.f:.3f}" for m, point in people.items()}
            line: list[page.Cell] = [human.get(column.title) for column in curves.columns[1:]]
            curves = replace(curves, rows=[*curves.rows, [page.Label("people"), *line]])
        caption = "Boundaries and regions together: a method may be good at one and not the other."
        published = [row for row in rows if row.protocol == "published"]
        agreed = "; ".join(f"People: {_NAMES[m]} {p.f:.3f}" for m, p in people.items())
        blocks = [
            *parts.best_answer(published, ("fb-ods", "fop-ods"), found.cards, agreed),
            page.Multiples(charts, caption),
            curves,
            regions,
            page.Note(_PROTOCOLS),
        ]
        made.append(page.Section(f"Results: {dataset}", blocks=blocks))
    return [*made, *found.difference_section(folded=True)]


def precision_recall_chart(
    title: str, curves: Sequence[tuple[str, Curve]], people: Point | None = None
) -> page.Chart:
    """Precision over recall with lines of equal F, a dot at each ODS, and people's point."""
    ranked = sorted(curves, key=lambda pair: -pair[1].ods.f)
    marks: list[page.Line | page.Points] = [_iso_line(tenth / 10) for tenth in range(1, 10)]
    if people is not None:
        marks.append(page.Points("people", [people.recall], [people.precision], ["people"]))
    for name, curve in ranked:
        if len(curve.recall) > 1:
            # From low to high recall, so that there is room for its name at the end.
            order = slice(None, None, -1 if curve.recall[0] > curve.recall[-1] else 1)
            marks.append(page.Line(name, curve.recall[order], curve.precision[order]))
        single = [name] if len(curve.recall) == 1 else []
        marks.append(page.Points(name, [curve.ods.recall], [curve.ods.precision], single))
    ticks = [tenth / 10 for tenth in range(11)]
    return page.Chart(
        title,
        page.Axis("recall", 0, 1, ticks),
        page.Axis("precision", 0, 1, ticks),
        marks,
        caption="Grey: equal F, 0.1 to 0.9. Dots: ODS. Best first.",
    )


def _iso_line(f: float) -> page.Line:
    """All places with one F, named at the upper rim, where no curve has its name."""
    recall = np.append(np.arange(f / (2 - f), 1, 0.01), 1.0)[::-1]
    return page.Line(f"{f:.1f}", recall, f * recall / (2 * recall - f), role="guide")
