"""Recorded clicks: the RClicks file of real people's clicks, one row per click.

The first invalid row raises an error with its number.

Recorded prompts of any kind: a table of clicks, boxes and strokes that people gave.

CSV or parquet with the columns `scene`, `round` (from 1) and `prompt`, the prompt as JSON:
`{"click": [y, x], "positive": true}`, `{"box": [[y, x], [y, x]]}` or
`{"scribble": [[y, x], ...], "positive": true}`, or a list of them; `dataset`, `target` and
`annotator` where there are several. Rows of a run have all but `annotator`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound, first_line
from segmeter.core.prompts import Prompt, round_from_json
from segmeter.datasets.image_files import named_errors, read_colours

COLUMNS = (
    "dataset", "image_stem", "object_stem", "model_type", "click_type", "full_stem", "device",
    "x", "y", "w", "h",
)  # fmt: skip
TEXTS, NUMBERS = COLUMNS[:7], COLUMNS[7:]
Ints = npt.NDArray[np.int64]
Images = Mapping[str, Collection[str]] | Collection[str] | None
"""Stems of images that may occur, of all datasets or by dataset; None allows any."""

_LOOKS = (
    f"a clicks file is text in UTF-8 that begins with the row '{','.join(COLUMNS)}' "
    "and has one click per row, separated by commas"
)
_KNOWN = {"click_type": ("first", "fn", "fp"), "device": ("pc", "mobile")}
# People may miss the image by a little; farther than this share of its sides is a mistake.
_MARGIN = 0.05
Session = tuple[str, str, str, str]
"""Dataset, scene, target, annotator; empty where the table does not name one."""
RecordedPrompts = Mapping[Session, Mapping[int, tuple[Prompt, ...]]]
_KEY = ("dataset", "scene", "target", "annotator")


class UnknownImage(BadInput):
    """A click on an image that the dataset does not have."""


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


def full_stem(image: str, object: str, model: str = "", kind: str = "first") -> str:
    """The unique key of what was clicked.

    >>> full_stem("dog", "3"), full_stem("dog", "", "sam", "fn")
    ('dog_______3', 'dog_sam_fn')
    """
    stem = f"{image}_______{object}" if object else image
    return stem if kind == "first" else f"{stem}_{model}_{kind}"


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
        """Positions of the first-round clicks on each target: (dataset, image, object)."""
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
    """Read a clicks file (`clicks.csv`, or `previews.csv` with display modes as datasets).

    `images` are the stems that may occur, of all datasets or by dataset; others are
    refused. A dataset that is not among them may have any.
    """
    table = _table(path)
    words = {name: table[name].combine_chunks() for name in TEXTS}
    codes = {name: column.indices.to_numpy().astype(np.int64) for name, column in words.items()}
    texts = {name: column.dictionary.to_pylist() for name, column in words.items()}
    x, y, w, h = (table[name].to_numpy() for name in NUMBERS)

    def refuse(wrong: npt.NDArray[np.bool_], what: str, *values: Ints) -> None:
        if wrong.any():
            at = int(wrong.argmax())
            shown = what.format(*(column[at] for column in values))
            raise BadInput(f"{path.name}, row {at + 2}: {shown}")

    refuse(np.minimum(w, h) < 1, "an image of w {} x h {} has no pixel", w, h)
    outside = (x < -_MARGIN * w) | (y < -_MARGIN * h)
    outside |= (x > (1 + _MARGIN) * w) | (y > (1 + _MARGIN) * h)
    refuse(outside, "the click at x {}, y {} lies outside the image of w {} x h {}", x, y, w, h)
    for name, known in _KNOWN.items():
        unknown = np.array([word not in known for word in texts[name]], dtype=bool)
        refuse(unknown[codes[name]], f"'{name}' is none of {', '.join(known)}")
    keys, key_of = _keys(path, codes, texts, images)
    points = np.stack([np.clip(y, 0, h - 1), np.clip(x, 0, w - 1)], axis=1)
    mobile = np.array([word == "mobile" for word in texts["device"]], dtype=bool)
    return Clicks(keys, key_of, points, np.stack([h, w], axis=1), mobile[codes["device"]])


def _table(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.csv as pc

    if not path.is_file():
        raise NotFound(f"no clicks file '{path}'")
    types = dict.fromkeys(TEXTS, pa.dictionary(pa.int32(), pa.string()))
    types |= dict.fromkeys(NUMBERS, pa.int64())
    try:
        read = pc.ReadOptions(use_threads=False)  # errors then name their row
        # Rows are counted as lines, so an empty line is a row, and a wrong one.
        parse = pc.ParseOptions(ignore_empty_lines=False)
        columns = list(COLUMNS)
        convert = pc.ConvertOptions(column_types=types, include_columns=columns, null_values=[])
        table = pc.read_csv(path, read_options=read, parse_options=parse, convert_options=convert)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path.name} cannot be read: {first_line(error)}; {_LOOKS}") from error
    if not len(table):
        raise BadInput(f"{path.name} holds no click")
    return table.unify_dictionaries()


def _keys(
    path: Path, codes: Mapping[str, Ints], texts: Mapping[str, Sequence[str]], images: Images
) -> tuple[tuple[Key, ...], Ints]:
    """The keys in the order of first appearance, and the key of each row."""
    import pyarrow as pa

    names = ("dataset", "full_stem", "image_stem", "object_stem", "click_type")
    together = codes[names[0]]
    for name in names[1:]:
        # Arrow numbers values by first appearance, in a tenth of the time of np.unique.
        encoded = pa.array(together * len(texts[name]) + codes[name]).dictionary_encode()
        together = encoded.indices.to_numpy().astype(np.int64)
    first = np.flatnonzero(np.diff(np.maximum.accumulate(together), prepend=-1))
    of_first = [[texts[name][code] for code in codes[name][first].tolist()] for name in names]
    numbers = np.empty(len(first), dtype=np.int64)
    keys: dict[Key, int] = {}
    for i, key in enumerate(zip(*of_first, strict=True)):
        made = Key(*key)
        known = images.get(made.dataset) if isinstance(images, Mapping) else images
        if known is not None and made.image not in known:
            raise UnknownImage(
                f"{path.name}, row {first[i] + 2}: image '{made.image[:60]}' is not in the dataset "
                f"'{made.dataset[:60]}'"
            )
        numbers[i] = keys.setdefault(made, len(keys))
    return tuple(keys), numbers[together]


def previous_mask(folder: Path, key: Key) -> npt.NDArray[np.float32]:
    """The mask that people saw in a later round, 0..1, from `<full_stem>.png`."""
    path = folder / f"{key.full_stem}.png"
    if Path(key.full_stem).name != key.full_stem or not path.is_file():
        raise NotFound(f"no previous mask '{key.full_stem}.png' in '{folder}'")
    grey = read_colours(path)[:, :, 0]
    return np.asarray(grey / np.float32(255), dtype=np.float32)


def read_prompts(path: Path) -> RecordedPrompts:
    """The prompts of each session and round, read when the file changed."""
    return _prompts(path, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=4)
def _prompts(path: Path, changed: int) -> RecordedPrompts:
    found: dict[Session, dict[int, tuple[Prompt, ...]]] = {}
    for number, row in enumerate(_rows(path), 2):
        where = f"'{path}', line {number}"
        try:
            turn = int(row["round"])
            prompts = round_from_json(str(row["prompt"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise BadInput(f"{where}: needs 'scene', 'round' and 'prompt' ({error})") from error
        except BadInput as error:
            raise BadInput(f"{where}: {error}") from error
        if turn < 1:
            raise BadInput(f"{where}: rounds count from 1, not {turn}")
        dataset, scene, target, annotator = (str(row.get(name) or "") for name in _KEY)
        rounds = found.setdefault((dataset, scene, target, annotator), {})
        rounds[turn] = (*rounds.get(turn, ()), *prompts)
    if not found:
        raise BadInput(f"'{path}' holds no prompt")
    return found


def _rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    from pyarrow import csv, parquet

    if not path.is_file():
        raise NotFound(f"no table of prompts '{path}'")
    with named_errors(path, "cannot be read as a table"):
        if path.suffix.lower() == ".parquet":
            known = parquet.read_schema(path).names
            wanted = [name for name in (*_KEY, "round", "prompt") if name in known]
            table = parquet.read_table(path, columns=wanted)
        else:
            text = csv.ConvertOptions(column_types={n: pa.string() for n in (*_KEY, "prompt")})
            table = csv.read_csv(path, convert_options=text)
        rows: list[dict[str, Any]] = table.to_pylist()
    return [row for row in rows if row.get("prompt")]
