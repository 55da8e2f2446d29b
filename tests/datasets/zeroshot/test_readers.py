"""Each reader of the 23 sets on a made-up folder in its layout, and what it refuses."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask

SHAPE = (12, 16)
PHOTO = np.arange(12 * 16 * 3, dtype=np.uint8).reshape(12, 16, 3)


def put(path, pixels=PHOTO):
    """Write an image; colours are RGB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = pixels[:, :, ::-1] if pixels.ndim == 3 else pixels
    worked, raw = cv2.imencode(path.suffix, stored)
    assert worked
    path.write_bytes(raw.tobytes())


def note(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def opened(name, root):
    return catalogue.datasets.make(name, data=root)


def read_all(name, root):
    data = opened(name, root)
    return [data.load(scene).targets for scene in data.scenes()]


def areas(data, scene):
    loaded = data.load(scene)
    loaded.check()
    assert loaded.shape == SHAPE
    return {target.id: target.mask.area for target in loaded.targets}


def square(x, y, side):
    return [[x, y], [x + side, y], [x + side, y + side], [x, y + side]]


def labels():
    values = np.zeros(SHAPE, np.uint8)
    values[1:4, 1:4], values[6:8, 5:9] = 1, 7
    return values


def test_label_png_has_a_mask_for_every_value_but_zero(tmp_path):
    put(tmp_path / "ppdls" / "images" / "A1" / "plant001_rgb.png")
    put(tmp_path / "ppdls" / "labels" / "A1" / "plant001_label.png", labels())
    put(tmp_path / "ppdls" / "images" / "A1" / "plant002_rgb.png")  # without labels
    data = opened("ppdls", tmp_path)
    assert data.scenes() == ["A1/plant001"]
    assert areas(data, "A1/plant001") == {"1": 9, "7": 8}


def test_label_png_separates_colours_and_omits_the_ignored_region(tmp_path):
    colours = np.zeros((*SHAPE, 3), np.uint8)
    colours[1:3, 1:3], colours[5:8, 5:8] = (255, 0, 0), (0, 0, 255)
    put(tmp_path / "gtea" / "images" / "f.jpg")
    put(tmp_path / "gtea" / "masks" / "f.png", colours)
    assert areas(opened("gtea", tmp_path), "f") == {"255": 9, str(255 * 65536): 4}
    void = labels()
    void[10] = 255
    put(tmp_path / "dram" / "test" / "p.jpg")
    put(tmp_path / "dram" / "labels" / "p.png", void)
    assert areas(opened("dram", tmp_path), "p") == {"1": 9, "7": 8}


def test_label_png_names_the_known_classes(tmp_path):
    put(tmp_path / "egohos" / "train" / "image" / "e.jpg")
    put(tmp_path / "egohos" / "train" / "label" / "e.png", labels())
    targets = opened("egohos", tmp_path).load("e").targets
    assert [t.label for t in targets] == ["left hand", ""]


def test_folder_of_masks_has_a_file_an_object(tmp_path):
    root = tmp_path / "bbbc038" / "stage1_train"
    for name in ("a", "b"):
        put(root / name / "images" / f"{name}.png")
        put(root / name / "masks" / "1.png", 255 * (labels() == 1).astype(np.uint8))
        put(root / name / "masks" / "2.png", 255 * (labels() == 7).astype(np.uint8))
    put(root / "b" / "masks" / "empty.png", np.zeros(SHAPE, np.uint8))
    data = opened("bbbc038", tmp_path)
    assert data.scenes() == ["a", "b"]
    assert areas(data, "b") == {"1": 9, "2": 8}


def test_real_nuclei_are_read_whole(real_data):
    """24 images with 479 masks, by the folder's own page."""
    data = opened("bbbc038", real_data)
    assert len(data.scenes()) == 24
    assert sum(len(data.load(scene).targets) for scene in data.scenes()) == 479


def test_ade_png_reads_classes_instances_and_parts(tmp_path):
    """(R // 10) * 256 + G is the class, B the instance; parts are masks of their own."""
    seg = np.zeros((*SHAPE, 3), np.uint8)
    seg[1:4, 1:4], seg[6:8, 5:9], seg[6:8, 10:12] = (10, 5, 100), (0, 9, 100), (0, 9, 200)
    parts = np.zeros((*SHAPE, 3), np.uint8)
    parts[1:2, 1:4] = (0, 3, 50)
    root = tmp_path / "ade20k" / "images" / "validation" / "street"
    put(root / "ADE_val_1.jpg")
    put(root / "ADE_val_1_seg.png", seg)
    put(root / "ADE_val_1_parts_1.png", parts)
    data = opened("ade20k", tmp_path)
    assert areas(data, "ADE_val_1") == {"9-100": 8, "9-200": 4, "261-100": 9, "part1-3-50": 3}


def test_id_png_has_stuff_below_1000_and_leaves_out_void_and_crowds(tmp_path):
    ids = np.zeros(SHAPE, np.uint16)  # 0: unlabelled
    ids[0:2], ids[3:5, :4], ids[6:9, :5], ids[6:9, 8:10] = 7, 26, 26000, 26001
    ids[11] = 9  # parking: not among the classes that count
    root = tmp_path / "cityscapes"
    put(root / "leftImg8bit" / "val" / "bonn" / "bonn_1_leftImg8bit.png")
    put(root / "gtFine" / "val" / "bonn" / "bonn_1_gtFine_instanceIds.png", ids)
    put(root / "gtFine" / "val" / "bonn" / "bonn_1_gtFine_labelIds.png", ids.astype(np.uint8))
    data = opened("cityscapes", tmp_path)
    assert areas(data, "bonn/bonn_1") == {"7": 32, "26000": 15, "26001": 6}
    assert [t.label for t in data.load("bonn/bonn_1").targets] == ["road", "car", "car"]


def test_hdf5_ids_have_nothing_at_minus_one(tmp_path):
    h5py = pytest.importorskip("h5py")
    ids = np.full(SHAPE, -1, np.int16)
    ids[1:3, 1:3], ids[5:8, 5:8] = 4, 0
    root = tmp_path / "hypersim" / "ai_001_001" / "images"
    put(root / "scene_cam_00_final_preview" / "frame.0000.tonemap.jpg")
    file = root / "scene_cam_00_geometry_hdf5" / "frame.0000.semantic_instance.hdf5"
    file.parent.mkdir()
    with h5py.File(file, "w") as made:
        made["dataset"] = ids
    data = opened("hypersim", tmp_path)
    (scene,) = data.scenes()
    assert areas(data, scene) == {"0": 9, "4": 4}
    with h5py.File(file, "w") as made:
        made["other"] = ids
    with pytest.raises(BadInput, match="has no 'dataset'; it has other"):
        _ = opened("hypersim", tmp_path).load(scene).targets
    file.write_bytes(b"nothing")
    with pytest.raises(BadInput, match="not a complete HDF5 file"):
        _ = opened("hypersim", tmp_path).load(scene).targets


def test_coco_json_unites_parts_and_leaves_out_crowds(tmp_path):
    flat = [[1, 1, 4, 1, 4, 4, 1, 4], [8, 8, 10, 8, 10, 10, 8, 10]]
    crowd = Mask.box(SHAPE, (0, 0), (3, 3)).to_coco()
    runs = Mask.box(SHAPE, (5, 5), (7, 8)).to_coco()
    put(tmp_path / "timberseg" / "images" / "p.jpg")
    note(tmp_path / "timberseg" / "annotations.json", {
        "images": [{"id": 3, "file_name": "p.jpg", "height": 12, "width": 16}],
        "annotations": [
            {"id": 1, "image_id": 3, "category_id": 1, "segmentation": flat, "iscrowd": 0},
            {"id": 2, "image_id": 3, "category_id": 1, "segmentation": crowd, "iscrowd": 1},
            {"id": 5, "image_id": 3, "category_id": 1, "segmentation": runs, "iscrowd": 0},
        ],
        "categories": [{"id": 1, "name": "log"}],
    })  # fmt: skip
    data = opened("timberseg", tmp_path)
    assert areas(data, "p") == {"1": 13, "5": 6}
    assert data.load("p").targets[0].groups["size"] == "small"


def test_ytvis_json_has_a_scene_a_frame_and_passes_over_absent_tracks(tmp_path):
    root = tmp_path / "ovis"
    for frame in ("v1/img_1.jpg", "v1/img_2.jpg", "v1/img_3.jpg"):
        put(root / "train" / frame)
    runs = Mask.box(SHAPE, (5, 5), (7, 8))
    plain = {"size": list(SHAPE), "counts": runs.run_lengths().tolist()}
    note(root / "annotations_train.json", {
        "videos": [{"id": 1, "file_names": ["v1/img_1.jpg", "v1/img_2.jpg", "v1/img_3.jpg"],
                    "height": 12, "width": 16}],
        "categories": [{"id": 4, "name": "fish"}],
        "annotations": [
            {"id": n, "video_id": 1, "category_id": 4, "segmentations": [first, None, last]}
            for n, first, last in ((7, runs.to_coco(), plain), (8, runs.to_coco(), None))
        ],
    })  # fmt: skip
    data = opened("ovis", tmp_path)
    assert data.scenes() == ["v1/img_1", "v1/img_3"]
    assert areas(data, "v1/img_1") == {"7": 6, "8": 6}
    assert areas(data, "v1/img_3") == {"7": 6}
    target = data.load("v1/img_3").targets[0]
    assert (target.label, target.groups["image"]) == ("fish", "v1")


def test_visor_json_unites_an_entitys_polygons(tmp_path):
    root = tmp_path / "visor"
    put(root / "rgb_frames" / "val" / "P01" / "P01_1_frame_7.jpg")
    note(root / "annotations" / "val" / "P01_1.json", {"video_annotations": [
        {"image": {"name": "P01_1_frame_7.jpg", "video": "P01_1"}, "annotations": [
            {"id": "a", "name": "left hand", "segments": [square(1, 1, 3), square(8, 8, 2)]},
            {"id": "b", "name": "knife", "segments": [square(5, 1, 2), []]},
        ]},
        {"image": {"name": "gone.jpg", "video": "P01_1"}, "annotations": []},
    ]})  # fmt: skip
    data = opened("visor", tmp_path)
    assert areas(data, "P01_1_frame_7") == {"a": 13, "b": 4}
    assert data.load("P01_1_frame_7").targets[1].label == "knife"


@pytest.mark.parametrize(
    "content",
    [
        {"annotation": [{"tags": ["car"], "segmentation": square(1, 1, 3)}]},
        {"shapes": [{"label": "car", "points": square(1, 1, 3)}]},
        {"s.png": {"objects": [{"class": "car", "polygon": [1, 1, 4, 1, 4, 4, 1, 4]}]}},
        [{"label": "car", "segmentation": [[1, 1, 4, 1, 4, 4, 1, 4]]}],
    ],
)
def test_polygon_json_is_read_in_the_ways_people_write_it(tmp_path, content):
    put(tmp_path / "woodscape" / "rgb_images" / "s.png")
    note(tmp_path / "woodscape" / "instance_annotations" / "s.json", content)
    data = opened("woodscape", tmp_path)
    assert areas(data, "s") == {"1": 9}
    assert data.load("s").targets[0].label == "car"


@pytest.mark.parametrize("wrapped", [False, True])
def test_via_json_reads_regions_as_list_or_by_number(tmp_path, wrapped):
    shape = {"name": "polygon", "all_points_x": [1, 4, 4, 1], "all_points_y": [1, 1, 4, 4]}
    region = {"shape_attributes": shape, "region_attributes": {"species": "WBD"}}
    point = {"shape_attributes": {"name": "point", "cx": 1, "cy": 1}, "region_attributes": {}}
    content = {
        "d.jpg99": {"filename": "d.jpg", "regions": [region, point]},
        "e.jpg98": {"filename": "e.jpg", "regions": {"0": region}},
        "f.jpg97": {"filename": "f.jpg", "regions": []},
    }
    for name in ("d", "e", "f"):
        put(tmp_path / "ndd20" / "images" / f"{name}.jpg")
    whole = {"_via_img_metadata": content} if wrapped else content
    note(tmp_path / "ndd20" / "annotations" / "above.json", whole)
    data = opened("ndd20", tmp_path)
    assert data.scenes() == ["d", "e"]
    assert areas(data, "d") == areas(data, "e") == {"1": 9}
    assert data.load("e").targets[0].label == "WBD"


def test_a_mask_of_another_size_is_refused_with_both_sizes(tmp_path):
    put(tmp_path / "doors" / "images" / "x.png")
    put(tmp_path / "doors" / "masks" / "x.png", labels()[:10])
    with pytest.raises(BadInput, match="16 x 10 but its image is 16 x 12"):
        _ = opened("doors", tmp_path).load("x").targets


@pytest.mark.parametrize(
    ("name", "file", "image", "content"),
    [
        ("ndd20", "annotations/a.json", "images/d.jpg", {"d.jpg": {"regions": 3}}),
        ("ovis", "annotations_train.json", "train/v/1.jpg", {"videos": [{"id": 1}]}),
        ("visor", "annotations/val/v.json", "rgb_frames/val/f.jpg", {"frames": []}),
        ("woodscape", "instance_annotations/s.json", "rgb_images/s.png", {"things": []}),
        ("timberseg", "annotations.json", "images/p.jpg", {"images": []}),
    ],
)
def test_a_file_of_another_layout_is_refused_in_a_sentence(tmp_path, name, file, image, content):
    put(tmp_path / name / image)
    for written in (content, [1], "text"):
        note(tmp_path / name / file, written)
        with pytest.raises((BadInput, NotFound)) as caught:
            read_all(name, tmp_path)
        assert "\n" not in str(caught.value)
    (tmp_path / name / file).write_text("{")
    with pytest.raises(BadInput):
        read_all(name, tmp_path)
