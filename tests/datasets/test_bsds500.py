"""BSDS500: images, partitions and boundaries by several people."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound


def _write_ground_truth(path, *maps):
    cells = np.empty((1, len(maps)), dtype=object)
    for place, labels in enumerate(maps):
        edges = np.zeros(labels.shape, np.uint8)
        edges[0] = 1
        cells[0, place] = {"Segmentation": labels.astype(np.uint16), "Boundaries": edges}
    path.parent.mkdir(parents=True, exist_ok=True)
    scipy.io.savemat(path, {"groundTruth": cells})


@pytest.fixture
def made_up(tmp_path, write, photo):
    root = tmp_path / "BSDS500"
    write(root / "images" / "test" / "12.jpg", photo)
    halves = np.ones((12, 16))
    halves[:, 8:] = 2
    _write_ground_truth(root / "groundTruth" / "test" / "12.mat", halves, np.ones((12, 16)))
    _write_ground_truth(root / "groundTruth" / "test" / "9.mat", halves)
    return tmp_path


def test_each_person_has_a_partition_and_a_boundary(made_up):
    data = catalogue.datasets.make("bsds500", data=made_up)
    scene = data.load("12")
    assert scene.shape == (12, 16)
    first, second = data.partitions(scene)
    assert (first[0, 0], first[0, 15], second.max()) == (1, 2, 1)
    assert [int(edges.sum()) for edges in data.boundaries("12")] == [16, 16]


def test_partitions_without_a_image_can_be_read(made_up):
    data = catalogue.datasets.make("bsds500", data=made_up)
    assert data.scenes() == ["12"]
    assert data.annotated() == ["9", "12"]
    assert len(data.partitions("9")) == 1
    with pytest.raises(NotFound, match="bsds500/9: no image"):
        data.load("9")


def test_people_of_different_size_are_refused(made_up):
    path = made_up / "BSDS500" / "groundTruth" / "test" / "9.mat"
    _write_ground_truth(path, np.ones((12, 16)), np.ones((12, 15)))
    with pytest.raises(BadInput, match="no partitions of one size"):
        catalogue.datasets.make("bsds500", data=made_up).partitions("9")


def test_a_file_of_another_kind_is_refused(made_up):
    path = made_up / "BSDS500" / "groundTruth" / "test" / "9.mat"
    scipy.io.savemat(path, {"groundTruth": np.ones((3, 3))})
    with pytest.raises(BadInput, match="Segmentation"):
        catalogue.datasets.make("bsds500", data=made_up).partitions("9")


def test_splits_have_names(made_up):
    with pytest.raises(BadInput, match="no split 'tset'"):
        catalogue.datasets.make("bsds500?split=tset", data=made_up)
    with pytest.raises(NotFound, match="no folder"):
        catalogue.datasets.make("bsds500?split=val", data=made_up).scenes()


def test_the_real_test_part_has_its_known_numbers(real_data):
    """The folder's README: 200 ground truths of 60 available images, 4 to 8 people each,
    labels 1..k without gaps."""
    data = catalogue.datasets.make("bsds500", data=real_data)
    assert (len(data.scenes()), len(data.annotated())) == (60, 200)
    for number in data.scenes()[::12]:
        scene = data.load(number)
        for labels in data.partitions(scene):
            assert labels.shape == scene.shape
            assert np.array_equal(np.unique(labels), np.arange(1, labels.max() + 1))


def test_validation_images_are_found_in_berkeley(real_data):
    data = catalogue.datasets.make("bsds500?split=val", data=real_data)
    assert len(data.scenes()) == 17
    scene = data.load(data.scenes()[0])
    assert data.partitions(scene)[0].shape == scene.shape
