"""Annotation rounds with gradients: simulated annotators prompt a SAM whose decoder is trained.

The sessions are those of the benchmarks (`core.sessions.Session`), so the decoder is trained on
the prompts, the fed back logits and the choice of masks that it will be tested with. Objects of
several images share a pass of the decoder.

Mask losses of Segment Anything: focal, dice and the error of the predicted IoU.

A mask's loss is 20 x focal + dice. Of the three masks of an ambiguous prompt only the one with
the lowest loss is trained. The predicted IoU is trained towards the mask's own IoU: by the
squared error of that mask (`sam`), or by the absolute error of all masks (`sam2`).

    Kirillov et al. Segment anything. ICCV 2023, section 3 and supplement A.
    Ravi et al. SAM 2. arXiv 2408.00714.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from segmeter.core.errors import check_choice
from segmeter.core.grouping import grouped
from segmeter.core.models import ProtocolName, Request
from segmeter.core.prompts import Point, as_prompts
from segmeter.core.scenes import Scene, Target
from segmeter.core.seeds import generator
from segmeter.core.sessions import Session
from segmeter.core.users import Observation, User
from segmeter.models.sam._decoder import Embedding
from segmeter.models.sam._encoded import Choices, SamEncodedScene, SamPrediction
from segmeter.models.sam._prompt_batches import fed_back, of_equal_size

ScoreLoss = Literal["sam", "sam2"]
FOCAL_WEIGHT = 20.0


@dataclass(frozen=True, slots=True)
class StepLoss:
    """Losses of one step as means over its objects, each a scalar tensor.

    `best` is the index of the mask that is trained, `(n,)`.
    """

    focal: Tensor
    dice: Tensor
    score: Tensor
    best: Tensor

    @property
    def total(self) -> Tensor:
        return FOCAL_WEIGHT * self.focal + self.dice + self.score


def focal_loss(logits: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """Mean focal loss over the last two axes; targets are boolean.

    >>> round(float(focal_loss(torch.tensor([[0.0]]), torch.tensor([[True]]))), 6)
    0.043322
    """
    goal = targets.to(logits.dtype).expand_as(logits)
    surprise = F.binary_cross_entropy_with_logits(logits, goal, reduction="none")
    hit = torch.where(goal > 0, logits.sigmoid(), (-logits).sigmoid())
    weight = alpha * goal + (1 - alpha) * (1 - goal)
    return (weight * surprise * (1 - hit) ** gamma).mean((-2, -1))


def dice_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """One minus the soft Dice coefficient over the last two axes, one added above and below.

    >>> float(dice_loss(torch.tensor([[50.0]]), torch.tensor([[True]])))
    0.0
    """
    goal = targets.to(logits.dtype)
    p = logits.sigmoid()
    return 1 - (2 * (p * goal).sum((-2, -1)) + 1) / (p.sum((-2, -1)) + goal.sum((-2, -1)) + 1)


def score_errors(logits: Tensor, targets: Tensor, scores: Tensor) -> Tensor:
    """Predicted minus true IoU at threshold 0; a union is at least 1.

    >>> inside = torch.tensor([[[True, True]]])
    >>> score_errors(torch.tensor([[[2.0, -2.0]]]), inside, torch.tensor([0.75])).tolist()
    [0.25]
    """
    inside = targets > 0
    mask = logits > 0
    union = (mask | inside).sum((-2, -1)).clamp(min=1)
    return scores - (mask & inside).sum((-2, -1)) / union


def step_loss(logits: Tensor, targets: Tensor, scores: Tensor, kind: ScoreLoss = "sam") -> StepLoss:
    """The loss of one step: logits `(n, k, H, W)`, targets `(n, H, W)`, scores `(n, k)`.

    Focal and dice are those of the same mask, the best by `20 focal + dice`, the first of
    equal ones.

    >>> logits = torch.tensor([[[[9.0, -9.0]], [[-9.0, 9.0]]]])
    >>> goal = torch.tensor([[[True, False]]])
    >>> step_loss(logits, goal, torch.tensor([[0.9, 0.5]])).best.tolist()
    [0]
    """
    check_choice("kind", kind, get_args(ScoreLoss))
    goal = targets[:, None]
    focal, dice = focal_loss(logits, goal), dice_loss(logits, goal)
    errors = score_errors(logits, goal, scores)
    best = (FOCAL_WEIGHT * focal + dice).detach().argmin(1, keepdim=True)
    squared = errors.gather(1, best) ** 2
    score = squared.mean() if kind == "sam" else errors.abs().mean()
    return StepLoss(focal.gather(1, best).mean(), dice.gather(1, best).mean(), score, best[:, 0])


MOST_SHARE = 0.9
"""Objects that cover more of their image are not trained on, as in the paper."""

_THREE, _SINGLE = slice(1, 4), slice(0, 1)


class AnnotatedObject:
    """One object in training: its encoded image and the session of its annotator."""

    def __init__(
        self, scene: Scene, target: Target, encoded: SamEncodedScene, protocol: ProtocolName
    ) -> None:
        self.scene, self.target, self.encoded = scene, target, encoded
        self.session = Session(scene, encoded, target, protocol=protocol)

    def next_request(self, user: User, prompted: bool, seed: tuple[object, ...]) -> Request | None:
        """The next request of the annotator; None once the annotator accepted the mask."""
        session = self.session
        if not prompted:
            return session.request(()) if session.prompts else None
        seen = Observation.of(session, self.target, len(session.prompts) + 1)
        given = as_prompts(user.next(seen, generator(*seed, self.scene.name, self.target.id)))
        if not given:
            return None
        request = session.request(given)
        session.prompts = (*session.prompts, *given)
        return request


ObjectRequest = tuple[AnnotatedObject, Request]


def schedule(rounds: int, repeats: int, rng: np.random.Generator) -> list[bool]:
    """Which iterations of a session bring a new prompt: the first always does.

    `repeats` iterations have none: the last one, and the others each directly before a later
    prompt, at random. Segment Anything has 9 prompts and 2 repeats, 11 iterations.

    >>> made = schedule(9, 2, np.random.default_rng(0))
    >>> len(made), sum(made), made[0], made[-1]
    (11, 9, True, False)
    """
    before = np.sort(rng.integers(1, max(rounds, 2), max(repeats - 1, 0)))
    iterations: list[bool] = []
    for number in range(rounds):
        iterations += [False] * int((before == number).sum()) + [True]
    iterations += [False] * (repeats - iterations.count(False))
    return iterations


def round_losses(
    objects: Sequence[AnnotatedObject],
    user: User,
    prompted: bool,
    seed: tuple[object, ...],
    kind: ScoreLoss,
    precision: AbstractContextManager[object],
) -> Iterator[tuple[int, Tensor]]:
    """One round of all objects: prompts, one pass of the decoder, losses, and the new masks.

    Yields once per group of objects with equally many prompt tokens: how many they are, and the
    mean of their losses, which carries the gradient.
    """
    asked = [(one, one.next_request(user, prompted, seed)) for one in objects]
    live = [(one, request) for one, request in asked if request is not None]
    tokens = [one.encoded.tokens(request.prompts) for one, request in live]
    for group in of_equal_size([len(labels) for _, labels in tokens], len(live)):
        members = [live[i] for i in group]
        inputs = _inputs(members, [tokens[i] for i in group])
        with precision:
            logits, scores = live[0][0].encoded.network.decoder(*inputs)
        logits, scores = logits.float(), scores.float()
        _record(members, logits.detach(), scores.detach())
        yield len(members), _loss(members, logits, scores, kind)


@torch.no_grad()
def _inputs(
    members: Sequence[ObjectRequest], tokens: Sequence[tuple[list[Point], list[int]]]
) -> tuple[Embedding, Tensor, Tensor, Tensor]:
    """Inputs of the decoder: embeddings, position, and prompts of the frozen prompt encoder."""
    sparse, dense, cells, fine = [], [], [], []
    for (one, request), (points, labels) in zip(members, tokens, strict=True):
        encoded = one.encoded
        places = torch.tensor(points, dtype=torch.float32)[None]
        sparse.append(encoded.encode_points(places, torch.tensor(labels)[None]))
        prompt = encoded.encode_masks([encoded.mask_prompt(request)])
        dense.append(prompt.expand(-1, encoded.embedding.cells.shape[1], -1))
        cells.append(encoded.embedding.cells)
        fine += [encoded.embedding.fine] if encoded.embedding.fine is not None else []
    finer = (torch.cat([a for a, _ in fine]), torch.cat([b for _, b in fine])) if fine else None
    image = Embedding(torch.cat(cells), finer)
    return image, members[0][0].encoded.position, torch.cat(sparse), torch.cat(dense)


def _loss(
    members: Sequence[ObjectRequest], logits: Tensor, scores: Tensor, kind: ScoreLoss
) -> Tensor:
    """The mean loss of a pass, images of one size together."""
    sizes = grouped(range(len(members)), lambda i: members[i][0].encoded.frame.shape)
    total = logits.new_zeros(())
    for (height, width), places in sorted(sizes.items()):
        # At the image's size, at most the network's.
        encoded, shown = members[places[0]][0].encoded, logits[places]
        scale = min(1.0, encoded.frame.side / max(height, width))
        size = max(1, round(height * scale)), max(1, round(width * scale))
        frame = encoded.network.frame(size)
        wide = frame.leave(shown.flatten(0, 1)[:, None])
        wide = wide.reshape(*shown.shape[:2], *wide.shape[-2:])
        masks = [torch.from_numpy(members[i][0].target.mask.dense()) for i in places]
        goals = torch.stack(masks).to(wide.device)
        if goals.shape[-2:] != frame.shape:
            goals = F.interpolate(goals[:, None].float(), frame.shape, mode="area")[:, 0] > 0.5
        for which in (_THREE, _SINGLE):
            rows = [k for k, i in enumerate(places) if which in _trained_masks(*members[i])]
            if rows:
                step = step_loss(wide[rows, which], goals[rows], scores[places][rows, which], kind)
                total = total + len(rows) * step.total
    return total / len(members)


def _trained_masks(one: AnnotatedObject, request: Request) -> list[slice]:
    """The masks to train among the four: those that the model would show here.

    The three for an ambiguous prompt, the single one after several prompts; both where the
    click benchmarks show them otherwise (the first SAM always one of three, SAM 2 the single).
    """
    encoded = one.encoded
    ambiguous, second = encoded.is_ambiguous(request), encoded.network.second
    published = encoded.policy.masks == "published"
    trained = [_THREE] if ambiguous or (published and not second) else []
    return trained + ([_SINGLE] if not ambiguous or (published and second) else [])


def _record(members: Sequence[ObjectRequest], logits: Tensor, scores: Tensor) -> None:
    """Give each session the prediction that an annotator would see, without gradients."""
    for i, (one, request) in enumerate(members):
        encoded = one.encoded
        own, score = logits[i : i + 1], scores[i : i + 1]
        shown = encoded.choose(own, score, [encoded.is_ambiguous(request)])
        state = fed_back(encoded.policy, encoded.network.second, own, shown)
        made = SamPrediction(encoded, own[0], state, Choices(own, score, shown), 0)
        session = one.session
        session.last, session.mask = made, made.mask()
