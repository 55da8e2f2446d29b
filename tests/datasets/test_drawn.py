"""Drawn scenes: the same for the same seed, with whole masks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.mini import Drawn


@given(st.integers(1, 4), st.integers(0, 1000), st.integers(16, 80))
@settings(max_examples=25)
def test_every_scene_is_whole(count, seed, size):
    data = Drawn(count, seed, size)
    assert len(data.scenes()) == count
    for scene in map(data.load, data.scenes()):
        scene.check()
        assert scene.shape == (size, size + size // 4)
        assert 1 <= len(scene.targets) <= 3
        together = sum(target.mask.dense().astype(int) for target in scene.targets)
        assert together.max() == 1, "what lies under another thing is not in its mask"


def test_scenes_repeat_with_their_seed_only():
    first, again, other = (Drawn(seed=seed).load("003") for seed in (1, 1, 2))
    assert np.array_equal(first.pixels, again.pixels)
    assert [t.mask for t in first.targets] == [t.mask for t in again.targets]
    assert not np.array_equal(first.pixels, other.pixels)
    assert Drawn(seed=1).fingerprint() == Drawn(seed=1).fingerprint() != Drawn().fingerprint()


def test_a_scene_does_not_depend_on_how_many_there_are():
    few, many = Drawn(count=2).load("001"), Drawn(count=9).load("001")
    assert np.array_equal(few.pixels, many.pixels)


def test_all_shapes_come():
    data = Drawn()
    labels = {target.label for scene in data.scenes() for target in data.load(scene).targets}
    assert labels == {"ellipse", "ring", "wire", "dots", "block"}


def test_things_differ_from_their_ground():
    """Each thing has a colour of its own: its mean is far from that of the ground."""
    data = Drawn()
    for scene in map(data.load, data.scenes()):
        everything = np.logical_or.reduce([t.mask.dense() for t in scene.targets])
        ground = scene.pixels[~everything].mean(axis=0)
        for target in scene.targets:
            colour = scene.pixels[target.mask.dense()].mean(axis=0)
            assert np.abs(colour - ground).max() > 40


@pytest.mark.parametrize("options", [{"count": 0}, {"size": 15}, {"size": 5000}])
def test_impossible_settings_are_refused(options):
    with pytest.raises(BadInput, match="'count' must be at least 1, 'size' 16 to 4096"):
        Drawn(**options)


def test_an_unknown_scene_is_reported():
    with pytest.raises(NotFound, match="no scene '99'"):
        Drawn().load("99")
