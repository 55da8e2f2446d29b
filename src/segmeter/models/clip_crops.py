"""Masked CLIP crops: masks ranked by how well a phrase describes them.

Segment Anything's text-to-mask scheme (supplement E.5): a square crop around the mask's enlarged
box, pixels outside the mask set to zero, and in the last layer CLIP's class token attends only to
patches with a pixel of the mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, BadWeights
from segmeter.core.masks import Mask
from segmeter.core.scenes import Pixels
from segmeter.models.weights import DAMAGED

Floats = npt.NDArray[np.float32]
_MEAN = (0.48145466, 0.4578275, 0.40821073)
_DEVIATION = (0.26862954, 0.26130258, 0.27577711)


def masked_crop(
    pixels: Pixels, mask: Mask, side: int = 336, factor: float = 1.5, *, blank: bool = True
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """A square of `side` pixels around the mask's box enlarged by `factor`, and the mask in it.

    Outside the image the square is zero; with `blank` all pixels outside the mask are. In training
    the factor is uniform in [1, 2] and half of the crops are blanked.

    >>> box = Mask.box((40, 60), (5, 5), (15, 25))
    >>> crop, inside = masked_crop(np.ones((40, 60, 3), np.uint8), box)
    >>> crop.shape, bool((crop[~inside] == 0).all())
    ((336, 336, 3), True)
    """
    import cv2

    if not mask:
        raise BadInput("an empty mask has no crop")
    middle = [(a + b) / 2 for a, b in zip(mask.low, mask.high, strict=True)]
    length = max(b - a for a, b in zip(mask.low, mask.high, strict=True)) * factor
    count = max(1, round(length))
    y, x = (round(c - length / 2) for c in middle)
    square = np.zeros((count, count, 3), np.uint8)
    bits = np.zeros((count, count), np.uint8)
    top, left = max(0, y), max(0, x)
    bottom, right = min(pixels.shape[0], y + count), min(pixels.shape[1], x + count)
    place = slice(top - y, bottom - y), slice(left - x, right - x)
    square[place] = pixels[top:bottom, left:right]
    bits[place] = mask.dense()[top:bottom, left:right]
    small = cv2.resize(square, (side, side), interpolation=cv2.INTER_AREA)
    inside = cv2.resize(bits, (side, side), interpolation=cv2.INTER_NEAREST) > 0
    if blank:
        small = np.where(inside[..., None], small, 0).astype(np.uint8)
    return np.asarray(small, dtype=np.uint8), np.asarray(inside)


def patches_inside(inside: npt.NDArray[np.bool_], patch: int) -> npt.NDArray[np.bool_]:
    """Patches, row by row, that hold at least one pixel of the mask.

    >>> patches_inside(np.eye(4, dtype=bool), 2).tolist()
    [True, False, False, True]
    """
    count = inside.shape[0] // patch
    cells = inside[: count * patch, : count * patch].reshape(count, patch, count, patch)
    return np.asarray(cells.any(axis=(1, 3)).ravel())


class ClipRanking:
    """Ranks masks by a phrase with a CLIP in the layout of Hugging Face, given as a folder."""

    def __init__(self, folder: str | Path, factor: float = 1.5) -> None:
        self.folder, self.factor = Path(folder), factor

    def similarity(self, pixels: Pixels, masks: Sequence[Mask], phrase: str) -> Floats:
        """Cosine of the phrase with every masked crop."""
        vectors = self.embed(pixels, masks)
        made: Floats = vectors @ self.embed_text(phrase)
        return made

    def rank(self, pixels: Pixels, masks: Sequence[Mask], phrase: str) -> list[int]:
        """Places of the masks, the best match first; the first of equal ones."""
        similar = self.similarity(pixels, masks, phrase)
        return [int(k) for k in np.argsort(-similar, kind="stable")]

    def embed(self, pixels: Pixels, masks: Sequence[Mask]) -> Floats:
        """One vector of length 1 per mask."""
        import torch

        network, _ = self._parts
        config = network.config.vision_config
        crops = [masked_crop(pixels, mask, config.image_size, self.factor) for mask in masks]
        mean, deviation = (np.array(v, np.float32) for v in (_MEAN, _DEVIATION))
        images = np.stack([(crop / 255.0 - mean) / deviation for crop, _ in crops])
        seen = np.stack([patches_inside(inside, config.patch_size) for _, inside in crops])
        with torch.inference_mode():
            given = torch.from_numpy(images.astype(np.float32)).permute(0, 3, 1, 2)
            token = _class_token(network.vision_model, given, torch.from_numpy(seen))
            made: Floats = torch.nn.functional.normalize(
                network.visual_projection(token), dim=1
            ).numpy()
        return made

    def embed_text(self, phrase: str) -> Floats:
        """The phrase as a vector of length 1."""
        import torch

        network, tokens = self._parts
        with torch.inference_mode():
            given = tokens([phrase], padding=True, truncation=True, return_tensors="pt")
            pooled = network.text_model(**given).pooler_output
            vector = torch.nn.functional.normalize(network.text_projection(pooled), dim=1)
        made: Floats = vector[0].numpy()
        return made

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        import transformers

        try:
            network: Any = transformers.CLIPModel.from_pretrained(
                self.folder, local_files_only=True, use_safetensors=True
            )
            tokens = transformers.AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
        except DAMAGED as error:
            reason = str(error).strip().split("\n")[0][:120]
            raise BadWeights(f"'{self.folder}' holds no CLIP: {reason}") from error
        return network.eval(), tokens


def _class_token(vision: Any, pixels: Any, seen: Any) -> Any:
    """The pooled class token, which attends in the last layer to the seen patches and itself."""
    import torch

    states = vision.pre_layrnorm(vision.embeddings(pixels))
    *layers, last = vision.encoder.layers
    for layer in layers:
        states = _states(layer(states, attention_mask=None))
    count = states.shape[1]
    hidden = torch.zeros(len(seen), 1, count, count)
    hidden[:, 0, 0, 1:] = torch.where(seen, 0.0, torch.finfo(states.dtype).min)
    states = _states(last(states, attention_mask=hidden))
    return vision.post_layernorm(states[:, 0])


def _states(output: Any) -> Any:
    """Hidden states, which some versions of transformers wrap in a tuple."""
    return output[0] if isinstance(output, tuple) else output
