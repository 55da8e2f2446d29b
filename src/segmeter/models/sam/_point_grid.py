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

from segmeter.core.masks import Mask
from segmeter.models._enlarging import Measured
from segmeter.models.automatic.candidates import Logits
from segmeter.models.sam._click_decoding import together
from segmeter.models.sam._prompt_batches import MOST_FEEDBACK, STABLE, stability
from segmeter.models.sam._resizing import RENDERED_PIXELS, Frame, fetched

if TYPE_CHECKING:
    from segmeter.models.sam._encoded import SamEncodedScene

Points = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DeviceEnlargement:
    """`Enlargement` of maps that stay on a device."""

    frame: Frame

    def measure(self, maps: Tensor, threshold: float, offset: float) -> Measured:
        found = [_counts_and_boxes(values, threshold, offset) for values in self._enlarged(maps)]
        return Measured.of(torch.cat(found).cpu().numpy())

    def masks(self, maps: Tensor, threshold: float) -> list[Mask]:
        parts = (fetched(values > threshold) for values in self._enlarged(maps))
        return [Mask.of(bits) for part in parts for bits in part]

    def values(self, maps: Tensor) -> npt.NDArray[np.float32]:
        return np.concatenate([values.cpu().numpy() for values in self._enlarged(maps)])

    def _enlarged(self, maps: Tensor) -> Iterator[Tensor]:
        height, width = self.frame.shape
        largest = max(height * width, self.frame.side**2)  # what a map becomes on its way
        step = max(1, 8 * RENDERED_PIXELS // largest)
        for some in torch.split(maps, step):
            yield self.frame.leave(some[:, None])[:, 0]


@torch.no_grad()
def candidates(
    encoded: SamEncodedScene, points: Points, above: float, tokens: Sequence[int] = (1, 2, 3)
) -> Logits:
    """The masks of each lone click `(y, x)` whose score is above a number, as logits.

    `tokens` say which of the decoder's masks: the three of a lone click, or 0, the one of an
    unambiguous prompt; there is no fall-back to another.
    """
    device, dense = encoded.network.device, encoded.network.prompts.no_mask()
    places = torch.tensor(points, dtype=torch.float32, device=device)
    parts, start = [], 0
    for some in torch.split(places, together(device)):
        found = encoded.decode(encoded.encode_clicks(some), dense)
        logits, scores = (own[:, list(tokens)] for own in found)
        passed = scores > above if above > 0 else torch.ones_like(scores, dtype=torch.bool)
        parts.append((logits[passed], scores[passed], passed.nonzero()[:, 0] + start))
        start += len(some)
    return _gathered(encoded, parts)


@torch.no_grad()
def refined(encoded: SamEncodedScene, points: Points, candidates: Logits) -> Logits:
    """Each candidate again, from its click and its own logits; the single mask is taken.

    SAM 2 falls back to the best of three where the single mask is unstable.
    """
    device = encoded.network.device
    maps = torch.as_tensor(candidates.maps, device=device).clamp(-MOST_FEEDBACK, MOST_FEEDBACK)
    clicks = torch.tensor(points[candidates.places], dtype=torch.float32, device=device)
    parts, start = [], 0
    step = min(together(device), 128)  # with images of their own from the start
    for own, some in zip(torch.split(maps, step), torch.split(clicks, step), strict=True):
        dense = encoded.network.prompts.masks(own[:, None])
        logits, scores = encoded.decode(encoded.encode_clicks(some), dense)
        shown = torch.zeros(len(logits), dtype=torch.long, device=device)
        if encoded.network.second:
            shown = (1 + scores[:, 1:].argmax(dim=1)).where(stability(logits[:, 0]) < STABLE, 0)
        rows = torch.arange(len(logits), device=device)
        parts.append((logits[rows, shown], scores[rows, shown], rows + start))
        start += len(some)
    again = _gathered(encoded, parts)
    return replace(again, places=candidates.places[again.places])


def _gathered(encoded: SamEncodedScene, parts: list[tuple[Tensor, Tensor, Tensor]]) -> Logits:
    maps, scores, places = (torch.cat(column) for column in zip(*parts, strict=True))
    own, of = scores.float().cpu().numpy(), places.cpu().numpy().astype(np.intp)
    if encoded.network.device.type != "cpu":
        return Logits(own, of, maps, DeviceEnlargement(encoded.frame))
    to = encoded.frame.enlargement((maps.shape[1], maps.shape[2]))
    return Logits(own, of, maps.numpy(), replace(to, threads=torch.get_num_threads()))


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
