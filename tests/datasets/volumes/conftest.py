"""Small volumes in the formats and layouts that radiology groups use."""

from __future__ import annotations

import json

import numpy as np
import pytest

nibabel = pytest.importorskip("nibabel")


@pytest.fixture
def nifti():
    """Writes an array along the file's axes, with its affine, as NIfTI."""

    def write(path, values, affine=None):
        path.parent.mkdir(parents=True, exist_ok=True)
        nibabel.save(nibabel.Nifti1Image(values, np.eye(4) if affine is None else affine), path)
        return path

    return write


@pytest.fixture
def scan():
    """A volume of 6 x 7 x 8 voxels along (i, j, k), no two alike, and its label map."""
    values = np.arange(6 * 7 * 8, dtype=np.int16).reshape(6, 7, 8)
    labels = np.zeros((6, 7, 8), np.uint8)
    labels[1:3, 2:5, 3:6] = 1
    labels[4:6, 0:2, 0:3] = 2
    return values, labels


@pytest.fixture
def decathlon(tmp_path, nifti, scan):
    """A folder of two cases in nnU-Net's layout."""
    values, labels = scan
    folder = tmp_path / "Dataset920_Made"
    for case in ("a", "b"):
        nifti(folder / "imagesTr" / f"{case}_0000.nii.gz", values)
        nifti(folder / "labelsTr" / f"{case}.nii.gz", labels)
    (folder / "dataset.json").write_text(
        json.dumps(
            {
                "channel_names": {"0": "CT"},
                "labels": {"background": 0, "liver": 1, "left/right": 2},
                "file_ending": ".nii.gz",
            }
        )
    )
    return folder
