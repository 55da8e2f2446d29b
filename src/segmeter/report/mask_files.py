"""Mask files of a run: PNG, NIfTI on the grid of a volume's own file, or a tool's list."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.plans import display_names
from segmeter.core.scenes import Image, Scene
from segmeter.core.videos import FrameMasks, Video
from segmeter.datasets.coco_json import CocoImage
from segmeter.datasets.volumes.cases import FileVolume
from segmeter.datasets.volumes.dicom import Series
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.stored import write_nifti
from segmeter.report.mask_formats import (
    LISTS,
    VIDEO_FORMATS,
    ListedMask,
    png_bytes,
    write_list,
    write_video,
)
from segmeter.store import Run
from segmeter.store.local import write_file

CASE_FORMATS = {"nifti-labels": ".nii.gz", "dicom-seg": ".dcm"}
"""Formats with one file per case, and how their names end."""
FORMATS = ("png", "nifti", *CASE_FORMATS, *LISTS, *VIDEO_FORMATS)

Rounds = Literal["last", "best", "all"] | int
"""Which masks: those of the last round, of the best one, of all, or after so many rounds."""

_COLUMNS = 'dataset, scene, model, "user", protocol, target, label, round, mask'
_SESSION = 'partition by model, dataset, scene, target, "user", protocol'


@dataclass(frozen=True, slots=True)
class MaskFile:
    """One mask that was written.

    Attributes
    ----------
    path
        The file that holds it; lists hold many masks.
    scene, target
        Names as in the run.
    image
        Name of the file that the scene's image was read from; empty if unknown.
    voxels
        Pixels or voxels of the mask.
    """

    path: Path
    scene: str
    target: str
    image: str
    voxels: int


@runtime_checkable
class _OnAFile(Protocol):
    """A volume that has the grid of the file it came from."""

    @property
    def grid(self) -> Grid: ...


def export_masks(
    run: Run, folder: Path, kind: str | None = None, rounds: Rounds = "last", images: bool = True
) -> list[MaskFile]:
    """Write the masks of a run as files, or as lists of an annotation tool.

    Files are `FOLDER/DATASET/MODEL/USER/PROTOCOL/TARGET/SCENE.png` (`.nii.gz` for volumes), with a
    folder `round_K` above the file for all rounds. `nifti-labels` and `dicom-seg` write one file
    for all objects of a case, `FOLDER/DATASET/MODEL/USER/PROTOCOL/SCENE.nii.gz`; of videos
    `davis` (the default) writes a folder of label maps, `gif` and `mp4` overlays and `coco-vid` a
    list with run lengths per frame in its place. Lists are
    `FOLDER/DATASET/MODEL.USER.PROTOCOL.json` next to a folder of images. Names are kept as far as
    a file system allows; where two would become one file, the second gets a number.
    """
    names = _FileNames()
    if "frames_known" in run.sql("select * from rows limit 0").column_names:
        return list(_cases(run, folder, kind or "davis", rounds, names))
    if kind is not None and kind in LISTS:
        return list(_lists(run, folder, kind, rounds, images, names))
    if kind is not None and kind in CASE_FORMATS:
        return list(_cases(run, folder, kind, rounds, names))
    return list(_files(run, folder, kind, rounds, names))


def masks_of(run: Run, rounds: Rounds = "last") -> Iterator[tuple[dict[str, Any], Mask]]:
    """The masks of a run with the facts of their rows, decoded in the sizes of their scenes."""
    for (dataset, name), own in _by_scene(_rows(run, rounds)):
        scene = _scene(run, dataset, name)
        for row in own:
            yield row, _decoded(row.pop("mask"), scene)


def _decoded(text: str, scene: Scene) -> Mask:
    kind = FrameMasks if isinstance(scene, Video) else Mask
    return kind.decoded(text, scene.shape)


def rounds_of(text: str) -> Rounds:
    """Which rounds a text names.

    >>> rounds_of("best"), rounds_of("3")
    ('best', 3)
    """
    if text in ("last", "best", "all"):
        return text  # type: ignore[return-value]  # it is one of these three
    if text.isdecimal() and 0 < int(text) < 10**6:
        return int(text)
    raise BadInput(f"--round is last, best, all or a number from 1, not '{text}'")


class _FileNames:
    """File names for names of a run, different for different names.

    >>> names = _FileNames()
    >>> [names.of("scene", name) for name in ("a b", "a/b", "a:b", "A/B", "a b")]
    ['a b', 'a_b', 'a_b~2', 'A_B~3', 'a b']
    """

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._taken: set[tuple[str, str]] = set()

    def of(self, role: str, name: str) -> str:
        """The file name for one of the names in a role, such as the scenes of a dataset."""
        if (role, name) not in self._given:
            plain = _allowed(name)
            file, k = plain, 2
            while (role, file.casefold()) in self._taken:  # some file systems ignore case
                file, k = f"{plain}~{k}", k + 1
            self._taken.add((role, file.casefold()))
            self._given[role, name] = file
        return self._given[role, name]


def _allowed(name: str) -> str:
    """A name without characters that a file system refuses; a run's names are not trusted."""
    kept = "".join(c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in name)
    short = kept.encode()[:150].decode("utf-8", "ignore")
    return short.strip(" .") or "_"


