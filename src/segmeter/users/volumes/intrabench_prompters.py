"""Users who prompt a volume once, with IntRaBench's names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from segmeter.core import catalogue
from segmeter.core.action_counts import Effort
from segmeter.core.capabilities import CountsEffort, GivesPrompts, capable
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName, Request, render
from segmeter.core.prompts import Click, Prompt, Prompts
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.users.volumes import initial_prompts as initial
from segmeter.users.volumes.slices import Draws, draws_of, foreground_slices

Given: TypeAlias = Sequence[Prompt]


@dataclass(frozen=True, slots=True)
class PromptContext:
    """Input of a prompter: target, protocol, random draws, and the model's predictions."""

    target: Mask
    protocol: ProtocolName
    draws: Draws
    answers: initial.Answers


Work: TypeAlias = Callable[[Mask, ProtocolName, Given, Mapping[str, Any]], Effort]


def _points(target: Mask, protocol: ProtocolName, prompts: Given, options: Any) -> Effort:
    return Effort(points=len(prompts))


@dataclass(frozen=True, slots=True)
class Kind:
    """Common properties of prompters of one name.

    Attributes
    ----------
    label, count
        The paper's name, and the interactions that it prints, with options in their places;
        `twice` is 2 n.
    start
        Prompts from a context and the options, whose defaults are those of its arguments. Those
        that draw at random have an option `repeat`: another number, other draws.
    work
        Effort of a person but for scrolling.
    whole
        The prompts are for models that see the whole volume.
    """

    name: str
    summary: str
    label: str
    count: str
    start: Callable[..., Given]
    work: Work = _points
    gives: frozenset[str] = frozenset()
    whole: bool = False

    @property
    def defaults(self) -> dict[str, Any]:
        parameters = inspect.signature(self.start).parameters.values()
        return {p.name: p.default for p in parameters if p.default is not p.empty}


@dataclass(frozen=True, slots=True)
@capable(CountsEffort, GivesPrompts)
class Prompter:
    """Prompts in the first round and stops afterwards."""

    kind: Kind
    options: Mapping[str, Any] = field(hash=False)

    @property
    def name(self) -> str:
        defaults = self.kind.defaults
        shown = {k: v for k, v in self.options.items() if k == "n" or v != defaults[k]}
        return str(Spec(self.kind.name, shown))

    @property
    def label(self) -> str:
        shaken = self.options.get("shaken")
        return self.kind.label.format(**self.options) + (f" ±{shaken}" if shaken else "")

    @property
    def paper_interactions(self) -> str:
        return self.kind.count.format(**self.options, twice=2 * self.options.get("n", 1))

    @property
    def gives(self) -> frozenset[str]:
        return self.kind.gives

    @property
    def whole(self) -> bool:
        return self.kind.whole

    @property
    def random(self) -> bool:
        """Whether another `repeat` draws other prompts."""
        return "repeat" in self.options and self.options.get("shaken") != 0

    def again(self, repeat: int) -> Prompter:
        """The same prompter with other draws."""
        return replace(self, options={**self.options, "repeat": repeat})

    def start(self, context: PromptContext) -> Given:
        """The prompts of the first round."""
        return self.kind.start(context, **self.options)

    def advance(self, target: Mask, draws: Draws) -> None:
        """Draw what `start` draws, so that a shared stream stands where it would."""
        if self.random:
            empty = Mask.empty(target.shape)
            self.start(PromptContext(target, "published", draws, lambda sets: [empty] * len(sets)))

    def work(self, target: Mask, protocol: ProtocolName, prompts: Given) -> Effort:
        """Effort of a person: from the first slice of the target to the last but for one point."""
        made = self.kind.work(target, protocol, prompts, self.options)
        nearby = self.whole and made.points == 1
        return made + Effort(scrolled=0 if nearby else int(target.bits.shape[0]) - 1)

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        if observation.prompts:
            return None
        return tuple(self.start(context_of(observation, rng)))

    def effort(self, target: Target, protocol: ProtocolName, number: int, prompts: Given) -> Effort:
        return self.work(target.mask, protocol, prompts) if prompts else Effort()


def context_of(observation: Observation, rng: np.random.Generator) -> PromptContext:
    """The parts of an observation that a prompter sees; the same is asked of a model once."""
    encoded, protocol = observation.encoded, observation.protocol

    def answers(sets: Sequence[tuple[Prompt, ...]]) -> list[Mask]:
        unique = list(dict.fromkeys(sets))
        masks = render(encoded, encoded.predict([Request(prompts) for prompts in unique]))
        return [masks[unique.index(prompts)] for prompts in sets]

    return PromptContext(observation.target.mask, protocol, draws_of(protocol, rng), answers)


def _seeds_of_points(target: Mask, protocol: ProtocolName, prompts: Given, options: Any) -> Effort:
    return Effort(points=min(options["n"], len(foreground_slices(target))))


def _seeds_of_boxes(target: Mask, protocol: ProtocolName, prompts: Given, options: Any) -> Effort:
    return Effort(boxes=len(initial.box_seeds(target, options["n"], protocol)))


