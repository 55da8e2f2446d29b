"""How many threads kernels may use: set once for a process, changes no result."""

from __future__ import annotations

import os

__all__ = ["set_threads", "threads", "usable_cores"]

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
