"""A folder of images and masks of your own, in most of the ways people lay them out.

`recognised` describes the layout in one sentence; options override it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound, check_choice
from segmeter.core.scenes import DatasetCard, Target
from segmeter.core.wording import counted
from segmeter.datasets import coco_files, data_roots, mask_files
from segmeter.datasets.coco_files import Named
from segmeter.datasets.coco_json import CocoJson
from segmeter.datasets.data_roots import ImageSet, SceneSet
from segmeter.datasets.mask_files import MEANING, Kind
from segmeter.datasets.pairing import Pairs, deeper, image_folder, pair
from segmeter.datasets.videos.video_folder import VideoFolder, holds_videos
from segmeter.datasets.volumes.layouts import holds_volumes
from segmeter.datasets.volumes.volume_folder import Cvpr25, VolumeFolder, holds_cases
from segmeter.runtime.remote_files import is_address, local_folder

T = TypeVar("T")
_LOOKED_AT = 32
_ADVICE = (
    "put images in 'images' and masks of the same names in 'masks', or masks next to the"
    " images as NAME_mask.png, or a COCO JSON file with the images"
)


Found = SceneSet[Any] | CocoJson


@catalogue.datasets.add("folder", "your own folder of images and masks")
def open_folder(
    path: str,
    kind: str | None = None,
    ignore: int | None = None,
    channel: int | str | None = None,
    window: str | Sequence[float] | None = None,
    components: int = 0,
    smallest: int = 0,
    grid: str = "affine",
    classes: str | Sequence[str] = "",
    modality: str = "",
    patient: str = "",
    labels: str = "",
    data: str | Path | None = None,
) -> Found:
    """Images with binary masks, label maps, one file per object, or run lengths in JSON.

    A folder of volumes (NIfTI, NRRD, DICOM) is passed to the dataset `volumes`, with all but the
    first three options.

    Parameters
    ----------
    path
        The folder; or a `.csv` that lists volumes and label maps.
    kind
        What the mask files are, when their values mislead: binary, soft, trimap, alpha,
        labels, palette or colours; of volumes organ or instance.
    ignore
        The value of a label map that is not judged.
    data
        A folder to look in for the last part of `path`, where nothing is at `path`.
    channel, window, components, smallest, grid, classes, modality, patient, labels
        Of volumes only; see `segmeter.datasets.volumes.volume_folder.VolumeFolder`.
    """
    folder, name = _located(path, data)
    place, table = str(folder), folder.is_file()
    if not table and holds_videos(folder):
        return VideoFolder(place)
    if not table and holds_cases(folder):
        cases = Cvpr25(place)
        return _noted(
            cases,
            f"{len(cases.scenes())} cases of the CVPR 2025 challenge (.npz); for ground truth in "
            f"another folder write 'cvpr25?path={place}&ground_truth=FOLDER'",
        )
    if table or holds_volumes(folder):
        meant = cast(Literal["organ", "instance"], kind or "organ")  # checked where it is used
        return VolumeFolder(
            place, meant, channel, window, components, smallest, grid, classes, modality,
            patient, labels,
        )  # fmt: skip
    card = data_roots.own_card(data_roots.printable(name or folder.resolve().name) or "folder")
    found = _recognise(folder, card, kind, ignore)
    sentence = (found.recognised, data_roots.passed_over(image_folder(folder)))
    return _noted(found, "; ".join(filter(None, sentence)))


def _noted(data: Found, recognised: str) -> Found:
    data.recognised, data.card = recognised, replace(data.card, notes=recognised)
    return data


def _located(path: str, data: str | Path | None) -> tuple[Path, str]:
    """The folder or table, or the one of its name in the data folder; its name if it is remote."""
    if not data_roots.writable(path):
        raise BadInput(
            f"the name of the folder '{data_roots.printable(path)}' is not UTF-8; rename it"
        )
    name = path.rstrip("/").rpartition("/")[2] if is_address(path) else ""
    folder = local_folder(path) if name else Path(path)
    places = [folder]
    if data is not None and not name:
        places += [Path(data) / folder, Path(data) / folder.name]
        places += [Path(data)] if Path(data).resolve().name == folder.name else []
    found = next((place for place in places if place.exists()), folder)
    if not found.is_dir() and not (found.is_file() and found.suffix.lower() == ".csv"):
        raise NotFound(f"no folder '{path}' from '{Path.cwd()}'; give its location with --data DIR")
    return found, name


def _recognise(folder: Path, card: DatasetCard, kind: str | None, ignore: int | None) -> Found:
    """The matching reader, with a sentence that describes it."""
    if kind is None:
        for found in (_from_one_json(folder, card), _from_json_per_image(folder, card)):
            if found is not None:
                return found
    pairs = pair(folder)
    if not pairs.paired:
        over = data_roots.passed_over(image_folder(folder))
        advice = deeper(folder) or _foreign(folder) or _ADVICE
        held = f"'{folder}' has {counted(len(pairs.images), 'image')} and no masks of their names"
        sentence = held if pairs.images else f"nothing recognised in '{folder}'"
        raise BadInput(f"{sentence}: {advice}" + (over and f" ({over})"))
    files = mask_files.readable(_spread(list(pairs.whole.values()) or pairs.files()))
    check_choice("kind of mask", kind or "binary", MEANING)
    meant = cast(Kind, kind or mask_files.infer_kind(files))
    if ignore is None and meant in ("labels", "palette"):
        ignore = mask_files.void_in(files)
    read = partial(_objects, pairs, meant, ignore, kind is not None)
    images = {name: pairs.images[name] for name in pairs.paired}
    data = ImageSet(card, images, read, lambda name, image: (image, *pairs.files_of(name)))
    data.unused = dict.fromkeys(pairs.unpaired, "image has no mask; add one or remove it")
    data.unused |= dict.fromkeys(pairs.stray, "mask has no image of its name; rename it")
    data.recognised = _sentence(pairs, meant, ignore)
    return data


def _objects(
    pairs: Pairs, kind: Kind, ignore: int | None, chosen: bool, scene: str
) -> Iterator[Target]:
    """The objects of a scene: those of one file for all, and of files of one object each."""
    if scene in pairs.whole:
        if kind == "binary" and not chosen:
            mask_files.check_binary(pairs.whole[scene])
        yield from mask_files.objects_in(pairs.whole[scene], kind, ignore)
    single: Kind = kind if kind in ("soft", "trimap", "alpha") else "binary"
    for name, path in pairs.single.get(scene, []):
        label = re.sub(r"[\W_]*\d*$", "", name)  # `dog_2` is a dog, `2` says nothing
        yield mask_files.object_in(path, single, name, label)


def _foreign(folder: Path) -> str:
    """The tool whose annotations a folder has, if they cannot be read; often empty."""
    advice = "which are not read: convert them to one COCO file next to the images"
    files = [path for path in image_folder(folder).glob("*.json") if path.is_file()]
    contents = (_content(path) for path in _spread(files))
    if any(isinstance(content, dict) and "shapes" in content for content in contents):
        return f"its JSON files are LabelMe's, {advice}"
    if any(folder.glob("labels/*.txt")):
        return f"its text files are YOLO's, {advice}"
    return ""


def _from_one_json(folder: Path, card: DatasetCard) -> Found | None:
    """One JSON file for all images: COCO's layout, or run lengths by image."""
    images = image_folder(folder)
    listed = {*folder.glob("*.json"), *folder.glob("annotations/*.json")}
    files = sorted(file for file in listed if file.is_file())
    if {file.stem for file in files} & {path.stem for path in data_roots.images_in(images)}:
        return None  # one per image
    for file in files:
        if coco_files.has_lists(file):
            data = CocoJson(card, file, images)
            held = f"{counted(len(data.scenes()), 'image')} with objects in the COCO file"
            count = counted(data.card.targets or 0, "object")
            notes = data.card.notes.strip().rstrip(".")
            left_out = (notes[:1].lower() + notes[1:], data.card.missing)
            sentence = (f"{held} '{file.name}', which has {count}", *filter(None, left_out))
            data.recognised = "; ".join(sentence)
            return data
        masks = coco_files.run_lengths_in(coco_files.read_json(file))
        if masks is not None:
            return _run_lengths(card, images, masks, file)
    return None


