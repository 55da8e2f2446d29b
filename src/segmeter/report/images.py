"""Images: compressed once, placed in scene coordinates, with what is drawn over them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from segmeter.core.masks import Mask
from segmeter.core.prompts import Box, Click, Prompt, Scribble
from segmeter.core.sections import Illustration, Outline
from segmeter.core.seeds import fingerprint
from segmeter.report.elements import element, path
from segmeter.report.outlines import outline_path
from segmeter.report.templates import data_address

__all__ = ["Album", "Window", "image_svg", "outline_svg", "prompt_svg", "scene_svg", "window_of"]

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
    """All images of a page; each is stored once, however often it is shown."""

    def __init__(self) -> None:
        self._images: dict[str, Markup] = {}

    def add(self, image: Illustration, window: Window) -> str:
        """Store the shown part of an image; the id to refer to."""
        raw = image.pixels if isinstance(image.pixels, bytes) else image.pixels.tobytes()
        key = "p" + fingerprint(raw, window, size=6)
        if key not in self._images:
            self._images[key] = _image(image, window, key)
        return key

    def defs(self) -> Markup:
        """The hidden drawing that holds them."""
        return element(
            "svg",
            element("defs", list(self._images.values())),
            class_="album",
            width=0,
            height=0,
            aria_hidden="true",
        )


def window_of(image: Illustration, masks: Sequence[Mask], prompts: Sequence[Prompt]) -> Window:
    """The whole image, or the neighbourhood of masks and prompts when it is `close`."""
    height, width = _size(image)
    corners = [c for m in masks if m for c in (m.low, m.high)]
    corners += [tuple(int(v) for v in p) for prompt in prompts for p in _places(prompt)]
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
    """An image with its outlines and prompts."""
    window = window_of(image, [o.mask for o in image.outlines], image.prompts)
    key = album.add(image, window)
    drawn = [
        [outline_svg(outline, window) for outline in image.outlines],
        [prompt_svg(prompt, k + 1, window) for k, prompt in enumerate(image.prompts)],
    ]
    return scene_svg(key, window, drawn, image.alt or image.caption.replace("**", ""))


def scene_svg(key: str, window: Window, drawn: object, said: str) -> Markup:
    return element(
        "svg",
        element("title", said),
        element("use", href=f"#{key}"),
        drawn,
        viewBox=window.view_box,
        class_="scene",
        role="img",
    )


def outline_svg(outline: Outline, window: Window) -> Markup:
    """A mask's border, twice: a light one below keeps the line visible on any image."""
    border = outline_path(outline.mask, window.scale)
    if not border:
        return Markup("")
    below = element("path", d=border, class_=f"under {outline.role}")
    name = element("title", outline.name) if outline.name else None
    return Markup("") + below + element("path", name, d=border, class_=f"mask {outline.role}")


def prompt_svg(prompt: Prompt, round_: int, window: Window) -> Markup:
    """A prompt: plus or minus in a disc or square, a box, a stroke."""
    unit = window.unit
    match prompt:
        case Click(point, positive):
            return _click_svg(point[-2] + 0.5, point[-1] + 0.5, positive, round_, unit)
        case Box(low, high):
            place = {
                "x": float(low[-1]),
                "y": float(low[-2]),
                "width": float(high[-1] - low[-1] + 1),
                "height": float(high[-2] - low[-2] + 1),
            }
            shapes = [element("rect", **place, class_=c) for c in ("under box", "box")]
            return element("g", shapes, class_="prompt", data_round=round_)
        case Scribble(points, positive):
            route = path((p[-1] + 0.5, p[-2] + 0.5) for p in points)
            kind = "positive" if positive else "negative"
            strokes = [element("path", d=route, class_=c) for c in ("under", f"s {kind}")]
            return element("g", strokes, class_="prompt", data_round=round_)
        case _:
            return Markup("")


def _click_svg(y: float, x: float, positive: bool, round_: int, unit: float) -> Markup:
    r = 7.5 * unit
    if positive:
        body = element("circle", cx=x, cy=y, r=r)
        sign = f"M{x - r * 0.55:.2f} {y:.2f}h{r * 1.1:.2f}M{x:.2f} {y - r * 0.55:.2f}v{r * 1.1:.2f}"
    else:
        side = r * 1.8
        body = element("rect", x=x - side / 2, y=y - side / 2, width=side, height=side)
        sign = f"M{x - r * 0.55:.2f} {y:.2f}h{r * 1.1:.2f}"
    word = "on the object" if positive else "off the object"
    return element(
        "g",
        element("title", f"click {round_}, {word}"),
        body,
        element("path", d=sign, class_="sign"),
        class_=f"prompt click {'positive' if positive else 'negative'}",
        data_round=round_,
    )


def _size(image: Illustration) -> tuple[int, int]:
    if image.size is not None:
        return image.size
    if isinstance(image.pixels, bytes):
        from PIL import Image

        with Image.open(io.BytesIO(image.pixels)) as opened:
            return opened.height, opened.width
    return int(image.pixels.shape[0]), int(image.pixels.shape[1])


def _places(prompt: Prompt) -> list[tuple[float, ...]]:
    match prompt:
        case Click(point, _):
            return [point]
        case Box(low, high):
            return [low, high]
        case Scribble(points, _):
            return list(points)
        case _:
            return []


def _image(image: Illustration, window: Window, key: str) -> Markup:
    if isinstance(image.pixels, bytes):
        height, width = _size(image)
        place = Window(0, 0, height, width)
        source = data_address(image.pixels)
    else:
        place, source = window, data_address(_compressed(image.pixels, window))
    return element(
        "image",
        id=key,
        x=place.left,
        y=place.top,
        width=place.width,
        height=place.height,
        preserveAspectRatio="none",
        href=source,
    )


def _compressed(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], window: Window) -> bytes:
    """The window as WebP, shrunk to the page's resolution."""
    from PIL import Image

    part = pixels[window.top : window.top + window.height, window.left : window.left + window.width]
    image = Image.fromarray(np.ascontiguousarray(part))
    image.thumbnail((_LONGEST, _LONGEST), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.convert("RGB").save(file, "WEBP", quality=_QUALITY, method=4)
    return file.getvalue()
