"""Label maps and segmentation results of a user's own, read from files.

- `.png`, `.tif`, `.bmp`: one label a pixel, 8 or 16 bits, or indices of a colour table;
- `.npy`: an H x W array of whole numbers;
- `.mat` (version 5): `groundTruth` as in BSDS500 (a map a person), `segs` (a map a
  setting), `ucm2` (an ultrametric contour map), or one of `labels`, `Segmentation`, `seg`;
- `.json`: COCO run lengths, one object or a list of them; what none covers is label 0.

Objects and proposals of a user's own, read from files.

- an object: a mask file (`.png`, `.npy`, `.mat`), where every label but 0 belongs to it, or
  run lengths in `.json`;
- the objects of an image: a label map with an object a label, or a `.json` list of run
  lengths, each with its `category` (or `category_id`) where classes matter;
- proposals: a `.json` list of run lengths, best first; they may overlap.

Pixels with the label `void` are not judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.models import Segmentation
from segmeter.datasets.coco_files import read_json
from segmeter.datasets.image_files import MOST_PIXELS, SUFFIXES, named_errors, read_values
from segmeter.datasets.mask_files import masks_of_values

Labels = npt.NDArray[Any]
RESULT_SUFFIXES = frozenset({".bmp", ".json", ".mat", ".npy", ".png", ".tif", ".tiff"})

_GROUND_TRUTHS, _SETTINGS, _CONTOURS = "groundTruth", "segs", ("ucm2", "ucm")
_SINGLE = ("labels", "Segmentation", "segmentation", "seg", "partition")
_LARGEST_LABEL = (1 << 31) - 1


def read_label_map(path: Path) -> Labels:
    """The one label map of a file."""
    maps = read_label_maps(path)
    if len(maps) != 1:
        raise BadInput(f"'{path}' holds {len(maps)} label maps; give a file with one")
    return maps[0]


def read_label_maps(path: Path) -> list[Labels]:
    """All label maps of a file: several where several people drew."""
    results = read_results(path)
    maps = [result.labels for result in results.values() if result.labels is not None]
    if len(maps) != len(results):
        raise BadInput(f"'{path}' holds a contour map; cut it at a threshold into a label map")
    return list(maps)


def read_results(path: Path) -> Mapping[str, Segmentation]:
    """Segmentations of one image in a file, by setting; '' where the setting has no name."""
    suffix = path.suffix.lower()
    if suffix == ".mat":
        return _from_mat(path)
    if suffix == ".npy":
        return {"": _partition(_read_npy(path), path)}
    if suffix == ".json":
        return {"": _partition(_from_runs(path), path)}
    if suffix in SUFFIXES - {".jpg", ".jpeg", ".webp"}:
        return {"": _partition(read_values(path), path)}
    kinds = ", ".join(sorted(RESULT_SUFFIXES))
    raise BadInput(f"'{path}' is not a label map; it may be one of {kinds}")


def _partition(labels: Labels, path: Path) -> Segmentation:
    """Check that an array can be a label map, and keep it as it is."""
    if labels.ndim != 2 or labels.size == 0:
        size = " x ".join(map(str, labels.shape)) or "a single number"
        raise BadInput(f"'{path}' holds {size}; a label map is H x W, one label a pixel")
    if labels.dtype.kind not in "iub":
        raise BadInput(f"'{path}' holds {labels.dtype} values; labels are whole numbers: round it")
    if labels.size > MOST_PIXELS:
        raise BadInput(f"'{path}' has {labels.size} pixels; at most {MOST_PIXELS} are read")
    if labels.dtype.kind == "i" and labels.min() < 0:
        raise BadInput(f"'{path}' holds the label {labels.min()}; labels start at 0")
    if labels.max() > _LARGEST_LABEL:
        raise BadInput(f"'{path}' holds the label {labels.max()}; number the regions from 0")
    return Segmentation(labels=np.array(labels, dtype=np.int32))


def _from_mat(path: Path) -> Mapping[str, Segmentation]:
    name, value = _first_in(path, [_GROUND_TRUTHS, _SETTINGS, *_CONTOURS, *_SINGLE])
    if name == _GROUND_TRUTHS:
        cells = [fields_of(path, cell, "Segmentation")[0] for cell in np.ravel(value)]
    elif name == _SETTINGS:
        cells = [np.asarray(cell) for cell in np.ravel(value)]
    elif name in _CONTOURS:
        return {"": Segmentation(levels=_contours(path, value))}
    else:
        return {"": _partition(_whole(np.asarray(value)), path)}
    if not cells:
        raise BadInput(f"'{path}' holds an empty '{name}'")
    return {str(place): _partition(_whole(cell), path) for place, cell in enumerate(cells, 1)}


def read_mat(path: Path, variable: str) -> Any:
    """One variable of a MATLAB file: cells are arrays of objects, structures have fields."""
    return _first_in(path, [variable])[1]


def fields_of(path: Path, record: Any, *names: str) -> list[Labels]:
    """Arrays of some fields of a MATLAB structure."""
    try:
        return [np.asarray(record[0, 0][name]) for name in names]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        lost = " and ".join(f"'{name}'" for name in names)
        raise BadInput(f"'{path}' has a structure without {lost}") from error


def _first_in(path: Path, variables: Sequence[str]) -> tuple[str, Any]:
    """The first of some variables that a MATLAB file holds, and its value."""
    from scipy.io import loadmat

    with named_errors(path, "is not a whole MATLAB file"):
        path.stat()  # a file that is missing is named as such
        try:
            found = loadmat(path, variable_names=list(variables), mat_dtype=True)
        except NotImplementedError:
            raise BadInput(f"'{path}' is a MATLAB 7.3 file; save it with '-v7'") from None
    names = [name for name in variables if name in found]
    if not names:
        raise BadInput(f"'{path}' holds none of {', '.join(variables)}; it is of another kind")
    return names[0], found[names[0]]


def _read_npy(path: Path) -> Labels:
    """The array of a `.npy` file, which is mapped: nothing is allocated for a wrong header."""
    with named_errors(path, "is not a whole array file of plain numbers"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise BadInput(f"'{path}' holds several arrays; save the one that is meant alone")
    return array


def _contours(path: Path, value: Any) -> npt.NDArray[Any]:
    """A contour map in the file's own precision: a strength may equal a threshold."""
    levels = np.asarray(value)
    sides_odd = levels.ndim == 2 and all(side % 2 == 1 and side > 2 for side in levels.shape)
    if not sides_odd or levels.dtype.kind not in "fiu":
        size = " x ".join(map(str, levels.shape))
        raise BadInput(f"'{path}': a contour map is 2H + 1 by 2W + 1 numbers, but this is {size}")
    if not np.isfinite(levels).all():
        raise BadInput(f"'{path}': a contour map holds finite strengths; this one has others")
    return levels if levels.dtype.kind == "f" else levels.astype(np.float64)


