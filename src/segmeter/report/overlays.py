"""Overlays: many masks over one image, each in a colour of its own."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask

__all__ = ["colour_of", "overlay"]

Bytes = npt.NDArray[np.uint8]
_GOLDEN = 0.6180339887498949


def colour_of(place: int) -> tuple[int, int, int]:
    """A colour for the mask at a place of the list; neighbours in the list differ most.

    Lightness goes through four steps, so that masks differ in grey print too.

    >>> colour_of(0)
    (229, 77, 77)
    """
    light = (0.60, 0.45, 0.72, 0.52)[place % 4]
    red, green, blue = colorsys.hls_to_rgb(place * _GOLDEN % 1, light, 0.745)
    return round(255 * red), round(255 * green), round(255 * blue)


def overlay(pixels: Bytes, masks: Sequence[Mask], opacity: float = 0.55) -> Bytes:
    """The image with all masks over it; smaller ones lie on larger ones, borders are white.

    Of masks of equal area the later one lies on top.
    """
    owner = np.zeros(pixels.shape[:2], dtype=np.int32)
    for place in sorted(range(len(masks)), key=lambda i: -masks[i].area):
        mask = masks[place]
        owner[mask.window][mask.bits] = place + 1
    colours = np.array([(0, 0, 0), *map(colour_of, range(len(masks)))], dtype=np.float32)
    mixed = (1 - opacity) * pixels + opacity * colours[owner]
    shown = np.where((owner > 0)[..., None], mixed, pixels)
    shown[_borders(owner)] = 255
    return np.asarray(shown.round(), dtype=np.uint8)


def _borders(owner: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Pixels whose right or lower neighbour belongs to another mask."""
    found = np.zeros(owner.shape, dtype=bool)
    found[:, :-1] |= owner[:, :-1] != owner[:, 1:]
    found[:-1] |= owner[:-1] != owner[1:]
    return found
