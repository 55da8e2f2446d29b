"""The worst click: of all fair clicks the one that helps the model least."""

from __future__ import annotations

from segmeter.core import catalogue
from segmeter.users.adversary import GradientClick, SearchClick
from segmeter.users.click_search import SearchGrid
from segmeter.users.gradient_attack import STEPS

__all__ = ["worst_click", "worst_click_search"]


@catalogue.users.add("worst-click", summary="clicks where it helps least, found by gradient")
def worst_click(steps: int = STEPS) -> GradientClick:
    """Follows the model's gradient from the centre click; searches where there is none."""
    return GradientClick("worst", steps)


@catalogue.users.add("worst-click-search", summary="clicks where it helps least, found by trying")
def worst_click_search(lattice: int = 100, places: int = 4, finest: int = 1) -> SearchClick:
    """Tries clicks from coarse to fine; works for any model."""
    return SearchClick("worst", SearchGrid(lattice, places, finest))
