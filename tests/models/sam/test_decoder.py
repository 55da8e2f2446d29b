"""Our SAM decoder against the modules of `transformers`, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from segmeter.models.checkpoints import read_checkpoint  # noqa: E402
from segmeter.models.sam._decoder import (  # noqa: E402
    _Attention,
    _doubled,
    _ImageToTokens,
    _TokensToImage,
    to_cells,
    to_grid,
    to_tokens,
)
from segmeter.models.sam._loading import HubNetwork, SamNetwork  # noqa: E402

POINTS = torch.tensor([[[20.0, 31.0], [50.5, 7.25]], [[3.0, 60.0], [40.0, 40.0]]])
LABELS = torch.tensor([[1, 0], [1, 1]])
PAD = (torch.zeros(2, 1, 2), -torch.ones(2, 1, dtype=torch.long))


def test_tokens_and_maps_are_two_layouts_of_one_thing() -> None:
    grid = torch.arange(2 * 3 * 64, dtype=torch.float32).reshape(2, 3, 8, 8)
    assert to_tokens(grid).shape == (2, 64, 3)
    assert torch.equal(to_grid(to_tokens(grid), 8), grid)


def test_pixels_by_cells_are_put_back_in_their_places() -> None:
    grid = torch.arange(2 * 3 * 32 * 32, dtype=torch.float32).reshape(2, 3, 32, 32)
    for levels in (1, 2):
        cells = to_cells(grid, levels)
        assert torch.equal(cells[1, 2, 5].flatten(0, -2).sort(0).values, inside(grid, 2, 5, levels))
        assert torch.equal(to_grid(cells.flatten(1, -2), 32 >> levels, levels), grid)


def inside(grid: Any, row: int, column: int, levels: int) -> Any:
    """The pixels of one cell of the second map, row by row."""
    side = 1 << levels
    own = grid[1, :, side * row : side * (row + 1), side * column : side * (column + 1)]
    return own.flatten(1).T


def test_a_product_enlarges_as_the_transposed_convolution_does() -> None:
    torch.manual_seed(0)
    convolution = torch.nn.ConvTranspose2d(6, 3, 2, 2).requires_grad_(False)
    x = noise(2, 64, 6)
    enlarged = _doubled(x.unflatten(1, (8, 8)), convolution).flatten(1, -2)
    assert_equal(to_grid(enlarged, 8, 1), convolution(to_grid(x, 8)))


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("count", [2, 7, 40])
def test_projected_tokens_attend_as_projected_cells_do(count: int, images: int) -> None:
    """The plain form makes keys, values and queries of all cells; one image may serve all."""
    torch.manual_seed(0)
    tokens, values, cells = (
        noise(3, count, 32),
        noise(3, count + 1, 32)[:, 1:],
        noise(images, 50, 32),
    )
    placed = cells + noise(1, 50, 32)
    to_image, to_prompts = (
        kind(32, 2).requires_grad_(False) for kind in (_TokensToImage, _ImageToTokens)
    )
    plain = _Attention.forward(to_image, tokens, placed.expand(3, -1, -1), cells.expand(3, -1, -1))
    assert_equal(to_image(tokens, placed, cells), plain)
    plain = cells + _Attention.forward(to_prompts, placed.expand(3, -1, -1), tokens, values)
    assert_equal(to_prompts(cells, placed, tokens, values), plain)


def test_the_first_sam_agrees_with_transformers_at_the_originals_epsilon(tmp_path: Path) -> None:
    """`transformers` takes 1e-6 for the blocks' layer norms, the original 1e-5."""
    hub = small_sam(layer_norm_eps=1e-5)
    network = opened(hub, tmp_path, "sam-vit-b")
    state = torch.randn(1, 1, 16, 16, generator=torch.Generator().manual_seed(2))
    pixels = noise(1, 3, 64, 64)
    image = hub.get_image_embeddings(pixels)
    for mask in (None, state):
        for three in (True, False):
            expected = hub(
                image_embeddings=image,
                input_points=POINTS[None],
                input_labels=LABELS[None],
                input_masks=mask,
                multimask_output=three,
            )
            masks, scores = ours(network, pixels, mask)
            tokens = slice(1, 4) if three else slice(0, 1)
            assert_equal(masks[:, tokens], expected.pred_masks[0])
            assert_equal(scores[:, tokens], expected.iou_scores[0])