def _lists(
    run: Run, folder: Path, kind: str, rounds: Rounds, images: bool, names: _FileNames
) -> Iterator[MaskFile]:
    """One list for each dataset, model, user and reading."""
    if rounds == "all":
        raise BadInput(f"'{kind}' lists have one mask per object; take --round last, best or K")
    shown = display_names(run.plan.datasets)  # a folder by its last part
    lists: dict[tuple[str, ...], list[ListedMask]] = {}
    for (dataset, name), own in _by_scene(_rows(run, rounds)):
        scene = _scene(run, dataset, name)
        if not isinstance(scene, Image):
            raise BadInput(f"{scene.name} is a volume; volumes are written with --format nifti")
        place = folder / names.of("dataset", shown[dataset]) / LISTS[kind].images
        file, records = names.of(f"scene of {dataset}", name) + ".png", None
        if isinstance(scene, CocoImage):  # the file itself, under the name that its list has
            file, records = scene.records.path, scene.records
            if images:
                write_file(place / file, scene.source_file.read_bytes())
        elif images:
            write_file(place / file, png_bytes(np.asarray(scene.pixels)))
        elif scene.file_name:
            file = scene.file_name  # the images are in the tool already, under their own names
        for row in own:
            if records is not None and row["target"] not in records.objects:
                raise NotFound(f"{scene.name} has no object '{row['target']}'; its data changed")
            mask = Mask.decoded(row["mask"], scene.shape)
            key = (dataset, row["model"], row["user"], row["protocol"])
            lists.setdefault(key, []).append(
                ListedMask(
                    file,
                    name,
                    scene.file_name,
                    row["target"],
                    row["label"] or "object",
                    mask,
                    row["quality"],
                    records,
                )
            )
    for (dataset, *parts), held in lists.items():
        stem = ".".join(_allowed(part) for part in parts)
        file = names.of(f"list of {dataset}", stem if stem not in ("", ".") else "_")
        file += LISTS[kind].ending
        path = folder / names.of("dataset", shown[dataset]) / file
        write_list(path, kind, parts[0], held)
        yield from (MaskFile(path, m.scene, m.target, m.image, m.mask.area) for m in held)


