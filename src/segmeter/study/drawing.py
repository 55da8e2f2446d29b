"""Drawing: screens for clicking and views for rating, from an image and a mask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.core.error_regions import deepest
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.prompts import Box, Click, moved

Pixels = npt.NDArray[np.uint8]
Prompted = Click | Box
Colour = tuple[int, int, int]

_GREY = 128
_GREEN = (0, 200, 0)
_RED = np.array((230, 30, 30), dtype=np.float32)
_YELLOW, _PURPLE = (253, 231, 37), (68, 1, 84)
_BLUE, _WHITE = (20, 90, 255), (255, 255, 255)
# Raters judge edges: the zoom is enlarged to about this many pixels without smoothing.
_ZOOM_SIDE, _ZOOM_LEAST, _ZOOM_GROWN = 640, 64, 0.3


def shrunk(pixels: Pixels, largest_side: int) -> Pixels:
    """The image with no side longer than allowed; never enlarged."""
    height, width = pixels.shape[:2]
    ratio = largest_side / max(height, width)
    if ratio >= 1:
        return pixels
    size = (max(1, round(width * ratio)), max(1, round(height * ratio)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def shrunk_mask(mask: Mask, size: tuple[int, int]) -> Mask:
    """The mask at another size: pixels that are at least half covered."""
    if tuple(mask.shape) == size:
        return mask
    dense = mask.dense().astype(np.float32)
    small = cv2.resize(dense, (size[1], size[0]), interpolation=cv2.INTER_AREA)
    return Mask.of(np.asarray(small) >= 0.5)


def encoded(pixels: Pixels, image: bool = False) -> bytes:
    """A PNG file; a large image becomes a JPEG, which loads several times faster."""
    large = image and pixels.shape[0] * pixels.shape[1] > 600_000
    settings = [cv2.IMWRITE_JPEG_QUALITY, 95] if large else [cv2.IMWRITE_PNG_COMPRESSION, 3]
    done, raw = cv2.imencode(".jpg" if large else ".png", pixels[..., ::-1], settings)
    if not done:
        raise BadInput("an image could not be encoded")
    return raw.tobytes()


def centre_of(mask: Mask) -> Click:
    """The point farthest from the mask's edge; the first in reading order of several."""
    place = deepest(mask).point
    if place is None:
        raise BadInput("an empty mask has no centre")
    return Click((float(place[0]), float(place[1])))


def zoom_window(mask: Mask, prompt: Prompted) -> tuple[slice, slice]:
    """Rows and columns around mask and prompt: grown by 30 %, at least 64 px, inside."""
    corners = [prompt.point] if isinstance(prompt, Click) else [prompt.low, prompt.high]
    if mask:
        corners += [mask.low, Box.around(mask).high]
    window = []
    for axis, length in enumerate(mask.shape):
        low, high = (f(float(c[axis]) for c in corners) for f in (min, max))
        side = min(max((high - low + 1) * (1 + 2 * _ZOOM_GROWN), _ZOOM_LEAST), length)
        start = int(np.clip((low + high + 1 - side) / 2, 0, length - side))
        window.append(slice(start, start + int(np.ceil(side))))
    return window[0], window[1]


def _cutout(pixels: Pixels, mask: Mask, shifted: bool = False) -> Pixels:
    """The object on grey; shifted to the corner, so that the pointer's start does not help."""
    grey = np.full_like(pixels, _GREY)
    place = tuple(slice(side) for side in mask.bits.shape) if shifted else mask.window
    grey[place][mask.bits] = pixels[mask.window][mask.bits]
    return grey


def _highlight(pixels: Pixels, mask: Mask) -> Pixels:
    drawn = np.ascontiguousarray(pixels)
    thick = max(2, round(max(mask.shape) / 250))
    contours, _ = cv2.findContours(
        mask.dense().astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE
    )
    return np.asarray(cv2.drawContours(drawn.copy(), contours, -1, _GREEN, thick), dtype=np.uint8)


def _overlay(pixels: Pixels, mask: Mask) -> Pixels:
    """The mask half transparent in red, with a white outline of one pixel."""
    drawn = pixels.astype(np.float32)
    inside = mask.dense()
    drawn[inside] = (drawn[inside] + _RED) / 2
    square = np.ones((3, 3), np.uint8)
    inner = cv2.erode(inside.astype(np.uint8), square, borderValue=0)
    drawn[inside & (np.asarray(inner) == 0)] = _WHITE
    return np.rint(drawn).astype(np.uint8)


def _two_colours(mask: Mask, on: Colour, off: Colour) -> Pixels:
    return np.where(mask.dense()[..., None], on, off).astype(np.uint8)


