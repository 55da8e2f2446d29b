"""Masked CLIP crops: geometry, and a tiny random CLIP against transformers' own features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import segmeter
from segmeter.core.errors import BadInput, BadWeights
from segmeter.core.masks import Mask
from segmeter.core.scenes import Image, Target
from segmeter.models.mask_embeddings import ClipRanking, masked_crop, patches_inside
from segmeter.models.text_prompts import rescaled

transformers = pytest.importorskip("transformers")
PIXELS = np.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CLIP of two layers with random weights and a vocabulary of six words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("clip")
    words = {word: k for k, word in enumerate(("[PAD]", "[UNK]", "a", "cat", "dog", "[EOS]"))}
    tokens = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokens, pad_token="[PAD]", unk_token="[UNK]", eos_token="[EOS]"
    ).save_pretrained(folder)
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
             "num_attention_heads": 2}  # fmt: skip
    config = transformers.CLIPConfig(
        text_config={**small, "vocab_size": 6, "eos_token_id": 5, "max_position_embeddings": 8},
        vision_config={**small, "image_size": 32, "patch_size": 8},
        projection_dim=12,
    )
    torch.manual_seed(0)
    transformers.CLIPModel(config).save_pretrained(folder)
    return folder


def test_the_crop_is_a_square_around_the_enlarged_box() -> None:
    mask = Mask.box((60, 80), (20, 30), (40, 40))
    crop, inside = masked_crop(PIXELS, mask, side=60, factor=1.5)
    # 30 pixels around the centre (30, 35), doubled: the mask is 20 x 10 of them.
    assert inside.sum() == 40 * 20
    assert np.argwhere(inside).min(axis=0).tolist() == [10, 20]
    assert not crop[~inside].any()
    assert crop[inside].any()
    _, inside = masked_crop(PIXELS, Mask.box((60, 80), (0, 0), (8, 8)), side=24)
    # 12 pixels from (-2, -2) on, doubled: what is beyond the image is outside the mask.
    assert np.argwhere(inside).min(axis=0).tolist() == [4, 4]
    assert np.argwhere(inside).max(axis=0).tolist() == [19, 19]
    with pytest.raises(BadInput, match="empty mask"):
        masked_crop(PIXELS, Mask.empty((60, 80)))


def test_a_mask_that_fills_its_crop_gives_the_features_of_plain_clip(clip: Path) -> None:
    ranking = ClipRanking(clip, factor=1.0)
    mask = Mask.box((60, 80), (10, 10), (42, 42))
    crop, inside = masked_crop(PIXELS, mask, 32, 1.0)
    assert patches_inside(inside, 8).all()
    mean, deviation = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
    given = torch.tensor((crop / 255 - mean) / deviation, dtype=torch.float32)
    network = transformers.CLIPModel.from_pretrained(clip).eval()
    with torch.inference_mode():
        pooled = network.vision_model(pixel_values=given.permute(2, 0, 1)[None]).pooler_output
        plain = torch.nn.functional.normalize(network.visual_projection(pooled), dim=1)
    np.testing.assert_allclose(ranking.embed(PIXELS, [mask])[0], plain[0], atol=1e-5)


def test_the_class_token_does_not_see_patches_outside_the_mask(clip: Path) -> None:
    ranking = ClipRanking(clip, factor=2.0)
    masks = [Mask.box((60, 80), (20, 20), (28, 28)), Mask.box((60, 80), (20, 20), (30, 40))]
    vectors = ranking.embed(PIXELS, masks)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-4


def test_proposals_are_ranked_by_a_phrase_or_an_example(clip: Path) -> None:
    scene = Image("drawn", "a", PIXELS, [Target("a", Mask.box((60, 80), (20, 30), (40, 40)))])
    options: dict[str, Any] = {
        "proposals": "automatic?model=disc&points=3",
        "cosine": 0.5,
        "most": 4,
    }
    model = segmeter.load_model(f"clip-masks?weights={clip}", **options)
    assert {"text", "example"} <= model.card.abilities
    requests = [
        segmeter.Request((segmeter.Text("a cat"),)),
        segmeter.Request((segmeter.Text("dog"),)),
        segmeter.Request((segmeter.Box((5, 5), (30, 30)),)),
    ]
    encoded = model.encode(scene)
    cat, dog, like = encoded.predict(requests)
    every = [m for m in model.proposals.segment(scene).proposals if m]
    ranking = ClipRanking(clip)
    similar = ranking.embed(PIXELS, every) @ ranking.embed_text("a cat")
    best = np.argsort(-similar, kind="stable")[:4]
    assert cat.found == [every[k] for k in best]
    np.testing.assert_allclose(cat.scores, [max(0, rescaled(float(similar[k]), 0.5)) for k in best],
                               rtol=1e-5)  # fmt: skip
    assert not np.array_equal(cat.scores, dog.scores)
    box = Mask.box((60, 80), (5, 5), (31, 31))
    nearest = int(np.argmax(ranking.embed(PIXELS, every) @ ranking.embed(PIXELS, [box])[0]))
    assert like.mask() == every[nearest]
    with pytest.raises(BadWeights, match="holds no CLIP"):
        ClipRanking(clip.parent / "nothing").embed_text("a cat")
