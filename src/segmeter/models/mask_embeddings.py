"""Mask embeddings: an object as a vector of a SAM's own image features.

Segment Anything, supplement E.6: the mask's box is enlarged by half, the crop and its mirror image
are encoded, and features are averaged over the cells that the mask covers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scenes import Image, Scene
from segmeter.models.sam.model import Sam

Floats = npt.NDArray[np.float64]
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
