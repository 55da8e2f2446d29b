"""CVPR25 files: cases of the CVPR 2025 challenge on interactive segmentation, one `.npz` each.

Arrays are `(z, y, x)`, `spacing` is (x, y, z). Boxes and text prompts, which NumPy pickles, are not
read: boxes are drawn by the user `cvpr25-clicks`.
"""

from __future__ import annotations

import zipfile
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import KnowsItsScan, capable
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.scenes import SceneHeader, Volume
from segmeter.core.sections import SCENE_NUMBERS
from segmeter.datasets.data_roots import SceneSet, own_card
from segmeter.datasets.image_files import named_errors
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.labels import Labelling, targets_in

_MOST_BYTES = 1 << 33
_CITATION = (
    "Ma et al. Foundation models for interactive 3D biomedical image segmentation. CVPR 2025 "
    "challenge"
)


def read_member(path: Path, name: str) -> npt.NDArray[Any] | None:
    """One array of a case; None if absent. Pickled ones are refused: nothing is executed."""
    with named_errors(path, f"'{name}' cannot be read"), np.load(path) as archive:
        if name not in archive.files:
            return None
        size = archive.zip.getinfo(f"{name}.npy").file_size
        if size > _MOST_BYTES:
            raise ValueError(f"it has {size} bytes; at most {_MOST_BYTES} are read")
        found: npt.NDArray[Any] = archive[name]
        return found


def holds_cases(folder: Path) -> bool:
    """Whether a folder holds cases of the challenge: `.npz` files with `imgs`."""
    first = next(iter(sorted(folder.glob("*.npz"))), None)
    if first is None or not zipfile.is_zipfile(first):
        return False
    with zipfile.ZipFile(first) as archive:
        return "imgs.npy" in archive.namelist()


@capable(KnowsItsScan)
class _Case(Volume):
    """One case; its modality is the beginning of its name."""

    window = None

    def __init__(self, dataset: str, path: Path, ground_truth: Path) -> None:
        self.path = path
        super().__init__(
            dataset,
            path.stem,
            lambda: _volume(path, "imgs"),
            lambda: targets_in(_volume(ground_truth, "gts"), Labelling(), f"'{ground_truth}'"),
            header=self._head,
        )

    @property
    def modality(self) -> str:
        return {"PET": "PT"}.get(first := self.path.stem.partition("_")[0], first)

    @cached_property
    def grid(self) -> Grid:
        """The grid of its arrays, which have no affine: axes as those of the scene."""
        z, y, x = self.header.spacing_mm or (1.0, 1.0, 1.0)
        return Grid(self.shape[::-1], np.diag((x, y, z, 1.0)))

    @property
    def slice_numbers(self) -> tuple[tuple[str, int, int], ...]:
        return SCENE_NUMBERS

    def _head(self) -> SceneHeader:
        spacing = read_member(self.path, "spacing")
        found = [1.0, 1.0, 1.0] if spacing is None else np.ravel(spacing).tolist()
        if len(found) != 3 or not all(0 < s < float("inf") for s in found):
            raise BadInput(f"'{self.path}': spacing is three positive numbers, not {found}")
        x, y, z = found
        return SceneHeader("volume", _volume(self.path, "imgs").shape, spacing_mm=(z, y, x))


def _volume(path: Path, name: str) -> npt.NDArray[Any]:
    found = read_member(path, name)
    if found is None or found.ndim != 3:
        raise BadInput(f"'{path}' has no volume '{name}'; give the folder of ground truths")
    return found


@catalogue.datasets.add("cvpr25", summary="cases of the CVPR 2025 interactive challenge (.npz)")
class Cvpr25(SceneSet[tuple[Path, Path]]):
    """A folder of `.npz` files with `imgs`, `spacing` and maybe `boxes` and `gts`.

    `ground_truth` is a folder of files of the same names with `gts`; `path` if empty.
    """

    def __init__(self, path: str, ground_truth: str = "") -> None:
        folder, other = Path(path), Path(ground_truth or path)
        if not folder.is_dir():
            raise NotFound(f"no folder '{path}'")
        cases = {file.stem: (file, other / file.name) for file in sorted(folder.glob("*.npz"))}
        if not cases:
            raise NotFound(f"no .npz file in '{path}'")
        card = replace(own_card(folder.resolve().name), citation=_CITATION)
        super().__init__(
            card, cases, lambda _, files: _Case(card.name, *files), lambda files: files
        )
