"""Slices of a volume on a GPU: asks on several embeddings in one pass of the decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from segmeter.core.masks import Mask
from segmeter.core.models import Ask, Prediction
from segmeter.models.sam._decoder import Embedding
from segmeter.models.sam._device_copies import all_done, leaving
from segmeter.models.sam._encoded import SamPrediction, SamView
from segmeter.models.sam._prompts import of_equal_size

__all__ = ["answer_together", "separated", "start_together"]

TOGETHER = 64
"""Asks that share a pass of the decoder, at most."""


@dataclass(frozen=True, slots=True)
class _Pass:
    """What a pass of the decoder made; all but the logits is on its way to the host."""

    group: list[int]
    logits: Tensor  # (B, 4, low, low), on the device
    scores: Tensor
    shown: Tensor
    fed: Tensor  # (B, low, low), on the device
    bits: list[Tensor]  # (n, H, W) each
    wait: Callable[[], None]

    def predictions(self, views: Sequence[SamView]) -> dict[int, Prediction]:
        """Of the asks of this pass, once the device has come so far."""
        self.wait()
        scores = self.scores.numpy().copy()  # pinned memory goes back
        masks = (Mask.of(own) for part in self.bits for own in part.numpy())
        shown = self.shown.tolist()
        return {
            i: SamPrediction(
                views[i], self.logits[at], scores[at], shown[at], self.fed[at : at + 1], mask
            )
            for at, (i, mask) in enumerate(zip(self.group, masks, strict=True))
        }


def answer_together(views: Sequence[SamView], asks: Sequence[Ask]) -> list[Prediction]:
    """One prediction per ask, each on a view of its own; the views are of one network."""
    return start_together(views, asks)()


@torch.no_grad()
def start_together(views: Sequence[SamView], asks: Sequence[Ask]) -> Callable[[], list[Prediction]]:
    """Begin to answer, each ask on a view of its own; a GPU goes on while the caller does.

    Asks with equally many tokens share a pass of the decoder.
    """
    sets = [view.tokens(ask.prompts) for view, ask in zip(views, asks, strict=True)]
    passes = []
    for group in of_equal_size([len(labels) for _, labels in sets], TOGETHER):
        points = np.array([sets[i][0] for i in group], np.float32).reshape(len(group), -1, 2)
        labels = np.array([sets[i][1] for i in group], np.int64).reshape(len(group), -1)
        own, mine = [views[i] for i in group], [asks[i] for i in group]
        joint = SamView(own[0].network, own[0].frame, _joined(own), own[0].policy, own[0].position)
        found = joint.decoded(
            points,
            labels,
            [view.mask_prompt(ask) for view, ask in zip(own, mine, strict=True)],
            [view.is_ambiguous(ask) for view, ask in zip(own, mine, strict=True)],
        )
        logits, scores, shown, chosen, fed = found
        bits = [leaving(part) for part in joint.bits_of(chosen)]
        told = leaving(scores), leaving(shown)
        passes.append(_Pass(group, logits, *told, fed, bits, all_done(joint.network.device)))

    def finish() -> list[Prediction]:
        answers: dict[int, Prediction] = {}
        for one in passes:
            answers |= one.predictions(views)
        return [answers[i] for i in range(len(asks))]

    return finish


def separated(whole: Embedding) -> list[Embedding]:
    """The embeddings of pictures that were encoded together."""
    fine, quality = whole.fine, whole.quality
    return [
        Embedding(
            whole.cells[i : i + 1],
            None if fine is None else (fine[0][i : i + 1], fine[1][i : i + 1]),
            None if quality is None else quality[i : i + 1],
        )
        for i in range(len(whole.cells))
    ]


def _joined(views: Sequence[SamView]) -> Embedding:
    """Embeddings of several pictures as one with a row for each."""
    parts = [view.embedding for view in views]
    fine = [part.fine for part in parts if part.fine is not None]
    quality = [part.quality for part in parts if part.quality is not None]
    return Embedding(
        torch.cat([part.cells for part in parts]),
        (torch.cat([f[0] for f in fine]), torch.cat([f[1] for f in fine])) if fine else None,
        torch.cat(quality) if quality else None,
    )
