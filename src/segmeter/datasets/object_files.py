"""Objects and proposals of a user's own, read from files.

- an object: a mask file (`.png`, `.npy`, `.mat`), where every label but 0 belongs to it, or
  run lengths in `.json`;
- the objects of an image: a label map with an object a label, or a `.json` list of run
  lengths, each with its `category` (or `category_id`) where classes matter;
- proposals: a `.json` list of run lengths, best first; they may overlap.

Pixels with the label `void` are not judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.datasets.labelmaps import RESULT_SUFFIXES, read_label_map, read_run_lengths

__all__ = ["Objects", "paired_files", "read_object", "read_objects", "read_proposals"]


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of an image with their classes, and what is not judged."""

    masks: tuple[Mask, ...]
    classes: tuple[str, ...]
    ignore: Mask | None = None


def read_object(path: Path, void: int | None = None) -> tuple[Mask, Mask | None]:
    """All labels but 0 as one object, and the pixels that are not judged."""
    labels = read_label_map(path)
    object_ = (labels != 0) & (labels != void) if void is not None else labels != 0
    return Mask.of(object_), None if void is None else Mask.of(labels == void)


def read_objects(path: Path, void: int | None = None) -> Objects:
    """The objects of one image, in order of their labels or of the list."""
    if path.suffix.lower() == ".json":
        found = [(mask, entry) for mask, entry in read_run_lengths(path) if mask]
        masks = tuple(mask for mask, _ in found)
        return Objects(masks, tuple(_class_of(entry) for _, entry in found))
    labels = read_label_map(path)
    numbers = [n for n in np.unique(labels).tolist() if n not in (0, void)]
    ignore = None if void is None else Mask.of(labels == void)
    return Objects(tuple(Mask.of(labels == n) for n in numbers), ("",) * len(numbers), ignore)


def read_proposals(path: Path) -> list[Mask]:
    """The masks of a list, best first, overlapping or not."""
    if path.suffix.lower() != ".json":
        raise BadInput(f"'{path}' is no list of proposals; give run lengths as .json, best first")
    return [mask for mask, _ in read_run_lengths(path)]


def paired_files(prediction: Path, ground_truth: Path) -> list[tuple[Path, Path]]:
    """One pair of files, or the files of two folders that share a name; none may be missing."""
    for path in (prediction, ground_truth):
        if not path.exists():
            raise NotFound(f"no file or folder '{path}'")
    if prediction.is_dir() != ground_truth.is_dir():
        raise BadInput(f"'{prediction}' and '{ground_truth}' must both be files or both be folders")
    if not prediction.is_dir():
        return [(prediction, ground_truth)]
    ground_truths, predictions = _by_stem(ground_truth), _by_stem(prediction)
    lacking = [stem for stem in ground_truths if stem not in predictions]
    if lacking:
        raise NotFound(
            f"'{prediction}' holds nothing for '{ground_truths[lacking[0]]}'; an empty list will do"
        )
    extra = [stem for stem in predictions if stem not in ground_truths]
    if extra:
        raise NotFound(f"'{ground_truth}' holds no ground truth for '{predictions[extra[0]]}'")
    return [(predictions[stem], file) for stem, file in ground_truths.items()]


def _by_stem(folder: Path) -> dict[str, Path]:
    files = sorted(f for f in folder.iterdir() if f.suffix.lower() in RESULT_SUFFIXES)
    if not files:
        raise BadInput(f"folder '{folder}' holds no mask file: no image, .npy, .mat or .json")
    return {file.stem: file for file in files}


def _class_of(entry: Any) -> str:
    """The class that an entry names, or none."""
    return str(entry.get("category", entry.get("category_id", "")))
