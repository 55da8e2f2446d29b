"""Scores of thousands of single clicks, by a view whose decoder has a fast way for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from segmeter.core.capabilities import JudgePair
from segmeter.core.scenes import Target
from segmeter.models.sam._device_judge import DeviceJudge

__all__ = ["clicks_at_once", "single_click_scores"]

MANY = 1 << 16


def clicks_at_once(device: str, clicks: int) -> int:
    """Clicks that go through the decoder together: by device and number, so the same always.

    1024 of them take 19 GiB on a GPU, too much where several workers share one.
    """
    if device == "cpu":
        return 4
    return 1024 if clicks >= MANY else 256


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

    None where the view has no fast way, as SAM-HQ's has not.

    Parameters
    ----------
    judge_pair
        IoU and Boundary IoU of a mask: on a processor the quicker way.
    band_px
        Width of the boundary's band; 0 leaves Boundary IoU out.
    half
        Compute in float16, the default on CUDA; in float32 masks are those of `answer`. Of
        3111 clicks with MobileSAM on GrabCut's first images, IoU changed by 1e-5 in the
        median and by 6e-4 at most in 99 %. Where the model can hardly decide which of its
        masks to show, a click may get another one (0.17 in one case). bfloat16 decides
        otherwise at one click in a hundred, so it is not used (perf/clickmap.py --error).
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