def test_an_epsilon_of_another_size_would_be_noticed(tmp_path: Path) -> None:
    hub = small_sam(layer_norm_eps=1e-2)
    network = opened(hub, tmp_path, "sam-vit-b")
    pixels = noise(1, 3, 64, 64)
    expected = hub(
        pixel_values=pixels, input_points=POINTS[None], input_labels=LABELS[None]
    ).pred_masks[0]
    masks, _ = ours(network, pixels, None)
    assert float((masks[:, 1:] - expected).abs().max()) > 1e-3 * float(expected.abs().max())


@pytest.mark.parametrize("family", ["sam2", "sam3"])
def test_the_second_sam_agrees_with_transformers(family: str, tmp_path: Path) -> None:
    if family == "sam2":
        hub = small_sam2()
        network = opened(hub, tmp_path, "sam2-hiera-tiny")
    else:
        hub = small_sam3()
        network = HubNetwork(hub, "sam3", "cpu", "float32")
    side = network.side
    pixels = noise(1, 3, side, side)
    expected = hub(pixel_values=pixels, input_points=POINTS[None], input_labels=LABELS[None])
    masks, scores = ours(network, pixels, None)
    assert_equal(masks[:, 1:], expected.pred_masks[0])
    assert_equal(scores[:, 1:], expected.iou_scores[0])
    # The two asks differ by more than ten times the tolerance: prompts matter here.
    assert float((masks[0] - masks[1]).abs().max()) > 1e-3 * float(masks.abs().max())


def test_sam_hq_adds_its_mask_to_each(tmp_path: Path) -> None:
    """The parts of `transformers` put together as the paper has them.

    Its own forward enlarges the embedding from before the prompts were looked at.
    """
    hub = small_sam_hq()
    network = opened(hub, tmp_path, "sam-hq-vit-b")
    pixels = noise(1, 3, 64, 64)
    masks, scores = ours(network, pixels, None)
    expected_masks, expected_scores = by_parts(hub, pixels)
    assert_equal(masks, expected_masks)
    assert_equal(scores, expected_scores)


def test_tokens_carry_gradients_back_to_the_points(tmp_path: Path) -> None:
    network = opened(small_sam2(), tmp_path, "sam2-hiera-tiny")
    points = POINTS.clone().requires_grad_(True)
    embedding = network.encode(noise(1, 3, network.side, network.side))
    sparse = network.prompts.points(points, LABELS)
    position = network.prompts.position()
    masks, _ = network.decoder(embedding, position, sparse, network.prompts.no_mask())
    (slope,) = torch.autograd.grad(masks[0, 0, 3, 5], points)
    step = torch.zeros_like(points)
    step[0, 0, 0] = 0.01
    ahead, behind = (
        network.decoder(
            embedding,
            position,
            network.prompts.points(POINTS + sign * step, LABELS),
            network.prompts.no_mask(),
        )[0][0, 0, 3, 5]
        for sign in (1, -1)
    )
    assert float(slope[0, 0, 0]) == pytest.approx(float(ahead - behind) / 0.02, rel=0.05, abs=1e-4)
    assert float(slope[1].abs().max()) == 0.0


def opened(hub: Any, folder: Path, name: str) -> SamNetwork:
    hub.save_pretrained(folder)
    return SamNetwork.load(read_checkpoint(folder, name), "cpu", "float32")


def ours(network: Any, pixels: Any, mask: Any) -> tuple[Any, Any]:
    prompts = network.prompts
    points = torch.cat([POINTS, PAD[0]], dim=1)
    labels = torch.cat([LABELS, PAD[1]], dim=1)
    dense = prompts.no_mask() if mask is None else prompts.masks(mask)
    image = network.encode(pixels)
    return network.decoder(image, prompts.position(), prompts.points(points, labels), dense)


