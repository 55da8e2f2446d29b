"""Mask embeddings: an object as a vector, of a SAM's own image features or of CLIP's.

By a SAM (Segment Anything, supplement E.6): the mask's box is enlarged by half, the crop and its
mirror image are encoded, and features are averaged over the cells that the mask covers.

By CLIP, so that masks are ranked by how well a phrase describes them (text-to-mask, supplement
E.5): a square crop around the mask's enlarged box, pixels outside the mask set to zero, and in the
last layer CLIP's class token attends only to patches with a pixel of the mask.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Method, ModelCard
from segmeter.core.prompts import Box
from segmeter.core.scenes import Image, Pixels, Scene
from segmeter.models.fetching import Hub, offer
from segmeter.models.sam.model import Sam
from segmeter.models.text_networks import own_folder
from segmeter.models.text_prompts import ConceptScene, TextNetwork, rescaled
from segmeter.models.weights import fingerprint

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Bits = npt.NDArray[np.bool_]


def embedding_crop(mask: Mask) -> tuple[slice, slice]:
    """Rows and columns of the mask's box enlarged 1.5 times, inside the image.

    >>> embedding_crop(Mask.box((240, 320), (40, 60), (141, 181)))
    (slice(14, 167, None), slice(29, 212, None))
    """
    crop = []
    for low, high, side in zip(mask.low, mask.high, mask.shape, strict=True):
        middle, reach = (low + high) / 2, 0.75 * (high - low)
        crop.append(slice(max(0, math.floor(middle - reach)), min(side, math.ceil(middle + reach))))
    return crop[0], crop[1]


def cells_on(bits: Bits, resized: tuple[int, int], patch: int = 16) -> Bits:
    """Cells of the feature grid that a mask covers by more than half, `(rows, columns)`.

    `resized` is the size of the image in the network's input. Coverage is the exact average over
    a cell; a partial last cell counts what is inside. If none is covered by half, the cell with
    the largest coverage, the first of equal ones.

    >>> cells_on(np.ones((8, 8), bool), (32, 48)).shape
    (2, 3)
    """
    down, right = (_shares(n, new, patch) for n, new in zip(bits.shape, resized, strict=True))
    coverage = down @ bits.astype(float) @ right.T
    on = coverage > 0.5 + 1e-12
    if not on.any():
        on.flat[int(coverage.argmax())] = True
    return np.asarray(on)


def pooled(features: Floats, on: Bits) -> Floats:
    """Mean of features `(C, rows, columns)` over the cells that are on.

    >>> pooled(np.arange(8.0).reshape(2, 2, 2), np.array([[True, False], [False, True]])).tolist()
    [1.5, 5.5]
    """
    return np.asarray(features[:, on].mean(axis=1))


def mask_embeddings(model: Sam, scene: Scene, masks: Sequence[Mask]) -> Floats:
    """One vector of length 1 per mask, `(masks, channels)`."""
    made = []
    for mask in masks:
        if not mask:
            raise BadInput(f"{scene.name}: an empty mask has no embedding")
        rows, columns = embedding_crop(mask)
        pixels, bits = scene.pixels[rows, columns], mask.dense()[rows, columns]
        both = [np.ascontiguousarray(p) for p in (pixels, pixels[:, ::-1])]
        views = model.encode_together([Image(scene.dataset, scene.id, p, []) for p in both])
        vectors = []
        for view, own in zip(views, (bits, bits[:, ::-1]), strict=True):
            size = [int(s * n + 0.5) for s, n in zip(view.frame.scale, own.shape, strict=True)]
            side = math.isqrt(view.embedding.cells.shape[1])
            on = cells_on(own, (size[0], size[1]), view.frame.side // side)
            grid = view.embedding.cells[0].float().cpu().double().numpy()
            grid = grid.T.reshape(-1, side, side)[:, : on.shape[0], : on.shape[1]]
            vectors.append(pooled(grid, on))
        vector = np.mean(vectors, axis=0)
        made.append(vector / np.linalg.norm(vector))
    return np.array(made)


def colour_histogram(scene: Scene, mask: Mask, bins: int = 8) -> Floats:
    """A baseline: the root of the mask's colour histogram, a vector of length 1.

    >>> scene = Image("d", "1", np.zeros((4, 4, 3), np.uint8), [])
    >>> float(colour_histogram(scene, Mask.box((4, 4), (0, 0), (2, 2))).max())
    1.0
    """
    colours = scene.pixels[mask.dense()].astype(int) * bins // 256
    places = (colours[:, 0] * bins + colours[:, 1]) * bins + colours[:, 2]
    counts = np.bincount(places, minlength=bins**3).astype(float)
    return np.asarray(np.sqrt(counts / counts.sum()))


def _shares(count: int, new: int, patch: int) -> Floats:
    """Share of each cell that each pixel of one axis fills, `(cells, count)`."""
    edges = np.minimum(np.arange(0, new + patch, patch), new) * (count / new)
    edges = edges[: math.ceil(new / patch) + 1]
    low, high = edges[:-1, None], edges[1:, None]
    pixels = np.arange(count)
    inside = np.clip(np.minimum(high, pixels + 1) - np.maximum(low, pixels), 0, None)
    return np.asarray(inside / (high - low))


_MEAN = (0.48145466, 0.4578275, 0.40821073)
_DEVIATION = (0.26862954, 0.26130258, 0.27577711)


def masked_crop(
    pixels: Pixels, mask: Mask, side: int = 336, factor: float = 1.5
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """A square of `side` pixels around the mask's box enlarged by `factor`, and the mask in it.

    Pixels outside the mask are zero.

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


