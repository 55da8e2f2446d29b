"""Figures of people's partitions and of proposals: densities (Fig. 5) and curves, as charts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from segmeter.core.sections import Axis, Chart, Line
from segmeter.measures.meta import Densities
from segmeter.measures.proposals import ProposalCurve
from segmeter.report.figures import draw_charts

__all__ = ["draw_densities", "draw_proposals"]


def draw_densities(spread: Mapping[str, Densities], path: Path) -> None:
    """One panel a measure: people on the same image (solid) and on another (dashed)."""
    charts = [
        Chart(
            name,
            Axis(""),
            Axis("", ticks=()),
            [
                Line("same image", found.centres, found.same),
                Line("another image", found.centres, found.different),
            ],
        )
        for name, found in spread.items()
    ]
    draw_charts(charts, path, columns=min(3, len(charts)))


def draw_proposals(curves: Mapping[str, ProposalCurve], path: Path) -> None:
    """A row of panels a quality: mean, median, and recall at three levels, against number."""
    charts = []
    for quality, found in curves.items():
        x, y = Axis("number of proposals", scale="log"), Axis("", 0.0, 1.0)
        means = ((f"mean of the best {quality}", found.instance), ("median", found.median))
        charts += [
            Chart(title, x, y, [Line("", found.mean_number, values)]) for title, values in means
        ]
        lines = [Line(f"above {k}", found.mean_number, v) for k, v in found.recall.items()]
        charts.append(Chart("recall", x, y, lines))
    draw_charts(charts, path, columns=3)
