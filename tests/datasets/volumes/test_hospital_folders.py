"""Folders as hospitals and challenges hand them out: what is read, and what is named as unused."""

from __future__ import annotations

import gzip
import json
import resource
import struct

import numpy as np
import pytest

from segmeter.core.errors import BadInput
from segmeter.datasets.folder import open_folder
from segmeter.datasets.volumes.stored import open_stored
from segmeter.datasets.volumes.volume_folder import VolumeFolder

from .dicom_files import segmentation, series, structures

sitk = pytest.importorskip("SimpleITK")
pytest.importorskip("pydicom")


def areas(data, scene):
    return {t.id: t.mask.area for t in data.load(scene).targets}


def nnunet(folder, nifti, values, labels, *, channels, names):
    """One case in nnU-Net's layout; `values` has a channel for each name."""
    for number, one in enumerate(values):
        nifti(folder / "imagesTr" / f"a_{number:04}.nii.gz", one)
    nifti(folder / "labelsTr" / "a.nii.gz", labels)
    content = {"channel_names": dict(enumerate(channels)), "labels": names}
    (folder / "dataset.json").write_text(json.dumps(content))
    return folder


# Memory


def packed_nifti(path, shape, kind, code, offset=352, extension=0):
    """A `.nii.gz` of zeros, written as a stream; `extension` bytes stand before the voxels."""
    header = bytearray(348)
    header[:4] = struct.pack("<i", 348)
    header[40:56] = struct.pack("<8h", 3, *shape, 1, 1, 1, 1)
    header[70:74] = struct.pack("<2h", code, 8 * np.dtype(kind).itemsize)
    header[76:108] = struct.pack("<8f", *[1.0] * 8)
    header[108:112] = struct.pack("<f", offset)
    header[254:256] = struct.pack("<h", 1)
    header[280:328] = struct.pack("<12f", 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0)
    header[344:348] = b"n+1\0"
    with gzip.open(path, "wb", 1) as file:
        file.write(bytes(header) + (b"\1\0\0\0" if extension else bytes(4)))
        if extension:
            file.write(struct.pack("<2i", extension, 6))
        left = extension + int(np.prod(shape)) * np.dtype(kind).itemsize
        while left > 0:
            file.write(bytes(min(left, 1 << 22)))
            left -= 1 << 22
    return path


def test_a_small_file_of_many_gigabytes_is_refused_by_its_header(tmp_path):
    """900 x 900 x 900 voxels of 8 bytes: 5.4 GiB in a few megabytes."""
    path = tmp_path / "a.nii.gz"
    packed_nifti(path, (2, 2, 2), "f8", 64)
    raw = bytearray(gzip.decompress(path.read_bytes()))
    raw[40:56] = struct.pack("<8h", 3, 900, 900, 900, 1, 1, 1, 1)
    noise = np.random.default_rng(0).bytes(6 << 20)  # so that the file could hold it
    path.write_bytes(gzip.compress(bytes(raw) + noise, 1))
    with pytest.raises(BadInput, match=r"unpacks to 5\.4 GiB, and at most 4 GiB"):
        open_stored(path)


def test_a_label_map_of_thousands_of_large_labels_is_refused(tmp_path, nifti):
    """Each value in two corners: a mask of a byte per voxel of its box would fill the memory."""
    labels = np.zeros((300, 100, 100), np.int16)
    labels[0, :40] = np.arange(1, 4001).reshape(40, 100)
    labels[-1, 60:] = labels[0, :40][::-1, ::-1]
    nifti(tmp_path / "imagesTr" / "a.nii.gz", labels)
    nifti(tmp_path / "labelsTr" / "a.nii.gz", labels)
    data = VolumeFolder(str(tmp_path))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadInput, match=r"masks of its 4000 labels would take \d\.\d GiB.*an image"):
        _ = data.load("a").targets
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


