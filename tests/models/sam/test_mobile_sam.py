"""MobileSAM against its original: names, weights by rule, stages, outputs, predictor runs.

Golden values: `golden/networks/mobilesam`, made by the original code from the weight rule of
`golden/networks/RULE.md`. Tolerance: 1e-3 of an array's largest magnitude, as proposed there.
"""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.models import Request  # noqa: E402
from segmeter.core.prompts import Box, Click, Prompt  # noqa: E402
from segmeter.models.sam._decoder import Embedding, to_grid  # noqa: E402
from segmeter.models.sam._encoded import SamEncodedScene  # noqa: E402
from segmeter.models.sam._loading import SamNetwork  # noqa: E402
from segmeter.models.sam._prompt_batches import Policy  # noqa: E402
from segmeter.models.sam._vit import TinyVit  # noqa: E402

from ..weight_rule import rule_tensor  # noqa: E402

pytestmark = pytest.mark.long

UNUSED = ("image_encoder.norm_head.", "image_encoder.head.")


@pytest.fixture(scope="module")
def folder(golden: Path) -> Path:
    return golden / "networks" / "mobilesam"


@pytest.fixture(scope="module")
def network() -> SamNetwork:
    return ruled({})


@pytest.fixture(scope="module")
def encoded(network: SamNetwork) -> SamEncodedScene:
    """An image of the predictor runs, encoded once."""
    return encode(network, object_image(11, 200, 300))


def test_names_shapes_and_weights_by_rule_are_the_originals(folder: Path) -> None:
    listed = json.loads(gzip.decompress((folder / "keys.json.gz").read_bytes()))
    theirs = [row for row in listed["mobile_sam_vit_t"] if not row[0].startswith(UNUSED)]
    own = SamNetwork(TinyVit()).parts.state_dict()
    assert sorted(own) == sorted(row[0] for row in theirs)
    for key, shape, dtype, crc in theirs:
        assert list(own[key].shape) == shape
        tensor = rule_tensor(key, tuple(shape), own[key].is_floating_point())
        assert str(tensor.dtype) == dtype
        assert f"{zlib.crc32(tensor.tobytes()):08x}" == crc


def test_the_encoder_follows_the_original_stage_by_stage(folder: Path, network: SamNetwork) -> None:
    stages = json.loads((folder / "stages.json").read_text())["encoder"]
    seen: dict[str, Any] = {}
    hooks = [
        network.parts.get_submodule(name).register_forward_hook(
            lambda _module, _given, out, name=name: seen.update({name: out})
        )
        for name in stages
    ]
    out = network.encoder(image_tensor(400))
    for hook in hooks:
        hook.remove()
    for name, expected in stages.items():
        assert_statistics(seen[name].contiguous().numpy(), expected, name)
    assert_output(out.numpy(), "encoder", folder)


@pytest.mark.parametrize("case", ["points", "points_mask", "box", "points_box"])
def test_the_decoder_gives_the_originals_masks_and_scores(
    folder: Path, network: SamNetwork, case: str
) -> None:
    stages = json.loads((folder / "stages.json").read_text())[f"decoder_{case}"]
    sparse, dense, masks, scores = decode(network, case)
    assert_output(sparse.numpy(), f"decoder_{case}_sparse", folder)
    whole = dense.expand(1, 4096, 256)
    assert_statistics(to_grid(whole, 64).numpy(), stages["prompt_encoder[1]"])
    assert_output(masks[:, 1:].numpy(), f"decoder_{case}_multi1_low_res", folder)
    assert_output(masks[:, :1].numpy(), f"decoder_{case}_multi0_low_res", folder)
    assert_output(scores[:, 1:].numpy(), f"decoder_{case}_multi1_iou", folder)
    assert_output(scores[:, :1].numpy(), f"decoder_{case}_multi0_iou", folder)


def test_the_cells_positions_are_the_originals(folder: Path, network: SamNetwork) -> None:
    position = to_grid(network.prompts.position(), 64)
    assert_output(position.numpy(), "dense_pe", folder)


def test_every_epsilon_is_the_originals(folder: Path) -> None:
    probe = json.loads((folder / "eps_probe.json").read_text())
    stored = np.load(folder / "eps_probe.npz")
    network = ruled(probe["factors"])
    out = network.encoder(image_tensor(probe["outputs"]["encoder"]["seed"]))
    _, _, masks, scores = decode(network, "points_mask")
    found = {
        "encoder": out,
        "decoder_points_mask_low_res": masks[:, 1:],
        "decoder_points_mask_iou": scores[:, 1:],
    }
    for name, array in found.items():
        step = probe["outputs"][name]["step"]
        assert_close(array.numpy().reshape(-1)[::step], stored[name], name)


@pytest.mark.parametrize("case", ["p300x200", "reset"])
def test_click_sessions_follow_the_published_wrapper(
    folder: Path, encoded: SamEncodedScene, case: str
) -> None:
    expected = json.loads((folder / "predictor.json").read_text())[case]
    stored = np.load(folder / "predictor.npz")
    shape = encoded.frame.shape
    prompts: tuple[Prompt, ...] = ()
    state = None
    for number, row in enumerate(expected["clicks"]):
        y, x, positive = row["click"]
        prompts += (Click((y, x), bool(positive)),)
        mask_fed_back = state is not None and encoded.keeps_state(prompts, "published")
        assert mask_fed_back == row["used_previous_low_res"]
        prediction = encoded.predict([Request(prompts, state if mask_fed_back else None)])[0]
        state = prediction.state
        assert prediction.shown == row["chosen"] + 1
        assert_close(prediction.scores[1:], np.array(row["scores"]), f"scores {number}")
        allowed = max(2, row["n_within_1e_4"])
        assert abs(prediction.mask().area - row["area"]) <= allowed
        packed = stored[f"{case}__rclicks_mask{number}"]
        bits = np.unpackbits(packed)[: shape[0] * shape[1]].reshape(shape)
        differ = prediction.mask().dense() ^ bits.astype(bool)
        assert differ.sum() <= allowed


