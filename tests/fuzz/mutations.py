"""Mutations: bytes that were good, changed as accidents and attackers change them."""

from __future__ import annotations

import json
import random
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Mutate", "bytes_changed", "json_changed", "png_changed", "text_changed"]

Mutate = Callable[[random.Random, Sequence[bytes]], bytes]

_NUMBERS = (0, 1, 2, 3, 7, 127, 128, 255, 256, 32767, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.5, 1e308, float("nan"),
    float("inf"), "", "a", "\0", "\ud800", "../x", "/dev/zero", "=1+1", "a" * 500, [], {}, [[]],
    [None], [0] * 50, ["a"], {"a": 1}, {"id": 1}, [1, 2], [[1, 1, 9, 1, 9, 9]],
    {"size": [65536, 65536], "counts": [2**32]}, [[-131071, 0, 131071, 9] * 20],
)  # fmt: skip
_WORDS = (b"NaN", b"inf", b"-1", b"1e999", b"999999999999999999999", b"\xff\xfe", b"\0", b"",
          b"\xf0\x9f\x92\xa9", b"[" * 2000, b"{", b"}", b'"', b"\n\n", b",,,", b"=", b"raw",
          b"gzip", b"/dev/zero", b"%s%n")  # fmt: skip


def bytes_changed(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Bytes flipped, numbers overwritten, pieces cut out, doubled or taken from another file."""
    raw = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        _change(rng, raw, seeds)
    return bytes(raw[: 1 << 20])


def _change(rng: random.Random, raw: bytearray, seeds: Sequence[bytes]) -> None:
    at = (
        rng.randrange(len(raw) + 1) if rng.random() < 0.5 else rng.randrange(min(len(raw), 400) + 1)
    )
    length = min(int(rng.expovariate(0.05)) + 1, 4096)
    match rng.randrange(8):
        case 0:
            raw[at : at + 1] = bytes([rng.randrange(256)])
        case 1 if at < len(raw):
            raw[at] ^= 1 << rng.randrange(8)
        case 2:
            form = rng.choice(("<H", ">H", "<I", ">I", "<Q", "<f", "<d"))
            number: float = rng.choice(_NUMBERS)
            packed = _packed(form, rng.choice((number, float("inf"), float("nan"))))
            raw[at : at + len(packed)] = packed
        case 3:
            del raw[at : at + length]
        case 4:
            raw[at:at] = raw[at : at + length]
        case 5:
            other = rng.choice(seeds)
            start = rng.randrange(len(other) + 1)
            raw[at : at + length] = other[start : start + length]
        case 6:
            del raw[at:]
        case _:
            raw[at : at + length] = rng.randbytes(length)


def _packed(form: str, number: float) -> bytes:
    if form[1] in "fd":
        return struct.pack(form, number if form[1] == "d" else min(number, 3e38))
    whole = int(number) if number == number and abs(number) < 2**64 else 2**64 - 1
    return struct.pack(form, whole & (1 << 8 * struct.calcsize(form)) - 1)


def text_changed(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """As `bytes_changed`, or a word or a number of a text exchanged for an awkward one."""
    if rng.random() < 0.4:
        return bytes_changed(rng, seeds)
    raw = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 2, 4))):
        words = list(re.finditer(rb"[^\s,:;={}\[\]\"]+", raw))
        if not words:
            break
        word = rng.choice(words)
        raw = raw[: word.start()] + rng.choice(_WORDS) + raw[word.end() :]
    return raw


def json_changed(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A value, a key or an element of a JSON text exchanged, dropped or doubled."""
    if rng.random() < 0.25:
        return text_changed(rng, seeds)
    content = json.loads(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 3))):
        content = _with_change(rng, content)
    return json.dumps(content).encode()


def _with_change(rng: random.Random, value: Any) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return rng.choice(_VALUES)
    if isinstance(value, list):
        place = rng.randrange(len(value))
        changed = list(value)
        match rng.randrange(6):
            case 0:
                del changed[place]
            case 1:
                changed.insert(place, changed[place])
            case _:
                changed[place] = _with_change(rng, changed[place])
        return changed
    key = rng.choice(list(value))
    match rng.randrange(6):
        case 0:
            return {k: v for k, v in value.items() if k != key}
        case 1:
            return {rng.choice(("", "id", "\0", "size", "a", k)): v for k, v in value.items()}
        case _:
            return {**value, key: _with_change(rng, value[key])}


def png_changed(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """As `bytes_changed`; half the time checksums are made to agree, so that decoders look."""
    raw = bytearray(bytes_changed(rng, seeds))
    place = 8
    while rng.random() < 0.9 and place + 12 <= len(raw):
        (length,) = struct.unpack_from(">I", raw, place)
        end = place + 8 + length
        if end + 4 > len(raw):
            break
        struct.pack_into(">I", raw, end, zlib.crc32(raw[place + 4 : end]))
        place = end + 4
    return bytes(raw)
