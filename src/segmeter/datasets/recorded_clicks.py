"""Recorded clicks: the RClicks file of real people's clicks, read whole or not at all.

One row per click. The file is streamed in blocks, texts are kept once, and the first row that
cannot be right stops the protocol with its number, so that neither a wrong file nor a huge one
fills the memory or leaves anything half imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.clicks_checks import Block, Images, UnknownImage, check_block
from segmeter.datasets.clicks_csv import COLUMNS, batches

__all__ = [
    "COLUMNS",
    "Clicks",
    "Key",
    "UnknownImage",
    "previous_mask",
    "read_clicks",
    "read_split",
]

# Ten times the published file, so that no file can fill the memory: below 1 GB in all.
_MOST_ROWS = 5_000_000

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Key:
    """The clicked region: an object of an image in the first round, or a mask's error region.

    `full_stem` follows from the others: `image`, `image_______object` where there are several,
    and in later rounds `_model_kind`, with `_device_number` if a person's click made the mask.
    """

    dataset: str
    full_stem: str
    image: str
    object: str
    kind: Literal["first", "fn", "fp"]


@dataclass(frozen=True, slots=True)
class Clicks:
    """All clicks in file order; `keys[key_of[i]]` is what click `i` was about.

    Points are `(y, x)` in images of `sizes`, `(h, w)`, already moved inside.
    """

    keys: tuple[Key, ...]
    key_of: Ints
    points: Ints
    sizes: Ints
    mobile: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.key_of)

    def groups(self) -> Iterator[tuple[Key, Ints]]:
        """Each key with the positions of its clicks, in file order."""
        order = np.argsort(self.key_of, kind="stable")
        ends = np.cumsum(np.bincount(self.key_of, minlength=len(self.keys)))
        yield from zip(self.keys, np.split(order, ends[:-1]), strict=True)

    def first_rounds(self) -> dict[tuple[str, str, str], Ints]:
        """Positions of the first-round clicks on each target: (data set, image, object)."""
        return {
            (key.dataset, key.image, key.object): places
            for key, places in self.groups()
            if key.kind == "first"
        }

    def scaled(self, places: Ints, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
        """Clicks as pixel centres of an image of another size than the one shown."""
        ratio = np.array(shape, dtype=np.float64) / self.sizes[places]
        return (self.points[places] + 0.5) * ratio - 0.5


def read_clicks(path: Path, images: Images = None) -> Clicks:
    """Read a clicks file (`clicks.csv`, or `previews.csv` with display modes as data sets).

    `images` are the stems that may occur, of all data sets or by data set; others are
    refused. A data set that is not among them may have any.
    """
    if not path.is_file():
        raise NotFound(f"no clicks file '{path}'")
    numbers: dict[tuple[str, ...], int] = {}
    columns: list[tuple[Ints, ...]] = []
    rows = 0
    for batch in batches(path):
        columns.append(check_block(Block(path, rows, batch), numbers, images))
        rows += batch.num_rows
        if rows > _MOST_ROWS:
            raise BadInput(f"{path.name}, row {_MOST_ROWS + 2}: more clicks than can be; split it")
    if not rows:
        raise BadInput(f"{path.name} holds no click")
    key_of, points, sizes, mobile = (np.concatenate(part) for part in zip(*columns, strict=True))
    keys = tuple(Key(d, stem, image, obj, kind) for d, stem, image, obj, kind in numbers)  # type: ignore[arg-type]  # kinds were checked
    return Clicks(keys, key_of, points, sizes, mobile.astype(bool))


def read_split(path: Path) -> frozenset[str]:
    """Image stems of a split, one a line (the TETRIS train and validation lists)."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"split list '{path}' cannot be read: {error}") from error
    return frozenset(line.strip() for line in lines if line.strip())


def previous_mask(folder: Path, key: Key) -> npt.NDArray[np.float32]:
    """The mask that people saw in a later round, 0..1, from `<full_stem>.png`."""
    import cv2

    path = folder / f"{key.full_stem}.png"
    if Path(key.full_stem).name != key.full_stem or not path.is_file():
        raise NotFound(f"no previous mask '{key.full_stem}.png' in '{folder}'")
    pixels = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    if pixels is None:
        raise BadInput(f"'{path}' is not an image")
    return np.asarray(pixels / np.float32(255), dtype=np.float32)
