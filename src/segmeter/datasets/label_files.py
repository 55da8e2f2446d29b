"""Label files: label maps, objects and proposals of your own, and folders of them, without images.

- `.png`, `.tif`, `.bmp`: one label per pixel, 8 or 16 bits, or indices of a colour table;
- `.npy`: an H x W array of whole numbers;
- `.mat` (version 5): `groundTruth` as in BSDS500 (a map a person), `segs` (a map a
  setting), `ucm2` (an ultrametric contour map), or one of `labels`, `Segmentation`, `seg`;
- `.json`: COCO run lengths, one object or a list of them; uncovered pixels have label 0. The
  objects of a list may have a `category` (or `category_id`); proposals, best first, may overlap.

0 is background, and pixels with the label `void` are not judged. Folders of ground truth or of
predictions hold such files; NIfTI, NRRD and MetaImage for volumes. A COCO annotation file with a
COCO results file takes the place of two folders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.models import ModelCard, Segmentation
from segmeter.core.scenes import DatasetCard, Image, Scene, Target, Volume, size_in_words
from segmeter.datasets.coco_files import has_lists, outline, read_json
from segmeter.datasets.coco_json import CocoImage, CocoJson, images_next_to
from segmeter.datasets.data_roots import SceneSet, by_name, digest, own_card
from segmeter.datasets.image_files import MOST_PIXELS, SUFFIXES, named_errors, read_values
from segmeter.datasets.mask_files import masks_of_values
from segmeter.datasets.volumes.labels import whole_numbers
from segmeter.datasets.volumes.stored import Grid, case_name, is_volume, open_stored

Labels = npt.NDArray[Any]
RESULT_SUFFIXES = frozenset({".bmp", ".json", ".mat", ".npy", ".png", ".tif", ".tiff"})

_GROUND_TRUTHS, _SETTINGS, _CONTOURS = "groundTruth", "segs", ("ucm2", "ucm")
_SINGLE = ("labels", "Segmentation", "segmentation", "seg", "partition")
_LARGEST_LABEL = (1 << 31) - 1
_LOOKED_AT = 8  # JSON files; a folder of run lengths has one for each image
_CARD = DatasetCard("coco", "a COCO file of your own", "your own", "your own")


def read_label_map(path: Path) -> Labels:
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
        raise BadInput(f"'{path}' holds {size}; a label map is H x W, one label per pixel")
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
        raise BadInput(f"'{path}' holds several arrays; save only the one to use")
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


def read_object(path: Path, void: int | None = None) -> tuple[Mask, Mask | None]:
    """All labels but 0 as one object, and the pixels that are not judged."""
    labels = read_label_map(path)
    object_ = (labels != 0) & (labels != void) if void is not None else labels != 0
    return Mask.of(object_), None if void is None else Mask.of(labels == void)


def read_objects(
    path: Path, void: int | None = None
) -> tuple[Sequence[Mask], Sequence[str], Mask | None]:
    """Objects of one image by label or list order, classes, and the ignored region."""
    if path.suffix.lower() == ".json":
        found = [(mask, entry) for mask, entry in read_run_lengths(path) if mask]
        classes = [entry.get("category", entry.get("category_id", "")) for _, entry in found]
        return [mask for mask, _ in found], list(map(str, classes)), None
    labels = read_label_map(path)
    masks = [mask for _, mask in masks_of_values(labels, f"'{path}'", without=(0, void))]
    return masks, [""] * len(masks), None if void is None else Mask.of(labels == void)


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
    ground_truths, predictions = _label_files(ground_truth), _label_files(prediction)
    lacking = [stem for stem in ground_truths if stem not in predictions]
    if lacking:
        raise NotFound(
            f"'{prediction}' holds nothing for '{ground_truths[lacking[0]]}'; an empty list will do"
        )
    extra = [stem for stem in predictions if stem not in ground_truths]
    if extra:
        raise NotFound(f"'{ground_truth}' holds no ground truth for '{predictions[extra[0]]}'")
    return [(predictions[stem], file) for stem, file in ground_truths.items()]


def read_edge_map(path: Path) -> npt.NDArray[Any]:
    """Edge strengths, `(H, W)`: a grey image as 0 to 1, a `.npy`, or a `.mat`'s variable `E`."""
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        array = read_values(path)
        if array.ndim != 2:
            raise BadInput(f"'{path}' is in colour; an edge map is grey")
        if array.dtype in (np.uint8, np.uint16):
            return array.astype(np.float32) / np.float32(np.iinfo(array.dtype).max)
    elif suffix in (".mat", ".npy"):
        array = np.asarray(read_mat(path, "E")) if suffix == ".mat" else _read_npy(path)
    else:
        raise BadInput(f"'{path}' has an unsupported type; give a .npy, a .mat or an image")
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "fiub":
        size = " x ".join(map(str, array.shape))
        raise BadInput(f"'{path}' holds {array.dtype} of {size}; a map is H x W numbers")
    if not np.isfinite(array).all():
        raise BadInput(f"'{path}' holds values that are not finite")
    return np.array(array)


