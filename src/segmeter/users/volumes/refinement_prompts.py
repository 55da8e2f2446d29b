"""Refinement: prompts that correct a mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Bits, Mask
from segmeter.core.models import ProtocolName
from segmeter.core.morphology import largest_component
from segmeter.core.prompts import Click, Scribble
from segmeter.users.error_prompts import pixel_at
from segmeter.users.volumes import initial_prompts
from segmeter.users.volumes.initial_prompts import Draws, centre_of, foreground_slices

Pixel = tuple[int, int]

_DILATION_PX = 2
_LENGTH_SHARE = 0.6
Voxel = tuple[int, ...]
_FALLBACK, _FALLBACK_3D = 3, 5
_HALF_PATCH = 64


def contour_scribble(ground_truth: Bits, prediction: Bits, start: float) -> list[Pixel]:
    """A stroke along the outline of a plane's dilated ground truth, starting on the prediction.

    The outline, dilated by 2 pixels, is cut at six tenths of its length around a point that
    lies on the prediction; the largest connected part of the result is kept, the first in
    raster order on a tie. Pixels in the order of drawing; none where no point of the outline lies
    on the prediction. `start`, in [0, 1), selects the middle of the stroke.
    """
    outline = _outline(ground_truth)
    on_prediction = np.flatnonzero(prediction[outline[:, 0], outline[:, 1]]) if len(outline) else ()
    if len(on_prediction) == 0:
        return []
    middle = int(on_prediction[int(start * len(on_prediction))])
    length = round(_LENGTH_SHARE * len(outline))
    first = middle - length // 2
    stroke = outline[np.arange(first, first + length) % len(outline)]
    drawn = np.zeros(ground_truth.shape, dtype=bool)
    drawn[stroke[:, 0], stroke[:, 1]] = True
    kept = largest_component(Mask.of(drawn), tie="first")
    return list(dict.fromkeys((int(y), int(x)) for y, x in stroke if kept[y, x]))


def _outline(ground_truth: Bits) -> npt.NDArray[np.int64]:
    """Pixels along the contours of the dilated ground truth, one contour after the other.

    A plane of one row or column has none: nothing can be drawn around what fills it.
    """
    import cv2
    from skimage.measure import find_contours
    from skimage.morphology import disk

    if min(ground_truth.shape) < 2:
        return np.zeros((0, 2), dtype=np.int64)
    grown = cv2.dilate(ground_truth.astype(np.uint8), disk(_DILATION_PX))
    found = find_contours(grown.astype(float), 0.5, fully_connected="low")
    if not found:
        return np.zeros((0, 2), dtype=np.int64)
    return np.asarray(np.rint(np.concatenate(found)), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Correction:
    clicks: tuple[Click, ...]  # one for each voxel
    stroke: Scribble | None = None  # the same in drawing order; None for single points
    negative: bool = False  # false positives were corrected
    plane: tuple[int, int] | None = None  # axis and index of that of a negative stroke
    fallback: bool = False  # no stroke was possible: random false positives were clicked

    @classmethod
    def of(cls, clicks: Sequence[Click]) -> Correction | None:
        return cls(tuple(clicks)) if clicks else None


def point_per_wrong_slice(target: Mask, prediction: Mask, draws: Draws) -> list[Click]:
    """One random wrong pixel in each of the target's slices that has any.

    The original sets its seed for every slice, so that one random word decides them all.
    """
    clicks = []
    for z in foreground_slices(target):
        ground_truth, here = target.slice(z), prediction.slice(z)
        wrong = (ground_truth - here) | (here - ground_truth)
        if wrong:
            pixel = _random_pixel(wrong, draws)
            clicks.append(Click((z, *pixel), ground_truth[pixel]))
    return clicks


def _random_pixel(mask: Mask, draws: Draws) -> tuple[int, ...]:
    draws.restart()
    pixels = np.flatnonzero(mask.bits)
    return pixel_at(mask, int(pixels[draws.below(len(pixels))]))


def point_per_wrong_volume(
    target: Mask, prediction: Mask, draws: Draws, protocol: ProtocolName
) -> list[Click]:
    """One random wrong voxel; none when the mask is right.

    `published` numbers voxels in the file's order, x first.
    """
    if protocol == "published":
        target, prediction = _turned(target), _turned(prediction)
    errors = (target - prediction) | (prediction - target)
    if not errors:
        return []
    voxel = _random_pixel(errors, draws)
    click = Click(voxel, target[voxel])
    return [_turned_click(click)] if protocol == "published" else [click]


def scribble_correction(
    target: Mask,
    prediction: Mask,
    draws: Draws,
    protocol: ProtocolName,
    *,
    fallback: int = _FALLBACK,
    always_draw: bool = False,
) -> Correction | None:
    """A stroke through the larger kind of error, drawn by chance in proportion to its size.

    Positive: a line through the middle of the largest part of the false negatives, slice by
    slice. Negative: a stroke along the target's outline in the plane across the slices with
    most false positives, where it lies on the mask; `published` looks at planes of fixed y
    only, `corrected` also at those of fixed x. Where no stroke can be drawn, a few random false
    positives are clicked, which `published` calls positive. None when the mask is right.
    """
    false_negatives, false_positives = target - prediction, prediction - target
    if not false_negatives and not false_positives:
        return None
    total = false_negatives.area + false_positives.area
    if always_draw or (false_negatives and false_positives):
        negative = draws.chance(false_positives.area / total)
    else:
        negative = bool(false_positives)
    if not negative:
        part = largest_component(false_negatives, tie="last")
        points = [(z, *centre_of(part.slice(z), "mass")) for z in foreground_slices(part)]
        clicks = tuple(Click(point, True) for point in points)
        return Correction(clicks, Scribble(tuple(points), True))
    return _negative(target, prediction, false_positives, draws, protocol, fallback)


def scribble_correction_3d(
    target: Mask, prediction: Mask, draws: Draws, protocol: ProtocolName
) -> Correction | None:
    """The same for a model that sees the whole volume.

    `published` draws in the file's order of axes, so that the positive line runs along x, and
    keeps one random point of it. `corrected` draws along z and keeps all positive points, one
    negative one, as in the paper.
    """
    if protocol == "corrected":
        found = scribble_correction(target, prediction, draws, protocol, fallback=1)
        if found is None or not found.negative:
            return found
        one = found.clicks[draws.below(len(found.clicks))]
        return Correction((one,), None, True, found.plane, found.fallback)
    seen = _turned(target), _turned(prediction), draws, protocol
    found = scribble_correction(*seen, fallback=_FALLBACK_3D, always_draw=True)
    if found is None:
        return None
    one = found.clicks[draws.choose(len(found.clicks), 1)[0]]
    where = None if found.plane is None else (2 - found.plane[0], found.plane[1])
    return Correction((_turned_click(one),), None, found.negative, where, found.fallback)


def near(mask: Mask, point: Sequence[float]) -> Mask:
    """The part of a mask within the patch around a point, which is all that SAM-Med3D sees."""
    low = tuple(max(0, int(p) - _HALF_PATCH) for p in point)
    high = tuple(min(n, int(p) + _HALF_PATCH) for p, n in zip(point, mask.shape, strict=True))
    return Mask.of(mask.crop(low, high), low, mask.shape)


def _negative(
    target: Mask,
    prediction: Mask,
    false_positives: Mask,
    draws: Draws,
    protocol: ProtocolName,
    fallback: int,
) -> Correction:
    axis, index = _worst_plane(false_positives, (1,) if protocol == "published" else (1, 2))
    ground_truth, here = _whole_plane(target, axis, index), _whole_plane(prediction, axis, index)
    if ground_truth.any():
        stroke = contour_scribble(ground_truth, here, draws.fraction())
    else:
        column = int(here.sum(axis=0).argmax())
        stroke = [(row, column) for row in range(len(here))]
    drawn = [pixel for pixel in stroke if here[pixel]]  # in the order of drawing
    if not drawn:
        points = initial_prompts.points_per_volume(false_positives, fallback, draws)
        clicks = tuple(Click(p.point, protocol == "published") for p in points)
        return Correction(clicks, None, True, (axis, index), fallback=True)
    return Correction(
        tuple(Click(_lifted(pixel, axis, index), False) for pixel in sorted(drawn)),
        Scribble(tuple(_lifted(pixel, axis, index) for pixel in drawn), False),
        True,
        (axis, index),
    )


def _worst_plane(false_positives: Mask, axes: Sequence[int]) -> tuple[int, int]:
    """The plane with most false positives; the first axis, then the first index, on a tie."""
    best = (0, 0, 0)
    for axis in axes:
        others = tuple(a for a in range(3) if a != axis)
        counts = false_positives.bits.sum(axis=others)
        place = int(counts.argmax())
        if counts[place] > best[0]:
            best = (int(counts[place]), axis, place + false_positives.low[axis])
    return best[1], best[2]


def _whole_plane(mask: Mask, axis: int, index: int) -> Bits:
    low = tuple(index if a == axis else 0 for a in range(3))
    high = tuple(index + 1 if a == axis else n for a, n in enumerate(mask.shape))
    return mask.crop(low, high).squeeze(axis)


def _lifted(pixel: Pixel, axis: int, index: int) -> Voxel:
    row, column = pixel
    return (row, index, column) if axis == 1 else (row, column, index)


def _turned(mask: Mask) -> Mask:
    """The same mask with its axes in the file's order, x first."""
    return Mask(mask.shape[::-1], mask.low[::-1], np.ascontiguousarray(mask.bits.transpose()))


def _turned_click(click: Click) -> Click:
    return Click(click.point[::-1], click.positive)
