"""Deterministic weights and inputs for networks: the rule that made the golden values."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ..weight_rule import rule_tensor


def fill(network, factors=None):
    """Fill a network by the rule; `factors` multiply some of its tensors."""
    import torch

    state = {}
    for key, tensor in network.state_dict().items():
        value = rule_tensor(key, tuple(tensor.shape), tensor.is_floating_point())
        if key in (factors or {}):
            value = value * np.float32(factors[key])
        state[key] = torch.from_numpy(np.asarray(value)).reshape(tensor.shape)
    network.load_state_dict(state)
    return network.eval()


def image(seed, height, width):
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 256, size=(-(-height // 16), -(-width // 16), 3))
    noise = rng.integers(-20, 21, size=(height, width, 3))
    blocks = base.repeat(16, axis=0).repeat(16, axis=1)[:height, :width]
    return np.clip(blocks + noise, 0, 255).astype(np.uint8)


def target(height, width):
    row, column = np.mgrid[:height, :width]
    a, b = height // 4, width // 5
    inside = (row - 9 * height // 20) ** 2 * b**2 + (column - 11 * width // 20) ** 2 * a**2
    return inside <= a**2 * b**2


def object_image(seed, height, width, kind="green"):
    offset = {"green": (-50, 100, 0), "white": (160, 160, 160)}[kind]
    lifted = target(height, width)[..., None] * np.array(offset)
    return np.clip(image(seed, height, width) // 8 + 60 + lifted, 0, 255).astype(np.uint8)


def previous(height, width, b):
    r, c = np.mgrid[:height, :width]
    inside = (height // 4 <= r) & (r < 3 * height // 4) & (width // 4 <= c) & (c < 3 * width // 4)
    return np.where(inside, ((7 * r + 13 * c + 5 * b) % 17) / 16, 0).astype(np.float32)


def points(height, width, batch):
    """`(B, 2, 2, 2)`: positive, negative; the order numbers are left out."""
    first = [[[height // 3, width // 3], [height // 2 + 0.5, width // 2 + 0.25]],
             [[4, width - 6], [-1, -1]]]  # fmt: skip
    second = [[[height // 2, width // 4], [-1, -1]],
              [[2 * height // 3, 3 * width // 4 + 0.75], [height - 2, 1]]]  # fmt: skip
    return np.array([first, second][:batch], np.float32)


CLICKS = {
    (200, 300): [(90, 165, 1), (60, 140, 1), (150, 250, 0), (120, 190, 1), (30, 100, 0)],
    (480, 640): [(216, 352, 1), (150, 330, 1), (60, 500, 0), (280, 400, 1), (400, 100, 0)],
}


@pytest.fixture(scope="session")
def rule():
    """The rule's functions, for tests that compare with golden networks."""
    import torch

    torch.set_num_threads(1)
    return SimpleNamespace(
        tensor=rule_tensor, fill=fill, image=image, target=target, object_image=object_image,
        previous=previous, points=points, clicks=CLICKS,
    )  # fmt: skip
