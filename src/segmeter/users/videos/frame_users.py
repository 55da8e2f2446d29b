"""Users of videos: they choose a frame, prompt in it, and watch what becomes of the others.

A round is one prompted frame. `next` is called until it returns None: a click is placed after
the model's mask of the frame has followed the click before. Then the tracker continues: over the
whole video, or forward only where `forward_only` is set.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from segmeter.core import catalogue
from segmeter.core.capabilities import GivesPrompts, capable
from segmeter.core.error_regions import deepest_sides
from segmeter.core.errors import BadInput, NotFound, check_choice
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Prompts, Scribble
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.core.videos import FrameMasks, at_frame, by_frame
from segmeter.users.videos.robot_strokes import KERNEL, robot_strokes

__all__ = ["VideoObservation", "label_strokes"]

Strokes = dict[int, list[Any]]
"""Strokes `(y, x)` by label."""


@dataclass(frozen=True, slots=True)
class VideoObservation(Observation):
    """The view of a user of a video: prompts `given` in this round, frames `prompted` earlier.

    `quality` is J of each of the judged `frames`, or the mean J&F of all objects for robots.
    """

    given: tuple[Prompt, ...] = ()
    prompted: tuple[int, ...] = ()
    frames: tuple[int, ...] = ()
    quality: tuple[float, ...] = ()

    @property
    def first(self) -> int:
        """The first frame the object appears in."""
        masks = self.target.mask
        assert isinstance(masks, FrameMasks)
        return masks.present[0]


def frame_click(observation: VideoObservation, t: int) -> Click | None:
    """A click `(t, y, x)` on the centre of the larger error of a frame; None without an error."""
    clicked = [
        tuple(map(round, p.point))
        for p in by_frame(observation.prompts).get(t, ())
        if isinstance(p, Click)
    ]
    target = Target(observation.target.id, observation.target.mask.slice(t))
    ((missed, added),) = deepest_sides([(target, observation.mask.slice(t), clicked)])
    found = missed if missed.squared > added.squared else added
    return None if found.point is None else Click((t, *found.point), found is missed)


class _Clicks:
    """Gives so many clicks in the frame that `frame` chooses."""

    __slots__ = ()
    clicks: int

    def frame(self, observation: VideoObservation) -> int | None:
        """The frame of this round; None to stop."""
        raise NotImplementedError

    def next(self, observation: VideoObservation, rng: np.random.Generator) -> Prompts:
        given = observation.given
        if len(given) >= self.clicks:
            return None
        chosen = next(iter(by_frame(given))) if given else self.frame(observation)
        return None if chosen is None else frame_click(observation, chosen)


@catalogue.users.add("worst-frame", summary="video, offline: clicks in the frame of lowest IoU")
@dataclass(frozen=True, slots=True)
class WorstFrame(_Clicks):
    """Watches the whole video each time, then clicks in the worst frame (SAM 2, offline)."""

    mode: ClassVar[str] = "offline"
    forward_only: ClassVar[bool] = False
    clicks: int = 3
    name: str = "worst-frame"

    def frame(self, observation: VideoObservation) -> int | None:
        if not observation.prompted:
            return observation.first
        worst = int(np.argmin(observation.quality))
        return observation.frames[worst] if observation.quality[worst] < 1 else None


@catalogue.users.add("first-bad-frame", summary="video, online: pauses at the first bad frame")
@dataclass(frozen=True, slots=True)
class FirstBadFrame(_Clicks):
    """Watches once, pauses at the first frame with an IoU below `below` (SAM 2, online)."""

    mode: ClassVar[str] = "online"
    forward_only: ClassVar[bool] = True
    clicks: int = 3
    below: float = 0.75
    name: str = "first-bad-frame"

    def frame(self, observation: VideoObservation) -> int | None:
        if not observation.prompted:
            return observation.first
        last = observation.prompted[-1]
        pairs = zip(observation.frames, observation.quality, strict=True)
        return next((t for t, iou in pairs if t > last and iou < self.below), None)


@catalogue.users.add("first-frame", summary="video, semi-supervised: prompts the first frame")
@dataclass(frozen=True, slots=True)
@capable(GivesPrompts)
class FirstFrame(_Clicks):
    """Prompts the first frame that has the object, with a mask, a box or so many clicks."""

    mode: ClassVar[str] = "semi"
    forward_only: ClassVar[bool] = True
    prompt: Literal["mask", "box", "click"] = "click"
    clicks: int = 3
    name: str = field(default="", init=False)

    def __post_init__(self) -> None:
        check_choice("prompt", self.prompt, ["mask", "box", "click"])
        how = f"clicks={self.clicks}" if self.prompt == "click" else f"prompt={self.prompt}"
        object.__setattr__(self, "name", f"first-frame?{how}")

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({self.prompt})

    def frame(self, observation: VideoObservation) -> int | None:
        return None if observation.prompted else observation.first

    def next(self, observation: VideoObservation, rng: np.random.Generator) -> Prompts:
        if self.prompt == "click":
            return _Clicks.next(self, observation, rng)
        if observation.given or observation.prompted:
            return None
        mask = observation.target.mask.slice(observation.first)
        box = Box(mask.low, tuple(n - 1 for n in mask.high))
        return at_frame(observation.first, MaskHint(mask) if self.prompt == "mask" else box)


@catalogue.users.add("scribble-robot", summary="video, DAVIS interactive: the scribble robot")
@dataclass(frozen=True, slots=True)
@capable(GivesPrompts)
class ScribbleRobot:
    """Draws along the middle of what every label misses, in the worst frame not used yet."""

    mode: ClassVar[str] = "davis"
    forward_only: ClassVar[bool] = False
    gives: ClassVar[frozenset[str]] = frozenset({"scribble"})
    kernel: float = KERNEL
    name: str = "scribble-robot"

    def frame(self, observation: VideoObservation) -> int | None:
        """The frame with the largest object first, then the worst that was not used.

        `published` may return to the first frame, which the DAVIS package never marks as used.
        """
        if not observation.prompted:
            return max(observation.frames, key=lambda t: observation.target.mask.slice(t).area)
        used = observation.prompted[1 if observation.protocol == "published" else 0 :]
        pairs = zip(observation.quality, observation.frames, strict=True)
        return min(((q, t) for q, t in pairs if t not in used), default=(0.0, None))[1]

    def next(self, observation: VideoObservation, rng: np.random.Generator) -> Prompts:
        """Strokes for the one object of an observation."""
        t = None if observation.given else self.frame(observation)
        if t is None:
            return None
        both = (observation.target.mask, observation.mask)
        truth, shown = (masks.slice(t).dense().astype(int) for masks in both)
        strokes = label_strokes(truth, shown, self.kernel)
        return [
            at_frame(t, Scribble(s, label > 0)) for label, some in strokes.items() for s in some
        ]

    def recorded(self, scene: str, shape: Sequence[int]) -> dict[int, Strokes]:
        """Strokes of a person by frame, for the first round; a robot has none."""
        return {}


@catalogue.users.add("replayed-scribbles", summary="video: a person's first scribble, then robots")
@dataclass(frozen=True, slots=True)
class ReplayedScribbles(ScribbleRobot):
    """A person's scribbles in the first round, from a DAVIS JSON file, then the robot's.

    `path` is the JSON file, or a folder of `SEQUENCE.json`: `scribbles` is a list over frames of
    `{"path": [[x, y], ...], "object_id": 1}` with coordinates from 0 to 1.
    """

    path: str = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"replayed-scribbles?path={self.path}")

    def recorded(self, scene: str, shape: Sequence[int]) -> dict[int, Strokes]:
        place = Path(self.path)
        file = place / f"{scene}.json" if place.is_dir() else place
        if place.is_dir() and not file.is_file():
            return {}
        return recorded_strokes(file, shape)


def recorded_strokes(file: Path, shape: Sequence[int]) -> dict[int, Strokes]:
    """A person's strokes `(y, x)` by frame and label from a JSON file of DAVIS."""
    if not file.is_file():
        raise NotFound(f"no scribbles at '{file}'")
    found: dict[int, Strokes] = {}
    size = np.array(shape[1:])
    try:
        for t, strokes in enumerate(json.loads(file.read_bytes())["scribbles"]):
            for one in strokes:
                path = np.asarray(one["path"], dtype=float).reshape(-1, 2)
                if t >= shape[0] or not len(path) or not ((path >= 0) & (path <= 1)).all():
                    raise ValueError("a stroke leaves the video")
                points = np.minimum(path[:, ::-1] * size, size - 1)
                label = int(one["object_id"])
                found.setdefault(t, {}).setdefault(label, []).append(tuple(map(tuple, points)))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, OSError) as error:
        raise BadInput(f"'{file}' holds no scribbles of DAVIS for this video: {error}") from error
    return found


def label_strokes(ground_truth: Any, prediction: Any, kernel: float = KERNEL) -> Strokes:
    """The robot's strokes of every label, background (0) included, in two label maps.

    >>> truth = np.zeros((9, 60), int); truth[:, :40] = 1
    >>> {label: len(some) for label, some in label_strokes(truth, 0 * truth).items()}
    {1: 1}
    """
    found, most = {}, np.array(ground_truth.shape) - 1
    for label in np.union1d(np.unique(ground_truth), 0).tolist():
        strokes = robot_strokes((ground_truth == label) & (prediction != label), kernel)
        if strokes:
            found[label] = [tuple(map(tuple, np.clip(s, 0, most).tolist())) for s in strokes]
    return found
