"""Non-maximum suppression of soft edge maps: only the crests of broad edges stay.

The way of the structured-edges toolbox, which most edge detectors report with. The map is blurred,
its curvature gives the direction across the edge, and a pixel is removed if the map is higher one
step to either side.

    Dollar, Zitnick. Fast edge detection using structured forests. IEEE TPAMI 37(8), 2015.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput

Single = npt.NDArray[np.float32]
_BLUR = np.array([1, 2, 3, 4, 5, 4, 3, 2, 1], dtype=np.float32) / 25


def suppress(
    strengths: npt.NDArray[Any],
    directions: Single | None = None,
    *,
    reach: int = 1,
    margin: int = 5,
    slack: float = 1.01,
) -> Single:
    """Set every pixel of a map `(H, W)` of 0 to 1 to 0 that is not on the crest of an edge.

    A pixel is removed if it is more than the factor `slack` lower than one up to `reach` pixels to
    either side of the edge. `directions` are across the edge, in radians from x towards y, by
    default those of `across`. The outermost rows and columns fade to 0 over `margin` pixels.

    >>> ridge = np.zeros((9, 9)); ridge[:, 3:6] = (0.4, 0.9, 0.4)
    >>> suppress(ridge)[4].round(1).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.8999999761581421, 0.0, 0.0, 0.0, 0.0]
    """
    if strengths.ndim != 2 or min(strengths.shape) < 2:
        raise BadInput("an edge map to be suppressed is H x W, at least 2 x 2")
    edges = strengths.astype(np.float32)
    angle = across(edges) if directions is None else directions
    cosine, sine = np.cos(angle), np.sin(angle)
    highest = np.zeros_like(edges)
    for step in (*range(-reach, 0), *range(1, reach + 1)):
        np.maximum(highest, _shifted(edges, step * cosine, step * sine), out=highest)
    kept = np.where(np.float32(slack) * edges < highest, np.float32(0), edges)
    return _faded(kept, margin)


def across(strengths: npt.NDArray[Any]) -> Single:
    """Direction across the edge at each pixel, in radians from 0 to pi.

    >>> across(np.zeros((8, 8))).shape
    (8, 8)
    """
    from scipy.ndimage import correlate1d

    smooth = strengths.astype(np.float32)
    for axis in (0, 1):
        smooth = correlate1d(smooth, _BLUR, axis=axis, mode="reflect")
    down, right = np.gradient(smooth)
    xx = np.gradient(right, axis=1)
    xy = np.gradient(down, axis=1)
    yy = np.gradient(down, axis=0)
    angle = np.arctan(yy * np.sign(-xy) / (xx + np.float32(1e-5)))
    return np.asarray(np.mod(angle, np.float32(np.pi)), dtype=np.float32)


def _shifted(edges: Single, dx: Single, dy: Single) -> Single:
    """The map a step away from every pixel, between pixels by bilinear interpolation."""
    height, width = edges.shape
    y = np.clip(np.arange(height, dtype=np.float32)[:, None] + dy, 0, np.float32(height - 1.001))
    x = np.clip(np.arange(width, dtype=np.float32) + dx, 0, np.float32(width - 1.001))
    # In maps beyond 32768 pixels float32 rounds the limit up to the last row or column.
    top = np.minimum(y.astype(np.int64), height - 2)
    left = np.minimum(x.astype(np.int64), width - 2)
    v, u = y - top.astype(np.float32), x - left.astype(np.float32)
    # Four terms in this order: on plateaus the last bit decides.
    between = edges[top, left] * (1 - u) * (1 - v) + edges[top, left + 1] * u * (1 - v)
    between = between + edges[top + 1, left] * (1 - u) * v + edges[top + 1, left + 1] * u * v
    return np.asarray(between, dtype=np.float32)


def _faded(edges: Single, margin: int) -> Single:
    reach = min(margin, edges.shape[0] // 2, edges.shape[1] // 2)
    if reach == 0:
        return edges
    down, across = (
        np.minimum(np.minimum(np.arange(side), np.arange(side)[::-1]) / reach, 1).astype(np.float32)
        for side in edges.shape
    )
    return np.asarray(edges * across * down[:, None])


def suppress_along_gradient(
    strengths: npt.NDArray[Any], down: npt.NDArray[Any], right: npt.NDArray[Any]
) -> Single:
    """Canny's suppression: a pixel stays that is at least as strong as both sides of it.

    The sides are compared along the gradient (`down`, `right`), between two neighbours each by
    linear interpolation; the outermost pixels go.

    >>> ridge = np.zeros((5, 5)); ridge[:, 1:4] = (0.4, 0.9, 0.4)
    >>> down, right = np.gradient(ridge)
    >>> suppress_along_gradient(ridge, down, right)[2].round(1).tolist()
    [0.0, 0.0, 0.8999999761581421, 0.0, 0.0]
    """
    if strengths.ndim != 2 or not strengths.shape == down.shape == right.shape:
        raise BadInput("an edge map and its gradients are H x W, all of one size")
    m = np.pad(strengths.astype(np.float64), 1)
    gi, gj = down.astype(np.float64), right.astype(np.float64)
    steep = np.abs(gi) > np.abs(gj)
    same = gi * gj >= 0  # both point down-right, up-left, or along an axis
    # With opposite signs equal slopes are read along the columns, else along the rows.
    steep = np.where(same, steep, np.abs(gi) >= np.abs(gj))
    least, most = np.minimum(np.abs(gi), np.abs(gj)), np.maximum(np.abs(gi), np.abs(gj))
    weight = np.divide(least, most, out=np.zeros_like(most), where=most > 0)
    kept = strengths > 0
    for sign in (1, -1):
        neighbour = _interpolated(m, steep, same, weight, sign)
        kept &= neighbour <= m[1:-1, 1:-1]
    kept[[0, -1]] = False
    kept[:, [0, -1]] = False
    return np.where(kept, strengths, 0).astype(np.float32)


def _interpolated(
    padded: npt.NDArray[np.float64],
    steep: npt.NDArray[np.bool_],
    same: npt.NDArray[np.bool_],
    weight: npt.NDArray[np.float64],
    sign: int,
) -> npt.NDArray[np.float64]:
    """Interpolated value of the map next to each pixel along its gradient, on one side.

    Nearest is the neighbour along the steeper axis, then the diagonal one: of equal signs
    that to the lower right, of opposite ones that to the upper right.
    """
    height, width = steep.shape

    def moved(dy: int, dx: int) -> npt.NDArray[np.float64]:
        return padded[1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width]

    straight = np.where(steep, np.where(same, moved(sign, 0), moved(-sign, 0)), moved(0, sign))
    diagonal = np.where(same, moved(sign, sign), moved(-sign, sign))
    found: npt.NDArray[np.float64] = (1 - weight) * straight + weight * diagonal
    return found
