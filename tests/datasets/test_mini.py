"""`mini`: clean masks on images that come inside two packages."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import json
import socket
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets import mini

DATA = catalogue.datasets.make("mini")
RECORDS = json.loads(Path(mini.__file__).with_name("mini.json").read_text())["images"]
WHEELS = {"skimage": "scikit-image", "matplotlib": "matplotlib"}


def test_there_are_at_least_24_objects_on_9_images():
    assert len(DATA.scenes()) >= 9
    count = sum(len(DATA.load(scene).targets) for scene in DATA.scenes())
    assert count == DATA.card.targets >= 24
    assert f"{count} objects on {len(DATA.scenes())} images" in DATA.card.summary


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["id"])
def test_each_image_is_a_file_of_its_wheel(record):
    """The wheel's own list has the file and its digest: it was not fetched afterwards."""
    wheel = importlib.metadata.distribution(WHEELS[record["package"]])
    listed = {row[0]: row[1] for row in csv.reader((wheel.read_text("RECORD") or "").splitlines())}
    name = f"{record['package']}/{record['file']}"
    raw = Path(str(wheel.locate_file(name))).read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
    assert listed[name] == f"sha256={digest}"


def test_nothing_is_downloaded(monkeypatch):
    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("mini wants the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for scene in map(DATA.load, DATA.scenes()):
        assert scene.pixels.ndim == 3


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["id"])
def test_masks_fit_their_image_and_are_clean(record):
    """No specks, no pinholes, no two objects of one name; every object is named."""
    scene = DATA.load(record["id"])
    scene.check()
    assert scene.shape == scene.pixels.shape[:2] == tuple(record["size"])
    assert record["source"]
    assert len({target.id for target in scene.targets}) == len(scene.targets)
    for target in scene.targets:
        mask = target.mask.dense()
        assert target.label
        assert _pieces(mask).min() >= 100, target.id
        assert _pieces(~mask).min() >= 100, target.id
        if target.ignore is not None:
            assert target.mask.overlap(target.ignore) == 0


def _pieces(mask: np.ndarray) -> np.ndarray:
    """Areas of the pieces, counted with four neighbours."""
    labels, _ = ndimage.label(mask)
    return np.bincount(labels.ravel())[1:]


def test_groups_cover_sizes_and_shapes():
    groups = [t.groups for scene in map(DATA.load, DATA.scenes()) for t in scene.targets]
    assert {g["size"] for g in groups} == {"small", "medium", "large"}
    assert {g["shape"] for g in groups} == {"compact", "thin", "cut up"}


def test_another_image_under_the_name_is_refused(tmp_path, monkeypatch, write, photo):
    monkeypatch.setattr(mini, "_installed", lambda package: tmp_path)
    write(tmp_path / "data" / "chelsea.png", photo)
    with pytest.raises(BadInput, match="not the image the masks were drawn on"):
        _ = DATA.load("chelsea").pixels


def test_the_same_pixels_in_another_packing_are_the_image(tmp_path, monkeypatch, write):
    pixels = DATA.load("chelsea").pixels
    monkeypatch.setattr(mini, "_installed", lambda package: tmp_path)
    write(tmp_path / "data" / "chelsea.png", pixels)
    assert (DATA.load("chelsea").pixels == pixels).all()


def test_a_package_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(mini.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NotFound, match=r"package 'skimage'.*is not installed"):
        _ = DATA.load("chelsea").pixels


def test_an_unknown_scene_gets_a_suggestion():
    with pytest.raises(NotFound, match="no scene 'chelsee'; did you mean 'chelsea'"):
        DATA.load("chelsee")
