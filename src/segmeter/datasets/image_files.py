"""Images from files: checked before they are decoded, read the way OpenCV reads them.

A file is looked at before it is decoded: one that claims more pixels than any image
has, or that breaks off before its end, is refused with a sentence. Decoders often hand out
half an image without a word, and half an image gives numbers that look real.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound

__all__ = [
    "MOST_PIXELS",
    "SUFFIXES",
    "check_regular",
    "decode_rgb",
    "grey_of",
    "has_colour_table",
    "header_size",
    "image_size",
    "is_jpeg",
    "read_alpha",
    "read_bytes",
    "read_colours",
    "read_rgb",
    "read_values",
]

SUFFIXES = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
MOST_PIXELS = 1 << 28  # 256 megapixels; the largest images of TETRIS have a fifth of it
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}

Bytes = npt.NDArray[np.uint8]


def read_rgb(path: Path) -> Bytes:
    """An image as `(H, W, 3)` uint8 in RGB, turned upright where its EXIF says so.

    Values of more than 8 bits are scaled by the bits in use: 10, 12, 14 or 16.
    """
    import cv2

    pixels = _decode(path, cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH)
    pixels = _in_8_bits(pixels) if pixels.dtype == np.uint16 else pixels
    if pixels.dtype != np.uint8:
        pixels = read_colours(path)
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def decode_rgb(raw: bytes, name: str) -> Bytes:
    """The bytes of an image file as `(H, W, 3)` uint8 in RGB; `name` is for messages."""
    import cv2

    colours = _decoded(name, raw, cv2.IMREAD_COLOR, _checked_size(name, raw))
    return np.asarray(cv2.cvtColor(colours, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def _in_8_bits(pixels: npt.NDArray[Any]) -> Bytes:
    """16-bit values in 8 bits. Cameras and scanners often fill only 10, 12 or 14 of 16 bits."""
    brightest = int(pixels.max(initial=0))
    bits = next(bits for bits in (8, 10, 12, 14, 16) if brightest < 1 << bits)
    return (pixels >> (bits - 8)).astype(np.uint8)


def read_colours(path: Path) -> Bytes:
    """A file's colours as `(H, W, 3)` uint8 in OpenCV's order: blue, green, red.

    Colour tables are looked up, one channel becomes three equal ones, transparency is
    dropped: what the published readers see, for images and masks alike.
    """
    import cv2

    return _decode(path, cv2.IMREAD_COLOR)


def read_values(path: Path) -> npt.NDArray[Any]:
    """A mask file's own values: indices of a colour table, grey levels of 8 or 16 bits
    as `(H, W)`, or colours as `(H, W, 3)` in OpenCV's order."""
    import cv2

    raw = read_bytes(path)
    if _has_table(raw):
        return _indices(path, raw)
    values = _decode(path, cv2.IMREAD_ANYDEPTH | cv2.IMREAD_ANYCOLOR)
    return values if values.ndim == 2 else values[:, :, :3]


def read_alpha(path: Path) -> npt.NDArray[Any] | None:
    """How opaque each pixel of a file is, `(H, W)`; None where it has no such channel."""
    import cv2

    with path.open("rb") as file:
        head = file.read(26)
    if head.startswith(_JPEG) or (head.startswith(_PNG) and head[25] not in (4, 6)):
        return None
    values = _decode(path, cv2.IMREAD_UNCHANGED)
    return values[:, :, 3] if values.ndim == 3 and values.shape[2] == 4 else None


def is_jpeg(path: Path) -> bool:
    """Whether a file is a JPEG, which keeps an image's look but not its values."""
    check_regular(path)
    with path.open("rb") as file:
        return file.read(2) == _JPEG


def has_colour_table(path: Path) -> bool:
    """Whether a file's pixels are indices into a table of colours."""
    check_regular(path)
    with path.open("rb") as file:
        return _has_table(file.read(32))


def grey_of(colours: Bytes) -> Bytes:
    """OpenCV's grey value of its colours."""
    import cv2

    return np.asarray(cv2.cvtColor(colours, cv2.COLOR_BGR2GRAY))


def read_bytes(path: Path, most: int = 1 << 30) -> bytes:
    """A whole file, or a sentence that says why it cannot be read."""
    check_regular(path)
    try:
        if path.stat().st_size > most:
            raise BadInput(f"'{path}' is larger than {most >> 20} MiB; it cannot be what it should")
        return path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"no file '{path}'") from None
    except OSError as error:
        raise BadInput(f"'{path}' cannot be read: {error.strerror}") from error


def check_regular(path: Path) -> None:
    """Refuse what is no file with an end: a pipe would wait for ever, a device never stop."""
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        gone = "is a link to nothing" if path.is_symlink() else ""
        raise NotFound(f"'{path}' {gone}" if gone else f"no file '{path}'") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{str(path)!r} cannot be read: {error}") from error
    if not stat.S_ISREG(kind):
        raise BadInput(f"'{path}' is not a regular file; put a file there or move it away")


def image_size(path: Path) -> tuple[int, int]:
    """Height and width that an image's header claims, before it is turned upright."""
    try:
        return header_size(read_bytes(path))
    except (ValueError, struct.error) as error:
        raise BadInput(f"'{path}' is not a whole image: {error}; get it again") from error


def header_size(raw: bytes) -> tuple[int, int]:
    """Height and width that a file claims; ValueError when it is damaged or no image."""
    if raw.startswith(_PNG):
        return _png_size(raw)
    if raw.startswith(_JPEG):
        return _jpeg_size(raw)
    if raw.startswith(b"BM"):
        return _bmp_size(raw)
    return _other_size(raw)


