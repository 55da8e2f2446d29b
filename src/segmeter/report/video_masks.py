"""Masks of videos as files: PNG of DAVIS, a list in the style of COCO-VID, GIF or MP4 overlays."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.videos import Video, label_map
from segmeter.report.mask_lists import _bbox
from segmeter.store.local import write_file

VIDEO_FORMATS = {"davis": "", "coco-vid": ".json", "gif": ".gif", "mp4": ".mp4"}
"""Formats of videos, and how their files end; `davis` writes a folder of PNG label maps."""
_COLOURS = ((230, 25, 75), (60, 180, 75), (0, 130, 200), (245, 130, 48), (145, 30, 180))
_WIDEST = 480
Labels = npt.NDArray[np.int_]


def write_video(path: Path, kind: str, scene: Video, masks: Mapping[str, Mask]) -> None:
    """The masks of all objects of a video, as one of the formats."""
    if kind == "coco-vid":
        write_file(path, json.dumps(_listed(scene, masks)).encode())
        return
    write = {"davis": _davis, "gif": _gif, "mp4": _mp4}[kind]
    write(path, scene, (label_map(list(masks.values()), t) for t in range(len(scene))))


def _davis(folder: Path, scene: Video, maps: Iterable[Labels]) -> None:
    from PIL import Image

    for t, labels in enumerate(maps):
        image = Image.fromarray(labels.astype(np.uint8))
        image.putpalette([0, 0, 0, *np.ravel(_COLOURS).tolist()])
        file = io.BytesIO()
        image.save(file, "PNG")
        write_file(folder / f"{t:05d}.png", file.getvalue())


def _overlays(scene: Video, maps: Iterable[Labels]) -> Iterator[npt.NDArray[np.uint8]]:
    """Frames with the objects tinted, at most 480 pixels wide."""
    import cv2

    for t, labels in enumerate(maps):
        pixels, inside = scene.frame(t).copy(), labels > 0
        colours = np.array(_COLOURS)[(labels[inside] - 1) % len(_COLOURS)]
        pixels[inside] = (pixels[inside] + colours) // 2
        scale = min(1.0, _WIDEST / pixels.shape[1])
        yield np.asarray(cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA))


def _gif(path: Path, scene: Video, maps: Iterable[Labels]) -> None:
    from PIL import Image

    frames = (Image.fromarray(one).quantize(64) for one in _overlays(scene, maps))
    first, file = next(frames), io.BytesIO()
    each = round(1000 / (scene.header.frame_rate or 24.0))
    first.save(file, "GIF", save_all=True, append_images=frames, duration=each, loop=0)
    write_file(path, file.getvalue())


def _mp4(path: Path, scene: Video, maps: Iterable[Labels]) -> None:
    import cv2

    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter()
    for one in _overlays(scene, maps):
        code, rate = cv2.VideoWriter.fourcc(*"mp4v"), scene.header.frame_rate or 24.0
        if not writer.isOpened() and not writer.open(str(path), code, rate, one.shape[1::-1]):
            raise BadInput("this OpenCV cannot write MP4; use --format gif")
        writer.write(one[..., ::-1])
    writer.release()


def _listed(scene: Video, masks: Mapping[str, Mask]) -> dict[str, Any]:
    """A video and its objects as COCO-VID lists them; frames without the object are null."""
    length, height, width = scene.shape
    size = {"width": width, "height": height, "length": length}
    listed = []
    for k, (target, mask) in enumerate(masks.items(), 1):
        slices = [mask.slice(t) for t in range(length)]
        listed.append({
            "id": k, "video_id": 1, "category_id": 1, "object": target, "iscrowd": 0,
            "segmentations": [one.to_coco() if one else None for one in slices],
            "bboxes": [_bbox(one) if one else None for one in slices],
            "areas": [one.area if one else None for one in slices],
        })  # fmt: skip
    categories = [{"id": 1, "name": "object"}]
    videos = [{"id": 1, "name": scene.id, **size}]
    return {"videos": videos, "annotations": listed, "categories": categories}
