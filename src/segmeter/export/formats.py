"""Mask formats: a file for a mask, for all masks of a scene, or for those of a whole dataset."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from segmeter.core import rle
from segmeter.core.errors import BadInput, NotFound, first_line
from segmeter.core.grouping import grouped
from segmeter.core.masks import Mask
from segmeter.core.scenes import Scene
from segmeter.core.videos import Video, label_map
from segmeter.datasets.coco_json import CocoRecords
from segmeter.datasets.volumes.cases import FileVolume
from segmeter.datasets.volumes.dicom import Series
from segmeter.datasets.volumes.stored import Grid, write_nifti
from segmeter.store.local import write_file

_WORD = 8
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_RUN_SIZES = (3, 4, 8, 16)  # bits that the length of a run may take


@dataclass(frozen=True, slots=True)
class ExportedMask:
    """A mask with the names that it has in its run."""

    mask: Mask
    model: str
    scene: str
    target: str
    label: str
    score: float | None
    image: str  # name of the file that the scene's image was read from; empty if unknown
    file: str = ""  # name of the image's file in a list
    records: CocoRecords | None = None  # of the COCO file that the scene came from


@dataclass(frozen=True, slots=True)
class Format:
    """How masks are written.

    A file holds one mask, or the last masks of all objects of a scene or a dataset. `write` takes
    its path, its masks, and, unless it is a list, their scene and the values that stand for the
    targets of its dataset.
    """

    scenes: Literal["image", "volume", "video"]  # those that have such masks
    holds: Literal["mask", "scene", "dataset"]
    write: Callable[..., None]
    ending: str  # of names of files; a folder has none
    images: str = ""  # the folder for the images of a list
    hint: str = ""  # how to open the files in the tool that they are for


def png_bytes(values: npt.NDArray[np.uint8], palette: Sequence[int] = ()) -> bytes:
    """An image as a PNG file; of labels in the colours of a palette."""
    from PIL import Image

    held, image = io.BytesIO(), Image.fromarray(values)
    if palette:
        image.putpalette(palette)
    image.save(held, "png")
    return held.getvalue()


def _png(path: Path, masks: Sequence[ExportedMask], *_: object) -> None:
    write_file(path, png_bytes(masks[0].mask.dense().astype(np.uint8) * 255))


def _coco(path: Path, masks: Sequence[ExportedMask], *_: object) -> None:
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
        annotations.append({
            **held, "image_id": image["id"], "segmentation": m.mask.to_coco(),
            "bbox": _bbox(m.mask), "area": m.mask.area, "iscrowd": 0, "target": m.target,
            **({} if m.score is None else {"score": m.score}),
        })  # fmt: skip
    made = {
        "info": {"description": f"masks of {masks[0].model}, written by segmeter"},
        "images": list(images.values()),
        "annotations": annotations,
        "categories": list(categories),
    }
    write_file(path, json.dumps(made).encode())


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Numbers from 1 on, in the order in which names come."""
    return {name: k for k, name in enumerate(dict.fromkeys(names), 1)}


def _bbox(mask: Mask) -> list[float]:
    """COCO's box: left, top, width, height, from pixels' outer edges."""
    if not mask:
        return [0.0, 0.0, 0.0, 0.0]
    (top, left), (bottom, right) = mask.low, mask.high
    return [float(left), float(top), float(right - left), float(bottom - top)]


def _label_studio(path: Path, masks: Sequence[ExportedMask], *_: object) -> None:
    """One task per image with one prediction, its masks as brush strokes."""
    tasks = []
    for k, held in enumerate(grouped(masks, attrgetter("scene")).values()):
        image = f"/data/local-files/?d={quote(f'images/{held[0].file}')}"
        strokes = [_brush(m, f"{k}-{i}") for i, m in enumerate(held)]
        data = {"image": image, "original_file_name": held[0].image}
        found = [{"model_version": held[0].model, "result": strokes}]
        tasks.append({"data": data, "predictions": found})
    write_file(path, json.dumps(tasks).encode())


def _brush(mask: ExportedMask, name: str) -> dict[str, Any]:
    height, width = mask.mask.shape
    strokes = brush_rle(mask.mask.dense())
    return {
        "id": name, "type": "brushlabels", "from_name": "tag", "to_name": "image",
        "original_width": width, "original_height": height, "image_rotation": 0,
        "value": {"format": "rle", "rle": strokes, "brushlabels": [mask.label]},
        **({} if mask.score is None else {"score": mask.score}),
    }  # fmt: skip


