"""BSDS500: images that several people each cut into regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound, check_choice
from segmeter.core.scenes import DatasetCard, Image, Scene
from segmeter.datasets import data_roots
from segmeter.datasets.image_files import read_rgb
from segmeter.datasets.label_files import fields_of, read_mat

Labels = npt.NDArray[np.int32]
Split = Literal["train", "val", "test"]
_IMAGES = {"train": 200, "val": 100, "test": 200}

_CARD = data_roots.card_of("bsds500")


@catalogue.datasets.add("bsds500", _CARD.summary)
class Bsds500:
    """Scenes with a partition and a boundary map by each person.

    `data` holds `BSDS500` (or `BSR/BSDS500/data`).
    """

    def __init__(self, data: str | Path | None = None, split: Split = "test") -> None:
        check_choice("split", split, _IMAGES)
        names = ("BSDS500", "BSDS500/data", "BSR/BSDS500/data", "BSDS500/BSDS500/data")
        self._folder = data_roots.set_folder(_CARD, data, names, ("groundTruth",))
        self.split = split
        self._ground_truths = self._folder / "groundTruth" / split

    @cached_property
    def card(self) -> DatasetCard:
        whole = _IMAGES[self.split]
        gone = [number for number in self._drawings if number not in self._images]
        fewer, lacking = whole - len(self._drawings), data_roots.lacking
        missing = (
            lacking("partitions", fewer, whole, self._ground_truths),
            lacking("images", gone, whole, self._folder / "images" / self.split),
        )
        return replace(_CARD, missing="; ".join(filter(None, missing)))

    def scenes(self) -> Sequence[str]:
        """Numbers of the available images that people have cut, ascending."""
        return [number for number in self.annotated() if number in self._images]

    def annotated(self) -> Sequence[str]:
        """Numbers of all images with partitions, also where the image is not available."""
        return list(self._drawings)

    def load(self, scene: str) -> Scene:
        data_roots.known("bsds500", scene, self._drawings)
        image = self._images.get(scene)
        if image is None:
            raise NotFound(
                f"bsds500/{scene}: no image in '{self._folder / 'images' / self.split}';"
                " its partitions alone can be read"
            )
        return Image(
            "bsds500", scene, lambda: read_rgb(image), (), partitions=lambda: self.partitions(scene)
        )

    def partitions(self, scene: str | Scene) -> list[Labels]:
        """Each person's regions as labels 1..k, `(H, W)`, in the file's order."""
        return [labels for labels, _ in self._people(scene)]

    def boundaries(self, scene: str | Scene) -> list[npt.NDArray[np.bool_]]:
        """Each person's boundary pixels, `(H, W)`, in the same order."""
        return [edges for _, edges in self._people(scene)]

    def fingerprint(self) -> str:
        images = [self._images[number] for number in self.scenes()]
        return data_roots.digest([*images, *self._drawings.values()])

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
            raise BadInput(f"'{path}' holds no partitions of one size; get it again")
        return people

    @cached_property
    def _drawings(self) -> dict[str, Path]:
        if not self._ground_truths.is_dir():
            raise NotFound(f"bsds500: no folder '{self._ground_truths}'")
        files = self._ground_truths.glob("*.mat")
        return data_roots.by_stem(sorted(files, key=lambda file: (len(file.name), file.name)))

    @cached_property
    def _images(self) -> dict[str, Path]:
        """Its own images, else those of the click benchmark `Berkeley` next to it: the
        same images under the same numbers."""
        folder = self._folder / "images" / self.split
        if not folder.is_dir():
            others = self._folder.parent / "Berkeley" / "images"
            return data_roots.by_stem(data_roots.images_in(others)) if others.is_dir() else {}
        found = data_roots.by_stem(data_roots.images_in(folder))
        bare = [number for number in found if number not in self._drawings]
        if bare:
            raise NotFound(
                f"bsds500/{bare[0]}: '{found[bare[0]]}' has no ground truth in "
                f"'{self._folder / 'groundTruth' / self.split}'; get it, or remove the image"
            )
        return found
