"""Label maps for tests: drawn by hypothesis, and those of the golden cases."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from segmeter.datasets.bsds500 import Bsds500
from segmeter.datasets.image_files import read_values

Labels = npt.NDArray[Any]
DTYPES = [np.uint8, np.uint16, np.int32, np.int64]


@st.composite
def partitions(draw: st.DrawFn, count: int, most: int = 6) -> list[Labels]:
    """Label maps of one small size, with few labels so that regions are shared."""
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    return [
        draw(arrays.arrays(draw(st.sampled_from(DTYPES)), shape, elements=st.integers(0, most)))
        for _ in range(count)
    ]


@lru_cache(maxsize=32)
def annotations(data: Path, number: str, split: str = "test") -> tuple[Labels, ...]:
    """All partitions of a BSDS500 image."""
    return tuple(Bsds500(data, split=split).partitions(number))  # type: ignore[arg-type]


def golden_map(golden: Path, name: str) -> Labels:
    return read_values(golden / "seism" / "maps" / f"{name}.png")
