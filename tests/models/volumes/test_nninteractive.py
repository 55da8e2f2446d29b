"""nnInteractive: how prompts reach its session; the package itself where it is installed."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.models import Ask
from segmeter.core.prompts import Box, Click, MaskHint, Scribble, Words
from segmeter.core.scenes import Header, Volume
from segmeter.models.volumes.nninteractive import NnInteractiveView

SHAPE = (6, 8, 10)


class Painter:
    """A session with the package's verbs that paints what it is told, and counts."""

    def __init__(self):
        self.told = []

    def set_image(self, image):
        assert image.shape == (1, *SHAPE)

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


@pytest.fixture
def view():
    header = Header("volume", SHAPE, (1.0, 1.0, 1.0))
    return NnInteractiveView(Painter(), Volume("made", "1", np.zeros(SHAPE), (), header=header))


def test_prompts_reach_the_session_in_the_volumes_own_axes(view):
    box = Box((1, 2, 3), (1, 4, 5))
    (found,) = view.answer([Ask((box,))])
    assert found.mask() == Mask.box(SHAPE, (1, 2, 3), (2, 5, 6))
    (found,) = view.answer([Ask((box, Click((1, 2, 3), positive=False)))])
    assert not found.mask()[1, 2, 3]
    hint = Mask.box(SHAPE, (0, 0, 0), (2, 2, 2))
    (found,) = view.answer([Ask((MaskHint(hint), Scribble(((5, 5, 5), (5, 5, 6)))))])
    assert found.mask().area == 8 + 2
    with pytest.raises(BadInput, match="reads no words"):
        view.answer([Ask((Words("liver"),))])


def test_a_closed_stroke_in_a_slice_is_a_lasso(view):
    line = ((2, 1, 1), (2, 1, 4), (2, 4, 4), (2, 4, 1), (2, 1, 1))
    (found,) = view.answer([Ask((Scribble(line),))])
    assert found.mask() == Mask.box(SHAPE, (2, 1, 1), (3, 5, 5))
    assert view.session.told[-1] == "lasso"


def test_a_session_that_goes_on_says_only_what_is_new(view):
    first, second = Click((1, 1, 1)), Click((2, 2, 2))
    view.answer([Ask((first,))])
    view.answer([Ask((first, second))])
    assert view.session.told == ["reset", "point", "point"]
    one, other = view.answer([Ask((first, second)), Ask((second,))])
    assert one.mask().area == 2
    assert other.mask().area == 1
    assert view.session.told == ["reset", "point", "point", "reset", "point"]


def test_without_the_package_it_says_what_is_missing(tmp_path):
    if importlib.util.find_spec("nnInteractive") is not None:
        pytest.skip("needs a machine without nnInteractive")
    with pytest.raises(NotFound, match="is not here: missing is the package 'nnInteractive'"):
        catalogue.models.make("nninteractive", weights=str(tmp_path))
