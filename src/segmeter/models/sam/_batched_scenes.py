"""Slices of a volume on a GPU: asks on several embeddings in one pass of the decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from segmeter.core.masks import Mask
from segmeter.core.models import Prediction, Request
from segmeter.models.sam._decoder import Embedding
from segmeter.models.sam._encoded import SamEncodedScene, SamPrediction
from segmeter.models.sam._frames import all_done, leaving
from segmeter.models.sam._prompts import of_equal_size

__all__ = ["predict_together", "separated", "start_together"]

TOGETHER = 64
"""Asks that share a pass of the decoder, at most."""


@dataclass(frozen=True, slots=True)
class _Pass:
    """What a pass of the decoder made; all but the logits is on its way to the host."""

    group: list[int]
    logits: Tensor  # (B, 4, low, low), on the device
    scores: Tensor
    shown: Tensor
    mask_fed_back: Tensor  # (B, low, low), on the device
    bits: list[Tensor]  # (n, H, W) each
    wait: Callable[[], None]

    def predictions(self, encoded_scenes: Sequence[SamEncodedScene]) -> dict[int, Prediction]:
        """Of the asks of this pass, once the device has come so far."""
        self.wait()
        scores = self.scores.numpy().copy()  # pinned memory goes back
        masks = (Mask.of(own) for part in self.bits for own in part.numpy())
        shown = self.shown.tolist()
        return {
            i: SamPrediction(
                encoded_scenes[i],
                self.logits[at],
                scores[at],
                shown[at],
                self.mask_fed_back[at : at + 1],
                mask,
            )
            for at, (i, mask) in enumerate(zip(self.group, masks, strict=True))
        }


def predict_together(
    encoded_scenes: Sequence[SamEncodedScene], requests: Sequence[Request]
) -> list[Prediction]:
    """One prediction per ask, each on a view of its own; the views are of one network."""
    return start_together(encoded_scenes, requests)()


@torch.no_grad()
def start_together(
    encoded_scenes: Sequence[SamEncodedScene], requests: Sequence[Request]
) -> Callable[[], list[Prediction]]:
    """Begin to answer, each ask on a view of its own; a GPU goes on while the caller does.

    Asks with equally many tokens share a pass of the decoder.
    """
    sets = [
        encoded.tokens(request.prompts)
        for encoded, request in zip(encoded_scenes, requests, strict=True)
    ]
    passes = []
    for group in of_equal_size([len(labels) for _, labels in sets], TOGETHER):
        points = np.array([sets[i][0] for i in group], np.float32).reshape(len(group), -1, 2)
        labels = np.array([sets[i][1] for i in group], np.int64).reshape(len(group), -1)
        own, mine = [encoded_scenes[i] for i in group], [requests[i] for i in group]
        joint = SamEncodedScene(
            own[0].network, own[0].frame, _joined(own), own[0].policy, own[0].position
        )
        found = joint.decoded(
            points,
            labels,
            [encoded.mask_prompt(request) for encoded, request in zip(own, mine, strict=True)],
            [encoded.is_ambiguous(request) for encoded, request in zip(own, mine, strict=True)],
        )
        logits, scores, shown, chosen, mask_fed_back = found
        bits = [leaving(part) for part in joint.bits_of(chosen)]
        told = leaving(scores), leaving(shown)
        passes.append(
            _Pass(group, logits, *told, mask_fed_back, bits, all_done(joint.network.device))
        )

    def finish() -> list[Prediction]:
        answers: dict[int, Prediction] = {}
        for one in passes:
            answers |= one.predictions(encoded_scenes)
        return [answers[i] for i in range(len(requests))]

    return finish


def separated(whole: Embedding) -> list[Embedding]:
    """The embeddings of images that were encoded together."""
    fine, quality = whole.fine, whole.quality
    return [
        Embedding(
            whole.cells[i : i + 1],
            None if fine is None else (fine[0][i : i + 1], fine[1][i : i + 1]),
            None if quality is None else quality[i : i + 1],
        )
        for i in range(len(whole.cells))
    ]


def _joined(encoded_scenes: Sequence[SamEncodedScene]) -> Embedding:
    """Embeddings of several images as one with a row for each."""
    parts = [encoded.embedding for encoded in encoded_scenes]
    fine = [part.fine for part in parts if part.fine is not None]
    quality = [part.quality for part in parts if part.quality is not None]
    return Embedding(
        torch.cat([part.cells for part in parts]),
        (torch.cat([f[0] for f in fine]), torch.cat([f[1] for f in fine])) if fine else None,
        torch.cat(quality) if quality else None,
    )