def _cvat(path: Path, masks: Sequence[ExportedMask], *_: object) -> None:
    """CVAT's XML for images (version 1.1): a mask each, images by the names of their own files."""
    from xml.etree import ElementTree

    root = ElementTree.Element("annotations")
    ElementTree.SubElement(root, "version").text = "1.1"
    for number, held in enumerate(grouped(masks, attrgetter("scene")).values()):
        height, width = held[0].mask.shape
        image = ElementTree.SubElement(
            root, "image", id=str(number), name=held[0].image or held[0].file,
            width=str(width), height=str(height),
        )  # fmt: skip
        for m in filter(lambda m: m.mask.area, held):
            counts = rle.of_bits(m.mask.bits).tolist()
            (top, left), (bottom, right) = m.mask.low, m.mask.high
            ElementTree.SubElement(
                image, "mask", label=m.label, source="semi-auto", occluded="0", z_order="0",
                rle=", ".join(map(str, counts)), left=str(left), top=str(top),
                width=str(right - left), height=str(bottom - top),
            )  # fmt: skip
    text = ElementTree.tostring(root, encoding="unicode", xml_declaration=True)
    write_file(path, _NOT_XML.sub("_", text).encode())


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


_COLOURS = ((230, 25, 75), (60, 180, 75), (0, 130, 200), (245, 130, 48), (145, 30, 180))
_WIDEST = 480


def _davis(folder: Path, masks: Sequence[ExportedMask], scene: Video, *_: object) -> None:
    palette = [0, 0, 0, *np.ravel(_COLOURS).tolist()]
    for t, labels in enumerate(_label_maps(scene, masks)):
        write_file(folder / f"{t:05d}.png", png_bytes(labels.astype(np.uint8), palette))


def _label_maps(scene: Video, masks: Sequence[ExportedMask]) -> Iterator[npt.NDArray[np.int_]]:
    return (label_map([m.mask for m in masks], t) for t in range(len(scene)))


def _overlays(scene: Video, masks: Sequence[ExportedMask]) -> Iterator[npt.NDArray[np.uint8]]:
    """Frames with the objects tinted, at most 480 pixels wide."""
    import cv2

    for t, labels in enumerate(_label_maps(scene, masks)):
        pixels, inside = scene.frame(t).copy(), labels > 0
        colours = np.array(_COLOURS)[(labels[inside] - 1) % len(_COLOURS)]
        pixels[inside] = (pixels[inside] + colours) // 2
        scale = min(1.0, _WIDEST / pixels.shape[1])
        yield np.asarray(cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA))


def _gif(path: Path, masks: Sequence[ExportedMask], scene: Video, *_: object) -> None:
    from PIL import Image

    frames = (Image.fromarray(one).quantize(64) for one in _overlays(scene, masks))
    first, file = next(frames), io.BytesIO()
    each = round(1000 / (scene.header.frame_rate or 24.0))
    first.save(file, "GIF", save_all=True, append_images=frames, duration=each, loop=0)
    write_file(path, file.getvalue())


def _mp4(path: Path, masks: Sequence[ExportedMask], scene: Video, *_: object) -> None:
    import cv2

    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter()
    for one in _overlays(scene, masks):
        code, rate = cv2.VideoWriter.fourcc(*"mp4v"), scene.header.frame_rate or 24.0
        if not writer.isOpened() and not writer.open(str(path), code, rate, one.shape[1::-1]):
            raise BadInput("this OpenCV cannot write MP4; use --format gif")
        writer.write(one[..., ::-1])
    writer.release()


def _coco_vid(path: Path, masks: Sequence[ExportedMask], scene: Video, *_: object) -> None:
    """A video and its objects as COCO-VID lists them; frames without the object are null."""
    length, height, width = scene.shape
    size = {"width": width, "height": height, "length": length}
    listed = []
    for k, m in enumerate(masks, 1):
        slices = [m.mask.slice(t) for t in range(length)]
        listed.append({
            "id": k, "video_id": 1, "category_id": 1, "object": m.target, "iscrowd": 0,
            "segmentations": [one.to_coco() if one else None for one in slices],
            "bboxes": [_bbox(one) if one else None for one in slices],
            "areas": [one.area if one else None for one in slices],
        })  # fmt: skip
    categories = [{"id": 1, "name": "object"}]
    videos = [{"id": 1, "name": scene.id, **size}]
    made = {"videos": videos, "annotations": listed, "categories": categories}
    write_file(path, json.dumps(made).encode())


def _grid(scene: Scene) -> Grid:
    """The file's own grid, or the scene's axes for volumes that came from no file."""
    own, header = getattr(scene, "grid", None), scene.header
    if isinstance(own, Grid):
        return own
    if header.affine is None:
        raise BadInput(f"{scene.name} has no position in space; give its header an affine")
    turned = np.asarray(header.affine)[:, [2, 1, 0, 3]]  # from (x, y, z) instead of (z, y, x)
    return Grid(header.shape[::-1], turned)


def _nifti(path: Path, masks: Sequence[ExportedMask], scene: Scene, *_: object) -> None:
    _write_volume(path, masks[0].mask.dense().astype(np.uint8), _grid(scene))


