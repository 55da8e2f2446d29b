"""Numbers with their nouns."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, noun: str) -> str:
    """A count and its noun.

    >>> counted(1, "scene"), counted(0, "mask"), counted(2, "class")
    ('1 scene', '0 masks', '2 classes')
    """
    ending = "" if count == 1 else "es" if noun.endswith(("s", "x")) else "s"
    return f"{count} {noun}{ending}"
