"""Masks that people are shown: a run's, or PNG files in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.study.plan import Masks

__all__ = ["MaskFolder", "RunMasks", "open_masks"]

Key = tuple[str, str]


class RunMasks:
    """The masks that a model gave in one round of a run.

    Where several users played, the first by name and the reading `sound` are taken.
    """

    def __init__(self, run: Path, model: str, round: int) -> None:
        self._masks = _read_run(run, model, round)

    def mask(self, scene: str, target: str) -> Mask | None:
        return self._masks.get((scene, target))


class MaskFolder:
    """PNG files `SCENE_TARGET.png`, or `SCENE.png` for pictures with one target."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise NotFound(f"[[masks]]: there is no folder '{folder}'")
        self._folder = folder.resolve()

    def mask(self, scene: str, target: str) -> Mask | None:
        import cv2

        for name in (f"{scene}_{target}.png", f"{scene}.png"):
            path = (self._folder / name).resolve()
            if path.parent == self._folder and path.is_file():
                pixels = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
                if pixels is None:
                    raise BadInput(f"'{path}' is not a picture")
                return Mask.of(np.asarray(pixels) > 127)
        return None


def open_masks(masks: Masks, folder: Path) -> RunMasks | MaskFolder:
    """A source of masks; paths are taken from where the plan lies."""
    if masks.source == "run":
        return RunMasks(folder / masks.run, masks.model, masks.round)
    return MaskFolder(folder / masks.folder)


def _read_run(run: Path, model: str, round: int) -> Mapping[Key, Mask]:
    from segmeter.store.results import Run

    table = Run.open(run).sql('select * from rows order by reading desc, "user", scene, target')
    if "mask" not in table.column_names:
        raise BadInput(f"the run '{run}' kept no masks; run it with --keep-masks")
    found: dict[Key, Mask] = {}
    for row in table.to_pylist():
        if row["model"] == model and row["round"] == round and row["mask"] is not None:
            found.setdefault((row["scene"], row["target"]), _mask_of(row))
    if not found:
        raise BadInput(f"the run '{run}' has no masks of the model '{model}' in round {round}")
    return found


def _mask_of(row: Mapping[str, Any]) -> Mask:
    size = list(row["shape"]) if "shape" in row else [row["height"], row["width"]]
    return Mask.from_coco({"size": size, "counts": row["mask"]})
