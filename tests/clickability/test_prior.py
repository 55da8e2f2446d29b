"""The prior on the error region alone: the kernel against the plain way, maps and clicks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from segmeter.clickability import groups
from segmeter.clickability import maps as prior_module
from segmeter.clickability.groups import Draw, drawn_on_prior, share_of_group
from segmeter.clickability.maps import Numbers, prior, prior_on, shipped
from segmeter.core.masks import Mask
from segmeter.core.scenes import Image, Target
from segmeter.kernels import set_threads, threads

Bits = npt.NDArray[np.bool_]
SHAPE = (240, 320)
LARGE = (1500, 2000)  # clicks count up to 25 pixels beside the object
NUMBERS = [
    shipped("first"),
    shipped("later"),
    Numbers(1.0, 0.3, 1.0, 0.03),  # all jitter, and far
    Numbers(0.0, 5.0, 0.5, 0.0008),  # hardly
    Numbers(2.0, 0.2, 0.3, 0.0),  # not at all
    Numbers(2.0, 0.2, 0.0, 0.01),
]


def disc(shape: tuple[int, int], y: float, x: float, radius: float) -> Bits:
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    return np.hypot(rows - y, columns - x) < radius


def speckled(shape: tuple[int, int]) -> Bits:
    return np.random.default_rng(5).random(shape) < 0.01


def slivers(shape: tuple[int, int]) -> Bits:
    """Crescents on two sides of a disc, and a line at the border."""
    bits = disc(shape, 120, 150, 80) ^ disc(shape, 122, 147, 79)
    bits[0, 40:90] = True
    return bits


ERROR_REGIONS: dict[str, Callable[[], Mask]] = {
    "one pixel": lambda: Mask.box(SHAPE, (70, 90), (71, 91)),
    "a pixel in the corner": lambda: Mask.box(SHAPE, (239, 319), (240, 320)),
    "the whole image": lambda: Mask.box(SHAPE, (0, 0), SHAPE),
    "a disc": lambda: Mask.of(disc(SHAPE, 110, 200, 60)),
    "a disc cut by the border": lambda: Mask.of(disc(SHAPE, 5, 310, 40)),
    "slivers": lambda: Mask.of(slivers(SHAPE)),
    "specks": lambda: Mask.of(speckled(SHAPE)),
    "a row": lambda: Mask.box(SHAPE, (30, 0), (31, 320)),
    "a column": lambda: Mask.box(SHAPE, (0, 7), (240, 8)),
    "slivers, far reach": lambda: Mask.of(slivers(LARGE)),
    "far apart, far reach": lambda: Mask.of(disc(LARGE, 3, 3, 9) | disc(LARGE, 200, 90, 30)),
}


@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
@pytest.mark.parametrize("name", ERROR_REGIONS)
def test_the_map_on_the_mistake_is_the_whole_map_cut_out(name: str, numbers: Numbers) -> None:
    wrong = ERROR_REGIONS[name]()
    expected, found = prior(wrong, numbers).on(wrong), prior_on(wrong, numbers)
    assert (found.shape, found.low) == (expected.shape, expected.low)
    # OpenCV adds float32 in another order and takes its powers from a table.
    np.testing.assert_allclose(found.weights, expected.weights, rtol=3e-6, atol=1e-37)
    assert not found.weights[~wrong.bits].any()


@settings(max_examples=40)
@given(
    hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, max_side=40)),
    st.tuples(st.integers(0, 200), st.integers(0, 280)),
)
def test_any_shape_anywhere_has_the_same_map(bits: Bits, low: tuple[int, int]) -> None:
    wrong = Mask.of(bits, low, SHAPE)
    expected, found = prior(wrong, round="later").on(wrong), prior_on(wrong, round="later")
    np.testing.assert_allclose(found.weights, expected.weights, rtol=3e-6, atol=1e-37)


def test_no_mistake_has_an_empty_map() -> None:
    assert prior_on(Mask.empty(SHAPE)).weights.size == 0


images = hnp.arrays(bool, (23, 31))
points = st.tuples(st.integers(0, 22), st.integers(0, 30))
wishes = st.tuples(
    images,
    st.booleans(),
    st.lists(points, max_size=5),
    st.integers(0, 10),
    st.floats(0, 0.999),
    st.none() | st.integers(0, 2**64 - 1),
)


@given(st.lists(wishes, min_size=1, max_size=4), images, st.none() | images, st.integers(1, 3))
def test_clicks_drawn_together_are_those_from_the_maps(
    wanted: list[tuple[Bits, bool, list[tuple[int, int]], int, float, int | None]],
    ground_truth: Bits,
    ignore: Bits | None,
    count: int,
) -> None:
    target = Target("t", Mask.of(ground_truth), None if ignore is None else Mask.of(ignore))
    scene = Image("test", "scene", np.zeros((23, 31, 3), np.uint8), [target])
    draws = [
        Draw(scene, target, Mask.of(b), side, False, tuple(done), share_of_group(g), u, seed)
        for b, side, done, g, u, seed in wanted
    ]
    before = threads()
    set_threads(count)
    try:
        found = drawn_on_prior(draws)
    finally:
        set_threads(before)
    assert found == [draw.on(prior_on(draw.region.mask, round="later")) for draw in draws]


def test_clicks_on_large_mistakes_are_the_same_on_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Small ones, as above, are not worth a second thread."""
    target = Target("t", Mask.of(disc((480, 640), 240, 300, 200)))
    scene = Image("test", "scene", np.zeros((480, 640, 3), np.uint8), [target])
    draws = [
        Draw(
            scene,
            target,
            Mask.of(prediction),
            True,
            False,
            ((240, 300),),
            share_of_group(g),
            u,
            seed,
        )
        for prediction in (disc((480, 640), 250, 290, 200), disc((480, 640), 100, 300, 150))
        for g, u in ((0, 0.5), (1, 0.3), (10, 0.1))
        for seed in (None, 7)
    ]
    alone = drawn_on_prior(draws)
    assert None not in alone
    for count in (2, 4, 30):
        monkeypatch.setattr("segmeter.kernels._count", count)
        assert drawn_on_prior(draws) == alone


@pytest.mark.parametrize("published", [True, False])
def test_the_plain_way_clicks_the_same_pixels(
    published: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ways of adding may part where two pixels are equally likely up to rounding."""
    target = Target("t", Mask.of(disc(SHAPE, 120, 150, 80)))
    scene = Image("test", "scene", np.zeros((*SHAPE, 3), np.uint8), [target])
    predictions = [Mask.of(disc(SHAPE, 118 - i, 152 + 3 * i, 80)) for i in range(6)]
    draws = [
        Draw(scene, target, prediction, side, False, ((120, 72),), share_of_group(g), u, seed)
        for prediction in predictions
        for side in (True, False)
        for g, u in ((1, 0.3), (5, 0.9), (10, 0.1))
        for seed in [None if published else 7]
    ]
    found = drawn_on_prior(draws)
    for module in (groups, prior_module):
        monkeypatch.setattr(module, "compiled", None)
    plain = drawn_on_prior(draws)
    assert None not in plain
    for draw, ours, theirs in zip(draws, found, plain, strict=True):
        if ours != theirs:
            wrong = draw.region.mask
            weights = prior(wrong, round="later").dense()
            assert weights[ours] == pytest.approx(weights[theirs], rel=1e-5)
