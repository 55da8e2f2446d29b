"""PASCAL VOC: grey values of colours name objects; its list is unpickled without risk."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.datasets.click_benchmarks import read_plain_pickle

# VOC's colours for objects 1 and 2 and for outlines, with OpenCV's grey values of them.
COLOURS = [(0, 0, 0), (128, 0, 0), (0, 128, 0), (224, 224, 192)]
FIRST, SECOND = 38, 75


@pytest.fixture
def made_up(tmp_path, write, photo):
    root = tmp_path / "PascalVOC"
    for name in ("2007_1", "2007_2"):
        write(root / "JPEGImages" / f"{name}.jpg", photo)
        indices = np.zeros((12, 16), np.uint8)
        indices[1:5, 1:5], indices[6:9, 6:9], indices[5, :] = 1, 2, 3
        table = Image.fromarray(indices, mode="P")
        table.putpalette([c for colour in COLOURS for c in colour])
        (root / "SegmentationObject").mkdir(exist_ok=True)
        table.save(root / "SegmentationObject" / f"{name}.png")
    _write_list(root, (["2007_2", "2007_2", "2007_1"], [FIRST, SECOND, SECOND]))
    return tmp_path


def _write_list(root: Path, content: object) -> Path:
    path = root / "ImageSets" / "Segmentation" / "test.pickle"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content))
    return path


def test_listed_objects_are_targets_and_outlines_are_not_judged(made_up):
    data = catalogue.datasets.make("pascal-voc", data=made_up)
    assert data.scenes() == ["2007_2", "2007_1"]
    scene = data.load("2007_2")
    scene.check()
    assert [(t.id, t.mask.area) for t in scene.targets] == [(str(FIRST), 16), (str(SECOND), 9)]
    assert scene.targets[0].ignore is not None
    assert scene.targets[0].ignore.area == 16
    assert len(data.load("2007_1").targets) == 1


def test_a_pickle_that_would_run_code_is_not_opened(made_up, tmp_path):
    class Mischief:
        def __reduce__(self):
            return Path.touch, (tmp_path / "done",)

    path = _write_list(made_up / "PascalVOC", ([Mischief()], [1]))
    with pytest.raises(BadInput, match="may run code"):
        read_plain_pickle(path)
    assert not (tmp_path / "done").exists()


@pytest.mark.parametrize("content", [([1], [1]), (["a"], ["b"]), (["a"], [1, 2]), ["a"], 7])
def test_a_list_of_something_else_is_refused(made_up, content):
    _write_list(made_up / "PascalVOC", content)
    with pytest.raises(BadInput, match="not a list of names and one of numbers"):
        catalogue.datasets.make("pascal-voc", data=made_up).scenes()


@given(st.binary(max_size=200), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_garbage_gives_plain_values_or_a_sentence(tmp_path: Path, raw: bytes, begun: bool):
    path = tmp_path / "a.pickle"
    path.write_bytes((pickle.dumps((["a"], [1]))[:-4] if begun else b"") + raw)
    try:
        read_plain_pickle(path)
    except BadInput as error:
        assert str(path) in str(error)


def test_missing_images_are_named_and_the_rest_is_run(made_up):
    (made_up / "PascalVOC" / "JPEGImages" / "2007_2.jpg").unlink()
    data = catalogue.datasets.make("pascal-voc", data=made_up)
    assert data.scenes() == ["2007_1"]
    assert data.card.missing.endswith("the first is '2007_2'")
    assert data.card.targets == 3417