def _from_json_per_image(folder: Path, card: DatasetCard) -> Found | None:
    """A JSON file of run lengths next to each image, recognised by a few of them."""
    images = image_folder(folder)
    files = {path.stem: path for path in images.glob("*.json") if path.is_file()}
    found = {path.stem: path for path in data_roots.images_in(images) if path.stem in files}
    pairs = {name: (path, files[name]) for name, path in found.items()}
    if not any(
        coco_files.run_lengths_in({f.stem: _content(f)}) for _, f in _spread(list(pairs.values()))
    ):
        return None

    def masks(scene: str) -> list[Named]:
        file = pairs[scene][1]
        found = coco_files.run_lengths_in({f"{scene}.png": coco_files.read_json(file)})
        if found is None:
            raise BadInput(f"'{file}' holds no run-length mask; write one or move it away")
        return found[scene]

    data = coco_files.run_length_images(card, found, masks, [file for _, file in pairs.values()])
    data.recognised = f"{counted(len(pairs), 'image')} with run lengths in a JSON file each"
    return data


def _content(file: Path) -> Any:
    """A JSON file's content; a damaged one is ignored here, and reported when it is read."""
    try:
        return coco_files.read_json(file)
    except BadInput:
        return None


def _run_lengths(
    card: DatasetCard, folder: Path, masks: Mapping[str, list[Named]], file: Path
) -> Found:
    images = {path.stem: path for path in data_roots.images_in(folder)}
    count = sum(len(things) for name, things in masks.items() if name in images)
    found = {name: image for name, image in images.items() if name in masks}
    data = coco_files.run_length_images(
        replace(card, targets=count), found, masks.__getitem__, [file]
    )
    missing = [name for name in masks if name not in images]
    if count == 0:
        raise BadInput(
            f"'{file.name}' has masks for '{missing[0]}', but '{folder}' has no such image"
        )
    held = f"{counted(len(data.scenes()), 'image')} with {counted(count, 'object')}"
    data.recognised = f"{held} as run lengths in '{file.name}'"
    if missing:
        more = counted(len(missing), "record")
        data.recognised += f"; {more} without an image, the first is '{missing[0]}'"
    return data


def _sentence(pairs: Pairs, kind: Kind, ignore: int | None) -> str:
    parts = [f"{counted(len(pairs.paired), 'image')} {pairs.where}"]
    if pairs.whole:
        parts.append(MEANING[kind] + (f" ({ignore} is not judged)" if ignore is not None else ""))
    if pairs.single:
        count = sum(map(len, pairs.single.values()))
        parts.append(f"{count} files of one object each")
    if pairs.renamed:
        parts.append(f"{pairs.renamed} objects of like names are named after their files")
    if pairs.unpaired:
        parts.append(
            f"{counted(len(pairs.unpaired), 'image')} without a mask left out,"
            f" the first is '{pairs.unpaired[0]}'"
        )
    if pairs.stray:
        stray = counted(len(pairs.stray), "mask")
        parts.append(f"{stray} without an image, the first is '{pairs.stray[0]}'")
    return "; ".join(parts)


def _spread(things: list[T]) -> list[T]:
    """A few from all over the list: enough to recognise their kind."""
    if len(things) <= _LOOKED_AT:
        return things
    return [things[i * (len(things) - 1) // (_LOOKED_AT - 1)] for i in range(_LOOKED_AT)]
