"""Masks of a run as files: NIfTI on the grid of a volume's own file, PNG, or a tool's list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from segmeter.cli._mask_lists import LISTS, ListedMask, list_pictures, write_list
from segmeter.core.dataset_names import display_names
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import Picture, Scene
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.nifti import write_nifti
from segmeter.store import Run

__all__ = ["MaskFile", "Rounds", "mask_files", "mask_lists", "rounds_of"]

Rounds = Literal["last", "best", "all"] | int
"""Which masks: those of the last round, of the best one, of all, or after so many rounds."""

_COLUMNS = 'dataset, scene, model, "user", reading, target, label, round, mask'
_SESSION = 'partition by model, dataset, scene, target, "user", reading'


@dataclass(frozen=True, slots=True)
class MaskFile:
    """One mask that was written, and what it is."""

    path: Path
    scene: str
    target: str
    voxels: int


@runtime_checkable
class _OnAFile(Protocol):
    """A volume that knows the grid of the file it came from."""

    @property
    def grid(self) -> Grid: ...


def rounds_of(text: str) -> Rounds:
    """Which rounds a person asked for.

    >>> rounds_of("best"), rounds_of("3")
    ('best', 3)
    """
    if text in ("last", "best", "all"):
        return text  # type: ignore[return-value]  # it is one of these three
    if text.isdecimal() and 0 < int(text) < 10**6:
        return int(text)
    raise BadInput(f"--round is last, best, all or a number from 1, not '{text}'")


def mask_lists(
    run: Run, folder: Path, kind: str, rounds: Rounds = "last", pictures: bool = True
) -> Iterator[MaskFile]:
    """Write the masks of a run as lists of a tool, one per data set, model, user and reading.

    They lie in `FOLDER/DATASET/MODEL.USER.READING.json` beside a folder of pictures.
    """
    if rounds == "all":
        raise BadInput(f"'{kind}' lists have one mask per object; take --round last, best or K")
    shown = display_names(run.plan.datasets)  # a folder by its last part
    lists: dict[tuple[str, ...], list[ListedMask]] = {}
    for (dataset, name), own in _by_scene(_rows(run, rounds)):
        scene = _scene(run, dataset, name)
        file = f"{_plain(name)}.png"
        if pictures or not isinstance(scene, Picture):  # who refuses volumes
            list_pictures(folder / _plain(shown[dataset]) / LISTS[kind].pictures, [(file, scene)])
        for row in own:
            mask = Mask.decoded(row["mask"], scene.shape)
            key = (dataset, row["model"], row["user"], row["reading"])
            listed = ListedMask(file, row["target"], row["label"] or "object", mask, row["quality"])
            lists.setdefault(key, []).append(listed)
    for (dataset, *names), held in lists.items():
        path = folder / _plain(shown[dataset]) / (".".join(map(_plain, names)) + ".json")
        write_list(path, kind, names[0], held)
        yield from (MaskFile(path, Path(m.file).stem, m.target, m.mask.area) for m in held)


def mask_files(
    run: Run, folder: Path, rounds: Rounds = "last", kind: str | None = None
) -> Iterator[MaskFile]:
    """Write the masks of a run, one file each, scene by scene.

    They lie in `FOLDER/DATASET/MODEL/USER/READING/TARGET/SCENE.nii.gz`, with a folder
    `round_K` above the file where all rounds are asked for.
    """
    shown = display_names(run.plan.datasets)
    for (dataset, name), own in _by_scene(_rows(run, rounds)):
        scene = _scene(run, dataset, name)
        grid = None if scene.header.kind == "picture" else _grid(scene)
        if kind is not None and kind != ("png" if grid is None else "nifti"):
            right = "pictures are written as png" if grid is None else "volumes as nifti"
            raise BadInput(f"{scene.name} is no {kind}: {right}")
        for row in own:
            mask = Mask.decoded(row["mask"], scene.shape)
            path = _path(
                folder,
                row | {"dataset": shown[dataset]},
                rounds,
                ".png" if grid is None else ".nii.gz",
            )
            _write(path, mask, grid)
            yield MaskFile(path, name, row["target"], mask.area)


def _rows(run: Run, rounds: Rounds) -> list[dict[str, Any]]:
    """The rows whose masks are wanted, ordered by data set and scene."""
    known = run.sql("select * from rows limit 0").column_names
    if not {"mask", "round"} <= set(known):
        raise BadInput(
            f"a run of '{run.plan.benchmark}' keeps no masks, so there are none to write"
        )
    quality = next((name for name in ("iou", "dice") if name in known), "null::double")
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
        raise BadInput(f"'{run.address}' kept no masks, so there is nothing to write")
    return rows


def _by_scene(rows: list[dict[str, Any]]) -> Iterator[tuple[tuple[str, str], Any]]:
    return groupby(rows, key=itemgetter("dataset", "scene"))


def _write(path: Path, mask: Mask, grid: Grid | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if grid is not None:
        write_nifti(path, grid.to_file(mask.dense().astype(np.uint8)), grid)
        return
    from PIL import Image

    Image.fromarray(mask.dense().astype(np.uint8) * 255).save(path)


def _scene(run: Run, dataset: str, scene: str) -> Scene:
    try:
        return run.scene(dataset, scene)
    except NotFound as error:
        raise NotFound(
            f"masks of '{dataset}' are written in the sizes of its files, which are not at hand"
            f" ({error})"
        ) from error


def _grid(scene: Scene) -> Grid:
    """The file's own grid, or the scene's axes for volumes that came from no file."""
    if isinstance(scene, _OnAFile):
        return scene.grid
    header = scene.header
    if header.affine is None:
        raise BadInput(f"{scene.name} does not say where it lies; give its header an affine")
    turned = np.asarray(header.affine)[:, [2, 1, 0, 3]]  # from (x, y, z) instead of (z, y, x)
    return Grid(header.shape[::-1], turned)


def _path(folder: Path, row: dict[str, Any], rounds: Rounds, suffix: str) -> Path:
    names = [row[key] for key in ("dataset", "model", "user", "reading", "target")]
    if rounds == "all":
        names.append(f"round_{row['round']}")
    return folder.joinpath(*(_plain(str(name)) for name in names), _plain(row["scene"]) + suffix)


def _plain(name: str) -> str:
    """A name as a file system takes it; a run's names are not trusted."""
    return re.sub(r"[^\w.=-]+", "_", name).strip(".") or "_"
