"""Adversaries: users that query the model to find its best or worst click, by gradient or search.

By gradient is the attack of TETRIS: start at the centre click, take ten steps of Adam against a
Dice loss with a penalty for leaving the error region, and keep the best click seen that is still a
fair one. `published` follows the authors' code; `corrected` fixes its flaws:

- steps and clicks have one frame, and a click is a whole pixel of the image;
- a click is fair when its pixel is wrong, judged and not clicked before, and its disc lies
  no more than 5 % further out than the start's (the original's allowance compounds);
- the criterion is IoU of the shown mask, without ignored pixels;
- the start is kept unless a click beats it, so the worst click is never better and the
  best never worse than the centre click.

A. Moskalenko et al., "TETRIS: Towards Exploring the Robustness of Interactive
Segmentation", AAAI 2024. Its renderer of discs is replaced by an analytic one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from segmeter.clickability.maps import depth_px
from segmeter.core import catalogue
from segmeter.core.capabilities import Differentiable, MovableClicks, Team
from segmeter.core.error_regions import error_regions
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName, Request, keeps_state, render
from segmeter.core.prompts import Click
from segmeter.core.users import Observation
from segmeter.measures.objects import boundary_iou, iou
from segmeter.users.error_prompts import Generators, Given, Teamed, centre_clicks, unclicked

if TYPE_CHECKING:
    from torch import Tensor

DISC = 5.0
Direction = Literal["best", "worst"]
Kind = TypeVar("Kind")
Place = tuple[float, float]
STEPS = 10
ALLOWANCE = 1.05
DICE_WEIGHT = 1e-3
BETTER_BY = 1e-6  # in `corrected`: more than rounding can do
PIXELS_AT_ONCE = {"cpu": 1 << 21, "cuda": 1 << 26}
"""Pixels of network input whose activations are kept for the way back, by device."""
Pixel = tuple[int, int]


class Adam:
    """Adam with a step size of its own for each row."""

    def __init__(self, points: Tensor, rates: Tensor) -> None:
        self.points, self._rates, self._count = points, rates, 0
        self._mean = self._square = points.new_zeros(points.shape)

    def step(self, slope: Tensor) -> None:
        self._count += 1
        self._mean = 0.9 * self._mean + 0.1 * slope
        self._square = 0.999 * self._square + 0.001 * slope.square()
        mean = self._mean / (1 - 0.9**self._count)
        square = self._square / (1 - 0.999**self._count)
        self.points = self.points.detach() - self._rates * mean / (square.sqrt() + 1e-8)


def dice_loss(logits: Tensor, ground_truth: Tensor) -> Tensor:
    """Soft Dice loss; 0 when there is nothing to find."""
    if not bool(ground_truth.any()):
        return logits.sum() * 0
    p = logits.sigmoid()
    return 1 - 2 * (p * ground_truth).sum() / (p + ground_truth).sum().clamp_min(1e-7)


def disc_sum(point: Tensor, plane: Tensor, radius: float = DISC) -> Tensor:
    """Sum of a map under a soft disc; only pixels near the disc are read.

    The disc covers a pixel at distance d by `clip(radius + 1/2 - d, 0, 1)`; its centre is
    kept inside the map.
    """
    import torch

    height, width = plane.shape
    last = point.new_tensor([height - 1, width - 1])
    centre = point.clamp(min=torch.zeros_like(last), max=last)
    reach = math.ceil(radius) + 2
    row, column = (round(c) for c in centre.tolist())
    top, left = max(0, row - reach), max(0, column - reach)
    near = plane[top : row + reach + 1, left : column + reach + 1]
    rows = torch.arange(top, top + near.shape[0], device=plane.device)
    columns = torch.arange(left, left + near.shape[1], device=plane.device)
    squared = (rows[:, None] - centre[0]).square() + (columns - centre[1]).square()
    covered = (radius + 0.5 - squared.clamp_min(1e-12).sqrt()).clamp(0, 1)
    return (covered * near).sum()


@dataclass(frozen=True, slots=True)
class Trial:
    """One tried click: its IoU, and whether it was chosen."""

    point: Place
    iou: float
    boundary_iou: float
    location: float
    fair: bool
    accepted: bool


@dataclass(slots=True)
class Attempt:
    """The trials of one session in one round; the first is the centre click itself."""

    positive: bool
    trials: list[Trial] = field(default_factory=list)

    @property
    def chosen(self) -> Trial:
        return [trial for trial in self.trials if trial.accepted][-1]

    @property
    def click(self) -> Click:
        return Click(self.chosen.point, self.positive)


def follow(
    observations: Sequence[Observation], directions: Sequence[Direction], steps: int = STEPS
) -> list[Attempt | None]:
    """Follow the gradient from each observation's centre click; None if the user accepts the mask.

    Observations share one encoded scene and may differ in target, protocol and direction: all of
    them take each step together.
    """
    climbers = _started(_Climber, observations, directions)
    if going := [climber for climber in climbers if climber is not None]:
        _climb(going, steps)
    return [None if climber is None else climber.attempt for climber in climbers]


def _started(
    make: Callable[[Observation, Direction, Click], Kind],
    observations: Sequence[Observation],
    directions: Sequence[Direction],
) -> list[Kind | None]:
    """A value for each observation and its centre click; None where there is no such click."""
    pairs = zip(centre_clicks(observations), directions, strict=True)
    return [
        None if found.click is None else make(found.observation, direction, found.click)
        for found, direction in pairs
    ]


def valid_pixels(observation: Observation, positive: bool) -> Mask:
    """Pixels a person could mean: missed (or false positive), judged, and not clicked before."""
    wrong = error_regions(observation.target, observation.mask)[not positive]
    return unclicked(wrong, observation.prompts)


def request_with(observation: Observation, click: Click) -> Request:
    prompts = (*observation.prompts, click)
    state = None if observation.last is None else observation.last.state
    keeps = state is not None and keeps_state(observation.encoded, prompts, observation.protocol)
    return Request(prompts, state if keeps else None)


def scored(clicks: Sequence[tuple[Observation, Click]]) -> list[tuple[float, float]]:
    """Scores of the masks that the model shows after a click; equal requests are sent once."""
    encoded = clicks[0][0].encoded
    requests = [request_with(*click) for click in clicks]
    keys = [(request.prompts, id(request.state)) for request in requests]
    distinct = dict(zip(keys, requests, strict=True))
    masks = render(encoded, encoded.predict(list(distinct.values())))
    known = dict(zip(distinct, masks, strict=True))
    return [scores_of(seen, known[key]) for (seen, _), key in zip(clicks, keys, strict=True)]


def scores_of(observation: Observation, mask: Mask) -> tuple[float, float]:
    """IoU and Boundary IoU; `corrected` leaves ignored pixels out."""
    target = observation.target
    ignore = target.ignore if observation.protocol == "corrected" else None
    return iou(target.mask, mask, ignore), boundary_iou(target.mask, mask, ignore)


class _Climber:
    """One session on its way: its rules and its trials so far."""

    def __init__(self, observation: Observation, direction: Direction, start: Click) -> None:
        self.observation, self.start = observation, start
        self.sign = 1.0 if direction == "best" else -1.0
        self.corrected = observation.protocol == "corrected"
        self.valid = valid_pixels(observation, start.positive)
        self.attempt = Attempt(start.positive)
        self.seen: dict[Place, tuple[float, float]] = {}
        self.limit = math.inf

    def away(self) -> npt.NDArray[np.float32]:
        """Distance of every pixel of the image to the nearest wrong one of that kind."""
        wrong = error_regions(self.observation.target, self.observation.mask)
        return depth_px(~wrong[not self.start.positive].dense())

    def place(self, point: Place) -> Place:
        """Position of a click: rounded to a pixel in `corrected`, clipped in both protocols."""
        if not self.attempt.trials:
            return self.start.point[0], self.start.point[1]
        height, width = self.observation.scene.shape[:2]
        y, x = min(max(point[0], 0), height - 1), min(max(point[1], 0), width - 1)
        return (math.floor(y + 0.5), math.floor(x + 0.5)) if self.corrected else (y, x)

    def curious(self, place: Place) -> bool:
        """Whether to query the model: not for positions tried before, nor for invalid ones."""
        if not self.corrected or place in self.seen:
            return False
        return not self.attempt.trials or self.valid[(int(place[0]), int(place[1]))]

    def judge(self, place: Place, location: float) -> None:
        """Record the trial, and take it if it is valid and better than the best so far."""
        if place not in self.seen:
            return
        scores, first = self.seen[place], not self.attempt.trials
        fair = first or location <= self.limit
        taken = first or (fair and self._beats(scores))
        self.attempt.trials.append(Trial(place, *scores, location, fair, taken))
        if first or (taken and not self.corrected):
            self.limit = ALLOWANCE * location

    def _beats(self, scores: tuple[float, float]) -> bool:
        best = self.attempt.chosen
        if self.corrected:
            return self.sign * (scores[0] - best.iou) > BETTER_BY
        # The original compares the pair, so that Boundary IoU decides ties.
        pair = (best.iou, best.boundary_iou)
        return scores > pair if self.sign > 0 else scores < pair


def _climb(climbers: Sequence[_Climber], steps: int) -> None:
    """Take all steps of all climbers together; in halves where memory would not do."""
    import torch

    encoded = climbers[0].observation.encoded
    if not isinstance(encoded, Differentiable):
        raise BadInput("this model has no gradient; use the search for clicks instead")
    soft = encoded.movable_clicks([request_with(c.observation, c.start) for c in climbers])
    device = soft.start().device.type
    pixels = sum(math.prod(size) for size in soft.sizes)
    if len(climbers) > 1 and pixels > PIXELS_AT_ONCE.get(device, PIXELS_AT_ONCE["cuda"]):
        middle = len(climbers) // 2
        _climb(climbers[:middle], steps)
        _climb(climbers[middle:], steps)
        return
    location = _location(soft, climbers)
    targets = [climber.observation.target.mask for climber in climbers]
    ground_truth = [soft.into_prediction(i, mask) for i, mask in enumerate(targets)]
    own = [
        size if c.corrected else other
        for c, size, other in zip(climbers, soft.sizes, soft.step_sizes, strict=True)
    ]
    # Steps of 5 pixels for a frame of 400 x 400, in proportion for others.
    rates = [5 * math.hypot(*size) / (400 * math.sqrt(2)) for size in own]
    start = soft.start()
    adam = Adam(start, start.new_tensor(rates)[:, None])
    signs = start.new_tensor([climber.sign for climber in climbers])
    for _ in range(steps + 1):
        points = adam.points.requires_grad_(True)
        with torch.enable_grad():
            logits = soft.logits(points)
            outside = location(points)
            dice = [dice_loss(g, t) for g, t in zip(logits, ground_truth, strict=True)]
            loss = outside + DICE_WEIGHT * signs * torch.stack(dice)
            (slope,) = torch.autograd.grad(loss.sum(), points)
        _judge(climbers, soft, points.detach(), [one.detach() for one in logits], outside.tolist())
        adam.step(torch.nan_to_num(slope))


def _location(soft: MovableClicks, climbers: Sequence[_Climber]) -> Callable[[Tensor], Tensor]:
    """How far each disc lies outside its error region.

    `published` takes the mean over the whole frame, with distances in pixels of the
    image; `corrected` the mean over the disc, in pixels of the frame.
    """
    import torch

    away = [soft.into_frame(i, climber.away()) for i, climber in enumerate(climbers)]
    # Pixels of each frame for one pixel of the image, the mean of both axes.
    ends = zip(soft.to_image(soft.start()), soft.to_image(soft.start() + 1), strict=True)
    scales = [1 / math.sqrt((b[0] - a[0]) * (b[1] - a[1])) for a, b in ends]
    weights = [
        scale / (math.pi * DISC**2) if climber.corrected else 1 / math.prod(size)
        for climber, scale, size in zip(climbers, scales, soft.sizes, strict=True)
    ]

    def outside(points: Tensor) -> Tensor:
        sums = [disc_sum(p, far) for p, far in zip(points, away, strict=True)]
        return torch.stack(sums) * points.new_tensor(weights)

    return outside


def _judge(
    climbers: Sequence[_Climber],
    soft: MovableClicks,
    points: Tensor,
    logits: Sequence[Tensor],
    outside: Sequence[float],
) -> None:
    """Score all positions: `corrected` by the model itself, `published` by the soft pass."""
    places = [c.place(p) for c, p in zip(climbers, soft.to_image(points), strict=True)]
    asking = [(c, p) for c, p in zip(climbers, places, strict=True) if c.curious(p)]
    if asking:
        clicks = [(c.observation, Click(place, c.start.positive)) for c, place in asking]
        for (climber, place), scores in zip(asking, scored(clicks), strict=True):
            climber.seen[place] = scores
    if not all(climber.corrected for climber in climbers):
        for climber, place, mask in zip(climbers, places, soft.masks(logits), strict=True):
            if not climber.corrected:
                climber.seen[place] = scores_of(climber.observation, mask)
    for climber, place, far in zip(climbers, places, outside, strict=True):
        climber.judge(place, far)


Attempts = dict[tuple[str, str, ProtocolName, int], Attempt]
"""By user, target, protocol and round."""


@dataclass(frozen=True, slots=True)
class SearchGrid:
    """Size of the search: clicks of the first lattice, refined positions, coarsest spacing."""

    lattice: int = 100
    places: int = 4
    finest: int = 1


def search(
    observations: Sequence[Observation],
    directions: Sequence[Direction],
    effort: SearchGrid | None = None,
) -> list[Attempt | None]:
    """Try clicks from coarse to fine; None if the user accepts the mask.

    The centre click is the first trial, so nothing worse than it is ever chosen.
    """
    made = partial(_Hunt, effort=effort or SearchGrid())
    hunts = _started(made, observations, directions)
    going = [hunt for hunt in hunts if hunt is not None]
    while wanted := [(hunt, pixel) for hunt in going for pixel in hunt.wanted()]:
        clicks = [(hunt.observation, Click(pixel, hunt.positive)) for hunt, pixel in wanted]
        for (hunt, pixel), scores in zip(wanted, scored(clicks), strict=True):
            hunt.scores[pixel] = scores
        for hunt in going:
            hunt.finer()
    return [None if hunt is None else hunt.attempt() for hunt in hunts]


class _Hunt:
    """The search of one session: clicks tried so far, and the next positions."""

    def __init__(
        self, observation: Observation, direction: Direction, start: Click, effort: SearchGrid
    ) -> None:
        self.observation, self.positive, self.effort = observation, start.positive, effort
        self.sign = 1.0 if direction == "best" else -1.0
        self.start: Pixel = (start.pixel[0], start.pixel[1])
        self.valid = valid_pixels(observation, start.positive)
        area = max(1, self.valid.area)
        wide = max(1.0, math.sqrt(area / effort.lattice))
        self.spacing = 2 ** round(math.log2(wide))
        self.scores: dict[Pixel, tuple[float, float]] = {}
        self.next: list[Pixel] = [self.start, *lattice(self.valid, self.spacing)]

    def wanted(self) -> list[Pixel]:
        """Pixels of this level that were not tried yet, each once."""
        return [pixel for pixel in dict.fromkeys(self.next) if pixel not in self.scores]

    def finer(self) -> None:
        """Refine around the most promising positions with half the spacing."""
        self.next = []
        while not self.wanted() and self.spacing > self.effort.finest:
            self.spacing //= 2
            self.next = [
                (y + dy, x + dx)
                for y, x in self._ranked()[: self.effort.places]
                for dy in (-self.spacing, 0, self.spacing)
                for dx in (-self.spacing, 0, self.spacing)
                if self.valid[(y + dy, x + dx)]
            ]

    def attempt(self) -> Attempt:
        """All trials; the choice is marked last, after the start."""
        chosen = self._ranked()[0]
        if self.sign * (self.scores[chosen][0] - self.scores[self.start][0]) <= 0:
            chosen = self.start
        others = [pixel for pixel in self.scores if pixel not in (self.start, chosen)]
        order = [self.start, *others] + ([chosen] if chosen != self.start else [])
        trials = [Trial(p, *self.scores[p], 0.0, True, p in (self.start, chosen)) for p in order]
        return Attempt(self.positive, trials)

    def _ranked(self) -> list[Pixel]:
        """Best first in the direction of the search; raster order among equals."""
        return sorted(self.scores, key=lambda p: (-self.sign * self.scores[p][0], p))


def lattice(valid: Mask, spacing: int) -> list[Pixel]:
    """One valid pixel for each cell of a lattice that holds any: the one nearest its middle.

    So thin parts are tried too, which a plain grid would step over.
    """
    pixels: npt.NDArray[np.int64] = np.argwhere(valid.bits)
    if not len(pixels):
        return []
    cells = pixels // spacing
    off = np.abs(2 * (pixels - cells * spacing) - (spacing - 1)).max(axis=1)
    order = np.lexsort((np.arange(len(pixels)), off, cells[:, 1], cells[:, 0]))
    ordered = cells[order]
    first = np.r_[True, (ordered[1:] != ordered[:-1]).any(axis=1)]
    kept = pixels[order[first]] + np.array(valid.low)
    return [(int(y), int(x)) for y, x in kept]


LATER = SearchGrid(36, 2, 2)
"""Search grid that replaces the gradient after the first round."""


def _together(users: Sequence[Any], seen: Sequence[Observation], rngs: Generators) -> Given:
    """The users of a scene; those who differ in direction only take every step together."""
    ways = grouped(range(len(users)), lambda i: replace(users[i], direction="best"))
    found: Given = [None] * len(users)
    for way, members in ways.items():
        directions = [users[i].direction for i in members]
        attempts = way.attempts([seen[i] for i in members], directions)
        for i, attempt in zip(members, attempts, strict=True):
            user, now = users[i], seen[i]
            if attempt is not None and user.kept is not None:
                user.kept[user.name, now.target.id, now.protocol, now.round] = attempt
            found[i] = None if attempt is None else attempt.click
    return found


@dataclass(frozen=True, slots=True)
class Adversary(Teamed):
    """Finds the best or the worst click.

    By `gradient` it follows the model's gradient from the centre click, and searches where there
    is none; by `search` it tries clicks from coarse to fine, which works for any model. Its
    attempts go to `kept`, where that is given.
    """

    team: ClassVar[Team] = staticmethod(_together)
    direction: Direction
    by: Literal["gradient", "search"] = "gradient"
    steps: int = STEPS
    effort: SearchGrid | None = None
    kept: Attempts | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        return f"{self.direction}-click{'' if self.by == 'gradient' else '-search'}"

    def attempts(
        self, observations: Sequence[Observation], directions: Sequence[Direction]
    ) -> list[Attempt | None]:
        """All trials of each observation; one call may search both directions."""
        if self.by == "search":
            return search(observations, directions, self.effort)
        if not isinstance(observations[0].encoded, Differentiable):
            return search(observations, directions, None if observations[0].round == 1 else LATER)
        return follow(observations, directions, self.steps)


def _gradient(direction: Direction, steps: int = STEPS) -> Adversary:
    return Adversary(direction, steps=steps)


def _searching(
    direction: Direction, lattice: int = 100, places: int = 4, finest: int = 1
) -> Adversary:
    return Adversary(direction, "search", effort=SearchGrid(lattice, places, finest))


for _direction in get_args(Direction):
    for _end, _by, _make in (("", "gradient", _gradient), ("-search", "search", _searching)):
        _summary = f"{_direction} clicks for the model, found by {_by}"
        catalogue.users.add(f"{_direction}-click{_end}", _summary)(partial(_make, _direction))
