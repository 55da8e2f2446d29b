"""MATLAB files: the values that SciPy reads, and a sentence for a file that cannot be read."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io

from segmeter.core.errors import BadInput
from segmeter.datasets.label_files import read_mat, read_results


@pytest.mark.parametrize("packed", [False, True])
def test_structures_have_fields_and_numbers_the_class_of_matlab(tmp_path, packed):
    labels = np.array([[1, 2], [3, 4]])
    cells = np.empty((1, 1), dtype=object)
    cells[0, 0] = {"Segmentation": labels.astype(np.uint16)}
    path = tmp_path / "a.mat"
    scipy.io.savemat(
        path, {"groundTruth": cells, "labels": labels.astype(float)}, do_compression=packed
    )
    found = read_mat(path, "groundTruth")[0, 0][0, 0]["Segmentation"]
    assert found.dtype == np.uint16
    assert np.array_equal(found, labels)
    assert read_mat(path, "labels").dtype == np.float64
    assert list(read_results(path)) == ["1"]


def test_a_variable_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"other": np.eye(3)})
    with pytest.raises(BadInput, match=r"a\.mat' holds none of nothing"):
        read_mat(path, "nothing")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 0.95])
def test_a_file_that_breaks_off_is_refused_in_a_sentence(tmp_path, share):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"labels": np.arange(5000.0).reshape(50, 100)}, do_compression=True)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(share * len(raw))])
    with pytest.raises(BadInput, match=r"a\.mat' (is not a whole MATLAB file|holds none of)"):
        read_mat(path, "labels")


def test_version_seven_point_three_is_named(tmp_path):
    path = tmp_path / "a.mat"
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"
    path.write_bytes(head + bytes(200))
    with pytest.raises(BadInput, match=r"is a MATLAB 7\.3 file; save it with '-v7'"):
        read_mat(path, "labels")