def text_screen(text: str, size: tuple[int, int] = (300, 400)) -> Pixels:
    """A screen of text as the page shows it: white on grey, centred."""
    from textwrap import fill

    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (size[1], size[0]), (_GREY,) * 3)
    words, font = fill(text, 22), ImageFont.load_default(size=30)
    middle = (size[1] // 2, size[0] // 2)
    ImageDraw.Draw(image).multiline_text(
        middle, words, fill=_WHITE, font=font, anchor="mm", align="center"
    )
    return np.asarray(image)


def heat_map(pixels: Pixels, mask: Mask, clicks: Sequence[tuple[int, int]]) -> Pixels:
    """Clicks as a heat map over the image, each also as a dot, and the outline of the target."""
    height, width = pixels.shape[:2]
    heat: npt.NDArray[np.float32] = np.zeros((height, width), dtype=np.float32)
    for y, x in clicks:
        heat[np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)] += 1
    sigma = max(3.0, 0.02 * float(np.hypot(height, width)))
    heat = np.asarray(cv2.GaussianBlur(heat, (0, 0), sigma), dtype=np.float32)[..., None]
    heat *= 0.75 / max(float(heat.max()), 1e-9)
    warm = np.asarray((255, 80, 0), dtype=np.float32)
    grey = pixels.mean(axis=2, keepdims=True).repeat(3, axis=2) * 0.8
    drawn: Pixels = (grey * (1 - heat) + warm * heat).astype(np.uint8)
    for y, x in clicks:
        cv2.circle(drawn, (x, y), max(2, int(sigma / 4)), _WHITE, -1, cv2.LINE_AA)
    outline = mask.dense().astype(np.uint8)
    contours, _ = cv2.findContours(outline, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(drawn, contours, -1, (125, 180, 230), max(1, int(sigma / 6)))
    return drawn


SCREENS: Mapping[str, Callable[[Pixels, Mask], Pixels]] = {
    "cutout": _cutout,
    "shifted": partial(_cutout, shifted=True),
    "silhouette": lambda pixels, mask: _two_colours(mask, _WHITE, (0, 0, 0)),
    "highlight": _highlight,
    "overlay": _overlay,
}


def _with_prompt(pixels: Pixels, prompt: Prompted) -> Pixels:
    """A blue dot with a white rim, or a blue-and-white box."""
    drawn = np.ascontiguousarray(pixels).copy()
    size = max(4, round(max(pixels.shape[:2]) / 100))
    if isinstance(prompt, Click):
        y, x = (round(value) for value in prompt.point)
        cv2.circle(drawn, (x, y), size + max(1, size // 3), _WHITE, -1, cv2.LINE_AA)
        cv2.circle(drawn, (x, y), size, _BLUE, -1, cv2.LINE_AA)
        return drawn
    corners = [tuple(round(v) for v in c[::-1]) for c in (prompt.low, prompt.high)]
    cv2.rectangle(drawn, corners[0], corners[1], _WHITE, size)
    cv2.rectangle(drawn, corners[0], corners[1], _BLUE, max(1, size // 2))
    return drawn


def _zoomed(draw: Callable[[Pixels, Mask], Pixels]) -> Callable[[Pixels, Mask, Prompted], Pixels]:
    """A view of the neighbourhood, enlarged by a whole factor so that pixels stay square."""

    def view(pixels: Pixels, mask: Mask, prompt: Prompted) -> Pixels:
        rows, columns = zoom_window(mask, prompt)
        part = draw(pixels, mask)[rows, columns]
        times = max(1, _ZOOM_SIDE // max(part.shape[:2]))
        large = part.repeat(times, axis=0).repeat(times, axis=1)
        start = (rows.start - 0.5, columns.start - 0.5)  # the corner of the first pixel
        there = moved(
            prompt, lambda at: tuple((a - b) * times - 0.5 for a, b in zip(at, start, strict=True))
        )
        assert isinstance(there, Click | Box)
        return _with_prompt(large, there)

    return view


VIEWS: Mapping[str, Callable[[Pixels, Mask, Prompted], Pixels]] = {
    "view-image": lambda pixels, mask, prompt: _with_prompt(pixels, prompt),
    "view-masked": lambda pixels, mask, prompt: _with_prompt(_overlay(pixels, mask), prompt),
    "view-alone": lambda pixels, mask, prompt: _two_colours(mask, _YELLOW, _PURPLE),
    "view-zoom": _zoomed(lambda pixels, mask: pixels),
    "view-zoom-masked": _zoomed(_overlay),
}
