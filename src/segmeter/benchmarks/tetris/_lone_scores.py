"""Scores of thousands of lone clicks, by a view whose decoder has a fast way for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from segmeter.benchmarks.tetris._device_judge import DeviceJudge
from segmeter.core.scenes import Target
from segmeter.measures.bands import band_reach, boundary_iou
from segmeter.measures.objects import iou

__all__ = ["lone_scores"]

AT_ONCE = {"cpu": 4, "cuda": 1024}
"""Clicks that go through the decoder together, by device."""


@torch.no_grad()
def lone_scores(
    view: Any,
    points: npt.NDArray[np.int64],
    target: Target,
    *,
    boundary: bool = True,
    half: bool | None = None,
    compiled: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> npt.NDArray[np.float64] | None:
    """IoU and Boundary IoU `(n, 2)` after a lone positive click at each point `(n, 2)`.

    None where the view has no fast way, as SAM-HQ's has not.

    Parameters
    ----------
    half
        Compute in float16, the default on CUDA. IoU then differs by up to 3e-4 on the
        pictures that were tried (bfloat16: 2e-3); in float32 masks are those of `answer`.
    compiled
        Let torch compile the decoder; worth it from some ten thousand clicks on.
    """
    device = view.network.device
    on_cuda = device.type == "cuda"
    half = on_cuda if half is None else half
    lone = view.lone_clicks(torch.float16 if half else torch.float32)
    if lone is None:
        return None
    decode = torch.compile(lone.logits, dynamic=False) if compiled else lone.logits
    judge = _device_judge(view, target, lone.dtype, boundary) if on_cuda else None
    size = AT_ONCE.get(device.type, 256)
    places = torch.from_numpy(points).to(device, torch.float32)
    scores = []
    for start in range(0, len(points), size):
        part = places[start : start + size]
        # A whole batch even at the end, lest a compiled decoder be compiled again.
        filled = F.pad(part, (0, 0, 0, size - len(part))) if on_cuda else part
        logits = decode(lone.tokens(filled))[: len(part)]
        if judge is not None:
            scores.append(judge(logits).double().cpu().numpy())
        else:
            scores.append(_plain(view, logits.float(), target, boundary))
        if progress is not None:
            progress(start + len(part), len(points))
    return np.concatenate(scores) if scores else np.zeros((0, 2))


def _device_judge(view: Any, target: Target, dtype: torch.dtype, boundary: bool) -> DeviceJudge:
    like = torch.empty(0, dtype=dtype, device=view.network.device)
    low = 4 * view.network.prompts.grid_side
    return DeviceJudge(
        view.frame, target, low, like, band_reach(target.mask.shape) if boundary else 0
    )


def _plain(view: Any, logits: Tensor, target: Target, boundary: bool) -> npt.NDArray[np.float64]:
    """The measures themselves: on a processor the quicker way."""
    truth, ignore = target.mask, target.ignore
    return np.array(
        [
            (iou(truth, mask, ignore), boundary_iou(truth, mask, ignore) if boundary else np.nan)
            for mask in view.masks_of(logits)
        ]
    )
