"""Compiled kernels, each with a plain twin in Python.

`compiled` is the C++ module, or None where it was not built or `SEGMETER_PLAIN` is set;
callers then use their plain twin and get the same values, later. Only the click model's weights
are the same up to rounding: OpenCV, their twin, adds float32 in another order.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType

__all__ = ["compiled", "set_threads", "threads"]

_count = 1


def _find() -> ModuleType | None:
    if os.environ.get("SEGMETER_PLAIN"):
        return None
    try:
        return importlib.import_module("segmeter.kernels._kernels")
    except ModuleNotFoundError:
        return None


compiled = _find()


def set_threads(count: int) -> None:
    """Let kernels that work on many things at once use so many threads.

    >>> before = threads()
    >>> set_threads(2)
    >>> threads()
    2
    >>> set_threads(before)
    """
    global _count
    _count = max(1, count)


def threads() -> int:
    """How many threads such kernels may use.

    >>> threads() >= 1
    True
    """
    return _count
