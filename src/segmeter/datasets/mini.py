"""`mini`: objects on images that ship inside scikit-image and matplotlib.

The default data: nothing to download. The images are read from the installed packages;
the masks, in `mini.json` next to this file, are segmeter's own.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Image, Scene, SceneHeader, Target
from segmeter.core.seeds import fingerprint, generator
from segmeter.datasets.data_roots import SceneSet, card_of, known
from segmeter.datasets.image_files import read_bytes, read_rgb

_MASKS = Path(__file__).with_name("mini.json")
_SMALL, _LARGE = 0.01, 0.1

_CARD = card_of("mini")
Bits = npt.NDArray[np.bool_]
_COUNTED = 100  # scenes of a set whose objects are counted, by drawing them


@catalogue.datasets.add("mini", _CARD.summary)
class Mini(SceneSet[Mapping[str, Any]]):
    """Big and small, thin, cut-up and plain objects, easy and hard.

    Targets carry the groups `size` (small below 1 % of the image, large from 10 %) and
    `shape` (compact, thin, cut up).
    """

    def __init__(self) -> None:
        super().__init__(_CARD, _images(), _scene, lambda *_: (_MASKS,))

    def fingerprint(self) -> str:
        return fingerprint("mini", _MASKS.read_bytes())


@cache
def _images() -> Mapping[str, Mapping[str, Any]]:
    content = json.loads(_MASKS.read_text(encoding="utf-8"))
    return {record["id"]: record for record in content["images"]}


def _scene(scene: str, record: Mapping[str, Any]) -> Image:
    header = SceneHeader("image", tuple(record["size"]), channels=3)
    lazily = partial(_read, record), partial(_targets, scene)
    return Image("mini", scene, *lazily, header=header)


@cache
def _targets(scene: str) -> tuple[Target, ...]:
    """The objects of an image; the masks of all images take 1.5 MB."""
    record = _images()[scene]
    size, found = record["size"], []
    for thing in record["objects"]:
        mask = Mask.decoded(thing["counts"], size)
        ignore = Mask.decoded(thing["ignore"], size) if "ignore" in thing else None
        share = mask.area / (size[0] * size[1])
        extent = "small" if share < _SMALL else "large" if share >= _LARGE else "medium"
        groups = {"size": extent, "shape": thing["shape"]}
        found.append(Target(thing["id"], mask, ignore, thing["label"], groups))
    return tuple(found)


def _read(record: Mapping[str, Any]) -> npt.NDArray[np.uint8]:
    """The image, if it is still the one on which the masks were drawn.

    Equal files match, however a decoder reads a JPEG; so do equal pixels, however a PNG was
    compressed.
    """
    path = _installed(record["package"]) / record["file"]
    modified = path.stat().st_mtime_ns if path.is_file() else 0
    return _checked(record["id"], path, modified).copy()


@cache
def _checked(scene: str, path: Path, modified_ns: int) -> npt.NDArray[np.uint8]:
    """The pixels of a file, read and compared once per version; those of all images take 10 MB."""
    record, pixels = _images()[scene], read_rgb(path)
    same_file = fingerprint(read_bytes(path)) == record["file_digest"]
    if not same_file and fingerprint(*pixels.shape, pixels.tobytes()) != record["pixel_digest"]:
        raise BadInput(
            f"mini/{record['id']}: '{path}' is not the image the masks were drawn on; "
            f"install another version of {record['package']}"
        )
    return pixels


def _installed(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise NotFound(f"mini: the package '{package}', whose images it shows, is not installed")
    return Path(spec.origin).parent


@catalogue.datasets.add("drawn", "drawn ellipses, rings, thin and scattered objects")
class Drawn:
    """`count` scenes with one to three drawn targets, each with a colour of its own.

    Other seeds draw other scenes; images are `size` pixels high and a quarter wider.
    """

    def __init__(self, count: int = 12, seed: int = 0, size: int = 96) -> None:
        if count < 1 or not 16 <= size <= 4096:
            raise BadInput("drawn: 'count' must be at least 1, 'size' 16 to 4096")
        self._size = size
        self._seed = seed
        self._scenes = {f"{index:03}": index for index in range(count)}

    @cached_property
    def card(self) -> DatasetCard:
        few = len(self._scenes) <= _COUNTED
        count = _drawn_targets(len(self._scenes), self._seed, self._size) if few else None
        return replace(card_of("drawn"), targets=count)

    def scenes(self) -> Sequence[str]:
        return list(self._scenes)

    def load(self, scene: str) -> Scene:
        known("drawn", scene, self._scenes)
        pixels, targets = self._draw(self._scenes[scene])
        return Image("drawn", scene, pixels, targets)

    def fingerprint(self) -> str:
        return fingerprint("drawn", len(self._scenes), self._seed, self._size)

    def _draw(self, index: int) -> tuple[npt.NDArray[np.uint8], list[Target]]:
        """Later objects are on top; the hidden part of an object is not in its mask."""
        canvas = _Canvas(self._size, generator("drawn", self._seed, self._size, index))
        names = list(_SHAPES)
        chosen = [names[(index + 2 * k) % len(names)] for k in range(1 + index % 3)]
        shapes = [(name, _SHAPES[name](canvas)) for name in chosen]
        image = canvas.ground()
        targets: list[Target] = []
        for place, (name, bits) in enumerate(shapes):
            image[bits] = canvas.paint(int(bits.sum()))
            hidden = [above for _, above in shapes[place + 1 :]]
            seen = bits & ~np.logical_or.reduce(hidden) if hidden else bits
            if seen.any():
                targets.append(Target(f"{place + 1}", Mask.of(seen), label=name))
        return image, targets


@cache  # a run asks for the card several times
def _drawn_targets(count: int, seed: int, size: int) -> int:
    data = Drawn(count, seed, size)
    return sum(len(data.load(scene).targets) for scene in data.scenes())


class _Canvas:
    def __init__(self, size: int, draws: np.random.Generator) -> None:
        self.height, self.width = size, size + size // 4
        self.draws = draws
        self.y, self.x = np.mgrid[: self.height, : self.width].astype(np.float64)

    def centre(self) -> tuple[float, float]:
        y, x = self.draws.uniform(0.25, 0.75, 2)
        return float(y * self.height), float(x * self.width)

    def length(self, low: float, high: float) -> float:
        """A length as a share of the height."""
        return float(self.draws.uniform(low, high) * self.height)

    def ground(self) -> npt.NDArray[np.uint8]:
        """A soft slope with noise, in a dull colour."""
        slope = self.y / self.height * 40 + self.x / self.width * 20
        dull = self.draws.uniform(40, 110, 3)
        return self._noisy(slope[..., None] + dull)

    def paint(self, count: int) -> npt.NDArray[np.uint8]:
        """One bright colour with noise, for `count` pixels."""
        colour = self.draws.permutation([225.0, 150.0, 40.0]) + self.draws.uniform(-25, 25, 3)
        return self._noisy(np.broadcast_to(colour, (count, 3)))

    def _noisy(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
        noise = self.draws.normal(0, 6, values.shape)
        return np.clip(np.round(values + noise), 0, 255).astype(np.uint8)


def _ellipse(canvas: _Canvas) -> Bits:
    (y, x), angle = canvas.centre(), canvas.draws.uniform(0, np.pi)
    down, right = canvas.y - y, canvas.x - x
    along = right * np.cos(angle) + down * np.sin(angle)
    across = down * np.cos(angle) - right * np.sin(angle)
    inside = (along / canvas.length(0.2, 0.4)) ** 2 + (across / canvas.length(0.1, 0.2)) ** 2
    return np.asarray(inside <= 1)


def _ring(canvas: _Canvas) -> Bits:
    y, x = canvas.centre()
    far = np.hypot(canvas.y - y, canvas.x - x)
    radius = canvas.length(0.2, 0.35)
    return np.asarray((far <= radius) & (far >= 0.6 * radius))


def _wire(canvas: _Canvas) -> Bits:
    """A wavy line, about two pixels thick, across the image."""
    y, _ = canvas.centre()
    phase, waves = canvas.draws.uniform(0, 2 * np.pi), canvas.draws.uniform(1, 2.5)
    line = y + canvas.length(0.05, 0.15) * np.sin(
        2 * np.pi * waves * canvas.x / canvas.width + phase
    )
    return np.asarray((np.abs(canvas.y - line) < 1.5) & (canvas.x > 0.1 * canvas.width))


def _dots(canvas: _Canvas) -> Bits:
    """One thing in three to five pieces."""
    bits = np.zeros((canvas.height, canvas.width), dtype=bool)
    for _ in range(int(canvas.draws.integers(3, 6))):
        y, x = canvas.centre()
        bits |= np.hypot(canvas.y - y, canvas.x - x) <= canvas.length(0.04, 0.09)
    return bits


def _block(canvas: _Canvas) -> Bits:
    """A box that reaches over the image's left edge."""
    y, _ = canvas.centre()
    high, wide = canvas.length(0.1, 0.2), canvas.length(0.3, 0.6)
    return np.asarray((np.abs(canvas.y - y) <= high) & (canvas.x <= wide))


_SHAPES = {"ellipse": _ellipse, "ring": _ring, "wire": _wire, "dots": _dots, "block": _block}
