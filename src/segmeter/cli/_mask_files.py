"""Masks of a run as files: volumes as NIfTI on the grid of their own files, pictures as PNG."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import Scene
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.nifti import write_nifti
from segmeter.store import Run

__all__ = ["MaskFile", "Rounds", "mask_files"]

Rounds = Literal["last", "all"]

_COLUMNS = 'dataset, scene, model, target, "user", reading, round, mask'
_LAST = (
    'qualify round = max(round) over (partition by model, dataset, scene, target, "user", reading)'
)


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


def mask_files(run: Run, folder: Path, rounds: Rounds = "last") -> Iterator[MaskFile]:
    """Write the masks of a run, one file each, scene by scene.

    They lie in `FOLDER/DATASET/MODEL/USER/READING/TARGET/SCENE.nii.gz`, with a folder
    `round_K` above the file where all rounds are asked for.
    """
    last = _LAST if rounds == "last" else ""
    query = f"select {_COLUMNS} from rows where mask is not null {last} order by all"
    rows = run.sql(query).to_pylist()
    for (dataset, name), own in groupby(rows, key=itemgetter("dataset", "scene")):
        scene = _scene(run, dataset, name)
        grid = None if scene.header.kind == "picture" else _grid(scene)
        for row in own:
            mask = Mask.from_coco({"size": scene.shape, "counts": row["mask"]})
            path = _path(folder, row, rounds, ".png" if grid is None else ".nii.gz")
            _write(path, mask, grid)
            yield MaskFile(path, name, row["target"], mask.area)


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