def _files(
    run: Run, folder: Path, kind: str | None, rounds: Rounds, names: _FileNames
) -> Iterator[MaskFile]:
    """A file for each mask, scene by scene."""
    shown = display_names(run.plan.datasets)
    for (dataset, name), own in _by_scene(_rows(run, rounds)):
        scene = _scene(run, dataset, name)
        grid = None if scene.header.kind == "image" else _grid(scene)
        if kind is not None and kind != ("png" if grid is None else "nifti"):
            right = "images are written as png" if grid is None else "volumes as nifti"
            raise BadInput(f"{scene.name} cannot be written as {kind}: {right}")
        for row in own:
            mask = Mask.decoded(row["mask"], scene.shape)
            above = [names.of("dataset", shown[dataset])]
            above += [names.of(key, row[key]) for key in ("model", "user", "protocol", "target")]
            above += [f"round_{row['round']}"] if rounds == "all" else []
            file = names.of(f"scene of {dataset}", name)
            path = folder.joinpath(*above, file + (".png" if grid is None else ".nii.gz"))
            _write(path, mask, grid)
            yield MaskFile(path, name, row["target"], scene.file_name, mask.area)


def _cases(
    run: Run, folder: Path, kind: str, rounds: Rounds, names: _FileNames
) -> Iterator[MaskFile]:
    """A file for all masks of a case, for each model, user and protocol."""
    if rounds == "all":
        raise BadInput(f"'{kind}' has one mask per object; use --round last, best or a number")
    shown, rows = display_names(run.plan.datasets), _rows(run, rounds)
    values = _label_values(run, rows)
    for (dataset, name), own in _by_scene(rows):
        scene = _scene(run, dataset, name)
        if scene.header.kind == "image":
            raise BadInput(f"{scene.name} is an image; only volumes are written as {kind}")
        formats = VIDEO_FORMATS if isinstance(scene, Video) else CASE_FORMATS
        if kind not in formats:
            raise BadInput(
                f"{scene.header.kind}s are written as {', '.join(formats)}, not as {kind}"
            )
        held: dict[tuple[str, ...], dict[str, Mask]] = {}
        for row in own:
            key = tuple(row[k] for k in ("model", "user", "protocol"))
            held.setdefault(key, {})[row["target"]] = _decoded(row["mask"], scene)
        for key, masks in held.items():
            roles = zip(("model", "user", "protocol"), key, strict=True)
            above = [names.of("dataset", shown[dataset]), *(names.of(*pair) for pair in roles)]
            file = names.of(f"scene of {dataset}", name) + formats[kind]
            path = folder.joinpath(*above, file)
            if isinstance(scene, Video):
                write_video(path, kind, scene, masks)
            else:
                write_case(path, kind, scene, _grid(scene), masks, values[dataset])
            for target, mask in masks.items():
                yield MaskFile(path, name, target, scene.file_name, mask.area)


def _rows(run: Run, rounds: Rounds) -> list[dict[str, Any]]:
    """The rows whose masks are wanted, ordered by dataset and scene."""
    known = run.sql("select * from rows limit 0").column_names
    if not {"mask", "round"} <= set(known):
        raise BadInput(f"runs of '{run.plan.benchmark}' hold no masks; there is nothing to export")
    quality = next((name for name in ("iou", "dice", "jf") if name in known), "null::double")
    where, which = "mask is not null", ""
    if isinstance(rounds, int):
        where += f" and round <= {rounds}"
    if rounds == "best":
        which = f"qualify row_number() over ({_SESSION} order by {quality} desc, round) = 1"
    elif rounds != "all":
        which = f"qualify round = max(round) over ({_SESSION})"
    rows: list[dict[str, Any]] = run.sql(
        f"select {_COLUMNS}, {quality} as quality from rows where {where} {which} order by all"
    ).to_pylist()
    if not rows:
        raise BadInput(f"'{run.address}' holds no masks; there is nothing to export")
    return rows


def _by_scene(rows: list[dict[str, Any]]) -> Iterator[tuple[tuple[str, str], Any]]:
    return groupby(rows, key=itemgetter("dataset", "scene"))


def _write(path: Path, mask: Mask, grid: Grid | None) -> None:
    """One mask, complete or not at all."""
    values = mask.dense().astype(np.uint8)
    if grid is None:
        write_file(path, png_bytes(values * 255))
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.parent / f".open-{secrets.token_hex(8)}.nii.gz"
    try:
        write_nifti(partial, grid.to_file(values), grid)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _scene(run: Run, dataset: str, scene: str) -> Scene:
    try:
        return run.scene(dataset, scene)
    except NotFound as error:
        raise NotFound(
            f"masks of '{dataset}' are written in the sizes of its images, which cannot be read"
            f" ({error})"
        ) from error


