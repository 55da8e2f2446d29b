"""The detectors of the catalogue on real images, and what they refuse."""

from __future__ import annotations

import json

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, BadWeights, NotFound
from segmeter.models.detectors import COCO_CATEGORIES, Detector, _letter_box, suppressed

NAMES = sorted(entry.name for entry in catalogue.detectors)


@pytest.fixture(scope="module")
def images(real_data):
    return catalogue.datasets.make("coco", data=real_data / "coco80")


@pytest.fixture(scope="module")
def image_ids(real_data):
    file = real_data / "coco80" / "coco" / "annotations" / "instances_val2017.json"
    images = json.loads(file.read_text())["images"]
    return {image["file_name"].partition(".")[0]: image["id"] for image in images}


def test_cocos_categories_are_eighty_with_the_gaps_of_its_files(real_data):
    file = real_data / "coco80" / "coco" / "annotations" / "instances_val2017.json"
    assert [c["id"] for c in json.loads(file.read_text())["categories"]] == list(COCO_CATEGORIES)


def test_picodet_finds_what_the_reference_found(images, image_ids, golden, real_weights):
    """Boxes are kept to a hundredth of a pixel there, scores to four digits."""
    expected = json.loads((golden / "zeroshot" / "real" / "picodet_coco80.json").read_text())
    detector = catalogue.detectors.make("picodet", weights=str(real_weights))
    for scene in images.scenes()[:8]:
        found = detector.detect(images.load(scene).pixels)
        wanted = [d for d in expected if d["image_id"] == image_ids[scene]]
        assert [d.category for d in found] == [d["category_id"] for d in wanted]
        assert [d.score for d in found] == pytest.approx([d["score"] for d in wanted], abs=1e-4)
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.xywh == pytest.approx(theirs["bbox"], abs=0.02)


def test_yolox_finds_large_objects_of_the_right_class(images, real_weights):
    detector = catalogue.detectors.make("yolox-nano?least=0.5", weights=str(real_weights))
    good = many = 0
    for scene in images.scenes()[:6]:
        loaded = images.load(scene)
        found = detector.detect(loaded.pixels)
        assert [d.score for d in found] == sorted((d.score for d in found), reverse=True)
        many += len(found)
        good += sum(any(_iou(d, t) > 0.5 for t in loaded.targets) for d in found)
    assert many >= 8
    assert good >= 0.7 * many


@pytest.mark.parametrize("name", NAMES)
def test_every_detector_has_a_card_and_finds_nothing_in_a_grey_image(name, real_weights):
    detector = catalogue.detectors.make(name, weights=str(real_weights))
    assert isinstance(detector, Detector)
    card = detector.card
    assert card.name == name
    assert card.licence
    assert card.citation
    assert len(card.fingerprint) == 32
    assert detector.detect(np.full((60, 90, 3), 128, np.uint8)) == []


@pytest.mark.parametrize("name", NAMES)
def test_damaged_foreign_and_absent_weights_are_refused(name, tmp_path, monkeypatch, real_weights):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SEGMETER_WEIGHTS", raising=False)
    with pytest.raises(NotFound, match=f"no weights for '{name}'"):
        catalogue.detectors.make(name, weights=str(tmp_path))
    image = np.zeros((20, 20, 3), np.uint8)
    folder = tmp_path / name
    folder.mkdir()
    (folder / "net.onnx").write_bytes(b"\x08\x07nothing")
    with pytest.raises(BadWeights, match="damaged or cut short"):
        catalogue.detectors.make(name, weights=str(tmp_path)).detect(image)
    (other,) = (n for n in NAMES if n != name)
    (file,) = (real_weights / other).glob("*.onnx")
    (folder / "net.onnx").write_bytes(file.read_bytes())
    with pytest.raises(BadWeights, match="holds another network"):
        catalogue.detectors.make(name, weights=str(tmp_path)).detect(image)


@pytest.mark.parametrize("name", NAMES)
def test_a_least_score_outside_0_to_1_is_refused(name, real_weights):
    for wrong, wanted in (("1.5", "from 0 to 1"), ("-1", "from 0 to 1"), ("high", "is a number")):
        with pytest.raises(BadInput, match=wanted):
            catalogue.detectors.make(f"{name}?least={wrong}", weights=str(real_weights))


def test_suppression_keeps_a_box_that_overlaps_just_as_much_as_allowed():
    boxes = np.array([[0, 0, 10, 10], [0, 5, 10, 15.0]])
    assert suppressed(boxes, np.array([3, 3]), 1 / 3) == [0, 1]
    assert suppressed(boxes, np.array([3, 3]), 0.33) == [0]


def _iou(found, target):
    x, y, width, height = found.xywh
    (top, left), (bottom, right) = target.mask.low, target.mask.high
    wide = max(0, min(x + width, right) - max(x, left))
    high = max(0, min(y + height, bottom) - max(y, top))
    both = wide * high
    return both / (width * height + (bottom - top) * (right - left) - both)


def test_a_strip_of_two_rows_keeps_a_row_in_the_square() -> None:
    frame, scale = _letter_box(np.zeros((2, 3000, 3), np.uint8))
    assert frame.shape == (1, 3, 416, 416)
    assert (frame[0, 0] == 0).sum() == 416  # one row of the image, the rest is grey
    assert scale == 416 / 3000