def test_the_frames_of_a_dicom_segmentation_are_counted_first(tmp_path, monkeypatch):
    from segmeter.datasets.volumes import stored

    values = np.zeros((3, 4, 4), np.int16)
    series(tmp_path / "p1", values)
    segmentation(tmp_path / "p1", np.ones((3, 4, 4), np.uint8))
    monkeypatch.setattr(stored, "MOST_BYTES", 200)
    _ = VolumeFolder(str(tmp_path)).load("p1").header
    monkeypatch.setattr(stored, "MOST_BYTES", 40)
    with pytest.raises(BadInput, match="unpacks to"):
        _ = VolumeFolder(str(tmp_path)).load("p1").targets


# Modality


@pytest.mark.parametrize(
    ("channels", "channel", "expected"),
    [
        (["CT"], None, "CT"),
        (["Portal venous CT"], None, "CT"),
        (["zscore"], None, ""),
        (["CT", "PET"], 1, "PT"),
        (["CT", "PET"], "PET", "PT"),
        (["CT", "PET"], "ct", "CT"),
        (["T1w", "FLAIR"], 1, "MR"),
        (["T1w"] * 10 + ["CT"], 10, "CT"),
    ],
)
def test_the_modality_is_that_of_the_channel(tmp_path, nifti, scan, channels, channel, expected):
    values, labels = scan
    folder = nnunet(
        tmp_path, nifti, [values] * len(channels), labels, channels=channels, names={"liver": 1}
    )
    assert VolumeFolder(str(folder), channel=channel).load("a").modality == expected


def test_a_channel_that_is_not_there_is_named_with_those_that_are(tmp_path, nifti, scan):
    values, labels = scan
    folder = nnunet(
        tmp_path, nifti, [values] * 2, labels, channels=["CT", "PET"], names={"liver": 1}
    )
    with pytest.raises(BadInput, match=r"no channel SUV: it has 2 \(CT, PET\)"):
        _ = VolumeFolder(str(folder), channel="SUV").load("a").header
    with pytest.raises(BadInput, match=r"2 channels \(CT, PET\); choose one with channel=0"):
        _ = VolumeFolder(str(folder)).load("a").header


def test_the_modality_of_dicom_is_its_tag_and_an_option_overrides_it(tmp_path):
    values = np.zeros((3, 4, 4), np.int16)
    series(tmp_path / "p1", values, Modality="PT")
    segmentation(tmp_path / "p1", np.ones((3, 4, 4), np.uint8))
    assert VolumeFolder(str(tmp_path)).load("p1").modality == "PT"
    assert VolumeFolder(str(tmp_path), modality="CT").load("p1").modality == "CT"


# Labels of nnU-Net


def test_ignored_voxels_are_not_a_target_and_are_not_scored(tmp_path, nifti, scan):
    values, labels = scan
    labels = labels.copy()
    labels[0, 0, 0] = 3
    names = {"background": 0, "liver": 1, "spleen": 2, "ignore": 3}
    data = VolumeFolder(
        str(nnunet(tmp_path, nifti, [values], labels, channels=["CT"], names=names))
    )
    targets = data.load("a").targets
    assert [t.id for t in targets] == ["liver", "spleen"]
    assert all(t.ignore is not None and t.ignore.area == 1 for t in targets)
    assert "'ignore' are not scored" in data.recognised


def test_regions_are_several_values_together(tmp_path, nifti, scan):
    values, labels = scan
    names = {"background": 0, "whole": [1, 2], "core": 2}
    data = VolumeFolder(
        str(nnunet(tmp_path, nifti, [values], labels, channels=["CT"], names=names))
    )
    assert areas(data, "a") == {"whole": 30, "core": 12}
    assert "2 named classes" in data.recognised


def test_only_the_requested_classes_are_read(tmp_path, nifti, scan):
    values, labels = scan
    names = {"background": 0, "liver": 1, "spleen": 2}
    folder = str(nnunet(tmp_path, nifti, [values], labels, channels=["CT"], names=names))
    assert areas(open_folder(folder, classes="Spleen"), "a") == {"spleen": 12}
    with pytest.raises(BadInput, match=r"has no class 'kidney'; it has liver, spleen"):
        VolumeFolder(folder, classes="liver,kidney")


