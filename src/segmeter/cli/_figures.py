"""Figures that a command writes beside its table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from segmeter.core.errors import BadInput

__all__ = ["check_figure", "write_figure"]

_SUFFIXES = (".svg", ".png", ".pdf")
Drawn = TypeVar("Drawn")


def check_figure(path: Path | None) -> None:
    """Refuse a file that cannot be a figure before any work is done."""
    if path is None:
        return
    if path.suffix not in _SUFFIXES:
        raise BadInput(f"--figure '{path}' must end in .svg, .png or .pdf")
    if not path.parent.is_dir():
        raise BadInput(f"--figure '{path}': there is no folder '{path.parent}'")


def write_figure(draw: Callable[[Drawn, Path], None], what: Drawn, path: Path | None) -> None:
    """Draw where a figure was asked for."""
    if path is None:
        return
    try:
        draw(what, path)
    except OSError as error:
        raise BadInput(f"'{path}' cannot be written: {error.strerror}") from error
