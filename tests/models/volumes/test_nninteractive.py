"""nnInteractive: how prompts reach its session; the package itself where it is installed."""

from __future__ import annotations

import importlib.util
import json
import sys
from contextlib import nullcontext

import numpy as np
import pytest
import tiny_nninteractive as tiny
import torch

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, BadWeights, NotFound
from segmeter.core.masks import Mask
from segmeter.core.models import Request
from segmeter.core.prompts import Box, Click, MaskHint, Scribble, Text
from segmeter.core.scenes import SceneHeader, Volume
from segmeter.models.volumes.nninteractive import NnInteractiveEncodedScene, _folder

SHAPE = (6, 8, 10)


class Painter:
    """A session with the package's verbs that paints what it is told, and counts."""

    alone = staticmethod(nullcontext)

    def __init__(self):
        self.told = []
        self.holds = None  # as the model that holds the session: other views take it away
        self.supported_interactions = {"bbox3d": True}
        self.preferred_scribble_thickness = [1, 1, 1]

    @property
    def session(self):
        return self

    def set_image(self, image):
        assert image.shape == (1, *SHAPE)
        self.told.append("image")

    def set_target_buffer(self, target_buffer):
        self.shown = target_buffer

    def reset_interactions(self):
        self.told.append("reset")
        self.shown[:] = 0

    def add_point_interaction(self, coordinates, include_interaction):
        self.told.append("point")
        self.shown[coordinates] = include_interaction

    def add_bbox_interaction(self, bbox_coords, include_interaction):
        self.told.append("box")
        self.shown[tuple(slice(a, b) for a, b in bbox_coords)] = include_interaction

    def add_scribble_interaction(self, scribble_image, include_interaction):
        self.told.append("scribble")
        self.shown[scribble_image > 0] = include_interaction

    def add_lasso_interaction(self, lasso_image, include_interaction):
        self.told.append("lasso")
        self.shown[lasso_image > 0] = include_interaction

    def add_initial_seg_interaction(self, initial_seg):
        self.told.append("mask")
        self.shown[:] = initial_seg


def made_volume():
    header = SceneHeader("volume", SHAPE, (1.0, 1.0, 1.0))
    return Volume("made", "1", np.zeros(SHAPE), (), header=header)


@pytest.fixture
def encoded():
    return NnInteractiveEncodedScene(Painter(), made_volume())


def test_prompts_reach_the_session_in_the_volumes_axes(encoded):
    box = Box((1, 2, 3), (1, 4, 5))
    (found,) = encoded.predict([Request((box,))])
    assert found.mask() == Mask.box(SHAPE, (1, 2, 3), (2, 5, 6))
    (found,) = encoded.predict([Request((box, Click((1, 2, 3), positive=False)))])
    assert not found.mask()[1, 2, 3]
    hint = Mask.box(SHAPE, (0, 0, 0), (2, 2, 2))
    (found,) = encoded.predict([Request((MaskHint(hint), Scribble(((5, 5, 5), (5, 5, 6)))))])
    assert found.mask().area == 8 + 2
    with pytest.raises(BadInput, match="takes no text"):
        encoded.predict([Request((Text("liver"),))])


def test_a_closed_stroke_in_a_slice_is_a_lasso(encoded):
    line = ((2, 1, 1), (2, 1, 4), (2, 4, 4), (2, 4, 1), (2, 1, 1))
    (found,) = encoded.predict([Request((Scribble(line),))])
    assert found.mask() == Mask.box(SHAPE, (2, 1, 1), (3, 5, 5))
    assert encoded.model.told[-1] == "lasso"


def test_a_stroke_is_a_line_without_gaps_as_thick_as_the_checkpoint_wants(encoded):
    stroke = Scribble(((2, 2, 1), (2, 2, 7), (4, 2, 7)))
    (thin,) = encoded.predict([Request((stroke,))])
    along = Mask.box(SHAPE, (2, 2, 1), (3, 3, 8))
    assert thin.mask() == along | Mask.box(SHAPE, (3, 2, 7), (5, 3, 8))
    assert encoded.model.told[-1] == "scribble"
    encoded.model.preferred_scribble_thickness = [3, 3, 3]
    (thick,) = encoded.predict([Request((Scribble(((2, 4, 4), (2, 4, 4))),))])
    assert thick.mask() == Mask.box(SHAPE, (2, 3, 3), (3, 6, 6))
    (dot,) = encoded.predict([Request((Scribble(((0, 4, 4),)),))])
    assert dot.mask() == Mask.box(SHAPE, (0, 3, 3), (1, 6, 6))


def test_a_continued_session_sends_only_new_prompts(encoded):
    first, second = Click((1, 1, 1)), Click((2, 2, 2))
    encoded.predict([Request((first,))])
    encoded.predict([Request((first, second))])
    assert encoded.model.told == ["image", "point", "point"]
    one, other = encoded.predict([Request((first, second)), Request((second,))])
    assert one.mask().area == 2
    assert other.mask().area == 1
    assert encoded.model.told == ["image", "point", "point", "reset", "point"]


