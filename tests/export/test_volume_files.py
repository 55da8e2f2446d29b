"""One label map or one DICOM segmentation per case."""

from __future__ import annotations

import json

import numpy as np
import pytest

import segmeter
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.datasets.volumes.volume_folder import VolumeFolder
from segmeter.export.formats import FORMATS, ExportedMask

from ..datasets.volumes.dicom_files import segmentation, series

nibabel = pytest.importorskip("nibabel")
pytest.importorskip("pydicom")

SHAPE = (5, 6, 7)
PATIENT = {
    "StudyInstanceUID": "1.5", "FrameOfReferenceUID": "1.6", "PatientID": "7", "PatientName": "x",
    "StudyDate": "", "StudyTime": "", "StudyID": "1", "AccessionNumber": "", "PatientSex": "",
    "PatientBirthDate": "", "ReferringPhysicianName": "", "InstanceNumber": 1,
    "SliceThickness": 2.0,
}  # fmt: skip
MASKS = {
    "liver": Mask.box(SHAPE, (0, 1, 1), (3, 4, 5)),
    "lesion": Mask.box(SHAPE, (1, 2, 2), (2, 4, 4)),
}


def exported(masks):
    return [ExportedMask(m, "model", "a", name, name, None, "") for name, m in masks.items()]


def test_a_label_map_holds_all_objects_of_a_case_and_the_smaller_where_they_overlap(tmp_path):
    image = nibabel.Nifti1Image(np.zeros((7, 6, 5), np.int16), np.diag([-1.0, 1, 2, 1]))
    nibabel.save(image, tmp_path / "a.nii.gz")
    nibabel.save(nibabel.Nifti1Image(np.ones((7, 6, 5), np.uint8), image.affine),
                 tmp_path / "a_seg.nii.gz")  # fmt: skip
    scene = VolumeFolder(str(tmp_path)).load("a")
    path = tmp_path / "out" / "a.nii.gz"
    FORMATS["nifti-labels"].write(path, exported(MASKS), scene, {"liver": 1, "lesion": 2})
    written = nibabel.load(path)
    assert np.allclose(written.affine, image.affine)
    values = scene.grid.to_scene(np.asarray(written.dataobj))
    assert (values == 2).sum() == MASKS["lesion"].area
    assert (values == 1).sum() == MASKS["liver"].area - MASKS["lesion"].area
    told = json.loads((tmp_path / "out" / "labels.json").read_text())
    assert told == {"labels": {"background": 0, "liver": 1, "lesion": 2}}
    with pytest.raises(BadInput, match="not read from DICOM"):
        FORMATS["dicom-seg"].write(path, exported(MASKS), scene, {})


def test_a_dicom_segmentation_is_read_back_as_it_was_written(tmp_path):
    pytest.importorskip("highdicom")
    series(tmp_path / "in" / "p1", np.zeros(SHAPE, np.int16), **PATIENT)
    segmentation(tmp_path / "in" / "p1", np.ones(SHAPE, np.uint8))
    scene = VolumeFolder(str(tmp_path / "in")).load("p1")
    (tmp_path / "in" / "p1" / "seg.dcm").unlink()
    FORMATS["dicom-seg"].write(tmp_path / "in" / "p1" / "ours.dcm", exported(MASKS), scene, {})
    again = VolumeFolder(str(tmp_path / "in")).load("p1")
    assert {t.id: t.mask for t in again.targets} == MASKS


def test_cases_that_are_not_dicom_do_not_keep_the_others_from_being_exported(tmp_path):
    pytest.importorskip("highdicom")
    data = tmp_path / "in"
    for name in ("b", "d"):
        series(data / name, np.zeros(SHAPE, np.int16), uid=f"1.2.{ord(name)}", **PATIENT)
        segmentation(data / name, np.ones(SHAPE, np.uint8))
    for name in ("a", "c"):
        (data / name).mkdir()
        for part, values in (("image", np.zeros((7, 6, 5))), ("label", np.ones((7, 6, 5)))):
            image = nibabel.Nifti1Image(values.astype(np.int16), np.eye(4))
            nibabel.save(image, data / name / f"{part}.nii.gz")
    run = segmeter.evaluate(
        "synthetic-oracle", f"volumes?path={data}", benchmark="volumes",
        users="point-propagation", workers=0, out=tmp_path / "run",
    )  # fmt: skip
    with pytest.raises(BadInput, match="masks written: 12, and none of in/a, in/c: in/a was"):
        run.export(tmp_path / "out", "dicom-seg")
    assert {path.stem for path in (tmp_path / "out").rglob("*.dcm")} == {"b", "d"}
