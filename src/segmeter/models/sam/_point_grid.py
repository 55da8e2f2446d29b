"""A SAM's candidates at the points of a grid: clicks in, measured logits out.

On a processor maps are handed to the kernel that looks along contours; on a GPU they stay
there and are enlarged there, and only counts, boxes and finished bits leave it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.models._enlarging import Measured
from segmeter.models.automatic.candidates import Candidates, Logits
from segmeter.models.automatic.regions import clean_logits
from segmeter.models.sam._prompt_batches import MOST_FEEDBACK, STABLE, stability
from segmeter.models.sam._resizing import RENDERED_PIXELS, fetched

if TYPE_CHECKING:
    from segmeter.models.sam._encoded import SamEncodedScene

TOGETHER = {"cpu": 2, "cuda": 512}
"""Clicks that share a pass of the decoder, at most (perf/automatic.py)."""

CLICK_BYTES = 128 << 20
"""Memory of a device for each click that shares a pass, three times what a click takes."""

Points = npt.NDArray[np.float64]
Parts = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class DeviceLogits:
    """Candidates whose maps stay on the device."""

    scores: npt.NDArray[np.float32]
    places: npt.NDArray[np.intp]
    maps: Tensor
    encoded: SamEncodedScene

    def measure(self, threshold: float, offset: float) -> Measured:
        found = [_counts_and_boxes(values, threshold, offset) for values in self._enlarged()]
        table = torch.cat(found) if found else torch.zeros(0, 7, dtype=torch.long)
        return Measured.of(table.cpu().numpy())

    def take(self, kept: npt.NDArray[np.intp]) -> DeviceLogits:
        chosen = torch.from_numpy(kept).to(self.maps.device)
        return DeviceLogits(self.scores[kept], self.places[kept], self.maps[chosen], self.encoded)

    def masks(self, threshold: float) -> list[Mask]:
        found: list[Mask] = []
        for values in self._enlarged():
            boxes = _counts_and_boxes(values, threshold, 0.0)[:, 3:]
            bits = fetched(values > threshold)
            found += [_boxed(*one) for one in zip(bits, boxes.tolist(), strict=True)]
        return found

    def values(self) -> npt.NDArray[np.float32]:
        parts = [values.cpu().numpy() for values in self._enlarged()]
        return (
            np.concatenate(parts) if parts else np.zeros((0, *self.encoded.frame.shape), np.float32)
        )

    def cleaned(self, smallest: int, threshold: float) -> DeviceLogits:
        maps = clean_logits(self.maps.cpu().numpy(), smallest, threshold)
        return replace(self, maps=torch.from_numpy(maps).to(self.maps.device))

    def _enlarged(self) -> Iterator[Tensor]:
        height, width = self.encoded.frame.shape
        largest = max(height * width, self.encoded.frame.side**2)  # what a map becomes on its way
        step = max(1, 8 * RENDERED_PIXELS // largest)
        for start in range(0, len(self.maps), step):
            yield self.encoded.frame.leave(self.maps[start : start + step, None])[:, 0]


def together(device: torch.device) -> int:
    """Clicks that share a pass; the device's whole memory decides, not what is free just now."""
    most = TOGETHER.get(device.type, 64)
    if device.type != "cuda":
        return most
    state = torch.cuda.get_device_properties(device).total_memory
    return int(min(most, max(16, state // CLICK_BYTES)))


def candidates(encoded: SamEncodedScene, points: Points, above: float) -> Candidates:
    """The three masks of each lone click `(y, x)` whose score is above a number, as logits."""
    return _candidates(encoded, points, above, (1, 2, 3))


def single_candidates(encoded: SamEncodedScene, points: Points, above: float) -> Candidates:
    """The single mask of each lone click whose score is above; no fall-back to another."""
    return _candidates(encoded, points, above, (0,))


@torch.no_grad()
def _candidates(
    encoded: SamEncodedScene, points: Points, above: float, tokens: Sequence[int]
) -> Candidates:
    device = encoded.network.device
    places = torch.tensor(points, dtype=torch.float32, device=device)
    step = together(device)
    parts = []
    for start in range(0, len(places), step):
        maps, scores, of = _decoded(encoded, places[start : start + step], above, tokens)
        parts.append((maps, scores, of + start))
    return _gathered(encoded, parts)


@torch.no_grad()
def refined(encoded: SamEncodedScene, points: Points, candidates: Candidates) -> Candidates:
    """Each candidate again, from its click and its own logits; the single mask is taken.

    SAM 2 falls back to the best of three where the single mask is unstable.
    """
    if not isinstance(candidates, Logits | DeviceLogits):
        raise BadInput("only candidates of the same kind of model can be refined")
    device = encoded.network.device
    maps = torch.as_tensor(candidates.maps, device=device).clamp(-MOST_FEEDBACK, MOST_FEEDBACK)
    clicks = torch.tensor(points[candidates.places], dtype=torch.float32, device=device)
    parts = []
    step = min(together(device), 128)  # with images of their own from the start
    for start in range(0, len(maps), step):
        dense = encoded.network.prompts.masks(maps[start : start + step, None])
        logits, scores = encoded.decode(encoded.encode_clicks(clicks[start : start + step]), dense)
        shown = torch.zeros(len(logits), dtype=torch.long, device=device)
        if encoded.network.second:
            shown = (1 + scores[:, 1:].argmax(dim=1)).where(stability(logits[:, 0]) < STABLE, 0)
        rows = torch.arange(len(logits), device=device)
        parts.append((logits[rows, shown], scores[rows, shown], rows + start))
    again = _gathered(encoded, parts)
    return replace(again, places=candidates.places[again.places])


def _decoded(
    encoded: SamEncodedScene, points: Tensor, above: float, tokens: Sequence[int]
) -> Parts:
    clicks = encoded.grid_clicks
    if clicks is not None:
        return clicks.candidates(clicks.tokens(points), above, tokens)
    logits, scores = encoded.decode(
        encoded.encode_clicks(points), encoded.network.prompts.no_mask()
    )
    own = scores[:, list(tokens)]
    passed = own > above if above > 0 else torch.ones_like(own, dtype=torch.bool)
    return logits[:, list(tokens)][passed], own[passed], passed.nonzero()[:, 0]


def _gathered(encoded: SamEncodedScene, parts: list[Parts]) -> Logits | DeviceLogits:
    side = 4 * encoded.network.prompts.grid_side
    if parts:
        maps, scores, places = (torch.cat(column) for column in zip(*parts, strict=True))
    else:
        maps, scores, places = torch.zeros(0, side, side), torch.zeros(0), torch.zeros(0).long()
    own, of = scores.float().cpu().numpy(), places.cpu().numpy().astype(np.intp)
    if encoded.network.device.type != "cpu":
        return DeviceLogits(own, of, maps, encoded)
    to = encoded.frame.enlargement((side, side))
    return Logits(own, of, maps.numpy(), to, torch.get_num_threads())


def _boxed(bits: npt.NDArray[np.bool_], box: list[int]) -> Mask:
    left, top, right, bottom = box
    inside = bits[top : bottom + 1, left : right + 1].copy()
    # An empty mask has the box of the first pixel.
    return Mask(bits.shape, (top, left), inside) if inside.any() else Mask.empty(bits.shape)


def _counts_and_boxes(values: Tensor, threshold: float, offset: float) -> Tensor:
    """Three counts and the box of each map, `(n, 7)`, on the device."""
    # Row by row first: thousands of short sums keep a GPU busy, a few long ones do not.
    by_row = [(values > threshold + d).sum(dim=2) for d in (-offset, 0.0, offset)]
    counts = [row.sum(dim=1) for row in by_row]
    columns, rows = (values > threshold).any(dim=1).int(), (by_row[1] > 0).int()
    ends = [
        columns.argmax(dim=1),
        rows.argmax(dim=1),
        columns.shape[1] - 1 - columns.flip(1).argmax(dim=1),
        rows.shape[1] - 1 - rows.flip(1).argmax(dim=1),
    ]
    there = rows.any(dim=1).long()
    return torch.stack([*counts, *(end * there for end in ends)], dim=1)
