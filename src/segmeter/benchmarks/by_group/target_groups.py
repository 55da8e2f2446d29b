"""Groups that follow from a target itself: its size, its shape, how complex its boundary is."""

from __future__ import annotations

import numpy as np

from segmeter.core.benchmarks import Results
from segmeter.core.masks import Mask

__all__ = ["DERIVED", "axis_ratio", "boundary_group", "groups_of_targets", "shape_group"]

DERIVED = ("size", "shape", "boundary")
"""Attributes that are derived rather than stored in rows."""

_SIZES = ((32**2, "small (below 32²)"), (96**2, "medium (32² to 96²)"))
_SHAPES = ((0.25, "thin (axes below 1:4)"), (0.5, "long (1:4 to 1:2)"))
_BOUNDARIES = ((1.25, "smooth (below 1.25)"), (2.0, "uneven (1.25 to 2)"))

Key = tuple[str, str, str]


def groups_of_targets(run: Results, by: str) -> dict[Key, str]:
    """The group of each target by `size`, `shape` or `boundary`, where it is known.

    Sizes are COCO's, in pixels. A boundary is its outline over that of a square of the same
    area. Shapes are read off the targets themselves, so the data has to be at hand.
    """
    if by == "shape":
        return _shapes(run)
    known = run.sql("select * from rows limit 0").column_names
    if not {"area", "outline_px"} <= set(known):
        return {}
    table = run.sql("""
        select dataset, scene, target, min(area) as area, min(outline_px) as outline
        from rows group by dataset, scene, target order by dataset, scene, target
    """)
    found = {}
    for row in table.to_pylist():
        key = (row["dataset"], row["scene"], row["target"])
        if by == "size" and row["area"] is not None:
            found[key] = _group(row["area"], _SIZES, "large (96² and more)")
        elif by == "boundary" and row["outline"] and row["area"]:
            found[key] = boundary_group(row["area"], row["outline"])
    return found


def boundary_group(area: int, outline_px: int) -> str:
    """How complex an outline is, from its length and what it holds.

    >>> boundary_group(100, 40), boundary_group(100, 100)
    ('smooth (below 1.25)', 'ragged (2 and more)')
    """
    return _group(outline_px / (4 * area**0.5), _BOUNDARIES, "ragged (2 and more)")


def shape_group(mask: Mask) -> str:
    """How long a target is for its width.

    >>> shape_group(Mask.box((20, 20), (0, 0), (2, 20)))
    'thin (axes below 1:4)'
    """
    return _group(axis_ratio(mask), _SHAPES, "compact (1:2 and more)")


def axis_ratio(mask: Mask) -> float:
    """The shorter over the longer axis of the ellipse with the target's second moments.

    >>> round(axis_ratio(Mask.box((9, 9), (1, 1), (4, 7))), 3)
    0.5
    """
    places = np.argwhere(mask.bits).astype(float)
    spread = np.cov(places.T, bias=True) + np.eye(places.shape[1]) / 12  # a pixel has an extent
    axes = np.linalg.eigvalsh(np.atleast_2d(spread))
    return float(np.sqrt(axes[0] / axes[-1]))


def _shapes(run: Results) -> dict[Key, str]:
    table = run.sql("select distinct dataset, scene from rows order by all")
    return {
        (row["dataset"], row["scene"], target.id): shape_group(target.mask)
        for row in table.to_pylist()
        for target in run.scene(row["dataset"], row["scene"]).targets
        if target.mask
    }


def _group(value: float, bounds: tuple[tuple[float, str], ...], beyond: str) -> str:
    return next((name for bound, name in bounds if value < bound), beyond)
