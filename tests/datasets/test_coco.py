"""COCO and LVIS: objects from one JSON file, as COCO's own library reads them."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pycocotools.coco import COCO

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound, SegmeterError
from segmeter.datasets import coco_files
from segmeter.datasets.coco_files import has_lists, index_of, outline

BOX = [[2, 2, 8, 2, 8, 6, 2, 6]]


def content() -> dict:
    """Two images of 16 x 12 pixels, four objects, one of them a crowd."""
    image = {"height": 12, "width": 16}
    crowd = {"size": [12, 16], "counts": [30, 20, 142]}
    return {
        "info": {"text": 'a brace { and a "quote"'},
        "images": [
            {"id": 7, "file_name": "b.png", **image},
            {"id": 3, "file_name": "a.png", **image},
            {"id": 4, "file_name": "no objects.png", **image},
        ],
        "annotations": [
            {"id": 1, "image_id": 3, "category_id": 5, "segmentation": BOX},
            {"id": 2, "image_id": 7, "category_id": 6, "segmentation": BOX, "iscrowd": 0},
            {"id": 9, "image_id": 3, "category_id": 5, "segmentation": crowd, "iscrowd": 1},
            {"id": 4, "image_id": 3, "category_id": 6, "segmentation": [[50, 50, 60, 50, 60, 60]]},
        ],
        "categories": [
            {"id": 5, "name": "café", "supercategory": "place"},
            {"id": 6, "name": "dog"},
        ],
    }


@pytest.fixture
def made_up(tmp_path, write, photo):
    for name in ("a.png", "b.png"):
        write(tmp_path / "coco" / "val2017" / name, photo)
    file = tmp_path / "coco" / "annotations" / "instances_val2017.json"
    file.parent.mkdir()
    file.write_text(json.dumps(content(), ensure_ascii=False), encoding="utf-8")
    return file


def _rewrite(file: Path, **changes) -> None:
    file.write_text(json.dumps({**content(), **changes}))


def _open(file: Path, **options):
    return catalogue.datasets.make("coco", data=file.parents[2], **options)


@pytest.mark.parametrize(
    ("name", "file", "objects", "images"),
    [
        ("coco", "instances_val2017_subset.json", 130, 15),
        ("lvis", "lvis_v0.5_val_subset.json", 39, 9),
    ],
)
def test_real_objects_are_those_of_pycocotools(real_data, name, file, objects, images):
    """133 objects of COCO, 3 of them crowds; 39 of LVIS."""
    data = catalogue.datasets.make(name, data=real_data)
    reference = COCO(str(real_data / "coco" / "annotations" / file))
    assert data.card.targets == objects
    assert data.card.missing == ""
    assert len(data.scenes()) == images
    count = 0
    for scene in map(data.load, data.scenes()):
        scene.check()
        for target in scene.targets:
            record = reference.anns[int(target.id)]
            assert np.array_equal(target.mask.dense(), reference.annToMask(record) > 0)
            assert target.label == reference.cats[record["category_id"]]["name"]
            count += 1
    assert count == objects


def test_crowds_are_targets_on_request(real_data):
    data = catalogue.datasets.make("coco?crowd=keep", data=real_data)
    assert data.card.targets == 133
    assert "Crowd" not in data.card.notes
    found = sum(len(data.load(scene).targets) for scene in data.scenes())
    assert found == 133


def test_scenes_keep_the_files_order_and_objects_theirs(made_up):
    data = _open(made_up)
    assert data.scenes() == ["b", "a"]
    assert [target.id for target in data.load("a").targets] == ["1"]
    assert data.card.targets == 3
    assert "Crowd regions left out: 1." in data.card.notes
    kept = _open(made_up, crowd="keep")
    assert [target.id for target in kept.load("a").targets] == ["1", "9"]
    assert kept.load("a").targets[1].mask.area == 20


def test_classes_and_sizes_are_groups(made_up):
    target = _open(made_up).load("a").targets[0]
    assert target.label == "café"
    assert target.groups == {"size": "small", "supercategory": "place"}


def test_missing_images_are_named_and_the_rest_is_run(made_up):
    (made_up.parents[1] / "val2017" / "b.png").unlink()
    data = _open(made_up)
    assert data.scenes() == ["a"]
    assert data.card.missing.startswith("1 of 2 images is not in")
    assert data.card.missing.endswith("the first is 'b'")
    with pytest.raises(NotFound, match=r"coco/b: no image 'b\.png'"):
        data.load("b")


def test_a_folder_without_any_of_the_images_is_refused(made_up, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(NotFound, match=r"none of its 2 images is in .* put the images there"):
        _open(made_up, images=str(tmp_path / "elsewhere"))


def test_lvis_images_are_found_by_their_address(tmp_path, write, photo):
    write(tmp_path / "coco" / "train2017" / "000000000042.png", photo)
    image = {"id": 1, "height": 12, "width": 16,
             "coco_url": "http://images.cocodataset.org/train2017/000000000042.png"}  # fmt: skip
    things = [{"id": 1, "image_id": 1, "category_id": 1, "segmentation": BOX}]
    file = tmp_path / "coco" / "annotations" / "lvis_v1_val.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"images": [image], "annotations": things, "categories": []}))
    (tmp_path / "coco" / "val2017").mkdir()
    for options in ({}, {"images": str(tmp_path / "coco")}):
        data = catalogue.datasets.make("lvis", data=tmp_path, **options)
        scene = data.load(data.scenes()[0])
        scene.check()
        assert (scene.name, scene.shape, len(scene.targets)) == ("lvis/000000000042", (12, 16), 1)


def test_a_custom_file_is_read(made_up, tmp_path):
    data = catalogue.datasets.make(
        "coco", annotations=str(made_up), images=str(tmp_path / "coco" / "val2017")
    )
    assert data.scenes() == ["b", "a"]
    with pytest.raises(NotFound, match="no file"):
        catalogue.datasets.make("coco", annotations=str(tmp_path / "gone.json"))
    with pytest.raises(BadInput, match="leave-out or keep"):
        _open(made_up, crowd="maybe")


@pytest.mark.parametrize(
    "changes",
    [
        {"images": None},
        {"images": [{"id": 1}]},
        {"images": [{"id": 3, "height": 9, "width": 0, "file_name": "a"}], "annotations": []},
        {"images": [{"id": 3, "height": 1e400, "width": 9, "file_name": "a"}], "annotations": []},
        {"images": [{"id": 3, "height": 9, "width": 9, "file_name": "../a"}], "annotations": []},
        {"images": [{"id": 3, "height": 9, "width": 9}], "annotations": []},
        {"annotations": [{"id": 1, "image_id": 99}]},
        {"annotations": [{"image_id": 3}]},
        {"annotations": [3]},
        {"annotations": {"id": 3}},
        {"annotations": [{"id": 1, "image_id": [3]}]},
    ],
)
def test_another_layout_is_reported_in_one_sentence(made_up, changes):
    _rewrite(made_up, **changes)
    with pytest.raises(BadInput, match="not a JSON file of COCO's layout") as caught:
        _open(made_up).scenes()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "segmentation",
    [None, 3, [], [[1]], [[1, 2, 3, 4, 5]], ["text"], {"size": [12, 16]}, {"counts": "abc"},
     {"size": [12, 16], "counts": [1, 2]}, {"size": [1 << 20, 1 << 20], "counts": [1 << 40]},
     {"size": [12, 16], "counts": [1 << 62, 1 << 62, 1 << 62, 1 << 62, 192]},
     {"size": [12, 16], "counts": [1 << 70]}, {"size": "ab", "counts": ""},
     {"size": [12, 16], "counts": "\x00\xff"}, {"size": [-1, -5], "counts": [5]}],
)  # fmt: skip
def test_a_wrong_outline_is_reported_or_empty(segmentation):
    try:
        mask = outline(segmentation, (12, 16), "here")
    except BadInput as error:
        assert str(error).startswith("here: its outline cannot be read")
    else:
        assert segmentation == []
        assert not mask


def test_one_wrong_object_fails_only_its_scene(made_up):
    things = content()["annotations"]
    things[0]["segmentation"] = [[1]]
    _rewrite(made_up, annotations=things)
    data = _open(made_up)
    data.load("b").check()
    with pytest.raises(BadInput, match="object 1: its outline cannot be read"):
        data.load("a").check()


def test_large_files_are_parsed_once(made_up, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(coco_files, "_LARGE", 1)
    first = index_of(made_up)
    built = coco_files._built
    monkeypatch.setattr(coco_files, "_built", lambda *_: pytest.fail("gone through again"))
    again = index_of(made_up)
    assert again.images == first.images
    assert again.categories == first.categories
    assert again.read(np.arange(4)) == first.read(np.arange(4))
    assert _open(made_up).load("a").targets[0].label == "café"
    (table,) = (tmp_path / "cache" / "segmeter" / "coco").iterdir()
    table.write_bytes(table.read_bytes()[:-40])
    monkeypatch.setattr(coco_files, "_built", built)
    assert np.array_equal(index_of(made_up).image, first.image)


@pytest.mark.parametrize("indent", [None, 1])
def test_objects_of_a_large_file_are_those_of_a_small_one(made_up, tmp_path, monkeypatch, indent):
    """Whatever comes first: the objects, the images, or a list of that name inside an image."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    whole = content()
    inside = {**whole["images"][0], "annotations": [{"id": 1}]}
    complete = {**inside, "annotations": whole["annotations"]}
    for parts in (
        whole,
        {**whole, "images": [complete, *whole["images"][1:]], "annotations": []},
        dict(reversed(whole.items())),
        {**whole, "annotations": []},
        {**whole, "images": [inside, *whole["images"][1:]]},
    ):
        made_up.write_text(json.dumps(parts, indent=indent))
        monkeypatch.setattr(coco_files, "_LARGE", 1 << 26)
        small = index_of(made_up)
        monkeypatch.setattr(coco_files, "_LARGE", 1)
        for large in (index_of(made_up), index_of(made_up)):
            assert large.images == small.images
            assert large.image.tolist() == small.image.tolist()
            assert large.crowd.tolist() == small.crowd.tolist()
            assert large.read(np.arange(len(small.image))) == small.objects


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32-le"])
@pytest.mark.parametrize("id", [3, 3.0, 2.5, "é\u2028[1.5]", "3.0", True])
def test_ids_and_encodings_of_a_large_file_mean_what_they_mean_in_a_small_one(
    made_up, tmp_path, monkeypatch, id, encoding
):
    """Floats are skipped when objects are found, but not those that count."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    images = [
        {"id": i, "height": 9, "width": 9, "file_name": f"{n}é"} for n, i in enumerate((0, id))
    ]
    crowds = (None, 0, 1, 0.0, 1.0, True, "", "0", [])
    things = [{"id": 0.5, "image_id": id, "iscrowd": c, "area": 4.5, "name": "é"} for c in crowds]
    things.append({"image_id": 0.0, "id": 1, "segmentation": [[1.5, 2e3, -0.0]]})
    whole = {"annotations": things, "images": images, "categories": [{"name": "café"}]}
    made_up.write_bytes(json.dumps(whole, ensure_ascii=False).encode(encoding))
    small = index_of(made_up)
    monkeypatch.setattr(coco_files, "_LARGE", 1)
    for large in (index_of(made_up), index_of(made_up)):
        assert large.images == images
        assert large.categories == whole["categories"]
        assert large.image.tolist() == small.image.tolist() == [1] * len(crowds) + [0]
        assert large.crowd.tolist() == small.crowd.tolist() == [*map(bool, crowds), False]
        assert large.read(np.arange(len(things))) == things


def test_a_large_file_of_wrong_bytes_is_refused_when_it_is_opened(made_up, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(coco_files, "_LARGE", 1)
    whole = made_up.read_bytes()
    for wrong in (
        whole.replace(b'"id"', b'"\xff"', 1),
        whole.replace(b"}, {", b"}, , {"),
        whole[:-9],
    ):
        made_up.write_bytes(wrong)
        with pytest.raises(ValueError):
            index_of(made_up)


def test_letters_of_several_bytes_do_not_make_a_large_file_small(made_up, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made_up.write_text(json.dumps({"note": "é" * 400, **content()}, ensure_ascii=False))
    monkeypatch.setattr(coco_files, "_LARGE", made_up.stat().st_size - 100)
    first = index_of(made_up).read(np.arange(4))
    assert index_of(made_up).read(np.arange(4)) == first == content()["annotations"]


def test_a_changed_file_is_parsed_again(made_up, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(coco_files, "_LARGE", 1)
    assert len(index_of(made_up).objects) == 4
    _rewrite(made_up, annotations=content()["annotations"][:2])
    assert len(index_of(made_up).objects) == 2


def test_a_cache_that_cannot_be_written_only_costs_time(made_up, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file, not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(coco_files, "_LARGE", 1)
    assert len(index_of(made_up).objects) == 4


def test_a_byte_order_mark_does_no_harm(made_up):
    made_up.write_bytes(b"\xef\xbb\xbf" + made_up.read_bytes())
    assert has_lists(made_up)
    assert _open(made_up).load("a").targets[0].label == "café"


WHOLE = json.dumps(content()).encode()


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(max_size=3)), max_size=6),
       st.integers(0, len(WHOLE)))  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_wrong_bytes_give_scenes_or_a_sentence(made_up: Path, changes, cut: int):
    raw = WHOLE
    for place, put in changes:
        raw = raw[:place] + put + raw[place + len(put) :]
    made_up.write_bytes(raw[:cut] if cut % 2 else raw)
    with contextlib.suppress(SegmeterError):
        data = _open(made_up)
        for scene in data.scenes():
            with contextlib.suppress(SegmeterError):
                data.load(scene).check()
