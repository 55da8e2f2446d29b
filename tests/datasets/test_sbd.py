"""SBD: one scene an image, its objects by number."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound


@pytest.fixture
def made_up(tmp_path, write, photo):
    root = tmp_path / "SBD"
    labels = np.zeros((12, 16), np.uint8)
    labels[2:5, 2:6], labels[7:9, 8:12] = 2, 1
    for name in ("2008_2", "2008_1"):
        write(root / "img" / f"{name}.jpg", photo)
        (root / "inst").mkdir(exist_ok=True)
        record = {"Segmentation": labels, "Categories": np.array([[15], [7]], np.uint8)}
        scipy.io.savemat(root / "inst" / f"{name}.mat", {"GTinst": record})
    (root / "val.txt").write_text("2008_2\n2008_1\n\n")
    return tmp_path


def test_scenes_are_in_list_order_and_objects_ascend(made_up):
    data = catalogue.datasets.make("sbd", data=made_up)
    assert data.scenes() == ["2008_2", "2008_1"]
    scene = data.load("2008_2")
    scene.check()
    assert [(t.id, t.label, t.mask.area) for t in scene.targets] == [
        ("1", "person", 8),
        ("2", "car", 12),
    ]


def test_the_original_archive_is_found_too(made_up):
    (made_up / "benchmark_RELEASE").mkdir()
    (made_up / "SBD").rename(made_up / "benchmark_RELEASE" / "dataset")
    assert len(catalogue.datasets.make("sbd", data=made_up).scenes()) == 2


def test_missing_and_damaged_masks_are_reported(made_up):
    data = catalogue.datasets.make("sbd", data=made_up)
    (made_up / "SBD" / "inst" / "2008_1.mat").unlink()
    (made_up / "SBD" / "inst" / "2008_2.mat").write_bytes(b"no matlab")
    with pytest.raises(NotFound, match="sbd/2008_1: no mask"):
        data.load("2008_1").check()
    with pytest.raises(BadInput, match=r"2008_2\.mat' is not a whole MATLAB file"):
        data.load("2008_2").check()


def test_missing_images_are_named_and_the_rest_is_run(made_up):
    (made_up / "SBD" / "img" / "2008_2.jpg").unlink()
    data = catalogue.datasets.make("sbd", data=made_up)
    assert data.scenes() == ["2008_1"]
    assert data.card.missing.startswith("1 of 2 images is not in")
    assert data.card.targets == 6671
    (made_up / "SBD" / "img" / "2008_1.jpg").unlink()
    with pytest.raises(NotFound, match="none of its 2 images is in"):
        catalogue.datasets.make("sbd", data=made_up).scenes()
