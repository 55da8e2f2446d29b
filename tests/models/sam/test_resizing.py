"""How images are brought to a network's size: as Pillow does, and grey ones sent once."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from PIL import Image  # noqa: E402

from segmeter.models.sam._resizing import Padded, channels  # noqa: E402

CPU = torch.device("cpu")


def test_a_padded_image_has_the_bytes_of_pillow():
    pixels = np.random.default_rng(1).integers(0, 256, (427, 640, 3), dtype=np.uint8)
    frame = Padded((427, 640), mean=(0, 0, 0), deviation=(1, 1, 1), pillow=True)
    whole = Image.fromarray(pixels).resize(frame.inside[::-1], Image.Resampling.BILINEAR)
    entered = frame.enter(pixels, CPU)[0, :, : frame.inside[0]].permute(1, 2, 0)
    assert np.array_equal(entered.numpy(), np.asarray(whole))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_grey_pixels_that_pretend_to_be_three_come_out_as_three(dtype):
    grey = np.random.default_rng(2).integers(0, 256, (5, 7)).astype(dtype)
    found = channels(np.broadcast_to(grey[:, :, None], (5, 7, 3)), CPU)
    whole = channels(np.repeat(grey[:, :, None], 3, axis=2), CPU)
    assert torch.equal(found, whole)
    assert found.stride() == whole.stride()  # kernels are chosen by the layout


def test_an_image_of_one_row_keeps_a_row():
    frame = Padded((1, 3000))
    assert frame.inside == (1, 1024)
    assert frame.enter(np.full((1, 3000, 3), 255, np.uint8), CPU).shape == (1, 3, 1024, 1024)
    assert frame.leave(torch.ones(1, 1, 256, 256)).shape == (1, 1, 1, 3000)
