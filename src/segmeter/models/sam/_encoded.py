"""An image encoded by a SAM: predicts masks for many prompts at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partialmethod
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from segmeter.core.capabilities import (
    KeepsState,
    OffersSome,
    RendersTogether,
    ScoresSingleClicks,
    capable,
)
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Prediction, ProtocolName, Request
from segmeter.core.prompts import Box, Click, MaskHint, Point, Prompt
from segmeter.core.scenes import Pixels
from segmeter.models.automatic.candidates import PredictsGrids
from segmeter.models.sam._click_decoding import (
    MovablePoints,
    candidates,
    refined,
    single_click_scores,
)
from segmeter.models.sam._cuda_graphs import Decoded, Floats, Labels, graphs_of
from segmeter.models.sam._decoder import NOT_A_POINT, Embedding
from segmeter.models.sam._prompt_batches import (
    Policy,
    chosen_of,
    clicks_of,
    fed_back,
    of_equal_size,
    shown_masks,
)
from segmeter.models.sam._resizing import RENDERED_PIXELS, Frame, enlarged, fetched

if TYPE_CHECKING:
    from segmeter.models.sam._loading import SamNetwork

HINT_LOGIT = 10.0
"""Logit of the pixels of a mask hint, negative outside it."""


class Choices:
    """The masks that a decoder pass shows, and scores `(B, 4)`; read from the device when used."""

    def __init__(self, logits: Tensor, scores: Tensor, shown: Tensor) -> None:
        self._scores, self._shown = scores, shown
        self.logits = chosen_of(logits, shown)  # (B, low, low)

    @cached_property
    def read(self) -> tuple[npt.NDArray[np.float32], list[int]]:
        return self._scores.cpu().numpy(), self._shown.tolist()


@dataclass(frozen=True, slots=True)
@capable(OffersSome)
class SamPrediction:
    """Four candidates by token number: 0 is the single mask, 1 to 3 are the three."""

    encoded: SamEncodedScene
    logits: Tensor  # (4, low, low) float32 on the network's device
    state: Tensor  # (1, low, low), what of the mask shown goes back in as a prompt
    choices: Choices
    place: int  # in the decoder pass

    @property
    def scores(self) -> npt.NDArray[np.float32]:
        own: npt.NDArray[np.float32] = self.choices.read[0][self.place]
        return own

    @property
    def shown(self) -> int:
        return self.choices.read[1][self.place]

    @property
    def offered(self) -> Sequence[int]:
        """The three masks where one of them is shown, else the single one."""
        return (1, 2, 3) if self.shown else (0,)

    def mask(self, candidate: int | None = None) -> Mask:
        index = self.shown if candidate is None else candidate
        return self.encoded.masks_of(self.logits[index : index + 1])[0]


@capable(KeepsState, RendersTogether, ScoresSingleClicks, PredictsGrids)
class SamEncodedScene:
    graphs = True
    """Whether a GPU may replay captured graphs; predictions are the same without."""

    def __init__(
        self,
        network: SamNetwork,
        frame: Frame,
        embedding: Embedding,
        policy: Policy,
        position: Tensor | None = None,
    ) -> None:
        self.network = network
        self.frame = frame
        self.embedding = embedding
        self.policy = policy
        with torch.no_grad():
            self.position = network.prompts.position() if position is None else position

    def with_policy(self, policy: Policy) -> SamEncodedScene:
        """The same embedding with the predictions of another protocol."""
        return SamEncodedScene(self.network, self.frame, self.embedding, policy, self.position)

    @property
    def nbytes(self) -> int:
        own = self.embedding
        return sum(t.nbytes for t in (own.cells, *(own.fine or ()), own.quality) if t is not None)

    @torch.no_grad()
    def predict(self, requests: Sequence[Request]) -> Sequence[SamPrediction]:
        """One prediction per request; requests with equally many tokens share a decoder pass.

        A GPU is not waited for: `Choices` and masks are read from it when used.
        """
        sets = [self.tokens(request.prompts) for request in requests]
        made: dict[int, SamPrediction] = {}
        for group in self.groups([len(labels) for _, labels in sets]):
            points = np.array([sets[i][0] for i in group], np.float32).reshape(len(group), -1, 2)
            labels = np.array([sets[i][1] for i in group], np.int64).reshape(len(group), -1)
            masks = [self.mask_prompt(requests[i]) for i in group]
            first = [self.is_ambiguous(requests[i]) for i in group]
            graphs = graphs_of(self) if points.size else None
            found = graphs.decoded(self, points, labels, masks, first) if graphs else None
            logits, scores, shown, back = found or self.decoded(points, labels, masks, first)
            choices = Choices(logits, scores, shown)
            for at, i in enumerate(group):
                made[i] = SamPrediction(self, logits[at], back[at : at + 1], choices, at)
        return [made[i] for i in range(len(requests))]

    def decoded(
        self, points: Floats, labels: Labels, masks: Sequence[Tensor | None], first: Sequence[bool]
    ) -> Decoded:
        """Step by step: logits, scores, which mask is shown and what of it is fed back."""
        sparse = self.encode_points(torch.from_numpy(points), torch.from_numpy(labels))
        logits, scores = self.decode(sparse, self.encode_masks(masks))
        shown = self.choose(logits, scores, first)
        return logits, scores, shown, fed_back(self.policy, self.network.second, logits, shown)

    def encode_points(self, points: Tensor, labels: Tensor) -> Tensor:
        """Tokens `(B, n, 256)` of scene points `(B, n, 2)`, `(y, x)`; differentiable in them.

        Labels: 1 on the object, 0 on the background, 2 and 3 the corners of a box, -1 padding.
        """
        device, offset = self.network.device, self.policy.offset
        scale = torch.tensor(self.frame.scale, device=device)
        places = (points.to(device) + offset) * scale - offset
        return self.network.prompts.points(places.flip(-1), labels.to(device))

    def encode_clicks(self, points: Tensor) -> Tensor:
        """Tokens `(B, 2, 256)` of lone positive clicks `(B, 2)`, `(y, x)`, with their padding."""
        both = torch.stack([points, torch.zeros_like(points)], dim=1)
        labels = torch.tensor([1, NOT_A_POINT], device=points.device).expand(len(points), 2)
        return self.encode_points(both, labels)

    def encode_masks(self, masks: Sequence[Tensor | None]) -> Tensor:
        """Dense prompts `(B, cells, 256)`, or `(1, 1, 256)` when no request has a mask."""
        prompts = self.network.prompts
        known = {place: mask for place, mask in enumerate(masks) if mask is not None}
        if not known:
            return prompts.no_mask()
        given = prompts.masks(torch.stack(list(known.values())))
        if len(known) == len(masks):
            return given
        dense = prompts.no_mask().repeat(len(masks), self.embedding.cells.shape[1], 1)
        dense[list(known)] = given
        return dense

    def decode(self, sparse: Tensor, dense: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `(B, 4, low, low)` and scores `(B, 4)` by token number, float32."""
        logits, scores = self.network.decoder(self.embedding, self.position, sparse, dense)
        return logits.float(), scores.float()

    def render(self, predictions: Sequence[Prediction]) -> list[Mask]:
        """The shown masks of many predictions; only bits leave the device."""
        own = [p for p in predictions if isinstance(p, SamPrediction)]
        if len(own) != len(predictions):
            raise BadInput("only predictions of the same kind of model can be rendered")
        return self.masks_of([p.choices.logits[p.place] for p in own])

    @torch.no_grad()
    def masks_of(self, logits: Sequence[Tensor] | Tensor) -> list[Mask]:
        """Masks at the scene's size from low-resolution logits `(low, low)` each."""
        if not len(logits):
            return []
        parts = enlarged(self.frame, torch.stack(list(logits)), RENDERED_PIXELS)
        return [Mask.of(own) for part in parts for own in fetched(part > self.policy.threshold)]

    def keeps_state(self, prompts: tuple[Prompt, ...], protocol: ProtocolName) -> bool:
        """Published: not while there is at most one click of each sign, faulty as it is."""
        only_clicks = all(isinstance(p, Click) for p in prompts)
        if protocol == "corrected" or not only_clicks or self.policy.masks == "zeroshot":
            return True
        signs = Counter(prompt.positive for prompt in prompts if isinstance(prompt, Click))
        return max(signs.values(), default=0) > 1

    def choose(self, logits: Tensor, scores: Tensor, first: Sequence[bool]) -> Tensor:
        """Which of the four masks is shown, `(B,)`; `first` marks ambiguous prompts."""
        several = torch.tensor(first, dtype=torch.bool, device=scores.device)
        return shown_masks(self.policy, self.network.second, logits, scores, several)

    def is_ambiguous(self, request: Request) -> bool:
        """Whether the prompts may mean several things, so that three masks are offered.

        A lone click does; by the first SAM's own rule a lone box does too, and neither does
        once logits are fed back.
        """
        if len(request.prompts) != 1:
            return False
        if self.policy.masks != "zeroshot" or self.network.second:
            return isinstance(request.prompts[0], Click)
        return request.state is None and isinstance(request.prompts[0], Click | Box)

    single_click_scores = single_click_scores
    candidates = candidates
    single_candidates = partialmethod(candidates, tokens=(0,))
    refined = refined

    def movable_clicks(self, requests: Sequence[Request]) -> MovablePoints:
        return MovablePoints(self, requests)

    def tokens(self, prompts: Sequence[Prompt]) -> tuple[list[Point], list[int]]:
        """Points `(y, x)` and labels; the last box counts, and its corners come last."""
        if self.policy.boxes_only and not all(isinstance(p, Box) for p in prompts):
            raise BadInput("this model takes boxes only; choose a user who draws boxes")
        clicks = [click for prompt in prompts for click in clicks_of(prompt)]
        points = [point for point, _ in clicks]
        labels = [int(positive) for _, positive in clicks]
        boxes = [p for p in prompts if isinstance(p, Box)]
        if boxes:
            beyond = 1.0 if self.policy.half_open else 0.0
            points += [boxes[-1].low, tuple(c + beyond for c in boxes[-1].high)]
            labels += [2, 3]
        if points and (self.network.second or not boxes):  # the first SAM pads without a box only
            points.append((0.0, 0.0))
            labels.append(NOT_A_POINT)
        return points, labels

    def mask_prompt(self, request: Request) -> Tensor | None:
        """Low-resolution logits: a new mask prompt, else the state, else an earlier mask prompt."""
        hints, device = [p for p in request.prompts if isinstance(p, MaskHint)], self.network.device
        fresh = bool(hints) and isinstance(request.prompts[-1], MaskHint)
        if request.state is not None and not fresh:
            return torch.as_tensor(request.state, device=device)
        if not hints:
            return None
        bits = torch.from_numpy(hints[-1].mask.dense()).to(device)
        low = self.frame.shrink(bits[None, None].float(), 4 * self.network.prompts.grid_side)
        return HINT_LOGIT * (2 * low[0] - 1)

    def groups(self, sizes: Sequence[int]) -> Iterator[list[int]]:
        """Requests with equally many tokens, which share a decoder pass.

        On a CPU one by one is fastest (perf/answers.py).
        """
        return of_equal_size(sizes, 1 if self.network.device.type == "cpu" else 64)


def encoded_images(
    network: SamNetwork, frame: Frame, images: Sequence[Pixels], policy: Policy
) -> list[SamEncodedScene]:
    with torch.no_grad():
        pixels = torch.cat([frame.enter(image, network.device) for image in images])
        whole = network.encode(pixels)
        position = network.prompts.position()
    each = [whole.each(itemgetter(slice(i, i + 1))) for i in range(len(images))]
    return [SamEncodedScene(network, frame, own, policy, position) for own in each]
