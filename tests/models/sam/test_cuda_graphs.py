"""Captured graphs answer as the eager way does, bit for bit, on every scene and in any order."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from segmeter.core.models import Request  # noqa: E402
from segmeter.core.prompts import Box, Click  # noqa: E402
from segmeter.core.scenes import Image  # noqa: E402
from segmeter.models.sam._encoded import SamEncodedScene  # noqa: E402
from segmeter.models.sam._hiera import Sam2Encoder  # noqa: E402
from segmeter.models.sam._loading import SamNetwork  # noqa: E402
from segmeter.models.sam._prompt_batches import Policy  # noqa: E402
from segmeter.models.sam._vit import TinyVit  # noqa: E402


def encoded_scenes(
    network: SamNetwork, seed: int, policy: Policy
) -> tuple[SamEncodedScene, SamEncodedScene]:
    """One embedding, answered by graphs and without."""
    pixels = np.random.default_rng(seed).integers(0, 256, (90 + seed, 130, 3), dtype=np.uint8)
    scene = Image("noise", str(seed), pixels, [])
    frame = network.frame(scene.shape)
    with torch.no_grad():
        embedding = network.encode(frame.enter(pixels, network.device))
    with_graphs = SamEncodedScene(network, frame, embedding, policy)
    eager = SamEncodedScene(network, frame, embedding, policy)
    eager.graphs = False
    return with_graphs, eager


@pytest.mark.parametrize("points", ["published", "corrected"])
def test_sessions_by_graphs_equal_eager_ones_bit_for_bit(points: str) -> None:
    torch.manual_seed(0)
    network = SamNetwork(TinyVit(), device="cuda")
    network.parts.to(network.device)
    looked = [encoded_scenes(network, seed, Policy(points=points)) for seed in range(3)]
    draws = np.random.default_rng(1)
    for _ in range(2):
        for replayed, eager in looked:
            state = None
            clicks: tuple[Click, ...] = ()
            for n in range(6):
                clicks = (*clicks, Click(tuple(draws.integers(0, 90, 2)), bool(n % 2)))
                requests = [Request(clicks, state)] * (1 + n % 3)
                ours, theirs = replayed.predict(requests), eager.predict(requests)
                for one, other in zip(ours, theirs, strict=True):
                    assert torch.equal(one.logits, other.logits)
                    assert np.array_equal(one.scores, other.scores)
                    assert one.shown == other.shown
                state = ours[0].state


def test_an_answer_is_kept_when_the_next_is_given() -> None:
    network = SamNetwork(TinyVit(), device="cuda")
    network.parts.to(network.device)
    replayed, _ = encoded_scenes(network, 1, Policy())
    requests = [Request((Click((5, 5)),)), Request((Box((2, 2), (40, 50)),))]
    for request in requests * 2:
        replayed.predict([request])
    first = replayed.predict(requests[:1])[0]
    kept = first.logits.clone()
    replayed.predict([Request((Click((60, 70)),))])
    assert torch.equal(first.logits, kept)


def test_sam2_by_graphs_is_sam2_eagerly_from_pixels_to_masks() -> None:
    """Encoder, decoder, choice and masks of three images in turn."""
    torch.manual_seed(0)
    backbone = {
        "model_type": "sam2_hiera_det_model",
        "hidden_size": 32,
        "blocks_per_stage": [1, 1, 2, 1],
        "embed_dim_per_stage": [32, 64, 128, 256],
        "window_size_per_stage": [8, 4, 6, 3],
        "global_attention_blocks": [3],
    }
    vision = {"backbone_config": backbone, "backbone_channel_list": [256, 128, 64, 32]}
    network = SamNetwork(Sam2Encoder(vision), 256, device="cuda", second=True)
    network.parts.to(network.device)
    draws = np.random.default_rng(2)
    images = [draws.integers(0, 256, (90, 120, 3), dtype=np.uint8) for _ in range(3)]
    frame = network.frame((90, 120))
    for _ in range(2):
        for pixels in images:
            with torch.no_grad():
                entered = frame.enter(pixels, network.device)
                ours = SamEncodedScene(network, frame, network.encode(entered), Policy())
                theirs = SamEncodedScene(network, frame, network.encode(entered), Policy())
                theirs.graphs = False
            assert torch.equal(ours.embedding.cells, theirs.embedding.cells)
            clicks: tuple[Click, ...] = ()
            state = None
            for n in range(4):
                clicks = (*clicks, Click(tuple(draws.integers(0, 90, 2)), bool(n % 2)))
                found = ours.predict([Request(clicks, state)] * 2)
                masks = ours.render(found)
                wanted = theirs.predict([Request(clicks, state)] * 2)
                assert masks == theirs.render(wanted)
                assert torch.equal(found[0].logits, wanted[0].logits)
                assert torch.equal(found[0].state, wanted[0].state)
                state = found[0].state
