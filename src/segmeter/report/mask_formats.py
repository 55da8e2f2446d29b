"""Mask formats of other tools: COCO, CVAT, FiftyOne, Label Studio; of videos DAVIS, GIF, MP4."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.videos import Video, label_map
from segmeter.datasets.coco_json import CocoRecords
from segmeter.store.local import write_file

_WORD = 8
_RUN_SIZES = (3, 4, 8, 16)  # bits that the length of a run may take


@dataclass(frozen=True, slots=True)
class ListedMask:
    """A mask as a list holds it.

    Attributes
    ----------
    file
        Name of the image's file in the list.
    scene, target
        Names in the run.
    image
        Name of the file that the image was read from; empty if unknown.
    records
        Records of the COCO file that the scene came from; None for other data.
    """

    file: str
    scene: str
    image: str
    target: str
    label: str
    mask: Mask
    score: float | None
    records: CocoRecords | None = None


@dataclass(frozen=True, slots=True)
class MaskList:
    """How a tool's list is written, in which folder its images are, and how to open it."""

    images: str
    written: Callable[[str, Sequence[ListedMask]], Any]
    hint: str
    ending: str = ".json"


def png_bytes(values: npt.NDArray[np.uint8]) -> bytes:
    """An image as a PNG file."""
    from PIL import Image

    held = io.BytesIO()
    Image.fromarray(values).save(held, "png")
    return held.getvalue()


def write_list(path: Path, kind: str, model: str, masks: Sequence[ListedMask]) -> None:
    """One list, complete or not at all."""
    made = LISTS[kind].written(model, masks)
    write_file(path, (made if isinstance(made, str) else json.dumps(made)).encode())


