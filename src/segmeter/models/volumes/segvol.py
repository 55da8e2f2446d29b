"""SegVol: points and a box on a whole CT, first made small, then on blocks around the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import LosesPrompts, capable
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard, Request
from segmeter.core.prompts import Box, Click, Prompt, Scribble, points_of
from segmeter.core.scenes import Scene, Volume
from segmeter.models.adapters import as_volume
from segmeter.models.fetching import ByHand, offer
from segmeter.models.volumes.slices import interpolated
from segmeter.models.weights import CheckpointModel, named_tensors

if TYPE_CHECKING:
    from torch import Tensor

    from segmeter.models.volumes._networks import SegVolNetwork

Values = npt.NDArray[np.float32]
Index = tuple[int, ...]
Labelled = Sequence[tuple[Index, int]]
_KEPT_BLOCKS = 64
"""Embedded blocks of a volume, those used last: 6 MB each, and a large CT has hundreds."""

_NAME = "segvol"
_SUMMARY = "SegVol on whole CTs: points and a box, no text"
_TAKES = frozenset({"click", "box", "scribble", "volume"})
_CARD = ModelCard(_NAME, _SUMMARY, _TAKES, "MIT", "du2024", _NAME)
offer(_NAME, ByHand("https://github.com/BAAI-DCAI/SegVol", "SegVol_v1.pth"))


@catalogue.models.add(_NAME, _SUMMARY)
class SegVol(CheckpointModel):
    """SegVol with its published checkpoint; its text encoder is not read."""

    def __init__(self, weights: str | None = None, device: str = "auto") -> None:
        super().__init__(_CARD, weights, device)

    @cached_property
    def network(self) -> SegVolNetwork:
        """Read from its file when first needed, strictly but for the text encoder."""
        from segmeter.models.volumes._networks import SPARE, SegVolNetwork

        tensors = named_tensors(self.weights_path, "model")
        bare = {
            k.removeprefix("module.").removeprefix("model.").replace(".attn.out_", ".attn."): v
            for k, v in tensors.items()
        }
        return self.filled(SegVolNetwork(), bare, SPARE)

    def encode(self, scene: Scene) -> SegVolEncodedScene:
        """Normalise and crop; a small copy of the volume is embedded at the first request."""
        return SegVolEncodedScene(self.network, as_volume(scene, _NAME))


@capable(LosesPrompts)
class SegVolEncodedScene:
    """A volume between 0 and 1, at least one block large, cropped to what is not dark."""

    def __init__(self, network: SegVolNetwork, volume: Volume) -> None:
        self.network, self.volume = network, volume

    @cached_property
    def _cropped(self) -> tuple[Values, Index]:
        """The values, and the scene's index of their first voxel (below 0 where padded)."""
        values = foreground_normalised(np.asarray(self.volume.voxels, dtype=np.float32))
        lacking = [max(n - m, 0) for n, m in zip(self.network.size, values.shape, strict=True)]
        before = tuple(n // 2 for n in lacking)
        padded = np.pad(values, [(b, n - b) for b, n in zip(before, lacking, strict=True)])
        bright = Mask.of(padded > 0)
        first = bright.low if bright else (0, 0, 0)
        last = bright.high if bright else padded.shape
        return padded[tuple(map(slice, first, last))], _minus(first, before)

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        return [MaskPrediction(self._one(request.prompts)) for request in requests]

    def lost_prompts(self, rounds: Sequence[Sequence[Prompt]]) -> list[int]:
        """Number of prompts of each round in dark areas, which are outside the crop."""
        values, origin = self._cropped

        def survives(prompt: Prompt) -> bool:
            inside = np.rint(_points_and_labels([prompt])[0]) - origin
            return bool(((inside >= 0) & (inside < values.shape)).all(axis=1).any())

        return [sum(not survives(prompt) for prompt in prompts) for prompts in rounds]

    def vanishes(self, target: Mask) -> bool:
        """Whether nothing of a target is left in the small image of the whole."""
        values, origin = self._cropped
        low = tuple(max(o, 0) for o in origin)
        end = _plus(origin, values.shape)
        bits = target.crop(low, tuple(map(min, end, target.shape)))
        front = _minus(low, origin)
        lacking = _minus(_minus(values.shape, front), bits.shape)
        whole = np.pad(bits, list(zip(front, lacking, strict=True))).astype(np.float32)
        return bool(target) and not interpolated(whole, self.network.size, "nearest-exact").any()

    def _one(self, prompts: Sequence[Prompt]) -> Mask:
        points, labels = _points_and_labels(prompts)
        if not points:
            return Mask.empty(self.volume.shape)
        values, origin = self._cropped
        last = np.subtract(values.shape, 1)
        inside = (np.rint(points).astype(int) - origin).clip(0, last)
        small = np.rint(inside * np.subtract(self.network.size, 1) / np.maximum(last, 1))
        whole = self._decoded(None, small.tolist(), labels)
        rough = interpolated(whole, values.shape, "nearest-exact") > 0
        found = Mask.of(rough)
        if not found:
            return Mask.empty(self.volume.shape)
        logits = np.where(rough, 1.0, -1.0).astype(np.float32)
        self._zoom_in(logits, list(zip(map(tuple, inside.tolist()), labels, strict=True)), found)
        low = tuple(max(-o, 0) for o in origin)  # without what was padded
        high = zip(self.volume.shape, origin, values.shape, strict=True)
        part = tuple(slice(a, min(n - o, m)) for a, (n, o, m) in zip(low, high, strict=True))
        return Mask.of(logits[part] > 0, _plus(low, origin), self.volume.shape)

    def _zoom_in(self, logits: Values, given: Labelled, rough: Mask) -> None:
        """Blocks around what was found, half overlapping; their mean replaces the rough logits."""
        low, high = _grown(rough, self.network.size)
        summed = np.zeros([b - a for a, b in zip(low, high, strict=True)], np.float32)
        count = np.zeros_like(summed)
        starts = windows(low, high, self.network.size)
        for start in starts:
            near = self._near(start, given, rough, alone=len(starts) == 1)
            block = np.full(self.network.size, -1.0, np.float32)
            if near:
                block = self._decoded(start, [p for p, _ in near], [label for _, label in near])
            axes = zip(start, low, self.network.size, strict=True)
            here = tuple(slice(s - a, s - a + n) for s, a, n in axes)
            summed[here] += block[tuple(map(slice, summed[here].shape))]
            count[here] += 1
        logits[tuple(map(slice, low, high))] = summed / np.maximum(count, 1)

    def _near(self, start: Index, given: Labelled, rough: Mask, alone: bool) -> Labelled:
        """Points within a block, with the box given, or of the rough mask there."""
        end = _plus(start, self.network.size)
        clicks = [
            (_minus(p, start), label)
            for p, label in given
            if label < 2 and all(a <= c < b for c, a, b in zip(p, start, end, strict=True))
        ]
        corners = [p for p, label in given if label >= 2]
        if not (alone and corners):
            part = Mask.of(rough.crop(start, end))
            corners = [_plus(part.low, start), _plus(part.high, start, -1)] if part else []
        return clicks + [(_minus(p, start), 2 + i) for i, p in enumerate(corners)]

    @cached_property
    def embedded(self) -> Callable[[Index | None], Tensor]:
        """A function that embeds the block that starts at an index, or the whole made small.

        It keeps the cells of the blocks used last.
        """
        import torch

        network, (values, _) = self.network, self._cropped  # not `self`: it would stay alive
        size, device = network.size, next(network.parameters()).device

        @lru_cache(_KEPT_BLOCKS)
        def embed(start: Index | None) -> Tensor:
            if start is None:
                block = interpolated(values, size, "nearest-exact")
            else:
                part = values[tuple(slice(s, s + n) for s, n in zip(start, size, strict=True))]
                block = np.pad(part, [(0, n - m) for n, m in zip(size, part.shape, strict=True)])
            return network.encode(torch.from_numpy(block)[None, None].to(device))

        return embed

    def _decoded(
        self, start: Index | None, points: Sequence[Index], labels: Sequence[int]
    ) -> Values:
        import torch

        with torch.no_grad():
            cells = self.embedded(start)
            at = torch.tensor(list(points), dtype=torch.float32, device=cells.device)
            found = self.network.decode(cells, at, torch.tensor(list(labels), device=cells.device))
        return np.asarray(found.float().cpu().numpy())


def foreground_normalised(values: Values) -> Values:
    """Clip to 0.05 and 99.95 percentiles of what is above the mean, then stretch to 0..1."""
    inside = values[values > values.mean()]
    if inside.size == 0:
        return np.zeros_like(values)
    low, high = np.percentile(inside, (0.05, 99.95))
    if low == high:  # one value only: there is nothing to stretch
        return np.asarray(values >= high, dtype=np.float32)
    return np.asarray((values.clip(low, high) - low) / (high - low), dtype=np.float32)


def windows(low: Index, high: Index, size: Index) -> list[Index]:
    """First voxels of blocks that half overlap and cover a box; the last ends with the box.

    >>> windows((0, 0, 0), (32, 256, 384), (32, 256, 256))
    [(0, 0, 0), (0, 0, 128)]
    """
    axes = []
    for a, b, n in zip(low, high, size, strict=True):
        last = max(b - n, a)
        axes.append(sorted({*range(a, last, max(n // 2, 1)), last}))
    return list(product(*axes))


def _grown(mask: Mask, size: Index) -> tuple[Index, Index]:
    """The box around a mask, at least one block large, within its frame."""
    low, high = [], []
    for a, b, n, whole in zip(mask.low, mask.high, size, mask.shape, strict=True):
        lacking = max(n - (b - a), 0)
        first = min(max(a - lacking // 2, 0), max(whole - max(n, b - a), 0))
        low.append(first)
        high.append(min(max(first + n, b), whole))
    return tuple(low), tuple(high)


def _points_and_labels(prompts: Sequence[Prompt]) -> tuple[list[Sequence[float]], list[int]]:
    """Points with their labels; the last box counts, its corners come last."""
    boxes = [p for p in prompts if isinstance(p, Box)]
    strokes = [p for p in prompts if isinstance(p, Click | Scribble)]
    if len(boxes) + len(strokes) != len(prompts):
        raise BadInput(f"'{_NAME}' takes clicks, strokes and boxes only")
    points: list[Sequence[float]] = []
    labels: list[int] = []
    for stroke in strokes:
        points += points_of(stroke)
        labels += [int(stroke.positive)] * len(points_of(stroke))
    corners = [boxes[-1].low, boxes[-1].high] if boxes else []
    return [*points, *corners], [*labels, *([2, 3] if boxes else [])]


def _minus(point: Index, start: Index) -> Index:
    return tuple(p - s for p, s in zip(point, start, strict=True))


def _plus(point: Index, start: Index, more: int = 0) -> Index:
    return tuple(p + s + more for p, s in zip(point, start, strict=True))