def labels_at(path: str | Path) -> SceneSet[Path] | CocoLabels | str:
    """Ground truth of label maps, or of a COCO file or a folder that holds one.

    A COCO file whose images are all available is returned as the name of a dataset, which later
    commands open again to show them.
    """
    place = Path(path)
    listed = sorted((*place.glob("*.json"), *place.glob("annotations/*.json")))[:_LOOKED_AT]
    found = (file for file in listed if has_lists(file))
    file = place if place.is_file() else next(found, None)
    if file is None:
        return _label_folder(place)
    images = images_next_to(file)
    try:
        complete = not CocoJson(_CARD, file, images).card.missing
    except NotFound:  # no image at all
        complete = False
    own = {"annotations": str(file.resolve()), "images": str(images.resolve())}
    return str(Spec("coco", own)) if complete else CocoLabels(file)


class CocoLabels(CocoJson):
    """The objects of a COCO annotation file, without its images."""

    def __init__(self, path: Path) -> None:
        super().__init__(replace(_CARD, name=path.stem), path, path.parent)

    def _available(self, images: Path) -> dict[str, Path]:
        return {name: Path(image.files[0]) for name, image in self._listed.items()}

    def pixels(self, scene: str) -> npt.NDArray[np.uint8]:
        shown = np.zeros((*self._listed[scene].size, 3), np.uint8)
        for target in self.targets(scene):
            shown[target.mask.dense()] = 255
        return shown

    def fingerprint(self) -> str:
        return digest([self._annotations])

    def _check_claim(self, scene: str, image: Any) -> None:
        """There is no image to compare the stated size with."""


def _label_folder(path: Path) -> SceneSet[Path]:
    """Ground truth: every value of a file but 0 is an object, named by its value."""
    name = path.resolve().name

    def read(scene: str, file: Path) -> Scene:
        labels, grid = _read(file)
        found = masks_of_values(labels, f"'{file}'")
        targets = [Target(str(value), mask, label=f"label {value}") for value, mask in found]
        if grid is None:
            shown = np.repeat((255 * (labels > 0)).astype(np.uint8)[..., None], 3, axis=2)
            return Image(name, scene, shown, targets, file_name=file.name)
        return Volume(name, scene, labels, targets, header=grid.header())

    card = own_card(name, summary="a folder of masks of your own")
    return SceneSet(card, _label_files(path), read, lambda _, file: [file])


@dataclass(frozen=True)
class PredictedObjects:
    """The predicted objects of one scene; `classes` are their names where they are known."""

    labels: Labels
    detected: tuple[Mask, ...] = ()
    classes: tuple[str, ...] = ()

    @cached_property
    def masks(self) -> tuple[Mask, ...]:
        """Detected masks, which may overlap, or those of the labels but 0."""
        if self.classes:
            return self.detected
        return tuple(mask for _, mask in masks_of_values(self.labels, "a prediction"))