def _first_slice(target: Mask, protocol: ProtocolName, prompts: Given, options: Any) -> Effort:
    levels = [p.point[0] for p in prompts if isinstance(p, Click)]
    return Effort(points=levels.count(levels[0]), slices=2)


_BOX = frozenset({"box"})

KINDS = (
    Kind(
        "points-per-volume", "volumes: n random points in the whole", "{n}PPV", "{n}",
        lambda c, n=1, repeat=1: initial.points_per_volume(c.target, n, c.draws), whole=True,
    ),
    Kind(
        "centroid", "volumes: the mean voxel, even outside the object", "centroid", "1",
        lambda c: initial.centroid(c.target), whole=True,
    ),
    Kind(  # patch 0 takes the whole line, as for SegVol
        "centre-points-per-volume", "volumes: n points along the target's middle line",
        "{n} center PPV", "{n}",
        lambda c, n=1, patch=128, along="z": initial.centre_points_per_volume(
            c.target, n, c.protocol, patch=patch or None, along=along
        ), whole=True,
    ),
    Kind(
        "box-3d", "volumes: one box around the whole target", "3D Box", "3",
        lambda c: [initial.box_3d(c.target)],
        lambda *_: Effort(boxes_3d=1), _BOX, whole=True,
    ),
    Kind(
        "points-per-slice", "volumes: n random points in every slice", "{n}PPS", "{n}X",
        lambda c, n=1, repeat=1: initial.points_per_slice(c.target, n, c.draws),
    ),
    Kind(
        "alternating-points-per-slice",
        "volumes: n random points in every slice, half of them outside", "{n}±PPS", "{n}X",
        lambda c, n=2, repeat=1: initial.alternating_points_per_slice(c.target, n, c.draws),
    ),
    Kind(  # counted as printed, though it is one per slice
        "centre-point-per-slice", "volumes: the centre of every slice", "1 Center P", "1",
        lambda c, centre="mass": initial.centre_point_per_slice(c.target, centre),
    ),
    Kind(
        "box-per-slice", "volumes: a tight box in every slice", "Box PS", "2X",
        lambda c: initial.box_per_slice(c.target),
        lambda target, protocol, prompts, options: Effort(boxes=len(prompts)), _BOX,
    ),
    Kind(
        "boxes-from-3d-box", "volumes: one 3D box, cut into slices", "from 3D Box", "3",
        lambda c: initial.boxes_from_3d_box(c.target), lambda *_: Effort(boxes_3d=1), _BOX,
    ),
    Kind(
        "point-interpolation", "volumes: a point in n slices, a line through the others",
        "{n}P Inter", "{n}",
        lambda c, n=3, centre="box": initial.interpolated_points(c.target, n, c.protocol, centre),
        _seeds_of_points,
    ),
    Kind(
        "box-interpolation", "volumes: a box in n slices, interpolated over the others",
        "{n}B Inter", "{twice}",
        lambda c, n=3, shaken=0, repeat=1: initial.interpolated_boxes(
            c.target, n, c.protocol, shaken, c.draws
        ), _seeds_of_boxes, _BOX,
    ),
    Kind(
        "point-propagation",
        "volumes: five points in the middle slice, then the centre of each predicted mask",
        "5P Prop", "7",
        lambda c, centre="box", repeat=1: initial.point_propagation(
            c.target, c.answers, c.draws, c.protocol, centre
        ), _first_slice,
    ),
    Kind(
        "box-propagation",
        "volumes: a box in the middle slice, then the box of each predicted mask", "B Prop", "4",
        lambda c: initial.box_propagation(c.target, c.answers, c.protocol),
        lambda *_: Effort(boxes=1, slices=2), _BOX,
    ),
)  # fmt: skip


def register(
    name: str, summary: str, make: Callable[..., Any], defaults: Mapping[str, Any]
) -> None:
    """Register a user whose options are those named, with their defaults."""
    named = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d)
             for n, d in defaults.items()]  # fmt: skip
    make.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    catalogue.users.add(name, summary=summary)(make)


def _made(kind: Kind) -> Callable[..., Prompter]:
    return lambda **options: Prompter(kind, _checked(kind.defaults | options))


for _kind in KINDS:
    register(_kind.name, _kind.summary, _made(_kind), _kind.defaults)


def _checked(options: Mapping[str, Any]) -> Mapping[str, Any]:
    counts = {"n": (1, "gives n = 1 or more prompts"),
              "shaken": (0, "shakes boxes by 0 or more pixels")}  # fmt: skip
    for name, (least, what) in counts.items():
        value = options.get(name, least)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BadInput(f"a prompter {what}, not {value!r}")
    if options.get("centre", "box") not in ("box", "mass", "edt"):
        raise BadInput(
            f"a centre is that of the box, the mass or the edt, not '{options['centre']}'"
        )
    if options.get("along", "z") not in ("z", "x"):
        raise BadInput(f"centre points are ordered along z or x, not '{options['along']}'")
    return options
