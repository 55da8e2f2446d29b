"""Masks of videos as files: PNG of DAVIS, a list in the style of COCO-VID, GIF or MP4 overlays."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.videos import Video
from segmeter.report.mask_lists import _bbox
from segmeter.store.local import write_file

VIDEO_FORMATS = {"davis": "", "coco-vid": ".json", "gif": ".gif", "mp4": ".mp4"}
"""Formats of videos, and how their files end; `davis` writes a folder of PNG label maps."""
_COLOURS = ((230, 25, 75), (60, 180, 75), (0, 130, 200), (245, 130, 48), (145, 30, 180))
_WIDEST = 480
Labels = npt.NDArray[np.uint8]


def write_video(path: Path, kind: str, scene: Video, masks: Mapping[str, Mask]) -> None:
    """The masks of all objects of a video, as one of the formats."""
    own = list(masks.values())
    if kind == "coco-vid":
        write_file(path, json.dumps(_listed(scene, masks)).encode())
    elif kind == "davis":
        _davis(path, scene, own)
    elif kind == "gif":
        _gif(path, scene, own)
    else:
        _mp4(path, scene, own)


def _labels(masks: Sequence[Mask], t: int) -> Labels:
    """Objects of a frame as 1, 2, ...; the first keeps a pixel that several claim."""
    labels: Labels = np.zeros(masks[0].shape[1:], np.uint8)
    for k, one in reversed(list(enumerate(masks, 1))):
        flat = one.slice(t)
        labels[flat.window][flat.bits] = k
    return labels


def _davis(folder: Path, scene: Video, masks: Sequence[Mask]) -> None:
    from PIL import Image

    palette = [0, 0, 0, *(value for colour in _COLOURS for value in colour)]
    for t in range(len(scene)):
        image = Image.fromarray(_labels(masks, t))
        image.putpalette(palette)
        file = io.BytesIO()
        image.save(file, "PNG")
        write_file(folder / f"{t:05d}.png", file.getvalue())


def _overlays(scene: Video, masks: Sequence[Mask]) -> Iterator[Labels]:
    """Frames with the objects tinted, at most 480 pixels wide."""
    import cv2

    for t in range(len(scene)):
        pixels, labels = scene.frame(t).copy(), _labels(masks, t)
        for k in range(1, len(masks) + 1):
            colour = np.array(_COLOURS[(k - 1) % len(_COLOURS)])
            pixels[labels == k] = (pixels[labels == k] + colour) // 2
        scale = min(1.0, _WIDEST / pixels.shape[1])
        yield np.asarray(cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA))


def _gif(path: Path, scene: Video, masks: Sequence[Mask]) -> None:
    from PIL import Image

    frames = (Image.fromarray(one).quantize(64) for one in _overlays(scene, masks))
    first, file = next(frames), io.BytesIO()
    rate = scene.header.frame_rate or 24.0
    first.save(
        file, "GIF", save_all=True, append_images=frames, duration=round(1000 / rate), loop=0
    )
    write_file(path, file.getvalue())


def _mp4(path: Path, scene: Video, masks: Sequence[Mask]) -> None:
    import cv2

    path.parent.mkdir(parents=True, exist_ok=True)
    writer: Any = None
    for one in _overlays(scene, masks):
        if writer is None:
            code, rate = cv2.VideoWriter.fourcc(*"mp4v"), scene.header.frame_rate or 24.0
            writer = cv2.VideoWriter(str(path), code, rate, one.shape[1::-1])
        if not writer.isOpened():
            raise BadInput("this OpenCV cannot write MP4; use --format gif")
        writer.write(one[..., ::-1])
    writer.release()


def _listed(scene: Video, masks: Mapping[str, Mask]) -> dict[str, Any]:
    """A video and its objects as COCO-VID lists them; frames without the object are null."""
    length, height, width = scene.shape

    def frames(mask: Mask, made: Callable[[Mask], Any]) -> list[Any]:
        slices = (mask.slice(t) for t in range(length))
        return [made(one) if one else None for one in slices]

    return {
        "videos": [{"id": 1, "name": scene.id, "width": width, "height": height, "length": length}],
        "annotations": [
            {
                "id": k,
                "video_id": 1,
                "category_id": 1,
                "object": target,
                "iscrowd": 0,
                "segmentations": frames(mask, Mask.to_coco),
                "bboxes": frames(mask, _bbox),
                "areas": frames(mask, attrgetter("area")),
            }
            for k, (target, mask) in enumerate(masks.items(), 1)
        ],
        "categories": [{"id": 1, "name": "object"}],
    }
