"""Exhaustive clicks: IoU with the target for thousands of single clicks on one image."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from segmeter.core.capabilities import JudgePair
from segmeter.core.masks import Mask
from segmeter.core.scenes import Target
from segmeter.models.sam._resizing import Frame, Padded


def count(bits: Tensor) -> Tensor:
    """Pixels of each set `(B, H, W)`: `(B,)`."""
    return bits.sum((1, 2), dtype=torch.int32)


def erode(bits: Tensor, reach: int) -> Tensor:
    """Pixels whose square of side `2 reach + 1` lies wholly inside, by running sums."""
    whole = 2 * reach + 1
    for axis, pad in ((1, (0, 0, reach + 1, reach)), (2, (reach + 1, reach))):
        sums = F.pad(bits.int(), pad).cumsum(axis, dtype=torch.int32)
        length = bits.shape[axis]
        bits = sums.narrow(axis, whole, length) - sums.narrow(axis, 0, length) == whole
    return bits


PIXELS_AT_ONCE = 1 << 26
"""Pixels that are up-sampled, thresholded and counted in one go."""


class DeviceJudge:
    """IoU and Boundary IoU of low-resolution logits against one target.

    Both resizings of a SAM are linear and work on rows and columns apart, so together they
    are one matrix from the left and one from the right.
    """

    def __init__(
        self,
        frame: Frame,
        target: Target,
        low: int,
        like: Tensor,
        reach: int = 0,
        compiled: bool = False,
    ) -> None:
        """`reach` is the width of the boundary's band in pixels; 0 leaves it out."""
        self._rows, self._columns = (_axis(frame, axis, low).to(like) for axis in (0, 1))
        self._reach, self._pixels = reach, frame.shape[0] * frame.shape[1]
        ignored = target.ignore or Mask.empty(target.mask.shape)
        whole, self._judged = (
            torch.from_numpy(bits)[None].to(like.device)
            for bits in (target.mask.dense(), ~ignored.dense())
        )
        self._ground_truth = whole & self._judged
        self._band = whole & ~erode(whole, reach) & self._judged
        # Where all of a band is ignored, bands of what is judged count (`measures.objects`).
        self._hidden = bool(reach) and not bool(self._band.any())
        self._inner = (
            self._ground_truth & ~erode(self._ground_truth, reach) if self._hidden else self._band
        )
        self._score = torch.compile(self._scores, dynamic=False) if compiled else self._scores

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores `(B, 2)` of logits `(B, low, low)`: IoU, and Boundary IoU or NaN."""
        step = max(1, PIXELS_AT_ONCE // self._pixels)
        parts = [logits[i : i + step] for i in range(0, len(logits), step)]
        return torch.cat([self._score(part) for part in parts])

    def _scores(self, logits: Tensor) -> Tensor:
        prediction = self._rows @ logits @ self._columns.T > 0
        iou = self._ratio(prediction, self._ground_truth)
        if not self._reach:
            return torch.stack([iou, torch.full_like(iou, torch.nan)], dim=1)
        band = prediction & ~erode(prediction, self._reach)
        boundary = self._ratio(band, self._band)
        if self._hidden:
            seen = prediction & self._judged
            inner = self._ratio(seen & ~erode(seen, self._reach), self._inner)
            boundary = torch.where(count(band & self._judged) == 0, inner, boundary)
        return torch.stack([iou, boundary.masked_fill(count(prediction) == 0, 0.0)], dim=1)

    def _ratio(self, prediction: Tensor, ground_truth: Tensor) -> Tensor:
        """IoU of sets with one ground truth; 1 where neither holds a judged pixel."""
        both, either = (
            count(prediction & ground_truth),
            count((prediction | ground_truth) & self._judged),
        )
        return torch.where(either > 0, both / either.clamp_min(1), 1.0)


def _axis(frame: Frame, axis: int, low: int) -> Tensor:
    """How the frame resizes one axis: `(pixels, low)`."""
    sizes = [frame.shape[axis]]
    if isinstance(frame, Padded):
        sizes = [frame.side, frame.shape[axis]]
    weights = torch.eye(low)[None, None]
    for i, size in enumerate(sizes):
        weights = F.interpolate(weights, (size, low), mode="bilinear", align_corners=False)
        if i == 0 and isinstance(frame, Padded):
            weights = weights[:, :, : frame.inside[axis]]
    return weights[0, 0]


MANY = 1 << 16


def clicks_at_once(device: str, clicks: int) -> int:
    """Clicks that go through the decoder together: by device and number, so the same always.

    More of them would take too much memory of a GPU that several workers share.
    """
    if device == "cpu":
        return 4
    return 512 if clicks >= MANY else 256


@torch.no_grad()
def single_click_scores(
    encoded: Any,
    points: npt.NDArray[np.int64],
    target: Target,
    judge_pair: JudgePair,
    band_px: int,
    *,
    half: bool | None = None,
    dtype: torch.dtype | None = None,
    compiled: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> npt.NDArray[np.float64] | None:
    """IoU and Boundary IoU `(n, 2)` after a single positive click at each point `(n, 2)`.

    None where there is no fast path, as for SAM-HQ.

    Parameters
    ----------
    judge_pair
        IoU and Boundary IoU of a mask: on a processor the quicker way.
    band_px
        Width of the boundary's band; 0 leaves Boundary IoU out.
    half
        Compute in float16, the default on CUDA; in float32 masks are those of `predict`. Of
        3111 clicks with MobileSAM on GrabCut's first images, IoU changed by 1e-5 in the
        median and by 6e-4 at most in 99 %. Where the model can hardly decide which of its
        masks to show, a click may get another one (0.17 in one case). bfloat16 decides
        otherwise at one click in a hundred, so it is not used (perf/click_response.py --error).
    dtype
        What to compute in, if neither of these two.
    compiled
        Let torch compile decoder and judge; worth it from some ten thousand clicks on.
    """
    device = encoded.network.device
    on_cuda = device.type == "cuda"
    half = on_cuda if half is None else half
    clicks = encoded.single_clicks(dtype or (torch.float16 if half else torch.float32))
    if clicks is None:
        return None
    decode = torch.compile(clicks.logits, dynamic=False) if compiled else clicks.logits
    judge = _device_judge(encoded, target, clicks.dtype, band_px, compiled) if on_cuda else None
    size = clicks_at_once(device.type, len(points))
    scores = []
    for logits in _decoded(decode, clicks.tokens, torch.from_numpy(points).to(device), size):
        if judge is not None:
            # Left on the device: waiting for each batch would leave it idle between them.
            scores.append(judge(logits))
        else:
            pairs = [judge_pair(target, mask) for mask in encoded.masks_of(logits.float())]
            scores.append(torch.tensor(pairs, dtype=torch.float64))
        if progress is not None:
            progress(min(size * len(scores), len(points)), len(points))
    return torch.cat(scores)[: len(points)].double().cpu().numpy() if scores else np.zeros((0, 2))


def _decoded(
    decode: Callable[[Tensor], Tensor],
    tokens: Callable[[Tensor], Tensor],
    points: Tensor,
    size: int,
) -> Iterator[Tensor]:
    """Logits of so many clicks at a time.

    On a GPU the last batch is filled up, lest a compiled decoder be compiled again.
    """
    places = points.float()
    for start in range(0, len(places), size):
        part = places[start : start + size]
        filled = F.pad(part, (0, 0, 0, size - len(part))) if part.is_cuda else part
        yield decode(tokens(filled))


def _device_judge(
    encoded: Any, target: Target, dtype: torch.dtype, band_px: int, compiled: bool
) -> DeviceJudge:
    like = torch.empty(0, dtype=dtype, device=encoded.network.device)
    low = 4 * encoded.network.prompts.grid_side
    return DeviceJudge(encoded.frame, target, low, like, band_px, compiled)
