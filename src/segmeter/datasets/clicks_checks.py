"""Checks of recorded clicks: every row of a block, and the first that cannot be right by number."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.datasets.clicks_csv import NUMBERS, TEXTS

__all__ = ["Block", "Images", "UnknownImage", "check_block"]

Ints = npt.NDArray[np.int64]
Coded = tuple[Ints, list[str]]
Images = Mapping[str, Collection[str]] | Collection[str] | None
"""Stems of images that may occur, of all data sets or by data set; None allows any."""

_KNOWN = {"click_type": ("first", "fn", "fp"), "device": ("pc", "mobile")}
# Ten times the published file, so that no file can fill the memory: below 1 GB in all.
_MOST_KEYS = 200_000
_LONGEST_TEXT = 300
_LARGEST_SIDE = 100_000
# People may miss the image by a little; farther than this share of its sides is a mistake.
_MARGIN = 0.05
_MADE_BY = re.compile(r"(_(pc|mobile)_\d+)?")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class UnknownImage(BadInput):
    """A click on an image that the data set does not have."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a file, `before` clicks after its first."""

    path: Path
    before: int
    batch: Any

    def numbers(self, name: str) -> Ints:
        values: Ints = self.batch.column(name).to_numpy(zero_copy_only=False)
        return values

    def words(self, name: str) -> Coded:
        """A column of texts, each different one kept once."""
        column = self.batch.column(name)
        places = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return places, list(column.dictionary.to_pylist())

    def row(self, at: int) -> str:
        """File name and number of a row; the header is row 1."""
        return f"{self.path.name}, row {self.before + at + 2}"

    def refuse(self, wrong: npt.NDArray[np.bool_], what: str | Callable[[int], str]) -> None:
        """Refuse the first row that is wrong, if any."""
        if wrong.any():
            at = int(wrong.argmax())
            raise BadInput(f"{self.row(at)}: {what if isinstance(what, str) else what(at)}")


def check_block(block: Block, keys: dict[tuple[str, ...], int], images: Images) -> tuple[Ints, ...]:
    """Keys, points, sizes and devices of a block, every row checked; new keys join `keys`."""
    x, y, w, h = map(block.numbers, NUMBERS)
    block.refuse(
        (np.minimum(w, h) < 1) | (np.maximum(w, h) > _LARGEST_SIDE),
        lambda at: f"an image's sides are 1 to {_LARGEST_SIDE} pixels, not w {w[at]} x h {h[at]}",
    )
    outside = (x < -_MARGIN * w) | (y < -_MARGIN * h) | (x > (1 + _MARGIN) * w)
    block.refuse(
        outside | (y > (1 + _MARGIN) * h),
        lambda at: (
            f"the click at x {x[at]}, y {y[at]} lies outside the image of w {w[at]} x h {h[at]}"
        ),
    )
    codes = {name: block.words(name) for name in TEXTS}
    _check_texts(block, codes)
    key_of = _keys(block, codes, keys, images)
    points = np.stack([np.clip(y, 0, h - 1), np.clip(x, 0, w - 1)], axis=1)
    device, words = codes["device"]
    mobile = np.array([word == "mobile" for word in words], dtype=np.int64)[device]
    return key_of, points, np.stack([h, w], axis=1), mobile


def _check_texts(block: Block, codes: Mapping[str, Coded]) -> None:
    """Refuse words that cannot be; each is looked at once per block."""
    for name, (index, words) in codes.items():
        unseen = np.array([bool(_UNSEEN.search(word)) for word in words], dtype=bool)
        block.refuse(unseen[index], f"'{name}' holds a character that cannot be seen")
    for name, known in _KNOWN.items():
        index, words = codes[name]
        strange = np.array([word not in known for word in words], dtype=bool)
        block.refuse(strange[index], f"'{name}' is none of {', '.join(known)}")


def _keys(
    block: Block,
    codes: Mapping[str, Coded],
    keys: dict[tuple[str, ...], int],
    images: Images,
) -> Ints:
    """Number of each row's key; a key is looked at once per block."""
    names = ("dataset", "full_stem", "image_stem", "object_stem", "click_type", "model_type")
    first, inverse = _alike([codes[name] for name in names])
    numbers = np.empty(len(first), dtype=np.int64)
    for i in np.argsort(first):
        *key, model = (codes[name][1][codes[name][0][first[i]]] for name in names)
        row = block.row(int(first[i]))
        if max(map(len, (*key, model))) > _LONGEST_TEXT or len(keys) >= _MOST_KEYS:
            what = "a text is longer, or there are more things to click on,"
            raise BadInput(f"{row}: {what} than a clicks file can have")
        _check_stem(row, key, model)
        if not _known(key[0], key[2], images):
            raise UnknownImage(
                f"{row}: image '{key[2][:60]}' is not in the data set '{key[0][:60]}'"
            )
        numbers[i] = keys.setdefault(tuple(key), len(keys))
    return numbers[inverse]


def _alike(columns: Sequence[Coded]) -> tuple[Ints, Ints]:
    """First row of each different row, and which of them each row is."""
    joined = np.zeros(len(columns[0][0]), dtype=np.int64)
    size = 1
    for index, words in columns:
        size *= max(1, len(words))
        if size > np.iinfo(np.int64).max:  # rows of one block are few, so this is rare
            joined = np.unique(joined, return_inverse=True)[1]
            size = (len(joined) + 1) * max(1, len(words))
        joined = joined * max(1, len(words)) + index
    _, first, inverse = np.unique(joined, return_index=True, return_inverse=True)
    return first, inverse


def _check_stem(row: str, key: Sequence[str], model: str) -> None:
    """Refuse a row whose `full_stem` does not name what its other columns say was clicked.

    Clicks of one object would otherwise count as clicks of two.
    """
    _, stem, image, object, kind = key
    due = f"{image}_______{object}" if object else image
    if kind == "first":
        fits, more = stem == due, ""
    else:
        due = f"{due}_{model}_{kind}"
        fits = stem.startswith(due) and bool(_MADE_BY.fullmatch(stem[len(due) :]))
        more = " (with _pc_NUMBER or _mobile_NUMBER behind it if a click made the mask)"
    if not fits:
        named = f"'full_stem' is '{stem[:60]}', but the row's other columns make it"
        raise BadInput(f"{row}: {named} '{due[:120]}'{more}")


def _known(dataset: str, image: str, images: Images) -> bool:
    if isinstance(images, Mapping):
        images = images.get(dataset)
    return images is None or image in images
