"""TETRIS: large images with finely drawn objects, shown at 2048 pixels at most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Target
from segmeter.datasets.data_roots import (
    ImageSet,
    card_of,
    digest,
    images_in,
    lacking,
    names_in,
    read_list,
    set_folder,
)
from segmeter.datasets.image_files import read_colours

_IMAGES = 2000

_CARD = card_of("tetris")


@catalogue.datasets.add("tetris", summary=_CARD.summary)
class Tetris(ImageSet):
    """Images by name, each with its objects by ascending label.

    Parameters
    ----------
    data
        Root folder that holds `TETRIS`.
    longest
        Limit of the long side in pixels.
    stems
        A text file with one name a line (the train or val list): only these scenes.
    """

    def __init__(
        self, data: str | Path | None = None, longest: int = 2048, stems: str | None = None
    ) -> None:
        if longest < 1:
            raise BadInput("tetris: 'longest' is a number of pixels, at least 1")
        self._folder = set_folder(_CARD, data, ("TETRIS",), ("images", "masks"))
        self._longest = longest
        self._stems = stems
        self.name = _CARD.name

    @cached_property
    def card(self) -> DatasetCard:
        return replace(_CARD, missing="; ".join(filter(None, self._missing())))

    def fingerprint(self) -> str:
        masks = (self._mask(path) for path in self._images.values())
        return digest([*self._images.values(), *(path for path in masks if path.exists())])

    def _pixels(self, image: Path) -> npt.NDArray[np.uint8]:
        colours = read_colours(image)
        shown = _resize(colours, fitted(colours.shape[:2], self._longest))
        return np.ascontiguousarray(shown[:, :, ::-1])

    def _targets(self, scene: str) -> list[Target]:
        """Labels ascending; where two meet after resizing, the later one has the pixel."""
        mask = self._mask(self._images[scene])
        if not mask.exists():
            raise NotFound(f"tetris/{scene}: no mask '{mask}'")
        blue, green, red = np.moveaxis(read_colours(mask).astype(np.int32), 2, 0)
        labels = blue * 65536 + green * 256 + red
        shape = fitted(labels.shape, self._longest)
        shown = np.zeros(shape, dtype=np.int32)
        numbers = [int(n) for n in np.unique(labels) if n]
        for number in numbers:
            shown[_resize((labels == number).astype(np.uint8), shape) > 0] = number
        return [Target(str(n), Mask.of(shown == n)) for n in numbers]

    def _missing(self) -> Iterator[str]:
        images = self._folder / "images"
        if self._wanted is not None:
            gone = [name for name in self._wanted if name not in self._images]
            yield lacking("listed images", gone, len(self._wanted), images)
        elif len(self._images) < _IMAGES:
            gone_count = _IMAGES - len(self._images)
            yield f"{gone_count} of {_IMAGES} images are not in '{images}'"
        masks = names_in(self._folder / "masks")
        bare = [name for name, path in self._images.items() if self._mask(path).name not in masks]
        yield lacking("masks", bare, len(self._images), self._folder / "masks")

    def _mask(self, path: Path) -> Path:
        return self._folder / "masks" / path.with_suffix(".png").name

    @cached_property
    def _images(self) -> dict[str, Path]:
        """By whole name without its suffix, since these names may hold dots."""
        found = {path.stem: path for path in images_in(self._folder / "images")}
        if self._wanted is not None:
            found = {name: path for name, path in found.items() if name in self._wanted}
        if not found:
            raise NotFound(f"dataset 'tetris': no image in '{self._folder / 'images'}'")
        return found

    @cached_property
    def _wanted(self) -> dict[str, None] | None:
        """The names of the list, when one is given."""
        if self._stems is None:
            return None
        return dict.fromkeys(read_list(Path(self._stems)))


def fitted(shape: Sequence[int], longest: int) -> tuple[int, int]:
    """Height and width with the longer side limited; of equal sides the width leads.

    >>> fitted((3000, 4000), 2048)
    (1536, 2048)
    """
    height, width = shape[:2]
    if height > width:
        tall = min(height, longest)
        return tall, int(width / height * tall + 0.5)
    wide = min(width, longest)
    return int(height / width * wide + 0.5), wide


def _resize(array: npt.NDArray[np.uint8], shape: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Bilinear without antialiasing; a 0/1 mask is rounded at one half."""
    import cv2

    return np.asarray(cv2.resize(array, shape[::-1], interpolation=cv2.INTER_LINEAR))
