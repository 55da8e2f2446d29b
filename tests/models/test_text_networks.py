"""Networks of transformers that take phrases: tiny random ones of the same classes as folders."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import segmeter
from segmeter.core.errors import BadInput, BadWeights, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import Image, Target

transformers = pytest.importorskip("transformers")
PIXELS = np.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype=np.uint8)
SCENE = Image("drawn", "a", PIXELS, [Target("a", Mask.box((60, 80), (20, 30), (40, 40)))])
SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 2}  # fmt: skip
TEXT = {**SMALL, "vocab_size": 9, "eos_token_id": 3, "bos_token_id": 2, "pad_token_id": 0}
VISION = {**SMALL, "image_size": 64, "patch_size": 16}


def write_tokeniser(folder: Path, longest: int) -> None:
    """Whole words of a vocabulary of nine."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    listed = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", "a", "cat", "dog", "visual")
    words = {word: k for k, word in enumerate(listed)}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", eos_token="[SEP]",
        cls_token="[CLS]", sep_token="[SEP]", model_max_length=longest,
    ).save_pretrained(folder)  # fmt: skip


def sam3() -> tuple[Any, Any]:
    size = {"hidden_size": 16, "num_attention_heads": 2}
    layers = {**size, "num_layers": 1, "intermediate_size": 16}
    backbone = {
        **SMALL, "model_type": "sam3_vit_model", "num_hidden_layers": 1, "image_size": 56,
        "patch_size": 14, "pretrain_image_size": 56, "window_size": 2, "global_attn_indexes": [0],
    }  # fmt: skip
    config = transformers.Sam3Config(
        vision_config={"backbone_config": backbone, "fpn_hidden_size": 16,
                       "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]},
        text_config={**TEXT, "model_type": "clip_text_model", "max_position_embeddings": 32,
                     "projection_dim": 16},
        geometry_encoder_config=layers, detr_encoder_config=layers,
        detr_decoder_config={**layers, "num_queries": 5}, mask_decoder_config=size,
    )  # fmt: skip
    return transformers.Sam3Model(config), None


def grounding_dino() -> tuple[Any, Any]:
    config = transformers.GroundingDinoConfig(
        backbone_config={"model_type": "swin", "image_size": 64, "embed_dim": 8,
                         "depths": [1, 1, 1], "num_heads": [1, 2, 4], "window_size": 4,
                         "out_indices": [1, 2, 3]},
        text_config={**SMALL, "model_type": "bert", "vocab_size": 9, "max_position_embeddings": 64},
        num_queries=6, encoder_layers=1, decoder_layers=2, d_model=32, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, num_feature_levels=3,
        max_text_len=16,
    )  # fmt: skip
    images = transformers.GroundingDinoImageProcessorPil(
        size={"shortest_edge": 64, "longest_edge": 96}
    )
    return transformers.GroundingDinoForObjectDetection(config), images


def owlv2() -> tuple[Any, Any]:
    config = transformers.Owlv2Config(
        text_config={**TEXT, "max_position_embeddings": 16}, vision_config=VISION, projection_dim=16
    )
    images = transformers.Owlv2ImageProcessorPil(size={"height": 64, "width": 64})
    return transformers.Owlv2ForObjectDetection(config), images


def clipseg() -> tuple[Any, Any]:
    config = transformers.CLIPSegConfig(
        text_config={**TEXT, "max_position_embeddings": 16}, vision_config=VISION,
        projection_dim=16, reduce_dim=8, extract_layers=[0, 1], decoder_num_attention_heads=2,
        decoder_intermediate_size=16, conditional_layer=0,
    )  # fmt: skip
    images = transformers.ViTImageProcessorPil(size={"height": 64, "width": 64})
    return transformers.CLIPSegForImageSegmentation(config), images


MADE = {"sam3": sam3, "grounding-dino": grounding_dino, "owlv2": owlv2, "clipseg": clipseg}
OPTIONS: dict[str, dict[str, Any]] = {
    "sam3": {"least": 0.0},
    "grounding-dino": {"least": 0.0, "segmenter": "synthetic-stubborn"},
    "owlv2": {"least": 0.0, "segmenter": "synthetic-stubborn"},
    "clipseg": {"threshold": 0.01},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of weights with one network per folder."""
    root = tmp_path_factory.mktemp("networks")
    for name, make in MADE.items():
        torch.manual_seed(0)
        network, images = make()
        network.save_pretrained(root / name)
        write_tokeniser(root / name, 32 if name == "sam3" else 16)
        if images is not None:
            images.save_pretrained(root / name)
    return root


def asked(*prompts: Any) -> segmeter.Request:
    return segmeter.Request(prompts)


@pytest.mark.parametrize("name", MADE)
def test_a_folder_answers_phrases_by_masks_with_scores(name: str, folders: Path) -> None:
    model: Any = segmeter.load_model(f"{name}?weights={folders / name}", **OPTIONS[name])
    assert "text" in model.card.abilities
    assert model.card.fingerprint
    encoded = model.encode(SCENE)
    cat, dog = encoded.predict([asked(segmeter.Text("a cat")), asked(segmeter.Text("a dog"))])
    assert len(cat.scores) == len(cat.found) > 0
    assert (np.diff(cat.scores) <= 0).all()
    assert cat.scores.max() <= 1
    assert cat.scores.min() >= 0
    assert all(mask.shape == SCENE.shape for mask in cat.found)
    assert not np.array_equal(cat.scores, dog.scores)
    (again,) = encoded.predict([asked(segmeter.Text("a cat"))])
    np.testing.assert_array_equal(again.scores, cat.scores)
    with pytest.raises(BadInput, match="this model takes text"):
        encoded.predict([asked(segmeter.Click((1, 1)))])


@pytest.mark.parametrize("name", ["clipseg", "grounding-dino", "owlv2"])
def test_each_image_is_encoded_by_the_vision_network_once(name: str, folders: Path) -> None:
    model: Any = segmeter.load_model(name, folders, **OPTIONS[name])
    parts = model.parts if name == "clipseg" else model.detector
    counted: list[int] = []
    first = next(m for m in parts.network.modules() if isinstance(m, torch.nn.Conv2d))
    first.register_forward_hook(lambda *_: counted.append(1))
    requests = [asked(segmeter.Text(text)) for text in ("a cat", "a dog", "dog")]
    encoded = model.encode(SCENE)
    cat, _, dog = encoded.predict(requests)
    assert sum(counted) == 1
    # A network that has not kept anything gives the same.
    plain: Any = segmeter.load_model(name, folders, **OPTIONS[name])
    (fresh,) = plain.encode(SCENE).predict(requests[2:])
    np.testing.assert_array_equal(fresh.scores, dog.scores)
    assert fresh.found == dog.found
    other = Image("drawn", "b", 255 - PIXELS, SCENE.targets)
    assert not np.array_equal(model.encode(other).predict(requests[:1])[0].scores, cat.scores)
    assert sum(counted) == 2


def test_boxes_are_those_of_transformers(folders: Path) -> None:
    """Postprocessing of the library: edges of boxes; a `Box` has the last pixel inside."""
    for name in ("grounding-dino", "owlv2"):
        model: Any = segmeter.load_model(name, folders, **OPTIONS[name])
        network, tokens, images = model.detector.parts
        text = "a cat." if name == "grounding-dino" else "a cat"
        padding = {} if name == "grounding-dino" else {"padding": "max_length"}
        given = {**images(images=PIXELS, return_tensors="pt"),
                 **tokens(text, return_tensors="pt", **padding)}  # fmt: skip
        if name == "owlv2":
            given.pop("token_type_ids", None)
        with torch.inference_mode():
            output = network(**given)
        whole = images.post_process_object_detection(
            output, threshold=0.0, target_sizes=[PIXELS.shape[:2]]
        )[0]
        found = model.boxes(model.detect(PIXELS), "a cat", None)
        assert len(found) == len(whole["scores"])
        for (box, score), expected, corners in zip(
            found, whole["scores"], whole["boxes"], strict=True
        ):
            left, top, right, bottom = corners.tolist()
            assert score == pytest.approx(float(expected), abs=1e-6)
            last = max(top, bottom - 1), max(left, right - 1)
            np.testing.assert_allclose((*box.low, *box.high), (top, left, *last), atol=1e-3)


def test_sam3_scores_are_those_of_its_logits_and_presence(folders: Path) -> None:
    model: Any = segmeter.load_model("sam3", folders, least=0.0)
    network, tokens, _ = model.parts.parts
    small = torch.nn.functional.interpolate(
        torch.from_numpy(PIXELS).permute(2, 0, 1)[None].float(), (56, 56), mode="bilinear",
        antialias=True,
    )  # fmt: skip
    words = tokens("a cat", return_tensors="pt", padding="max_length", max_length=32)
    with torch.inference_mode():
        output = network(
            pixel_values=small.round() / 127.5 - 1,
            input_ids=words["input_ids"],
            attention_mask=words["attention_mask"],
        )
    expected = (output.pred_logits.sigmoid() * output.presence_logits.sigmoid())[0]
    (found,) = model.encode(SCENE).predict([asked(segmeter.Text("a cat"))])
    np.testing.assert_allclose(found.scores, -np.sort(-expected.numpy()), atol=1e-6)


@pytest.mark.parametrize("name", ["clipseg", "owlv2"])
def test_an_example_box_is_answered_like_a_phrase(name: str, folders: Path) -> None:
    model: Any = segmeter.load_model(name, folders, **OPTIONS[name])
    one, other = model.encode(SCENE).predict(
        [asked(segmeter.Box((20, 30), (39, 39))), asked(segmeter.Box((0, 0), (50, 20)))]
    )
    assert len(one.scores) > 0
    assert not np.array_equal(one.scores, other.scores)


def test_models_without_examples_refuse_boxes(folders: Path) -> None:
    names = ["grounding-dino"]
    if importlib.util.find_spec("torchvision") is None:
        names.append("sam3")
    for name in names:
        model = segmeter.load_model(name, folders, **OPTIONS[name])
        with pytest.raises(BadInput, match="takes text only"):
            model.encode(SCENE).predict([asked(segmeter.Box((20, 30), (39, 39)))])


def test_folders_of_other_networks_are_refused(folders: Path, tmp_path: Path) -> None:
    wrong: Any = segmeter.load_model(f"clipseg?weights={folders / 'owlv2'}")
    with pytest.raises(BadWeights, match="holds no clipseg"):
        wrong.encode(SCENE).predict([asked(segmeter.Text("a cat"))])
    with pytest.raises(NotFound, match="no weights for 'sam3'"):
        segmeter.load_model("sam3", tmp_path)
    with pytest.raises(BadInput, match="takes no boxes"):
        segmeter.load_model("owlv2", folders, segmenter="clipseg")


def test_a_folder_is_opened_by_its_path(folders: Path) -> None:
    for name in ("clipseg", "owlv2", "grounding-dino"):
        options = {k: v for k, v in OPTIONS[name].items() if k == "segmenter"}
        assert segmeter.load_model(str(folders / name), **options).card.family == name
