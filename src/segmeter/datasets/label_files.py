"""Label files: folders of masks and label maps, of ground truth or predictions, without images.

PNG, TIFF, BMP, `.npy`, `.mat` and run lengths in JSON for images; NIfTI, NRRD and MetaImage for
volumes. 0 is background. A COCO annotation file with a COCO results file takes the place of
two folders.
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
from segmeter.core.models import ModelCard
from segmeter.core.scenes import DatasetCard, Image, Scene, Target, Volume, size_in_words
from segmeter.datasets.coco_files import has_lists, outline, read_json
from segmeter.datasets.coco_json import CocoImage, CocoJson, images_beside
from segmeter.datasets.data_roots import SceneSet, by_name, digest, own_card
from segmeter.datasets.image_files import named_errors
from segmeter.datasets.labelmaps import RESULT_SUFFIXES, read_label_map
from segmeter.datasets.mask_files import masks_of_values
from segmeter.datasets.volumes.grids import Grid
from segmeter.datasets.volumes.labels import whole_numbers
from segmeter.datasets.volumes.stored import case_name, is_volume, open_stored

Labels = npt.NDArray[Any]
_LOOKED_AT = 8  # JSON files; a folder of run lengths has one for each image
_CARD = DatasetCard("coco", "a COCO file of your own", "your own", "your own")


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
    images = images_beside(file)
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

    @cached_property
    def _at_hand(self) -> dict[str, Path]:
        return {name: Path(image.files[0]) for name, image in self._listed.items()}

    def pixels(self, scene: str) -> npt.NDArray[np.uint8]:
        """Objects in white, since there is no image."""
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
    return SceneSet(card, _label_files(path), read, lambda file: [file])


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
        self._folder = Path(path)
        single = self._folder.is_file()
        self._files = {"": self._folder} if single else _label_files(self._folder)
        self._detections = _read_detections(self._folder) if single else None
        self.card = ModelCard(
            name or (self._folder.stem if single else self._folder.resolve().name),
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
            raise NotFound(f"'{self._folder}' has no prediction of '{scene.id}'")
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
            raise BadInput(f"{scene.name} has no COCO image id; '{self._folder}' needs COCO data")
        truth = scene.detection_ground_truth
        names = {category.id: category.name for category in truth.categories}
        held = detections.get(truth.image, detections.get(scene.id, ()))
        mine = sorted(held, key=lambda r: -float(r.get("score", 1.0)))
        where = f"'{self._folder}', image {truth.image}"
        masks = [outline(r.get("segmentation"), truth.shape, where) for r in mine]
        if any(mask.shape != truth.shape for mask in masks):
            raise BadInput(f"{where}: a mask is not {size_in_words(truth.shape)}, as the image is")
        labels = np.zeros(truth.shape, np.int32)
        for number, mask in reversed(list(enumerate(masks, 1))):
            labels[mask.dense()] = number
        classes = tuple(r.get("class") or names.get(r["category_id"], "unknown") for r in mine)
        return PredictedObjects(labels, tuple(masks), classes)


def _read_detections(path: Path) -> dict[Any, list[Mapping[str, Any]]]:
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


def _read_annotations(path: Path) -> dict[Any, list[Mapping[str, Any]]]:
    """The objects of an annotation file by scene, each with the name of its class."""
    data = CocoLabels(path)
    found: dict[Any, list[Mapping[str, Any]]] = {}
    with named_errors(path, "is not a JSON file of COCO's layout"):
        for scene in data.scenes():
            records = data.records(scene)
            names = {category["id"]: str(category["name"]) for category in records.categories}
            for r in records.objects.values():
                known = names.get(r.get("category_id"), "unknown")
                record = {**r, "class": known, "score": float(r.get("score", 1.0))}
                found.setdefault(scene, []).append(record)
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
        raise NotFound(f"no mask in '{folder}': PNG, TIFF, .npy, .mat, JSON, NIfTI or NRRD files")
    return found


def _read(path: Path) -> tuple[Labels, Grid | None]:
    """A label map, and its grid if it is a volume, `(z, y, x)`."""
    if not is_volume(path):
        return read_label_map(path), None
    stored = open_stored(path)
    labels = whole_numbers(f"'{path}'", stored.grid.to_scene(stored.read()))
    return labels.astype(np.int32), stored.grid