def test_labels_that_were_resampled_are_rounded(tmp_path, nifti, scan):
    values, labels = scan
    noisy = labels + np.random.default_rng(0).normal(0, 1e-7, labels.shape)
    nifti(tmp_path / "a.nii.gz", values)
    nifti(tmp_path / "a_seg.nii.gz", noisy.astype(np.float64))
    assert areas(VolumeFolder(str(tmp_path)), "a") == {"label-1": 18, "label-2": 12}


# RTSTRUCT


def test_contours_through_voxel_centres_give_the_mask_that_they_were_drawn_from(tmp_path):
    """As rt_utils draws them (and TotalSegmentator with it): OpenCV's, holes included."""
    import cv2
    from scipy import ndimage

    rng = np.random.default_rng(5)
    noise = ndimage.gaussian_filter(rng.normal(size=(6, 48, 50)), (1, 3, 3))
    mask = ndimage.binary_opening(noise > np.quantile(noise, 0.55), np.ones((1, 3, 3)))
    mask[2, 10:30, 10:30] = True
    mask[2, 15:20, 15:25] = False
    series(tmp_path / "p1", np.zeros(mask.shape, np.int16))
    contours = [
        (contour[:, 0], k)
        for k, plane in enumerate(mask.astype(np.uint8))
        for contour in cv2.findContours(plane, cv2.RETR_TREE, cv2.CHAIN_APPROX_NONE)[0]
    ]
    structures(tmp_path / "p1", "liver", contours)
    (liver,) = VolumeFolder(str(tmp_path)).load("p1").targets
    assert np.array_equal(liver.mask.dense()[:, ::-1, ::-1], mask)


# Folders


def test_a_collection_of_data_sets_is_read_whole_and_classes_stay_apart(real_data):
    data = open_folder(str(real_data / "medical"))
    scenes = list(data.scenes())
    assert len(scenes) == 16
    assert sum("MSD_Hippocampus/" in name for name in scenes) == 10
    spleen, cord = (data.load(n).targets[0].label for n in ("MSD_Spleen", "SCT_spinal_cord/t2"))
    assert spleen != cord
    assert "left out" not in data.recognised


def test_unused_files_are_named_with_reason_and_count(tmp_path, nifti, scan):
    values, labels = scan
    nifti(tmp_path / "p1" / "ct.nii.gz", values)
    nifti(tmp_path / "p1" / "seg.nii.gz", labels)
    nifti(tmp_path / "p2" / "ct.nii.gz", values)
    nifti(tmp_path / "p3" / "x_seg.nii.gz", labels)
    nifti(tmp_path / "extra" / "more" / "ct.nii.gz", values)
    data = open_folder(str(tmp_path))
    assert list(data.scenes()) == ["p1"]
    said = data.card.missing
    assert "2 images left out (without labels), the first is" in said
    assert "1 label map left out (without an image), the first is 'p3/x'" in said


def test_an_nrrd_next_to_its_slicer_segmentation(tmp_path, scan):
    values, labels = scan
    sitk.WriteImage(sitk.GetImageFromArray(values), str(tmp_path / "c1.nrrd"))
    sitk.WriteImage(sitk.GetImageFromArray(labels), str(tmp_path / "c1.seg.nrrd"))
    assert areas(open_folder(str(tmp_path)), "c1") == {"label-1": 18, "label-2": 12}


def test_a_cropped_slicer_segmentation_is_placed_where_it_was_drawn(tmp_path, scan):
    values, labels = scan
    image = sitk.GetImageFromArray(values)
    image.SetSpacing((0.7, 0.8, 2.5))
    image.SetOrigin((-30.0, 12.5, 4.0))
    image.SetDirection((0, 1, 0, -1, 0, 0, 0, 0, 1))
    whole = sitk.GetImageFromArray(labels)
    whole.CopyInformation(image)
    for name, label in (("whole", whole), ("crop", whole[2:7, 1:6, 1:4])):
        place = tmp_path / name / "p1"
        place.mkdir(parents=True)
        sitk.WriteImage(image, str(place / "CT.nrrd"))
        sitk.WriteImage(label, str(place / "Segmentation.seg.nrrd"))
    (one,) = [
        t for t in open_folder(str(tmp_path / "whole")).load("p1").targets if t.id == "label-1"
    ]
    cropped = open_folder(str(tmp_path / "crop")).load("p1")
    (other,) = [t for t in cropped.targets if t.id == "label-1"]
    assert one.mask == other.mask


