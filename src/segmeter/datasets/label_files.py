"""Label files: folders of masks and label maps, of ground truth or predictions, without images.

PNG, TIFF, BMP, `.npy`, `.mat` and run lengths in JSON for images; NIfTI, NRRD and MetaImage for
volumes. 0 is background.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.models import ModelCard
from segmeter.core.scenes import DatasetCard, Header, Image, Scene, Target, Volume, size_in_words
from segmeter.datasets.labelmaps import RESULT_SUFFIXES, read_label_map
from segmeter.datasets.places import digest, known
from segmeter.datasets.volumes.stored import case_name, is_volume, open_stored

__all__ = ["LabelFolder", "Predictions"]

Labels = npt.NDArray[Any]


class LabelFolder:
    """Ground truth: every value of a file but 0 is an object, named by its value."""

    def __init__(self, path: str | Path) -> None:
        self._files = _label_files(Path(path))
        self.card = DatasetCard(
            Path(path).resolve().name,
            "a folder of masks of your own",
            "your own",
            "nothing to cite",
        )

    def scenes(self) -> Sequence[str]:
        return list(self._files)

    def load(self, scene: str) -> Scene:
        known(self.card.name, scene, self._files)
        labels, header = _read(self._files[scene])
        values = [int(v) for v in np.unique(labels) if v]
        targets = [Target(str(v), Mask.of(labels == v), label=f"label {v}") for v in values]
        if header is None:
            shown = np.repeat((255 * (labels > 0)).astype(np.uint8)[..., None], 3, axis=2)
            return Image(self.card.name, scene, shown, targets, file_name=self._files[scene].name)
        return Volume(self.card.name, scene, labels, targets, header=header)

    def fingerprint(self) -> str:
        return digest(self._files.values())


class PredictedLabels:
    """The predicted label map of one scene."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels


class Predictions:
    """A folder of predictions, in place of a model: `encode` reads the file of a scene."""

    def __init__(self, path: str | Path, name: str = "") -> None:
        self._folder = Path(path)
        self._files = _label_files(self._folder)
        self.card = ModelCard(
            name or self._folder.resolve().name,
            "masks that another program made",
            frozenset({"automatic"}),
            citation="nothing to cite",
            fingerprint=digest(self._files.values()),
        )

    def encode(self, scene: Scene) -> PredictedLabels:
        """The label map of a scene; NotFound if the folder has no file of its name."""
        if scene.id not in self._files:
            raise NotFound(f"'{self._folder}' has no prediction of '{scene.id}'")
        labels, _ = _read(self._files[scene.id])
        if labels.shape != scene.shape:
            raise BadInput(
                f"{scene.name}: the ground truth is {size_in_words(scene.shape)} but the "
                f"prediction {size_in_words(labels.shape)}; resample the prediction"
            )
        return PredictedLabels(labels)


def _label_files(folder: Path) -> dict[str, Path]:
    """Files by the name of their scene, in the order of names."""
    if not folder.is_dir():
        raise NotFound(f"no folder '{folder}'")
    files = [p for p in sorted(folder.iterdir())
             if p.is_file() and (is_volume(p) or p.suffix.lower() in RESULT_SUFFIXES)]  # fmt: skip
    found: dict[str, Path] = {}
    for path in files:
        name = case_name(path) if is_volume(path) else path.stem
        if name in found:
            both = f"'{found[name].name}' and '{path.name}'"
            raise BadInput(f"{both} in '{folder}' are both of '{name}'; keep one")
        found[name] = path
    if not found:
        raise NotFound(f"no mask in '{folder}': PNG, TIFF, .npy, .mat, JSON, NIfTI or NRRD files")
    return found


def _read(path: Path) -> tuple[Labels, Header | None]:
    """A label map, and its header if it is a volume, `(z, y, x)`."""
    if not is_volume(path):
        return read_label_map(path), None
    stored = open_stored(path)
    values = stored.grid.to_scene(stored.read())
    labels = np.rint(values).astype(np.int32)
    if not np.array_equal(labels, values):
        raise BadInput(f"'{path}' holds fractions; a label map has whole numbers")
    return labels, stored.grid.header()
