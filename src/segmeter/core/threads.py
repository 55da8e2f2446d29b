"""How many threads kernels may use: set once for a process, changes no result."""

from __future__ import annotations

__all__ = ["set_threads", "threads"]

_count = 1


def set_threads(count: int) -> None:
    """Let kernels that work on many things at once use so many threads."""
    global _count
    _count = max(1, count)


def threads() -> int:
    return _count
