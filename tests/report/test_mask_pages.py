"""A person looks at automatic masks: all of them, one of them, none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest

from segmeter.core.masks import Mask
from segmeter.report.elements import filled
from segmeter.report.images import colour_of, overlay
from segmeter.report.mask_pages import masks_page

SHAPE = (60, 80)
HOSTILE = '<b>%DATA%</b> & "photo".jpg'


def image() -> bytes:
    return bytes(cv2.imencode(".png", np.full((*SHAPE, 3), 128, np.uint8))[1].tobytes())


def shown(*boxes: tuple[int, int, int, int]) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(
            mask=Mask.box(SHAPE, b[:2], b[2:]),
            score=0.9 - 0.1 * i,
            stability=0.95,
            point=(b[0] + 1.5, b[1] + 1.5),
        )
        for i, b in enumerate(boxes)
    ]


LARGE, SMALL = (5, 5, 55, 75), (20, 30, 40, 50)


@pytest.fixture
def page(running: Any, tmp_path: Path) -> Any:
    def opened(masks: list[SimpleNamespace], scheme: str = "light") -> Any:
        file = tmp_path / "masks.html"
        file.write_text(masks_page(HOSTILE, image(), SHAPE, masks, [("masks", "2")]))
        running.complaints.clear()
        running.resize(1100, 900)
        running.emulate(scheme=scheme)
        running.open(file)
        running.run(
            "new Promise(done => image.complete && pixels ? done(1)"
            " : image.addEventListener('load', () => setTimeout(() => done(1))))"
        )
        return running

    yield opened
    assert running.complaints == []


def readout(tab: Any) -> str:
    text: str = tab.run("document.getElementById('readout').textContent")
    return text


def test_the_page_decodes_every_mask(page: Any) -> None:
    tab = page(shown(LARGE, SMALL))
    assert tab.run("document.querySelector('h1').textContent") == HOSTILE
    areas = tab.run("masks.map(m => { let n = 0; each(m, () => n++); return [n, m.area]; })")
    assert areas == [[3500, 3500], [400, 400]]
    assert tab.run("document.getElementById('count').textContent") == "2 masks"


def test_a_click_shows_the_smallest_mask_and_the_next_the_larger_one(page: Any) -> None:
    tab = page(shown(LARGE, SMALL), scheme="dark")
    tab.click("canvas")
    assert readout(tab).startswith("Mask 2: 400 px")
    tab.click("canvas")
    assert readout(tab).startswith("Mask 1: 3,500 px")
    assert tab.run("document.getElementById('list').value") == "0"
    assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 26)"


def test_sliders_leave_out_what_is_below(page: Any) -> None:
    tab = page(shown(LARGE, SMALL))
    tab.run(
        "(() => { const s = document.getElementById('score'); s.value = 85;"
        " s.dispatchEvent(new Event('input')); })()"
    )
    assert tab.run("document.getElementById('count').textContent") == "1 of 2 masks"
    assert tab.run("document.getElementById('list').options.length") == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_missing_masks_are_reported(page: Any, scheme: str) -> None:
    tab = page([], scheme)
    assert tab.run("document.getElementById('count').textContent").startswith("No masks")
    for part in ("list", "controls"):
        assert tab.run(f"getComputedStyle(document.getElementById('{part}')).display") == "none"
    tab.click("canvas")
    assert "ask at more points" in readout(tab)


def test_a_thousand_masks_are_listed(page: Any) -> None:
    many = [(y, x, y + 6, x + 6) for y in range(0, 54, 2) for x in range(0, 74, 2)]
    tab = page(shown(*many))
    assert tab.run("document.getElementById('list').options.length") == len(many) > 990
    assert tab.run("document.documentElement.scrollWidth <= innerWidth") is True
    tab.resize(390, 800)
    assert tab.run("document.documentElement.scrollWidth <= innerWidth") is True


def test_the_list_of_images_escapes_names() -> None:
    one = {"name": HOSTILE, "page": 'a"b%.html', "thumbnail": image(), "masks": 1}
    text = filled("mask_list.html", title="Masks", facts=[], images=[one])
    assert "<b>" not in text
    assert 'href="a%22b%25.html"' in text
    assert "1 mask<" in text


def test_smaller_masks_are_drawn_on_larger_ones_with_a_white_border() -> None:
    pixels = np.full((*SHAPE, 3), 100, np.uint8)
    drawn = overlay(
        pixels, [Mask.box(SHAPE, SMALL[:2], SMALL[2:]), Mask.box(SHAPE, LARGE[:2], LARGE[2:])]
    )
    mixed = [(0.45 * 100 + 0.55 * np.array(colour_of(i))).round() for i in (0, 1)]
    assert np.array_equal(drawn[30, 40], mixed[0])
    assert np.array_equal(drawn[10, 10], mixed[1])
    assert (drawn[30, 49] == 255).all()
    assert (drawn[0, 0] == 100).all()
    assert np.array_equal(overlay(pixels, []), pixels)