def test_a_box_gives_the_original_predictors_mask(folder: Path, encoded: SamEncodedScene) -> None:
    """The original resizes to 8 bits here, so pixels differ a little: 1 % of the logits' range."""
    runs = json.loads((folder / "predictor.json").read_text())
    expected = runs["p300x200"]["sampredictor"]["box"]
    left, top, right, bottom = expected["box"]
    prediction = encoded.predict([Request((Box((top, left), (bottom, right)),))])[0]
    assert prediction.scores[0] == pytest.approx(expected["scores"][0], abs=0.02)
    logits = encoded.frame.leave(prediction.logits[None, :1])
    span = expected["max"] - expected["min"]
    assert float(logits.mean()) == pytest.approx(expected["mean"], abs=0.01 * span)
    assert float(logits.std()) == pytest.approx(expected["std"], abs=0.01 * span)


def ruled(factors: dict[str, float]) -> SamNetwork:
    """A network filled by the weight rule, some tensors multiplied by small factors."""
    network = SamNetwork(TinyVit())
    state = network.parts.state_dict()
    for key, tensor in state.items():
        value = rule_tensor(key, tuple(tensor.shape), tensor.is_floating_point())
        if key in factors:
            value = value * np.float32(factors[key])
        tensor.copy_(torch.from_numpy(np.asarray(value)))
    return network


def decode(network: SamNetwork, case: str) -> tuple[Any, Any, Any, Any]:
    embedding = np.random.default_rng(401).standard_normal((1, 256, 64, 64)).astype(np.float32)
    mask = np.random.default_rng(402).standard_normal((1, 1, 256, 256)).astype(np.float32) * 4
    points, labels = [(300.5, 200.25), (700, 512), (64, 900)], [1, 0, 1]
    corners = [(100.0, 150.0), (800.0, 640.0)]
    if case == "box":
        points, labels = [], []
    if "box" in case:
        points, labels = points + corners, [*labels, 2, 3]
    else:
        points, labels = [*points, (0.0, 0.0)], [*labels, -1]
    sparse = network.prompts.points(torch.tensor([points]), torch.tensor([labels]))
    given = torch.from_numpy(mask)
    dense = network.prompts.masks(given) if "mask" in case else network.prompts.no_mask()
    cells = torch.from_numpy(embedding).flatten(2).transpose(1, 2)
    masks, scores = network.decoder(Embedding(cells), network.prompts.position(), sparse, dense)
    return sparse, dense, masks, scores


def encode(network: SamNetwork, pixels: Any) -> SamEncodedScene:
    frame = network.frame(pixels.shape[:2])
    embedding = network.encode(frame.enter(pixels, network.device))
    return SamEncodedScene(network, frame, embedding, Policy())


def image(seed: int, height: int, width: int) -> Any:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 256, size=(-(-height // 16), -(-width // 16), 3))
    noise = rng.integers(-20, 21, size=(height, width, 3))
    blocks = base.repeat(16, 0).repeat(16, 1)[:height, :width]
    return np.clip(blocks + noise, 0, 255).astype(np.uint8)


def object_image(seed: int, height: int, width: int) -> Any:
    y, x = np.ogrid[:height, :width]
    a, b = height // 4, width // 5
    row, column = (9 * height) // 20, (11 * width) // 20
    target = (y - row) ** 2 * b**2 + (x - column) ** 2 * a**2 <= a**2 * b**2
    shifted = image(seed, height, width).astype(int) // 8 + 60
    shifted = shifted + target[..., None] * np.array([-50, 100, 0])
    assert Mask.of(target).area > 0
    return np.clip(shifted, 0, 255).astype(np.uint8)


def image_tensor(seed: int) -> Any:
    """The network cases' input: not normalised, just numbers."""
    scaled = image(seed, 1024, 1024).transpose(2, 0, 1)[None].astype(np.float32) / np.float32(255)
    return torch.from_numpy(scaled * 2 - 1)


def assert_output(array: Any, name: str, folder: Path) -> None:
    meta = json.loads((folder / "net_meta.json").read_text())[name]
    assert list(array.shape) == meta["shape"]
    stored = np.load(folder / "net_outputs.npz")[name]
    assert_close(np.ascontiguousarray(array).reshape(-1)[:: meta["step"]], stored, name)


def assert_statistics(array: Any, expected: dict[str, Any], name: str = "") -> None:
    """Mean, deviation, extremes and eight elements; maps may come with channels last."""
    flat = array.reshape(-1)
    assert flat.size == np.prod(expected["shape"]), name
    biggest = max(abs(expected["min"]), abs(expected["max"]))
    for statistic in ("mean", "std", "min", "max"):
        value = float(getattr(flat, statistic)())
        assert value == pytest.approx(expected[statistic], abs=1e-3 * biggest), (name, statistic)
    chosen = [(i * (flat.size - 1)) // 7 for i in range(8)]
    assert flat[chosen] == pytest.approx(np.array(expected["at"]), abs=1e-3 * biggest), name


def assert_close(found: Any, expected: Any, name: str) -> None:
    biggest = float(np.abs(expected).max())
    assert float(np.abs(found - expected).max()) <= 1e-3 * biggest, name
