"""A SAM that has looked at a picture: prompts in, masks out, many at once."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Ask, Prediction, Reading, View
from segmeter.core.prompts import Box, Click, MaskHint, Point, Prompt, Scribble, Words, signs
from segmeter.models._frames import Frame
from segmeter.models._sam_decoder import NOT_A_POINT, Embedding, MaskDecoder, PromptEncoder
from segmeter.models._sam_graphs import Decoded, Floats, chosen_of, graphs_of

if TYPE_CHECKING:
    from segmeter.core.capabilities import JudgePair
    from segmeter.core.scenes import Target
    from segmeter.models._sam_clicks import SingleClicks
    from segmeter.models._sam_movable import MovablePoints
    from segmeter.models.automatic.candidates import Candidates

__all__ = ["Network", "Policy", "SamPrediction", "SamView", "answer_together", "separated"]

Choice = Literal["published", "sound"]
Masks = Literal["published", "sound", "zeroshot"]

STABILITY_OFFSET, STABLE = 0.05, 0.98
"""SAM 2 keeps its single mask when its area hardly changes with the threshold."""

MOST_FEEDBACK = 32.0
"""SAM 2 clamps the logits that go back in as a prompt."""

HINT_LOGIT = 10.0
"""How sure a mask given by a person is, in logits."""

STROKE_POINTS = 8
"""A stroke is handed over as at most so many points, evenly spaced."""

RENDERED_PIXELS = 1 << 24
"""Most pixels that are rendered at once: 64 MB of float32."""


class Network(Protocol):
    """The parts of a loaded SAM."""

    prompts: PromptEncoder
    decoder: MaskDecoder
    device: torch.device
    second: bool  # SAM 2 and later: fall-back, clamped feedback, a padding point beside boxes

    def encode(self, pixels: Tensor) -> Embedding:
        """The picture's embedding, from `(1, 3, side, side)`."""
        ...

    def frame(self, shape: tuple[int, int]) -> Frame: ...


@dataclass(frozen=True, slots=True)
class Policy:
    """Where the published wrappers and good sense differ, and which mask a kind shows.

    `masks`: `published` shows the best of three at every click (SAM) or the single mask with
    the stability fall-back (SAM 2); `sound` the best of three for one lone click and the
    single mask afterwards, for all; `zeroshot` does as Segment Anything's own evaluation: the
    best of three for a lone click (with the first SAM also for a lone box), then the single
    mask (SAM 2 with its fall-back), and every round's logits go back in; `single` always shows
    the single mask, as MedSAM was trained, `best` the best of three. `points`: `published`
    scales pixel indices, `sound` pixel centres.

    IntRaBench adds three: a `threshold` of 0.5 on SAM's logits where 0 is meant, `sigmoid`
    of the logits handed back as mask prompt, and boxes whose last pixel is the one beyond.
    """

    masks: Masks | Literal["single", "best"] = "published"
    points: Choice = "published"
    threshold: float = 0.0
    sigmoid: bool = False
    half_open: bool = False


