"""Automatic masks in the published order of steps: everything is made, then most is dropped.

What the generators of SAM and SAM 2 do at their defaults, in eager PyTorch, batch by batch of 64
points: the published decoder (`plain_decoder.py`), all three masks of every point enlarged to the
image's size, the score's filter, stability counted on whole maps, its filter, thresholds,
boxes, run lengths of all that passed (found on the device, gathered mask by mask), then
suppression over the image, and the masks that are left drawn from their run lengths.
The encoding, the weights and the precision are ours, so that only the steps differ.

Suppression is torchvision's on the device where it is installed, as in the originals, and ours
where it is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plain_decoder import PlainDecoder
from segmeter.models.automatic.options import Options, grid
from segmeter.models.automatic.regions import suppress_boxes
from segmeter.models.sam._decoder import NOT_A_POINT
from segmeter.models.sam._encoded import SamEncodedScene

BATCH = 64


@dataclass(frozen=True, slots=True)
class Found:
    """The masks left: run lengths, boxes, scores and stabilities, best first."""

    counts: list[list[int]]
    masks: list[npt.NDArray[np.bool_]]
    boxes: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]
    stability: npt.NDArray[np.float32]


@torch.no_grad()
def plain_masks(encoded: SamEncodedScene, shape: tuple[int, int], options: Options) -> Found:
    """The whole image, no crops."""
    points = grid(options.points) * np.array([shape[1], shape[0]])
    decoder = PlainDecoder(encoded)
    parts = [
        _batch(encoded, decoder, points[start : start + BATCH, ::-1].copy(), options)
        for start in range(0, len(points), BATCH)
    ]
    counts = [one for part in parts for one in part.counts]
    boxes, scores, stability = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("boxes", "scores", "stability")
    )
    kept = _suppressed(boxes, scores, options.box_nms, encoded.network.device)
    left = [counts[i] for i in kept]
    masks = [_drawn(one, shape) for one in left]
    return Found(left, masks, boxes[kept], scores[kept], stability[kept])


def _batch(
    encoded: SamEncodedScene,
    decoder: PlainDecoder,
    points: npt.NDArray[np.float64],
    options: Options,
) -> Found:
    device = encoded.network.device
    places = torch.tensor(points, dtype=torch.float32, device=device)
    both = torch.stack([places, torch.zeros_like(places)], dim=1)
    labels = torch.tensor([1, NOT_A_POINT], device=device).expand(len(places), 2)
    sparse = encoded.encode_points(both, labels)
    logits, scores = decoder(sparse)
    low, own = logits[:, 1:].flatten(0, 1), scores[:, 1:].flatten()
    return plain_steps(encoded.frame.leave(low[:, None])[:, 0], own, options)


def plain_steps(full: Tensor, scores: Tensor, options: Options) -> Found:
    """Score, stability, threshold, box, run lengths: one after the other, on whole maps."""
    if options.score > 0:
        passed = scores > options.score
        full, scores = full[passed], scores[passed]
    stability = _pixels(full > options.offset) / _pixels(full > -options.offset)
    if options.stability > 0:
        passed = stability >= options.stability
        full, scores, stability = full[passed], scores[passed], stability[passed]
    masks = full > 0
    boxes = _boxes(masks).cpu().numpy()
    return Found(_run_lengths(masks), [], boxes, scores.cpu().numpy(), stability.cpu().numpy())


def _pixels(bits: Tensor) -> Tensor:
    return bits.sum(-1, dtype=torch.int16).sum(-1, dtype=torch.int32)


def _suppressed(
    boxes: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float32],
    threshold: float,
    device: torch.device,
) -> npt.NDArray[np.intp]:
    try:
        from torchvision.ops import nms
    except ImportError:
        return suppress_boxes(boxes, scores, threshold)
    there = torch.from_numpy(boxes).to(device).float(), torch.from_numpy(scores).to(device)
    kept: npt.NDArray[np.intp] = nms(*there, threshold).cpu().numpy()
    return kept


def _drawn(counts: list[int], shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """A mask from its column-major run lengths, run by run."""
    flat = np.empty(shape[0] * shape[1], dtype=bool)
    place, value = 0, False
    for length in counts:
        flat[place : place + length] = value
        place, value = place + length, not value
    return flat.reshape(shape[1], shape[0]).transpose()


def _boxes(masks: Tensor) -> Tensor:
    """`x0 y0 x1 y1`, both inside; zeros for an empty mask."""
    height, width = masks.shape[-2:]
    rows, columns = masks.any(dim=2), masks.any(dim=1)
    y = torch.arange(height, device=masks.device)
    x = torch.arange(width, device=masks.device)
    right = (columns * x).amax(dim=1)
    bottom = (rows * y).amax(dim=1)
    left = torch.where(columns, x, width).amin(dim=1)
    top = torch.where(rows, y, height).amin(dim=1)
    there = rows.any(dim=1)
    return torch.stack([left, top, right, bottom], dim=1) * there[:, None]


def _run_lengths(masks: Tensor) -> list[list[int]]:
    """Column-major run lengths, as the original finds them: from index tensors."""
    flat = masks.permute(0, 2, 1).flatten(1)
    changes = (flat[:, 1:] ^ flat[:, :-1]).nonzero()
    found: list[list[int]] = []
    for i in range(len(flat)):
        places = changes[changes[:, 0] == i, 1] + 1
        ends: Any = [0, *places.tolist(), flat.shape[1]]
        lengths = np.diff(ends).tolist()
        found.append(([0] if bool(flat[i, 0]) else []) + lengths)
    return found
