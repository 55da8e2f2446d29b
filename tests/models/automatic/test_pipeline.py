"""The whole generator on images whose masks are known, against the original's answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blobs import position_image

from segmeter.core import catalogue
from segmeter.core.scenes import Image
from segmeter.models.automatic.generator import AutomaticMask, generate
from segmeter.models.automatic.options import Options

pytestmark = pytest.mark.long

NAMES = {
    "points_per_side": "points",
    "crop_n_layers": "crops",
    "crop_n_points_downscale_factor": "fewer",
    "pred_iou_thresh": "score",
    "stability_score_thresh": "stability",
    "box_nms_thresh": "box_nms",
    "crop_nms_thresh": "crop_nms",
    "min_mask_region_area": "smallest",
    "points_per_batch": "batch",
}
CASES = [f"p{n}" for n in range(1, 8)]


def options_of(given: dict[str, Any]) -> Options:
    grids = given.get("point_grids")
    rest = {NAMES[key]: value for key, value in given.items() if key != "point_grids"}
    layouts = None if grids is None else tuple(np.array(g, dtype=np.float64) for g in grids)
    return Options(**rest, grids=layouts)


def case(golden: Path, name: str) -> tuple[Path, dict[str, Any]]:
    file = next((golden / "zeroshot" / "pipeline").glob(f"{name}_*.json"))
    return file, json.loads(file.read_text())


def masks_of(file: Path, told: dict[str, Any], options: Options) -> list[AutomaticMask]:
    scene = Image("blobs", told["name"], position_image(told["H"], told["W"]), [])
    return generate(catalogue.models.make("synthetic-blobs", file=file), scene, options)


@pytest.mark.parametrize("name", CASES)
def test_the_originals_records_come_out_in_their_order(golden: Path, name: str) -> None:
    file, told = case(golden, name)
    found = masks_of(file, told, options_of(told["options"]))
    # Where nothing is left the original fails if there are crops; here the list is empty.
    wanted = told.get("records", [])
    assert len(found) == len(wanted)
    for mask, record in zip(found, wanted, strict=True):
        mine = mask.record()
        assert mine["segmentation"]["counts"] == record["counts"]
        assert mine["area"] == record["area"]
        assert mine["bbox"] == record["bbox"]
        assert mine["crop_box"] == record["crop_box"]
        assert mine["point_coords"] == [pytest.approx(record["point"], abs=1e-9)]
        assert np.float32(mine["predicted_iou"]) == np.float32(record["predicted_iou"])
        stability = record["stability_score"]
        assert mine["stability_score"] == pytest.approx(
            np.nan if stability is None else stability, abs=0, nan_ok=True
        )


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_the_batch_changes_nothing(golden: Path, batch: int) -> None:
    file, told = case(golden, "p4")
    options = options_of(told["options"])
    one, other = (masks_of(file, told, replace(options, batch=b)) for b in (64, batch))
    assert repr([m.record() for m in one]) == repr([m.record() for m in other])  # NaN is NaN
