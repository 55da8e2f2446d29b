"""Recorded clicks: the RClicks file of real people's clicks, read whole or not at all.

One row per click. The file is streamed in blocks, texts are kept once, and the first row that
cannot be right stops the protocol with its number, so that neither a wrong file nor a huge one
fills the memory or leaves anything half imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound

__all__ = ["COLUMNS", "Clicks", "Key", "UnknownImage", "previous_mask", "read_clicks", "read_split"]


COLUMNS = (
    "dataset",
    "image_stem",
    "object_stem",
    "model_type",
    "click_type",
    "full_stem",
    "device",
    "x",
    "y",
    "w",
    "h",
)
TEXTS, NUMBERS = COLUMNS[:7], COLUMNS[7:]
_BLOCK_BYTES = 1 << 22
_LOOKS = (
    f"a clicks file is text in UTF-8 that begins with the row '{','.join(COLUMNS)}' "
    "and has a click a row, with commas between"
)


def batches(path: Path) -> Iterator[Any]:
    """Record batches of the file; the reader's complaints become sentences."""
    import pyarrow as pa
    import pyarrow.csv as pc

    texts = {name: pa.dictionary(pa.int32(), pa.string()) for name in TEXTS}
    numbers = {name: pa.int64() for name in NUMBERS}
    names = _header(path)
    done = 0
    try:
        reader = pc.open_csv(
            path,
            read_options=pc.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            convert_options=pc.ConvertOptions(
                column_types={**texts, **numbers},
                include_columns=list(COLUMNS),
                strings_can_be_null=False,
                null_values=[],
            ),
            # Rows are counted as lines, so an empty line is a row, and a wrong one.
            parse_options=pc.ParseOptions(ignore_empty_lines=False),
        )
        for batch in reader:
            done += batch.num_rows
            yield batch
    except pa.ArrowInvalid as error:
        raise BadInput(f"{path.name}{_place(str(error), done, names)}") from None


def _header(path: Path) -> list[str]:
    """The names of the columns, each of which is there once."""
    try:
        with path.open("rb") as file:
            head = file.readline(1 << 16)
        names = [name.strip('"') for name in head.decode("utf-8-sig").strip().split(",")]
    except UnicodeDecodeError:
        raise BadInput(f"{path.name}, row 1: the header is not UTF-8 text; {_LOOKS}") from None
    except OSError as error:
        raise BadInput(f"clicks file '{path}' cannot be read: {error.strerror}") from None
    if not head:
        raise BadInput(f"{path.name} is empty; {_LOOKS}")
    if not set(names) & set(COLUMNS):
        raise BadInput(f"{path.name}, row 1: none of the columns is there; {_LOOKS}")
    for name in COLUMNS:
        if name not in names:
            raise BadInput(f"{path.name}, row 1: no column '{name}'; {_LOOKS}")
        if names.count(name) > 1:
            raise BadInput(f"{path.name}, row 1: column '{name}' is there twice; leave one")
    return names


def _place(message: str, done: int, names: Sequence[str]) -> str:
    """Row and reason out of the reader's message; rows count from 1, the header being row 1."""
    row = re.search(r"Row #(\d+)", message)
    where = f", row {row.group(1)}" if row else f", after row {done + 1}"
    if "invalid UTF8" in message:
        column = re.search(r"In CSV column #(\d+)", message)
        what = f"the text in '{names[int(column.group(1))]}'" if column else "a text"
        return f"{where}: {what} is not UTF-8"
    if wrong := re.search(r"In CSV column #(\d+).*invalid value '(.{0,40})", message):
        return f"{where}: '{wrong.group(2).rstrip(chr(39))}' is not a whole number"
    if wrong := re.search(r"Expected (\d+) columns, got (\d+)", message):
        return f"{where}: {wrong.group(2)} fields instead of {wrong.group(1)}"
    if "straddling" in message:
        return f"{where}: a line is longer than any click could be; this is no clicks file"
    if "out of sync" in message:
        return f"{where}: a quoted text does not end on its line"
    return f"{where}: {message.splitlines()[0][:120]}"


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


# Ten times the published file, so that no file can fill the memory: below 1 GB in all.
_MOST_ROWS = 5_000_000


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
