"""Users who correct a volume over several rounds: IntRaBench's refinements, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from typing import Any, Literal

import numpy as np

from segmeter.core import catalogue
from segmeter.core.action_counts import Effort
from segmeter.core.capabilities import CountsEffort, ForgetsPrompts, GivesPrompts, capable
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Click, Prompt, Prompts, Scribble
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.measures.objects import dice
from segmeter.users.volumes.intrabench_prompters import Prompter, register
from segmeter.users.volumes.refinement_prompts import (
    Correction,
    near,
    point_per_wrong_slice,
    point_per_wrong_volume,
    scribble_correction,
    scribble_correction_3d,
)
from segmeter.users.volumes.slices import Draws, draws_of


@dataclass(frozen=True, slots=True)
class Kind:
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
    `until_dof` degrees of freedom; 0 sets no such bound. `drawn` tells whether the model gets a
    scribble as single points, as in the original, or as a stroke, which few models take.
    """

    kind: Kind
    start: str
    n: int
    earlier: Literal["keep", "forget"] = "keep"
    until_dice: float = 0.0
    until_dof: int = 0
    repeat: int = 1
    drawn: Literal["points", "stroke"] = "points"

    def __post_init__(self) -> None:
        if self.earlier not in ("keep", "forget"):
            raise BadInput(f"earlier prompts are kept or forgotten, not '{self.earlier}'")
        if self.drawn not in ("points", "stroke"):
            raise BadInput(f"a scribble is drawn as points or as a stroke, not '{self.drawn}'")
        self.first  # noqa: B018  # refuses a start that is none

    @property
    def whole(self) -> bool:
        return self.kind.whole

    @property
    def first(self) -> Prompter:
        """The user who prompts in the first round."""
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
        found = self.found(observation, observation.mask, self._draws(observation, rng))
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

    def _draws(self, observation: Observation, rng: np.random.Generator) -> Draws:
        """In published the original's single stream, past the start and earlier corrections."""
        draws = draws_of(observation.protocol, rng)
        if observation.protocol == "published" and self.kind.per_step == "3":
            self.first.advance(observation.target.mask, draws)
            for made in observation.rounds[:-1]:
                self.found(observation, made.mask, draws)
        return draws


KINDS = (
    Kind(
        "point-per-slice-refinement",
        "volumes: points in every slice, then one on an error of each",
        lambda target, mask, draws, _: Correction.of(point_per_wrong_slice(target, mask, draws)),
        "points-per-slice", per_step="1X", label="1PPS Refine",
    ),
    Kind(
        "scribble-refinement",
        "volumes: prompts in slices, then a scribble over the larger kind of error",
        scribble_correction, "points-per-slice", n=0,
    ),
    Kind(
        "point-per-volume-refinement",
        "volumes: points for the whole, then one on an error in each round",
        lambda *seen: Correction.of(point_per_wrong_volume(*seen)),
        "points-per-volume", per_step="1", label="1 PPV Refine", whole=True,
    ),
    Kind(
        "scribble-per-volume-refinement",
        "volumes: points for the whole, then points of a scribble in each round",
        scribble_correction_3d, "centre-points-per-volume", whole=True,
    ),
)  # fmt: skip


def _defaults(kind: Kind) -> dict[str, Any]:
    strokes = kind.found is scribble_correction
    left = {"kind"} if strokes else {"kind", "drawn"}
    own = {f.name: f.default for f in fields(Refiner) if f.name not in left}
    return {**own, "start": kind.start, "n": kind.n}


for _kind in KINDS:
    _own = _defaults(_kind)
    register(_kind.name, _kind.summary, partial(Refiner, _kind, **_own), _own)
