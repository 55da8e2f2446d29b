"""Users who prompt a volume once, with IntRaBench's names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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
Work: TypeAlias = Callable[[Mask, ProtocolName, Given, int], Effort]
_SEEN = ("target", "protocol", "draws", "answers")


def _points(target: Mask, protocol: ProtocolName, prompts: Given, n: int) -> Effort:
    return Effort(points=len(prompts))


@dataclass(frozen=True, slots=True)
class Kind:
    """Common properties of prompters of one name.

    `start` gives the prompts. It takes what it names of target, protocol, draws and the model's
    answers; its other arguments are options. If it draws, so is `repeat`: another number, other
    draws.
    """

    name: str
    summary: str
    label: str  # the paper's name, with options in their places
    count: str  # of interactions, as the paper prints it; `twice` is 2 n
    start: Callable[..., Given]
    work: Work = _points  # effort of a person but for scrolling
    gives: frozenset[str] = frozenset()
    n: int = 1  # the default of the option of this name
    whole: bool = False  # the prompts are for models that see the whole volume

    @property
    def defaults(self) -> dict[str, Any]:
        arguments = inspect.signature(self.start).parameters
        found = {name: a.default for name, a in arguments.items() if name not in _SEEN}
        if "n" in found:
            found["n"] = self.n
        return found | ({"repeat": 1} if "draws" in arguments else {})


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

    def start(self, **seen: Any) -> Given:
        """The prompts of the first round, for target, protocol, draws and answers."""
        named = inspect.signature(self.kind.start).parameters
        given = {name: v for name, v in {**seen, **self.options}.items() if name in named}
        return self.kind.start(**given)

    def advance(self, target: Mask, draws: Draws) -> None:
        """Draw what `start` draws, so that a shared stream stands where it would."""
        if self.random:
            empty = Mask.empty(target.shape)
            self.start(
                target=target,
                protocol="published",
                draws=draws,
                answers=lambda sets: [empty] * len(sets),
            )

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        """The prompts of the first round; the same is asked of a model once."""
        if observation.prompts:
            return None
        encoded, protocol = observation.encoded, observation.protocol

        def answers(sets: Sequence[tuple[Prompt, ...]]) -> list[Mask]:
            unique = list(dict.fromkeys(sets))
            masks = render(encoded, encoded.predict([Request(prompts) for prompts in unique]))
            return [masks[unique.index(prompts)] for prompts in sets]

        target, draws = observation.target.mask, draws_of(protocol, rng)
        return tuple(self.start(target=target, protocol=protocol, draws=draws, answers=answers))

    def effort(self, target: Target, protocol: ProtocolName, number: int, prompts: Given) -> Effort:
        """Effort of a person: from the first slice of the target to the last but for one point."""
        if not prompts:
            return Effort()
        made = self.kind.work(target.mask, protocol, prompts, self.options.get("n", 1))
        nearby = self.whole and made.points == 1
        return made + Effort(scrolled=0 if nearby else int(target.mask.bits.shape[0]) - 1)


def _first_slice(target: Mask, protocol: ProtocolName, prompts: Given, n: int) -> Effort:
    levels = [p.point[0] for p in prompts if isinstance(p, Click)]
    return Effort(points=levels.count(levels[0]), slices=2)


_BOX = frozenset({"box"})

KINDS = (
    Kind("points-per-volume", "volumes: n random points in the whole", "{n}PPV", "{n}",
         initial.points_per_volume, whole=True),
    Kind("centroid", "volumes: the mean voxel, even outside the object", "centroid", "1",
         initial.centroid, whole=True),
    Kind("centre-points-per-volume", "volumes: n points along the target's middle line",
         "{n} center PPV", "{n}", initial.centre_points_per_volume, whole=True),
    Kind("box-3d", "volumes: one box around the whole target", "3D Box", "3",
         lambda target: [initial.box_3d(target)], lambda *_: Effort(boxes_3d=1), _BOX, whole=True),
    Kind("points-per-slice", "volumes: n random points in every slice", "{n}PPS", "{n}X",
         initial.points_per_slice),
    Kind("alternating-points-per-slice",
         "volumes: n random points in every slice, half of them outside", "{n}±PPS", "{n}X",
         initial.alternating_points_per_slice, n=2),
    # Counted as printed, though it is one per slice.
    Kind("centre-point-per-slice", "volumes: the centre of every slice", "1 Center P", "1",
         initial.centre_point_per_slice),
    Kind("box-per-slice", "volumes: a tight box in every slice", "Box PS", "2X",
         initial.box_per_slice, lambda _, __, prompts, ___: Effort(boxes=len(prompts)), _BOX),
    Kind("boxes-from-3d-box", "volumes: one 3D box, cut into slices", "from 3D Box", "3",
         initial.boxes_from_3d_box, lambda *_: Effort(boxes_3d=1), _BOX),
    Kind("point-interpolation", "volumes: a point in n slices, a line through the others",
         "{n}P Inter", "{n}", initial.interpolated_points,
         lambda target, _, __, n: Effort(points=min(n, len(foreground_slices(target)))), n=3),
    Kind("box-interpolation", "volumes: a box in n slices, interpolated over the others",
         "{n}B Inter", "{twice}", initial.interpolated_boxes,
         lambda target, protocol, _, n: Effort(boxes=len(initial.box_seeds(target, n, protocol))),
         _BOX, n=3),
    Kind("point-propagation",
         "volumes: five points in the middle slice, then the centre of each predicted mask",
         "5P Prop", "7", initial.point_propagation, _first_slice),
    Kind("box-propagation",
         "volumes: a box in the middle slice, then the box of each predicted mask", "B Prop", "4",
         initial.box_propagation, lambda *_: Effort(boxes=1, slices=2), _BOX),
)  # fmt: skip


def register(
    name: str, summary: str, make: Callable[..., Any], defaults: Mapping[str, Any]
) -> None:
    """Register a user whose options are those named, with their defaults."""
    named = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d)
             for n, d in defaults.items()]  # fmt: skip
    make.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    catalogue.users.add(name, summary=summary)(make)


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


def _made(kind: Kind, **options: Any) -> Prompter:
    return Prompter(kind, _checked(kind.defaults | options))


for _kind in KINDS:
    register(_kind.name, _kind.summary, partial(_made, _kind), _kind.defaults)
