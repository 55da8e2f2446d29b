"""Users of videos: they choose a frame, prompt in it, and watch what becomes of the others.

A round is one prompted frame. `next` is called until it returns None: a click is placed after
the model's mask of the frame has followed the click before. Then the tracker continues: over the
whole video, or forward only in the modes `semi` and `online`.

The scribble robot follows the rules of the package davisinteractive 1.0.4 (its code is not used):
open the error region with a disc, take the medial axis, and draw a Bezier curve along the longest
path of each piece. Ties of the medial axis are broken in the fixed order of earlier versions of
scikit-image; current ones break them at random.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import GivesPrompts, capable
from segmeter.core.error_regions import deepest_sides
from segmeter.core.errors import check_choice
from segmeter.core.masks import Bits, Mask
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Prompts, Scribble
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.core.videos import FrameMasks, at_frame, by_frame, label_map
from segmeter.datasets.image_files import named_errors

KERNEL = 0.2
_LARGEST_RADIUS = 16.0
_FEWEST_NODES = 4
_SAMPLES = 1000
_MARGIN = 40  # more than a disc: what is beyond the frame erodes nothing
Points = npt.NDArray[np.float64]
Stroke = tuple[tuple[float, ...], ...]
Strokes = dict[int, list[Stroke]]
"""Strokes, points `(y, x)`, by label."""


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
        return cast("FrameMasks", self.target.mask).present[0]


class _Clicks:
    """Gives so many clicks in the first frame with the object, then in those that `later` names."""

    __slots__ = ()
    clicks: int

    def later(self, observation: VideoObservation) -> int | None:
        return None

    def next(self, observation: VideoObservation, rng: np.random.Generator) -> Prompts:
        """A click on the centre of the larger error of the frame; None without an error."""
        given, target = observation.given, observation.target
        t = self.later(observation) if observation.prompted else observation.first
        t = next(iter(by_frame(given)), t)
        if t is None or len(given) >= self.clicks:
            return None
        earlier = by_frame(observation.prompts).get(t, ())
        clicked = [p.pixel for p in earlier if isinstance(p, Click)]
        flat = Target(target.id, target.mask.slice(t))
        ((missed, added),) = deepest_sides([(flat, observation.mask.slice(t), clicked)])
        found = missed if missed.squared > added.squared else added
        return None if found.point is None else Click((t, *found.point), found is missed)


@catalogue.users.add("worst-frame", "video, offline: clicks in the frame of lowest IoU")
@dataclass(frozen=True, slots=True)
class WorstFrame(_Clicks):
    """Watches the whole video each time, then clicks in the worst frame (SAM 2, offline)."""

    mode: ClassVar[str] = "offline"
    clicks: int = 3
    name: str = "worst-frame"

    def later(self, observation: VideoObservation) -> int | None:
        worst = int(np.argmin(observation.quality))
        return observation.frames[worst] if observation.quality[worst] < 1 else None


@catalogue.users.add("first-bad-frame", "video, online: pauses at the first bad frame")
@dataclass(frozen=True, slots=True)
class FirstBadFrame(_Clicks):
    """Watches once, pauses at the first frame with an IoU below `below` (SAM 2, online)."""

    mode: ClassVar[str] = "online"
    clicks: int = 3
    below: float = 0.75
    name: str = "first-bad-frame"

    def later(self, observation: VideoObservation) -> int | None:
        pairs = zip(observation.frames, observation.quality, strict=True)
        last = observation.prompted[-1]
        return next((t for t, iou in pairs if t > last and iou < self.below), None)


@catalogue.users.add("first-frame", "video, semi-supervised: prompts the first frame")
@dataclass(frozen=True, slots=True)
@capable(GivesPrompts)
class FirstFrame(_Clicks):
    """Prompts the first frame that has the object, with a mask, a box or so many clicks."""

    mode: ClassVar[str] = "semi"
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

    def next(self, observation: VideoObservation, rng: np.random.Generator) -> Prompts:
        if self.prompt == "click":
            return _Clicks.next(self, observation, rng)
        if observation.given or observation.prompted:
            return None
        mask = observation.target.mask.slice(observation.first)
        prompt = MaskHint(mask) if self.prompt == "mask" else Box.around(mask)
        return at_frame(observation.first, prompt)


@catalogue.users.add("scribble-robot", "video, DAVIS interactive: the scribble robot")
@dataclass(frozen=True, slots=True)
@capable(GivesPrompts)
class ScribbleRobot:
    """Draws along the middle of what every label misses, in the worst frame not used yet."""

    mode: ClassVar[str] = "davis"
    gives: ClassVar[frozenset[str]] = frozenset({"scribble"})
    kernel: float = KERNEL
    name: str = "scribble-robot"

    def draw(
        self, observation: VideoObservation, truths: Sequence[Mask], shown: Sequence[Mask]
    ) -> tuple[int, Strokes] | None:
        """A frame, and strokes for every label in it: the objects are 1, 2, ...

        The frame with the largest object first, then the worst that was not used. `published` may
        return to the first frame, which the DAVIS package never marks as used.
        """
        frames, prompted = observation.frames, observation.prompted
        if not prompted:
            t = max(frames, key=lambda t: max(mask.slice(t).area for mask in truths))
        else:
            used = prompted[1 if observation.protocol == "published" else 0 :]
            pairs = zip(observation.quality, frames, strict=True)
            if not (left := [(q, t) for q, t in pairs if t not in used]):
                return None
            t = min(left)[1]
        return t, label_strokes(label_map(truths, t), label_map(shown, t), self.kernel)

    def next(self, observation: VideoObservation, rng: np.random.Generator) -> Prompts:
        masks = ([observation.target.mask], [observation.mask])
        drawn = None if observation.given else self.draw(observation, *masks)
        if drawn is None:
            return None
        t, strokes = drawn
        pairs = [(label > 0, stroke) for label, some in strokes.items() for stroke in some]
        return [at_frame(t, Scribble(stroke, positive)) for positive, stroke in pairs]


@catalogue.users.add("replayed-scribbles", "video: a recorded first scribble, then the robot")
@dataclass(frozen=True, slots=True)
class ReplayedScribbles(ScribbleRobot):
    """A person's scribbles in the first round, from a DAVIS JSON file, then the robot's.

    `path` is the JSON file, or a folder of `SEQUENCE.json`: `scribbles` is a list over frames of
    `{"path": [[x, y], ...], "object_id": 1}` with coordinates from 0 to 1.
    """

    path: str = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"replayed-scribbles?path={self.path}")

    def draw(
        self, observation: VideoObservation, truths: Sequence[Mask], shown: Sequence[Mask]
    ) -> tuple[int, Strokes] | None:
        if not observation.prompted:
            place, scene = Path(self.path), observation.scene
            file = place / f"{scene.id}.json" if place.is_dir() else place
            if file.is_file() or file == place:
                for found in recorded_strokes(file, scene.shape).items():
                    return found
        return ScribbleRobot.draw(self, observation, truths, shown)


def recorded_strokes(file: Path, shape: Sequence[int]) -> dict[int, Strokes]:
    """A person's strokes `(y, x)` by frame and label from a JSON file of DAVIS."""
    found: dict[int, Strokes] = {}
    size = np.array(shape[1:])
    with named_errors(file, "holds no scribbles of DAVIS for this video"):
        for t, strokes in enumerate(json.loads(file.read_bytes())["scribbles"]):
            for one in strokes:
                path = np.asarray(one["path"], dtype=float).reshape(-1, 2)
                if t >= shape[0] or not len(path) or not ((path >= 0) & (path <= 1)).all():
                    raise ValueError("a stroke leaves the video")
                points = np.minimum(path[:, ::-1] * size, size - 1)
                stroke, label = _thinned(points), int(one["object_id"])
                found.setdefault(t, {}).setdefault(label, []).append(stroke)
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
        found[label] = [_thinned(np.clip(stroke, 0, most)) for stroke in strokes]
    return {label: strokes for label, strokes in found.items() if strokes}


