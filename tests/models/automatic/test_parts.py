"""The generator's parts against the original functions' answers, and what each promises."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.kernels import compiled
from segmeter.models._enlarging import (
    Enlargement,
    plain_measure,
    plain_render,
)
from segmeter.models.automatic.options import Crop, Options, checked_crops, crops_of, grid
from segmeter.models.automatic.regions import (
    clean_logits,
    clean_mask,
    plain_suppress_boxes,
    suppress_boxes,
    suppress_masks,
)


def told(golden: Path, name: str) -> Any:
    return json.loads((golden / "zeroshot" / "amg" / name).read_text())


def unpacked(golden: Path, name: str) -> npt.NDArray[np.bool_]:
    data = np.load(golden / "zeroshot" / "amg" / name)
    bits = np.unpackbits(data["masks"], axis=-1)
    return bits[..., : data["shape"][-1]].astype(bool)


def test_grids_are_the_originals(golden: Path) -> None:
    for side, points in told(golden, "grids.json")["grid"].items():
        assert np.abs(grid(int(side)) - points).max() <= 1e-12


def test_grids_of_layers_are_the_originals(golden: Path) -> None:
    for case in told(golden, "grids.json")["layers"]:
        options = Options(points=case["n_per_side"], crops=case["n_layers"], fewer=case["scale"])
        sides = [options.points_in(layer) for layer in range(case["n_layers"] + 1)]
        assert [side**2 for side in sides] == case["points_per_layer"]


def test_crops_are_the_originals(golden: Path) -> None:
    for case in told(golden, "crop_boxes.json"):
        height, width = case["im_size_hw"]
        crops = crops_of((height, width), case["n_layers"], case["overlap_ratio"])
        assert [[c.left, c.top, c.right, c.bottom] for c in crops] == case["boxes_xyxy"]
        assert [c.layer for c in crops] == case["layer"]


@given(st.integers(30, 200), st.integers(30, 200), st.integers(0, 3))
def test_every_layer_of_crops_covers_the_image(height: int, width: int, layers: int) -> None:
    crops = crops_of((height, width), layers, 512 / 1500)
    for layer in range(layers + 1):
        covered = np.zeros((height, width), dtype=bool)
        for crop in crops:
            if crop.layer == layer:
                covered[crop.window] = True
        assert covered.all()


def test_masks_cut_off_by_a_crop_are_found_as_the_original_finds_them(golden: Path) -> None:
    for case in told(golden, "crop_edge.json"):
        crop = Crop(*case["crop"])
        shape = case["orig"][3], case["orig"][2]
        boxes = np.array(case["boxes_in_crop_frame"], dtype=np.int64)
        assert crop.cuts(boxes, shape).tolist() == case["near_edge"]


def test_stability_is_the_originals(golden: Path) -> None:
    maps = np.load(golden / "zeroshot" / "amg" / "stability_logits.npz")["logits"] / np.float32(64)
    to = Enlargement(maps.shape[1:], maps.shape[1:])
    for key, wanted in told(golden, "stability.json")["scores"].items():
        threshold, offset = map(float, key.split("/"))
        found = to.measure(maps, threshold, offset).stability
        scores = [np.nan if s is None else s for s in wanted["score"]]
        np.testing.assert_array_equal(found, np.array(scores, dtype=np.float32))
        passed = found >= np.float32(0.95)
        assert passed.tolist() == wanted["pass_0.95"]


def test_boxes_areas_and_run_lengths_are_the_originals(golden: Path) -> None:
    wanted = told(golden, "masks.json")
    bits = unpacked(golden, "masks.npz")
    maps = np.where(bits, 1, -1).astype(np.float32)
    to = Enlargement(bits.shape[1:], bits.shape[1:])
    found = to.measure(maps, 0.0, 0.5)
    assert found.boxes.tolist() == wanted["boxes_xyxy_inclusive"]
    assert found.area.tolist() == wanted["area"]
    for mask, counts in zip(to.masks(maps, 0.0), wanted["uncompressed"], strict=True):
        assert mask.run_lengths().tolist() == counts


def test_suppression_keeps_what_the_original_keeps(golden: Path) -> None:
    for case in told(golden, "nms.json"):
        if case["boxes"] and case.get("keep") is not None:
            kept = _suppress_floats(case["boxes"], case["scores"], case["thr"])
            assert kept == case["keep"], case["name"]


def _suppress_floats(boxes: Any, scores: Any, threshold: float) -> list[int]:
    return [int(i) for i in suppress_boxes(boxes, scores, threshold)]


def test_suppression_of_many_boxes_keeps_the_same_set(golden: Path) -> None:
    data = np.load(golden / "zeroshot" / "amg" / "nms_large.npz")
    wanted = [c for c in told(golden, "nms.json") if c.get("keep_set_sorted")]
    assert wanted
    for case in wanted:
        kept = suppress_boxes(data["boxes"], data["scores"], case["thr"])
        assert sorted(kept.tolist()) == case["keep_set_sorted"]


def test_small_regions_are_cleaned_as_the_original_cleans_them(golden: Path) -> None:
    masks = unpacked(golden, "regions.npz")
    for bits, case in zip(masks, told(golden, "regions.json"), strict=True):
        for smallest in (10, 100):
            wanted = case[str(smallest)]
            cleaned, changed = clean_mask(bits, smallest)
            (holes, _), (islands, area) = wanted["holes"], wanted["holes_then_islands"]
            assert (changed, int(cleaned.sum())) == (holes or islands, area), case["name"]
            assert Mask.of(cleaned).run_lengths().tolist() == wanted["rle_final"], case["name"]


def test_images_and_points_enter_the_square_as_the_original_brings_them(golden: Path) -> None:
    pytest.importorskip("torch")
    from segmeter.models.sam._resizing import Padded

    for case in told(golden, "transform.json"):
        frame = Padded(tuple(case["hw"]))
        assert list(frame.inside) == case["new_hw"]
        down, across = frame.scale
        places = np.array(case["points_xy"]) * np.array([across, down])
        np.testing.assert_allclose(places, case["points_1024"], atol=1e-12, rtol=1e-14)


def test_upsampling_is_the_originals(golden: Path) -> None:
    folder = golden / "zeroshot" / "upsample"
    data, wanted = np.load(folder / "chain.npz"), json.loads((folder / "expected.json").read_text())
    for place, case in enumerate(wanted["cases"]):
        low = data["low_x8"][place][None] / np.float32(8)
        to = Enlargement(low.shape[1:], tuple(case["orig_hw"]), 64, tuple(case["input_hw"]))
        assert np.abs(to.values(low)[0] - data[f"out{place}"]).max() <= 1e-4
        assert to.measure(low, 0.0, 1.0).area.tolist() == [case["area_gt_0"]]


LOW = st.tuples(st.integers(1, 9), st.integers(1, 9))
# Halves of the smallest numbers are rounded to 0 by some ways and not by others; no logit is one.
VALUES = st.floats(-4, 4, width=32, allow_subnormal=False) | st.sampled_from([0.0, 1.0, -1.0])


@given(
    st.data(),
    LOW,
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(1, 3),
)
def test_looking_along_contours_equals_the_whole_map(
    data: st.DataObject,
    low: tuple[int, int],
    shape: tuple[int, int],
    two: bool,
    offset: float,
    threads: int,
) -> None:
    maps = data.draw(hnp.arrays(np.float32, (2, *low), elements=VALUES))
    inside = data.draw(st.tuples(st.integers(1, 24), st.integers(1, 24))) if two else None
    to = Enlargement(low, shape, 24 if two else None, inside)
    fast, plain = (
        replace(to, threads=threads).measure(maps, 0.0, offset),
        plain_measure(to, maps, 0.0, offset),
    )
    for name in ("loose", "area", "strict", "boxes"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(plain, name))
    assert to.masks(maps, 0.0) == plain_render(to, maps, 0.0)


def test_maps_with_endless_logits_are_measured_as_the_plain_way_does() -> None:
    maps = np.full((1, 6, 6), -1, dtype=np.float32)
    maps[0, 2, 2], maps[0, 4, 4] = np.inf, np.nan
    to = Enlargement((6, 6), (17, 23))
    with np.errstate(invalid="ignore"):
        plain = plain_measure(to, maps, 0.0, 1.0)
    assert to.measure(maps, 0.0, 1.0).area.tolist() == plain.area.tolist()


def test_enlarging_rounds_as_torch_does() -> None:
    torch = pytest.importorskip("torch")
    low = np.random.default_rng(0).normal(0, 10, (2, 64, 64)).astype(np.float32)
    for shape in ((100, 70), (321, 481)):
        theirs = torch.nn.functional.interpolate(
            torch.from_numpy(low)[:, None], shape, mode="bilinear", align_corners=False
        )[:, 0].numpy()
        # Processors without fused multiply-add differ in the last place.
        assert np.abs(Enlargement((64, 64), shape).values(low) - theirs).max() < 1e-4


@given(hnp.arrays(np.float32, (1, 8, 8), elements=VALUES), st.floats(0, 2), st.floats(0, 2))
def test_stability_falls_with_the_offset(
    maps: npt.NDArray[np.float32], one: float, other: float
) -> None:
    to = Enlargement((8, 8), (20, 30))
    less, more = (to.measure(maps, 0.0, d) for d in sorted((one, other)))
    assert (more.loose >= less.loose).all()
    assert (more.strict <= less.strict).all()


def test_boxes_one_pixel_wide_are_never_removed_as_published_and_are_when_corrected() -> None:
    boxes, scores = [[3, 0, 3, 9], [3, 0, 3, 9]], [0.9, 0.8]
    assert suppress_boxes(boxes, scores, 0.7).tolist() == [0, 1]
    assert suppress_boxes(boxes, scores, 0.7, "corrected").tolist() == [0]


def test_an_overlap_of_exactly_the_threshold_is_above_it_as_published() -> None:
    # 3/5 of inclusive boxes; corrected counts pixels, so it has its own boxes for 3/5.
    assert suppress_boxes([[0, 0, 50, 10], [0, 0, 30, 10]], [0.9, 0.8], 0.6).tolist() == [0]
    corrected = suppress_boxes([[0, 0, 49, 9], [0, 0, 29, 9]], [0.9, 0.8], 0.6, "corrected")
    assert corrected.tolist() == [0, 1]


def test_a_ring_and_the_disc_inside_it_stay_apart_by_their_masks() -> None:
    ring = np.zeros((9, 9), dtype=bool)
    ring[0], ring[-1], ring[:, 0], ring[:, -1] = True, True, True, True
    masks = [Mask.of(ring), Mask.of(~ring | (np.add.outer(range(9), range(9)) % 8 == 0))]
    boxes = [[m.low[1], m.low[0], m.high[1] - 1, m.high[0] - 1] for m in masks]
    assert suppress_boxes(boxes, [0.9, 0.8], 0.7, "corrected").tolist() == [0]
    assert suppress_masks(masks, [0.9, 0.8], 0.7).tolist() == [0, 1]


def test_holes_joined_across_corners_are_one_as_published_and_two_when_corrected() -> None:
    bits = np.ones((12, 12), dtype=bool)
    bits[3:5, 3:5] = bits[5:7, 5:7] = False
    assert clean_mask(bits, 5)[1] is False
    assert clean_mask(bits, 5, "corrected")[0].all()


def test_if_all_islands_are_small_the_first_largest_stays() -> None:
    bits = np.zeros((10, 20), dtype=bool)
    bits[1, 8:11] = bits[2, 1:4] = True
    cleaned, changed = clean_mask(bits, 50)
    assert changed
    assert Mask.of(cleaned).low == (1, 8)


def test_sam_2_cleans_logits_at_their_size() -> None:
    maps = np.full((1, 8, 8), -2, dtype=np.float32)
    maps[0, 1:6, 1:6], maps[0, 3, 3], maps[0, 7, 7] = 3, -1, 1
    cleaned = clean_logits(maps, 1)
    assert cleaned[0, 3, 3] == 10
    assert cleaned[0, 7, 7] == -10
    assert (clean_logits(maps, 25)[0, 1, 1]) == -10  # up to and including


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"points": 0}, "points is a whole number from 1 on"),
        ({"points": 4, "crops": 3, "fewer": 2}, "grid of no points"),
        ({"crops": 9}, "at most 6 layers"),
        ({"score": float("nan")}, "score is a finite number"),
        ({"protocol": "proper"}, "no protocol .proper.; it is published or corrected"),
    ],
)
def test_wrong_options_are_refused_in_one_sentence(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Options(**wrong)


def test_crops_larger_than_the_image_are_refused() -> None:
    with pytest.raises(BadInput, match="larger than the image of 300 x 100"):
        checked_crops((100, 300), 1, 1.5)
    with pytest.raises(BadInput, match="20 x 20 is too small for 6 layers"):
        checked_crops((20, 20), 6, 0.0)


@given(
    boxes=st.lists(st.tuples(*[st.integers(0, 6)] * 4), max_size=40),
    threshold=st.sampled_from([0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 1.0]),
    protocol=st.sampled_from(["published", "corrected"]),
    seed=st.integers(0, 9),
)
def test_the_kernel_suppresses_as_its_plain_twin(
    boxes: list[tuple[int, int, int, int]], threshold: float, protocol: Any, seed: int
) -> None:
    if compiled is None:
        pytest.skip("kernels are not compiled")
    corners = np.array(boxes).reshape(-1, 2, 2)
    tight = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    scores = np.random.default_rng(seed).integers(0, 4, len(tight)) / 4  # many ties
    dtype, past = (np.float32, 0) if protocol == "published" else (np.float64, 1)
    ends = (tight + np.array([0, 0, past, past])).astype(dtype)
    order = np.argsort(-scores, kind="stable")
    plain = plain_suppress_boxes(ends, order, threshold)
    assert np.array_equal(suppress_boxes(tight, scores, threshold, protocol), plain)


def test_small_crops_may_have_a_narrower_edge() -> None:
    crop = Crop(100, 100, 200, 180, layer=2)  # 5 % are 5 and 4 pixels
    boxes = np.array([[5, 30, 60, 50], [6, 30, 60, 50], [30, 4, 60, 50], [30, 5, 60, 50]])
    assert crop.cuts(boxes, (400, 400)).all()
    assert crop.cuts(boxes, (400, 400), scaled=True).tolist() == [True, False, True, False]
    large = Crop(100, 100, 900, 900, layer=1)  # 5 % are more than 20 pixels
    near = np.array([[20, 300, 600, 500], [21, 300, 600, 500]])
    for scaled in (False, True):
        assert large.cuts(near, (1000, 1000), scaled=scaled).tolist() == [True, False]


@pytest.mark.parametrize("protocol", ["published", "corrected"])
def test_ties_among_thousands_of_boxes_keep_their_order(protocol: Any) -> None:
    """The original sorts more than 1000 boxes unstably; here the order is always the rule's."""
    apart = np.array([[4 * i, 0, 4 * i + 2, 2] for i in range(1500)])
    scores = np.array([0.5, 0.9, 0.7] * 500)
    kept = suppress_boxes(apart, scores, 0.7, protocol)
    assert kept.tolist() == sorted(range(1500), key=lambda i: (-scores[i], i))
