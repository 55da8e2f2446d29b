"""Threads: how many kernels may use, and work shared among those of a pool; changes no result."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import TypeVar

__all__ = ["mapped", "set_threads", "threads", "usable_cores"]

Given = TypeVar("Given")
Made = TypeVar("Made")

_count = 1


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


def usable_cores() -> int:
    """Cores this process may run on, fewer than there are where a queue hands them out.

    >>> usable_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def mapped(
    function: Callable[[Given], Made], items: Iterable[Given], pool: Executor | None
) -> list[Made]:
    """What a function makes of each item, in order: by a pool, or in this thread without one.

    >>> mapped(abs, [-1, 2], None)
    [1, 2]
    """
    return list(map(function, items) if pool is None else pool.map(function, items))
