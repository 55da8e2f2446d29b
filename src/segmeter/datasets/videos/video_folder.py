"""Folders of videos: frames with masks per object, found by their names.

- DAVIS 2016 and 2017: `JPEGImages/480p/SEQ/00000.jpg`, `Annotations/480p/SEQ/00000.png`;
- YouTube-VOS, MOSE: the same without the folder of the resolution, masks of some frames only;
- SA-V: `JPEGImages_24fps/SEQ/00000.jpg`, `Annotations_6fps/SEQ/000/00000.png`, one per object;
- your own: `frames/00000.jpg`, `masks/00000.png`, or a folder of both for each sequence;
- video files: `clip.mp4` with its masks in the folder `clip`, decoded by OpenCV.

Masks are 0 and 255 (one object) or one value per object (255 is then not judged).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Header, Pixels, Target, size_in_words
from segmeter.core.videos import MOST_FRAMES, FrameMasks, Video
from segmeter.core.wording import counted
from segmeter.datasets.image_files import MOST_PIXELS, image_size, read_rgb, read_values
from segmeter.datasets.places import digest, images_in, known

_FRAMES = ("JPEGImages", "JPEGImages_24fps", "frames", "Frames")
_MASKS = ("Annotations", "Annotations_6fps", "masks", "Masks")
_SIZES = ("480p", "1080p", "Full-Resolution")
_SPARSE = 0.5
_FILMS = frozenset({".avi", ".mkv", ".mov", ".mp4", ".webm"})
_BLOCK = 16
_ADVICE = (
    "videos are JPEGImages/SEQ/00000.jpg with Annotations/SEQ/00000.png, frames/ with masks/, or"
    " clip.mp4 with the folder clip"
)


@dataclass(frozen=True, slots=True)
class Files:
    """The folders of the frames and of the masks of one video, or a video file."""

    frames: Path
    masks: Path | None

    def files(self) -> list[Path]:
        """All files, for a digest."""
        own = [self.frames] if self.frames.is_file() else images_in(self.frames)
        return own + [f for _, files in _objects(self.masks) for f in files]


@catalogue.datasets.add("videos", summary="a folder of videos and masks of your own")
class VideoFolder:
    """Videos in the layouts of DAVIS, SA-V, MOSE and YouTube-VOS, or of your own.

    `path` is the folder, or one video file; `sequences` are names to use, such as `dog,libby`;
    with `sparse` frames may lack a mask where most have one, and are then not judged.
    """

    def __init__(self, path: str, sequences: str = "", sparse: bool = False) -> None:
        place = Path(path)
        if not place.exists():
            raise NotFound(f"no folder '{path}'")
        found = dict(sorted(_sequences(place)))
        if not found:
            raise BadInput(f"no videos recognised in '{path}': {_ADVICE}")
        wanted = [name.strip() for name in sequences.split(",") if name.strip()]
        for name in wanted:
            known(f"'{path}'", name, found)
        self._sequences = {k: v for k, v in found.items() if not wanted or k in wanted}
        self._sparse = sparse
        self.recognised = counted(len(self._sequences), "video")
        name, own = place.resolve().stem or "videos", ("your own", "nothing to cite")
        self.card = DatasetCard(name, "a folder of your own", *own, notes=self.recognised)

    def scenes(self) -> Sequence[str]:
        return list(self._sequences)

    def load(self, scene: str) -> Video:
        known(self.card.name, scene, self._sequences)
        return read_sequence(self.card.name, scene, self._sequences[scene], self._sparse)

    def fingerprint(self) -> str:
        return digest(file for one in self._sequences.values() for file in one.files())


@catalogue.datasets.add("mini-video", summary="12 frames of a swan, which ship inside the package")
class MiniVideo(VideoFolder):
    """One video with one object in every frame; `mini_video.LICENCE.txt` states the source."""

    def __init__(self) -> None:
        super().__init__(str(Path(__file__).with_name("mini_video")))
        self.card = DatasetCard(
            "mini-video",
            "12 frames of a swan from DAVIS 2016, at half size",
            "BSD-3-Clause; frames CC BY 4.0",
            "perazzi2016",
            targets=1,
            homepage="https://davischallenge.org",
            notes="Comes with segmeter; nothing to get. One easy object: see how things work.",
        )


def holds_videos(folder: Path) -> bool:
    """Whether a folder is laid out as videos are; nothing is decoded."""
    return folder.is_dir() and next(_sequences(folder), None) is not None


def read_sequence(dataset: str, name: str, source: Files, sparse: bool = False) -> Video:
    """A video whose header is read now, its masks and frames when used."""
    where = f"{dataset}/{name}"
    rate: float | None = 24.0
    if source.frames.is_file():
        film = VideoFile(source.frames)
        shape, rate, read = film.shape, film.frame_rate, film.frame
        stems = [f"{t:05d}" for t in range(shape[0])]
    else:
        files = images_in(source.frames)
        if not 1 <= len(files) <= MOST_FRAMES:
            raise BadInput(f"{where}: {len(files)} frames; a video has 1 to {MOST_FRAMES}")
        shape, stems = (len(files), *image_size(files[0])), [f.stem for f in files]

        def read(t: int) -> Pixels:
            return read_rgb(files[t])

    return Video(
        dataset, name, read, lambda: _targets(where, source, shape, stems, sparse),
        header=Header("video", shape, channels=3, frame_rate=rate), file_name=source.frames.name,
    )  # fmt: skip


class VideoFile:
    """The frames of a video file, decoded by OpenCV block by block, so that backward is affordable.

    The number of frames is that of the header; a missing one is refused when it is read.
    """

    def __init__(self, path: Path) -> None:
        import cv2

        if not path.is_file():
            raise NotFound(f"no file '{path}'")
        self.path = path
        self._capture: Any = cv2.VideoCapture(str(path))
        self._next = 0
        self._block: tuple[int, list[Pixels]] = (-1, [])
        if not self._capture.isOpened():
            raise BadInput(f"'{path}' cannot be decoded as a video; save it as MP4 or as frames")
        asked = (cv2.CAP_PROP_FRAME_COUNT, cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FRAME_WIDTH)
        frames, height, width = (round(self._capture.get(what)) for what in asked)
        if not 1 <= frames <= MOST_FRAMES or not 1 <= height * width <= MOST_PIXELS:
            raise BadInput(
                f"'{path}' claims {frames} frames of {width} x {height}; a video has 1 to "
                f"{MOST_FRAMES} frames of at most {MOST_PIXELS // 10**6} megapixels"
            )
        self.shape = (frames, height, width)
        rate = float(self._capture.get(cv2.CAP_PROP_FPS))
        self.frame_rate = rate if np.isfinite(rate) and rate > 0 else None

    def frame(self, t: int) -> Pixels:
        """One frame, uint8 `(H, W, 3)` in RGB."""
        start = t - t % _BLOCK
        if self._block[0] != start:
            self._block = (start, self._decoded(start))
        if t - start >= len(self._block[1]):
            raise BadInput(f"'{self.path}' breaks off before frame {t}; get it again")
        return self._block[1][t - start]

    def _decoded(self, start: int) -> list[Pixels]:
        import cv2

        if start < self._next:
            self._capture.release()
            self._capture = cv2.VideoCapture(str(self.path))
            self._next = 0
        while self._next < start and self._capture.grab():
            self._next += 1
        found: list[Pixels] = []
        while len(found) < _BLOCK:
            whole, pixels = self._capture.read()
            if not whole:
                break
            self._next += 1
            found.append(np.ascontiguousarray(pixels[..., ::-1]))
        return found


def _sequences(place: Path) -> Iterator[tuple[str, Files]]:
    """Sequences of a folder by name."""
    if place.is_file():
        yield place.stem, Files(place, _folder(place.with_suffix("")))
        return
    for film in sorted(place.iterdir()) if place.is_dir() else ():
        if film.suffix.lower() in _FILMS and film.is_file():
            yield film.stem, Files(film, _folder(film.with_suffix("")))
    frames, masks = _child(place, _FRAMES), _child(place, _MASKS)
    if frames is None:
        for inner in sorted(p for p in place.iterdir() if p.is_dir()):
            own, theirs = _child(inner, _FRAMES[2:]), _child(inner, _MASKS[2:])
            if own is not None and theirs is not None:
                yield inner.name, Files(own, theirs)
        return
    size = next((s for s in _SIZES if (frames / s).is_dir()), None)
    if size is not None:
        frames, masks = frames / size, masks and _folder(masks / size)
    found = [p for p in sorted(frames.iterdir()) if p.is_dir() and images_in(p)]
    for one in found:
        yield one.name, Files(one, masks and _folder(masks / one.name))
    if not found and frames.name in _FRAMES[2:] and images_in(frames):
        yield place.resolve().name, Files(frames, masks)


def _child(place: Path, names: Sequence[str]) -> Path | None:
    return next((place / n for n in names if (place / n).is_dir()), None)


def _folder(place: Path) -> Path | None:
    return place if place.is_dir() else None


def _objects(masks: Path | None) -> list[tuple[str, list[Path]]]:
    """Mask files by object; '' where one file holds all objects of a frame."""
    if masks is None:
        return []
    flat = images_in(masks)
    if flat:
        return [("", flat)]
    inner = sorted(e.name for e in os.scandir(masks) if e.is_dir())
    return [(name, images_in(masks / name)) for name in inner]


def _targets(
    where: str, source: Files, shape: tuple[int, ...], stems: Sequence[str], sparse: bool
) -> list[Target]:
    """Objects with their run lengths per frame, read mask by mask."""
    number = {stem: t for t, stem in enumerate(stems)}
    found: dict[str, dict[int, str]] = {}
    seen: dict[str, list[int]] = {}
    for name, files in _objects(source.masks):
        for file in files:
            t = number.get(file.stem)
            if t is None:
                raise BadInput(f"{where}: mask '{file.name}' has no frame; remove it or add one")
            for value, mask in _values(where, file, shape[1:]):
                key = name or str(value)
                found.setdefault(key, {})[t] = mask.encoded()
            seen.setdefault(name, []).append(t)
        _check_complete(where, name, files, stems, sparse)
    if not any(key.isdecimal() and 0 < int(key) < 255 for key in found) and "255" in found:
        found = {"1": found.pop("255"), **found}
    found.pop("255", None)  # pixels that are not judged, in masks of several objects
    shown = next(iter(seen.values()), [])
    return [
        Target(key, FrameMasks(shape, dict(sorted(frames.items())), sorted(seen.get(key, shown))))
        for key, frames in sorted(found.items())
    ]


def _check_complete(
    where: str, name: str, files: Sequence[Path], stems: Sequence[str], sparse: bool
) -> None:
    """Refuse masks that lack for a few frames: one was lost, or they are of another video."""
    if sparse or not _SPARSE < len(files) / len(stems) < 1:
        return
    given = {file.stem for file in files}
    lost = next(stem for stem in stems if stem not in given)
    raise BadInput(
        f"{where}: frame '{lost}' has no mask{f' of object {name}' if name else ''}, and"
        f" {len(files)} of {len(stems)} frames have one; add it or set sparse=true"
    )


def _values(where: str, file: Path, size: tuple[int, ...]) -> Iterator[tuple[int, Mask]]:
    """Each object's value in a mask file, and its mask; nothing where the frame has none."""
    values: npt.NDArray[Any] = read_values(file)
    if values.ndim == 3:
        if (values != values[..., :1]).any():
            raise BadInput(f"{where}: mask '{file.name}' is in colours; save one value per object")
        values = values[..., 0]
    if values.shape != size:
        raise BadInput(
            f"{where}: mask '{file.name}' is {size_in_words(values.shape)} but the frames are "
            f"{size_in_words(size)}; resize it"
        )
    for value in np.unique(values).tolist():
        if value:
            yield value, Mask.of(values == value)
