"""Masks of videos as files: PNG of DAVIS, a list in the style of COCO-VID, GIF or MP4 overlays."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.plans import display_names
from segmeter.core.videos import FrameMasks, Video
from segmeter.store import Run
from segmeter.store.local import write_file

VIDEO_FORMATS = ("davis", "coco-vid", "gif", "mp4")
_KEY = ("dataset", "scene", "model", "user", "protocol")
_SESSION = 'partition by dataset, scene, model, "user", protocol, target'
_COLOURS = ((230, 25, 75), (60, 180, 75), (0, 130, 200), (245, 130, 48), (145, 30, 180))
_WIDEST = 480
Named = Callable[[str, str], str]
Exported = tuple[Path, str, str, int]
"""A file, the scene and the target that it holds, and the pixels of its masks."""
Labels = npt.NDArray[np.uint8]


def export_videos(
    run: Run, folder: Path, kind: str | None, rounds: str | int, named: Named
) -> Iterator[Exported]:
    """Write the masks of a run on videos.

    `davis` (the default) writes `FOLDER/DATASET/MODEL/USER/PROTOCOL/SCENE/00000.png`, whose
    values are objects; `gif` and `mp4` one overlay per scene; `coco-vid` one list per model, user
    and protocol with run lengths per frame.
    """
    kind = kind or "davis"
    if kind not in VIDEO_FORMATS:
        raise BadInput(f"videos are written as {', '.join(VIDEO_FORMATS)}, not as {kind}")
    shown = display_names(run.plan.datasets)
    lists: dict[Path, dict[str, list[Any]]] = {}
    for key, own in groupby(_rows(run, rounds), key=lambda row: tuple(row[k] for k in _KEY)):
        dataset, name, *session = key
        scene = run.scene(dataset, name)
        if not isinstance(scene, Video):
            raise BadInput(f"{scene.name} is no video any more; its masks cannot be written")
        masks = {r["target"]: FrameMasks.decoded(r["frame_masks"], scene.shape) for r in own}
        parts = zip(("model", "user", "protocol"), session, strict=True)
        place = folder / named("dataset", shown[dataset])
        whole = place.joinpath(*(named(role, part) for role, part in parts))
        file = whole / named(f"scene of {dataset}", name)
        if kind == "coco-vid":
            path = whole.with_suffix(".json") if not whole.suffix else Path(f"{whole}.json")
            _listed(lists.setdefault(path, _empty_list()), scene, masks)
        else:
            path = _WRITERS[kind](file, scene, list(masks.values()))
        yield from ((path, name, target, mask.area) for target, mask in masks.items())
    for path, content in lists.items():
        write_file(path, json.dumps(content).encode())


def _rows(run: Run, rounds: str | int) -> list[dict[str, Any]]:
    """One row per object and session: of the last round, the best, or after so many."""
    if rounds == "all":
        raise BadInput("videos are written after one round; take --round last, best or K")
    order = "jf desc, round" if rounds == "best" else "round desc"
    most = rounds if isinstance(rounds, int) else 1 << 30
    query = (
        f'select dataset, scene, model, "user", protocol, target, frame_masks from rows '
        f"where frame_masks is not null and round <= ? "
        f"qualify row_number() over ({_SESSION} order by {order}) = 1 "
        'order by dataset, scene, model, "user", protocol, target'
    )
    found: list[dict[str, Any]] = run.sql(query, [most]).to_pylist()
    if not found:
        raise BadInput("this run kept no masks of videos; nothing can be written")
    return found


def _labels(masks: Sequence[FrameMasks], t: int) -> Labels:
    """Objects of a frame as 1, 2, ...; the first keeps a pixel that several claim."""
    labels: Labels = np.zeros(masks[0].shape[1:], np.uint8)
    for k, one in reversed(list(enumerate(masks, 1))):
        flat = one.slice(t)
        labels[flat.window][flat.bits] = k
    return labels


def _davis(folder: Path, scene: Video, masks: Sequence[FrameMasks]) -> Path:
    from PIL import Image

    palette = [0, 0, 0, *(value for colour in _COLOURS for value in colour)]
    for t in range(len(scene)):
        image = Image.fromarray(_labels(masks, t))
        image.putpalette(palette)
        file = io.BytesIO()
        image.save(file, "PNG")
        write_file(folder / f"{t:05d}.png", file.getvalue())
    return folder


def _overlays(scene: Video, masks: Sequence[FrameMasks]) -> Iterator[Labels]:
    """Frames with the objects tinted, at most 480 pixels wide."""
    import cv2

    for t in range(len(scene)):
        pixels, labels = scene.frame(t).copy(), _labels(masks, t)
        for k in range(1, len(masks) + 1):
            colour = np.array(_COLOURS[(k - 1) % len(_COLOURS)])
            pixels[labels == k] = (pixels[labels == k] + colour) // 2
        scale = min(1.0, _WIDEST / pixels.shape[1])
        yield np.asarray(cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA))


def _gif(place: Path, scene: Video, masks: Sequence[FrameMasks]) -> Path:
    from PIL import Image

    frames = (Image.fromarray(one).quantize(64) for one in _overlays(scene, masks))
    first, file = next(frames), io.BytesIO()
    rate = scene.header.frame_rate or 24.0
    first.save(
        file, "GIF", save_all=True, append_images=frames, duration=round(1000 / rate), loop=0
    )
    path = Path(f"{place}.gif")
    write_file(path, file.getvalue())
    return path


def _mp4(place: Path, scene: Video, masks: Sequence[FrameMasks]) -> Path:
    import cv2

    path = Path(f"{place}.mp4")
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
    return path


_WRITERS: Mapping[str, Callable[[Path, Video, Sequence[FrameMasks]], Path]] = {
    "davis": _davis,
    "gif": _gif,
    "mp4": _mp4,
}


def _empty_list() -> dict[str, list[Any]]:
    return {"videos": [], "annotations": [], "categories": [{"id": 1, "name": "object"}]}


def _listed(content: dict[str, list[Any]], scene: Video, masks: Mapping[str, FrameMasks]) -> None:
    """Add a video and its objects to a list."""
    length, height, width = scene.shape
    number = len(content["videos"]) + 1
    content["videos"].append(
        {"id": number, "name": scene.id, "width": width, "height": height, "length": length}
    )
    for target, mask in masks.items():
        frames: list[Mask | None] = [
            mask.slice(t) if t in mask.counts else None for t in range(length)
        ]
        content["annotations"].append(
            {
                "id": len(content["annotations"]) + 1,
                "video_id": number,
                "category_id": 1,
                "object": target,
                "iscrowd": 0,
                "segmentations": [None if m is None else m.to_coco() for m in frames],
                "bboxes": [None if m is None else _box(m) for m in frames],
                "areas": [None if m is None else m.area for m in frames],
            }
        )


def _box(mask: Mask) -> list[int]:
    (top, left), (bottom, right) = mask.low, mask.high
    return [left, top, right - left, bottom - top]