def by_parts(hub: Any, pixels: Any) -> tuple[Any, Any]:
    decoder = hub.mask_decoder
    image, early = hub.get_image_embeddings(pixels)
    sparse, dense = hub.prompt_encoder(POINTS[None], LABELS[None], None, None)
    own = torch.cat([decoder.iou_token.weight, decoder.mask_tokens.weight, decoder.hq_token.weight])
    tokens = torch.cat([own.expand(1, 2, -1, -1), sparse], dim=2)
    twice = (image + dense).repeat_interleave(2, 0)
    place = hub.get_image_wide_positional_embeddings().repeat_interleave(2, 0)
    tokens, cells = decoder.transformer(tokens, twice, place, None)
    tokens, side = tokens[0], image.shape[-1]
    x = cells.flatten(0, 1).transpose(1, 2).reshape(2, 256, side, side)
    x = decoder.activation(decoder.upscale_layer_norm(decoder.upscale_conv1(x)))
    x = decoder.activation(decoder.upscale_conv2(x))
    fine = decoder.mask_conv2(decoder.activation(decoder.mask_norm(decoder.mask_conv1(x))))
    fused = decoder.encoder_conv2(
        decoder.activation(decoder.encoder_norm(decoder.encoder_conv1(image)))
    )
    early = decoder.compress_vit_conv1(early[0].permute(0, 3, 1, 2))
    fused = fused + decoder.compress_vit_conv2(decoder.activation(decoder.compress_vit_norm(early)))
    heads = [mlp(tokens[:, 1 + i]) for i, mlp in enumerate(decoder.output_hypernetworks_mlps)]
    masks = torch.einsum("bnc,bchw->bnhw", torch.stack(heads, 1), x)
    quality = torch.einsum("bc,bchw->bhw", decoder.hq_mask_mlp(tokens[:, 5]), fine + fused)
    return masks + quality[:, None], decoder.iou_prediction_head(tokens[:, 0])


def small_sam(**decoder: Any) -> Any:
    return seeded(transformers.SamModel, transformers.SamConfig(**sizes(), **parts(decoder)))


def small_sam_hq() -> Any:
    decoder = {"vit_dim": 32, "layer_norm_eps": 1e-5}
    return seeded(transformers.SamHQModel, transformers.SamHQConfig(**sizes(), **parts(decoder)))


def sizes() -> dict[str, Any]:
    vision = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 64,
        "mlp_dim": 128,
        "global_attn_indexes": [0],
        "num_pos_feats": 128,
        "window_size": 2,
    }
    return {"vision_config": vision}


def parts(decoder: dict[str, Any]) -> dict[str, Any]:
    prompts = {"image_size": 64, "patch_size": 16, "image_embedding_size": 4}
    return {"prompt_encoder_config": prompts, "mask_decoder_config": decoder}


def small_sam2() -> Any:
    backbone = {
        "model_type": "sam2_hiera_det_model",
        "hidden_size": 16,
        "image_size": [64, 64],
        "blocks_per_stage": [1, 1, 1, 1],
        "embed_dim_per_stage": [16, 32, 64, 128],
        "num_attention_heads_per_stage": [1, 1, 2, 2],
        "window_size_per_stage": [4, 4, 4, 4],
        "global_attention_blocks": [],
        "window_positional_embedding_background_size": [4, 4],
    }
    vision = {
        "backbone_config": backbone,
        "backbone_channel_list": [128, 64, 32, 16],
        "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
    }
    config = transformers.Sam2Config(
        vision_config=vision, prompt_encoder_config={"image_size": 64, "patch_size": 16}
    )
    return seeded(transformers.Sam2Model, config)


def small_sam3() -> Any:
    if not hasattr(transformers, "Sam3TrackerModel"):
        pytest.skip("this version of transformers has no SAM 3")
    backbone = {
        "model_type": "sam3_vit_model",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 56,
        "patch_size": 14,
        "pretrain_image_size": 56,
        "window_size": 2,
        "global_attn_indexes": [0],
    }
    vision = {
        "backbone_config": backbone,
        "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
    }
    config = transformers.Sam3TrackerConfig(
        vision_config=vision, prompt_encoder_config={"image_size": 56, "patch_size": 14}
    )
    return seeded(transformers.Sam3TrackerModel, config)


def seeded(made: Any, config: Any) -> Any:
    """Random weights of a size at which every part of the network matters."""
    hub = made(config).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(1)
    for name, tensor in [*hub.named_parameters(), *hub.named_buffers()]:
        if tensor.dtype.is_floating_point:
            strong = "norm" in name or "token" in name or "embed" in name or tensor.dim() < 2
            scale = 0.5 if strong else tensor[0].numel() ** -0.5
            tensor.copy_(scale * torch.randn(tensor.shape, generator=generator))
    place = hub.shared_image_embedding.positional_embedding
    hub.prompt_encoder.shared_embedding.positional_embedding.copy_(place)
    return hub


def noise(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7))


def assert_equal(found: Any, expected: Any) -> None:
    biggest = float(expected.abs().max())
    assert np.isfinite(biggest)
    assert float((found - expected).abs().max()) <= 1e-4 * biggest