def _thinned(stroke: Points) -> Stroke:
    """A stroke of at most about 100 points, to a hundredth of a pixel."""
    kept = [*stroke[:: max(1, len(stroke) // 100)].tolist(), stroke[-1].tolist()]
    return tuple((round(y, 2), round(x, 2)) for y, x in kept)


def robot_strokes(error: Bits, kernel: float = KERNEL) -> list[Points]:
    """Strokes through an error region, each 1000 points `(y, x)` in pixels.

    >>> strokes = robot_strokes(np.ones((9, 60), bool))
    >>> len(strokes), strokes[0].shape
    (1, (1000, 2))
    """
    if not (mask := Mask.of(error)):
        return []
    low = np.maximum(np.subtract(mask.low, _MARGIN), 0)
    box = error[low[0] : mask.high[0] + _MARGIN, low[1] : mask.high[1] + _MARGIN]
    pixels = np.argwhere(_skeleton(box, kernel))
    return [_bezier(pixels[path][::-1] + low) for path in _paths(pixels)]


def _skeleton(error: Bits, kernel: float) -> Bits:
    """The medial axis of the region, opened by the largest disc that leaves something."""
    import cv2
    from skimage.morphology import disk, medial_axis

    whole: Any = error.astype(np.uint8)
    opened, radius = whole, min(0.5 * kernel * float(np.sqrt(error.sum())), _LARGEST_RADIUS)
    while radius > 1:
        disc = disk(radius).astype(np.uint8)
        opened = cv2.dilate(cv2.erode(whole, disc), disc)
        if opened.any():
            break
        radius *= 0.9
    padded = np.pad(opened, 1).astype(bool)
    ties = _EarlierTies(np.random.PCG64())
    found: Bits = medial_axis(padded, rng=ties)[1:-1, 1:-1]
    return found


class _EarlierTies(np.random.Generator):
    """Draws the order of equal pixels as earlier versions of scikit-image did."""

    def permutation(self, x: Any, axis: int = 0) -> Any:
        return np.random.RandomState(0).permutation(x)


def _paths(pixels: npt.NDArray[np.int64]) -> Iterator[list[int]]:
    """The longest path, in edges, of each piece of a skeleton.

    Removing the longest edge of a cycle until there is none leaves a minimum spanning tree.
    """
    import networkx

    number = {(int(y), int(x)): k for k, (y, x) in enumerate(pixels)}
    graph = networkx.Graph()
    graph.add_nodes_from(number.values())
    for steps in ((0, 1), (1, 0)), ((1, -1), (1, 1)):  # of equal edges the first ones stay
        for (y, x), k in number.items():
            near = [(number.get((y + dy, x + dx)), np.hypot(dy, dx)) for dy, dx in steps]
            graph.add_weighted_edges_from((k, m, length) for m, length in near if m is not None)
    tree = networkx.Graph(sorted(networkx.minimum_spanning_edges(graph, data=False)))
    for piece in networkx.connected_components(tree):
        path = [min(piece)]
        for _ in range(2):  # to the farthest node, and from there to the farthest
            path = max(networkx.single_source_shortest_path(tree, path[-1]).values(), key=len)
        if len(piece) >= _FEWEST_NODES:
            yield path


def _bezier(control: npt.NDArray[Any]) -> Points:
    """A Bezier curve with every point of a path as control point."""
    from scipy.stats import binom

    share, degree = np.linspace(0.0, 1.0, _SAMPLES), len(control) - 1
    weights = binom.pmf(np.arange(degree + 1)[None], degree, share[:, None])
    return np.asarray(weights @ control, dtype=np.float64)
