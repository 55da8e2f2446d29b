"""Faults of a layout in words: what a file that is laid out differently lacks."""

from __future__ import annotations

__all__ = ["WRONG_LAYOUT", "layout_fault"]

WRONG_LAYOUT = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)
"""Exceptions of readers whose file has another layout than they expect."""

_LONGEST = 80


def layout_fault(error: Exception) -> str:
    """A sentence's end on what is wrong.

    >>> layout_fault(KeyError("height")), layout_fault(ValueError("two images have the id 1"))
    ("a record has no 'height'", 'two images have the id 1')
    """
    said = str(error)[:_LONGEST]
    if isinstance(error, KeyError):
        return f"a record has no {said}"
    return said if isinstance(error, ValueError) else f"{type(error).__name__} {said}"
