"""Cases of the CVPR 2025 challenge: arrays, spacing, boxes, and nothing executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import segmeter
from segmeter.core.errors import BadInput
from segmeter.datasets.folder import open_folder
from segmeter.datasets.volumes.volume_folder import Cvpr25, read_member


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    labels = np.zeros((8, 20, 24), np.uint8)
    labels[2:6, 4:12, 5:15], labels[3:5, 14:18, 16:22] = 1, 3
    boxes = np.array([{"z_min": 2, "z_max": 5}, {"z_min": 3, "z_max": 4}], dtype=object)
    place = tmp_path / "3D_val_npz"
    place.mkdir()
    np.savez_compressed(place / "CT_one.npz", imgs=labels * 60, gts=labels, boxes=boxes,
                        spacing=np.array([0.5, 0.7, 5.0]))  # fmt: skip
    return place


def test_a_case_has_its_classes_its_modality_and_spacing_in_the_order_of_its_arrays(
    folder: Path,
) -> None:
    scene: Any = Cvpr25(str(folder)).load("CT_one")
    assert scene.spacing_mm == (5.0, 0.7, 0.5)
    assert scene.modality == "CT"
    assert [(t.id, t.mask.area) for t in scene.targets] == [("label-1", 320), ("label-3", 48)]


def test_ground_truth_may_be_in_another_folder(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "gt"
    other.mkdir()
    np.savez(other / "CT_one.npz", gts=np.ones((8, 20, 24), np.uint16) * 300)
    (target,) = Cvpr25(str(folder), str(other)).load("CT_one").targets
    assert target.id == "label-300"


def test_a_folder_of_cases_is_recognised_and_run_with_the_challenges_clicks(
    folder: Path, tmp_path: Path
) -> None:
    assert "1 cases of the CVPR 2025 challenge" in open_folder(str(folder)).recognised
    run = segmeter.evaluate(
        "disc", str(folder), benchmark="volumes", users="cvpr25-clicks", out=tmp_path / "run",
        rounds=6, workers=0,
    )  # fmt: skip
    found = {row.statistic: row.value for row in run.summary() if row.protocol == "published"}
    assert 0 < found["dsc-final"] <= 1
    assert found["dsc-auc"] <= 4


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("executed",))


def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", boxes=np.array([Evil()], dtype=object))
    with pytest.raises(BadInput, match="'boxes' cannot be read: Object arrays cannot be loaded"):
        read_member(tmp_path / "a.npz", "boxes")
