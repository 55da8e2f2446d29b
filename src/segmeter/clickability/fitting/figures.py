"""Figures of a calibration: predicted against seen, and distributions side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from segmeter.clickability.fitting.correction_clicks import CorrectionFit
from segmeter.clickability.fitting.held_out import HeldOut, published_pde

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_held_out", "draw_later"]

Values = npt.NDArray[np.float64]
_BLUE, _ORANGE = "#0072b2", "#d55e00"


def draw_held_out(held: Sequence[HeldOut], folder: Path) -> list[Path]:
    """NSS and PDE of every target, predicted by the fit on the other data sets."""
    return [
        _scatter(held, _nss, "NSS", folder / "calibration-nss.png"),
        _scatter(held, published_pde, "PDE", folder / "calibration-pde.png"),
    ]


def draw_later(later: CorrectionFit, folder: Path) -> Path:
    """Quantiles of three statistics in later rounds, seen and predicted."""
    figure = _figure(9.0, 3.0)
    names = {
        "gain": "PDE x area",
        "nearer": "PL1 ratio, depth : uniform",
        "inside": "share of clicks inside",
    }
    levels = np.linspace(0.01, 0.99, 99)
    for axes, (name, words) in zip(figure.subplots(1, 3), names.items(), strict=True):
        axes.plot(levels, np.quantile(later.seen[name], levels), color=_BLUE, label="seen")
        predicted = np.quantile(later.predicted[name], levels)
        axes.plot(levels, predicted, color=_ORANGE, linestyle="--", label="predicted")
        axes.set(xlabel="share of keys", ylabel=words)
    figure.axes[0].legend(frameon=False)
    return _save(figure, folder / "calibration-later.png")


def _nss(held: HeldOut) -> tuple[Values, Values]:
    return held.seen["nss"], held.predicted["nss"]


def _scatter(
    held: Sequence[HeldOut],
    pick: Callable[[HeldOut], tuple[Values, Values]],
    words: str,
    path: Path,
) -> Path:
    figure = _figure(9.0, 2.6)
    for axes, h in zip(np.atleast_1d(figure.subplots(1, len(held))), held, strict=True):
        seen, predicted = pick(h)
        ends = [float(predicted.min()) * 0.6, float(predicted.max()) * 1.7]
        axes.plot(ends, ends, color="0.6", linewidth=0.8)
        # A value below the frame is drawn at its edge: few targets have one.
        axes.scatter(
            predicted, np.clip(seen, ends[0], ends[1]), s=5, color=_BLUE, alpha=0.5, linewidths=0
        )
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, title=h.name)
        axes.set_xlabel(f"{words} predicted")
        for axis in (axes.xaxis, axes.yaxis):
            _few_ticks(axis, ends)
    figure.axes[0].set_ylabel(f"{words} at real clicks")
    return _save(figure, path)


def _few_ticks(axis: Any, ends: Sequence[float]) -> None:
    """Ticks at 1, 2 and 5 on a short axis, at powers of ten on a long one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    short = ends[1] / ends[0] < 60
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return path
