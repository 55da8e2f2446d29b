"""`recorded-masks`: masks that another program wrote, as a tracker, so that they are scored.

The folder holds `SEQUENCE/00000.png` with one value per object, or 0 and 255. Prompts choose the
object; they change nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from segmeter.core.videos import Video
from segmeter.models.videos.frame_trackers import EncodedVideo, as_video


@catalogue.models.add("recorded-masks", summary="tracker: PNG masks that another program wrote")
class RecordedMasks:
    """Masks of a folder in place of a tracker's."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise NotFound(f"no folder '{path}'")

    @property
    def card(self) -> ModelCard:
        taken = frozenset({"click", "box", "scribble", "mask", "video"})
        return ModelCard(self.path.name, f"masks in the folder {self.path.name}", taken)

    def encode(self, scene: Scene) -> _RecordedVideo:
        return _RecordedVideo(as_video(scene), self.path / scene.id)


class _RecordedVideo(EncodedVideo):
    def __init__(self, video: Video, folder: Path) -> None:
        super().__init__(video)
        self.files = sorted(folder.glob("*.png"))
        if len(self.files) != len(video):
            raise BadInput(
                f"'{folder}' has {len(self.files)} masks for the {len(video)} frames of "
                f"{video.name}; it needs SEQUENCE/00000.png for every frame"
            )

    def begin(self) -> _RecordedTrack:
        return _RecordedTrack(self)

    def labels(self, t: int) -> npt.NDArray[Any]:
        return read_label_png(self.files[t], self.video.shape[1:])


class _RecordedTrack:
    def __init__(self, encoded: _RecordedVideo) -> None:
        self.encoded = encoded
        self.value = 0

    def prompt(self, frame: int, prompts: Sequence[Prompt], shown: Mask | None = None) -> Mask:
        """Choose the object that most of a positive prompt lies on, else the first."""
        labels = self.encoded.labels(frame)
        inside = np.concatenate([[0], *(_under(labels, p) for p in prompts)]).astype(int)
        inside = inside[inside > 0]
        some = np.unique(labels[labels > 0])
        if not self.value and len(inside):
            self.value = int(np.bincount(inside).argmax())
        elif not self.value and len(some):
            self.value = int(some[0])
        return self._mask(frame)

    def propagate(self, start: int, stop: int) -> Iterator[tuple[int, Mask]]:
        step = 1 if stop > start else -1
        return ((t, self._mask(t)) for t in range(start + step, stop, step))

    def segment(self) -> Iterator[tuple[int, Mask]]:
        return ((t, self._mask(t)) for t in range(len(self.encoded.video)))

    def _mask(self, t: int) -> Mask:
        labels = self.encoded.labels(t)
        return Mask.of(labels == self.value) if self.value else Mask.empty(labels.shape)


def _under(labels: npt.NDArray[Any], prompt: Prompt) -> npt.NDArray[Any]:
    """Values under a positive prompt."""
    match prompt:
        case MaskHint(mask):
            return np.asarray(labels[mask.window][mask.bits])
        case Box(low, high):
            (top, left), (bottom, right) = (tuple(map(round, p)) for p in (low, high))
            return labels[max(top, 0) : bottom + 1, max(left, 0) : right + 1].ravel()
        case Click(point, True):
            return np.array([labels[tuple(map(round, point))]])
        case Scribble(points, True):
            return np.array([labels[tuple(map(round, p))] for p in points])
        case _:
            return np.array([0])


def read_label_png(file: Path, size: tuple[int, ...]) -> npt.NDArray[Any]:
    """A PNG's own values, palette indices included, of a known size."""
    from PIL import Image

    try:
        with Image.open(file, formats=["PNG"]) as image:
            if image.size != tuple(size)[::-1]:
                raise BadInput(f"'{file}' is {image.size[0]} x {image.size[1]}, not as its frame")
            values = np.asarray(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BadInput(f"'{file}' cannot be read as PNG: {error}") from error
    if values.ndim == 3:
        values = values[..., :3].max(axis=2)
    return values.astype(np.uint8) if values.dtype == bool else values
