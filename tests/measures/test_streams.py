"""Measures take arrays and tensors, and go on while pairs come in."""

from __future__ import annotations

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.measures import Measure

IDS = ["iou", "dice", "precision", "recall", "boundary-iou"]


def pair(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    ground_truth, prediction, ignore = np.zeros((3, 30, 40), bool)
    top, left = rng.integers(2, 10, 2)
    ground_truth[top : top + 15, left : left + 20] = True
    prediction[top + 2 : top + 14, left + 1 : left + 24] = True
    ignore[:, 12:15] = True
    return ground_truth, prediction, ignore


@pytest.mark.parametrize("name", IDS)
def test_arrays_and_tensors_are_measured_as_masks_are(name: str) -> None:
    torch = pytest.importorskip("torch")
    measure = catalogue.measures.make(name)
    ground_truth, prediction, ignore = pair(1)
    wanted = measure(Mask.of(ground_truth), Mask.of(prediction))
    beside = measure(Mask.of(ground_truth), Mask.of(prediction), Mask.of(ignore))
    for kind in (np.asarray, torch.as_tensor, lambda a: torch.as_tensor(a).float().requires_grad_(),
                 lambda a: a.astype(np.uint8) * 255):  # fmt: skip
        assert measure(kind(ground_truth), kind(prediction)) == wanted
        assert measure(prediction=kind(prediction), ground_truth=kind(ground_truth)) == wanted
        assert measure(kind(ground_truth), kind(prediction), kind(ignore)) == beside
        assert measure(Mask.of(ground_truth), kind(prediction)) == wanted
    empty = np.zeros_like(ground_truth)
    assert measure(empty, empty) == measure(Mask.of(empty), Mask.of(empty))
    with pytest.raises(BadInput, match="threshold"):
        measure(ground_truth, prediction * 0.3)


@pytest.mark.parametrize("name", IDS)
def test_a_stream_has_the_mean_of_what_came(name: str) -> None:
    measure = catalogue.measures.make(name)
    assert isinstance(measure, Measure)
    first, second = measure.stream(), measure.stream()
    values = [measure(Mask.of(t), Mask.of(g)) for t, g, _ in map(pair, range(6))]
    for k in range(6):
        ground_truth, prediction, _ = pair(k)
        assert (first if k < 4 else second).update(ground_truth, prediction) == values[k]
    assert first.compute() == pytest.approx(np.mean(values[:4]))
    first.merge(second)
    assert (first.count, first.compute()) == (6, pytest.approx(np.mean(values)))
    first.reset()
    with pytest.raises(BadInput, match="no pair yet"):
        first.compute()
    with pytest.raises(BadInput, match="cannot go on"):
        first.merge(catalogue.measures.make("dice" if name != "dice" else "iou").stream())
