"""What the generator promises: both protocols, any model, properties of the whole."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blobs import position_image

from segmeter.core import catalogue
from segmeter.core.capabilities import capable
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard, Request
from segmeter.core.prompts import Click
from segmeter.core.scenes import Image, Scene
from segmeter.models._enlarging import Enlargement
from segmeter.models.automatic.candidates import Logits, PredictsGrids, crop_candidates
from segmeter.models.automatic.generator import Automatic, generate
from segmeter.models.automatic.options import Crop, Options

SHAPE = (120, 160)
OPEN = Options(points=6, score=0.0, stability=0.0, box_nms=1.0)


def scene(shape: tuple[int, int] = SHAPE) -> Scene:
    return Image("blobs", "default", position_image(*shape), [])


def blobs(options: Options) -> list[Any]:
    return generate(catalogue.models.make("synthetic-blobs"), scene(), options)


class Strange:
    """Answers every click with the same masks."""

    card = ModelCard("strange", "the same masks always", frozenset({"click"}))

    def __init__(self, *masks: Mask, score: float = 0.9) -> None:
        self.masks, self.score, self.clicks = masks, score, list[Any]()

    def encode(self, scene: Scene) -> Strange:
        return self

    def predict(self, requests: Any) -> list[MaskPrediction]:
        self.clicks += [request.prompts[0].point for request in requests]
        return [
            MaskPrediction(self.masks[i % len(self.masks)], self.score)
            for i, _ in enumerate(requests)
        ]


def test_without_filters_every_point_gives_three_masks() -> None:
    assert len(blobs(OPEN)) == 3 * 36


def test_any_model_that_takes_clicks_gives_masks() -> None:
    method = catalogue.methods.make("automatic?model=disc&points=3&score=0.5")
    result = method.segment(scene((60, 90)))
    assert len(result.proposals) == 9
    assert {m.shape for m in result.proposals} == {(60, 90)}


def test_a_model_that_takes_no_clicks_is_refused() -> None:
    class Reader:
        card = ModelCard("reader", "reads words", frozenset({"words"}))

        def encode(self, scene: Scene) -> Any:
            raise AssertionError

    with pytest.raises(BadInput, match="takes no clicks"):
        catalogue.methods.make("automatic", model=Reader())


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("automatic?model=disc&points=0", "points is a whole number from 1 on"),
        ("automatic?model=disc&points=2&crops=2&fewer=2", "a grid of no points"),
        ("automatic?model=disc&score=NaN", "score is a finite number"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_loaded(spec: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        catalogue.methods.make(spec)


def test_corrected_removes_masks_that_cover_the_image_and_empty_ones() -> None:
    published, corrected = (blobs(replace(OPEN, protocol=r)) for r in ("published", "corrected"))
    whole = SHAPE[0] * SHAPE[1]
    assert any(m.mask.area >= 0.95 * whole for m in published)
    assert any(not m.mask for m in published)
    assert all(0 < m.mask.area < 0.95 * whole for m in corrected)
    papers = blobs(replace(OPEN, covers=0.95))
    assert all(m.mask.area < 0.95 * whole for m in papers)


def test_corrected_clicks_at_pixel_centres_and_published_half_a_pixel_off() -> None:
    square = Mask.box((10, 20), (2, 2), (6, 6))
    places = {}
    for protocol in ("published", "corrected"):
        model = Strange(square)
        generate(model, scene((10, 20)), replace(OPEN, points=1, protocol=protocol))
        places[protocol] = model.clicks
    assert places == {"published": [(5.0, 10.0)], "corrected": [(4.5, 9.5)]}


def test_corrected_boxes_count_pixels() -> None:
    square = Mask.box((10, 20), (2, 3), (6, 10))
    (one,) = generate(Strange(square), scene((10, 20)), replace(OPEN, points=1))
    assert one.record("published")["bbox"] == [3, 2, 6, 3]
    assert one.record("corrected")["bbox"] == [3, 2, 7, 4]
    assert one.record("corrected")["cleaned"] is False


def test_a_mask_of_small_islands_keeps_its_largest_in_published_only() -> None:
    bits = np.zeros((30, 40), dtype=bool)
    bits[3:5, 3:8] = bits[20:23, 20:25] = True
    model, options = Strange(Mask.of(bits)), replace(OPEN, points=1, smallest=50)
    (kept,) = generate(model, scene((30, 40)), options)
    assert kept.cleaned
    assert kept.mask.area == 15
    assert generate(model, scene((30, 40)), replace(options, protocol="corrected")) == []


def test_masks_one_pixel_wide_pile_up_as_published_only() -> None:
    line = Mask.box((30, 40), (3, 5), (20, 6))
    options = replace(OPEN, points=2, box_nms=0.7)
    assert len(generate(Strange(line), scene((30, 40)), options)) == 4
    assert (
        len(generate(Strange(line), scene((30, 40)), replace(options, protocol="corrected"))) == 1
    )


def test_ring_and_disc_of_one_box_both_stay_by_their_masks() -> None:
    ring = np.ones((30, 40), dtype=bool)
    ring[8:22, 8:32] = False
    ring[:4], ring[-4:], ring[:, :4], ring[:, -4:] = False, False, False, False
    disc = np.zeros_like(ring)
    disc[4:26, 20], disc[15, 4:36] = True, True  # a cross with the ring's box
    model = Strange(Mask.of(ring), Mask.of(disc))
    options = replace(OPEN, points=2, box_nms=0.7, protocol="corrected")
    assert len(generate(model, scene((30, 40)), options)) == 1
    assert len(generate(model, scene((30, 40)), replace(options, nms="masks"))) == 2


def test_no_mask_at_all_is_an_empty_list_with_and_without_crops() -> None:
    nothing = Strange(Mask.empty((30, 40)), score=0.1)
    for crops in (0, 1):
        options = replace(OPEN, points=2, score=0.5, crops=crops)
        assert generate(nothing, scene((30, 40)), options) == []


def test_refining_needs_a_model_that_can() -> None:
    with pytest.raises(BadInput, match="leave refine off"):
        generate(Strange(Mask.empty(SHAPE)), scene(), replace(OPEN, refine=True))


def test_blobs_answer_clicks_as_they_answer_grids() -> None:
    encoded = catalogue.models.make("synthetic-blobs").encode(scene())
    points = np.array([[40.0, 40.0], [60.2, 91.7], [5.0, 150.0]])
    together = encoded.candidates(points, 0.0)
    alone = encoded.predict([Request((Click((y, x)),)) for y, x in points])
    assert together.scores.tolist() == [s for p in alone for s in p.scores.tolist()]
    assert together.masks() == [p.mask(k) for p in alone for k in range(3)]


def test_candidates_kept_as_run_lengths_are_the_same_masks() -> None:
    model, crop = catalogue.models.make("synthetic-blobs"), Crop(0, 0, SHAPE[1], SHAPE[0])
    whole, compact = (
        crop_candidates(model, scene(), crop, OPEN, compact=flag) for flag in (False, True)
    )
    some = np.array([7, 0, 40, 41])
    assert compact.take(some).masks(SHAPE) == whole.take(some).masks(SHAPE)
    assert compact.scores.tolist() == whole.scores.tolist()
    (_, part), *_ = compact.groups()
    assert part.measure(1.0).area.tolist() == [m.area for m in part.masks()]
    with pytest.raises(BadInput, match="without logits"):
        part.values()
    with pytest.raises(BadInput, match="without logits"):
        part.cleaned(1)


@pytest.mark.parametrize("protocol", ["published", "corrected"])
def test_a_scaled_edge_keeps_masks_that_come_near_the_edge_of_small_crops(protocol: Any) -> None:
    fixed = Options(points=8, crops=1, score=0.0, stability=0.0, protocol=protocol, box_nms=1.0)
    scaled = replace(fixed, edge="scaled", crop_nms=1.0)
    near, far = (
        {(m.crop, m.point, m.mask) for m in blobs(replace(o, crop_nms=1.0)) if m.crop.layer}
        for o in (fixed, scaled)
    )
    assert near < far


def test_a_single_output_is_one_mask_for_each_point() -> None:
    options = Options(points=4, score=0.0, stability=0.0, box_nms=1.0)
    single = blobs(replace(options, output="single"))
    assert len(single) == 16
    three = {(m.point, m.score, m.mask) for m in blobs(options)}
    assert {(m.point, m.score, m.mask) for m in single} < three


def test_the_error_for_a_model_without_a_single_output_is_clear() -> None:
    with pytest.raises(BadInput, match="leave output at three"):
        generate(Strange(Mask.box(SHAPE, (0, 0), (9, 9))), scene(), Options(output="single"))


@pytest.mark.parametrize("protocol", ["published", "corrected"])
def test_cleaned_masks_keep_their_scores_and_only_corrected_marks_them(protocol: Any) -> None:
    before = Options(points=8, score=0.0, stability=0.5, box_nms=1.0, protocol=protocol)
    after = blobs(replace(before, smallest=60))
    known = {(m.point, m.score, m.stability) for m in blobs(before)}
    cleaned = [m for m in after if m.cleaned]
    assert cleaned
    assert {(m.point, m.score, m.stability) for m in cleaned} <= known
    assert [m.record(protocol).get("cleaned") for m in cleaned[:1]] == [
        True if protocol == "corrected" else None
    ]


@pytest.mark.parametrize("protocol", ["published", "corrected"])
@pytest.mark.parametrize(("strict", "stays"), [(19, True), (18, False)])
def test_a_stability_of_exactly_the_threshold_stays(
    protocol: Any, strict: int, stays: bool
) -> None:
    """19 of 20 is 0.95 in single precision; a port of the original drops it."""
    logits = np.full((1, 10, 20), -9, dtype=np.float32)
    logits[0, 0, :20] = 0.5
    logits[0, 0, :strict] = 5

    @capable(PredictsGrids)
    class Twenty(Strange):
        def candidates(self, points: Any, above: float) -> Logits:
            to = Enlargement((10, 20), (10, 20))
            return Logits(np.ones(1, np.float32), np.zeros(1, np.intp), logits, to)

    options = Options(points=1, protocol=protocol, stability=0.95)
    assert len(generate(Twenty(Mask.empty((10, 20))), scene((10, 20)), options)) == stays


def test_the_default_protocol_is_that_of_the_command() -> None:
    from inspect import signature

    from segmeter.cli.models import masks

    of_command = signature(masks).parameters["protocol"].default
    assert catalogue.methods.make("automatic?model=disc").options.protocol == of_command


def test_every_setting_is_in_the_table_of_the_documentation() -> None:
    page = Path(__file__).parents[3] / "docs" / "benchmarks" / "automatic.md"
    table = page.read_text().partition("## Settings")[2].partition("\n\nThe paper")[0]
    settings = {field.name for field in fields(Options)} - {"grids"}
    missing = [name for name in (*settings, *Automatic.other_names) if f"`{name}`" not in table]
    assert not missing
