"""NIfTI, NRRD and DICOM: every orientation, layers that overlap, and files that lie."""

from __future__ import annotations

import bz2
import gzip
import struct
from dataclasses import replace

import numpy as np
import pytest

from segmeter.core.errors import BadInput
from segmeter.datasets.volumes.dicom import walk_dicom
from segmeter.datasets.volumes.stored import open_stored
from segmeter.datasets.volumes.volume_folder import VolumeFolder

from .dicom_files import segmentation, series, structures
from .orientations import ORIENTATIONS, turned

nrrd = pytest.importorskip("nrrd")
pydicom = pytest.importorskip("pydicom")


def pair(tmp_path, nifti, values, labels, affine=None):
    nifti(tmp_path / "imagesTr" / "a.nii.gz", values, affine)
    nifti(tmp_path / "labelsTr" / "a.nii.gz", labels, affine)
    return VolumeFolder(str(tmp_path))


def test_a_volume_in_every_orientation_is_the_same_scene(tmp_path, nifti):
    rng = np.random.default_rng(3)
    voxels = rng.integers(0, 900, (9, 7, 5)).astype(np.int16)
    labels = (voxels > 600).astype(np.uint8)
    first = None
    for number, (world, flips) in enumerate(ORIENTATIONS):
        grid = turned(world, flips)
        place = tmp_path / str(number)
        data = pair(place, nifti, grid.to_file(voxels), grid.to_file(labels), grid.affine)
        scene = data.load("a")
        assert np.array_equal(scene.voxels, voxels)
        assert np.array_equal(scene.targets[0].mask.dense(), labels > 0)
        first = first or scene.header
        assert scene.header.shape == first.shape
        assert np.allclose(scene.header.affine, first.affine)
        assert scene.grid.size == grid.size


def test_scaled_values_and_plain_files(tmp_path, nifti):
    import nibabel

    values = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    image = nibabel.Nifti1Image(values, np.eye(4))
    image.header.set_slope_inter(0.5, -3)
    nibabel.save(image, tmp_path / "scaled.nii")
    raw = (tmp_path / "scaled.nii").read_bytes()
    stored = open_stored(tmp_path / "scaled.nii")
    slope, offset = struct.unpack("<2f", raw[112:120])
    assert (slope, offset) == (0.5, -3)
    found = stored.read()
    assert found.dtype == np.float32
    raw_values = np.frombuffer(raw[352:], np.int16).reshape((2, 3, 4), order="F")
    assert np.allclose(found, raw_values * 0.5 - 3)


@pytest.mark.parametrize("encoding", ["raw", "gzip", "bzip2"])
def test_nrrd_in_every_encoding_has_the_position_of_nifti(tmp_path, nifti, encoding):
    values = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    lps = {
        "space": "left-posterior-superior",
        "space directions": np.diag([-1.0, 2, 3]),
        "space origin": [4.0, -5, 6],
        "encoding": encoding,
    }
    nrrd.write(str(tmp_path / "a.nrrd"), values, lps)
    stored = open_stored(tmp_path / "a.nrrd")
    affine = [[1, 0, 0, -4], [0, -2, 0, 5], [0, 0, 3, 6], [0, 0, 0, 1]]
    assert np.allclose(stored.grid.affine, affine)
    assert np.array_equal(stored.read(), values)


def test_layers_of_an_instance_nrrd_overlap(tmp_path, scan):
    values, _ = scan
    layers = np.zeros((2, 6, 7, 8), np.uint8)
    layers[0, 1:4, 1:4, 1:4] = 1
    layers[1, 2:5, 2:5, 2:5] = 2
    layers[1, 0, 0, 0] = 1
    for name in ("imagesTr", "labelsTr"):
        (tmp_path / name).mkdir()
    space = {"space": "RAS", "space origin": [0.0, 0, 0]}
    nrrd.write(
        str(tmp_path / "imagesTr" / "a_0000.nrrd"),
        values,
        {**space, "space directions": np.eye(3)},
    )
    directions = np.vstack([np.full(3, np.nan), np.eye(3)])
    named = '[[{"name": "kidney", "value": 1}], [{"name": "lesion", "value": 2}]]'
    nrrd.write(
        str(tmp_path / "labelsTr" / "a.in.nrrd"),
        layers,
        {
            **space,
            "space directions": directions,
            "kinds": ["list"] + ["domain"] * 3,
            "names": named,
        },
    )
    targets = VolumeFolder(str(tmp_path)).load("a").targets
    assert {t.id: t.mask.area for t in targets} == {"kidney": 28, "lesion": 27}
    assert targets[0].mask.overlap(targets[1].mask) == 8


