"""Report sections: curves with the human point, and their table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.seism.statistics import SweptTables, human_points
from segmeter.core import sections as page
from segmeter.core.benchmarks import Results
from segmeter.measures.curves import Curve, Point

_NAMES = {"fb": "F of boundaries, F_b", "fop": "F of objects and parts, F_op"}
_PROTOCOLS = (
    "**published**: as the authors' programs compute it, with one setting for all images "
    "chosen on the very images that are judged; F_b from pooled counts, F_op from mean "
    "precision and recall (objects from 0.9, regions that make up 99 % of an image); AP sums "
    "101 samples over 100.\n\n**corrected**: each image at the setting that is best on all "
    "others. Boundary pixels are matched exactly, the same way every time, in both."
)


def sections(run: Results) -> list[page.Section]:
    """All sections, in reading order, a dataset after the other."""
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


def _iso_line(f: float) -> page.Line:
    """All places with one F, named at the upper rim, where no curve has its name."""
    recall = np.append(np.arange(f / (2 - f), 1, 0.01), 1.0)[::-1]
    return page.Line(f"{f:.1f}", recall, f * recall / (2 * recall - f), role="guide")
