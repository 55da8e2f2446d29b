"""How images are brought to a network's size: as Pillow does, and grey ones sent once."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from PIL import Image  # noqa: E402

from segmeter.models.sam._resizing import (  # noqa: E402
    Padded,
    channels,
    enlarged,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize("seed", range(12))
def test_a_device_enlarges_to_the_bytes_of_pillow(seed):
    rng = np.random.default_rng(seed)
    height, width = rng.integers(1, 90, 2)
    size = int(height + rng.integers(0, 200)), int(width + rng.integers(0, 200))
    pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    if seed % 3 == 0:
        pixels = np.where(pixels > 127, 255, 0).astype(np.uint8)  # steps as steep as they come
    whole = Image.fromarray(pixels).resize(size[::-1], Image.Resampling.BILINEAR)
    assert np.array_equal(enlarged(torch.from_numpy(pixels), size).numpy(), np.asarray(whole))


def test_a_common_image_is_enlarged_to_the_bytes_of_pillow():
    pixels = np.random.default_rng(1).integers(0, 256, (427, 640, 3), dtype=np.uint8)
    size = Padded((427, 640)).inside
    whole = Image.fromarray(pixels).resize(size[::-1], Image.Resampling.BILINEAR)
    assert np.array_equal(enlarged(torch.from_numpy(pixels), size).numpy(), np.asarray(whole))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_grey_pixels_that_pretend_to_be_three_come_out_as_three(dtype):
    grey = np.random.default_rng(2).integers(0, 256, (5, 7)).astype(dtype)
    found = channels(np.broadcast_to(grey[:, :, None], (5, 7, 3)), CPU)
    whole = channels(np.repeat(grey[:, :, None], 3, axis=2), CPU)
    assert torch.equal(found, whole)
    assert found.stride() == whole.stride()  # kernels are chosen by the layout
