"""Thousands of lone clicks on one embedding: the same masks as one by one, and their scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.benchmarks.tetris.click_response import single_click_scores  # noqa: E402
from segmeter.core import catalogue  # noqa: E402
from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.models import Request, render  # noqa: E402
from segmeter.core.prompts import Click  # noqa: E402
from segmeter.core.scenes import Target  # noqa: E402
from segmeter.measures.objects import (  # noqa: E402
    band_reach,
    boundary_iou,
    iou,
)
from segmeter.models.sam._click_decoding import (  # noqa: E402
    DeviceJudge,
    click_decoder,
    count,
    erode,
)
from segmeter.models.sam._decoder import Embedding, MaskDecoder, PromptEncoder  # noqa: E402
from segmeter.models.sam._encoded import SamEncodedScene  # noqa: E402
from segmeter.models.sam._prompt_batches import Policy  # noqa: E402
from segmeter.models.sam._resizing import Padded, Squeezed  # noqa: E402

SHAPE = (96, 128)
POINTS = np.array([[3, 5], [40, 60], [90, 127], [11, 100], [95, 0]])


@dataclass
class Parts:
    """What a view needs of a network."""

    prompts: PromptEncoder
    decoder: MaskDecoder
    device: torch.device
    second: bool


def encoded(second: bool, masks: str = "published") -> SamEncodedScene:
    """A small random SAM or SAM 2 after its look."""
    torch.set_num_threads(1)
    torch.manual_seed(3)
    parts = Parts(
        PromptEncoder(128, 8), MaskDecoder(fine=second).eval(), torch.device("cpu"), second
    )
    with torch.no_grad():
        for weight in parts.decoder.parameters():
            weight.mul_(1.5)
    fine = (torch.randn(1, 64, 16, 16), torch.randn(1, 32, 32, 32)) if second else None
    frame = Squeezed(SHAPE, 128) if second else Padded(SHAPE, 128)
    return SamEncodedScene(parts, frame, Embedding(torch.randn(1, 64, 256), fine), Policy(masks))


def in_doubles(looked: SamEncodedScene) -> SamEncodedScene:
    """The same view in double precision, for finite differences."""
    looked.network.prompts.double()
    looked.network.decoder.double()
    fine = looked.embedding.fine
    doubled = None if fine is None else (fine[0].double(), fine[1].double())
    image = Embedding(looked.embedding.cells.double(), doubled)
    return SamEncodedScene(looked.network, looked.frame, image, looked.policy)


def target() -> Target:
    ground_truth = np.zeros(SHAPE, bool)
    ground_truth[20:80, 30:100] = True
    return Target("a", Mask.of(ground_truth), Mask.box(SHAPE, (70, 20), (90, 60)))


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("masks", ["published", "corrected"])
def test_many_clicks_together_give_the_masks_of_single_requests(second: bool, masks: str) -> None:
    looked = encoded(second, masks)
    with torch.no_grad():
        together = click_decoder(looked, torch.float32)(torch.from_numpy(POINTS).float())
    for logits, (y, x) in zip(together, POINTS.tolist(), strict=True):
        answer = looked.predict([Request((Click((y, x)),))])[0]
        torch.testing.assert_close(logits, answer.logits[answer.shown], atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("second", [False, True])
def test_scores_are_those_of_the_measures(second: bool) -> None:
    looked, thing = encoded(second), target()
    scores = single_click_scores(looked, POINTS, thing)
    requests = [Request((Click((y, x)),)) for y, x in POINTS.tolist()]
    for row, mask in zip(scores, render(looked, looked.predict(requests)), strict=True):
        assert row[0] == pytest.approx(iou(thing.mask, mask, thing.ignore), abs=1e-3)
        assert row[1] == pytest.approx(boundary_iou(thing.mask, mask, thing.ignore), abs=1e-3)


@pytest.mark.parametrize("second", [False, True])
def test_the_judge_on_the_device_agrees_with_the_measures(second: bool) -> None:
    looked, thing = encoded(second), target()
    logits = torch.randn(6, 32, 32)
    logits[0] = -1
    logits[1] = 1
    reach = band_reach(SHAPE)
    judged = DeviceJudge(looked.frame, thing, logits.device, reach, False)(logits)
    for row, mask in zip(judged.tolist(), looked.masks_of(logits), strict=True):
        assert row[0] == pytest.approx(iou(thing.mask, mask, thing.ignore), abs=2e-3)
        assert row[1] == pytest.approx(boundary_iou(thing.mask, mask, thing.ignore), abs=2e-3)


@pytest.mark.parametrize(("height", "width"), [(150, 50), (150, 64), (150, 150), (30, 400)])
def test_sets_are_eroded_by_a_square_and_counted(height: int, width: int) -> None:
    import cv2

    bits = np.random.default_rng(0).random((3, height, width)) < 0.997
    found = torch.from_numpy(bits)
    assert count(found).tolist() == bits.sum((1, 2)).tolist()
    for reach in (0, 1, 2, 5, 9, 40, 170):  # the last: farther than some are high or wide
        padded = np.pad(bits.astype(np.uint8), ((0, 0), (reach, reach), (reach, reach)))
        square = np.ones((2 * reach + 1,) * 2, np.uint8)
        plain = np.stack([cv2.erode(one, square) for one in padded]).astype(bool)
        inner = plain[:, reach : reach + height, reach : reach + width]
        assert np.array_equal(erode(found, reach).numpy(), inner)


@pytest.mark.usefixtures("encoded_once")
def test_half_precision_changes_real_scores_by_no_more_than_stated(real_weights, real_data) -> None:
    """What `single_click_scores` states, on a few clicks of an image."""
    model = catalogue.models.make("mobile-sam", weights=real_weights, device="cpu")
    scene = catalogue.datasets.make("grabcut", data=real_data).load("llama")
    thing = scene.targets[0]
    rows, columns = np.nonzero(thing.mask.dense())
    points = np.stack([rows, columns], axis=1)[:: len(rows) // 2]
    looked = model.encode(scene)
    exact = single_click_scores(looked, points, thing, boundary=False)
    rough = single_click_scores(looked, points, thing, boundary=False, dtype=torch.float16)
    assert np.abs(rough - exact)[:, 0].max() <= 6e-4
    assert (rough != exact).any()


@pytest.mark.parametrize("second", [False, True])
def test_a_soft_session_starts_at_the_answer_and_has_the_slope_of_finite_differences(
    second: bool,
) -> None:
    looked = in_doubles(encoded(second))
    first = looked.predict([Request((Click((40, 60)),))])[0]
    requests = [
        Request((Click((40, 60)),)),
        Request((Click((40, 60)), Click((20, 30), positive=False)), first.state),
    ]
    soft = looked.movable_clicks(requests)
    points = soft.start().requires_grad_(True)
    assert soft.to_image(points) == [pytest.approx((40, 60)), pytest.approx((20, 30))]
    for logits, answer in zip(soft.logits(points), looked.predict(requests), strict=True):
        rows, columns = logits.shape
        shown = answer.logits[answer.shown][:rows, :columns]
        torch.testing.assert_close(logits, shown, atol=1e-4, rtol=1e-4)
    masks = zip(
        soft.masks(soft.logits(points)), render(looked, looked.predict(requests)), strict=True
    )
    assert all(iou(mask, shown) > 0.99 for mask, shown in masks)

    def total(p):
        return torch.stack([logits.double().mean() for logits in soft.logits(p)])

    (slope,) = torch.autograd.grad(total(points).sum(), points)
    change = torch.zeros_like(slope)
    for i in range(2):
        for axis in range(2):
            step = torch.zeros_like(points)
            step[i, axis] = 0.1
            with torch.no_grad():
                change[i, axis] = (total(points + step) - total(points - step))[i] / 0.2
    # Positions are coded in float32, which leaves some noise in the differences.
    assert float((slope - change).norm() / change.norm()) < 0.12
