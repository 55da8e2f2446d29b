"""NumPy's `.npy` files: one array of plain numbers, never a pickle."""

from __future__ import annotations

from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.image_files import check_regular

__all__ = ["DAMAGED", "read_npy"]

DAMAGED = (ValueError, OSError, EOFError, SyntaxError, TypeError, KeyError, IndexError,
            OverflowError, MemoryError, RecursionError, TokenError)  # fmt: skip
"""Errors of NumPy on headers that are damaged, or made to do harm."""


def read_npy(path: Path, most: int) -> npt.NDArray[Any]:
    """The array of a file, which may have `most` values.

    The file is mapped, not loaded: a header that claims more than the file holds is refused
    before memory is asked for.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"PK"
        if packed:
            raise BadInput(f"'{path}' holds several arrays; save the one that is meant alone")
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise NotFound(f"no file '{path}'") from None
    except DAMAGED as error:
        raise BadInput(f"'{path}' is not a whole array file of plain numbers") from error
    if mapped.size > most:
        raise BadInput(f"'{path}' has {mapped.size} values; at most {most} are read")
    return np.array(mapped)
