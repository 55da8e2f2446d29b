"""Where `corrected` differs from `published`: a test for each numbered difference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from published_runs import STARTS

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.prompts import Box, Prompt
from segmeter.users.volumes.initial_prompts import (
    Draws,
    PublishedDraws,
    box_3d,
    box_per_slice,
    box_propagation,
    centre_of,
    centre_points_per_volume,
    draws_of,
    interpolated_boxes,
    interpolated_points,
    point_propagation,
    points_per_slice,
    seed_slices,
)
from segmeter.users.volumes.refinement_prompts import (
    point_per_wrong_slice,
    point_per_wrong_volume,
    scribble_correction,
    scribble_correction_3d,
)


def block(low: Sequence[int], high: Sequence[int], shape: Sequence[int] = (20, 30, 30)) -> Mask:
    return Mask.box(tuple(shape), tuple(low), tuple(high))


def free(seed: int = 0) -> Draws:
    return Draws(np.random.default_rng(seed))


def test_m4_fallback_clicks_on_false_positives_are_negative_in_corrected() -> None:
    # The target's outline lies far from the false positive part, so that no stroke can be drawn.
    target, prediction = block((5, 10, 2), (15, 12, 4)), block((5, 10, 20), (15, 11, 28))
    both = target.dense() | prediction.dense()
    for protocol, positive in (("published", True), ("corrected", False)):
        found = scribble_correction(target, Mask.of(both), PublishedDraws(), protocol)
        assert found is not None
        assert found.fallback
        assert len(found.clicks) == 3
        assert {click.positive for click in found.clicks} == {positive}


def answers_one_pixel_narrower(sets: Sequence[tuple[Prompt, ...]]) -> list[Mask]:
    """A model whose answer to a box is a column less on the left, whatever is there."""
    found = []
    for (prompt,) in sets:
        assert isinstance(prompt, Box)
        (z, y0, x0), (_, y1, x1) = prompt.low, prompt.high
        whole = np.zeros((20, 30, 30), bool)
        whole[int(z), int(y0) : int(y1) + 1, int(x0) + 1 : int(x1) + 1] = True
        found.append(Mask.of(whole))
    return found


def test_m6_neighbours_get_the_box_of_the_answer_in_corrected() -> None:
    target = block((4, 10, 10), (9, 16, 20))
    middle = 6
    copied = box_propagation(target, answers_one_pixel_narrower, "published")
    asked = box_propagation(target, answers_one_pixel_narrower, "corrected")
    seed = {box.low[0]: box for box in copied}[middle]
    assert {b.low[0]: b for b in copied}[middle + 1].low[1:] == seed.low[1:]
    assert {b.low[0]: b for b in asked}[middle + 1].low[2] == seed.low[2] + 1


def test_m7_every_slice_has_a_prompt_even_with_few_seeds_in_corrected() -> None:
    target = block((4, 10, 10), (11, 11, 12))  # two pixels a slice: two seeds, not five

    def answers(sets: Sequence[tuple[Prompt, ...]]) -> list[Mask]:
        return [target for _ in sets]

    published = point_propagation(target, answers, PublishedDraws(), "published")
    corrected = point_propagation(target, answers, free(), "corrected")
    assert {int(c.point[0]) for c in corrected} == set(range(4, 11))
    # Five entries of the way down are dropped, two of them seeds: the next three slices.
    assert {int(c.point[0]) for c in published} == {7, 8, 9, 10}


def test_m8_corrected_searches_the_worst_plane_on_both_axes() -> None:
    target = block((4, 10, 10), (14, 16, 16))
    # A sheet of false positives at fixed x: few in any plane of fixed y.
    sheet = block((4, 2, 17), (14, 28, 18))
    prediction = Mask.of(target.dense() | sheet.dense())
    by_y = scribble_correction(target, prediction, PublishedDraws(), "published")
    by_x = scribble_correction(target, prediction, free(), "corrected")
    assert by_y is not None
    assert by_x is not None
    assert by_y.plane is not None
    assert by_y.plane[0] == 1
    assert by_x.plane == (2, 17)


def test_m9_corrected_draws_along_z_and_keeps_all_positive_points() -> None:
    target = block((2, 10, 8), (14, 13, 20))
    published = scribble_correction_3d(
        target, Mask.empty(target.shape), PublishedDraws(), "published"
    )
    corrected = scribble_correction_3d(target, Mask.empty(target.shape), free(), "corrected")
    assert published is not None
    assert corrected is not None
    assert len(published.clicks) == 1
    assert [click.point[0] for click in corrected.clicks] == list(range(2, 14))
    false_positives = Mask.of(target.dense() | block((2, 13, 8), (14, 20, 20)).dense())
    one = scribble_correction_3d(target, false_positives, free(), "corrected")
    assert one is not None
    assert one.negative
    assert len(one.clicks) == 1


def test_m17_centre_points_are_ordered_along_z_in_corrected_and_along_x_as_an_option() -> None:
    bits = np.zeros((20, 30, 30), bool)
    for z in range(4, 15):  # a line that runs back in x while z grows
        bits[z, 14:17, 24 - z : 27 - z] = True
    target = Mask.of(bits)
    along_z = centre_points_per_volume(target, 2, "corrected", patch=0)
    along_x = centre_points_per_volume(target, 2, "published", patch=0, along="x")
    assert [c.point[0] for c in along_z] == sorted(c.point[0] for c in along_z)
    assert [c.point[2] for c in along_x] == sorted(c.point[2] for c in along_x)
    assert [c.point for c in along_z] != [c.point for c in along_x]


def test_m19_corrected_draws_come_from_the_generator_and_published_ones_from_seed_one() -> None:
    target = block((4, 10, 10), (9, 25, 25))
    one, other = np.random.default_rng(1), np.random.default_rng(2)
    assert points_per_slice(target, 1, draws_of("published", one)) == points_per_slice(
        target, 1, draws_of("published", other)
    )
    assert points_per_slice(target, 1, draws_of("corrected", one)) != points_per_slice(
        target, 1, draws_of("corrected", other)
    )


def test_m20_slices_draw_independently_in_corrected() -> None:
    # Equal slices: the same random word picks the same pixel in each of them.
    target, prediction = block((4, 10, 10), (12, 20, 20)), Mask.empty((20, 30, 30))
    published = point_per_wrong_slice(target, prediction, PublishedDraws())
    corrected = point_per_wrong_slice(target, prediction, free())
    assert len({click.point[1:] for click in published}) == 1
    assert len({click.point[1:] for click in corrected}) > 1


def test_m22_the_centre_can_be_that_of_the_box_of_the_mass_or_the_deepest() -> None:
    shape = np.zeros((20, 20), bool)
    shape[2:4, 2:18] = True  # a bar with a thick square at its left end
    shape[2:9, 2:9] = True
    mask = Mask.of(shape)
    assert centre_of(mask, "box") == (3, 10)  # (5, 10) lies outside; (5, 8) is as near
    assert centre_of(mask, "edt") == (5, 5)
    assert len({centre_of(mask, "box"), centre_of(mask, "mass"), centre_of(mask, "edt")}) == 3


def test_m23_seed_slices_are_spaced_among_the_targets_slices_in_corrected() -> None:
    gap = Mask.of(
        block((0, 10, 10), (3, 15, 15)).dense() | block((17, 10, 10), (20, 15, 15)).dense()
    )
    assert seed_slices(gap, 3, "published") == [0, 2, 19]
    assert seed_slices(gap, 4, "published") == [0, 2, 17, 19]
    assert seed_slices(gap, 4, "corrected") == [0, 1, 17, 19]
    assert seed_slices(gap, 3, "corrected") == [0, 2, 19]
    uneven = Mask.of(
        block((0, 9, 9), (9, 15, 15)).dense() | block((19, 9, 9), (20, 15, 15)).dense()
    )
    assert seed_slices(uneven, 3, "published") == [0, 8, 19]
    assert seed_slices(uneven, 3, "corrected") == [0, 4, 19]


def test_m27_boxes_end_on_their_last_pixel_in_slices_as_in_volumes() -> None:
    target = block((4, 10, 10), (6, 20, 15))
    assert box_per_slice(target)[0] == Box((4, 10, 10), (4, 19, 14))
    assert box_3d(target) == Box((4, 10, 10), (5, 19, 14))
    # Half to even: what is rounded one past the end may come out a pixel further.
    bits = np.zeros((3, 20, 20), bool)
    bits[0, 2:4, 2:4] = bits[2, 2:4, 2:5] = bits[1, 2, 2] = True
    ends = {
        protocol: interpolated_boxes(Mask.of(bits), 2, protocol)[1].high[2]
        for protocol in ("published", "corrected")
    }
    assert ends == {"published": 3, "corrected": 4}


def test_m31_a_right_mask_is_left_alone_in_both_protocols() -> None:
    target = block((4, 10, 10), (6, 20, 15))
    for protocol in ("published", "corrected"):
        draws = draws_of(protocol, np.random.default_rng(0))
        assert point_per_wrong_slice(target, target, draws) == []
        assert point_per_wrong_volume(target, target, draws, protocol) == []
        assert scribble_correction(target, target, draws, protocol) is None
        assert scribble_correction_3d(target, target, draws, protocol) is None


@pytest.mark.parametrize("name", ["ThreePointInterpolationPrompter", "CenterPointPrompter"])
def test_an_empty_target_or_a_image_is_refused_in_one_sentence(name: str) -> None:
    for mask, sentence in (
        (Mask.empty((5, 5, 5)), "an empty target cannot be prompted"),
        (Mask.box((5, 5), (1, 1), (3, 3)), "need a target of a volume"),
    ):
        with pytest.raises(BadInput, match=sentence):
            STARTS[name](mask, PublishedDraws(), lambda sets: [])


def test_prompts_move_with_the_target_by_even_steps() -> None:
    # Half to even depends on parity, so a step of two is the smallest that must not matter.
    bits = np.zeros((12, 20, 20), bool)
    bits[2:9, 4:9, 5:12] = True
    bits[3:7, 8:15, 3:8] = True
    here, there = Mask.of(bits), Mask.of(np.pad(bits, ((0, 0), (2, 0), (2, 0))))
    for a, b in zip(
        interpolated_boxes(here, 3, "corrected"),
        interpolated_boxes(there, 3, "corrected"),
        strict=True,
    ):
        assert b == Box(
            (a.low[0], a.low[1] + 2, a.low[2] + 2), (a.high[0], a.high[1] + 2, a.high[2] + 2)
        )
    for c, d in zip(
        interpolated_points(here, 3, "corrected"),
        interpolated_points(there, 3, "corrected"),
        strict=True,
    ):
        assert d.point == (c.point[0], c.point[1] + 2, c.point[2] + 2)


def test_a_refined_stroke_is_drawn_in_order_and_over_the_same_voxels() -> None:
    target = block((4, 10, 10), (14, 20, 20))
    prediction = Mask.of(target.dense() | block((2, 8, 8), (16, 22, 22)).dense())
    found = scribble_correction(target, prediction, free(3), "corrected")
    assert found is not None
    assert found.stroke is not None
    assert not found.stroke.positive
    assert set(found.stroke.points) == {click.point for click in found.clicks}
    steps = np.abs(np.diff(np.array(found.stroke.points), axis=0)).max(axis=1)
    assert np.median(steps) == 1
