"""Figures as files: the densities of each measure (Fig. 5), the curves of proposals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segmeter.measures.meta import Densities
from segmeter.measures.proposals import ProposalCurve

__all__ = ["draw_densities", "draw_proposals"]

_SAME, _DIFFERENT = "#0072b2", "#d55e00"  # apart also in grey and for colour-blind eyes


def draw_densities(spread: Mapping[str, Densities], path: Path) -> None:
    """One panel a measure: people on the same image (solid) and on another (dashed)."""
    from matplotlib.figure import Figure

    columns = min(3, len(spread))
    lines = -(-len(spread) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.2 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for panel in panels[len(spread) :]:
        panel.set_axis_off()
    for panel, (name, densities) in zip(panels, spread.items(), strict=False):
        panel.plot(densities.centres, densities.same, color=_SAME, label="same image")
        panel.plot(
            densities.centres, densities.different, "--", color=_DIFFERENT, label="another image"
        )
        panel.set_title(name, fontsize=10)
        panel.set_yticks([])
    panels[0].legend(fontsize=7, frameon=False)
    figure.savefig(path)


def draw_proposals(curves: Mapping[str, ProposalCurve], path: Path) -> None:
    """A row of panels a quality: mean, median, and recall at three levels, against number."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3 * len(curves)), layout="constrained")
    rows = figure.subplots(len(curves), 3, squeeze=False)
    for panels, (quality, found) in zip(rows, curves.items(), strict=True):
        lines: list[Mapping[Any, Any]] = [{"": found.instance}, {"": found.median}, found.recall]
        titles = ("mean", "median", "recall")
        for panel, title, drawn in zip(panels, titles, lines, strict=True):
            for (level, values), style in zip(drawn.items(), ("-", "--", ":"), strict=False):
                panel.plot(found.mean_number, values, style, color=_SAME, label=f"above {level}")
            panel.set(xscale="log", ylim=(0, 1), xlabel="number of proposals")
            panel.set_title(f"{title} of the best {quality}" if title != "recall" else title)
            panel.grid(alpha=0.3)
        panels[2].legend(fontsize=7, frameon=False)
    figure.savefig(path)
