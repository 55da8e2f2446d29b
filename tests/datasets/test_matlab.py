"""MATLAB files: the values SciPy gives, and a sentence for whatever is damaged."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segmeter.core.errors import BadInput
from segmeter.datasets import matlab
from segmeter.datasets.matlab import read_first, read_mat


def _content() -> dict[str, Any]:
    draws = np.random.default_rng(3)
    cells = np.empty((1, 2), dtype=object)
    for place in range(2):
        labels = draws.integers(1, 9, (7, 5)).astype(np.uint16)
        cells[0, place] = {"Segmentation": labels, "Boundaries": labels == 3, "who": "me"}
    return {"groundTruth": cells, "labels": draws.integers(0, 99, (4, 6)), "ucm2": np.eye(3)}


def _bytes(packed: bool) -> bytes:
    file = io.BytesIO()
    scipy.io.savemat(file, _content(), do_compression=packed)
    return file.getvalue()


WHOLE = {packed: _bytes(packed) for packed in (False, True)}
MADE_UP = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def _same(ours: Any, theirs: Any) -> bool:
    if ours.dtype.names or ours.dtype == object:
        assert ours.shape == theirs.shape
        assert ours.dtype.names == theirs.dtype.names
        names = ours.dtype.names or (None,)
        return all(
            _same(a if name is None else a[name], b if name is None else b[name])
            for a, b in zip(ours.ravel(), theirs.ravel(), strict=True)
            for name in names
        )
    return bool(np.array_equal(ours, theirs) and ours.dtype.kind == theirs.dtype.kind)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("variable", ["groundTruth", "labels", "ucm2"])
def test_values_are_those_of_scipy(tmp_path, packed, variable):
    path = tmp_path / "a.mat"
    path.write_bytes(WHOLE[packed])
    assert _same(read_mat(path, variable), scipy.io.loadmat(path)[variable])


def test_real_files_agree_with_scipy(real_data):
    for path in sorted((real_data / "BSDS500" / "groundTruth" / "test").glob("*.mat"))[::20]:
        theirs = scipy.io.loadmat(path)["groundTruth"]
        assert _same(read_mat(path, "groundTruth"), theirs), path


def test_the_first_that_is_there_is_taken(tmp_path):
    path = tmp_path / "a.mat"
    path.write_bytes(WHOLE[True])
    found = read_first(path, ["nothing", "ucm2", "labels"])
    assert found is not None
    assert found[0] == "ucm2"
    assert read_first(path, ["nothing"]) is None
    with pytest.raises(BadInput, match="holds no 'nothing'"):
        read_mat(path, "nothing")


def test_a_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(matlab, "_MOST_UNPACKED", 1 << 20)  # a bomb of 256 MiB takes seconds
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"labels": np.zeros((2000, 2000), np.uint8)}, do_compression=True)
    with pytest.raises(BadInput, match="unpacks to more than any label map"):
        read_mat(path, "labels")


def test_version_seven_point_three_is_named(tmp_path):
    path = tmp_path / "a.mat"
    path.write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64" + b" " * 200)
    with pytest.raises(BadInput, match=r"version 7\.3; save it with '-v7'"):
        read_mat(path, "labels")


@given(st.booleans(), st.floats(0, 1, exclude_max=True))
@MADE_UP
def test_a_file_that_breaks_off_loses_no_variable_silently(tmp_path: Path, packed, share):
    path = tmp_path / "a.mat"
    path.write_bytes(WHOLE[packed][: int(share * len(WHOLE[packed]))])
    with pytest.raises(BadInput):
        read_mat(path, "ucm2")  # the last one


@given(st.booleans(), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1))
@MADE_UP
def test_wrong_bytes_give_values_or_a_sentence(tmp_path: Path, packed, changes):
    raw = bytearray(WHOLE[packed])
    for place, value in changes:
        raw[int(place * (len(raw) - 1))] = value
    path = tmp_path / "a.mat"
    path.write_bytes(bytes(raw))
    try:
        read_mat(path, "groundTruth")
    except BadInput as error:
        assert str(path) in str(error)


@given(st.binary(max_size=300))
@MADE_UP
def test_garbage_gives_a_sentence(tmp_path: Path, raw):
    path = tmp_path / "a.mat"
    path.write_bytes(raw)
    with pytest.raises(BadInput):
        read_mat(path, "labels")
