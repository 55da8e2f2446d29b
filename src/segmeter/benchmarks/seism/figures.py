"""Figures as files: the two densities of each measure, as in Fig. 5 of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from segmeter.measures.meta import Densities

__all__ = ["draw_densities"]

_SAME, _DIFFERENT = "#0072b2", "#d55e00"  # apart also in grey and for colour-blind eyes


def draw_densities(spread: Mapping[str, Densities], path: Path) -> None:
    """One panel a measure: people on the same picture (solid) and on another (dashed)."""
    from matplotlib.figure import Figure

    columns = min(3, len(spread))
    lines = -(-len(spread) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.2 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for panel in panels[len(spread) :]:
        panel.set_axis_off()
    for panel, (name, densities) in zip(panels, spread.items(), strict=False):
        panel.plot(densities.centres, densities.same, color=_SAME, label="same picture")
        panel.plot(
            densities.centres, densities.different, "--", color=_DIFFERENT, label="another picture"
        )
        panel.set_title(name, fontsize=10)
        panel.set_yticks([])
    panels[0].legend(fontsize=7, frameon=False)
    figure.savefig(path)
