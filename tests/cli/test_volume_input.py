"""Volumes that cannot be read: a sentence each, and the rest goes on."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

nibabel = pytest.importorskip("nibabel")


def save(path: Path, values: Any, affine: Any = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4) if affine is None else affine), path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two good cases among six bad ones, in nnU-Net's layout."""
    voxels = np.arange(12 * 14 * 6, dtype=np.float32).reshape(12, 14, 6)
    labels = np.zeros((12, 14, 6), np.uint8)
    labels[3:8, 4:9, 1:5] = 1
    data = tmp_path / "data"
    for case in ("good", "fine", "grid", "nan", "channels", "huge", "flat", "unpaired"):
        save(data / "imagesTr" / f"{case}.nii", voxels)
        if case != "unpaired":
            save(data / "labelsTr" / f"{case}.nii", labels)
    save(data / "labelsTr" / "grid.nii", labels[:-1])
    broken = voxels.copy()
    broken[0, 0, 0] = np.nan
    save(data / "imagesTr" / "nan.nii", broken)
    save(data / "imagesTr" / "channels.nii", np.stack([voxels, voxels], axis=3))
    huge = data / "imagesTr" / "huge.nii"
    raw = bytearray(huge.read_bytes())
    raw[40:56] = struct.pack("<8h", 3, 10000, 10000, 10000, 1, 1, 1, 1)
    huge.write_bytes(raw)
    flat = data / "imagesTr" / "flat.nii"
    raw = bytearray(flat.read_bytes())
    raw[280:328] = struct.pack("<12f", 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0)
    flat.write_bytes(raw)
    return data


def test_bad_cases_are_named_and_the_others_are_played(
    typed: Any, folder: Path, tmp_path: Path
) -> None:
    from segmeter.store import Run

    words = ("--model", "disc", "--dataset", folder, "--user", "box-per-slice", "--workers", 0)
    out = tmp_path / "run"
    code, said, complaint = typed("run", "volumes", *words, "--protocol", "corrected", "--out", out)
    assert code == 1, complaint
    assert "1 image left out (without labels), the first is 'unpaired'" in said + complaint
    run = Run.open(out)
    played = {row["scene"] for row in run.sql("select distinct scene from rows").to_pylist()}
    assert played == {"good", "fine"}
    errors = {
        r["scene"]: r["error"] for r in run.sql("select scene, error from errors").to_pylist()
    }
    expected = {
        "grid": "a label map of 11 x 14 x 6 voxels does not fit the 12 x 14 x 6",
        "nan": "holds NaN or infinite voxels",
        "channels": "has 2 channels; choose one with channel=0",
        "huge": "claims 10000 x 10000 x 10000 voxels",
        "flat": "its affine cannot be inverted",
    }
    assert errors.keys() == expected.keys()
    for scene, sentence in expected.items():
        assert sentence in errors[scene]
        assert "\n" not in errors[scene]


def test_a_tiny_target_of_a_volume_is_counted_in_voxels(typed: Any, tmp_path: Path) -> None:
    labels = np.zeros((12, 14, 6), np.uint8)
    labels[3, 4, 1] = 1
    save(tmp_path / "data/imagesTr/one.nii", np.arange(1008, dtype=np.float32).reshape(12, 14, 6))
    save(tmp_path / "data/labelsTr/one.nii", labels)
    code, out, _ = typed("check", tmp_path / "data")
    assert code == 1
    assert "is tiny (1 voxel)" in out


def test_a_check_reads_the_voxels(typed: Any, folder: Path) -> None:
    code, said, complaint = typed("check", folder)
    assert code == 1
    told = said + complaint
    assert "holds NaN or infinite voxels" in told
    assert "is the very same volume as fine" in told


def test_check_tells_size_spacing_modality_window_and_volumes(typed: Any, tmp_path: Path) -> None:
    """A CT of 2 x 1 x 1 mm voxels with an organ of 3 x 4 x 5 of them: 0.12 ml."""
    voxels = np.full((12, 14, 6), -1000, np.int16)
    labels = np.zeros((12, 14, 6), np.uint8)
    labels[2:5, 2:6, 0:5] = 1
    affine = np.diag([2.0, 1.0, 1.0, 1.0])
    for name, array in (("p1", voxels), ("p1_seg", labels)):
        nibabel.save(nibabel.Nifti1Image(array, affine), tmp_path / f"{name}.nii.gz")
    page = tmp_path / "page.html"
    code, said, _ = typed("check", tmp_path, "--page", page)
    assert code == 0, said
    assert "p1: 12 x 14 x 6, 2 x 1 x 1 mm; CT (by its voxels), shown from -160 to 240 HU" in said
    assert "label-1 0.1 ml" in said
    shown = page.read_text()
    assert "data:image" in shown
    assert "axial slice" in shown


def one_ct(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    labels = np.zeros((16, 18, 6), np.uint8)
    labels[4:11, 4:12, 1:5] = 1
    save(folder / "imagesTr/p1.nii", (rng.normal(0, 20, (16, 18, 6)) + 100 * labels).astype("f4"))
    save(folder / "labelsTr/p1.nii", labels)
    return folder


def test_a_benchmark_of_images_names_the_one_of_volumes(typed: Any, tmp_path: Path) -> None:
    data = one_ct(tmp_path / "data")
    words = ("--model", "grabcut", "--dataset", data, "--workers", 0, "--out", tmp_path / "run")
    code, said, complaint = typed("run", "noc", *words)
    assert code == 1
    assert "is a volume" in said + complaint
    assert "evaluate volumes with 'segmeter run volumes'" in said + complaint


def test_cite_table_and_costs_work_on_volumes_of_your_own(typed: Any, tmp_path: Path) -> None:
    data, out = one_ct(tmp_path / "data"), tmp_path / "run"
    words = ("--model", "grabcut", "--dataset", data, "--user", "box-per-slice", "--workers", 0)
    assert typed("run", "volumes", *words, "--protocol", "corrected", "--out", out)[0] == 0
    code, cited, _ = typed("cite", out)
    assert code == 0
    assert "IntRaBench" in cited
    assert "your own" not in cited, "there is nothing to cite of one's own data"
    code, table, _ = typed("table", out)
    assert code == 0
    assert "Dice@10" in table
    code, costs, _ = typed("report", out, "--objects", 100, "--rate", 30, "--json")
    assert code == 0
    model, hand = json.loads(costs)["cost"]
    assert (model["way"], hand["way"]) == ("grabcut, box-per-slice", "all by hand")
    assert model["money"]["value"] == pytest.approx(30 * model["hours"]["value"])


def test_an_estimate_of_volumes_goes_by_their_slices() -> None:
    from segmeter.engine.estimates import Estimate

    found = Estimate("m", "d", 2, 6, 173.8, (37.6,), slices=34, mean_slices=17)
    assert found.each == pytest.approx((173.8 + 37.6) / 2)
    assert Estimate("m", "d", 10, 6, 5.0, (1.0, 1.0)).each == 1.0