@pytest.mark.parametrize("suffix", [".mha", ".mhd"])
def test_metaimages_have_the_positions_of_itk(tmp_path, scan, suffix):
    values, labels = scan
    for name, array in (("a", values), ("a_seg", labels)):
        image = sitk.GetImageFromArray(array)
        image.SetSpacing((0.5, 1.5, 2.0))
        image.SetDirection((-1, 0, 0, 0, -1, 0, 0, 0, 1))  # to the right, to the front, up
        sitk.WriteImage(image, str(tmp_path / f"{name}{suffix}"), useCompression=suffix == ".mha")
    scene = open_folder(str(tmp_path)).load("a")
    assert np.array_equal(scene.voxels, values)
    assert scene.spacing_mm == (2.0, 1.5, 0.5)
    assert {t.id: t.mask.area for t in scene.targets} == {"label-1": 18, "label-2": 12}
    data = tmp_path / ("a.raw" if suffix == ".mhd" else "a.mha")
    data.write_bytes(data.read_bytes()[:-200])
    with pytest.raises(BadInput, match=r"is truncated.*File cannot be read"):
        _ = open_folder(str(tmp_path)).load("a").voxels


def test_dicom_as_a_pacs_exports_it(tmp_path):
    """Patient, study, series; no endings; a series without a segmentation; a scout image."""
    values = np.arange(5 * 6 * 7, dtype=np.int16).reshape(5, 6, 7)
    study = tmp_path / "PAT001" / "ST000000"
    series(study / "SE000001", values, uid="1.2.1", suffix="", StudyInstanceUID="1", PatientID="7")
    series(study / "SE000002", values, uid="1.2.2", suffix="", StudyInstanceUID="1", PatientID="7")
    (study / "SE000003").mkdir()
    square = [(1, 1), (4, 1), (4, 3), (1, 3)]
    structures(study / "SE000003", "liver", [(square, 2)], refers="1.2.2")
    (study / "SE000003" / "structures.dcm").rename(study / "SE000003" / "IM000001")
    (tmp_path / "DICOMDIR").write_bytes(b"\0" * 128 + b"DICM" + b"\0" * 72)
    data = open_folder(str(tmp_path))
    assert list(data.scenes()) == ["PAT001"]
    (liver,) = data.load("PAT001").targets
    assert (liver.id, liver.mask.area) == ("liver", 12)
    assert liver.groups["patient"] == "7"
    assert data.card.missing == (
        "1 DICOM series left out (without a segmentation), the first is 'PAT001/ST000000/SE000001'"
    )


@pytest.mark.parametrize("place", ["in it", "beside it", "labels folder"])
def test_a_dicom_series_with_a_nifti_label_map(tmp_path, nifti, place):
    values = np.arange(5 * 6 * 7, dtype=np.int16).reshape(5, 6, 7)
    labels = (values % 5 == 0).astype(np.uint8)
    affine = np.diag([-0.5, -0.8, 2.0, 1.0])
    affine[:3, 3] = (-10, -20, 30)
    for case in ("p1", "p2"):
        series(tmp_path / "dicom" / case, values)
    where = {
        "in it": "dicom/{}/seg.nii.gz",
        "beside it": "dicom/{}_seg.nii.gz",
        "labels folder": "labels/{}.nii.gz",
    }[place]
    for case in ("p1", "p2"):
        nifti(tmp_path / where.format(case), labels.transpose(2, 1, 0), affine)
    data = open_folder(str(tmp_path))
    assert len(data.scenes()) == 2
    (target,) = data.load(data.scenes()[0]).targets
    assert np.array_equal(target.mask.dense(), labels[:, ::-1, ::-1] > 0)
    assert data.card.missing == ""


