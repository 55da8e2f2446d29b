"""The second round: people click on what a mask misses, or has too much."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from segmeter.core.masks import Mask
from segmeter.datasets.mini import Mini
from segmeter.datasets.recorded_clicks import read_clicks
from segmeter.study.exports import export
from segmeter.study.people import fill_with_people
from segmeter.study.running import RunningStudy
from segmeter.study.stimuli import masks_in_folder

PLAN = """
kind = "clicks-round2"
title = "What is missing?"
[data]
scenes = ["coffee", "rocket"]
[design]
devices = ["pc"]
batch = 2
open_to_all = true
[validity]
exclude = ["late", "left_page", "unseen", "wrong_device", "no_click"]
[[masks]]
name = "left"
source = "folder"
folder = "left"
[[masks]]
name = "perfect"
source = "folder"
folder = "perfect"
"""


def write(folder: Path, scene: str, target: str, mask: Mask) -> None:
    folder.mkdir(exist_ok=True)
    cv2.imwrite(str(folder / f"{scene}_{target}.png"), mask.dense().astype(np.uint8) * 255)


def test_masks_of_ones_read_as_well_as_masks_of_255(tmp_path: Path) -> None:
    mask = Mask.box((40, 60), (10, 10), (20, 30))
    for high in (1, 255):
        cv2.imwrite(str(tmp_path / "dog.png"), mask.dense().astype(np.uint8) * high)
        assert masks_in_folder(tmp_path)("dog", "object", (40, 60)) == mask


def test_masks_of_scenes_in_folders_are_in_folders(tmp_path: Path) -> None:
    mask = Mask.box((40, 60), (10, 20), (30, 40))
    for place in ("masks/zoo/dog_1.png", "dog_1.png"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(tmp_path / place), mask.dense().astype(np.uint8))
    given = masks_in_folder(tmp_path / "masks")
    assert given("zoo/dog", "1", (40, 60)) == mask
    assert given("../dog", "1", (40, 60)) is None


def shifted(mask: Mask, by: int) -> Mask:
    """The mask moved to the right: it misses the left edge and has too much on the right."""
    dense = mask.dense()
    moved = np.zeros_like(dense)
    moved[:, by:] = dense[:, :-by]
    return Mask.of(moved)


def test_participants_see_the_best_mask_that_is_not_too_good(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    for scene in ("coffee", "rocket"):
        for target in Mini().load(scene).targets:
            by = max(2, target.mask.bits.shape[1] // 4)
            write(tmp_path / "left", scene, target.id, shifted(target.mask, by))
            write(tmp_path / "perfect", scene, target.id, target.mask)
    study = begin(PLAN)
    for scene, name in study.stimuli.targets():
        ground_truth = study.stimuli.shown(scene).targets[name].mask
        assert sorted(study.stimuli.errors_of(scene, name)) == [("fn", "left"), ("fp", "left")]
        missing = study.stimuli.mask(scene, name, "fn", "left")
        extra = study.stimuli.mask(scene, name, "fp", "left")
        assert missing.overlap(ground_truth) == missing.area > 0
        assert extra.overlap(ground_truth) == 0 < extra.area
    assert "An outline of an object has an error" in visit(study).join().http.get("/work").text
    fill_with_people(study)
    with study.database.snapshot() as connection:
        export(connection, study.plan, study.stimuli, tmp_path / "out")
    clicks = read_clicks(tmp_path / "out" / "clicks.csv", {"mini": Mini().scenes()})
    assert {key.kind for key in clicks.keys} == {"fn", "fp"}
    assert all(key.full_stem.endswith(f"_left_{key.kind}") for key in clicks.keys)