def test_without_the_package_the_error_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NotFound, match="needs the package 'nnInteractive'"):
        catalogue.models.make("nninteractive", weights=str(tmp_path))


def test_two_views_share_the_session_and_do_not_see_each_others_prompts(encoded):
    other = NnInteractiveEncodedScene(encoded.model, made_volume())
    first, second = Click((1, 1, 1)), Click((2, 2, 2))
    encoded.predict([Request((first,))])
    other.predict([Request((second,))])
    (found,) = encoded.predict([Request((first, second))])
    assert found.mask().area == 2
    assert encoded.model.told == ["image", "point"] * 2 + ["image", "point", "point"]


def test_a_checkpoint_without_boxes_over_slices_gets_the_middle_one(encoded):
    encoded.model.supported_interactions = {}
    (found,) = encoded.predict([Request((Box((1, 2, 3), (4, 4, 5)),))])
    assert found.mask() == Mask.box(SHAPE, (2, 2, 3), (3, 5, 6))


@pytest.fixture(params=["stand-in", "package"])
def folder(request, tmp_path, monkeypatch):
    """A tiny checkpoint, with the package itself or with what stands in for it."""
    installed = importlib.util.find_spec("nnInteractive") is not None
    if request.param == "package" and not installed:
        pytest.skip("nninteractive is not here: missing is the package nnInteractive")
    if request.param == "stand-in":
        tiny.write_package(tmp_path / "packages")
        monkeypatch.syspath_prepend(tmp_path / "packages")
        weights = tiny.stand_in_weights()
    else:
        weights = tiny.package_weights()
    _forget_package()
    yield tiny.write_checkpoint(tmp_path / "weights" / "nninteractive", weights, boxes=True)
    _forget_package()


def _forget_package():
    for name in [n for n in sys.modules if n.split(".")[0] == "nnInteractive"]:
        del sys.modules[name]


def test_a_tiny_checkpoint_is_loaded_and_follows_its_prompts(folder, capsys):
    model = catalogue.models.make("nninteractive", weights=str(folder.parent), device="cpu")
    assert len(model.card.fingerprint) == 16
    voxels = np.random.default_rng(1).normal(100, 20, (20, 24, 28)).astype(np.float32)
    header = SceneHeader("volume", voxels.shape, (2.0, 1.0, 1.0))
    volume = Volume("made", "1", voxels, (), header=header)
    requests = [
        Request((Click((10, 12, 14)),)),
        Request((Click((10, 12, 14)), Click((3, 3, 3), positive=False))),
        Request((Box((4, 5, 6), (9, 15, 16)),)),
        Request((Scribble(((10, 4, 4), (10, 20, 20))),)),
    ]
    masks = [found.mask() for found in model.encode(volume).predict(requests)]
    (again,) = model.encode(volume).predict(requests[:1])
    assert again.mask() == masks[0]
    assert len({mask.encoded() for mask in masks}) == 4, "prompts change nothing"
    assert capsys.readouterr().out == "", "stdout is for results"


def test_a_given_folder_takes_precedence_over_the_environment(tmp_path, monkeypatch):
    known = tmp_path / "many" / "nninteractive"
    known.mkdir(parents=True)
    (known / "plans.json").write_text("{}")
    monkeypatch.setenv("SEGMETER_WEIGHTS", str(known.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert _folder(None) == known
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match=r"no folder with plans\.json and fold_0 in '.*empty', '"):
        _folder(str(tmp_path / "empty"))


@pytest.mark.parametrize("lost", ["dataset.json", "inference_info.json", "fold_0"])
def test_a_folder_that_is_not_whole_is_refused(folder, lost):
    (folder / lost).rename(folder / "other")
    with pytest.raises(BadWeights, match=f"{'checkpoint_final' if lost == 'fold_0' else lost}"):
        catalogue.models.make("nninteractive", weights=str(folder.parent))


def test_a_folder_that_could_run_code_is_refused(folder):
    class Runs:
        def __reduce__(self):
            return (print, ("ran",))

    file = folder / "fold_0" / "checkpoint_final.pth"
    good = file.read_bytes()
    torch.save({"network_weights": Runs()}, file)
    with pytest.raises(BadWeights, match="could run code"):
        catalogue.models.make("nninteractive", weights=str(folder.parent))
    file.write_bytes(good)
    plans = json.loads((folder / "plans.json").read_text())
    network = plans["configurations"]["3d_fullres"]["architecture"]
    network["network_class_name"] = "subprocess.Popen"
    (folder / "plans.json").write_text(json.dumps(plans))
    with pytest.raises(BadWeights, match=r"names 'subprocess\.Popen', which is not a network"):
        catalogue.models.make("nninteractive", weights=str(folder.parent))
    (folder / "plans.json").write_text("[]")
    with pytest.raises(BadWeights, match="is not a plan of a network"):
        catalogue.models.make("nninteractive", weights=str(folder.parent))
