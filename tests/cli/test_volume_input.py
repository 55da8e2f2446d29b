"""Volumes that cannot be read: a sentence each, and the rest goes on."""

from __future__ import annotations

import importlib.util
import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import segmeter
from segmeter.core.errors import BadInput

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


def test_bad_cases_are_named_and_the_others_are_run(
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
    assert "is identical to volume fine" in told


def test_check_prints_size_spacing_modality_window_and_volumes(typed: Any, tmp_path: Path) -> None:
    """A CT of 2 x 1 x 1 mm voxels with an organ of 3 x 4 x 5 of them: 0.12 ml."""
    voxels = np.full((12, 14, 6), -1000, np.int16)
    labels = np.zeros((12, 14, 6), np.uint8)
    labels[2:5, 2:6, 0:5], labels[6:9, 2:6, 0:5] = 1, 2
    affine = np.diag([2.0, 1.0, 1.0, 1.0])
    for name, array in (("p1", voxels), ("p1_seg", labels)):
        nibabel.save(nibabel.Nifti1Image(array, affine), tmp_path / f"{name}.nii.gz")
    page = tmp_path / "page.html"
    code, said, _ = typed("check", tmp_path, "--page", page)
    assert code == 0, said
    assert "p1: 12 x 14 x 6, 2 x 1 x 1 mm; CT (by its voxels), shown from -160 to 240 HU" in said
    assert "label-1 0.1 ml" in said
    assert "name them with ?labels=1:NAME,2:NAME or a dataset.json" in said
    shown = page.read_text()
    strokes, keys = (
        re.findall(rf"{kind}:(rgb\([^)]*\))", shown) for kind in ("stroke", 'style="color')
    )
    assert strokes == keys, "each organ has its colour, and a key below names it"
    assert len(set(strokes)) == 2
    assert "data:image" in shown
    assert "axial slice" in shown


def test_check_names_patients_and_warns_of_level_and_width(typed: Any, tmp_path: Path) -> None:
    voxels = np.linspace(-1000, 1000, 12 * 14 * 6).reshape(12, 14, 6).astype(np.int16)
    labels = np.zeros((12, 14, 6), np.uint8)
    labels[1:4, 1:4, 1:4] = 1
    for name, values in (("P1_a", voxels), ("P1_b", voxels[::-1])):
        save(tmp_path / f"{name}.nii.gz", values)
        save(tmp_path / f"{name}_seg.nii.gz", labels)
    code, said, _ = typed("check", f"{tmp_path}?window=50,400&modality=CT")
    assert code == 0, said
    assert "2 scans, each counted as a patient: the data names none" in said
    assert said.count("warning: the window hides everything below 50 HU") == 1
    assert "level 50, width 400 is window=-150,250" in said
    _, said, _ = typed("check", f"{tmp_path}?patient=^P[0-9]")
    assert "P1_a of patient P1: " in said
    assert "2 scans of 1 patient\n" in said
    assert "warning" not in said
    _, said, _ = typed("check", f"{tmp_path}?patient=^P1(?=_a)")
    assert "1 scan of 1 patient\n" in said
    assert "1 scan, each counted as a patient: the data names none" in said


def test_check_warns_of_dicom_that_cannot_be_exported(typed: Any, tmp_path: Path) -> None:
    pytest.importorskip("pydicom")
    from ..datasets.volumes.dicom_files import segmentation, series

    series(tmp_path / "p1", np.zeros((5, 6, 7), np.int16))
    segmentation(tmp_path / "p1", np.ones((5, 6, 7), np.uint8))
    _, said, _ = typed("check", tmp_path)
    assert "warning: DICOM without FrameOfReferenceUID cannot be exported with" in said


def test_the_extra_for_volumes_is_named_where_a_reader_installs() -> None:
    import tomllib

    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert any(name.startswith("nibabel") for name in extras["volumes"])
    assert '".[models,volumes]" for CT and MR' in (root / "README.md").read_text()
    assert '".[volumes,models]"' in (root / "docs/volumes.md").read_text()


def test_without_nibabel_a_volume_names_the_extra_to_install(
    typed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, find = one_ct(tmp_path / "data"), importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "nibabel" else find(name)
    )
    code, said, err = typed("check", data)
    assert code != 0
    assert "p1.nii' needs 'nibabel'; pip install 'segmeter[volumes]'" in said + err


def test_a_table_of_pairs_is_checked_by_its_path(typed: Any, tmp_path: Path) -> None:
    one_ct(tmp_path)
    table = tmp_path / "cases.csv"
    table.write_text("image,label,patient\nimagesTr/p1.nii,labelsTr/p1.nii,Anna\n")
    code, said, err = typed("check", table)
    assert code == 0, err
    assert "1 volume, a table of pairs" in said
    assert "p1 of patient Anna: 16 x 18 x 6" in said


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
    code, costs, _ = typed("report", out, "--objects", 100, "--hourly-rate", 30, "--json")
    assert code == 0
    model, hand = json.loads(costs)["cost"]
    assert (model["way"], hand["way"]) == ("grabcut, box-per-slice", "all by hand")
    assert model["money"]["value"] == pytest.approx(30 * model["total_hours"]["value"])


def test_a_forecast_tries_three_slices_of_a_volume_with_networks_for_slices(
    typed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from segmeter.models.volumes.slicewise import Slicewise

    seen, encode = [], Slicewise.encode
    monkeypatch.setattr(Slicewise, "encode", lambda m, s: (seen.append(s.shape), encode(m, s))[1])
    data = two_organs(tmp_path / "data")
    words = ("--model", "grabcut", "--dataset", data, "--user", "box-per-slice", "--dry-run")
    code, said, tried = typed("run", "volumes", *words)
    assert code == 0
    assert "grabcut on data: 3 scenes" in said
    assert "of data" in tried
    assert "folder?" not in said + tried
    assert "3 jobs" in said
    assert {shape[0] for shape in seen} == {3}
    assert "--model grabcut --dataset mini-volumes" in " ".join(
        typed("run", "volumes", "--help")[1].split()
    )


def two_organs(folder: Path) -> Path:
    """Three cases in nnU-Net's layout: spleen and liver, liver alone, spleen alone."""
    labels = np.zeros((16, 18, 6), np.uint8)
    labels[2:7, 3:9, 1:5], labels[9:15, 8:16, 1:5] = 1, 2
    voxels = np.where(labels, 100, 0).astype(np.float32)
    for case, kept in (("a", (1, 2)), ("b", (2,)), ("c", (1,))):
        save(folder / f"imagesTr/{case}_0000.nii.gz", voxels)
        save(folder / f"labelsTr/{case}.nii.gz", labels * np.isin(labels, kept))
    names = {"labels": {"background": 0, "spleen": 1, "liver": 2}, "channel_names": {"0": "CT"}}
    (folder / "dataset.json").write_text(json.dumps(names))
    return folder


def test_label_maps_are_exported_with_the_values_of_the_data(typed: Any, tmp_path: Path) -> None:
    data, out = two_organs(tmp_path / "data"), tmp_path / "run"
    words = (
        "--model",
        "synthetic-oracle",
        "--dataset",
        data,
        "--user",
        "box-per-slice",
        "--workers",
        0,
    )
    assert typed("run", "volumes", *words, "--protocol", "corrected", "--out", out)[0] == 0
    masks = tmp_path / "masks"
    code, said, _ = typed("export", out, "--format", "nifti-labels", "--out", masks)
    assert (code, said) == (0, f"4 masks written to {masks} (3 files)\n")
    for file in masks.rglob("*.nii.gz"):
        values = np.asarray(nibabel.load(file).dataobj)
        truth = np.asarray(nibabel.load(data / "labelsTr" / file.name).dataobj)
        for value in (1, 2):
            both = ((values == value) & (truth == value)).sum()
            assert 2 * both >= 1.8 * (truth == value).sum(), f"{file.name}, value {value}"
    (listed,) = masks.rglob("labels.json")
    assert json.loads(listed.read_text()) == {"labels": {"background": 0, "spleen": 1, "liver": 2}}


def test_an_estimate_names_a_volume_whose_target_is_empty() -> None:
    voxels = np.zeros((6, 16, 16), np.float32)
    data = segmeter.Dataset.from_arrays([voxels], [np.zeros(voxels.shape, bool)])
    with pytest.raises(BadInput, match="arrays/000: target 'object' is empty"):
        segmeter.estimate_run("random-walker", data, benchmark="volumes")


def test_an_estimate_of_volumes_is_based_on_their_slices() -> None:
    from segmeter.engine.estimates import Estimate

    found = Estimate("m", "d", 2, 6, 173.8, (37.6,), slices=34, mean_slices=17)
    assert found.each == pytest.approx((173.8 + 37.6) / 2)
    assert Estimate("m", "d", 10, 6, 5.0, (1.0, 1.0)).each == 1.0