def test_a_dicom_series_with_a_structure_set(tmp_path):
    values = np.arange(5 * 6 * 7, dtype=np.int16).reshape(5, 6, 7)
    series(tmp_path / "p1", values)
    structures(tmp_path / "p1", "liver", [([(1, 1), (4, 1), (4, 3), (1, 3)], 2)])
    scene = VolumeFolder(str(tmp_path)).load("p1")
    assert scene.modality == "CT"
    assert np.allclose(scene.header.spacing_mm, (2, 0.8, 0.5))
    # DICOM runs to the left and to the back; the scene to the right and to the front.
    assert np.array_equal(scene.voxels, values[:, ::-1, ::-1])
    (liver,) = scene.targets
    assert liver.id == "liver"
    expected = np.zeros(values.shape, bool)
    expected[2, 1:4, 1:5] = True
    assert np.array_equal(liver.mask.dense(), expected[:, ::-1, ::-1])


def test_a_dicom_series_with_a_segmentation(tmp_path):
    values = np.arange(5 * 6 * 7, dtype=np.int16).reshape(5, 6, 7)
    bits = (values % 5 == 0).astype(np.uint8)
    series(tmp_path / "p1", values)
    segmentation(tmp_path / "p1", bits)
    (liver,) = VolumeFolder(str(tmp_path)).load("p1").targets
    assert np.array_equal(liver.mask.dense(), bits[:, ::-1, ::-1] > 0)


def test_slices_of_a_series_have_its_instance_numbers_where_they_are_even(tmp_path):
    series(tmp_path, np.zeros((4, 6, 5), np.int16))
    (found,), _ = walk_dicom(sorted(tmp_path.iterdir()))
    plain = found.open()
    assert (
        plain.slice_numbers == plain.grid.slice_numbers == (("k", 0, 1), ("j", 5, -1), ("i", 4, -1))
    )
    numbered = replace(plain, instances=(14, 12, 10, 8))
    assert numbered.slice_numbers[0] == ("instance", 14, -2)
    assert replace(plain, instances=(14, 12, 9, 8)).slice_numbers == plain.slice_numbers


def test_the_error_for_a_missing_dicom_slice_names_its_neighbours(tmp_path):
    values = np.zeros((6, 4, 4), np.int16)
    series(tmp_path / "p1", values, leave_out=(3,))
    series(tmp_path / "p2", values)
    for case in ("p1", "p2"):
        structures(tmp_path / case, "liver", [([(0, 0), (2, 0), (2, 2), (0, 2)], 1)])
    data = VolumeFolder(str(tmp_path))
    with pytest.raises(BadInput, match=r"a slice is missing between '03.dcm' and '06.dcm'"):
        _ = data.load("p1").header
    assert data.load("p2").targets


def _opened(folder):
    (only,), _ = walk_dicom(sorted(folder.iterdir()))
    return only.open().read()


def test_a_damaged_dicom_number_is_refused_in_a_sentence(tmp_path):
    series(tmp_path / "p", np.zeros((2, 4, 4), np.int16))
    file = min((tmp_path / "p").iterdir())
    raw = file.read_bytes()
    assert b"-1024" in raw
    file.write_bytes(raw.replace(b"-1024", b"-10x4"))
    with pytest.raises(BadInput, match="cannot be read"):
        _opened(tmp_path / "p")


def test_bad_input_is_reported_in_a_sentence_and_the_rest_is_run(tmp_path, nifti, scan):
    values, labels = scan
    for case in "abcd":
        nifti(tmp_path / "imagesTr" / f"{case}.nii.gz", values.astype(np.float32))
        nifti(tmp_path / "labelsTr" / f"{case}.nii.gz", labels)
    nifti(tmp_path / "labelsTr" / "a.nii.gz", labels[1:])
    nifti(tmp_path / "labelsTr" / "b.nii.gz", labels, np.diag([1.0, 1, 2, 1]))
    broken = values.astype(np.float32)
    broken[2, 3, 4] = np.nan
    nifti(tmp_path / "imagesTr" / "c.nii.gz", broken)
    data = VolumeFolder(str(tmp_path))
    with pytest.raises(BadInput, match="5 x 7 x 8 voxels does not fit the 6 x 7 x 8"):
        _ = data.load("a").targets
    with pytest.raises(BadInput, match=r"7.00 mm from those of the image.*grid=shape"):
        _ = data.load("b").targets
    assert len(VolumeFolder(str(tmp_path), grid="shape").load("b").targets) == 2
    with pytest.raises(BadInput, match=r"first at \(z, y, x\) = \(4, 3, 2\)"):
        _ = data.load("c").voxels
    data.load("d").check()


