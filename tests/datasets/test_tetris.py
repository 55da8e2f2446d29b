"""TETRIS: labels in colours, names with dots, a limit on the long side."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.core import catalogue
from segmeter.core.errors import NotFound
from segmeter.datasets.click_benchmarks import fitted


@pytest.fixture
def made_up(tmp_path, write, photo):
    root = tmp_path / "TETRIS"
    labels = np.zeros((12, 16, 3), np.uint8)
    labels[2:6, 2:6] = (1, 0, 0)  # red is the low byte
    labels[6:10, 8:14] = (0, 0, 1)  # blue the high one
    write(root / "images" / "man. 30 years.jpg", photo)
    write(root / "masks" / "man. 30 years.png", labels)
    write(root / "images" / "wide.png", np.zeros((4, 32, 3), np.uint8))
    return tmp_path


def test_labels_are_read_with_blue_as_the_high_byte(made_up):
    scene = catalogue.datasets.make("tetris", data=made_up).load("man. 30 years")
    scene.check()
    assert [(t.id, t.mask.area) for t in scene.targets] == [("1", 16), ("65536", 24)]


def test_a_limit_shrinks_image_and_masks_by_the_same_factor(made_up):
    data = catalogue.datasets.make("tetris?longest=8", data=made_up)
    scene = data.load("man. 30 years")
    scene.check()
    assert scene.shape == (6, 8)
    assert [t.mask.area for t in scene.targets] == [4, 6]
    assert data.load("wide").shape == (1, 8)


def test_a_list_of_names_chooses_scenes(made_up):
    (made_up / "val.txt").write_text("wide\nnot there\n")
    data = catalogue.datasets.make(f"tetris?stems={made_up / 'val.txt'}", data=made_up)
    assert data.scenes() == ["wide"]
    with pytest.raises(NotFound, match="tetris/wide: no mask"):
        data.load("wide").check()


@given(st.integers(1, 9000), st.integers(1, 9000))
def test_the_long_side_is_limited_and_small_images_stay(height, width):
    tall, wide = fitted((height, width), 2048)
    assert max(tall, wide) == min(max(height, width), 2048)
    if max(height, width) <= 2048:
        assert (tall, wide) == (height, width)


def test_missing_images_are_counted(made_up):
    data = catalogue.datasets.make("tetris", data=made_up)
    assert "1998 of 2000 images are not in" in data.card.missing
    assert "1 of 2 masks is not in" in data.card.missing
    (made_up / "val.txt").write_text("wide\nnot there\n")
    listed = catalogue.datasets.make("tetris", data=made_up, stems=str(made_up / "val.txt"))
    assert "1 of 2 listed images is not in" in listed.card.missing
    (made_up / "none.txt").write_text("nothing\n")
    with pytest.raises(NotFound, match="no image in"):
        catalogue.datasets.make("tetris", data=made_up, stems=str(made_up / "none.txt"))
