"""Images are read as OpenCV reads them; damaged and immense files are refused."""

from __future__ import annotations

import contextlib
import io
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.image_files import (
    has_colour_table,
    header_size,
    image_size,
    read_rgb,
    read_values,
)

SUFFIXES = (".png", ".jpg", ".bmp", ".tiff", ".webp")
NOISE = np.random.default_rng(7).integers(0, 256, (24, 31, 3), dtype=np.uint8)
WHOLE = {suffix: cv2.imencode(suffix, NOISE)[1].tobytes() for suffix in SUFFIXES}


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tiff"])
def test_lossless_files_give_their_rgb(tmp_path, write, photo, suffix):
    path = write(tmp_path / f"a{suffix}", photo)
    assert np.array_equal(read_rgb(path), photo)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_headers_have_height_and_width(suffix):
    assert header_size(WHOLE[suffix]) == (24, 31)


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "webp"])
def test_an_image_on_its_side_is_turned_upright(tmp_path, photo, suffix):
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by a quarter
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(photo).save(path, exif=exif)
    assert read_rgb(path).shape == (16, 12, 3)
    assert image_size(path) == (16, 12)


@pytest.mark.parametrize("exif", [b"Exif\0\0", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01\x12"])
def test_damaged_exif_turns_nothing(tmp_path, photo, exif):
    Image.fromarray(photo).save(tmp_path / "a.jpg", exif=exif)
    assert read_rgb(tmp_path / "a.jpg").shape == (12, 16, 3)
    assert image_size(tmp_path / "a.jpg") == (12, 16)


def test_a_grey_image_gets_three_equal_channels(tmp_path, write, photo):
    pixels = read_rgb(write(tmp_path / "a.png", photo[:, :, 1]))
    assert np.array_equal(pixels, np.repeat(photo[:, :, 1:2], 3, axis=2))


def test_a_colour_table_gives_its_indices(tmp_path):
    indices = np.arange(12, dtype=np.uint8).reshape(3, 4) % 5
    table = Image.fromarray(indices, mode="P")
    table.putpalette([0, 0, 0, 9, 9, 9, 9, 9, 9, 200, 0, 0, 0, 200, 0])
    table.save(tmp_path / "a.png")
    assert has_colour_table(tmp_path / "a.png")
    assert np.array_equal(read_values(tmp_path / "a.png"), indices)


def test_sixteen_bits_are_kept(tmp_path):
    labels = np.array([[0, 1], [300, 65535]], dtype=np.uint16)
    cv2.imwrite(str(tmp_path / "a.png"), labels)
    assert np.array_equal(read_values(tmp_path / "a.png"), labels)


def test_a_file_that_claims_too_many_pixels_is_refused_unread(tmp_path):
    path = tmp_path / "bomb.png"
    path.write_bytes(_png_of(60_000, 60_000))
    with pytest.raises(BadInput, match=r"bomb\.png.*3600000000 pixels"):
        read_rgb(path)


def test_stray_bytes_between_marks_do_no_harm(tmp_path, photo):
    """Some cameras write them; OpenCV passes over them, and so does the check before it."""
    raw = cv2.imencode(".jpg", photo)[1].tobytes()
    table = raw.index(b"\xff\xdb")
    (tmp_path / "a.jpg").write_bytes(raw[:table] + b"\x00\x12\x00" + raw[table:])
    assert read_rgb(tmp_path / "a.jpg").shape == photo.shape


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(NotFound, match=r"no file .*gone.png"):
        read_rgb(tmp_path / "gone.png")


def test_invalid_images_are_refused(tmp_path):
    path = tmp_path / "a.png"
    path.write_text("<html>not found</html>")
    with pytest.raises(BadInput, match=r"a\.png.*none of PNG, JPEG, BMP"):
        read_rgb(path)


@given(st.sampled_from(SUFFIXES), st.floats(0, 1, exclude_max=True))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_file_that_breaks_off_is_never_half_read(tmp_path: Path, suffix: str, share: float):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(WHOLE[suffix][: int(share * len(WHOLE[suffix]))])
    with pytest.raises(BadInput):
        read_rgb(path)


@given(st.sampled_from(SUFFIXES), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_wrong_bytes_give_a_image_or_a_sentence(tmp_path: Path, suffix: str, changes):
    raw = bytearray(WHOLE[suffix])
    for place, value in changes:
        raw[int(place * (len(raw) - 1))] = value
    path = tmp_path / f"a{suffix}"
    path.write_bytes(bytes(raw))
    for read in (read_rgb, read_values):
        with contextlib.suppress(BadInput):
            assert read(path).ndim in (2, 3)


def _png_of(width: int, height: int) -> bytes:
    """A PNG with a whole header and hardly any data."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    out = io.BytesIO()
    out.write(b"\x89PNG\r\n\x1a\n")
    out.write(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
    out.write(chunk(b"IDAT", zlib.compress(b"\0" * 1000)))
    out.write(chunk(b"IEND", b""))
    return out.getvalue()