def _coco(model: str, masks: Sequence[ListedMask]) -> dict[str, Any]:
    """COCO's instances: compressed run lengths; an empty mask is kept with a box of no size.

    Data that came from a COCO file keeps its ids, categories and image records.
    """
    scenes = _numbered(m.scene for m in masks)
    labels = _numbered(m.label for m in masks)
    categories: Sequence[Any] = [{"id": k, "name": name} for name, k in labels.items()]
    images, annotations = {}, []
    for k, m in enumerate(masks, 1):
        size = {"height": m.mask.shape[0], "width": m.mask.shape[1]}
        image = {"id": scenes[m.scene], "file_name": m.file, **size}
        held = {"id": k, "category_id": labels[m.label]}
        if m.records is not None:
            image, categories = {**image, **m.records.image}, m.records.categories
            own = m.records.objects[m.target]
            held = {name: own[name] for name in ("id", "category_id")}
        images[m.scene] = {**image, "scene": m.scene, "original_file_name": m.image}
        annotations.append(
            {
                **held,
                "image_id": image["id"],
                "segmentation": m.mask.to_coco(),
                "bbox": _bbox(m.mask),
                "area": m.mask.area,
                "iscrowd": 0,
                "target": m.target,
                **({} if m.score is None else {"score": m.score}),
            }
        )
    return {
        "info": {"description": f"masks of {model}, written by segmeter"},
        "images": list(images.values()),
        "annotations": annotations,
        "categories": list(categories),
    }


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Numbers from 1 on, in the order in which names come."""
    return {name: k for k, name in enumerate(dict.fromkeys(names), 1)}


def _bbox(mask: Mask) -> list[float]:
    """COCO's box: left, top, width, height, from pixels' outer edges."""
    if not mask:
        return [0.0, 0.0, 0.0, 0.0]
    (top, left), (bottom, right) = mask.low, mask.high
    return [float(left), float(top), float(right - left), float(bottom - top)]


def _label_studio(model: str, masks: Sequence[ListedMask]) -> list[dict[str, Any]]:
    """One task per image with one prediction, its masks as brush strokes."""
    by_scene: dict[str, list[ListedMask]] = {}
    for mask in masks:
        by_scene.setdefault(mask.scene, []).append(mask)
    return [
        {
            "data": {
                "image": f"/data/local-files/?d={quote(f'images/{held[0].file}')}",
                "original_file_name": held[0].image,
            },
            "predictions": [
                {
                    "model_version": model,
                    "result": [_brush(m, f"{k}-{i}") for i, m in enumerate(held)],
                }
            ],
        }
        for k, held in enumerate(by_scene.values())
    ]


def _brush(mask: ListedMask, name: str) -> dict[str, Any]:
    height, width = mask.mask.shape
    return {
        "id": name,
        "type": "brushlabels",
        "from_name": "tag",
        "to_name": "image",
        "original_width": width,
        "original_height": height,
        "image_rotation": 0,
        "value": {
            "format": "rle",
            "rle": brush_rle(mask.mask.dense()),
            "brushlabels": [mask.label],
        },
        **({} if mask.score is None else {"score": mask.score}),
    }


def _cvat(model: str, masks: Sequence[ListedMask]) -> str:
    """CVAT's XML for images (version 1.1): a mask each, images by the names of their own files."""
    from xml.etree import ElementTree

    root = ElementTree.Element("annotations")
    ElementTree.SubElement(root, "version").text = "1.1"
    by_scene: dict[str, list[ListedMask]] = {}
    for mask in masks:
        by_scene.setdefault(mask.scene, []).append(mask)
    for number, held in enumerate(by_scene.values()):
        height, width = held[0].mask.shape
        image = ElementTree.SubElement(
            root, "image", id=str(number), name=held[0].image or held[0].file,
            width=str(width), height=str(height),
        )  # fmt: skip
        for m in filter(lambda m: m.mask.area, held):
            bits = m.mask.bits.ravel()
            ends = np.flatnonzero(np.diff(bits, prepend=False))
            counts = np.diff(ends, prepend=0, append=len(bits))
            (top, left), (bottom, right) = m.mask.low, m.mask.high
            ElementTree.SubElement(
                image, "mask", label=m.label, source="semi-auto", occluded="0", z_order="0",
                rle=", ".join(map(str, counts.tolist())), left=str(left), top=str(top),
                width=str(right - left), height=str(bottom - top),
            )  # fmt: skip
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def brush_rle(bits: npt.NDArray[np.bool_]) -> list[int]:
    """Label Studio's run lengths of a mask: bytes of a bit stream (thi.ng's rle-pack).

    The mask is an image of four channels, 0 or 255. The stream holds its length (32 bits), bits
    per word less one (5), four sizes of run lengths less one (4 each); then, for each run, a one,
    which of the sizes (2), the run's length less one, and the word.

    >>> brush_rle(np.ones((1, 2), bool))
    [0, 0, 0, 8, 57, 27, 252, 255, 224]
    """
    words = np.repeat(np.asarray(bits, dtype=np.uint8).ravel() * 255, 4)
    head = [f"{len(words):032b}", f"{_WORD - 1:05b}", *(f"{s - 1:04b}" for s in _RUN_SIZES)]
    text = "".join([*head, *_runs(words)])
    padded = text.ljust(-(-len(text) // 8) * 8, "0")
    return np.packbits(np.frombuffer(padded.encode(), np.uint8) - ord("0")).tolist()


def _runs(words: npt.NDArray[np.uint8]) -> Iterator[str]:
    longest = 1 << _RUN_SIZES[-1]
    starts = np.flatnonzero(np.diff(words, prepend=np.uint8(1)))
    lengths = np.diff(starts, append=len(words))
    for word, whole in zip(words[starts].tolist(), lengths.tolist(), strict=True):
        for length in [longest] * (whole // longest) + [whole % longest] * bool(whole % longest):
            which = next(k for k, size in enumerate(_RUN_SIZES) if length <= 1 << size)
            yield f"1{which:02b}{length - 1:0{_RUN_SIZES[which]}b}{word:0{_WORD}b}"


LISTS: Mapping[str, MaskList] = {
    "coco": MaskList(
        "images",
        _coco,
        "pycocotools.coco.COCO(FILE) reads it; CVAT: Actions, Upload annotations, COCO 1.0; "
        "'segmeter score FILE GROUND_TRUTH' scores it",
    ),
    "cvat": MaskList(
        "images",
        _cvat,
        "CVAT: open the task with these images, Actions, Upload annotations, CVAT 1.1; images are "
        "matched by the names of their files",
        ".xml",
    ),
    "fiftyone": MaskList(
        "data",
        _coco,
        "fiftyone.Dataset.from_dir(dataset_type=fiftyone.types.COCODetectionDataset, "
        "data_path='FOLDER', labels_path='FILE', label_types='segmentations') reads it; "
        "that needs the package fiftyone",
    ),
    "labelstudio": MaskList(
        "images",
        _label_studio,
        "Label Studio imports it as tasks with predictions, in a project whose labels are "
        '<BrushLabels name="tag" toName="image"> and whose local files are above images/',
    ),
}


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