def _grid(scene: Scene) -> Grid:
    """The file's own grid, or the scene's axes for volumes that came from no file."""
    if isinstance(scene, _OnAFile):
        return scene.grid
    header = scene.header
    if header.affine is None:
        raise BadInput(f"{scene.name} has no position in space; give its header an affine")
    turned = np.asarray(header.affine)[:, [2, 1, 0, 3]]  # from (x, y, z) instead of (z, y, x)
    return Grid(header.shape[::-1], turned)


Values = npt.NDArray[np.uint16]


def _label_values(run: Run, rows: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Values by dataset and target, the same in all cases: the data's own, or else free ones."""
    found: dict[str, dict[str, int]] = {}
    for (dataset, name), own in _by_scene(rows):
        scene = _scene(run, dataset, name)
        known = found.setdefault(dataset, {})
        for target in dict.fromkeys(row["target"] for row in own):
            if not known.get(target):
                value = scene.label_value(target) if isinstance(scene, FileVolume) else 0
                known[target] = 0 if value in known.values() else value
    for known in found.values():
        free = (n for n in count(1) if n not in known.values())
        known |= {target: next(free) for target, value in known.items() if not value}
    return {dataset: dict(sorted(t.items(), key=itemgetter(1))) for dataset, t in found.items()}


def write_case(
    path: Path,
    kind: str,
    scene: Scene,
    grid: Grid,
    masks: Mapping[str, Mask],
    numbers: Mapping[str, int],
) -> None:
    """Write the masks of a case, by target, with the values of `numbers`.

    Where masks overlap in a label map, the smaller object is kept; a DICOM segmentation keeps
    both. `labels.json` next to label maps names all values, as nnU-Net's `dataset.json` does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "dicom-seg":
        _write_segmentation(path, scene, masks)
        return
    values: Values = np.zeros(scene.shape, np.uint16)
    for name in sorted(masks, key=lambda name: -masks[name].area):
        values[masks[name].window][masks[name].bits] = numbers[name]
    small = values.astype(np.uint8) if max(numbers.values()) < 256 else values
    write_nifti(path, grid.to_file(small), grid)
    (path.parent / "labels.json").write_text(
        json.dumps({"labels": {"background": 0, **numbers}}, indent=1), encoding="utf-8"
    )


def _write_segmentation(path: Path, scene: Scene, masks: Mapping[str, Mask]) -> None:
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
    planes = [image.grid.to_file(mask.dense()).T for mask in masks.values()]
    tool: Any = AlgorithmIdentificationSequence(
        name="segmeter", family=codes.DCM.ArtificialIntelligence, version="1"
    )
    described = [
        Description(
            segment_number=number,
            segment_label=name[:64],
            segmented_property_category=codes.SCT.Organ,
            segmented_property_type=codes.SCT.Organ,
            algorithm_type=SegmentAlgorithmTypeValues.SEMIAUTOMATIC,
            algorithm_identification=tool,
        )
        for number, name in enumerate(masks, 1)
    ]
    try:
        made = Segmentation(
            source_images=source,
            pixel_array=np.stack(planes, axis=-1).astype(np.uint8),
            segmentation_type=SegmentationTypeValues.BINARY,
            segment_descriptions=described,
            series_instance_uid=UID(),
            series_number=900,
            sop_instance_uid=UID(),
            instance_number=1,
            manufacturer="segmeter",
            manufacturer_model_name="segmeter",
            software_versions="1",
            device_serial_number="1",
            omit_empty_frames=True,
        )
        made.save_as(path)
    except (ValueError, TypeError, AttributeError, LookupError, NotImplementedError) as error:
        reason = str(error).split("\n")[0][:120]
        raise BadInput(
            f"{scene.name}: its series lacks what a DICOM segmentation refers to ({reason}); "
            "use --format nifti-labels"
        ) from error