class ClipRanking(TextNetwork):
    """Ranks masks by a phrase with a CLIP in the layout of Hugging Face, given as a folder."""

    def __init__(self, folder: str | Path, factor: float = 1.5, device: str = "cpu") -> None:
        super().__init__(folder, "CLIPModel", "CLIP", device)
        self.factor = factor

    def embed(self, pixels: Pixels, masks: Sequence[Mask]) -> Singles:
        """One vector of length 1 per mask, `(n, d)`."""
        parts = [self._embed(pixels, masks[k : k + 32]) for k in range(0, len(masks), 32)]
        return np.concatenate(parts) if parts else np.zeros((0, 1), np.float32)

    def _embed(self, pixels: Pixels, masks: Sequence[Mask]) -> Singles:
        import torch

        network = self.network
        config = network.config.vision_config
        crops = [masked_crop(pixels, mask, config.image_size, self.factor) for mask in masks]
        mean, deviation = (np.array(v, np.float32) for v in (_MEAN, _DEVIATION))
        images = np.stack([(crop / 255.0 - mean) / deviation for crop, _ in crops])
        seen = np.stack([patches_inside(inside, config.patch_size) for _, inside in crops])
        with torch.inference_mode():
            given = torch.from_numpy(images.astype(np.float32)).permute(0, 3, 1, 2)
            where = torch.from_numpy(seen).to(network.device)
            token = _class_token(network.vision_model, given.to(network.device), where)
            vectors = torch.nn.functional.normalize(network.visual_projection(token), dim=1)
        return np.asarray(vectors.cpu())

    def embed_text(self, phrase: str) -> Singles:
        """The phrase as a vector of length 1."""
        import torch

        network = self.network
        with torch.inference_mode():
            pooled = network.text_model(**self.tokens([phrase], padding=True)).pooler_output
            vector = torch.nn.functional.normalize(network.text_projection(pooled), dim=1)
        return np.asarray(vector[0].cpu())


