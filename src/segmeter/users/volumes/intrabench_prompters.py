"""Users with IntRaBench's names: those who prompt a volume once, and those who then correct it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np

from segmeter.core import catalogue
from segmeter.core.action_counts import Effort
from segmeter.core.capabilities import CountsEffort, ForgetsPrompts, GivesPrompts, capable
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, check_choice
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName, Request, render
from segmeter.core.prompts import Click, Prompt, Prompts, Scribble
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.measures.objects import dice
from segmeter.users.volumes import initial_prompts as initial
from segmeter.users.volumes import refinement_prompts as refining
from segmeter.users.volumes.initial_prompts import Draws, draws_of, foreground_slices
from segmeter.users.volumes.refinement_prompts import Correction, near

Given: TypeAlias = Sequence[Prompt]
Work: TypeAlias = Callable[[Mask, ProtocolName, Given, int], Effort]
_SEEN = ("target", "protocol", "draws", "answers")
_BOX = frozenset({"box"})


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
    # Effort of a person but for scrolling.
    work: Work = lambda _, __, prompts, ___: Effort(points=len(prompts))
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
        return replace(self, options={**self.options, "repeat": repeat})

    def start(self, **seen: Any) -> Given:
        named = inspect.signature(self.kind.start).parameters
        given = {name: v for name, v in {**seen, **self.options}.items() if name in named}
        return self.kind.start(**given)

    def advance(self, target: Mask, draws: Draws) -> None:
        """Draw as `start` does, so that a shared random stream is in the same state."""
        if self.random:
            empty = Mask.empty(target.shape)
            seen = {"target": target, "protocol": "published", "draws": draws}
            self.start(**seen, answers=lambda sets: [empty] * len(sets))

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        """The prompts of the first round; equal ones are predicted once."""
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


def _register(
    name: str, summary: str, make: Callable[..., Any], defaults: Mapping[str, Any]
) -> None:
    """Register a user whose options are those named, with their defaults."""
    named = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d)
             for n, d in defaults.items()]  # fmt: skip
    make.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    catalogue.users.add(name, summary=summary)(make)


def _made(kind: Kind, **given: Any) -> Prompter:
    options = kind.defaults | given
    counts = {"n": (1, "gives n = 1 or more prompts"),
              "shaken": (0, "shakes boxes by 0 or more pixels")}  # fmt: skip
    for name, (least, what) in counts.items():
        value = options.get(name, least)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BadInput(f"a prompter {what}, not {value!r}")
    check_choice("centre", options.get("centre", "box"), ("box", "mass", "edt"))
    check_choice("along", options.get("along", "z"), ("z", "x"))
    return Prompter(kind, options)


for _kind in KINDS:
    _register(_kind.name, _kind.summary, partial(_made, _kind), _kind.defaults)


@dataclass(frozen=True, slots=True)
class Refinement:
    """A way to correct a mask.

    `found` gives the correction from target, mask, draws and protocol, None when nothing is
    wrong; `start` and `n` are defaults, `per_step` and `label` the paper's words; `whole`: for
    models that see the whole volume.
    """

    name: str
    summary: str
    found: Callable[[Mask, Mask, Draws, ProtocolName], Correction | None]
    start: str
    n: int = 1
    per_step: str = "3"
    label: str = "Scribble Refine"
    whole: bool = False


@dataclass(frozen=True, slots=True)
@capable(CountsEffort, ForgetsPrompts, GivesPrompts)
class Refiner:
    """Prompts like another user first, then corrects the mask round by round.

    `earlier` decides whether the model gets all prompts so far again (`keep`, the paper's
    WithPrev) or only the new ones and its own state (`forget`, NoPrev). Stops when the
    mask is right, when its Dice reaches `until_dice`, or when the prompts so far have fixed
    `until_dof` degrees of freedom; 0 sets no such bound. `drawn` sets whether the model gets a
    scribble as single points, as in the original, or as a stroke, which few models take.
    """

    kind: Refinement
    start: str
    n: int
    earlier: Literal["keep", "forget"] = "keep"
    until_dice: float = 0.0
    until_dof: int = 0
    repeat: int = 1
    drawn: Literal["points", "stroke"] = "points"

    def __post_init__(self) -> None:
        check_choice("earlier", self.earlier, ("keep", "forget"))
        check_choice("drawn", self.drawn, ("points", "stroke"))
        self.first  # noqa: B018  # refuses a start that is none

    @property
    def whole(self) -> bool:
        return self.kind.whole

    @property
    def first(self) -> Prompter:
        spec = Spec.parse(self.start)
        count = {"n": self.n} if self.n else {}
        made = catalogue.users.make(Spec(spec.name, {**count, **spec.options}))
        if not isinstance(made, Prompter):
            raise BadInput(f"a refinement starts with a prompter of volumes, not '{self.start}'")
        return made

    @property
    def name(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "kind"}
        usual = {"n": 0, "until_dice": 0, "until_dof": 0, "repeat": 1, "drawn": "points"}
        return str(Spec(self.kind.name, {k: v for k, v in given.items() if v != usual.get(k)}))

    @property
    def label(self) -> str:
        return f"{self.first.label} + {self.kind.label}{'*' if self.earlier == 'keep' else ''}"

    @property
    def paper_interactions(self) -> str:
        return f"{self.first.paper_interactions}/{self.kind.per_step}"

    @property
    def gives(self) -> frozenset[str]:
        return self.first.gives | ({"scribble"} if self.drawn == "stroke" else frozenset())

    @property
    def forgets_prompts(self) -> bool:
        return self.earlier == "forget"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        if not observation.prompts:
            return self.first.next(observation, rng)
        if self._bounded(observation):
            return None
        draws = draws_of(observation.protocol, rng)
        if observation.protocol == "published" and self.kind.per_step == "3":
            # The original's single stream, past the start and earlier corrections.
            self.first.advance(observation.target.mask, draws)
            for made in observation.rounds[:-1]:
                self.found(observation, made.mask, draws)
        found = self.found(observation, observation.mask, draws)
        if found is not None and found.stroke is not None and self.drawn == "stroke":
            return (found.stroke,)
        return () if found is None else found.clicks

    def found(self, observation: Observation, prediction: Mask, draws: Draws) -> Correction | None:
        """The correction of a mask; in published only of the patch around the first point."""
        target, first = observation.target.mask, observation.prompts[0]
        if self.whole and observation.protocol == "published" and isinstance(first, Click):
            target, prediction = near(target, first.point), near(prediction, first.point)
        return self.kind.found(target, prediction, draws, observation.protocol)

    def effort(
        self, target: Target, protocol: ProtocolName, number: int, prompts: Sequence[Prompt]
    ) -> Effort:
        if not prompts or number == 1:
            return self.first.effort(target, protocol, number, prompts)
        strokes = [p.points for p in prompts if isinstance(p, Scribble)]
        points = [p.point for p in prompts if isinstance(p, Click)] + list(chain(*strokes))
        levels = [int(point[0]) for point in points]
        scrolled = max(levels) - min(levels)
        if self.kind.per_step == "3":
            return Effort(scribbles=1, stroke_px=float(len(points)), scrolled=scrolled)
        return Effort(points=len(prompts), scrolled=scrolled)

    def _bounded(self, observation: Observation) -> bool:
        target, protocol = observation.target, observation.protocol
        if self.until_dice and dice(target.mask, observation.mask) >= self.until_dice:
            return True
        made = [self.effort(target, protocol, r.number, r.prompts) for r in observation.rounds]
        return bool(self.until_dof) and sum(e.degrees_of_freedom for e in made) >= self.until_dof


REFINEMENTS = (
    Refinement(
        "point-per-slice-refinement",
        "volumes: points in every slice, then one on an error of each",
        lambda *seen: Correction.of(refining.point_per_wrong_slice(*seen[:3])),
        "points-per-slice", per_step="1X", label="1PPS Refine",
    ),
    Refinement(
        "scribble-refinement",
        "volumes: prompts in slices, then a scribble over the larger kind of error",
        refining.scribble_correction, "points-per-slice", n=0,
    ),
    Refinement(
        "point-per-volume-refinement",
        "volumes: points for the whole, then one on an error in each round",
        lambda *seen: Correction.of(refining.point_per_wrong_volume(*seen)),
        "points-per-volume", per_step="1", label="1 PPV Refine", whole=True,
    ),
    Refinement(
        "scribble-per-volume-refinement",
        "volumes: points for the whole, then points of a scribble in each round",
        refining.scribble_correction_3d, "centre-points-per-volume", whole=True,
    ),
)  # fmt: skip


for _refinement in REFINEMENTS:
    _left = {"kind"} if _refinement.found is refining.scribble_correction else {"kind", "drawn"}
    _own: dict[str, Any] = {f.name: f.default for f in fields(Refiner) if f.name not in _left}
    _own |= {"start": _refinement.start, "n": _refinement.n}
    _register(_refinement.name, _refinement.summary, partial(Refiner, _refinement, **_own), _own)