@dataclass(frozen=True, slots=True)
class SamPrediction:
    """Four candidates by token number: 0 is the single mask, 1 to 3 are the three."""

    view: SamView
    logits: Tensor  # (4, low, low) float32 on the network's device
    scores: npt.NDArray[np.float32]
    shown: int
    fed: Tensor | None = None  # (1, low, low), the memory where it was made with the answer

    @property
    def offered(self) -> Sequence[int]:
        """The three masks where one of them is shown, else the single one."""
        return (1, 2, 3) if self.shown else (0,)

    @property
    def memory(self) -> Tensor:
        """Low-resolution logits of the mask shown, `(1, low, low)`."""
        if self.fed is not None:
            return self.fed
        view, shown = self.view, self.logits[self.shown : self.shown + 1]
        return view.feedback(view.policy, view.network.second, shown)

    def mask(self, candidate: int | None = None) -> Mask:
        index = self.shown if candidate is None else candidate
        return self.view.masks_of(self.logits[index : index + 1])[0]


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one pass of the decoder gave to the asks of a group."""

    group: list[int]
    logits: Tensor  # (B, 4, low, low)
    scores: Tensor  # (B, 4)
    shown: Tensor  # (B,)
    chosen: Tensor  # (B, low, low), the logits of the masks shown
    fed: Tensor  # (B, low, low), what of them goes back in as a prompt

    def leaving(self) -> _Batch:
        """With scores and choices on their way to the host."""
        return replace(self, scores=_leaving(self.scores), shown=_leaving(self.shown))


class SamView:
    """Answers prompts on one embedding."""

    graphs = True
    """Whether a GPU may replay captured graphs; answers are the same without."""

    def __init__(
        self,
        network: Network,
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

    def with_policy(self, policy: Policy) -> SamView:
        """The same embedding, answered in another reading."""
        return SamView(self.network, self.frame, self.embedding, policy, self.position)

    def answer_beside(self, views: Sequence[View], asks: Sequence[Ask]) -> list[Prediction]:
        """Answers on several views of this network: one pass on a GPU, else one by one."""
        own = [view for view in views if isinstance(view, SamView)]
        if self.network.device.type != "cpu" and len(own) == len(views):
            return answer_together(own, asks)
        return [view.answer([ask])[0] for view, ask in zip(views, asks, strict=True)]

    @property
    def nbytes(self) -> int:
        """Memory that the embedding takes, in bytes."""
        own = self.embedding
        tensors = [own.cells, *(own.fine or ())]
        tensors += [own.quality] if own.quality is not None else []
        return sum(t.numel() * t.element_size() for t in tensors)

    @torch.no_grad()
    def answer(self, asks: Sequence[Ask]) -> list[Prediction]:
        """One prediction per ask. Asks with equally many tokens share a pass of the decoder."""
        return self._predictions(len(asks), list(self._decoded(asks)))

    @property
    def works_beside(self) -> bool:
        """Whether a device of its own answers while the caller goes on."""
        return self.network.device.type == "cuda"

    @torch.no_grad()
    def start_answer(
        self, asks: Sequence[Ask]
    ) -> Callable[[], tuple[list[Prediction], list[Mask]]]:
        """Begin; a GPU brings logits, choice and masks by itself while the caller goes on."""
        if not self.works_beside:
            predictions = self.answer(asks)
            masks = self.render(predictions)
            return lambda: (predictions, masks)
        batches, leaving = [], []
        for batch in self._decoded(asks):
            leaving.append([_leaving(part) for part in self._bits(batch.chosen)])
            batches.append(batch.leaving())
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch has none
        done.record()

        def finish() -> tuple[list[Prediction], list[Mask]]:
            done.synchronize()
            masks: dict[int, Mask] = {}
            for batch, parts in zip(batches, leaving, strict=True):
                own = (Mask.of(one) for part in parts for one in part.numpy())
                masks |= zip(batch.group, own, strict=True)
            return self._predictions(len(asks), batches), [masks[i] for i in range(len(asks))]

        return finish

    def _decoded(self, asks: Sequence[Ask]) -> Iterator[_Batch]:
        """Logits, scores and choices, pass by pass."""
        sets = [self.tokens(ask.prompts) for ask in asks]
        for group in self.groups([len(labels) for _, labels in sets]):
            points = np.array([sets[i][0] for i in group], np.float32).reshape(len(group), -1, 2)
            labels = np.array([sets[i][1] for i in group], np.float32)
            masks = [self.mask_prompt(asks[i]) for i in group]
            first = [self._ambiguous(asks[i]) for i in group]
            found = self._replayed(points, labels, masks, first)
            yield _Batch(group, *(found or self._eager(points, labels, masks, first)))

    def _replayed(
        self, points: Floats, labels: Floats, masks: Sequence[Tensor | None], first: Sequence[bool]
    ) -> Decoded | None:
        """By a captured graph, where the device has one."""
        graphs = graphs_of(self.network) if self.graphs and points.size else None
        if graphs is None or self.embedding.quality is not None:
            return None
        return graphs.decoded(self, points, labels, masks, first)

    def _eager(
        self, points: Floats, labels: Floats, masks: Sequence[Tensor | None], first: Sequence[bool]
    ) -> Decoded:
        sparse = self.encode_points(torch.from_numpy(points), torch.from_numpy(labels).long())
        logits, scores = self.decode(sparse, self.encode_masks(masks))
        shown = self.choose(logits, scores, first)
        chosen = chosen_of(logits, shown)
        fed = self.feedback(self.policy, self.network.second, chosen)
        return logits, scores, shown, chosen, fed

    def _predictions(self, count: int, batches: Sequence[_Batch]) -> list[Prediction]:
        found: dict[int, Prediction] = {}
        for batch in batches:
            scores = batch.scores.cpu().numpy().copy()  # pinned memory goes back
            for at, (i, shown) in enumerate(zip(batch.group, batch.shown.tolist(), strict=True)):
                fed = batch.fed[at : at + 1]
                found[i] = SamPrediction(self, batch.logits[at], scores[at], shown, fed)
        return [found[i] for i in range(count)]

    def encode_points(self, points: Tensor, labels: Tensor) -> Tensor:
        """Tokens `(B, n, 256)` of scene points `(B, n, 2)`, `(y, x)`; differentiable in them.

        Labels: 1 on the object, 0 beside it, 2 and 3 the corners of a box, -1 padding.
        """
        device = self.network.device
        scale = torch.tensor(self.frame.scale, device=device)
        offset = 0.5 if self.policy.points == "sound" else 0.0
        places = (points.to(device) + offset) * scale - offset
        return self.network.prompts.points(places.flip(-1), labels.to(device))

    def encode_masks(self, masks: Sequence[Tensor | None]) -> Tensor:
        """Dense prompts `(B, cells, 256)`, or `(1, 1, 256)` when nobody has a mask."""
        prompts = self.network.prompts
        known = [i for i, mask in enumerate(masks) if mask is not None]
        if not known:
            return prompts.no_mask()
        cells = self.embedding.cells.shape[1]
        dense = prompts.no_mask().repeat(len(masks), cells, 1)
        dense[known] = prompts.masks(torch.stack([m for m in masks if m is not None]))
        return dense

    def decode(self, sparse: Tensor, dense: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `(B, 4, low, low)` and scores `(B, 4)` by token number, float32."""
        logits, scores = self.network.decoder(self.embedding, self.position, sparse, dense)
        return logits.float(), scores.float()

    def render(self, predictions: Sequence[Prediction]) -> list[Mask]:
        """The shown masks of many predictions; only bits leave the device."""
        own = [p for p in predictions if isinstance(p, SamPrediction)]
        if len(own) != len(predictions):
            raise BadInput("a view renders only predictions that a view of its kind made")
        return self.masks_of([p.logits[p.shown] for p in own])

    @torch.no_grad()
    def masks_of(self, logits: Sequence[Tensor] | Tensor) -> list[Mask]:
        """Masks at the scene's size from low-resolution logits `(low, low)` each."""
        return [Mask.of(own) for part in self._bits(logits) for own in fetched(part)]

    def _bits(self, logits: Sequence[Tensor] | Tensor) -> Iterator[Tensor]:
        """Bits at the scene's size, `(n, H, W)`, some logits at a time."""
        height, width = self.frame.shape
        step = max(1, RENDERED_PIXELS // max(height * width, self.frame.side**2))
        for start in range(0, len(logits), step):
            part = torch.stack(list(logits[start : start + step]))[:, None]
            yield self.frame.leave(part)[:, 0] > self.policy.threshold

    def keeps_memory(self, prompts: tuple[Prompt, ...], reading: Reading) -> bool:
        """Published: not while there is at most one click of each sign, faulty as it is."""
        only_clicks = all(isinstance(p, Click) for p in prompts)
        if reading == "sound" or not only_clicks or self.policy.masks == "zeroshot":
            return True
        return max(signs(prompts)) > 1

    def choose(self, logits: Tensor, scores: Tensor, first: Sequence[bool]) -> Tensor:
        """Which of the four masks is shown, `(B,)`; `first` marks ambiguous prompts."""
        ambiguous = torch.tensor(first, device=scores.device)
        return self.choice(self.policy, self.network.second, logits, scores, ambiguous)

    @staticmethod
    def choice(
        policy: Policy, second: bool, logits: Tensor, scores: Tensor, several: Tensor
    ) -> Tensor:
        """The rule of `choose`, on the device alone."""
        best = 1 + scores[:, 1:].argmax(dim=1)
        if policy.masks in ("single", "best"):
            return best if policy.masks == "best" else torch.zeros_like(best)
        if policy.masks == "published":
            several = torch.full_like(several, not second)
        if second and policy.masks != "sound":
            several = several | (stability(logits[:, 0]) < STABLE)
        return best.where(several, 0)

    @staticmethod
    def feedback(policy: Policy, second: bool, shown: Tensor) -> Tensor:
        """What of the shown logits goes back in as a prompt."""
        if policy.sigmoid:
            return shown.sigmoid()
        return shown.clamp(-MOST_FEEDBACK, MOST_FEEDBACK) if second else shown

    def _ambiguous(self, ask: Ask) -> bool:
        """Whether the prompts may mean several things, so that three masks are offered.

        A lone click does; by the first SAM's own rule a lone box does too, and neither does
        once logits are fed back.
        """
        if self.policy.masks != "zeroshot" or self.network.second:
            return len(ask.prompts) == 1 and isinstance(ask.prompts[0], Click)
        alone = len(ask.prompts) == 1 and ask.memory is None
        return alone and isinstance(ask.prompts[0], Click | Box)

    def single_clicks(self, dtype: torch.dtype = torch.float32) -> SingleClicks | None:
        """A decoder for thousands of lone clicks; SAM-HQ's refinement has no such way."""
        if self.embedding.quality is not None:
            return None
        from segmeter.models._sam_clicks import SingleClicks

        return SingleClicks(self, dtype)

    def single_click_scores(
        self,
        points: npt.NDArray[np.int64],
        target: Target,
        judge_pair: JudgePair,
        band_px: int,
        **speed: Any,
    ) -> npt.NDArray[np.float64] | None:
        """IoU and Boundary IoU after a lone positive click at each point."""
        from segmeter.models._sam_click_scores import single_click_scores

        return single_click_scores(self, points, target, judge_pair, band_px, **speed)

    @cached_property
    def grid_clicks(self) -> SingleClicks | None:
        """The decoder for a grid of clicks in the network's own precision, made once."""
        dtype = self.network.prompts.no_mask_embed.weight.dtype
        if self.embedding.quality is None and fused_steps(self.network.device) is not None:
            from segmeter.models._sam_fused_clicks import FusedClicks

            return FusedClicks(self, dtype)
        return self.single_clicks(dtype)

    def candidates(self, points: npt.NDArray[np.float64], above: float) -> Candidates:
        """The three masks of each lone click `(y, x)` whose score is above, as logits."""
        from segmeter.models._sam_grid import candidates_of

        return candidates_of(self, points, above)

    def single_candidates(self, points: npt.NDArray[np.float64], above: float) -> Candidates:
        """The single mask of each lone click whose score is above; no fall-back to another."""
        from segmeter.models._sam_grid import candidates_of

        return candidates_of(self, points, above, tokens=(0,))

    def refined(self, points: npt.NDArray[np.float64], candidates: Candidates) -> Candidates:
        """Each candidate again, from its click and its own logits."""
        from segmeter.models._sam_grid import refined

        return refined(self, points, candidates)

    def movable_clicks(self, asks: Sequence[Ask]) -> MovablePoints:
        """The same asks with the last click free to move, for whoever follows a gradient."""
        from segmeter.models._sam_movable import MovablePoints

        return MovablePoints(self, asks)

    def tokens(self, prompts: Sequence[Prompt]) -> tuple[list[Point], list[int]]:
        """Points `(y, x)` and labels; the last box counts, and its corners come last."""
        points: list[Point] = []
        labels: list[int] = []
        for prompt in prompts:
            for point, positive in _clicks(prompt):
                points.append(point)
                labels.append(int(positive))
        boxes = [p for p in prompts if isinstance(p, Box)]
        if boxes:
            beyond = 1.0 if self.policy.half_open else 0.0
            points += [boxes[-1].low, tuple(c + beyond for c in boxes[-1].high)]
            labels += [2, 3]
        # The first SAM pads only where there is no box.
        if points and (self.network.second or not boxes):
            points.append((0.0, 0.0))
            labels.append(NOT_A_POINT)
        return points, labels

    def mask_prompt(self, ask: Ask) -> Tensor | None:
        """Low-resolution logits: a hint just given, else the memory, else an earlier hint."""
        hints = [p for p in ask.prompts if isinstance(p, MaskHint)]
        fresh = bool(ask.prompts) and isinstance(ask.prompts[-1], MaskHint)
        if ask.memory is not None and not fresh:
            return torch.as_tensor(ask.memory, device=self.network.device)
        if not hints:
            return None
        bits = torch.from_numpy(hints[-1].mask.dense()).to(self.network.device)
        low = self.frame.shrink(bits[None, None].float(), 4 * self.network.prompts.grid_side)
        return HINT_LOGIT * (2 * low[0] - 1)

    def groups(self, sizes: Sequence[int]) -> Iterator[list[int]]:
        """Asks with equally many tokens that share a pass of the decoder.

        On a processor one by one is fastest (perf/answers.py).
        """
        return _groups(sizes, 1 if self.network.device.type == "cpu" else 64)


def fused_steps(device: torch.device) -> ModuleType | None:
    """Steps of the decoder in one kernel each, on a CUDA device where Triton is at hand."""
    if device.type != "cuda":
        return None
    try:
        return importlib.import_module("segmeter.models._sam_fused")
    except ModuleNotFoundError:
        return None


@torch.no_grad()
def answer_together(views: Sequence[SamView], asks: Sequence[Ask]) -> list[Prediction]:
    """One prediction per ask, each on a view of its own: slices of a volume on a GPU.

    Asks with equally many tokens share a pass of the decoder; the views are of one network.
    """
    sets = [view.tokens(ask.prompts) for view, ask in zip(views, asks, strict=True)]
    predictions: dict[int, Prediction] = {}
    for group in _groups([len(labels) for _, labels in sets], 64):
        own = [views[i] for i in group]
        joint = SamView(own[0].network, own[0].frame, _joined(own), own[0].policy, own[0].position)
        labels = torch.tensor([sets[i][1] for i in group], dtype=torch.long)
        points = torch.tensor([sets[i][0] for i in group], dtype=torch.float32)
        sparse = joint.encode_points(points.reshape(len(group), -1, 2), labels)
        dense = joint.encode_masks([views[i].mask_prompt(asks[i]) for i in group])
        logits, scores = joint.decode(sparse, dense)
        first = [views[i]._ambiguous(asks[i]) for i in group]
        shown = joint.choose(logits, scores, first).tolist()
        for at, i in enumerate(group):
            mine = scores[at].cpu().numpy()
            predictions[i] = SamPrediction(views[i], logits[at], mine, shown[at])
    return [predictions[i] for i in range(len(asks))]


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


def _leaving(tensor: Tensor) -> Tensor:
    """A copy on the host that is there once the device has come so far."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    return host.copy_(tensor, non_blocking=True)


def fetched(bits: Tensor) -> npt.NDArray[np.bool_]:
    """Bits on the host, through memory that a GPU may write to by itself: four times as fast."""
    host = torch.empty(bits.shape, dtype=torch.bool, pin_memory=bits.is_cuda)
    found: npt.NDArray[np.bool_] = host.copy_(bits).numpy()
    return found


def stability(logits: Tensor) -> Tensor:
    """Share of a looser mask's area that a stricter one keeps, `(B, h, w)` to `(B,)`."""
    strict = (logits > STABILITY_OFFSET).sum((-2, -1))
    loose = (logits > -STABILITY_OFFSET).sum((-2, -1))
    return torch.where(loose > 0, strict / loose, 1.0)


def _clicks(prompt: Prompt) -> list[tuple[Point, bool]]:
    match prompt:
        case Click(point, positive):
            return [(point, positive)]
        case Scribble(points, positive):
            count = min(STROKE_POINTS, len(points))
            picked = np.linspace(0, len(points) - 1, count).round().astype(int)
            return [(points[i], positive) for i in picked]
        case Words():
            raise BadInput("SAM kinds read no words; ask by clicks, boxes, strokes or masks")
        case _:
            return []


def _groups(sizes: Sequence[int], together: int) -> Iterator[list[int]]:
    """Indices of equal size, at most so many together, in order."""
    by_size: dict[int, list[int]] = {}
    for index, size in enumerate(sizes):
        by_size.setdefault(size, []).append(index)
    for members in by_size.values():
        for start in range(0, len(members), together):
            yield members[start : start + together]
