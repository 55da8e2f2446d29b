"""MedSAM: its image encoder against an independent one, its frame, and slices together."""

from __future__ import annotations

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from segmeter.models.sam._vit import SamVit  # noqa: E402
from segmeter.models.volumes._networks import (  # noqa: E402
    MedicalNetwork,
    MedSamFrame,
)

RENAMED = (
    (r"^patch_embed\.projection\.", "patch_embed.proj."),
    (r"^layers\.", "blocks."),
    (r"layer_norm(\d)\.", r"norm\1."),
    (r"^neck\.conv1\.", "neck.0."),
    (r"^neck\.norm1\.", "neck.1."),
    (r"^neck\.conv2\.", "neck.2."),
    (r"^neck\.norm2\.", "neck.3."),
)


def test_the_encoder_agrees_with_that_of_transformers():
    """A small one with random weights: windows that reach past the image, and global ones."""
    from transformers import SamVisionConfig
    from transformers.models.sam.modeling_sam import SamVisionEncoder

    torch.manual_seed(0)
    config = SamVisionConfig(
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        image_size=320,
        global_attn_indexes=[1],
        mlp_dim=192,
    )
    theirs = SamVisionEncoder(config).eval()
    for parameter in theirs.parameters():
        parameter.data.normal_(std=0.2)
    state = {}
    for key, value in theirs.state_dict().items():
        for pattern, name in RENAMED:
            key = re.sub(pattern, name, key)
        state[key] = value
    own = SamVit(320, 48, 3, 4, everywhere=(1,)).eval()
    own.load_state_dict(state)
    pixels = torch.randn(2, 3, 320, 320)
    with torch.no_grad():
        expected = theirs(pixels).last_hidden_state
        assert torch.allclose(own(pixels), expected, atol=1e-4)


def test_the_network_has_the_names_and_sizes_of_sams_checkpoint():
    with torch.device("meta"):
        state = MedicalNetwork("medsam").parts.state_dict()
    assert tuple(state["image_encoder.pos_embed"].shape) == (1, 64, 64, 768)
    assert tuple(state["image_encoder.blocks.5.attn.rel_pos_h"].shape) == (127, 64)
    assert tuple(state["image_encoder.blocks.4.attn.rel_pos_h"].shape) == (27, 64)
    assert sum(v.numel() for v in state.values()) == 93_735_728
    assert not any("Adapter" in key for key in state)


def test_a_slice_fills_the_square_and_is_stretched():
    values = np.linspace(50, 90, 30 * 40).reshape(30, 40).astype(np.float32)
    entered = MedSamFrame((30, 40)).enter(np.repeat(values[:, :, None], 3, 2), torch.device("cpu"))
    assert tuple(entered.shape) == (1, 3, 1024, 1024)
    assert (float(entered.min()), float(entered.max())) == (0, 1)
    even = np.full((30, 40, 3), 7, np.float32)
    assert float(MedSamFrame((30, 40)).enter(even, torch.device("cpu")).abs().max()) == 0


def test_it_is_enlarged_after_the_sigmoid():
    logits = torch.tensor([[[[-8.0, 3.0]]]])
    found = MedSamFrame((1, 4)).leave(logits) > 0
    assert found[0, 0, 0].tolist() == [False, False, True, True]
    between = MedSamFrame((1, 8)).leave(torch.tensor([[[[-8.0, 0.5]]]]))[0, 0, 0]
    plain = torch.nn.functional.interpolate(
        torch.tensor([[[[-8.0, 0.5]]]]), (1, 8), mode="bilinear", align_corners=False
    )[0, 0, 0]
    assert (between > 0).sum() >= (plain > 0).sum()
