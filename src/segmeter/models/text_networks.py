"""Text-prompted networks of transformers from a folder: SAM 3, Grounding DINO, OWLv2, CLIPSeg.

`weights` is a folder in the layout of Hugging Face (config, safetensors, tokeniser), or a folder of
many models with one of the model's name. Each image goes through the vision network once. The
detectors prompt a segmenter with their boxes. Scores are the networks' own.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ModelCard
from segmeter.core.prompts import Box
from segmeter.core.scenes import Pixels, Scene
from segmeter.models import weights as weight_files
from segmeter.models.fetching import Hub, offer
from segmeter.models.text_prompts import BoxesToMasks, ConceptScene, FoundBoxes, TextNetwork

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class _Kind:
    network: str
    vision: str
    hub: str
    licence: str
    citation: str


_KINDS = {
    "sam3": _Kind(
        "Sam3Model", "", "facebook/sam3", "SAM License", "carion2025",
    ),
    "grounding-dino": _Kind(
        "GroundingDinoForObjectDetection", "model.backbone", "IDEA-Research/grounding-dino-tiny",
        "Apache-2.0", "liu2024grounding",
    ),
    "owlv2": _Kind(
        "Owlv2ForObjectDetection", "owlv2.vision_model", "google/owlv2-base-patch16-ensemble",
        "Apache-2.0", "minderer2023",
    ),
    "clipseg": _Kind(
        "CLIPSegForImageSegmentation", "clip.vision_model", "CIDAS/clipseg-rd64-refined",
        "Apache-2.0", "luddecke2022",
    ),
}  # fmt: skip


def own_folder(name: str, weights: str | None, hub: str) -> tuple[Path, str | None]:
    """The folder of a network, and the folder of many models that it is in, if it is in one."""
    path = weight_files.find(name, weights, hub)
    return path, weights if weights is not None and path != Path(weights) else None


class _Network(TextNetwork):
    """A network in which images pass the vision part once; `shared` is a folder of many models."""

    def __init__(self, name: str, weights: str | None, device: str | None) -> None:
        self.about = _KINDS[name]
        path, self.shared = own_folder(name, weights, self.about.hub)
        vision = bool(self.about.vision)
        super().__init__(path, self.about.network, name, device or "auto", vision)

    @cached_property
    def card(self) -> ModelCard:
        name, about, takes = self.what, f"{self.kind} of transformers", frozenset({"text"})
        credits_ = (self.about.licence, self.about.citation)
        digest = weight_files.fingerprint(self.folder)
        return ModelCard(name, about, takes, *credits_, family=name, fingerprint=digest)

    @cached_property
    def network(self) -> Any:
        made = super().network
        if self.about.vision:
            _once_per_image(made.get_submodule(self.about.vision))
        return made


def _once_per_image(module: Any) -> None:
    """Let a vision network return the output it has for a tensor of pixels it has seen."""
    from torch.utils.weak import WeakTensorKeyDictionary

    plain, kept = module.forward, WeakTensorKeyDictionary()

    def forward(*args: Any, **options: Any) -> Any:
        pixels = args[0] if args else options["pixel_values"]
        if pixels not in kept:
            kept[pixels] = plain(*args, **options)
        return kept[pixels]

    module.forward = forward


class _Detector(BoxesToMasks):
    """A detector of transformers whose boxes prompt a segmenter.

    Parameters
    ----------
    weights
        Folder of the detector, or of many models.
    segmenter
        A model that takes boxes; `mobile-sam?weights=FILE` where it is not in the same folder.
    least
        Boxes with a lower score are left out.
    score
        The score that is reported as 0.5; others are scaled linearly.
    device
        Device of both networks.
    """

    name: ClassVar[str]

    def __init__(
        self,
        weights: str | None = None,
        segmenter: str = "mobile-sam",
        least: float = 0.1,
        score: float = 0.5,
        device: str | None = None,
    ) -> None:
        self.detector = _Network(self.name, weights, device)
        self.least = _checked(self.name, least)
        super().__init__(segmenter, self.detector.shared, device, score)

    def detect(self, pixels: Pixels) -> tuple[dict[str, Any], Pixels]:
        return self.detector.image(pixels), pixels

    def kept(self, logits: Tensor, boxes: Tensor, size: tuple[float, float]) -> FoundBoxes:
        """Boxes from relative centres and sides; `size` is the height and width of 1."""
        found = []
        height, width = size
        scores = logits[0].sigmoid().amax(-1).tolist()
        for score, (x, y, w, h) in zip(scores, boxes[0].tolist(), strict=True):
            if score >= self.least:
                low = ((y - h / 2) * height, (x - w / 2) * width)
                high = ((y + h / 2) * height - 1, (x + w / 2) * width - 1)
                found.append((Box(low, (max(low[0], high[0]), max(low[1], high[1]))), score))
        return found


@catalogue.models.add("grounding-dino", summary="Grounding DINO's boxes, masks by a segmenter")
class GroundingDino(_Detector):
    """Grounding DINO + SAM: boxes of the phrase prompt a segmenter."""

    name = "grounding-dino"

    def boxes(self, detected: Any, phrase: str | None, example: Box | None) -> FoundBoxes:
        import torch

        image, pixels = detected
        words = self.detector.tokens(f"{phrase or ''}".lower().strip(" .") + ".")
        with torch.inference_mode():
            output = self.detector.network(**image, **words)
        return self.kept(output.logits, output.pred_boxes, pixels.shape[:2])


@catalogue.models.add("owlv2", summary="OWLv2's boxes, masks by a segmenter")
class Owlv2(_Detector):
    """OWLv2 + SAM: boxes of the phrase, or of what is like an example, prompt a segmenter."""

    name = "owlv2"
    abilities = frozenset({"text", "example"})

    def boxes(self, detected: Any, phrase: str | None, example: Box | None) -> FoundBoxes:
        import torch

        image, pixels = detected
        network = self.detector.network
        side = float(max(pixels.shape[:2]))  # images are padded to a square
        with torch.inference_mode():
            if phrase is not None:
                given = self.detector.tokens(phrase, padding="max_length")
                output = network(**image, **_words(given))
                return self.kept(output.logits, output.pred_boxes, (side, side))
            query = self.detector.image(_crop(pixels, example))["pixel_values"]
            output = network.image_guided_detection(**image, query_pixel_values=query)
            return self.kept(output.logits, output.target_pred_boxes, (side, side))


@catalogue.models.add("clipseg", summary="CLIPSeg: one mask of all that a phrase names")
class ClipSeg:
    """CLIPSeg: one mask per phrase or example, for all objects together.

    Its score is the largest probability of a pixel.

    Parameters
    ----------
    weights
        Folder of CLIPSeg, or of many models.
    threshold
        Probability from which on a pixel is in the mask.
    device
        Device of the network.
    """

    def __init__(
        self, weights: str | None = None, threshold: float = 0.5, device: str | None = None
    ) -> None:
        if not 0 < threshold < 1:
            raise BadInput(f"clipseg: 'threshold' is a probability, not {threshold}")
        self.parts, self.threshold = _Network("clipseg", weights, device), threshold

    @cached_property
    def card(self) -> ModelCard:
        return _with_examples(self.parts.card)

    def encode(self, scene: Scene) -> ConceptScene:
        image = cache(lambda: self.parts.image(scene.pixels)["pixel_values"])

        def answer(phrase: str | None, example: Box | None) -> tuple[list[Mask], list[float]]:
            import torch

            if phrase is not None:
                words = _words(self.parts.tokens(phrase))
            else:
                shown = self.parts.image(_crop(scene.pixels, example))["pixel_values"]
                words = {"conditional_pixel_values": shown}
            with torch.inference_mode():
                logits = self.parts.network(pixel_values=image(), **words).logits
                small = logits.reshape(1, 1, *logits.shape[-2:]).sigmoid()
            (likely,) = _enlarged(small, scene.shape)
            mask = Mask.of(likely >= self.threshold)
            return ([mask], [float(likely.max())]) if mask else ([], [])

        return ConceptScene(scene, self.card.abilities, answer)


@catalogue.models.add(
    "sam3", summary="SAM 3's detector: all objects that a phrase names (transformers)"
)
class Sam3:
    """SAM 3's detector: a mask per object of a phrase, of an example box, or of both.

    Example boxes need torchvision, which transformers uses for them.

    Parameters
    ----------
    weights
        Folder of SAM 3, or of many models.
    least
        Objects with a lower score are left out.
    device
        Device of the network.
    """

    def __init__(
        self, weights: str | None = None, least: float = 0.3, device: str | None = None
    ) -> None:
        self.parts, self.least = _Network("sam3", weights, device), _checked("sam3", least)

    @cached_property
    def card(self) -> ModelCard:
        boxes = importlib.util.find_spec("torchvision") is not None
        return _with_examples(self.parts.card) if boxes else self.parts.card

    def encode(self, scene: Scene) -> ConceptScene:
        vision = cache(lambda: self._vision(scene.pixels))

        def answer(phrase: str | None, example: Box | None) -> tuple[list[Mask], list[float]]:
            import torch

            network = self.parts.network
            longest = network.config.text_config.max_position_embeddings
            text = "visual" if phrase is None else phrase
            given = self.parts.tokens(text, padding="max_length", max_length=longest)
            boxes = {} if example is None else {"input_boxes": self._box(example, scene.shape)}
            with torch.inference_mode():
                output = network(vision_embeds=vision(), **_words(given), **boxes)
                scores = (output.pred_logits.sigmoid() * output.presence_logits.sigmoid())[0]
                kept = scores >= self.least
                likely = _enlarged(output.pred_masks[:, kept].sigmoid(), scene.shape)
            masks = [Mask.of(one > 0.5) for one in likely]
            return masks, scores[kept].tolist()

        return ConceptScene(scene, self.card.abilities, answer)

    def _vision(self, pixels: Pixels) -> Any:
        """Features of the image, stretched to a square and scaled to -1 ... 1."""
        import torch

        network = self.parts.network
        side = network.config.vision_config.image_size
        size = (side, side) if isinstance(side, int) else tuple(side)
        with torch.inference_mode():
            image = torch.from_numpy(np.ascontiguousarray(pixels)).to(network.device)
            small = torch.nn.functional.interpolate(
                image.permute(2, 0, 1)[None].float(), size, mode="bilinear", antialias=True
            )
            return network.get_vision_features(pixel_values=small.round() / 127.5 - 1)

    def _box(self, box: Box, shape: tuple[int, ...]) -> Tensor:
        """Centre and sides, relative to the image: `(1, 1, 4)`."""
        import torch

        low, high = np.divide(box.low, shape), np.divide(np.add(box.high, 1), shape)
        (y, x), (height, width) = (low + high) / 2, high - low
        return torch.tensor([[[x, y, width, height]]], device=self.parts.network.device).float()


def _with_examples(card: ModelCard) -> ModelCard:
    return replace(card, abilities=card.abilities | {"example"})


def _checked(name: str, least: float) -> float:
    if not 0 <= least <= 1:
        raise BadInput(f"{name}: 'least' is a score from 0 to 1, not {least}")
    return least


def _words(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in ("input_ids", "attention_mask")}


def _crop(pixels: Pixels, box: Box | None) -> Pixels:
    """The pixels of an example box, at least one."""
    if box is None:
        raise BadInput("a request needs a phrase or an example box")
    limit = np.array(pixels.shape[:2])
    (y0, x0) = np.clip(np.floor(box.low), 0, limit - 1).astype(int)
    (y1, x1) = np.clip(np.ceil(box.high), (y0, x0), limit - 1).astype(int)
    return pixels[y0 : y1 + 1, x0 : x1 + 1]


def _enlarged(maps: Tensor, shape: tuple[int, ...]) -> Any:
    """Maps `(1, n, h, w)` at the image's size, `(n, H, W)` in NumPy."""
    import torch

    if not maps.shape[1]:
        return np.zeros((0, *shape), np.float32)
    full = torch.nn.functional.interpolate(
        maps.float(), size=tuple(shape), mode="bilinear", align_corners=False
    )
    return full[0].cpu().numpy()


for _name, _kind in _KINDS.items():
    offer(_name, Hub(_kind.hub))
