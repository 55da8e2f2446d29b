"""Label maps from files: every layout that is read, every wrong file that is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from scipy.io import savemat

from segmeter.core.errors import BadInput, NotFound, SegmeterError
from segmeter.core.masks import Mask
from segmeter.datasets.label_files import (
    paired_files,
    read_label_map,
    read_label_maps,
    read_results,
)

LABELS = np.array([[1, 1, 300], [2, 2, 300]])


def cells(*parts: Any) -> npt.NDArray[Any]:
    """A 1 x N cell array of MATLAB."""
    made = np.empty((1, len(parts)), dtype=object)
    made[0, :] = parts
    return made


def test_png_of_8_and_16_bits_are_label_maps(tmp_path: Path) -> None:
    for dtype in (np.uint8, np.uint16):
        cv2.imwrite(str(tmp_path / "a.png"), LABELS.astype(dtype))
        assert np.array_equal(read_label_map(tmp_path / "a.png"), LABELS.astype(dtype))


def test_an_array_file_is_a_label_map(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", LABELS)
    assert np.array_equal(read_label_map(tmp_path / "a.npy"), LABELS)


def test_a_matlab_file_of_bsds500_holds_a_map_a_person(tmp_path: Path) -> None:
    people = [{"Segmentation": LABELS.astype(np.uint16), "Boundaries": LABELS > 1}] * 3
    savemat(tmp_path / "a.mat", {"groundTruth": cells(*people)})
    found = read_label_maps(tmp_path / "a.mat")
    assert len(found) == 3
    assert np.array_equal(found[2], LABELS)


def test_real_annotations_are_read_as_the_data_set_reads_them(real_data: Path) -> None:
    from segmeter.datasets.bsds500 import Bsds500

    found = read_label_maps(real_data / "BSDS500" / "groundTruth" / "test" / "2018.mat")
    for mine, theirs in zip(found, Bsds500(real_data).partitions("2018"), strict=True):
        assert np.array_equal(mine, theirs)


def test_a_list_of_results_has_a_map_a_setting(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"segs": cells(LABELS, LABELS + 1)})
    assert list(read_results(tmp_path / "a.mat")) == ["1", "2"]


def test_doubles_of_matlab_are_labels_when_they_are_whole(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"labels": LABELS.astype(float)})
    assert np.array_equal(read_label_map(tmp_path / "a.mat"), LABELS)
    savemat(tmp_path / "b.mat", {"labels": LABELS + 0.5})
    with pytest.raises(BadInput, match="whole numbers"):
        read_label_map(tmp_path / "b.mat")


def test_a_contour_map_is_a_hierarchy_and_no_label_map(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"ucm2": np.ones((5, 7))})
    assert read_results(tmp_path / "a.mat")[""].levels is not None
    with pytest.raises(BadInput, match="contour map"):
        read_label_maps(tmp_path / "a.mat")


def test_run_lengths_become_labels_in_their_order(tmp_path: Path) -> None:
    masks = [Mask.of(LABELS == 300), Mask.of(LABELS == 2)]
    entries = [masks[0].to_coco(), {"segmentation": masks[1].to_coco(), "id": 7}]
    (tmp_path / "a.json").write_text(json.dumps(entries))
    found = read_label_map(tmp_path / "a.json")
    assert np.array_equal(found, np.where(LABELS == 300, 1, np.where(LABELS == 2, 2, 0)))
    (tmp_path / "b.json").write_text(json.dumps({"annotations": entries}))
    assert np.array_equal(read_label_map(tmp_path / "b.json"), found)


def wrong_files(folder: Path) -> dict[str, tuple[Path, str]]:
    """Files that are no label map, and what is to be said about them."""
    np.save(folder / "float.npy", LABELS.astype(float))
    np.save(folder / "volume.npy", np.zeros((2, 2, 2), int))
    np.save(folder / "negative.npy", LABELS - 5)
    np.save(folder / "empty.npy", np.zeros((0, 3), int))
    np.save(folder / "object.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(folder / "many.npz", a=LABELS)
    (folder / "many.npz").rename(folder / "many.npy")
    (folder / "text.npy").write_text("hello")
    (folder / "cut.npy").write_bytes((folder / "float.npy").read_bytes()[:-9])
    huge = np.lib.format.open_memmap(folder / "huge.npy", "w+", np.uint8, (1 << 16, 1 << 15))
    del huge
    cv2.imwrite(str(folder / "colour.png"), np.zeros((4, 4, 3), np.uint8))
    (folder / "text.png").write_text("hello")
    savemat(folder / "other.mat", {"x": LABELS})
    savemat(folder / "drawn.mat", {"groundTruth": cells({"Lines": LABELS})})
    savemat(folder / "none.mat", {"segs": np.empty((1, 0), dtype=object)})
    savemat(folder / "even.mat", {"ucm2": np.ones((4, 6))})
    (folder / "text.mat").write_text("hello")
    (folder / "text.json").write_text("hello")
    (folder / "nothing.json").write_text("[]")
    (folder / "counts.json").write_text('[{"size": [2, 2], "counts": [1, 1]}]')
    (folder / "vast.json").write_text('[{"size": [90000, 90000], "counts": [8100000000]}]')
    twice = Mask.of(LABELS == 2).to_coco()
    (folder / "overlap.json").write_text(json.dumps([twice, twice]))
    (folder / "a.tex").write_text("hello")
    said = {
        "float.npy": "whole numbers", "volume.npy": "2 x 2 x 2", "negative.npy": "start at 0",
        "empty.npy": "0 x 3", "object.npy": "plain numbers", "many.npy": "several arrays",
        "text.npy": "plain numbers", "cut.npy": "plain numbers", "huge.npy": "at most",
        "colour.png": "one label per pixel", "text.png": "not a whole image",
        "other.mat": "holds none of", "drawn.mat": "without 'Segmentation'",
        "none.mat": "empty", "even.mat": "2H", "text.mat": "not a",
        "text.json": "not a JSON file", "nothing.json": "no run-length mask",
        "counts.json": "do not add up", "vast.json": "at most", "overlap.json": "overlaps",
        "a.tex": "not a label map", "absent.png": "no file", "absent.npy": "no file",
        "absent.mat": "no file", "absent.json": "no file",
    }  # fmt: skip
    return {name: (folder / name, text) for name, text in said.items()}


def test_every_wrong_file_is_refused_by_name(tmp_path: Path) -> None:
    for name, (path, said) in wrong_files(tmp_path).items():
        with pytest.raises(SegmeterError, match=said) as caught:
            read_label_maps(path)
        assert isinstance(caught.value, BadInput | NotFound)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_two_files_of_one_image_are_refused(tmp_path: Path) -> None:
    for name in ("drawn/a.npy", "found/a.npy", "found/a.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(BadInput, match=r"a\.json' and 'a\.npy' have one name"):
        paired_files(tmp_path / "found", tmp_path / "drawn")
