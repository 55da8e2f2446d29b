"""The best and the worst click by trying."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segmeter.core import catalogue
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, Request
from segmeter.core.prompts import Click
from segmeter.core.scenes import Image, Target
from segmeter.core.users import Observation
from segmeter.users.adversary import SearchGrid, lattice, search, valid_pixels


class Landscape:
    """A view whose IoU is a smooth function of where the click falls."""

    def __init__(self, target: Mask, peak: tuple[int, int]) -> None:
        self.target, self.peak = target, peak
        self.asked = 0

    def predict(self, requests):
        self.asked += len(requests)
        return [MaskPrediction(self._mask(request)) for request in requests]

    def _mask(self, request: Request) -> Mask:
        y, x = request.prompts[-1].point
        away = abs(y - self.peak[0]) + abs(x - self.peak[1])
        whole = self.target.dense()
        whole[: int(away // 2)] = False
        return Mask.of(whole)


def observation(encoded, target, mask=None, prompts=(), protocol="corrected"):
    scene = Image("drawn", "one", np.zeros((*target.mask.shape, 3), np.uint8), (target,))
    return Observation(
        scene, target, mask or Mask.empty(target.mask.shape), prompts, protocol, encoded
    )


def test_the_search_climbs_to_the_peak_and_to_the_pit():
    target = Target("a", Mask.box((96, 96), (10, 10), (80, 80)))
    encoded = Landscape(target.mask, (20, 70))
    best, worst = search([observation(encoded, target)] * 2, ["best", "worst"])
    assert abs(best.chosen.point[0] - 20) + abs(best.chosen.point[1] - 70) <= 21
    assert best.chosen.iou == 1.0
    away = abs(worst.chosen.point[0] - 20) + abs(worst.chosen.point[1] - 70)
    assert away >= 115  # the far corner of the object is 118 away
    assert encoded.asked < 300


def test_the_worst_is_never_better_and_the_best_never_worse_than_the_centre():
    target = Target("a", Mask.box((64, 64), (8, 20), (50, 44)))
    for name in ("disc", "synthetic-noisy", "synthetic-stubborn"):
        scene = observation(None, target).scene
        encoded = catalogue.models.make(name).encode(scene)
        best, worst = search(
            [observation(encoded, target)] * 2, ["best", "worst"], SearchGrid(20, 2, 4)
        )
        assert worst.chosen.iou <= worst.trials[0].iou == best.trials[0].iou <= best.chosen.iou


def test_clicks_are_valid():
    target = Target("a", Mask.box((64, 64), (8, 8), (50, 44)), Mask.box((64, 64), (8, 8), (20, 44)))
    encoded = Landscape(target.mask, (30, 20))
    before = (Click((40, 20)),)
    now = observation(encoded, target, Mask.box((64, 64), (34, 8), (60, 44)), before)
    valid = valid_pixels(now, True)
    assert valid == Mask.box((64, 64), (20, 8), (34, 44))
    (found,) = search([now], ["worst"], SearchGrid(10, 2, 1))
    assert all(valid[trial.point] for trial in found.trials)


def test_a_content_user_gives_no_click():
    target = Target("a", Mask.box((16, 16), (2, 2), (8, 8)))
    assert search([observation(None, target, target.mask)], ["best"]) == [None]


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 4, 8]))
@settings(max_examples=40, deadline=None)
def test_every_cell_with_a_valid_pixel_is_tried_once(seed, spacing):
    bits = np.random.default_rng(seed).random((23, 31)) < 0.15
    valid = Mask.of(bits)
    tried = lattice(valid, spacing)
    assert all(valid[pixel] for pixel in tried)
    cells = {tuple((np.array(p) - valid.low) // spacing) for p in tried}
    everything = {tuple((np.array(p) - valid.low) // spacing) for p in np.argwhere(bits)}
    assert cells == everything
    assert len(tried) == len(cells)


def test_the_users_are_in_the_catalogue():
    rng = np.random.default_rng(0)
    target = Target("a", Mask.box((48, 48), (8, 20), (40, 44)))
    encoded = catalogue.models.make("disc").encode(observation(None, target).scene)
    for name in ("best-click", "worst-click", "best-click-search?lattice=9", "worst-click-search"):
        user = catalogue.users.make(name)
        click = user.next(observation(encoded, target), rng)
        assert isinstance(click, Click)
        assert target.mask[click.point]


@pytest.mark.parametrize("protocol", ["published", "corrected"])
def test_published_judges_ignored_pixels_too(protocol):
    shape = (40, 40)
    target = Target("a", Mask.box(shape, (5, 5), (30, 30)), Mask.box(shape, (30, 5), (40, 30)))
    encoded = catalogue.models.make("synthetic-stubborn").encode(observation(None, target).scene)
    (found,) = search(
        [observation(encoded, target, protocol=protocol)], ["best"], SearchGrid(4, 1, 8)
    )
    shown = encoded.predict([Request((found.click,))])[0].mask()
    ignore = target.ignore if protocol == "corrected" else None
    from segmeter.measures.objects import iou

    assert found.chosen.iou == iou(target.mask, shown, ignore)
