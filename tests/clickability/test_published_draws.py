"""The published draw, counted and added in another order, is the plain one to the last bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.clickability import groups
from segmeter.clickability.groups import draw_published, limits, share_of_group
from segmeter.clickability.maps import ClickabilityMap, distance, uniform
from segmeter.core.masks import Mask

Weights = npt.NDArray[np.float32]
Size = tuple[int, int]
Recipe = Callable[[np.random.Generator, Size], npt.NDArray[np.floating]]

UNIFORMS = (0.0, 1e-300, 1e-9, 0.37, 0.999999, float(np.nextafter(1, 0)))

# Each stresses another part: counting, sorting, sums that round, values halfway between two
# sums, shares too small to be added in any order.
RECIPES: dict[str, Recipe] = {
    "few values": lambda rng, size: rng.choice(rng.random(5), size),
    "all values differ": lambda rng, size: rng.random(size),
    "one value": lambda rng, size: np.full(size, rng.random()),
    "roots of whole numbers": lambda rng, size: np.sqrt(rng.integers(1, 900, size)) / 30,
    "halfway": lambda rng, size: rng.integers(1, 256, size) / 256,
    "nearly equal": lambda rng, size: 0.5 + rng.random(size) / 2**20,
    "whole numbers": lambda rng, size: rng.integers(1, 2**22, size).astype(float),
    "six decades": lambda rng, size: 10 ** rng.uniform(-6, 0, size),
    "twenty decades": lambda rng, size: 10 ** rng.uniform(-20, 0, size),
    "tiny": lambda rng, size: rng.random(size) * 1e-42,
    "huge": lambda rng, size: rng.random(size) * 1e31,
    "one pixel": lambda rng, size: np.eye(*size) * (rng.permutation(size[0]) == 0)[:, None],
    "no mass": lambda rng, size: np.zeros(size),
}


def _filled(recipe: str, seed: int, size: Size, empty: float) -> Weights:
    rng = np.random.default_rng(seed)
    values = RECIPES[recipe](rng, size)
    values[rng.random(size) < empty] = 0
    return values.astype(np.float32)


def _check(map: ClickabilityMap, share: tuple[float, float]) -> None:
    """Limits and draws equal those of the plain way over the whole image."""
    frame = (*map.shape, *map.low)
    found = limits(map, share)
    assert found == groups._plain_limits(map.weights, map.shape[0] * map.shape[1], *share)
    for drawn in UNIFORMS:
        place = groups._plain_draw_between(map.weights, frame, found, drawn)
        assert draw_published(map, share, drawn) == groups._point(map, place), drawn


@given(
    st.sampled_from(sorted(RECIPES)),
    st.integers(0, 2**32),
    st.tuples(st.integers(1, 60), st.integers(1, 60)),
    st.sampled_from([0.0, 0.5, 0.95]),
    st.tuples(*[st.sampled_from([0, 1, 9, 150])] * 4),
    st.integers(0, 10),
)
def test_a_draw_in_a_box_equals_the_plain_one(
    recipe: str, seed: int, size: Size, empty: float, around: tuple[int, ...], group: int
) -> None:
    shape = (size[0] + around[0] + around[1], size[1] + around[2] + around[3])
    weights = _filled(recipe, seed, size, empty)
    _check(ClickabilityMap(shape, (around[0], around[2]), weights), share_of_group(group))


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_a_draw_from_a_large_map_equals_the_plain_one(recipe: str) -> None:
    for seed, (group, empty) in enumerate([(0, 0.0), (1, 0.2), (4, 0.0), (10, 0.6)]):
        map = ClickabilityMap((320, 450), (60, 80), _filled(recipe, seed, (220, 290), empty))
        _check(map, share_of_group(group))


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_limits_equal_the_plain_ones_where_the_last_bit_decides(recipe: str) -> None:
    """Shares at which the running sum meets its target where the value changes."""
    map = ClickabilityMap((190, 260), (20, 30), _filled(recipe, 5, (140, 160), 0.1))
    positive = np.sort(map.weights[map.weights > 0])
    ordered = np.concatenate([np.zeros(190 * 260 - positive.size, np.float32), positive])
    edges = np.flatnonzero(np.diff(ordered))
    sums = np.append(np.cumsum(ordered)[edges[:: max(edges.size // 75, 1)]], ordered.sum())
    shares = sums / float(ordered.sum() or 1)
    for share in zip(shares.tolist(), shares[1:].tolist(), strict=False):
        assert limits(map, share) == groups._plain_limits(map.weights, ordered.size, *share)


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_draws_equal_the_plain_ones_where_the_last_bit_decides(recipe: str) -> None:
    """Numbers that are themselves running sums."""
    map = ClickabilityMap((190, 260), (20, 30), _filled(recipe, 6, (140, 160), 0.1))
    for group in (0, 1, 6):
        bounds, frame = limits(map, share_of_group(group)), (190, 260, 20, 30)
        steps = groups._steps(map.weights, frame, bounds)
        chosen = np.unique(steps[steps < 1])
        for drawn in chosen[:: max(chosen.size // 20, 1)].tolist():
            place = groups._plain_draw_between(map.weights, frame, bounds, drawn)
            assert draw_published(map, share_of_group(group), drawn) == groups._point(map, place)


@pytest.mark.parametrize("make", [uniform, distance])
def test_a_draw_from_an_object_equals_the_plain_one(
    make: Callable[[Mask], ClickabilityMap],
) -> None:
    y, x = np.ogrid[:300, :400]
    map = make(Mask.of(((y - 150) / 100) ** 2 + ((x - 195) / 165) ** 2 < 1))
    for group in range(11):
        _check(map, share_of_group(group))


def test_shares_that_cut_a_group_anywhere_equal_the_plain_ones() -> None:
    rng = np.random.default_rng(3)
    map = ClickabilityMap.of(_filled("roots of whole numbers", 3, (200, 210), 0.1))
    for low, high in np.sort(rng.random((20, 2)), axis=1):
        _check(map, (float(low), float(high)))


def test_a_map_whose_sum_overflows_has_nothing_to_draw() -> None:
    map = ClickabilityMap.of(np.full((4, 4), 3e38))
    with np.errstate(over="ignore"):
        _check(map, (0.1, 0.9))
    assert draw_published(map, (0.1, 0.9), 0.5) is None
