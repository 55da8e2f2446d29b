"""Sentence vectors and phrases to classes against the original, and text prompts end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import segmeter
from segmeter.core.errors import BadInput, BadWeights
from segmeter.models.text_prompts import COCO_CLASSES, SentenceEncoder


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder()


@pytest.fixture(scope="module")
def minilm(golden: Path) -> Any:
    return json.loads((golden / "words" / "minilm.json").read_text())


def test_sentence_vectors_are_the_originals(encoder: SentenceEncoder, minilm: Any) -> None:
    phrases = [p["text"] for p in minilm["phrases"]]
    vectors = encoder.vectors(phrases)
    for vector, expected in zip(vectors, minilm["phrases"], strict=True):
        assert encoder.padded([expected["text"]])["input_ids"][0].tolist() == expected["token_ids"]
        np.testing.assert_allclose(vector[:8], expected["first_8"], atol=2e-6)
        assert float(vector.sum()) == pytest.approx(expected["sum"], abs=2e-5)
    np.testing.assert_allclose(vectors @ vectors.T, minilm["cosine"], atol=2e-6)
    empty = minilm["empty_text"]
    np.testing.assert_allclose(encoder.vectors([""])[0][:8], empty["first_8"], atol=2e-6)


def test_long_texts_are_cut_at_256_tokens_and_not_at_128(
    encoder: SentenceEncoder, minilm: Any
) -> None:
    long = minilm["long_text"]
    text = long["joined_by"].join([long["repeated"]] * long["times"])
    assert encoder.padded([text])["input_ids"].shape == (1, 256)
    vector = encoder.vectors([text])[0][:8]
    np.testing.assert_allclose(vector, long["first_8_at_256"], atol=2e-6)
    assert np.abs(vector - long["first_8_at_128"]).max() > 0.01


def test_phrases_have_the_nearest_classes_of_the_original(
    encoder: SentenceEncoder, minilm: Any, golden: Path
) -> None:
    assert list(COCO_CLASSES) == minilm["classes"]
    classes = encoder.vectors(COCO_CLASSES)
    np.testing.assert_allclose(classes[:, :4], minilm["class_first_4"], atol=2e-6)
    listed = json.loads((golden / "words" / "phrase_to_class.json").read_text())
    similar = encoder.vectors([entry["phrase"] for entry in listed]) @ classes.T
    for row, entry in zip(similar, listed, strict=True):
        best = np.argsort(-row, kind="stable")[:3]
        assert [COCO_CLASSES[i] for i in best] == [name for name, _ in entry["plain"]]
        np.testing.assert_allclose(row[best], [c for _, c in entry["plain"]], atol=2e-6)


def test_a_folder_without_an_encoder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BadWeights, match="holds no sentence encoder"):
        SentenceEncoder(tmp_path).vectors(["a dog"])


@pytest.mark.usefixtures("encoded_once")
def test_a_phrase_prompts_the_boxes_of_its_class(real_weights: Path, real_data: Path) -> None:
    """About 5 s: the one test with a real detector and segmenter."""
    model = segmeter.load_model("text-detect", real_weights, segmenter="mobile-sam")
    assert model.class_of("a settee in the corner of")[0] is None
    assert model.class_of("sofa")[0] == "couch"
    data = segmeter.load_dataset("coco", real_data / "coco80")
    scene = next(s for s in data if sum(t.label == "person" for t in s.targets) == 1)
    encoded = model.encode(scene)
    person, nothing = encoded.predict(
        [segmeter.Request((segmeter.Text(text),)) for text in ("person", "quantum physics")]
    )
    target = next(t.mask for t in scene.targets if t.label == "person")
    assert (
        max(segmeter.measures.iou(target, person.mask(k)) for k in range(len(person.scores))) > 0.5
    )
    assert len(nothing.scores) == 0
    assert nothing.mask().area == 0
    box = segmeter.Box(target.low, tuple(n - 1 for n in target.high))
    (like,) = encoded.predict([segmeter.Request((box,))])
    assert like.found == person.found  # the example's class is person
    with pytest.raises(BadInput, match="takes text or an example box"):
        encoded.predict([segmeter.Request((segmeter.Click((1, 1)),))])
