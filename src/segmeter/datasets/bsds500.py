"""BSDS500: images that several people each cut into regions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound, check_choice
from segmeter.core.scenes import Image, Scene
from segmeter.datasets import data_roots
from segmeter.datasets.data_roots import SceneSet
from segmeter.datasets.image_files import read_rgb
from segmeter.datasets.label_files import fields_of, read_mat

Labels = npt.NDArray[np.int32]
Split = Literal["train", "val", "test"]
_IMAGES = {"train": 200, "val": 100, "test": 200}

_CARD = data_roots.card_of("bsds500")


@catalogue.datasets.add("bsds500", _CARD.summary)
class Bsds500(SceneSet[Path]):
    """Scenes with a partition and a boundary map by each person, by ascending number.

    `data` holds `BSDS500` (or `BSR/BSDS500/data`). Images that are not available are no scenes.
    """

    def __init__(self, data: str | Path | None = None, split: Split = "test") -> None:
        check_choice("split", split, _IMAGES)
        names = ("BSDS500", "BSDS500/data", "BSR/BSDS500/data", "BSDS500/BSDS500/data")
        folder = data_roots.set_folder(_CARD, data, names, ("groundTruth",))
        ground_truths, images_folder = folder / "groundTruth" / split, folder / "images" / split
        if not ground_truths.is_dir():
            raise NotFound(f"bsds500: no folder '{ground_truths}'")
        files = sorted(ground_truths.glob("*.mat"), key=lambda file: (len(file.name), file.name))
        self._drawings = data_roots.by_stem(files)
        images = _images(images_folder, ground_truths, self._drawings)
        whole, absent = _IMAGES[split], [n for n in self._drawings if n not in images]
        missing = (
            data_roots.lacking("partitions", whole - len(files), whole, ground_truths),
            data_roots.lacking("images", absent, whole, images_folder),
        )
        super().__init__(
            replace(_CARD, missing="; ".join(filter(None, missing))),
            {number: images[number] for number in self._drawings if number in images},
            self._image,
            self._files_of,
            dict.fromkeys(
                absent, f"no image in '{images_folder}'; its partitions alone can be read"
            ),
        )

    def annotated(self) -> Sequence[str]:
        """Numbers of all images with partitions, also where the image is not available."""
        return list(self._drawings)

    def _image(self, scene: str, image: Path) -> Scene:
        return Image(
            "bsds500", scene, lambda: read_rgb(image), (), partitions=lambda: self.partitions(scene)
        )

    def _files_of(self, scene: str, image: Path) -> Sequence[Path]:
        return image, self._drawings[scene]

    def partitions(self, scene: str | Scene) -> list[Labels]:
        """Each person's regions as labels 1..k, `(H, W)`, in the file's order."""
        return [labels for labels, _ in self._people(scene)]

    def boundaries(self, scene: str | Scene) -> list[npt.NDArray[np.bool_]]:
        """Each person's boundary pixels, `(H, W)`, in the same order."""
        return [edges for _, edges in self._people(scene)]

    def fingerprint(self) -> str:
        return data_roots.digest([*self._sources.values(), *self._drawings.values()])

    def _people(self, scene: str | Scene) -> list[tuple[Labels, npt.NDArray[np.bool_]]]:
        number = scene.id if isinstance(scene, Scene) else scene
        data_roots.known("bsds500", number, self._drawings)
        path = self._drawings[number]
        people = []
        for cell in np.ravel(read_mat(path, "groundTruth")):
            regions, boundaries = fields_of(path, cell, "Segmentation", "Boundaries")
            if regions.ndim != 2 or regions.shape != boundaries.shape:
                raise BadInput(f"'{path}' holds regions and boundaries of different size")
            people.append((regions.astype(np.int32), boundaries != 0))
        if not people or any(labels.shape != people[0][0].shape for labels, _ in people):
            raise BadInput(f"'{path}' holds no partitions of one size; download it again")
        return people


def _images(folder: Path, ground_truths: Path, drawings: Collection[str]) -> dict[str, Path]:
    """Its own images, else those of the click benchmark `Berkeley` next to it: the same images
    under the same numbers."""
    if not folder.is_dir():
        others = folder.parents[1].parent / "Berkeley" / "images"
        return data_roots.by_stem(data_roots.images_in(others))
    found = data_roots.by_stem(data_roots.images_in(folder))
    bare = [number for number in found if number not in drawings]
    if bare:
        raise NotFound(
            f"bsds500/{bare[0]}: '{found[bare[0]]}' has no ground truth in '{ground_truths}'; add "
            "it, or remove the image"
        )
    return found
