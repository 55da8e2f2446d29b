"""Images: compressed once, placed in scene coordinates, with what is drawn over them."""

from __future__ import annotations

import colorsys
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from segmeter.core.masks import Mask
from segmeter.core.prompts import Box, Click, Prompt, Scribble, points_of
from segmeter.core.sections import Illustration, Outline
from segmeter.core.seeds import fingerprint
from segmeter.report.elements import data_address, drawn, number

_LONGEST = 640
_QUALITY = 72


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a scene that is shown: first pixel and size, in scene pixels."""

    top: int
    left: int
    height: int
    width: int

    @property
    def scale(self) -> float:
        """Page pixels per scene pixel."""
        return min(_LONGEST / max(self.height, self.width), 6.0)

    @property
    def view_box(self) -> str:
        return f"{self.left} {self.top} {self.width} {self.height}"

    @property
    def unit(self) -> float:
        """Length in scene pixels of about one page pixel of a small figure."""
        return max(self.height, self.width) / 420


class Album:
    """All images and outlines of a page; each is stored once, however often it is shown."""

    def __init__(self) -> None:
        self._images: dict[str, tuple[Window, str]] = {}
        self._outlines: dict[str, str] = {}
        self.volumes: set[str] = set()  # whose voxels the page holds already

    def add(self, image: Illustration, window: Window) -> str:
        """Store the shown part of an image; the id to refer to."""
        pixels = image.pixels
        raw = pixels if isinstance(pixels, bytes) else pixels.tobytes()
        key = "p" + fingerprint(raw, window, size=6)
        if key in self._images:
            return key
        if isinstance(pixels, bytes):
            self._images[key] = Window(0, 0, *_size(image)), data_address(pixels)
        else:
            self._images[key] = window, data_address(_compressed(pixels, window))
        return key

    def outline(self, route: str) -> str:
        """Store an outline; the id to refer to."""
        return self._outlines.setdefault(route, f"o{len(self._outlines)}")

    def defs(self) -> Markup:
        """The hidden drawing that holds them."""
        return drawn("album", self._images, self._outlines)


def window_of(image: Illustration, masks: Sequence[Mask], prompts: Sequence[Prompt]) -> Window:
    """The whole image, or the neighbourhood of masks and prompts when it is `close`."""
    height, width = _size(image)
    corners = [c for m in masks if m for c in (m.low, m.high)]
    corners += [tuple(int(v) for v in p) for prompt in prompts for p in points_of(prompt)]
    if not image.close or not corners:
        return Window(0, 0, height, width)
    low = np.min(corners, axis=0)
    high = np.max(corners, axis=0)
    middle, reach = (low + high) / 2, np.maximum((high - low) * 1.5, 64)
    # Four by three, so that neighbours in a gallery line up.
    reach = np.maximum(reach, [reach[1] * 0.75, reach[0] / 0.75])
    reach = np.minimum(np.ceil(reach), (height, width)).astype(int)
    start = np.clip(np.round(middle - reach / 2), 0, np.array((height, width)) - reach)
    return Window(int(start[0]), int(start[1]), int(reach[0]), int(reach[1]))


def image_svg(image: Illustration, album: Album) -> Markup:
    window = window_of(image, [o.mask for o in image.outlines], image.prompts)
    parts = [outline_svg(outline, window, album) for outline in image.outlines]
    parts += [prompt_svg(prompt, k + 1, window) for k, prompt in enumerate(image.prompts)]
    alt = image.alt or image.caption.replace("**", "")
    return drawn("scene", album.add(image, window), window, alt, Markup("").join(parts))


def outline_svg(outline: Outline, window: Window, album: Album) -> Markup:
    """A mask's border; nothing of an empty mask."""
    border = outline_path(outline.mask, window.scale)
    if not border:
        return Markup("")
    colour = None if outline.colour is None else css_colour(outline.colour)
    return drawn("outline", album.outline(border), outline, colour)


def prompt_svg(prompt: Prompt, round_: int, window: Window) -> Markup:
    """A prompt: plus or minus in a disc or square, a box, a stroke."""
    match prompt:
        case Click(point, positive):
            x, y = point[-1] + 0.5, point[-2] + 0.5
            return drawn("click", x, y, positive, round_, window.unit)
        case Box(low, high):
            width, height = high[-1] - low[-1] + 1, high[-2] - low[-2] + 1
            return drawn("prompt_box", low[-1], low[-2], width, height, round_)
        case Scribble(points, positive):
            places = [(p[-1] + 0.5, p[-2] + 0.5) for p in points]
            return drawn("stroke", places, positive, round_)
        case _:
            return Markup("")


def _size(image: Illustration) -> tuple[int, int]:
    if image.size is not None:
        return image.size
    if isinstance(image.pixels, bytes):
        from PIL import Image

        with Image.open(io.BytesIO(image.pixels)) as opened:
            return opened.height, opened.width
    return int(image.pixels.shape[0]), int(image.pixels.shape[1])


