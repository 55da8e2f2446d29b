"""Image files: checked before they are decoded, read the way OpenCV reads them.

Decoders often return half an image from a file that breaks off before its end, and half an image
gives numbers that look real: such files are refused. `named_errors` wraps the errors of all
libraries that read datasets in one sentence with the name of the file.
"""

from __future__ import annotations

import io
import re
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound, SegmeterError

SUFFIXES = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
MOST_PIXELS = 178_956_970  # where Pillow refuses a file; the largest images of TETRIS have a third
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "WEBP")
_LONGEST = 120
_ORIENTATION = 0x0112
_ITK_OBJECT = re.compile(r"^ITK ERROR: \w+\(\w+\): ")

Bytes = npt.NDArray[np.uint8]


@contextmanager
def named_errors(path: Path | str, problem: str = "cannot be read") -> Iterator[None]:
    """Wrap the errors of a library that reads a file in one sentence that names it.

    >>> with named_errors("a.json", "is not COCO's JSON"):
    ...     {}["images"]
    Traceback (most recent call last):
    segmeter.core.errors.BadInput: 'a.json' is not COCO's JSON: a record has no 'images'
    """
    try:
        yield
    except SegmeterError:
        raise
    except FileNotFoundError:
        raise NotFound(f"no file '{path}'") from None
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        if "SimpleITK" in lines[0]:
            # The place in ITK's sources is first, the reason last, before the system's last error.
            lines = [_ITK_OBJECT.sub("", s) for s in lines if not s.startswith("Reason: ")][::-1]
        reason = lines[0].strip()[:_LONGEST]
        reason = f"a record has no {reason}" if isinstance(error, KeyError) else reason
        raise BadInput(f"'{path}' {problem}: {reason}") from error


def read_bytes(path: Path) -> bytes:
    with named_errors(path):
        return path.read_bytes()


def read_rgb(path: Path) -> Bytes:
    """An image as `(H, W, 3)` uint8 in RGB, turned upright where its EXIF says so.

    Values of more than 8 bits are scaled by the bits in use: 10, 12, 14 or 16.
    """
    import cv2

    pixels = _decode(path, cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH)
    if pixels.dtype == np.uint16:  # cameras and scanners often fill only 10, 12 or 14 of 16 bits
        brightest = int(pixels.max(initial=0))
        bits = next(bits for bits in (8, 10, 12, 14, 16) if brightest < 1 << bits)
        pixels = (pixels >> (bits - 8)).astype(np.uint8)
    if pixels.dtype != np.uint8:
        pixels = read_colours(path)
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def decode_rgb(raw: bytes, name: str) -> Bytes:
    """The bytes of an image file as `(H, W, 3)` uint8 in RGB; `name` is for messages."""
    import cv2

    colours = _decoded(raw, name, cv2.IMREAD_COLOR)
    return np.asarray(cv2.cvtColor(colours, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def read_colours(path: Path) -> Bytes:
    """A file's colours as `(H, W, 3)` uint8 in OpenCV's order: blue, green, red.

    Colour tables are looked up, one channel becomes three equal ones, transparency is
    dropped: as the published readers do, for images and masks.
    """
    import cv2

    return _decode(path, cv2.IMREAD_COLOR)


def read_values(path: Path) -> npt.NDArray[Any]:
    """A mask file's own values: indices of a colour table, grey levels of 8 or 16 bits
    as `(H, W)`, or colours as `(H, W, 3)` in OpenCV's order."""
    import cv2
    from PIL import Image

    if has_colour_table(path):  # OpenCV would look the indices up
        with named_errors(path, "is not a whole image"):
            raw = path.read_bytes()
            header_size(raw)
            with Image.open(io.BytesIO(raw), formats=["PNG"]) as image:
                return np.asarray(image, dtype=np.uint8)
    values = _decode(path, cv2.IMREAD_ANYDEPTH | cv2.IMREAD_ANYCOLOR)
    return values if values.ndim == 2 else values[:, :, :3]


def read_alpha(path: Path) -> npt.NDArray[Any] | None:
    """How opaque each pixel of a file is, `(H, W)`; None where it has no such channel."""
    import cv2

    head = _head(path)
    if head.startswith(_JPEG) or (head.startswith(_PNG) and head[25:26] not in (b"\x04", b"\x06")):
        return None
    values = _decode(path, cv2.IMREAD_UNCHANGED)
    return values[:, :, 3] if values.ndim == 3 and values.shape[2] == 4 else None


def is_jpeg(path: Path) -> bool:
    return _head(path).startswith(_JPEG)


def has_colour_table(path: Path) -> bool:
    head = _head(path)
    return head.startswith(_PNG) and head[25:26] == b"\x03"


def image_size(path: Path) -> tuple[int, int]:
    """Height and width of an image by its header, turned upright where its EXIF says so."""
    with named_errors(path, "is not a whole image"):
        return header_size(path.read_bytes())


def header_size(raw: bytes) -> tuple[int, int]:
    """Height and width by a file's header, upright; raises if the file is damaged or breaks off."""
    from PIL import Image, UnidentifiedImageError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the decoder refuses what Pillow only warns about
        try:
            image = Image.open(io.BytesIO(raw), formats=_FORMATS)
        except UnidentifiedImageError:
            raise ValueError(f"it is none of {', '.join(_FORMATS)}") from None
        with image:
            size = image.height, image.width
            # As OpenCV turns it; Pillow itself turns the size of a TIFF file.
            if "exif" in image.info and image.format != "TIFF":
                with suppress(struct.error, LookupError, SyntaxError, TypeError, ValueError):
                    size = size[::-1] if image.getexif()[_ORIENTATION] in (5, 6, 7, 8) else size
            if image.format == "PNG":
                image.verify()  # the checksums of all chunks, up to the end mark
            elif image.format == "BMP":
                image.load()
    # The end mark follows the last scan; a thumbnail in the header has its own.
    if raw.startswith(_JPEG) and raw.rfind(b"\xff\xd9") < raw.rfind(b"\xff\xda"):
        raise ValueError("it is truncated")
    return size


def _head(path: Path) -> bytes:
    with named_errors(path), path.open("rb") as file:
        return file.read(26)


def _decode(path: Path, flags: int) -> Bytes:
    return _decoded(read_bytes(path), path, flags)


def _decoded(raw: bytes, name: Path | str, flags: int) -> Bytes:
    import cv2

    with named_errors(name, "is not a whole image"):
        size = header_size(raw)
        pixels = cv2.imdecode(np.frombuffer(raw, dtype=np.uint8), flags)
        if pixels is None or sorted(pixels.shape[:2]) != sorted(size):
            raise ValueError("OpenCV cannot decode it")
    return np.asarray(pixels)