def test_labels_must_be_whole_numbers(tmp_path, nifti, scan):
    values, labels = scan
    assert len(pair(tmp_path, nifti, values, labels.astype(np.float64)).load("a").targets) == 2
    data = pair(tmp_path, nifti, values, labels.astype(np.float32) * 0.7)
    with pytest.raises(BadInput, match="not whole numbers"):
        _ = data.load("a").targets


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_labels_below_zero_are_refused(tmp_path, nifti, scan, dtype):
    """Background to some tools, not judged to others, and often a CT given for its labels."""
    values, labels = scan
    odd = np.where(labels == labels.max(), -1, labels.astype(int)).astype(dtype)
    data = pair(tmp_path, nifti, values, odd)
    with pytest.raises(BadInput, match=r"label.* has labels down to -1, and 0 is background: set"):
        _ = data.load("a").targets


def test_a_false_header_is_refused_before_memory_is_allocated(tmp_path, nifti, scan):
    path = nifti(tmp_path / "a.nii", scan[0])
    raw = bytearray(path.read_bytes())
    raw[40:56] = struct.pack("<8h", 3, 10000, 10000, 10000, 1, 1, 1, 1)
    path.write_bytes(raw)
    with pytest.raises(BadInput, match=r"claims 10000 x 10000 x 10000 voxels, more than any scan"):
        open_stored(path)
    raw[40:56] = struct.pack("<8h", 3, 600, 600, 600, 1, 1, 1, 1)
    for name, content in (("b.nii", bytes(raw)), ("c.nii.gz", gzip.compress(bytes(raw)))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput, match="more than the file can hold"):
            open_stored(tmp_path / name)


def test_a_compressed_bomb_is_not_unpacked(tmp_path, nifti, scan):
    """Gigabytes behind a header of a few voxels: only the few are unpacked."""
    import tracemalloc

    values, _ = scan
    plain = nifti(tmp_path / "a.nii", values).read_bytes()
    zeros = gzip.compress(b"\0" * (1 << 26), 9)
    bomb = gzip.compress(plain) + zeros * 16  # a gigabyte in a megabyte
    (tmp_path / "b.nii.gz").write_bytes(bomb)
    header = "NRRD0004\ntype: int16\ndimension: 3\nsizes: 6 7 8\nencoding: gzip\nendian: little\n\n"
    packed = gzip.compress(values.tobytes(order="F")) + zeros * 16
    (tmp_path / "b.nrrd").write_bytes(header.encode() + packed)
    tracemalloc.start()
    for name in ("b.nii.gz", "b.nrrd"):
        assert np.array_equal(open_stored(tmp_path / name).read(), values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 24


def test_truncated_files_are_reported(tmp_path, nifti, scan):
    whole = nifti(tmp_path / "a.nii.gz", scan[0]).read_bytes()
    (tmp_path / "b.nii.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match=r"b\.nii\.gz' (breaks off|cannot be read)"):
        open_stored(tmp_path / "b.nii.gz").read()
    (tmp_path / "c.nii.gz").write_bytes(b"no volume at all")
    with pytest.raises(BadInput, match="cannot be read as NIfTI"):
        open_stored(tmp_path / "c.nii.gz")
    header = (
        "NRRD0004\ntype: int16\ndimension: 3\nsizes: 6 7 8\nencoding: bzip2\nendian: little\n\n"
    )
    cut = bz2.compress(scan[0].tobytes())
    (tmp_path / "d.nrrd").write_bytes(header.encode() + bz2.compress(b"1234"))
    with pytest.raises(BadInput, match=r"is truncated.*not 336"):
        open_stored(tmp_path / "d.nrrd").read()
    (tmp_path / "e.nrrd").write_bytes(header.encode() + cut[:20])
    with pytest.raises(BadInput, match="is truncated"):
        open_stored(tmp_path / "e.nrrd").read()


def test_an_affine_that_cannot_be_inverted_is_refused(tmp_path, nifti, scan):
    data = pair(tmp_path, nifti, *scan)
    path = tmp_path / "imagesTr" / "a.nii"
    nifti(path, scan[0])
    raw = bytearray(path.read_bytes())
    raw[280:328] = struct.pack("<12f", 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0)
    (tmp_path / "imagesTr" / "a.nii.gz").write_bytes(gzip.compress(bytes(raw)))
    path.unlink()
    with pytest.raises(BadInput, match="cannot be inverted"):
        _ = data.load("a").header


def test_a_detached_nrrd_does_not_reach_elsewhere(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"\0" * 2000)
    below = tmp_path / "below"
    below.mkdir()
    text = "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 6 7 8\nencoding: raw\ndata file: {}\n\n"
    (below / "a.nhdr").write_text(text.format("../elsewhere"))
    with pytest.raises(BadInput, match="is not in the same folder"):
        open_stored(below / "a.nhdr")
    (below / "voxels.raw").write_bytes(bytes(range(168)) * 2)
    (below / "b.nhdr").write_text(text.format("voxels.raw"))
    assert open_stored(below / "b.nhdr").read()[3, 0, 0] == 3
