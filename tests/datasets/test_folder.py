"""A folder of one's own: every layout that is recognised, and what is said of it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from segmeter.api.loading import dataset_spec
from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound, SegmeterError
from segmeter.core.masks import Mask
from segmeter.datasets.folder import Found, open_folder
from segmeter.datasets.image_files import read_rgb

BLOCK = np.zeros((12, 16), dtype=np.uint8)
BLOCK[3:6, 4:9] = 1
TWO = BLOCK.copy()
TWO[8:10, 1:5] = 2


def _palette(path: Path, indices: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(indices, mode="P")
    image.putpalette([0, 0, 0, 200, 0, 0, 0, 200, 0, *[90] * 759])
    image.save(path)


def _areas(data: Found, scene: str) -> dict[str, int]:
    loaded = data.load(scene)
    loaded.check()
    return {target.id: target.mask.area for target in loaded.targets}


@pytest.fixture
def images(tmp_path, write, photo):
    """A folder with two images in `images`."""
    for name in ("a", "b"):
        write(tmp_path / "images" / f"{name}.jpg", photo)
    return tmp_path


def _masks(folder: Path, write, **masks: np.ndarray) -> Found:
    for name, mask in masks.items():
        write(folder / "masks" / f"{name}.png", mask)
    return open_folder(str(folder))


def test_binary_masks_of_any_value(images, write):
    data = _masks(images, write, a=BLOCK, b=BLOCK * 255)
    assert data.scenes() == ["a", "b"]
    assert _areas(data, "a") == _areas(data, "b") == {"object": 15}
    assert data.recognised == (
        "2 images in 'images', masks in 'masks'; binary masks, all non-zero values are foreground"
    )
    assert data.card.notes == data.recognised
    assert data.card.name == images.name


def test_masks_with_soft_edges_are_cut_at_half(images, write):
    soft = np.zeros((60, 60), np.uint8)
    cv2.circle(soft, (30, 30), 20, 255, -1, lineType=cv2.LINE_AA)
    for name in ("a", "b"):
        write(images / "images" / f"{name}.jpg", np.zeros((60, 60, 3), np.uint8))
    data = _masks(images, write, a=soft, b=soft)
    assert "soft edges" in data.recognised
    assert _areas(data, "a") == {"object": int((soft > 127.5).sum())}


def test_masks_with_a_band_leave_it_unjudged(images, write):
    band = BLOCK * 255
    band[2, 4:9] = 128
    data = _masks(images, write, a=band, b=band)
    target = data.load("a").targets[0]
    assert (target.mask.area, target.ignore.area) == (15, 5)
    assert "128 is ignored" in data.recognised


def test_label_maps_have_an_object_a_value(images, write):
    data = _masks(images, write, a=TWO, b=BLOCK)
    assert _areas(data, "a") == {"1": 15, "2": 8}
    assert "label maps, one object per non-zero value" in data.recognised


def test_sixteen_bits_hold_many_labels(images, write):
    data = _masks(images, write, a=TWO.astype(np.uint16) * 400, b=TWO.astype(np.uint16))
    assert _areas(data, "a") == {"400": 15, "800": 8}


def test_255_next_to_other_labels_is_ignored(images, write):
    void = TWO.copy()
    void[0] = 255
    data = _masks(images, write, a=void, b=void)
    assert _areas(data, "a") == {"1": 15, "2": 8}
    assert data.load("a").targets[0].ignore.area == 16
    assert "(255 is not judged)" in data.recognised


def test_a_palette_gives_its_indices(images):
    for name in ("a", "b"):
        _palette(images / "masks" / f"{name}.png", TWO)
    data = open_folder(str(images))
    assert _areas(data, "a") == {"1": 15, "2": 8}
    assert "colour table" in data.recognised


def test_a_label_map_in_colour_has_an_object_a_colour(images, write):
    colours = np.zeros((12, 16, 3), np.uint8)
    colours[TWO == 1] = (255, 0, 0)
    colours[TWO == 2] = (0, 0, 255)
    data = _masks(images, write, a=colours, b=colours)
    assert _areas(data, "a") == {str(0x0000FF): 8, str(0xFF0000): 15}
    assert "one object per colour except black" in data.recognised


def test_one_file_an_object_in_a_folder_a_image(images, write):
    write(images / "masks" / "a" / "dog_1.png", BLOCK * 255)
    write(images / "masks" / "a" / "2.png", (TWO == 2).astype(np.uint8) * 255)
    write(images / "masks" / "b" / "1.png", BLOCK)
    data = open_folder(str(images))
    assert _areas(data, "a") == {"2": 8, "dog_1": 15}
    assert [target.label for target in data.load("a").targets] == ["", "dog"]
    assert "3 files of one object each" in data.recognised


def test_one_file_an_object_by_name(images, write):
    data = _masks(images, write, a_cat=BLOCK, a_dog=TWO // 2, b_1=BLOCK)
    assert _areas(data, "a") == {"cat": 15, "dog": 8}
    assert data.load("a").targets[0].label == "cat"


def test_masks_next_to_the_images(tmp_path, write, photo):
    write(tmp_path / "x.jpg", photo)
    write(tmp_path / "x_mask.png", BLOCK)
    write(tmp_path / "y.jpg", photo)
    write(tmp_path / "y_mask_1.png", BLOCK)
    write(tmp_path / "y_mask_2.png", TWO // 2)
    data = open_folder(str(tmp_path))
    assert _areas(data, "x") == {"object": 15}
    assert _areas(data, "y") == {"1": 15, "2": 8}
    assert "side by side" in data.recognised


def test_a_png_of_a_images_name_is_its_mask(tmp_path, write, photo):
    for name in ("x", "y"):
        write(tmp_path / f"{name}.jpg", photo)
        write(tmp_path / f"{name}.png", TWO)
    data = open_folder(str(tmp_path))
    assert _areas(data, "x") == {"1": 15, "2": 8}
    assert "as JPEG, masks of the same names as PNG" in data.recognised


def test_run_lengths_in_one_file(images):
    runs = {
        "a.jpg": [Mask.of(BLOCK).to_coco(), {**Mask.of(TWO == 2).to_coco(), "label": "dog"}],
        "b": {"left": Mask.of(BLOCK).to_coco()},
        "gone.jpg": Mask.of(BLOCK).to_coco(),
    }
    (images / "masks.json").write_text(json.dumps(runs))
    data = open_folder(str(images))
    assert data.scenes() == ["a", "b"]
    assert _areas(data, "a") == {"1": 15, "2": 8}
    assert _areas(data, "b") == {"left": 15}
    assert data.recognised == (
        "2 images with 3 objects as run lengths in 'masks.json';"
        " 1 record without an image, the first is 'gone'"
    )
    assert data.card.targets == 3


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        ("{}_img.png", "{}_masks.png"),
        ("{}_im.jpg", "{}_gt.png"),
        ("im/{}.jpg", "gt/{}.png"),
        ("Original/{}.tif", "Ground Truth/{}.tif"),
        ("imagesTr/{}_0000.png", "labelsTr/{}.png"),
        ("DUTS-TE-Image/{}.jpg", "DUTS-TE-Mask/{}.png"),
        ("ISIC2018_Task1-2_Training_Input/{}.jpg",
         "ISIC2018_Task1_Training_GroundTruth/{}_segmentation.png"),
    ],
    ids=["cellpose", "big", "dis5k", "cvc-clinicdb", "nnunet-2d", "duts", "isic-2018"],
)  # fmt: skip
def test_layouts_of_released_datasets(image, mask, tmp_path, write, photo):
    for name, values in (("one", TWO), ("two", BLOCK)):
        write(tmp_path / image.format(name), photo)
        write(tmp_path / mask.format(name), values)
    data = open_folder(str(tmp_path))
    assert [_areas(data, scene) for scene in data.scenes()] == [{"1": 15, "2": 8}, {"1": 15}]
    assert not data.unused


def test_folders_with_longer_names_do_not_replace_pairs_next_to_each_other(tmp_path, write, photo):
    write(tmp_path / "a.jpg", photo)
    write(tmp_path / "a_mask.png", BLOCK)
    for folder in ("old_images", "old_masks"):
        write(tmp_path / folder / "a.png", photo if folder == "old_images" else TWO)
    assert _areas(open_folder(str(tmp_path)), "a") == {"object": 15}


def test_run_lengths_next_to_each_image(tmp_path, write, photo):
    for name in ("x", "y"):
        write(tmp_path / f"{name}.jpg", photo)
        entry = {"id": 5, "segmentation": Mask.of(TWO == 1).to_coco()}
        (tmp_path / f"{name}.json").write_text(json.dumps({"image": {}, "annotations": [entry]}))
    data = open_folder(str(tmp_path))
    assert _areas(data, "x") == {"5": 15}
    assert "run lengths in a JSON file each" in data.recognised


def test_one_image_with_its_json(tmp_path, write, photo):
    write(tmp_path / "x.jpg", photo)
    (tmp_path / "x.json").write_text(json.dumps({"annotations": [Mask.of(BLOCK).to_coco()]}))
    assert _areas(open_folder(str(tmp_path)), "x") == {"1": 15}


def test_run_lengths_of_other_images_are_reported(images):
    (images / "masks.json").write_text(json.dumps({"elk": Mask.of(BLOCK).to_coco()}))
    with pytest.raises(BadInput, match=r"has masks for 'elk', but .* has no such image"):
        open_folder(str(images))


def test_a_coco_file_next_to_the_images(images):
    content = {
        "images": [
            {"id": 1, "file_name": "a.jpg", "height": 12, "width": 16},
            {"id": 2, "file_name": "far.jpg", "height": 12, "width": 16},
        ],
        "annotations": [
            {"id": 1, "image_id": 1, "segmentation": [[2, 2, 8, 2, 8, 6, 2, 6]]},
            {"id": 2, "image_id": 2, "segmentation": [[2, 2, 8, 2, 8, 6, 2, 6]]},
        ],
    }
    (images / "annotations").mkdir()
    (images / "annotations" / "mine.json").write_text(json.dumps(content))
    data = open_folder(str(images))
    assert _areas(data, "a") == {"1": 24}
    assert "in the COCO file 'mine.json', which has 2 objects" in data.recognised
    assert "1 of 2 images is not in" in data.recognised
    assert dataset_spec(str(images / "annotations" / "mine.json")) == dataset_spec(str(images))
    (images / "other.json").write_text("{}")
    with pytest.raises(BadInput, match="has several JSON files"):
        dataset_spec(str(images / "annotations" / "mine.json"))


def test_images_without_mask_and_masks_without_image_are_counted(images, write, photo):
    write(images / "images" / "c.jpg", photo)
    data = _masks(images, write, a=BLOCK, b=BLOCK, zebra=BLOCK)
    assert data.scenes() == ["a", "b"]
    assert "1 image without a mask left out, the first is 'c'" in data.recognised
    assert "1 mask without an image, the first is 'zebra.png'" in data.recognised


def test_a_name_that_is_a_prefix_of_another_keeps_its_masks(tmp_path, write, photo):
    for name in ("car", "car_2"):
        write(tmp_path / "images" / f"{name}.jpg", photo)
    data = _masks(tmp_path, write, car_1=BLOCK, car_2=TWO // 2, car_2_1=BLOCK)
    assert _areas(data, "car") == {"1": 15}
    assert _areas(data, "car_2") == {"object": 8, "1": 15}


def test_options_override_what_values_suggest(images, write):
    data = _masks(images, write, a=TWO, b=TWO)
    whole = catalogue.datasets.make(f"folder?path={images}&kind=binary")
    assert _areas(whole, "a") == {"object": 23}
    part = catalogue.datasets.make(f"folder?path={images}&ignore=2")
    assert _areas(part, "a") == {"1": 15}
    assert len(_areas(data, "a")) == 2
    with pytest.raises(BadInput, match="no kind of mask 'shape'; it is binary"):
        open_folder(str(images), kind="shape")


def test_the_error_for_an_unknown_layout_explains_the_known_ones(tmp_path, write, photo):
    with pytest.raises(NotFound, match="no folder"):
        open_folder(str(tmp_path / "gone"))
    with pytest.raises(BadInput, match=r"nothing recognised in .*'images'.*'masks'"):
        open_folder(str(tmp_path))
    write(tmp_path / "a.jpg", photo)
    with pytest.raises(BadInput, match=r"has 1 image and no masks of their names: put images in"):
        open_folder(str(tmp_path))


def test_two_images_of_one_name_are_refused(images, write, photo):
    write(images / "images" / "a.png", photo)
    with pytest.raises(BadInput, match="differ in their suffix only"):
        _masks(images, write, a=BLOCK)


def test_a_image_among_the_masks_is_no_label_map(images, write):
    noise = np.random.default_rng(0).integers(0, 256, (80, 80, 3), dtype=np.uint8)
    for name in ("a", "b"):
        write(images / "images" / f"{name}.jpg", noise)
    data = _masks(images, write, a=noise, b=noise)
    with pytest.raises(BadInput, match="that is an image, not a label map"):
        data.load("a").check()


def test_an_empty_mask_and_one_of_another_size_are_reported(images, write):
    data = _masks(images, write, a=BLOCK * 0, b=BLOCK[:, :9])
    with pytest.raises(BadInput, match="'object' is empty"):
        data.load("a").check()
    with pytest.raises(BadInput, match="image is 16 x 12 but its mask is 9 x 12"):
        data.load("b").check()


def test_a_damaged_mask_fails_only_its_scene(images, write):
    write(images / "masks" / "b.png", TWO)
    (images / "masks" / "a.png").write_bytes(b"no image")
    data = open_folder(str(images))
    assert _areas(data, "b") == {"1": 15, "2": 8}
    with pytest.raises(BadInput, match=r"a\.png' is not a whole image"):
        data.load("a").check()
    (images / "masks" / "b.png").write_bytes(b"no image")
    with pytest.raises(BadInput, match="is not a whole image"):
        open_folder(str(images))


def test_a_damaged_json_fails_only_its_scene(images):
    (images / "images" / "a.json").write_text(json.dumps([Mask.of(BLOCK).to_coco()]))
    (images / "images" / "b.json").write_text("{")
    data = open_folder(str(images))
    assert _areas(data, "a") == {"1": 15}
    with pytest.raises(BadInput, match=r"b\.json' is not a JSON file"):
        data.load("b").check()
    (images / "images" / "b.json").write_text("{}")
    with pytest.raises(BadInput, match="holds no run-length mask"):
        data.load("b").check()


def test_the_fingerprint_follows_images_and_masks(images, write):
    before = _masks(images, write, a=BLOCK, b=BLOCK).fingerprint()
    assert open_folder(str(images)).fingerprint() == before
    assert _masks(images, write, a=BLOCK, b=TWO).fingerprint() != before


GOOD = {
    "images/a.jpg": cv2.imencode(".jpg", np.zeros((12, 16, 3), np.uint8))[1].tobytes(),
    "masks/a.png": cv2.imencode(".png", TWO)[1].tobytes(),
    "masks.json": json.dumps({"a": [Mask.of(BLOCK).to_coco()]}).encode(),
    "images/a.json": json.dumps({"annotations": [Mask.of(BLOCK).to_coco()]}).encode(),
}


@given(
    st.sampled_from([("masks/a.png",), ("masks.json",), ("images/a.json",)]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=5),
    st.floats(0, 1.5),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_wrong_bytes_give_scenes_or_a_sentence(tmp_path_factory, which, changes, cut):
    folder = tmp_path_factory.mktemp("own")
    for name in ("images/a.jpg", *which):
        raw = bytearray(GOOD[name])
        if name in which:
            for place, value in changes:
                raw[int(place * (len(raw) - 1))] = value
            raw = raw[: int(cut * len(raw))]
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(bytes(raw))
    with contextlib.suppress(SegmeterError):
        data = open_folder(str(folder))
        assert "\n" not in data.recognised
        for scene in data.scenes():
            data.load(scene).check()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
    | st.sampled_from([Mask.of(BLOCK).to_coco(), {"size": [12, 16], "counts": [192]}]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["a", "a.jpg", "annotations", "images", "size", "counts", "segmentation",
                         "id", "label", "x"]),
        inner, max_size=4,
    ),
)  # fmt: skip


@given(JSON, st.sampled_from(["masks.json", "images/a.json"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_any_json_gives_scenes_or_a_sentence(tmp_path_factory, content, name):
    folder = tmp_path_factory.mktemp("own")
    (folder / "images").mkdir()
    (folder / "images" / "a.jpg").write_bytes(GOOD["images/a.jpg"])
    (folder / name).write_text(json.dumps(content))
    with contextlib.suppress(SegmeterError):
        data = open_folder(str(folder))
        for scene in data.scenes():
            data.load(scene).check()


def test_a_run_first_prints_what_was_recognised(images, write, tmp_path_factory, python):
    _masks(images, write, a=BLOCK, b=TWO)
    out = tmp_path_factory.mktemp("out") / "run"
    done = python.run(
        "-m", "segmeter", "run", "noc", "--model", "disc", "--dataset", images,
        "--rounds", 1, "--workers", 0, "--out", out, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"{images.name}: 2 images in 'images', masks in 'masks'; label maps" in done.stderr
    json.loads(done.stdout)


def _labelled(folder: Path, count: int, several: set[int]) -> Path:
    """Label maps with one object each, and with three in some of them."""
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    for i in range(count):
        cv2.imwrite(str(folder / "images" / f"{i:03}.png"), np.full((20, 30, 3), i, np.uint8))
        mask = np.zeros((20, 30), np.uint8)
        mask[2:6, 2:6] = 1
        if i in several:
            mask[8:12, 2:6], mask[14:18, 2:6] = 2, 3
        cv2.imwrite(str(folder / "masks" / f"{i:03}.png"), mask)
    return folder


def test_label_maps_are_found_anywhere_in_the_list(tmp_path: Path) -> None:
    data = open_folder(str(_labelled(tmp_path / "few", 16, {12, 13, 14, 15})))
    assert sum(len(data.load(scene).targets) for scene in data.scenes()) == 24
    many = open_folder(str(_labelled(tmp_path / "many", 70, {69})))
    assert len(many.load("069").targets) == 3


def test_a_label_map_among_masks_taken_for_binary_is_refused(tmp_path: Path) -> None:
    folder = _labelled(tmp_path / "hidden", 70, {1})
    data = open_folder(str(folder))
    assert len(data.load("000").targets) == 1
    with pytest.raises(BadInput, match=r"001.png' holds several values \(1, 2, 3\).* kind=labels"):
        len(data.load("001").targets)
    assert len(open_folder(str(folder), kind="binary").load("001").targets) == 1
    assert len(open_folder(str(folder), kind="labels").load("001").targets) == 3


@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_images_of_more_than_8_bits_keep_their_brightness(
    tmp_path: Path, bits: int, suffix: str
) -> None:
    ramp = np.linspace(0, (1 << bits) - 1, 256).astype(np.uint16)
    file = tmp_path / f"ramp.{suffix}"
    cv2.imwrite(str(file), np.tile(ramp, (4, 1)))
    assert np.abs(read_rgb(file)[0, :, 0].astype(int) - np.arange(256)).max() <= 1
