"""Masks agree with dense arrays, and on disk with COCO's own library."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pycocotools import mask as coco

from segmeter.core import rle
from segmeter.core.errors import BadInput
from segmeter.core.masks import (
    Mask,
    _count_shared,
    _plain_count_shared,
    _plain_tight,
    _tight,
    joint_box,
)

Array = np.ndarray[Any, np.dtype[np.bool_]]
images = hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, max_side=20))
volumes = hnp.arrays(bool, hnp.array_shapes(min_dims=3, max_dims=3, max_side=7))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Array, Array]:
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=3, max_side=12))
    return draw(hnp.arrays(bool, shape)), draw(hnp.arrays(bool, shape))


@given(images | volumes)
def test_a_mask_gives_back_its_array(array: Array) -> None:
    assert np.array_equal(Mask.of(array).dense(), array)


@given(images | volumes, st.integers(0, 3), st.integers(0, 3))
def test_the_compiled_box_equals_the_plain_one(array: Array, above: int, beside: int) -> None:
    """Of whole arrays, of parts whose rows lie apart, and of turned ones."""
    for bits in (array, array[above:, beside:], array.T):
        assert _tight(bits) == _plain_tight(bits)


@given(st.integers(1, 400), st.integers(1, 400), st.randoms())
def test_the_box_of_large_masks_is_that_of_their_outermost_pixels(
    rows: int, columns: int, random: Any
) -> None:
    draws = np.random.default_rng(random.getrandbits(32))
    array = np.zeros((rows, columns), dtype=bool)
    points = draws.integers(0, (rows, columns), (int(draws.integers(0, 6)), 2))
    array[tuple(points.T)] = True
    outermost = tuple(map(slice, points.min(0), points.max(0) + 1)) if len(points) else None
    assert _tight(array) == _plain_tight(array) == outermost


@given(st.integers(0, 3), st.integers(2000, 4500), st.integers(0, 9), st.randoms())
def test_the_compiled_overlap_equals_the_plain_one(
    rows: int, columns: int, aside: int, random: Any
) -> None:
    """Rows longer than byte counters hold, full ones among them, cut out of larger arrays."""
    draws = np.random.default_rng(random.getrandbits(32))
    a, b = (draws.random((rows, columns + 20)) < draws.choice([0.1, 1.0]) for _ in range(2))
    a, b = a[:, aside : aside + columns], b[:, 3 : 3 + columns]
    assert _count_shared(a, b) == _plain_count_shared(a, b)


def test_the_overlap_of_volumes_is_counted_slice_by_slice_all_the_same() -> None:
    a, b = (np.random.default_rng(k).random((5, 30, 40)) < 0.5 for k in range(2))
    for first, second in ((a, b), (a[1:3, 4:20, 5:33], b[2:4, 1:17, 8:36]), (a[:0], b[:0])):
        assert _count_shared(first, second) == _plain_count_shared(first, second)


@given(pairs())
def test_set_operations_equal_those_on_arrays(pair: tuple[Array, Array]) -> None:
    a, b = pair
    one, other = Mask.of(a), Mask.of(b)
    assert one.overlap(other) == np.count_nonzero(a & b)
    assert (one & other) == Mask.of(a & b)
    assert (one - other) == Mask.of(a & ~b)
    assert (one | other) == Mask.of(a | b)
    assert one.area == np.count_nonzero(a)


@given(pairs())
def test_the_joint_box_holds_both(pair: tuple[Array, Array]) -> None:
    masks = [Mask.of(a) for a in pair]
    low, high = joint_box(*masks)
    assert sum(int(m.crop(low, high).sum()) for m in masks) == sum(m.area for m in masks)


@given(images)
def test_run_lengths_are_those_of_coco(array: Array) -> None:
    mask = Mask.of(array)
    theirs = coco.encode(np.asfortranarray(array.astype(np.uint8)))
    assert mask.to_coco() == {"size": list(array.shape), "counts": theirs["counts"].decode()}
    assert Mask.from_coco(theirs) == mask


@given(images, st.integers(0, 3), st.integers(0, 3))
def test_compiled_run_lengths_equal_the_plain_ones(array: Array, below: int, beside: int) -> None:
    mask = Mask.of(np.pad(array, ((below, beside), (beside, below))))
    assert mask.encoded() == rle.pack(mask.run_lengths()).decode()


@given(images | volumes)
def test_encoded_masks_come_back(array: Array) -> None:
    mask = Mask.of(array)
    back = Mask.decoded(mask.encoded(), mask.shape)
    assert back == mask
    assert back.bits.flags.c_contiguous
    assert Mask.from_coco(mask.to_coco()) == mask


@given(images)
def test_run_lengths_come_back(array: Array) -> None:
    mask = Mask.of(array)
    plain = {"size": list(array.shape), "counts": mask.run_lengths().tolist()}
    assert Mask.from_coco(plain) == mask


@given(volumes)
def test_slices_of_a_volume_stack_to_it_again(array: Array) -> None:
    mask = Mask.of(array)
    slices = {z: mask.slice(z) for z in range(array.shape[0])}
    assert Mask.stack(slices, array.shape[0]) == mask


def test_a_volumes_text_costs_what_the_thing_costs() -> None:
    mask = Mask.box((4000, 4000, 4000), (1000, 5, 7), (1002, 8, 9))
    text = mask.encoded()
    assert text == "1000 5 7 2 3 2 0<"
    assert Mask.decoded(text, mask.shape) == mask
    loose = "0 0 0 2 1 2 12"  # one voxel in a box of four
    assert Mask.decoded(loose + "1", (3, 3, 3)) == Mask.box((3, 3, 3), (0, 0, 1), (2, 1, 2)) - (
        Mask.box((3, 3, 3), (1, 0, 1), (2, 1, 2))
    ) | Mask.box((3, 3, 3), (1, 0, 0), (2, 1, 1))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 2 3",
        "1 2 3 2 2 2 ",
        "1 2 3 2 2 2 07",
        "8 8 8 2 2 2 08",
        "-1 2 3 2 2 2 08",
        "1 2 3 99999999999 2 2 08",
        "a b c d e f 08",
        "1 2 3 2 2 2 0\ud800",
        "² 2 3 2 2 2 08",
    ],
)
def test_a_volumes_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        Mask.decoded(text, (9, 9, 9))


@given(st.binary(max_size=40) | st.text(max_size=40), st.sampled_from([(5, 7), (4, 4, 4)]))
def test_garbage_run_lengths_are_refused_or_within_the_image(
    text: bytes | str, shape: tuple[int, ...]
) -> None:
    with suppress(BadInput):
        assert Mask.decoded(text, shape).dense().shape == shape


def test_run_lengths_of_another_size_are_refused() -> None:
    with pytest.raises(BadInput, match="do not add up"):
        Mask.from_coco({"size": [3, 3], "counts": [4]})


@pytest.mark.parametrize(
    "runs",
    [
        {"size": [3, 3], "counts": None},
        {"size": [3, 3], "counts": ["a"]},
        {"size": [3, 3], "counts": [10**30]},
        {"size": [3, 3], "counts": [0, 9.5]},
        {"size": [3, 3], "counts": [0.0, 9.0]},
        {"size": [3, 3], "counts": [9, -9, 9]},
        {"size": [3, 3], "counts": [True]},
        {"size": [3, 3], "counts": [[9]]},
        {"size": [3, 3], "counts": [4, [5]]},
        {"size": [3, 3], "counts": []},
        {"size": [3, 3], "counts": {"a": 1}},
        {"size": [3.0, 3.0], "counts": [9]},
        {"size": [3], "counts": [3]},
        {"size": [3, 3, 1], "counts": [9]},
        {"size": None, "counts": [9]},
        {"size": "33", "counts": [9]},
        {"size": [-3, -3], "counts": [9]},
        {"size": [10**30, 3], "counts": [9]},
        {"size": [65536, 65536], "counts": [65536 * 65536]},
        {"size": [3, 3]},
    ],
)
def test_invalid_run_length_masks_are_refused(runs: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        Mask.from_coco(runs)


def test_a_small_thing_in_a_claimed_giant_takes_only_its_box() -> None:
    tracemalloc.start()
    mask = Mask.from_coco({"size": [16384, 16384], "counts": [100, 5, 16384 * 16384 - 105]})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (mask.low, mask.bits.shape) == ((100, 0), (5, 1))
    assert peak < 1 << 20


def test_masks_of_different_size_cannot_be_compared() -> None:
    with pytest.raises(BadInput, match="different size"):
        Mask.empty((3, 4)).overlap(Mask.empty((4, 3)))


def test_a_pixel_can_be_queried() -> None:
    mask = Mask.box((5, 5), (1, 1), (3, 3))
    assert mask[2, 2]
    assert not mask[3, 3]
    assert not mask[0, 4]


def test_a_box_is_cut_at_the_frame_and_empty_when_it_has_no_size() -> None:
    assert Mask.box((6, 6), (0, 0), (9, 9)).area == 36
    assert Mask.box((6, 6), (-3, 4), (2, 9)) == Mask.box((6, 6), (0, 4), (2, 6))
    for low, high in (((2, 2), (2, 4)), ((3, 3), (1, 1)), ((7, 7), (9, 9))):
        assert Mask.box((6, 6), low, high) == Mask.empty((6, 6))


@pytest.mark.parametrize("value", [-5.0, 0.5, 2.0, np.nan, np.inf])
def test_floats_other_than_0_and_1_are_no_mask(value: float) -> None:
    with pytest.raises(BadInput, match="threshold"):
        Mask.of(np.full((4, 4), value))
    assert Mask.of(np.eye(3, dtype=np.float32)).area == 3
    assert Mask.of(np.full((2, 2), 255, dtype=np.uint8)).area == 4
    with pytest.raises(BadInput, match="true and false"):
        Mask.of(np.full((2, 2), "yes"))
