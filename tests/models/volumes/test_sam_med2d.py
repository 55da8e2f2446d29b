"""SAM-Med2D against its original: names, weights by rule, stages, outputs.

Golden values: `golden/networks/sammed2d`, made by the original code from the weight rule of
`golden/networks/RULE.md`. Tolerance: 1e-3 of an array's largest magnitude, as proposed there.
"""

from __future__ import annotations

import gzip
import json
import zlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.core.errors import BadWeights  # noqa: E402
from segmeter.models.sam._decoder import Embedding  # noqa: E402
from segmeter.models.volumes._networks import (  # noqa: E402
    MedicalNetwork,
    SamMed2dFrame,
)
from segmeter.models.volumes.medical_sam import CARDS, MedicalSam  # noqa: E402
from segmeter.models.weights import unfilled  # noqa: E402

from ..sam.test_mobile_sam import (  # noqa: E402
    assert_close,
    assert_output,
    assert_statistics,
    image,
)
from ..weight_rule import rule_tensor  # noqa: E402

pytestmark = pytest.mark.long

BLOCKS = (0, 2, 11)


@pytest.fixture(scope="module")
def folder(golden):
    return golden / "networks" / "sammed2d"


@pytest.fixture(scope="module")
def checksums():
    return {}


@pytest.fixture(scope="module")
def network(checksums):
    """Filled by the weight rule; the large adapters' numbers are drawn once."""
    torch.set_num_threads(1)
    with unfilled():
        network = MedicalNetwork("sam-med2d")
    for key, tensor in network.parts.state_dict().items():
        value = rule_tensor(key, tuple(tensor.shape), tensor.is_floating_point())
        checksums[key] = f"{zlib.crc32(value.tobytes()):08x}"
        tensor.copy_(torch.from_numpy(value))
    return network


def image_tensor(seed):
    scaled = image(seed, 256, 256).transpose(2, 0, 1)[None].astype(np.float32) / np.float32(255)
    return torch.from_numpy(scaled * 2 - 1)


@pytest.fixture(scope="module")
def encoded(network):
    """The embedding, and what some stages gave on the way."""
    seen = {}
    names = [
        "image_encoder.patch_embed",
        *(f"image_encoder.blocks.{i}{part}" for i in BLOCKS for part in ("", ".attn", ".Adapter")),
    ]
    hooks = [
        network.parts.get_submodule(name).register_forward_hook(
            lambda _module, _given, out, name=name: seen.update({name: out})
        )
        for name in names
    ]
    out = network.encoder(image_tensor(500))
    for hook in hooks:
        hook.remove()
    seen["image_encoder.patch_embed"] = seen["image_encoder.patch_embed"].movedim(1, -1)
    return out, seen


def test_names_shapes_and_weights_by_rule_are_the_originals(folder, network, checksums):
    listed = json.loads(gzip.decompress((folder / "keys.json.gz").read_bytes()))
    (theirs,) = listed.values()
    own = network.parts.state_dict()
    assert sorted(own) == sorted(row[0] for row in theirs)
    for key, shape, _, crc in theirs:
        assert list(own[key].shape) == shape
        assert checksums[key] == crc


def test_the_encoder_follows_the_original_stage_by_stage(folder, encoded):
    stages = json.loads((folder / "stages.json").read_text())["encoder"]
    out, seen = encoded
    for name, found in seen.items():
        assert_statistics(found.contiguous().numpy(), stages[name], name)
    assert_output(out.numpy(), "encoder", folder)


@pytest.mark.parametrize("case", ["points", "points_mask", "box"])
def test_the_decoder_gives_the_originals_masks_and_scores(folder, network, encoded, case):
    points, labels = [(75.25, 50.0), (175.0, 128.5), (16.0, 225.0), (0.0, 0.0)], [1, 0, 1, -1]
    if case == "box":
        points, labels = [(25.0, 38.0), (200.0, 160.0)], [2, 3]
    sparse = network.prompts.points(torch.tensor([points]), torch.tensor([labels]))
    given = np.random.default_rng(502).random((1, 1, 64, 64)).astype(np.float32)
    masked = "mask" in case
    dense = network.prompts.masks(torch.from_numpy(given)) if masked else network.prompts.no_mask()
    cells = encoded[0].flatten(2).transpose(1, 2)
    masks, scores = network.decoder(Embedding(cells), network.prompts.position(), sparse, dense)
    assert_output(masks[:, 1:].numpy(), f"decoder_{case}_low_res", folder)
    assert_output(scores[:, 1:].numpy(), f"decoder_{case}_iou", folder)
    meta = json.loads((folder / "net_meta.json").read_text())
    chosen = 1 + int(scores[0, 1:].argmax())
    assert chosen == meta[f"decoder_{case}_iou"]["chosen"] + 1
    large = SamMed2dFrame((200, 300)).leave(masks[:, chosen : chosen + 1])
    assert_output(large.numpy(), f"decoder_{case}_up200x300", folder)


def test_every_epsilon_is_the_originals(folder, network):
    probe = json.loads((folder / "eps_probe.json").read_text())
    state = network.parts.state_dict()
    before = {key: state[key].clone() for key in probe["factors"]}
    for key, factor in probe["factors"].items():
        state[key].mul_(np.float32(factor))
    out = network.encoder(image_tensor(probe["outputs"]["encoder"]["seed"]))
    for key, tensor in before.items():
        state[key].copy_(tensor)
    step = probe["outputs"]["encoder"]["step"]
    stored = np.load(folder / "eps_probe.npz")["encoder"]
    assert_close(out.numpy().reshape(-1)[::step], stored, "encoder")


def test_a_checkpoint_is_read_strictly_and_what_training_left_is_passed_over(tmp_path):
    """LiteMedSAM's small network stands for all: they are read alike."""
    tensors = MedicalNetwork("litemedsam").parts.state_dict()
    (tmp_path / "litemedsam").mkdir()
    file = tmp_path / "litemedsam" / "lite.pth"
    torch.save({"model": tensors, "optimizer": {"step": 3}, "epoch": 7}, file)
    model = MedicalSam(CARDS[0], str(tmp_path), device="cpu")
    found = model.network.parts.state_dict()
    assert all(torch.equal(found[k], v) for k, v in tensors.items())
    del tensors["mask_decoder.mask_tokens.weight"]
    torch.save({"model": tensors}, file)
    with pytest.raises(BadWeights, match=r"lacks 'mask_decoder\.mask_tokens\.weight'"):
        _ = MedicalSam(CARDS[0], str(tmp_path), device="cpu").network
