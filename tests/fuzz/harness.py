"""The harness: feed a reader mutated files; anything but a value or a sentence is a finding."""

from __future__ import annotations

import random
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path

from segmeter.core.errors import SegmeterError

from .readers import Reader

__all__ = ["Finding", "fuzz"]


@dataclass(frozen=True)
class Finding:
    """An input that a reader did not answer as it should."""

    number: int
    raw: bytes
    what: str

    @property
    def kind(self) -> str:
        """What tells this fault from others: the last line and the place."""
        return self.what.strip().splitlines()[-1][:160]


def fuzz(
    reader: Reader, folder: Path, seed: int, inputs: int, slowest_s: float = inf
) -> Iterator[Finding]:
    """Findings among so many mutated inputs; the same seed gives the same inputs."""
    if reader.around is not None:
        reader.around(folder)
    seeds = reader.seeds()
    path = folder / reader.file
    for raw in seeds:
        path.write_bytes(raw)
        reader.read(path)  # what is mutated must be good to begin with
    for number in range(0, inputs, reader.share):
        raw = reader.mutate(random.Random(f"{seed}/{number}"), seeds)
        path.write_bytes(raw)
        found = _try(reader, path, slowest_s)
        if found:
            yield Finding(number, raw, found)


def _try(reader: Reader, path: Path, slowest_s: float) -> str:
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(path)
    except SegmeterError as error:
        if "\n" in str(error):
            return f"a sentence of several lines: {str(error)!r}"
    except Exception:  # noqa: BLE001  # every other exception is what is looked for
        return traceback.format_exc()
    spent = time.perf_counter() - start
    return f"took {spent:.1f} s" if spent > slowest_s else ""
