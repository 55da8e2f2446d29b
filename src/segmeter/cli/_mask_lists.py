"""Masks of a run as lists that annotation tools read: COCO, FiftyOne, Label Studio."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scenes import Picture, Scene

__all__ = ["LISTS", "ListedMask", "MaskList", "brush_rle", "list_pictures", "write_list"]

_WORD = 8
_RUN_SIZES = (3, 4, 8, 16)  # bits that the length of a run may take


@dataclass(frozen=True, slots=True)
class ListedMask:
    """A mask with what a list says of it; `file` is the name of its picture's file."""

    file: str
    target: str
    label: str
    mask: Mask
    score: float | None


@dataclass(frozen=True, slots=True)
class MaskList:
    """How a tool's list is written, and what its user does with it."""

    pictures: str
    written: Callable[[str, Sequence[ListedMask]], Any]
    said: str


def list_pictures(folder: Path, scenes: Iterable[tuple[str, Scene]]) -> None:
    """Write pictures under the names of their files, without loss."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for name, scene in scenes:
        if not isinstance(scene, Picture):
            raise BadInput(f"{scene.name} is a volume; volumes are written with --format nifti")
        Image.fromarray(np.asarray(scene.pixels)).save(folder / name)


def write_list(path: Path, kind: str, model: str, masks: Sequence[ListedMask]) -> None:
    """One list, whole or not at all."""
    from segmeter.store.local import write_file

    write_file(path, json.dumps(LISTS[kind].written(model, masks)).encode())


def _coco(model: str, masks: Sequence[ListedMask]) -> dict[str, Any]:
    """COCO's instances: compressed run lengths; an empty mask is kept with a box of no size."""
    files = _numbered(m.file for m in masks)
    labels = _numbered(m.label for m in masks)
    sizes = {m.file: m.mask.shape for m in masks}
    return {
        "info": {"description": f"masks of {model}, written by segmeter"},
        "images": [
            {"id": k, "file_name": f, "height": sizes[f][0], "width": sizes[f][1]}
            for f, k in files.items()
        ],
        "annotations": [
            {
                "id": k,
                "image_id": files[m.file],
                "category_id": labels[m.label],
                "segmentation": m.mask.to_coco(),
                "bbox": _bbox(m.mask),
                "area": m.mask.area,
                "iscrowd": 0,
                "target": m.target,
                **({} if m.score is None else {"score": m.score}),
            }
            for k, m in enumerate(masks, 1)
        ],
        "categories": [{"id": k, "name": name} for name, k in labels.items()],
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
    """One task per picture with one prediction, its masks as brush strokes."""
    by_file: dict[str, list[ListedMask]] = {}
    for mask in masks:
        by_file.setdefault(mask.file, []).append(mask)
    return [
        {
            "data": {"image": f"/data/local-files/?d=images/{file}"},
            "predictions": [
                {
                    "model_version": model,
                    "result": [_brush(m, f"{k}-{i}") for i, m in enumerate(held)],
                }
            ],
        }
        for k, (file, held) in enumerate(by_file.items())
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


def brush_rle(bits: npt.NDArray[np.bool_]) -> list[int]:
    """Label Studio's run lengths of a mask: bytes of a bit stream (thi.ng's rle-pack).

    The mask is a picture of four channels, 0 or 255. The stream holds its length (32 bits), bits
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
    "coco": MaskList("images", _coco, "pycocotools.coco.COCO(FILE) reads it"),
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
        '<BrushLabels name="tag" toName="image"> and whose local files lie above images/',
    ),
}
