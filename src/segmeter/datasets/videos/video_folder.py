"""Folders of videos: frames with masks per object, found by their names.

- DAVIS 2016 and 2017: `JPEGImages/480p/SEQ/00000.jpg`, `Annotations/480p/SEQ/00000.png`;
- YouTube-VOS, MOSE: the same without the folder of the resolution, masks of some frames only;
- SA-V: `JPEGImages_24fps/SEQ/00000.jpg`, `Annotations_6fps/SEQ/000/00000.png`, one per object;
- your own: `frames/00000.jpg`, `masks/00000.png`, or a folder of both for each sequence;
- video files: `clip.mp4` with its masks in the folder `clip`, decoded by OpenCV.

Masks are 0 and 255 (one object) or one value per object (255 is then not judged).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import Pixels, SceneHeader, Target, size_in_words
from segmeter.core.videos import FrameMasks, Video
from segmeter.core.wording import counted
from segmeter.datasets.data_roots import SceneSet, card_of, images_in, known, own_card
from segmeter.datasets.image_files import MOST_PIXELS, image_size, read_rgb, read_values
from segmeter.datasets.mask_files import flat, masks_of_values

_FRAMES = ("JPEGImages", "JPEGImages_24fps", "frames", "Frames")
_MASKS = ("Annotations", "Annotations_6fps", "masks", "Masks")
_SIZES = ("480p", "1080p", "Full-Resolution")
_SPARSE = 0.5
_FILMS = frozenset({".avi", ".mkv", ".mov", ".mp4", ".webm"})
_BLOCK = 16
MOST_FRAMES = 200_000  # two hours at 25 per second
_ADVICE = (
    "videos are JPEGImages/SEQ/00000.jpg with Annotations/SEQ/00000.png, frames/ with masks/, or"
    " clip.mp4 with the folder clip"
)


@dataclass(frozen=True, slots=True)
class Files:
    """The frames of a video, a folder or a video file, and the folder of its masks, if any."""

    frames: Path
    masks: Path

    def objects(self) -> list[tuple[str, list[Path]]]:
        """Mask files by object; '' where one file holds all objects of a frame."""
        if not self.masks.is_dir():
            return []
        if flat := images_in(self.masks):
            return [("", flat)]
        return [(p.name, images_in(p)) for p in sorted(self.masks.iterdir()) if p.is_dir()]

    def files(self) -> list[Path]:
        own = [self.frames] if self.frames.is_file() else images_in(self.frames)
        return own + [file for _, files in self.objects() for file in files]


@catalogue.datasets.add("videos", "your own folder of videos and masks")
class VideoFolder(SceneSet[Files]):
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
        chosen = {k: v for k, v in found.items() if not wanted or k in wanted}
        self.recognised = counted(len(chosen), "video")

        def read(scene: str, files: Files) -> Video:
            return read_sequence(self.card.name, scene, files, sparse)

        card = own_card(place.resolve().stem or "videos", self.recognised)
        super().__init__(card, chosen, read, lambda _, held: held.files())


@catalogue.datasets.add("mini-video", "12 frames of a swan, built in")
class MiniVideo(VideoFolder):
    """One video with one object in every frame; `mini_video.LICENCE.txt` states the source."""

    def __init__(self) -> None:
        super().__init__(str(Path(__file__).with_name("mini_video")))
        self.card = card_of("mini-video")


def holds_videos(folder: Path) -> bool:
    """Whether a folder has a layout of videos; nothing is decoded."""
    return folder.is_dir() and next(_sequences(folder), None) is not None


def read_sequence(dataset: str, name: str, source: Files, sparse: bool = False) -> Video:
    """A video whose header is read now, its masks and frames when used."""
    where = f"{dataset}/{name}"
    rate: float | None = None  # folders of frames do not state it
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
        header=SceneHeader("video", shape, channels=3, frame_rate=rate),
        file_name=source.frames.name,
    )  # fmt: skip


class VideoFile:
    """The frames of a video file, decoded by OpenCV block by block, so that backward is affordable.

    The number of frames is that of the header; a missing one is refused when it is read.
    """

    def __init__(self, path: Path) -> None:
        import cv2

        self.path, self._block = path, (-1, list[Pixels]())
        self._capture, self._next = cv2.VideoCapture(str(path)), 0
        if not self._capture.isOpened():
            raise BadInput(f"'{path}' cannot be decoded as a video; save it as MP4 or as frames")
        asked = (cv2.CAP_PROP_FRAME_COUNT, cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FRAME_WIDTH)
        frames, height, width = (round(self._capture.get(what)) for what in asked)
        if not 1 <= frames <= MOST_FRAMES or not 1 <= height * width <= MOST_PIXELS:
            raise BadInput(
                f"'{path}' claims {frames} frames of {width} x {height}; a video has 1 to "
                f"{MOST_FRAMES} frames of at most {MOST_PIXELS // 10**6} megapixels"
            )
        self.shape, rate = (frames, height, width), float(self._capture.get(cv2.CAP_PROP_FPS))
        self.frame_rate = rate if np.isfinite(rate) and rate > 0 else None

    def frame(self, t: int) -> Pixels:
        """One frame, uint8 `(H, W, 3)` in RGB."""
        start = t - t % _BLOCK
        if self._block[0] != start:
            self._block = (start, list(self._decoded(start)))
        if t - start >= len(self._block[1]):
            raise BadInput(f"'{self.path}' ends before frame {t}; download it again")
        return self._block[1][t - start]

    def _decoded(self, start: int) -> Iterator[Pixels]:
        import cv2

        if start < self._next:
            self._capture, self._next = cv2.VideoCapture(str(self.path)), 0
        while self._next < start + _BLOCK and self._capture.grab():
            self._next += 1
            if self._next > start:
                yield np.ascontiguousarray(self._capture.retrieve()[1][..., ::-1])


def _sequences(place: Path) -> Iterator[tuple[str, Files]]:
    for film in [place] if place.is_file() else sorted(place.iterdir()):
        if film == place or (film.suffix.lower() in _FILMS and film.is_file()):
            yield film.stem, Files(film, film.with_suffix(""))
    frames, masks = _child(place, _FRAMES), _child(place, _MASKS)
    if frames is None:
        for inner in sorted(p for p in place.glob("*") if p.is_dir()):
            own, theirs = _child(inner, _FRAMES[2:]), _child(inner, _MASKS[2:])
            if own is not None and theirs is not None:
                yield inner.name, Files(own, theirs)
        return
    size = next((s for s in _SIZES if (frames / s).is_dir()), "")
    frames, masks = frames / size, (masks or place / _MASKS[0]) / size
    found = [p for p in sorted(frames.iterdir()) if p.is_dir() and images_in(p)]
    for one in found:
        yield one.name, Files(one, masks / one.name)
    if not found and frames.name in _FRAMES[2:] and images_in(frames):
        yield place.resolve().name, Files(frames, masks)


def _child(place: Path, names: Sequence[str]) -> Path | None:
    return next((place / n for n in names if (place / n).is_dir()), None)


def _targets(
    where: str, source: Files, shape: tuple[int, ...], stems: Sequence[str], sparse: bool
) -> list[Target]:
    """Objects with their run lengths per frame, read mask by mask."""
    number = {stem: t for t, stem in enumerate(stems)}
    found: dict[str, dict[int, str]] = {}
    seen: dict[str, list[int]] = {}
    for name, files in source.objects():
        for file in files:
            if (t := number.get(file.stem)) is None:
                raise BadInput(f"{where}: mask '{file.name}' has no frame; remove it or add one")
            for value, mask in _values(where, file, shape[1:]):
                found.setdefault(name or str(value), {})[t] = mask.encoded()
            seen.setdefault(name, []).append(t)
        lost = next((stem for stem in stems if number[stem] not in seen.get(name, ())), None)
        if lost and not sparse and len(files) > _SPARSE * len(stems):
            of = f" of object {name}" if name else ""
            raise BadInput(
                f"{where}: frame '{lost}' has no mask{of}, and {len(files)} of {len(stems)} frames"
                " have one; add it or set sparse=true"
            )
    if not any(key.isdecimal() and 0 < int(key) < 255 for key in found) and "255" in found:
        found = {"1": found.pop("255"), **found}
    found.pop("255", None)  # pixels that are not judged, in masks of several objects
    shown = next(iter(seen.values()), [])
    return [
        Target(key, FrameMasks(shape, dict(sorted(frames.items())), sorted(seen.get(key, shown))))
        for key, frames in sorted(found.items())
    ]


def _values(where: str, file: Path, size: tuple[int, ...]) -> Iterator[tuple[int, Mask]]:
    """Each object's value in a mask file, and its mask; nothing where the frame has none."""
    values = flat(read_values(file))
    if values.ndim == 3:
        raise BadInput(f"{where}: mask '{file.name}' is in colour; save one value per object")
    if values.shape != size:
        raise BadInput(
            f"{where}: mask '{file.name}' is {size_in_words(values.shape)} but the frames are "
            f"{size_in_words(size)}; resize it"
        )
    yield from masks_of_values(values, f"{where}: mask '{file.name}'")
