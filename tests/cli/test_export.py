"""Masks of a run as files that other programs open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.engine import run_plan

nibabel = pytest.importorskip("nibabel")


def played(tmp_path: Path, dataset: Spec) -> Path:
    plan = Plan("noc", (Spec("oracle"),), (dataset,), rounds=2, measures=("iou",), limit=1)
    run_plan(plan, tmp_path / "run", workers=0)
    return tmp_path / "run"


def test_masks_of_volumes_lie_on_their_files_own_grid(
    typed: Any, tmp_path: Path, real_data: Path
) -> None:
    """A volume stored P-S-R: the oracle's mask is the label map, voxel by voxel."""
    source = real_data / "medical" / "SCT_spinal_cord"
    (tmp_path / "data").mkdir()
    for name in ("t2.nii.gz", "t2_seg-manual.nii.gz"):
        (tmp_path / "data" / name).symlink_to(source / name)
    run = played(tmp_path, Spec("folder", {"path": str(tmp_path / "data")}))
    code, out, _ = typed("export", run, "--masks", tmp_path / "masks", "--json")
    assert code == 0
    files = json.loads(out)["masks"]
    label = nibabel.load(source / "t2_seg-manual.nii.gz")
    image = nibabel.load(source / "t2.nii.gz")
    assert files
    for file in files:
        found = nibabel.load(file["file"])
        assert nibabel.aff2axcodes(found.affine) == ("P", "S", "R")
        assert np.allclose(found.affine, image.affine)
        assert np.array_equal(np.asarray(found.dataobj), np.asarray(label.dataobj))
        assert file["voxels"] == np.count_nonzero(label.dataobj)


def test_masks_of_what_ships_inside(typed: Any, tmp_path: Path) -> None:
    run = played(tmp_path, Spec("mini-volumes"))
    code, out, _ = typed("export", run, "--masks", tmp_path / "masks")
    assert code == 0
    written = sorted((tmp_path / "masks").rglob("*.nii.gz"))
    assert f"{len(written)} masks written" in out
    scene = catalogue.datasets.make("mini-volumes").load("hippocampus_001")
    for path in written:
        assert path.parent.name in ("anterior_hippocampus", "posterior_hippocampus")
        (target,) = (t for t in scene.targets if t.id.replace(" ", "_") == path.parent.name)
        found = np.asarray(nibabel.load(path).dataobj)
        assert np.array_equal(found, target.mask.dense().transpose(2, 1, 0))


def test_masks_of_pictures_are_png(typed: Any, tmp_path: Path) -> None:
    from PIL import Image

    run = played(tmp_path, Spec("drawn"))
    code, _, _ = typed("export", run, "--masks", tmp_path / "masks", "--all-rounds")
    assert code == 0
    written = sorted((tmp_path / "masks").rglob("*.png"))
    assert written
    assert all(path.parent.name.startswith("round_") for path in written)
    assert set(np.unique(np.asarray(Image.open(written[0])))) <= {0, 255}


def test_without_the_data_it_says_what_is_missing(typed: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    code, _, err = typed("export", tmp_path / "data", "--masks", tmp_path / "masks")
    assert code == 2
    assert "segmeter:" in err
