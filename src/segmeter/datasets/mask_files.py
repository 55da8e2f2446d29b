"""Mask files: the meaning of values is inferred from the values."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scenes import Target
from segmeter.datasets.image_files import has_colour_table, is_jpeg, read_alpha, read_values

Kind = Literal["binary", "soft", "trimap", "alpha", "labels", "palette", "colours"]
Values = npt.NDArray[Any]

MEANING: dict[Kind, str] = {
    "binary": "binary masks, all non-zero values are foreground",
    "soft": "masks with soft edges, the object from half the highest value up",
    "trimap": "trimaps: 255 is the object, 128 is ignored",
    "alpha": "masks in the transparency, the object from half opaque up",
    "labels": "label maps, one object per non-zero value",
    "palette": "label maps with a colour table, one object per non-zero index",
    "colours": "label maps in colour, one object per colour except black",
}

# When files differ, the kind that can tell the others' objects apart is the folder's.
_ORDER: tuple[Kind, ...] = ("colours", "palette", "labels", "trimap", "soft", "alpha", "binary")
# More values than this are an image's, unless each stands on this many pixels on average.
_MOST_LABELS, _FEWEST_PIXELS = 4096, 16
MOST_BITS = 2 << 30
"""Pixels in the boxes of all masks of one file, a byte each: 2 GiB."""
_VOID = 255
# By how much a JPEG's values stray around an edge.
_RINGING = 96


def readable(paths: Sequence[Path]) -> list[Path]:
    """The files that can be read: a damaged one is named with its scene, not here.

    If none can, the first one's error is raised.
    """
    found, errors = [], []
    for path in paths:
        try:
            read_values(path)
            found.append(path)
        except BadInput as error:
            errors.append(error)
    if errors and not found:
        raise errors[0]
    return found


def infer_kind(paths: Iterable[Path]) -> Kind:
    kinds = {_kind(path) for path in paths}
    return next(kind for kind in _ORDER if kind in kinds)


def check_binary(path: Path) -> None:
    """Refuse a label map among masks that were recognised as binary by some of the files."""
    if _kind(path) in ("labels", "palette", "colours"):
        values = np.unique(one_number(read_values(path)))
        shown = ", ".join(map(str, values[values > 0][:3].tolist()))
        raise BadInput(
            f"'{path}' holds several values ({shown}), and the first masks of the folder one: add "
            "kind=labels if each value is an object, kind=binary if all are one object"
        )


def objects_in(path: Path, kind: Kind, ignored: int | None) -> list[Target]:
    """The objects of one file, by ascending value; `ignored` is the value not judged."""
    if kind in ("binary", "soft", "trimap", "alpha"):
        return [object_in(path, kind, "object")]
    labels = one_number(read_values(path))
    if labels.min(initial=0) < 0:
        raise BadInput(f"'{path}' holds the label {labels.min()}; labels start at 0")
    ignore = Mask.of(labels == ignored) or None if ignored is not None else None
    return [
        Target(str(number), mask, ignore)
        for number, mask in masks_of_values(labels, f"'{path}'", without=(0, ignored))
    ]


def masks_of_values(
    labels: npt.NDArray[Any], what: str, without: Collection[int | None] = (0,)
) -> Iterator[tuple[int, Mask]]:
    """Each value and its mask, by ascending value; each is looked for in its box only."""
    from scipy import ndimage

    top = int(labels.max(initial=0))
    values: Sequence[int] = range(1, top + 1)
    if 0 not in without or top > _MOST_LABELS or int(labels.min(initial=0)) < 0:
        numbers, inverse = np.unique(labels, return_inverse=True)
        values, labels = numbers.tolist(), inverse.reshape(labels.shape) + 1
        if len(values) > _MOST_LABELS and len(values) * _FEWEST_PIXELS > labels.size:
            raise BadInput(
                f"{what} has {len(values)} different values: that is an image, not a label map"
            )
    found = enumerate(ndimage.find_objects(labels.astype(np.int32, copy=False)), 1)
    boxes = {i: box for i, box in found if box is not None and values[i - 1] not in without}
    needed = sum(math.prod(s.stop - s.start for s in box) for box in boxes.values())
    if needed > MOST_BITS:
        raise BadInput(
            f"{what}: masks of its {len(boxes)} labels would take {needed / (1 << 30):.1f} GiB, and"
            f" at most {MOST_BITS >> 30} GiB are made; is it an image in place of a label map?"
        )
    for i, box in boxes.items():
        low = tuple(int(side.start) for side in box)
        yield values[i - 1], Mask.of(labels[box] == i, low, labels.shape)


def object_in(path: Path, kind: Kind, name: str, label: str = "") -> Target:
    values = read_alpha(path) if kind == "alpha" else flat(read_values(path))
    if values is None:
        raise BadInput(f"'{path}' has no transparency, which the other masks have")
    if values.ndim == 3:
        values = values.max(axis=2)
    if kind == "trimap":
        return Target(name, Mask.of(values > 128), Mask.of(values == 128) or None, label)
    least = int(values.max()) / 2 if kind in ("soft", "alpha") else 0
    return Target(name, Mask.of(np.asarray(values > least)), None, label)


def void_in(paths: Iterable[Path]) -> int | None:
    """255 if it occurs among other 8-bit labels: the usual value for ignored pixels.

    In 16 bits it is an ordinary label.
    """
    for path in paths:
        values = flat(read_values(path))
        if values.ndim != 2 or values.dtype != np.uint8:
            continue
        if (values == _VOID).any() and ((values > 0) & (values < _VOID)).any():
            return _VOID
    return None


def _kind(path: Path) -> Kind:
    values = flat(read_values(path))
    if has_colour_table(path):
        return "palette"
    alpha = read_alpha(path)  # transparent in some places and opaque in others?
    if alpha is not None and alpha.min() < alpha.max():
        colours = np.unique(one_number(values)).size
        if colours == 1 or (colours > _MOST_LABELS and colours * _FEWEST_PIXELS > values.size):
            return "alpha"  # the rest has one value everywhere, or as many as an image
    if values.ndim == 3:
        return _lossy_kind(path, values) if is_jpeg(path) else "colours"
    levels, counts = np.unique(values, return_counts=True)
    if levels.size <= 1 or (levels.size == 2 and levels[0] == 0):
        return "binary"
    if set(levels.tolist()) <= {0, 128, 255}:
        return "trimap"
    ends = counts[0] * (levels[0] == 0) + counts[-1]
    mostly_ends = ends >= 0.9 * values.size and levels[-1] >= 200
    if mostly_ends and levels.size > 8:
        return "soft"
    return _lossy_kind(path, values) if is_jpeg(path) else "labels"


def _lossy_kind(path: Path, values: Values) -> Kind:
    """Of a JPEG, whose values ring around edges, only one object on black can be recognised."""
    brightest = values.max(axis=2) if values.ndim == 3 else values
    high = int(brightest.max())
    object = brightest > high / 2
    edges = (brightest > high / 4) & (brightest < 0.75 * high)
    colours = values[object].reshape(np.count_nonzero(object), -1).astype(np.int64)
    strays = np.abs(colours - np.median(colours, axis=0)).max(axis=1) > _RINGING
    if high < 128 or edges.sum() > object.sum() / 2 or strays.mean() > 0.1:
        raise BadInput(
            f"'{path}' is a JPEG, which blurs labels into each other; save the masks as PNG,"
            " or say kind=soft where each has one object"
        )
    return "soft"


def flat(values: Values) -> Values:
    """Three equal channels are one."""
    if values.ndim == 3 and (values == values[:, :, :1]).all():
        return np.asarray(values[:, :, 0])
    return values


def one_number(values: Values) -> npt.NDArray[np.int64]:
    """One number per pixel; a colour's number is read as red, green, blue in hexadecimal order."""
    plain = flat(values)
    if plain.ndim == 2:
        return plain.astype(np.int64)
    blue, green, red = np.moveaxis(plain.astype(np.int64), 2, 0)
    return np.asarray(red * 65536 + green * 256 + blue)
