"""Zooming in: golden sessions of the published rule, and its corners."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.models.clicknets._zoom import Zoom  # noqa: E402


def pretended(output, size):
    """The answer that the golden file pretends a network gave."""
    rows, columns = np.mgrid[: size[0], : size[1]].astype(np.float64)
    spread = 2 * (output["s"] * min(size)) ** 2
    away = (rows - output["a"] * size[0]) ** 2 + (columns - output["b"] * size[1]) ** 2
    return torch.from_numpy(np.exp(-away / spread).astype(np.float32))


@pytest.mark.parametrize("number", range(6))
def test_golden_sessions(golden, number):
    session = json.loads((golden / "clicks/zoom.json").read_text())["zoom"][number]
    target = session["target_size"]
    zoom = Zoom(tuple(target) if isinstance(target, list) else target, session["skip_clicks"])
    found, kept, spots = torch.zeros(session["H"], session["W"]), None, []
    for turn in session["rounds"]:
        spots.append(tuple(turn["click"]))
        frame, kept = zoom.frame(spots, found, kept)
        assert (list(kept) if kept else None) == turn["box"]
        assert list(frame.input) == turn["input_size"]
        np.testing.assert_allclose([frame.into(s[:2]) for s in spots], turn["clicks_in_input"])
        found = frame.paste(pretended(turn["output"], frame.input))
        assert float(found.double().sum()) == pytest.approx(turn["full_sum"], rel=1e-5)
        assert abs(int((found > 0.5).sum()) - turn["full_over_half"]) <= 2
        for y, x, value in turn["probe"]:
            assert float(found[y, x]) == pytest.approx(value, abs=1e-5)
        assert zoom.encodes_again(found, kept) == turn["would_recalculate"]


def test_a_point_is_mapped_into_the_frame_and_back():
    found = torch.zeros(300, 400)
    found[100:160, 200:220] = 1
    frame, _ = Zoom(400, -1).frame([(120.0, 210.0, True)], found, None)
    assert frame.out_of(frame.into((123.0, 209.5))) == pytest.approx((123.0, 209.5))


def test_a_click_on_the_last_row_of_the_box_makes_a_new_box():
    found = torch.zeros(400, 400)
    found[100:200, 100:200] = 1
    zoom = Zoom(400, 1)
    spots = [(150.0, 150.0, True), (160.0, 160.0, True)]
    _, kept = zoom.frame(spots, found, None)
    assert kept is not None
    _, same = zoom.frame([*spots, (kept[1] - 1.0, 150.0, True)], found, kept)
    _, other = zoom.frame([*spots, (float(kept[1]), 150.0, True)], found, kept)
    assert same == kept
    assert other != kept


def test_when_nothing_is_found_any_more_the_whole_image_is_squeezed_into_the_box():
    frame, kept = Zoom(400, 1).frame(
        [(5.0, 5.0, True), (6.0, 6.0, False)], torch.zeros(50, 60), (10, 29, 20, 49)
    )
    assert frame.shown is None
    assert kept == (10, 29, 20, 49)
    pasted = frame.paste(torch.ones(50, 60))
    assert float(pasted[10:30, 20:50].min()) == pytest.approx(1)
    assert float(pasted.sum()) == pytest.approx(20 * 30)
