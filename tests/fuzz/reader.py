"""A reader of one kind of file: what it reads, and how that is mutated."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .mutations import Mutate, bytes_changed

__all__ = ["Reader"]


@dataclass(frozen=True)
class Reader:
    """A reader of one kind of file.

    Attributes
    ----------
    seeds
        Makes the good files; called once.
    read
        Reads the file; what surrounds it lies in the same folder.
    file
        The file's name in that folder.
    mutate
        Changes a good file.
    around
        Writes what else must lie in the folder; called once.
    needs
        A package without which there is nothing to fuzz.
    share
        Only one input in so many is tried, for readers that take long.
    """

    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    file: str
    mutate: Mutate = bytes_changed
    around: Callable[[Path], None] | None = None
    needs: str = ""
    share: int = 1

    @property
    def available(self) -> bool:
        return not self.needs or importlib.util.find_spec(self.needs) is not None
