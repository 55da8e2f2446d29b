"""A map over shifts of the box as an image that explains itself."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segmeter.benchmarks.tetris.boxes import ShiftMap

__all__ = ["shift_image"]


def shift_image(shifts: ShiftMap) -> bytes:
    """A PNG: IoU in colour over how far the box was moved, with a cross where it was not."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 4.2), dpi=120, layout="constrained")
    axes = figure.subplots()
    down, across = shifts.down_px, shifts.across_px
    image = axes.pcolormesh(
        across, down, 100 * shifts.iou, cmap="cividis", vmin=0, vmax=100, shading="nearest"
    )
    axes.plot([0], [0], marker="+", color="black", markersize=12, markeredgewidth=4)
    axes.plot([0], [0], marker="+", color="white", markersize=11, markeredgewidth=1.5,
              linestyle="none", label="not moved")  # fmt: skip
    axes.invert_yaxis()  # as in the image: down is down
    axes.set_xlabel("box moved across, px (right is positive)")
    axes.set_ylabel("box moved down, px")
    axes.legend(loc="upper right", facecolor="#555b6c", labelcolor="white", framealpha=0.9)
    figure.colorbar(image, label="IoU, %")
    held = io.BytesIO()
    figure.savefig(held, format="png", metadata={"Software": None})
    return held.getvalue()
