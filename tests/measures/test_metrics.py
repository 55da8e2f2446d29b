"""Measures take arrays and tensors; metrics accumulate them over batches."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.measures import Measure, mask_measure
from segmeter.metrics import Metric, MetricCollection

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
def test_a_metric_has_the_mean_of_what_came(name: str) -> None:
    measure = catalogue.measures.make(name)
    assert isinstance(measure, Measure)
    first, second = Metric(measure), Metric(name)
    values = [measure(Mask.of(t), Mask.of(g)) for t, g, _ in map(pair, range(6))]
    for k in range(6):
        ground_truth, prediction, _ = pair(k)
        assert (first if k < 4 else second).update(prediction, ground_truth) == values[k]
    assert first.compute() == pytest.approx(np.mean(values[:4]))
    first.merge_state(second)
    assert (first.count, first.compute()) == (6, pytest.approx(np.mean(values)))
    first.reset()
    with pytest.raises(BadInput, match="no masks yet"):
        first.compute()
    with pytest.raises(BadInput, match="cannot be merged"):
        first.merge_state(Metric("dice" if name != "dice" else "iou"))


def test_a_batch_counts_as_its_pairs() -> None:
    ground_truth = np.zeros((4, 1, 8, 8), bool)
    prediction = np.zeros((4, 1, 8, 8), bool)
    ground_truth[:, :, :2] = prediction[:2, :, :2] = True
    ground_truth[0] = prediction[0] = True  # one large object must not count more
    for batch in (np.s_[:], np.s_[:, 0]):
        running = Metric("iou")
        assert running.update(prediction[batch], ground_truth[batch]) == 0.5
        assert (running.compute(), running.count) == (0.5, 4)
        assert running.update(preds=prediction[batch], target=ground_truth[batch]) == 0.5


def test_a_volume_is_one_pair() -> None:
    ground_truth, prediction = np.ones((1, 3, 4, 4), bool), np.ones((1, 3, 4, 4), bool)
    prediction[0, 0] = False
    running = Metric("iou")
    assert running.update(prediction, ground_truth) == pytest.approx(2 / 3)
    assert running.count == 1


def test_masks_are_taken_as_they_are() -> None:
    ground_truth, prediction, _ = (Mask.of(a) for a in pair(2))
    assert Metric("iou").update(prediction, ground_truth) == mask_measure("iou")(
        ground_truth, prediction, None
    )


def test_wrong_shapes_are_refused() -> None:
    running = Metric("iou")
    with pytest.raises(BadInput, match=r"masks are \(H, W\)"):
        running.update(np.ones((2, 3, 1, 4, 4)), np.ones((2, 3, 1, 4, 4)))
    with pytest.raises(BadInput, match=r"differ in shape: \(2, 4, 4\) and \(3, 4, 4\)"):
        running.update(np.ones((2, 4, 4)), np.ones((3, 4, 4)))


@pytest.mark.parametrize("name", ["iou", "dice", "precision", "boundary-iou"])
def test_metrics_and_measures_can_be_sent_to_another_process_and_back(name: str) -> None:
    running = Metric(name)
    running.update(np.ones((2, 4, 4)), np.ones((2, 4, 4)))
    again = pickle.loads(pickle.dumps(running))
    again.merge_state(running)
    assert (again.count, again.compute()) == (4, running.compute())
    measure = catalogue.measures.make(name)
    assert pickle.loads(pickle.dumps(measure)) is measure


def test_tensors_of_bfloat16_are_read() -> None:
    torch = pytest.importorskip("torch")
    ones = torch.ones(2, 4, 4, dtype=torch.bfloat16)
    assert Metric("iou").update(ones, ones > 0) == 1.0
    assert catalogue.measures.make("iou")(ones[0], ones[0]) == 1.0


@pytest.mark.parametrize("name", ["hd95", "nsd", "redrawn-path"])
def test_a_metric_ignores_pixels_of_measures_in_millimetres_too(name: str) -> None:
    measure = catalogue.measures.make(name)
    sides = 2 if 2 in measure.dimensions else 3
    ground_truth, prediction, ignore = (
        plane if sides == 2 else np.stack([plane] * 3) for plane in pair(3)
    )
    within = np.where(ignore, ~ground_truth, ground_truth)
    running = Metric(name)
    masks = [Mask.of(a) for a in (ground_truth, prediction, ignore)]
    wanted = mask_measure(name, (1.0,) * sides)(*masks)
    batch = [a[None] for a in (prediction, ground_truth, ignore)]
    assert running.update(*batch) == wanted
    assert running.update(batch[0], within[None], batch[2]) == wanted


def test_a_metric_in_millimetres_counts_pixels_of_images() -> None:
    """As the measure itself; it asked for three sides of a voxel."""
    square, shifted = np.zeros((2, 1, 20, 20))
    square[:, 5:15, 5:15], shifted[:, 5:15, 8:18] = 1, 1
    assert Metric("hd95").update(shifted, square) == 3.0
    assert Metric("nsd").update(square, square) == 1.0


@pytest.mark.parametrize("name", ["boundary-iou", "fb-object", "touch-up", "polygon-loss"])
def test_measures_of_images_refuse_volumes_in_a_sentence(name: str) -> None:
    """Also where one mask is empty, which scored 0; others failed inside OpenCV."""
    cube = np.ones((8, 8, 8))
    for prediction in (cube, 0 * cube):
        with pytest.raises(BadInput, match=f"'{name}' compares masks of images, not of volumes"):
            catalogue.measures.make(name)(cube, prediction)


def test_a_collection_leaves_out_ignored_pixels() -> None:
    ground_truth, prediction, ignore = pair(3)
    both = MetricCollection(["iou", "dice"])
    both.update(prediction, ground_truth, ignore)
    assert both.compute()["iou"] == catalogue.measures.make("iou")(ground_truth, prediction, ignore)