def _write_volume(path: Path, values: npt.NDArray[Any], grid: Grid) -> None:
    """A file on the grid of a volume's own file, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.parent / f".open-{secrets.token_hex(8)}.nii.gz"
    try:
        write_nifti(partial, grid.to_file(values), grid)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _nifti_labels(
    path: Path, masks: Sequence[ExportedMask], scene: Scene, numbers: Mapping[str, int]
) -> None:
    """A label map with the values of `numbers`; where masks overlap, the smaller object is kept.

    `labels.json` next to it names all values, as nnU-Net's `dataset.json` does.
    """
    values: npt.NDArray[np.uint16] = np.zeros(scene.shape, np.uint16)
    for m in sorted(masks, key=lambda m: -m.mask.area):
        values[m.mask.window][m.mask.bits] = numbers[m.target]
    small = values.astype(np.uint8) if max(numbers.values()) < 256 else values
    _write_volume(path, small, _grid(scene))
    names = json.dumps({"labels": {"background": 0, **numbers}}, indent=1)
    write_file(path.parent / "labels.json", names.encode())


def _dicom_seg(path: Path, masks: Sequence[ExportedMask], scene: Scene, *_: object) -> None:
    if importlib.util.find_spec("highdicom") is None:
        raise NotFound(
            "DICOM-SEG needs the package 'highdicom';"
            " install the extra: pip install 'segmeter[volumes]'"
        )
    image = scene.case.image if isinstance(scene, FileVolume) else None
    if not isinstance(image, Series):
        raise BadInput(
            f"{scene.name} was not read from DICOM, and a DICOM segmentation refers to its series;"
            " use --format nifti or nifti-labels"
        )
    from highdicom import AlgorithmIdentificationSequence
    from highdicom.seg import SegmentAlgorithmTypeValues, Segmentation, SegmentationTypeValues
    from highdicom.seg import SegmentDescription as Description
    from highdicom.uid import UID
    from pydicom.sr.codedict import codes

    source = image.headers()
    # (slices, rows, columns, segments), in the order of the series
    planes = [image.grid.to_file(m.mask.dense()).T for m in masks]
    tool: Any = AlgorithmIdentificationSequence(
        name="segmeter", family=codes.DCM.ArtificialIntelligence, version="1"
    )
    described = [
        Description(
            segment_number=number, segment_label=m.target[:64], algorithm_identification=tool,
            segmented_property_category=codes.SCT.Organ, segmented_property_type=codes.SCT.Organ,
            algorithm_type=SegmentAlgorithmTypeValues.SEMIAUTOMATIC,
        )
        for number, m in enumerate(masks, 1)
    ]  # fmt: skip
    try:
        made = Segmentation(
            source_images=source, segment_descriptions=described, omit_empty_frames=True,
            pixel_array=np.stack(planes, axis=-1).astype(np.uint8),
            segmentation_type=SegmentationTypeValues.BINARY, instance_number=1, series_number=900,
            series_instance_uid=UID(), sop_instance_uid=UID(), device_serial_number="1",
            manufacturer="segmeter", manufacturer_model_name="segmeter", software_versions="1",
        )  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        made.save_as(path)
    except (ValueError, TypeError, AttributeError, LookupError, NotImplementedError) as error:
        raise BadInput(
            f"{scene.name}: its series lacks what a DICOM segmentation refers to "
            f"({first_line(error)}); use --format nifti-labels"
        ) from error


FORMATS: Mapping[str, Format] = {
    "png": Format("image", "mask", _png, ".png"),
    "nifti": Format("volume", "mask", _nifti, ".nii.gz"),
    "nifti-labels": Format("volume", "scene", _nifti_labels, ".nii.gz"),
    "dicom-seg": Format("volume", "scene", _dicom_seg, ".dcm"),
    "coco": Format(
        "image", "dataset", _coco, ".json", "images",
        "pycocotools.coco.COCO(FILE) reads it; CVAT: Actions, Upload annotations, COCO 1.0; "
        "'segmeter score FILE GROUND_TRUTH.json' scores it",
    ),
    "cvat": Format(
        "image", "dataset", _cvat, ".xml", "images",
        "CVAT: open the task with these images, Actions, Upload annotations, CVAT 1.1; images are "
        "matched by the names of their files",
    ),
    "fiftyone": Format(
        "image", "dataset", _coco, ".json", "data",
        "fiftyone.Dataset.from_dir(dataset_type=fiftyone.types.COCODetectionDataset, "
        "data_path='FOLDER', labels_path='FILE', label_types='segmentations') reads it; "
        "that needs the package fiftyone",
    ),
    "labelstudio": Format(
        "image", "dataset", _label_studio, ".json", "images",
        "Label Studio imports it as tasks with predictions, in a project whose labels are "
        '<BrushLabels name="tag" toName="image"> and whose local files are above images/',
    ),
    "davis": Format("video", "scene", _davis, ""),
    "coco-vid": Format("video", "scene", _coco_vid, ".json"),
    "gif": Format("video", "scene", _gif, ".gif"),
    "mp4": Format("video", "scene", _mp4, ".mp4"),
}  # fmt: skip
"""By name; the first of a kind of scenes is its default."""
