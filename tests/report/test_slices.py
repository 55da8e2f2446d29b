"""Volumes on a page: kept small, stored once, masks as run lengths."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace

import numpy as np
from PIL import Image

from segmeter.core.masks import Mask
from segmeter.core.prompts import Box, Click, MaskHint
from segmeter.core.sections import Frame, Section, Slices
from segmeter.report.images import Album
from segmeter.report.page import Page, render
from segmeter.report.replays import slices_view


def unpacked(runs: list[int], shape: list[int]) -> np.ndarray:
    flat = np.zeros(int(np.prod(shape)), bool)
    place = 0
    for k, length in enumerate(runs):
        flat[place : place + length] = k % 2 == 1
        place += length
    return flat.reshape(shape)


def made(shape: tuple[int, int, int] = (40, 100, 120)) -> Slices:
    voxels = np.random.default_rng(0).integers(0, 255, shape, dtype=np.uint8)
    ground_truth = Mask.box(shape, (10, 40, 50), (20, 50, 70))
    prediction = Mask.of(np.random.default_rng(1).random((10, 9, 8)) > 0.5, (12, 41, 52), shape)
    step = Frame(prediction, (Click((12, 41, 52)), Box((11, 40, 51), (13, 44, 60))))
    return Slices("k", "a volume", voxels, [step], ground_truth)


def test_the_neighbourhood_is_kept_and_masks_come_back() -> None:
    slices = made()
    view = slices_view(slices, Album())
    data = json.loads(view["data"])
    assert data["first"] == [0, 16, 26]
    assert data["shape"] == [40, 58, 68]
    place = np.s_[0:40, 16:74, 26:94]
    assert slices.ground_truth is not None
    assert np.array_equal(
        unpacked(data["ground_truth"], data["shape"]), slices.ground_truth.dense()[place]
    )
    mask = slices.frames[0].mask.dense()[place]
    assert np.array_equal(unpacked(data["steps"][0]["mask"], data["shape"]), mask)
    click, box = data["steps"][0]["prompts"]
    assert click == {"at": [12, 25, 26], "positive": True}
    assert box == {"low": [11, 24, 25], "high": [13, 28, 34]}
    assert view["steps"][0]["prompts"] == "1 point, 1 box"


def test_a_mask_prompt_is_named() -> None:
    slices = made()
    first = replace(slices.frames[0], prompts=(MaskHint(slices.frames[0].mask),))
    view = slices_view(replace(slices, frames=(first,)), Album())
    assert view["steps"][0]["prompts"] == "1 mask"


def test_voxels_are_stored_once_however_many_sessions_show_them() -> None:
    album = Album()
    first, again = (slices_view(made(), album) for _ in range(2))
    assert first["source"].startswith("data:image/webp;base64,")
    assert again["source"] == ""
    assert first["image"] == again["image"]
    raw = base64.b64decode(first["source"].partition(",")[2])
    with Image.open(io.BytesIO(raw)) as mosaic:
        assert mosaic.size == (6 * 68, 7 * 58)


def test_a_large_volume_is_thinned_out() -> None:
    shape = (60, 400, 400)
    ground_truth = Mask.box(shape, (5, 20, 20), (55, 380, 380))
    whole = Slices("k", "large", np.zeros(shape, np.uint8), [Frame(ground_truth)], ground_truth)
    data = json.loads(slices_view(whole, Album())["data"])
    assert np.prod(data["shape"]) <= 3 << 20
    assert data["stride"] == [1, 2, 2]
    assert data["spacing"] == [1, 2, 2]
    assert unpacked(data["ground_truth"], data["shape"]).mean() > 0.5


def test_the_legend_names_boxes_where_boxes_were_drawn() -> None:
    shape = (4, 20, 20)
    ground_truth = Mask.box(shape, (1, 5, 5), (3, 15, 15))
    for prompt, named in ((Box((1, 5, 5), (1, 14, 14)), True), (Click((1, 8, 8)), False)):
        whole = Slices(
            "k", "small", np.zeros(shape, np.uint8), [Frame(ground_truth, (prompt,))], ground_truth
        )
        page = render(Page("volumes", "", [], [Section("Slices", blocks=[whole])]))
        assert ("</span> a box</span></p>" in page) == named


def test_a_page_of_mini_volumes_stays_small() -> None:
    from segmeter.core import catalogue

    data = catalogue.datasets.make("mini-volumes")
    blocks = []
    for name in data.scenes():
        scene = data.load(name)
        grey = scene.voxels / scene.voxels.max() * 255
        for target in scene.targets:
            steps = [Frame(target.mask, (Click(target.mask.low),))] * 6
            key = f"{name}-{target.id}"
            blocks.append(Slices(key, key, grey.astype(np.uint8), steps, target.mask))
    page = render(Page("volumes", "", [], [Section("Slices", blocks=blocks)]))
    assert len(page.encode()) < 1_000_000
