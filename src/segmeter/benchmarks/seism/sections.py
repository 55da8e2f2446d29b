"""Report sections: curves with the human point, and their table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from segmeter.benchmarks.report_parts import (
    best_answer,
    by_dataset,
    column_of,
    difference_section,
    summary_table,
)
from segmeter.benchmarks.seism import Seism
from segmeter.benchmarks.seism.statistics import STATISTICS, MethodTables, human_points
from segmeter.core import sections as page
from segmeter.core.benchmarks import Results, SummaryRow
from segmeter.measures.curves import Curve, Point
from segmeter.stats.statistics import cards_by_name

_NAMES = {"fb": "F of boundaries, F_b", "fop": "F of objects and parts, F_op"}
_CARDS = cards_by_name(STATISTICS)
_PROTOCOLS = (
    "**published**: as the authors' programs compute it, with one setting for all images "
    "chosen on the very images that are judged; F_b from pooled counts, F_op from mean "
    "precision and recall (objects from 0.9, regions that make up 99 % of an image); AP sums "
    "101 samples over 100.\n\n**corrected**: each image at the setting that is best on all "
    "others. Boundary pixels are matched exactly, the same way every time, in both."
)


def sections(run: Results) -> list[page.Section]:
    """All sections, in reading order, a dataset after the other."""
    benchmark, people = Seism(), human_points(run)
    corrected = [
        g
        for g in benchmark.groups(run)
        if isinstance(g, MethodTables) and g.protocol == "corrected"
    ]
    made = [
        _overview(dataset, here, rows, people.get(dataset, {}))
        for dataset, here, rows in by_dataset(corrected, benchmark.summary(run))
    ]
    return [*made, *difference_section(benchmark.differences(run), _CARDS, folded=True)]


def precision_recall_chart(
    title: str, curves: Sequence[tuple[str, Curve]], people: Point | None = None
) -> page.Chart:
    """Precision over recall with lines of equal F, a dot at each ODS, and people's point.

    The caption is the legend: people first, then the best method first.
    """
    ranked = sorted(curves, key=lambda pair: -pair[1].ods.f)
    marks: list[page.Line | page.Points] = [_iso_line(tenth / 10) for tenth in range(1, 10)]
    if people is not None:
        marks.append(page.Points("people", [people.recall], [people.precision], ["people"]))
    for name, curve in ranked:
        if len(curve.recall) > 1:
            marks.append(_drawn(name, curve))
        single = [name] if len(curve.recall) == 1 else []
        marks.append(page.Points(name, [curve.ods.recall], [curve.ods.precision], single))
    legend = [f"[{people.f:.3f}] people"] if people is not None else []
    legend += [f"[{c.ods.f:.3f} {c.ois.f:.3f} {c.ap:.3f}] {name}" for name, c in ranked]
    ticks = [tenth / 10 for tenth in range(11)]
    return page.Chart(
        title,
        page.Axis("recall", 0, 1, ticks),
        page.Axis("precision", 0, 1, ticks),
        marks,
        caption=f"Grey: equal F, 0.1 to 0.9. Dots: ODS. [ODS OIS AP] {'; '.join(legend)}.",
    )


def _drawn(name: str, curve: Curve) -> page.Line:
    """The curve from low to high recall, so that its name stands where it has room."""
    order = slice(None, None, -1 if curve.recall[0] > curve.recall[-1] else 1)
    return page.Line(name, curve.recall[order], curve.precision[order])


def _overview(
    dataset: str, here: Sequence[MethodTables], rows: Sequence[SummaryRow], people: dict[str, Point]
) -> page.Section:
    charts = [_chart(here, measure, people.get(measure)) for measure in ("fb", "fop")]
    drawn = [chart for chart in charts if chart is not None]
    caption = "Boundaries and regions together: a method may be good at one and not the other."
    return page.Section(
        f"Results: {dataset}",
        blocks=[
            *best_answer(
                [row for row in rows if row.protocol == "published"],
                ("fb-ods", "fop-ods"),
                _CARDS,
                "; ".join(f"People: {_NAMES[m]} {p.f:.3f}" for m, p in people.items()),
            ),
            page.Multiples(drawn, caption),
            _table(dataset, rows, people),
            _ranked(
                f"{dataset}-regions",
                rows,
                (f"{m}-{k}" for m in ("covering", "pri", "voi") for k in ("ods", "ois", "best")),
                "The region benchmark of BSDS500 (VoI in bits, lower is better)",
            ),
            page.Note(_PROTOCOLS),
        ],
    )


def _chart(here: Sequence[MethodTables], measure: str, people: Point | None) -> page.Chart | None:
    curves = [(g.model, g.curve(measure)) for g in here if measure == "fb" or g.has_regions]
    return precision_recall_chart(_NAMES[measure], curves, people) if curves else None


def _table(dataset: str, rows: Sequence[SummaryRow], people: dict[str, Point]) -> page.Table:
    names = ("fb-ods", "fb-ois", "fb-ap", "fop-ods", "fop-ois", "fop-ap")
    table = _ranked(
        f"{dataset}-curves",
        rows,
        names,
        "F over settings, with 95 % intervals; people are each judged by the others",
    )
    if not people:
        return table
    # As text: people are no method, and the best of the methods is the one set strong.
    human = {_CARDS[f"{m}-ods"].title: f"{point.f:.3f}" for m, point in people.items()}
    line: list[page.Cell] = [human.get(column.title) for column in table.columns[1:]]
    return replace(table, rows=[*table.rows, [page.Label("people"), *line]])


def _ranked(
    name: str, rows: Sequence[SummaryRow], names: Iterable[str], caption: str
) -> page.Table:
    """A line per method and protocol, the highest first statistic first."""
    columns = {name: column_of(_CARDS[name]) for name in names if name in _CARDS}
    return summary_table(name, rows, columns, who="method", ranked=True, caption=caption)


def _iso_line(f: float) -> page.Line:
    """All places with one F, named at the upper rim, where no curve has its name."""
    recall = np.append(np.arange(f / (2 - f), 1, 0.01), 1.0)[::-1]
    return page.Line(f"{f:.1f}", recall, f * recall / (2 * recall - f), role="guide")
