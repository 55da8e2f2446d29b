"""Whatever bytes a file holds, its reader gives values or one sentence, nothing else."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.masks import Mask
from segmeter.datasets.labelmaps import (
    read_contour_map,
    read_edge_map,
    read_label_maps,
    read_object,
    read_objects,
    read_proposals,
    read_results,
)
from segmeter.datasets.numpy_files import read_npy

LABELS = np.arange(35, dtype=np.uint8).reshape(5, 7)
READERS: dict[str, list[Callable[[Path], Any]]] = {
    ".npy": [read_label_maps, read_contour_map, read_edge_map, read_object, read_objects],
    ".mat": [read_results, read_contour_map, read_objects],
    ".png": [read_label_maps, read_edge_map, read_object],
    ".json": [read_label_maps, read_object, read_objects, read_proposals],
}


def _numpy() -> bytes:
    out = io.BytesIO()
    np.save(out, LABELS)
    return out.getvalue()


def _matlab() -> bytes:
    out = io.BytesIO()
    savemat(out, {"labels": LABELS, "ucm2": LABELS.astype(float)})
    return out.getvalue()


GOOD = {
    ".npy": _numpy(),
    ".mat": _matlab(),
    ".png": cv2.imencode(".png", LABELS)[1].tobytes(),
    ".json": json.dumps([Mask.of(LABELS > 20).to_coco()]).encode(),
}
FILES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
CHANGES = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=6)


def _try(path: Path) -> None:
    for read in READERS[path.suffix]:
        try:
            read(path)
        except SegmeterError as error:
            assert "\n" not in str(error)
            assert path.name in str(error)


@pytest.mark.parametrize("suffix", GOOD)
def test_the_files_to_be_damaged_are_whole(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(GOOD[suffix])
    assert READERS[suffix][0](path)


@given(st.sampled_from(sorted(GOOD)), CHANGES, st.floats(0, 2))
@FILES
def test_damaged_files_give_values_or_a_sentence(tmp_path: Path, suffix, changes, cut):
    raw = bytearray(GOOD[suffix])
    for place, value in changes:
        raw[int(place * (len(raw) - 1))] = value
    path = tmp_path / f"a{suffix}"
    path.write_bytes(bytes(raw[: int(cut * len(raw))]))
    _try(path)


@given(st.sampled_from(sorted(GOOD)), st.binary(max_size=200))
@FILES
def test_garbage_gives_values_or_a_sentence(tmp_path: Path, suffix, raw):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(raw)
    _try(path)


@given(
    st.sampled_from(
        [
            "(1000000000000,)",
            "(-1, 5)",
            "(1 << 70,)",
            "()",
            "[5, 7]",
            "(5, 'a')",
            "(" * 300 + ")" * 300,
            "9" * 400,
            "None",
        ]
    ),
    st.sampled_from(["'|u1'", "'<f8'", "'|O'", "'V9'", "[('a', '<i4')]", "7", "'<U99999999'"]),
)
@FILES  # fmt: skip
def test_made_up_headers_of_arrays_are_refused_or_read(tmp_path: Path, shape, kind):
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    raw = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 35
    path = tmp_path / "a.npy"
    path.write_bytes(raw)
    with contextlib.suppress(BadInput):
        assert read_npy(path, 1000).size <= 1000


@given(st.binary(max_size=60), st.sampled_from(["sbd", "tetris"]))
@FILES
def test_lists_of_names_may_hold_anything(tmp_path_factory, raw, name):
    root = tmp_path_factory.mktemp("root")
    for folder in ("SBD/img", "SBD/inst", "TETRIS/images", "TETRIS/masks"):
        (root / folder).mkdir(parents=True)
    (root / "SBD" / "val.txt").write_bytes(raw)
    (root / "TETRIS" / "images" / "a.png").write_bytes(GOOD[".png"])
    options = {"stems": str(root / "SBD" / "val.txt")} if name == "tetris" else {}
    with contextlib.suppress(SegmeterError):
        catalogue.datasets.make(name, data=root, **options).scenes()
