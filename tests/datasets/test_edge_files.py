"""Reading edge maps, and refusing what they are not."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from scipy.io import savemat

from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.label_files import read_edge_map

LEVELS = np.array([[0, 0, 0, 0, 0], [0, 0, 0.7, 0, 0], [0, 0, 0, 0, 0]])


def test_edge_maps_are_read_from_matlab_and_numpy_files(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"E": LEVELS})
    np.save(tmp_path / "a.npy", LEVELS)
    np.testing.assert_array_equal(read_edge_map(tmp_path / "a.mat"), LEVELS)
    np.testing.assert_array_equal(read_edge_map(tmp_path / "a.npy"), LEVELS)


def test_grey_images_are_edge_maps_from_0_to_1(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.array([[0, 51, 255]], dtype=np.uint8))
    cv2.imwrite(str(tmp_path / "b.png"), np.array([[0, 13107, 65535]], dtype=np.uint16))
    for name in ("a.png", "b.png"):
        assert read_edge_map(tmp_path / name)[0].tolist() == pytest.approx([0, 0.2, 1])


def test_images_of_real_numbers_are_edge_maps_as_they_are(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.tif"), LEVELS.astype(np.float32))
    np.testing.assert_array_equal(read_edge_map(tmp_path / "a.tif"), LEVELS.astype(np.float32))


def test_files_of_another_kind_are_refused_with_a_sentence(tmp_path: Path) -> None:
    savemat(tmp_path / "other.mat", {"something": LEVELS})
    np.save(tmp_path / "cube.npy", np.zeros((3, 3, 3)))
    np.save(tmp_path / "nan.npy", np.full((3, 3), np.nan))
    np.save(tmp_path / "objects.npy", np.array([None, {}]), allow_pickle=True)
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY\x01")
    cv2.imwrite(str(tmp_path / "colour.png"), np.zeros((3, 3, 3), dtype=np.uint8))
    for name, sentence in (
        ("other.mat", "holds none of E"),
        ("cube.npy", "3 x 3 x 3; a map is H x W"),
        ("nan.npy", "not finite"),
        ("objects.npy", "not a whole array file of plain numbers"),
        ("broken.npy", "not a whole array file of plain numbers"),
        ("colour.png", "in colour"),
    ):
        with pytest.raises(BadInput, match=sentence):
            read_edge_map(tmp_path / name)
    with pytest.raises(NotFound):
        read_edge_map(tmp_path / "missing.npy")
