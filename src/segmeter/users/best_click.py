"""The best click: of all fair clicks the one that helps the model most."""

from __future__ import annotations

from segmeter.core import catalogue
from segmeter.users.adversary import GradientClick, SearchClick
from segmeter.users.click_search import SearchGrid
from segmeter.users.gradient_attack import STEPS

__all__ = ["best_click", "best_click_search"]


@catalogue.users.add("best-click", summary="clicks where it helps most, found by gradient")
def best_click(steps: int = STEPS) -> GradientClick:
    """Follows the model's gradient from the centre click; searches where there is none."""
    return GradientClick("best", steps)


@catalogue.users.add("best-click-search", summary="clicks where it helps most, found by trying")
def best_click_search(lattice: int = 100, places: int = 4, finest: int = 1) -> SearchClick:
    """Tries clicks from coarse to fine; works for any model."""
    return SearchClick("best", SearchGrid(lattice, places, finest))
