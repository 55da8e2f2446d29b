"""GrabCut, Berkeley, DAVIS, COCO_MVal: order, masks and colours."""

from __future__ import annotations

import csv
import gzip
import json

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.datasets.click_benchmarks import _class_and_number, trimap, union
from segmeter.datasets.image_files import read_colours

NAMES = {
    "GrabCut": "grabcut",
    "Berkeley": "berkeley",
    "DAVIS": "davis",
    "COCO_MVal": "coco-mval",
}


@pytest.mark.parametrize("name", NAMES)
def test_all_targets_are_those_of_the_original_readers(name, golden, real_data):
    """golden/clicks/real_first_clicks.csv: order, size, pixel counts and colour sums of all
    280 targets. Colour sums may move by three units a pixel with the JPEG decoder."""
    data = catalogue.datasets.make(NAMES[name], data=real_data)
    with (golden / "clicks" / "real_first_clicks.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["dataset"] == name]
    assert [row["image_file"].rpartition(".")[0] for row in rows] == data.scenes()
    for row in rows:
        scene = data.load(data.scenes()[int(row["order"])])
        scene.check()
        (target,) = scene.targets
        assert scene.shape == (int(row["height"]), int(row["width"]))
        assert target.mask.area == int(row["object_pixels"])
        assert (target.ignore.area if target.ignore else 0) == int(row["ignore_pixels"])
        sums = scene.pixels.reshape(-1, 3).sum(axis=0, dtype=np.int64)
        golden_sums = [int(row[f"image_sum_{c}"]) for c in "rgb"]
        assert np.abs(sums - golden_sums).max() <= 3 * target.mask.shape[0] * target.mask.shape[1]


@pytest.mark.parametrize("name", ["DAVIS", "COCO_MVal"])
def test_masks_are_those_of_the_whole_sets(name, real_data):
    """masks_only holds the decoded targets of all 345 and 800, pixel by pixel."""
    data = catalogue.datasets.make(NAMES[name], data=real_data)
    with gzip.open(real_data / "masks_only" / f"{name}.json.gz") as file:
        whole = json.load(file)
    assert len(whole) == data.card.targets
    for scene in data.scenes():
        assert data.load(scene).targets[0].mask == Mask.from_coco(whole[scene])


def test_the_names_of_all_800_have_class_and_image(real_data):
    """Ten of each class but toaster (9) and toilet (11), on 722 images."""
    with gzip.open(real_data / "masks_only" / "COCO_MVal.json.gz") as file:
        about = [_class_and_number(stem) for stem in json.load(file)]
    classes = [label for label, _ in about]
    assert len(set(classes)) == 80
    odd = {label: classes.count(label) for label in classes if classes.count(label) != 10}
    assert odd == {"toaster": 9, "toilet": 11}
    assert len({groups["image"] for _, groups in about}) == 722


def test_real_special_cases_are_read_as_documented(real_data):
    grabcut = catalogue.datasets.make("grabcut", data=real_data)
    bands = [scene for scene in grabcut.scenes() if grabcut.load(scene).targets[0].ignore]
    whole = ["106024", "153093", "181079", "189080", "208001", "376043", "llama", "teddy"]
    assert set(grabcut.scenes()) - set(bands) == set(whole)
    berkeley = catalogue.datasets.make("berkeley", data=real_data)
    masks = real_data / "Berkeley" / "masks"
    for scene, lost in (("101087", 3), ("163014", 1), ("376043", 1)):
        green = read_colours(masks / f"{scene}.png")[:, :, 1] > 128
        assert berkeley.load(scene).targets[0].mask.area == green.sum() + lost


def test_berkeleys_tripled_images_share_a_group(real_data):
    data = catalogue.datasets.make("berkeley", data=real_data)
    shown = [data.load(scene).targets[0].groups["image"] for scene in data.scenes()]
    assert len(shown) == 100
    assert len(set(shown)) == 96
    assert shown.count("189011") == shown.count("239007") == 3


def test_coco_mval_names_have_class_and_image(real_data):
    data = catalogue.datasets.make("coco-mval", data=real_data)
    labels = [data.load(scene).targets[0].label for scene in data.scenes()]
    assert len(set(labels)) == 80
    assert "wine glass" in labels


def test_a_trimap_has_a_band_that_is_not_judged():
    first = np.array([[0, 1, 127, 128, 129, 255]], dtype=np.uint8)
    mask, ignore = trimap(np.repeat(first[..., None], 3, axis=2))
    assert mask.dense().tolist() == [[False, True, False, False, True, True]]
    assert ignore is not None
    assert ignore.dense().tolist() == [[False, False, False, True, False, False]]


def test_all_labels_together_are_the_object():
    colours = np.zeros((1, 4, 3), dtype=np.uint8)
    colours[0, 1, 0] = colours[0, 2, 1] = colours[0, 3, 2] = 1
    assert union(colours)[0].dense().tolist() == [[False, True, True, True]]


def _grabcut(folder, write, photo, mask):
    write(folder / "GrabCut" / "data_GT" / "a.png", photo)
    write(folder / "GrabCut" / "boundary_GT" / "a.bmp", mask)
    return catalogue.datasets.make("grabcut", data=folder)


def test_masks_may_be_of_another_format_than_images(tmp_path, write, photo):
    mask = np.zeros((12, 16), dtype=np.uint8)
    mask[3:6, 4:9] = 255
    scene = _grabcut(tmp_path, write, photo, mask).load("a")
    scene.check()
    assert scene.targets[0].mask.area == 15


def test_a_mask_of_another_size_is_reported(tmp_path, write, photo):
    scene = _grabcut(tmp_path, write, photo, np.full((12, 15), 255, np.uint8)).load("a")
    with pytest.raises(BadInput, match="image is 16 x 12 but its mask is 15 x 12"):
        scene.check()


def test_a_missing_mask_is_reported_and_other_scenes_are_run(tmp_path, write, photo):
    data = _grabcut(tmp_path, write, photo, np.full((12, 16), 255, np.uint8))
    write(tmp_path / "GrabCut" / "data_GT" / "b.jpg", photo)
    data = catalogue.datasets.make("grabcut", data=tmp_path)
    assert data.scenes() == ["a", "b"]
    with pytest.raises(NotFound, match="grabcut/b: no mask"):
        data.load("b").check()
    data.load("a").check()


def test_an_empty_folder_of_images_is_reported(tmp_path):
    for part in ("data_GT", "boundary_GT"):
        (tmp_path / "GrabCut" / part).mkdir(parents=True)
    with pytest.raises(NotFound, match="'grabcut': no image in"):
        catalogue.datasets.make("grabcut", data=tmp_path)


def test_two_images_of_one_name_are_refused(tmp_path, write, photo):
    _grabcut(tmp_path, write, photo, np.full((12, 16), 255, np.uint8))
    write(tmp_path / "GrabCut" / "data_GT" / "a.jpg", photo)
    with pytest.raises(BadInput, match="same name up to the dot"):
        catalogue.datasets.make("grabcut", data=tmp_path).scenes()


def test_the_error_for_a_missing_folder_names_its_source(tmp_path, monkeypatch):
    with pytest.raises(NotFound, match=r"'grabcut' is not in .* 'GrabCut' .*https://"):
        catalogue.datasets.make("grabcut", data=tmp_path)
    monkeypatch.delenv("SEGMETER_DATA", raising=False)
    with pytest.raises(NotFound, match="give it with --data or SEGMETER_DATA"):
        catalogue.datasets.make("grabcut")


def test_the_environment_names_the_root(tmp_path, write, photo, monkeypatch):
    _grabcut(tmp_path, write, photo, np.full((12, 16), 255, np.uint8))
    monkeypatch.setenv("SEGMETER_DATA", str(tmp_path))
    assert catalogue.datasets.make("grabcut").scenes() == ["a"]


def test_an_unknown_scene_gets_a_suggestion(tmp_path, write, photo):
    data = _grabcut(tmp_path, write, photo, np.full((12, 16), 255, np.uint8))
    with pytest.raises(NotFound, match="no scene 'A'; did you mean 'a'"):
        data.load("A")


def test_the_fingerprint_follows_the_content(tmp_path, write, photo):
    mask = np.full((12, 16), 255, np.uint8)
    data = _grabcut(tmp_path, write, photo, mask)
    before = data.fingerprint()
    assert catalogue.datasets.make("grabcut", data=tmp_path).fingerprint() == before
    mask[0, 0] = 0
    assert _grabcut(tmp_path, write, photo, mask).fingerprint() != before
