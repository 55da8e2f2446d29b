"""Trackers that are a function of frames and prompts: your own, and masks of another program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.models import ModelCard
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble
from segmeter.core.scenes import Scene
from segmeter.core.videos import FrameMasks, Video
from segmeter.models.videos.frame_trackers import TAKEN, EncodedVideo, as_video

Labels = npt.NDArray[Any]
Track = Callable[[Video, Mapping[int, list[Prompt]]], Any]


@dataclass(frozen=True, slots=True)
class FunctionTracker:
    """A function `track(frames, prompts) -> masks` as a tracker.

    `frames[t]` is uint8 `(H, W, 3)` and decoded when read; `prompts` are lists of prompts
    `(y, x)` by frame; `masks` has one bool `(H, W)` per frame and may be a generator.
    """

    track: Track
    name: str = "track"

    @property
    def card(self) -> ModelCard:
        summary = (self.track.__doc__ or "a function").strip().split("\n")[0]
        return ModelCard(self.name, summary, TAKEN)

    @property
    def wrapped(self) -> Any:
        return self.track

    def encode(self, scene: Scene) -> EncodedVideo:
        return _FunctionVideo(as_video(scene), self.track, self.name)


@catalogue.models.add("recorded-masks", summary="tracker: PNG masks from another tool")
class RecordedMasks:
    """Masks of a folder, `SEQUENCE/00000.png` with one value per object, or 0 and 255.

    The object is the one that most of the positive prompts lie on.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise NotFound(f"no folder '{path}'")

    @property
    def card(self) -> ModelCard:
        return ModelCard(self.path.name, f"masks in the folder {self.path.name}", TAKEN)

    def encode(self, scene: Scene) -> EncodedVideo:
        video, folder, size = as_video(scene), self.path / scene.id, scene.shape[1:]
        files = sorted(folder.glob("*.png"))
        if len(files) != len(video):
            raise BadInput(
                f"'{folder}' has {len(files)} masks for the {len(video)} frames of {video.name}; "
                "it needs SEQUENCE/00000.png for every frame"
            )

        def track(frames: Video, prompts: Mapping[int, list[Prompt]]) -> Iterator[Labels]:
            shown = ((read_label_png(files[t], size), some) for t, some in prompts.items())
            inside = np.concatenate([[0], *(_under(labels, p) for labels, s in shown for p in s)])
            value = int(np.bincount(inside[inside > 0].astype(int), minlength=1).argmax())
            for file in files:
                labels = read_label_png(file, size)
                yield labels == value if value else np.zeros(size, bool)

        return _FunctionVideo(video, track, self.path.name)


class _FunctionVideo(EncodedVideo):
    """A video with prompts, so it is a track as well; tracks share the masks `found` so far."""

    def __init__(self, video: Video, track: Track, name: str, found: Any = None) -> None:
        super().__init__(video)
        self.track, self.name = track, name
        self.prompts: dict[int, tuple[Prompt, ...]] = {}
        self._found: dict[Any, FrameMasks] = {} if found is None else found

    def begin(self) -> _FunctionVideo:
        return _FunctionVideo(self.video, self.track, self.name, self._found)

    def prompt(self, frame: int, prompts: Sequence[Prompt], shown: Mask | None = None) -> Mask:
        self.prompts[frame] = tuple(prompts)
        return self._masks().slice(frame)

    def propagate(self, start: int, stop: int) -> Iterator[tuple[int, Mask]]:
        step = 1 if stop > start else -1
        masks = self._masks()
        return ((t, masks.slice(t)) for t in range(start + step, stop, step))

    def segment(self) -> Iterator[tuple[int, Mask]]:
        return self.propagate(-1, len(self.video))

    def _masks(self) -> FrameMasks:
        """The function's masks of all frames, encoded as they come."""
        key, shape = tuple(sorted(self.prompts.items())), self.video.shape
        if key not in self._found:
            prompts, video = {t: list(some) for t, some in key}, self.video
            frames = Video(video.dataset, video.id, video.frame, [], header=video.header)
            made = [
                None if mask.shape != shape[1:] else Mask.of(mask).encoded() if mask.any() else ""
                for mask in map(np.asarray, self.track(frames, prompts))
            ]
            if None in made or len(made) != shape[0]:
                size = f"{shape[1:]} per frame, {shape[0]}"
                raise BadInput(f"'{self.name}' must return one mask of {size}")
            self._found[key] = FrameMasks(shape, {t: text for t, text in enumerate(made) if text})
        return self._found[key]


def _under(labels: Labels, prompt: Prompt) -> Labels:
    """Values under a positive prompt."""
    match prompt:
        case MaskHint(mask):
            return np.asarray(labels[mask.window][mask.bits])
        case Box(low, high):
            (top, left), (bottom, right) = (tuple(map(round, p)) for p in (low, high))
            return labels[max(top, 0) : bottom + 1, max(left, 0) : right + 1].ravel()
        case Click(point, True):
            return _under(labels, Scribble((point,)))
        case Scribble(points, True):
            return np.asarray(labels[tuple(np.rint(points).astype(int).T)])
        case _:
            return np.array([0])


def read_label_png(file: Path, size: Sequence[int]) -> Labels:
    """A PNG's own values, palette indices included, of a known size."""
    from PIL import Image

    try:
        with Image.open(file, formats=["PNG"]) as image:
            if image.size != tuple(size)[::-1]:
                raise BadInput(f"'{file}' is {image.size[0]} x {image.size[1]}, not as its frame")
            values = np.asarray(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BadInput(f"'{file}' cannot be read as PNG: {error}") from error
    return (values[..., :3].max(axis=2) if values.ndim == 3 else values).astype(int)
