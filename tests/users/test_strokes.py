"""Strokes of the simulated scribbler."""

from __future__ import annotations

import numpy as np

from segmeter.core.masks import Mask
from segmeter.measures.clicks import scribble_shape
from segmeter.users.error_prompts import stroke


def test_a_stroke_runs_along_the_middle_of_the_object_from_end_to_end() -> None:
    y, x = np.ogrid[:60, :120]
    banana = Mask.of(np.abs(30 + 12 * np.sin(x / 20) - y) < 8)
    path = stroke(banana)
    assert len(set(path)) == len(path) > 100
    assert all(banana[p] for p in path)
    steps = np.abs(np.diff(np.array(path), axis=0)).max(axis=1)
    assert (steps == 1).all()
    shape = scribble_shape(path, banana)
    assert shape.coverage > 0.95
    assert shape.centredness > 0.7