def _whole(values: Labels) -> Labels:
    """MATLAB's default is double; whole numbers among doubles are labels all the same."""
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values == values.round()).all():
        return values.astype(np.int64)
    return values


def read_run_lengths(path: Path) -> list[tuple[Mask, Any]]:
    """All run-length masks of a file, in its order, each with the entry that it came from."""
    data = read_json(path)
    if isinstance(data, dict):
        data = data["annotations"] if isinstance(data.get("annotations"), list) else [data]
    found = [(_mask(path, entry), entry) for entry in (data if isinstance(data, list) else ())]
    for number, (mask, _) in enumerate(found, start=1):
        if mask.shape != found[0][0].shape:
            raise BadInput(f"'{path}': mask {number} is not of the first one's size")
    return found


def _from_runs(path: Path) -> Labels:
    """Paint run-length masks, in order, as labels 1, 2, ...; they may not overlap."""
    masks = [mask for mask, _ in read_run_lengths(path)]
    if not masks:
        raise BadInput(f"'{path}' holds no run-length mask")
    labels = np.zeros(masks[0].shape, dtype=np.int32)
    for number, mask in enumerate(masks, start=1):
        inside = labels[mask.window]
        if inside[mask.bits].any():
            raise BadInput(f"'{path}': mask {number} overlaps another; a partition has no overlaps")
        inside[mask.bits] = number
    return labels


def _mask(path: Path, entry: Any) -> Mask:
    """An annotation's run lengths, or run lengths as they are."""
    whole = isinstance(entry, dict) and "segmentation" in entry
    try:
        mask = Mask.from_coco(entry["segmentation"] if whole else entry)
    except BadInput as error:
        raise BadInput(f"'{path}': {error}") from error
    if len(mask.shape) != 2:
        raise BadInput(f"'{path}': a run-length mask needs 'counts' and a 'size' of two numbers")
    return mask


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
        classes = [entry.get("category", entry.get("category_id", "")) for _, entry in found]
        return Objects(masks, tuple(map(str, classes)))
    labels = read_label_map(path)
    masks = tuple(mask for _, mask in masks_of_values(labels, f"'{path}'", without=(0, void)))
    ignore = None if void is None else Mask.of(labels == void)
    return Objects(masks, ("",) * len(masks), ignore)


def read_proposals(path: Path) -> list[Mask]:
    """The masks of a list, best first, overlapping or not."""
    if path.suffix.lower() != ".json":
        raise BadInput(
            f"'{path}' is not a list of proposals; give run lengths as .json, best first"
        )
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


def read_edge_map(path: Path) -> npt.NDArray[Any]:
    """Edge strengths, `(H, W)`: a grey image as 0 to 1, a `.npy`, or a `.mat`'s variable `E`."""
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        values = read_values(path)
        if values.ndim != 2:
            raise BadInput(f"'{path}' is in colour; an edge map is grey")
        return values.astype(np.float32) / np.float32(np.iinfo(values.dtype).max)
    if suffix not in (".mat", ".npy"):
        raise BadInput(f"'{path}' is none of the kinds that hold numbers: .npy, .mat, an image")
    array = np.asarray(read_mat(path, "E")) if suffix == ".mat" else _read_npy(path)
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "fiub":
        size = " x ".join(map(str, array.shape))
        raise BadInput(f"'{path}' holds {array.dtype} of {size}; a map is H x W numbers")
    if not np.isfinite(array).all():
        raise BadInput(f"'{path}' holds values that are not finite; write it again")
    return np.array(array)
