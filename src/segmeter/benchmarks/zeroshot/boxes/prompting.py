"""Boxes to masks in two steps, as Segment Anything's instance segmentation does.

A box alone first; then the same box with the low-resolution logits of the mask that the model
would show. Which mask that is, each family says itself (`masks=zeroshot`): the first SAM
offers three for a lone box and shows the one it trusts most, SAM 2 takes a box for two points
and shows its single mask. A model without memory is asked once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Prediction, Request, render
from segmeter.core.prompts import Box

__all__ = ["BoxMask", "masks_of_boxes"]


@dataclass(frozen=True, slots=True)
class BoxMask:
    """The mask for a box, the model's own score of it, and whether logits were fed back."""

    mask: Mask
    score: float
    refined: bool


def masks_of_boxes(encoded: EncodedScene, boxes: Sequence[Box]) -> list[BoxMask]:
    """A mask for each box, all boxes of an image together."""
    if not boxes:
        return []
    first = encoded.predict([Request((box,)) for box in boxes])
    memories = [prediction.state for prediction in first]
    again = [k for k, state in enumerate(memories) if state is not None]
    last = list(first)
    if again:
        refined = encoded.predict([Request((boxes[k],), memories[k]) for k in again])
        for k, prediction in zip(again, refined, strict=True):
            last[k] = prediction
    masks = render(encoded, last)
    return [
        BoxMask(mask, _score(prediction), memories[k] is not None)
        for k, (mask, prediction) in enumerate(zip(masks, last, strict=True))
    ]


def _score(prediction: Prediction) -> float:
    return float(prediction.scores[prediction.shown])