def test_label_maps_of_several_readers_are_separate_targets(tmp_path, nifti, scan):
    values, labels = scan
    nifti(tmp_path / "p1.nii.gz", values)
    nifti(tmp_path / "p1_seg_anna.nii.gz", labels)
    nifti(tmp_path / "p1_seg_ben.nii.gz", np.where(labels == 1, 1, 0).astype(np.uint8))
    targets = open_folder(str(tmp_path)).load("p1").targets
    assert {t.id for t in targets} == {"label-1@anna", "label-2@anna", "label-1@ben"}
    assert {t.groups["reader"] for t in targets if t.label == "label-1"} == {"anna", "ben"}


def test_a_table_names_patients_and_readers(tmp_path, nifti, scan):
    values, labels = scan
    for visit in (1, 2):
        nifti(tmp_path / f"v{visit}.nii.gz", values)
        nifti(tmp_path / f"l{visit}.nii.gz", labels)
    table = tmp_path / "cases.csv"
    rows = ["image,label,case,patient,reader"]
    rows += [f"v{v}.nii.gz,l{v}.nii.gz,visit{v},7,{r}" for v in (1, 2) for r in ("a", "b")]
    table.write_text("\n".join(rows))
    data = open_folder(str(table))
    assert list(data.scenes()) == ["visit1", "visit2"]
    targets = [t for scene in data.scenes() for t in data.load(scene).targets]
    assert len(targets) == 8
    assert {t.groups["patient"] for t in targets} == {"7"}


def test_values_of_a_table_are_named_by_an_option_or_a_dataset_json(tmp_path, nifti, scan):
    for name, array in zip(("a", "b"), scan, strict=True):
        nifti(tmp_path / f"{name}.nii.gz", array)
    table = tmp_path / "pairs.csv"
    table.write_text("image,label\na.nii.gz,b.nii.gz\n")
    named = VolumeFolder(str(table), labels="1:spleen,2:liver", classes="liver")
    assert areas(named, "a") == {"liver": 12}
    assert named.load("a").label_value("liver") == 2
    with pytest.raises(BadInput, match=r"no class 'liver'; it has label-1, label-2: .*labels=1:"):
        areas(VolumeFolder(str(table), classes="liver"), "a")
    with pytest.raises(BadInput, match="labels=liver does not name values"):
        VolumeFolder(str(table), labels="liver")
    (tmp_path / "dataset.json").write_text('{"labels": {"background": 0, "spleen": 1, "liver": 2}}')
    assert areas(VolumeFolder(str(table)), "a") == {"spleen": 18, "liver": 12}


def test_patients_are_found_in_names(tmp_path, nifti, scan):
    values, labels = scan
    for name in ("sub-01_ses-1", "sub-01_ses-2", "sub-02_ses-1"):
        nifti(tmp_path / f"{name}.nii.gz", values)
        nifti(tmp_path / f"{name}_seg.nii.gz", labels)
    data = VolumeFolder(str(tmp_path))
    groups = [data.load(s).targets[0].groups["patient"] for s in data.scenes()]
    assert groups == ["sub-01", "sub-01", "sub-02"]
    other = VolumeFolder(str(tmp_path), patient="ses-.")
    assert other.load("sub-02_ses-1").targets[0].groups["patient"] == "ses-1"
    with pytest.raises(BadInput, match="not a regular expression"):
        VolumeFolder(str(tmp_path), patient="(")


def test_a_folder_that_moved_is_found_in_the_data_folder(tmp_path, nifti, scan, monkeypatch):
    values, labels = scan
    nifti(tmp_path / "data" / "mine" / "a.nii.gz", values)
    nifti(tmp_path / "data" / "mine" / "a_seg.nii.gz", labels)
    monkeypatch.chdir(tmp_path)
    for data in (tmp_path / "data", tmp_path, tmp_path / "data" / "mine"):
        assert list(open_folder("data/mine", data=data).scenes()) == ["a"]
        assert list(open_folder("../elsewhere/mine", data=tmp_path / "data").scenes()) == ["a"]


def test_the_error_for_a_medical_folder_without_labels_mentions_volumes(tmp_path, scan):
    sitk.WriteImage(sitk.GetImageFromArray(scan[0]), str(tmp_path / "a.mha"))
    with pytest.raises(BadInput, match=r"1 image left out.*imagesTr and labelsTr.*DICOM"):
        open_folder(str(tmp_path))