def _compressed(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], window: Window) -> bytes:
    """The window as WebP, shrunk to the page's resolution."""
    from PIL import Image

    part = pixels[window.top : window.top + window.height, window.left : window.left + window.width]
    image = Image.fromarray(np.ascontiguousarray(part))
    image.thumbnail((_LONGEST, _LONGEST), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.convert("RGB").save(file, "WEBP", quality=_QUALITY, method=4)
    return file.getvalue()


_LONGEST_PATH = 3000  # characters; beyond, the outline is drawn coarser


def outline_path(mask: Mask, scale: float) -> str:
    """The mask's border in scene coordinates; holes are parts of the path (even-odd fill).

    `scale` is page pixels per scene pixel: detail below half a page pixel is dropped.
    """
    if not mask:
        return ""
    contours = _contours(mask, scale)
    tolerance = 0.4 / scale
    path = _joined(contours, tolerance)
    while len(path) > _LONGEST_PATH and tolerance * scale < 8:
        tolerance *= 1.7
        path = _joined(contours, tolerance)
    return path


def _contours(mask: Mask, scale: float) -> list[npt.NDArray[np.float64]]:
    """Closed polygons along pixel borders, traced at twice the page's resolution."""
    import cv2

    height, width = mask.bits.shape
    factor = min(2.0 * scale, 4.0)
    size = max(1, round(width * factor)), max(1, round(height * factor))
    kind = cv2.INTER_NEAREST if factor >= 1 else cv2.INTER_AREA
    drawn = cv2.resize(mask.bits.astype(np.uint8) * 255, size, interpolation=kind) > 127
    padded = np.pad(drawn.astype(np.uint8), 1)
    traced, _ = cv2.findContours(padded, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    step = np.array([width / size[0], height / size[1]])
    low = np.array(mask.low[::-1], dtype=float)
    # Traced through pixel centres of the padded drawing: back to its borders' frame.
    return [(c[:, 0, :].astype(float) - 0.5) * step + low for c in traced]


def _joined(contours: list[npt.NDArray[np.float64]], tolerance: float) -> str:
    import cv2

    pieces = []
    for contour in contours:
        points = cv2.approxPolyDP(contour.astype(np.float32)[:, None], tolerance, True)[:, 0]
        if len(points) >= 3 or len(contours) == 1:
            pieces.append(_relative(points))
    return "".join(pieces)


def _relative(points: npt.NDArray[Any]) -> str:
    """A closed route by steps from each place to the next, in tenths of a pixel: half as long.

    >>> _relative(np.array([(0, 0), (2.5, 1), (2, 0)], dtype=np.float32))
    'M0 0l2.5 1-.5-1Z'
    """
    places = np.round(points.astype(float) * 10).astype(int)
    start, steps = places[0] / 10, np.diff(places, axis=0)
    text = "".join(map(_step, steps.ravel().tolist())).removeprefix(" ")
    return f"M{number(start[0])} {number(start[1])}l{text}Z"


@lru_cache(1 << 16)  # outlines are millions of steps, most of them short
def _step(tenths: int) -> str:
    """A number with what separates it from the one before: a minus, else a space."""
    value = tenths / 10
    text = f"{value:.1f}".removesuffix(".0").replace("0.", ".", abs(value) < 1)
    return text if text.startswith("-") else f" {text}"


Bytes = npt.NDArray[np.uint8]
_GOLDEN = 0.6180339887498949
_OPACITY = 0.55


def colour_of(place: int) -> tuple[int, int, int]:
    """A colour for the mask at a place of the list; neighbours in the list differ most.

    Lightness goes through four steps, so that masks differ in grey print too.

    >>> colour_of(0)
    (229, 77, 77)
    """
    light = (0.60, 0.45, 0.72, 0.52)[place % 4]
    red, green, blue = colorsys.hls_to_rgb(place * _GOLDEN % 1, light, 0.745)
    return round(255 * red), round(255 * green), round(255 * blue)


def css_colour(place: int) -> str:
    return "rgb({},{},{})".format(*colour_of(place))


def overlay(pixels: Bytes, masks: Sequence[Mask]) -> Bytes:
    """The image with all masks over it; smaller ones are above larger ones, borders are white.

    Of masks of equal area the later one is on top.
    """
    owner = np.zeros(pixels.shape[:2], dtype=np.int32)
    for place in sorted(range(len(masks)), key=lambda i: -masks[i].area):
        mask = masks[place]
        owner[mask.window][mask.bits] = place + 1
    colours = np.array([(0, 0, 0), *map(colour_of, range(len(masks)))], dtype=np.float32)
    mixed = (1 - _OPACITY) * pixels + _OPACITY * colours[owner]
    shown = np.where((owner > 0)[..., None], mixed, pixels)
    # Pixels whose right or lower neighbour belongs to another mask.
    shown[:, :-1][owner[:, :-1] != owner[:, 1:]] = 255
    shown[:-1][owner[:-1] != owner[1:]] = 255
    return np.asarray(shown.round(), dtype=np.uint8)