class Predictions:
    """A folder of predictions, in place of a model: `encode` reads the file of a scene.

    A COCO results file, or an annotation file such as an export, holds the masks of all scenes
    of data of COCO's layout. Results name images by id, annotations by file.
    """

    def __init__(self, path: str | Path, name: str = "") -> None:
        self.path = Path(path)
        single = self.path.is_file()
        self._files = {"": self.path} if single else _label_files(self.path)
        self._detections = _read_detections(self.path) if single else None
        self.card = ModelCard(
            name or (self.path.stem if single else self.path.resolve().name),
            "masks that another program made",
            frozenset({"automatic"}),
            citation="nothing to cite",
            fingerprint=digest(self._files.values()),
        )

    def encode(self, scene: Scene) -> PredictedObjects:
        """The objects of a scene; NotFound if the folder has no file of its name."""
        if self._detections is not None:
            return self._detected(scene, self._detections)
        if scene.id not in self._files:
            raise NotFound(f"'{self.path}' has no prediction of '{scene.id}'")
        labels, _ = _read(self._files[scene.id])
        if labels.shape != scene.shape:
            raise BadInput(
                f"{scene.name}: the ground truth is {size_in_words(scene.shape)} but the "
                f"prediction {size_in_words(labels.shape)}; resample the prediction"
            )
        return PredictedObjects(labels)

    def _detected(
        self, scene: Scene, detections: Mapping[Any, Sequence[Mapping[str, Any]]]
    ) -> PredictedObjects:
        """The masks of an image, best first; on a label map the better covers the worse."""
        if not isinstance(scene, CocoImage):
            raise BadInput(f"{scene.name} has no COCO image id; '{self.path}' needs COCO data")
        truth = scene.detection_ground_truth
        names = {category.id: category.name for category in truth.categories}
        held = detections.get(truth.image, detections.get(scene.id, ()))
        mine = sorted(held, key=lambda r: -float(r.get("score", 1.0)))
        where = f"'{self.path}', image {truth.image}"
        masks = [outline(r.get("segmentation"), truth.shape, where) for r in mine]
        if any(mask.shape != truth.shape for mask in masks):
            raise BadInput(f"{where}: a mask is not {size_in_words(truth.shape)}, as the image is")
        labels = np.zeros(truth.shape, np.int32)
        for number, mask in reversed(list(enumerate(masks, 1))):
            labels[mask.dense()] = number
        classes = tuple(r.get("class") or names.get(r["category_id"], "unknown") for r in mine)
        return PredictedObjects(labels, tuple(masks), classes)


def labels_for(
    predictions: Sequence[Predictions], path: str | Path
) -> SceneSet[Path] | CocoLabels | str:
    """The ground truth of predictions; BadInput for those of a COCO file if it is a folder."""
    truth = labels_at(path)
    single = [found.path for found in predictions if found.path.is_file()]
    if single and not isinstance(truth, str | CocoLabels):
        raise BadInput(
            f"'{single[0]}' is a COCO file but '{path}' a folder of masks; give two COCO files or "
            "two folders"
        )
    return truth


def _read_detections(path: Path) -> Mapping[Any, Sequence[Mapping[str, Any]]]:
    """Masks by image: of COCO results by its id, of a COCO annotation file by its name."""
    data = read_json(path)
    if isinstance(data, dict) and {"images", "annotations"} <= set(data):
        return _read_annotations(path)
    found: dict[Any, list[Mapping[str, Any]]] = {}
    records: list[Any] = data if isinstance(data, list) else [None]
    for record in records:
        known = isinstance(record, dict) and type(record.get("score", 1.0)) in (int, float)
        if not known or any(type(record.get(k)) is not int for k in ("image_id", "category_id")):
            raise BadInput(
                f"'{path}' is not a COCO results file: a list of image_id, category_id, "
                "segmentation and score"
            )
        found.setdefault(record["image_id"], []).append(record)
    return found


def _read_annotations(path: Path) -> Mapping[Any, Sequence[Mapping[str, Any]]]:
    """The objects of an annotation file by scene, each with the name of its class."""
    data, found = CocoLabels(path), {}
    with named_errors(path, "is not a JSON file of COCO's layout"):
        for scene in data.scenes():
            held = data.records(scene)
            names = {category["id"]: str(category["name"]) for category in held.categories}
            found[scene] = [
                {**r, "class": names.get(r.get("category_id"), "unknown"),
                 "score": float(r.get("score", 1.0))}
                for r in held.objects.values()
            ]  # fmt: skip
    return found


def _label_files(folder: Path) -> dict[str, Path]:
    """Files by the name of their scene, in the order of names."""
    if not folder.is_dir():
        raise NotFound(f"no folder '{folder}'")
    files = [p for p in sorted(folder.iterdir())
             if p.is_file() and (is_volume(p) or p.suffix.lower() in RESULT_SUFFIXES)]  # fmt: skip
    names = {path: case_name(path) if is_volume(path) else path.stem for path in files}
    found = by_name(files, names.__getitem__, "have one name")
    if not found:
        raise NotFound(
            f"no mask directly in '{folder}'; name the folder that holds the PNG, TIFF, .npy, "
            ".mat, JSON, NIfTI or NRRD files"
        )
    return found


def _read(path: Path) -> tuple[Labels, Grid | None]:
    """A label map, and its grid if it is a volume, `(z, y, x)`."""
    if not is_volume(path):
        return read_label_map(path), None
    stored = open_stored(path)
    return whole_numbers(f"'{path}'", stored.grid.to_scene(stored.read())), stored.grid