@catalogue.models.add("clip-masks", summary="proposals ranked by CLIP for a phrase (transformers)")
class ClipMasks:
    """Segment Anything's plain text baseline: automatic masks ranked by CLIP for a phrase.

    For an example box, masks are compared with the crop of the box.

    Parameters
    ----------
    weights
        Folder of a CLIP in the layout of Hugging Face, or of many models.
    proposals
        Method whose proposals are ranked, such as `automatic?model=mobile-sam`.
    cosine
        Similarity that is reported as a score of 0.5; others are scaled linearly.
    factor, most
        Enlargement of a mask's box for its crop, and how many masks a phrase gets at most.
    device
        Device of both networks.
    """

    def __init__(
        self,
        weights: str | None = None,
        proposals: str = "automatic?model=mobile-sam",
        cosine: float = 0.25,
        factor: float = 1.5,
        most: int = 20,
        device: str | None = None,
    ) -> None:
        if not 0 < cosine < 1 or factor < 1 or most < 1:
            raise BadInput("clip-masks: cosine is between 0 and 1, factor and most at least 1")
        self.path, shared = own_folder("clip-masks", weights, "openai/clip-vit-large-patch14-336")
        given = device if catalogue.methods.takes(proposals, "device") else None
        self.proposals: Method = catalogue.methods.make(proposals, weights=shared, device=given)
        self.ranking = ClipRanking(self.path, factor, device or "auto")
        self.cosine, self.most = cosine, most

    @cached_property
    def card(self) -> ModelCard:
        under = self.proposals.card
        about, takes = f"{under.name}, ranked by CLIP", frozenset({"text", "example"})
        licence = " and ".join(dict.fromkeys((under.licence, "MIT")))
        digest = f"{under.fingerprint}-{fingerprint(self.path)}"
        return ModelCard("clip-masks", about, takes, licence, "radford2021", "clip", digest)

    def encode(self, scene: Scene) -> ConceptScene:
        @cache
        def candidates() -> tuple[list[Mask], Singles]:
            found = [mask for mask in self.proposals.segment(scene).proposals or () if mask]
            return found, self.ranking.embed(scene.pixels, found)

        def answer(phrase: str | None, example: Box | None) -> tuple[list[Mask], list[float]]:
            masks, vectors = candidates()
            if not masks:
                return [], []
            similar = np.zeros(len(masks), np.float32)
            if phrase is not None:
                similar = vectors @ self.ranking.embed_text(phrase)
            elif example is not None:
                similar = vectors @ self.ranking.embed(scene.pixels, [_filled(scene, example)])[0]
            best = np.argsort(-similar, kind="stable")[: self.most]
            scores = [max(0.0, rescaled(float(similar[k]), self.cosine)) for k in best]
            return [masks[k] for k in best], scores

        return ConceptScene(scene, self.card.abilities, answer)


def _filled(scene: Scene, box: Box) -> Mask:
    """A box as a mask, at least one pixel of the image."""
    top = np.minimum(np.maximum(np.round(box.low), 0), np.subtract(scene.shape, 1)).astype(int)
    end = np.minimum(np.maximum(np.round(box.high) + 1, top + 1), scene.shape).astype(int)
    return Mask.box(scene.shape, tuple(top.tolist()), tuple(end.tolist()))


def _class_token(vision: Any, pixels: Any, seen: Any) -> Any:
    """The pooled class token, which attends in the last layer to the seen patches and itself."""
    import torch

    states = vision.pre_layrnorm(vision.embeddings(pixels))
    *layers, last = vision.encoder.layers
    for layer in layers:
        states = _states(layer(states, attention_mask=None))
    count = states.shape[1]
    hidden = states.new_zeros(len(seen), 1, count, count)
    hidden[:, 0, 0, 1:] = torch.where(seen, 0.0, torch.finfo(states.dtype).min)
    states = _states(last(states, attention_mask=hidden))
    return vision.post_layernorm(states[:, 0])


def _states(output: Any) -> Any:
    """Hidden states, which some versions of transformers wrap in a tuple."""
    return output[0] if isinstance(output, tuple) else output


offer("clip-masks", Hub("openai/clip-vit-large-patch14-336"))