def _decode(path: Path, flags: int) -> Bytes:
    raw = read_bytes(path)
    return _decoded(path, raw, flags, _checked_size(path, raw))


def _checked_size(path: Path | str, raw: bytes) -> tuple[int, int]:
    """Height and width that a file claims, if it is whole and they can be an image's."""
    try:
        height, width = header_size(raw)
    except (ValueError, struct.error) as error:
        raise BadInput(f"'{path}' is not a whole image: {error}; get it again") from error
    if height * width > MOST_PIXELS:
        raise BadInput(
            f"'{path}' claims {width} x {height} pixels, more than the"
            f" {MOST_PIXELS >> 20} megapixels that are read"
        )
    return height, width


def _decoded(path: Path | str, raw: bytes, flags: int, size: tuple[int, int]) -> Bytes:
    import cv2

    try:
        pixels = cv2.imdecode(np.frombuffer(raw, dtype=np.uint8), flags)
    except cv2.error as error:
        raise BadInput(f"'{path}' cannot be decoded; get it again") from error
    if pixels is None or sorted(pixels.shape[:2]) != sorted(size):
        raise BadInput(f"'{path}' cannot be decoded; get it again")
    return np.asarray(pixels)


def _has_table(raw: bytes) -> bool:
    return raw.startswith(_PNG) and raw[25:26] == b"\x03"


def _indices(path: Path, raw: bytes) -> Bytes:
    """The indices of an image with a colour table, which OpenCV looks up.

    Without its table, and said to be grey, the same image gives the indices themselves.
    """
    import cv2

    height, width = _checked_size(path, raw)
    grey = bytearray(raw[12:29])
    grey[13] = 0  # the colour type
    depth = grey[12]
    if depth not in (1, 2, 4, 8):
        raise BadInput(f"'{path}' has a colour table for {depth} bits; get it again")
    parts = [_PNG, raw[8:12], bytes(grey), struct.pack(">I", zlib.crc32(grey))]
    parts += [chunk for kind, chunk in _png_chunks(raw) if kind in (b"IDAT", b"IEND")]
    values = _decoded(path, b"".join(parts), cv2.IMREAD_UNCHANGED, (height, width))
    # Grey of fewer bits is spread over 0 to 255.
    return values if depth == 8 else values // np.uint8(255 // ((1 << depth) - 1))


def _png_size(raw: bytes) -> tuple[int, int]:
    """Walks all chunks: each must be whole and have its checksum, up to the end mark."""
    width, height = struct.unpack_from(">II", raw, 16)
    for _ in _png_chunks(raw):
        pass
    return height, width


def _png_chunks(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each chunk's kind, and all of its bytes."""
    place = len(_PNG)
    while True:
        if place + 12 > len(raw):
            raise ValueError("it breaks off before its end")
        (length,) = struct.unpack_from(">I", raw, place)
        kind, end = raw[place + 4 : place + 8], place + 8 + length
        if end + 4 > len(raw):
            raise ValueError("it breaks off before its end")
        if zlib.crc32(memoryview(raw)[place + 4 : end]) != struct.unpack_from(">I", raw, end)[0]:
            raise ValueError("a checksum inside does not agree")
        yield kind, raw[place : end + 4]
        if kind == b"IEND":
            return
        place = end + 4


def _jpeg_size(raw: bytes) -> tuple[int, int]:
    """The frame's size; the end mark must follow the scan (a thumbnail has its own)."""
    place, size = 2, (0, 0)
    while place + 4 <= len(raw):
        if raw[place] != 0xFF:
            # Stray bytes between marks are passed over, as the decoder passes over them.
            place = raw.find(b"\xff", place)
            if place < 0:
                break
            continue
        mark = raw[place + 1]
        if mark in (0x00, 0xFF):
            place += 1
            continue
        if mark == 0xDA:
            if raw.rfind(b"\xff\xd9") < place:
                raise ValueError("it breaks off before its end")
            return size
        if mark in _FRAMES:
            size = struct.unpack_from(">HH", raw, place + 5)
        place += 2 if mark in _WITHOUT_LENGTH else 2 + struct.unpack_from(">H", raw, place + 2)[0]
    raise ValueError("it breaks off before its end")


def _bmp_size(raw: bytes) -> tuple[int, int]:
    start, head = struct.unpack_from("<I", raw, 10)[0], struct.unpack_from("<I", raw, 14)[0]
    if head == 12:
        width, height, bits, packing = *struct.unpack_from("<HHxxH", raw, 18), 0
    else:
        width, height, bits, packing = struct.unpack_from("<iixxHI", raw, 18)
    row = (abs(width) * bits + 31) // 32 * 4
    if packing in (0, 3) and start + row * abs(height) > len(raw):
        raise ValueError("it breaks off before its end")
    return abs(height), abs(width)


def _other_size(raw: bytes) -> tuple[int, int]:
    import io
    import warnings

    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it grumbles about, the decoder judges
            with Image.open(io.BytesIO(raw), formats=["TIFF", "WEBP"]) as image:
                return image.height, image.width
    except (OSError, SyntaxError, TypeError, KeyError, OverflowError) as error:
        raise ValueError("it is none of PNG, JPEG, BMP, TIFF, WebP") from error
    except Image.DecompressionBombError as error:
        raise ValueError("it claims more pixels than any image") from error
