"""Mask files of a run: PNG, NIfTI on the grid of a volume's own file, or a tool's list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.grouping import grouped
from segmeter.core.masks import Mask
from segmeter.core.plans import display_names
from segmeter.core.scenes import Scene
from segmeter.core.videos import FrameMasks, Video
from segmeter.core.wording import some
from segmeter.datasets.coco_json import CocoImage
from segmeter.datasets.volumes.cases import FileVolume
from segmeter.export.formats import FORMATS, ExportedMask, Format, png_bytes
from segmeter.store import Run
from segmeter.store.local import write_file

Rounds = Literal["last", "best", "all"] | int
"""Which masks: those of the last round, of the best one, of all, or after so many rounds."""

_COLUMNS = 'dataset, scene, model, "user", protocol, target, label, round, mask'
_FEW = 5  # scenes that an error names
_MADE_BY = ("model", "user", "protocol")
_PLACE = itemgetter("dataset", "scene")
_SESSION = 'partition by model, dataset, scene, target, "user", protocol'


@dataclass(frozen=True, slots=True)
class MaskFile:
    """One mask that was written."""

    path: Path  # the file that holds it; lists hold many masks
    scene: str
    target: str
    image: str  # name of the file that the scene's image was read from; empty if unknown
    voxels: int  # or pixels of the mask


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
    A scene whose masks the format cannot hold does not stop the others: BadInput at the end.
    """
    names, rows = _FileNames(), _rows(run, rounds)
    shown = display_names(run.plan.datasets)  # a folder by its last part
    listed = kind is not None and FORMATS[kind].holds == "dataset"
    values = _label_values(run, rows) if kind == "nifti-labels" else {}
    written: list[MaskFile] = []
    refused: dict[str, BadInput] = {}  # by scene
    for (dataset, _), group in groupby(
        rows, key=lambda row: (row["dataset"], "" if listed else row["scene"])
    ):
        held: dict[Path, list[ExportedMask]] = {}
        for name, own in groupby(group, key=itemgetter("scene")):
            scene = _scene(run, dataset, name)
            form = _format(scene, kind, rounds)
            place = folder / names.of("dataset", shown[dataset])
            stem = names.of(f"scene of {dataset}", name)
            file = _list_image(scene, place / form.images, stem, images) if listed else ""
            for row in own:
                path = place / _path(names, row, form, stem, rounds)
                held.setdefault(path, []).append(_exported(row, scene, file))
        for path, masks in held.items():
            try:
                form.write(path, masks, scene, values.get(dataset, {}))
            except BadInput as error:
                refused[scene.name] = error
                continue
            written += [MaskFile(path, m.scene, m.target, m.image, m.mask.area) for m in masks]
    if refused:
        left, why = some([*refused], _FEW), next(iter(refused.values()))
        raise BadInput(f"masks written: {len(written)}, and none of {left}: {why}") from why
    return written


def _format(scene: Scene, kind: str | None, rounds: Rounds) -> Format:
    """The format of a scene's masks: the named one, or the first of its kind."""
    usual = [name for name, one in FORMATS.items() if one.scenes == scene.header.kind]
    name = kind or usual[0]
    if name not in usual:
        raise BadInput(
            f"{scene.name}: {scene.header.kind}s are written as {', '.join(usual)}, not as {name}"
        )
    if rounds == "all" and FORMATS[name].holds != "mask":
        raise BadInput(f"'{name}' has one mask per object; use --round last, best or a number")
    return FORMATS[name]


def _path(
    names: _FileNames, row: Mapping[str, Any], form: Format, stem: str, rounds: Rounds
) -> Path:
    """The file that holds a mask, in the folder of its dataset."""
    if form.holds == "dataset":
        parts = ".".join(names.of(key, row[key]) for key in _MADE_BY)
        return Path(names.of(f"list of {row['dataset']}", parts) + form.ending)
    roles = (*_MADE_BY, "target") if form.holds == "mask" else _MADE_BY
    above = [names.of(role, row[role]) for role in roles]
    above += [f"round_{row['round']}"] if rounds == "all" else []
    return Path(*above, stem + form.ending)


def _list_image(scene: Scene, place: Path, stem: str, images: bool) -> str:
    """The name of a scene's image in a list; the image itself is written where it is wanted."""
    if isinstance(scene, CocoImage):  # the file itself, under the name that its list has
        if images:
            _put_image(place / scene.records.path, scene.source_file.read_bytes())
        return scene.records.path
    if images:
        _put_image(place / f"{stem}.png", png_bytes(np.asarray(scene.pixels)))
        return f"{stem}.png"
    return scene.file_name or f"{stem}.png"  # the images are in the tool already


def _put_image(path: Path, content: bytes) -> None:
    """Write an image; refused if another is there, such as the 16-bit original."""
    if path.exists() and path.read_bytes() != content:
        raise BadInput(f"'{path}' is there already and differs; choose another --out")
    write_file(path, content)


def _exported(row: Mapping[str, Any], scene: Scene, file: str) -> ExportedMask:
    records = scene.records if isinstance(scene, CocoImage) else None
    if file and records is not None and row["target"] not in records.objects:
        raise NotFound(f"{scene.name} has no object '{row['target']}'; its data changed")
    return ExportedMask(
        _decoded(row["mask"], scene), row["model"], row["scene"], row["target"],
        row["label"] or "object", row["quality"], scene.file_name, file, records,
    )  # fmt: skip


def masks_of(run: Run, rounds: Rounds = "last") -> Iterator[tuple[dict[str, Any], Mask]]:
    """The masks of a run with the facts of their rows, decoded in the sizes of their scenes."""
    for (dataset, name), own in grouped(_rows(run, rounds), _PLACE).items():
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


def _rows(run: Run, rounds: Rounds) -> list[dict[str, Any]]:
    """The rows whose masks are wanted, ordered by dataset and scene."""
    known = run.columns("rows")
    if not {"mask", "round"} <= set(known):
        raise BadInput(f"runs of '{run.plan.benchmark}' hold no masks; there is nothing to export")
    quality = next((name for name in ("iou", "dice", "jf") if name in known), "null::double")
    where, which = "mask is not null", ""
    if isinstance(rounds, int):
        if 0 < run.plan.rounds < rounds:
            raise BadInput(f"--round {rounds}: sessions of this run have {run.plan.rounds} rounds")
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


def _scene(run: Run, dataset: str, scene: str) -> Scene:
    try:
        return run.scene(dataset, scene)
    except NotFound as error:
        raise NotFound(
            f"masks of '{dataset}' are written in the sizes of its images, which cannot be read"
            f" ({error})"
        ) from error


def _label_values(run: Run, rows: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Values by dataset and target, the same in all cases: the data's own, or else free ones."""
    found: dict[str, dict[str, int]] = {}
    for (dataset, name), own in grouped(rows, _PLACE).items():
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
