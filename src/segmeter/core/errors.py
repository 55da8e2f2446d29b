"""Errors: what can go wrong, said in one sentence: what, where, what to do."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "BadInput",
    "BadWeights",
    "NoWeights",
    "NotFound",
    "RunConflict",
    "SegmeterError",
    "check_choice",
    "raised_at",
    "suggestion",
]


class SegmeterError(Exception):
    """Anything segmeter refuses; its text is a sentence for the person at the keyboard."""


class BadInput(SegmeterError):
    """A file or an argument that cannot be what it claims to be."""


class NotFound(SegmeterError):
    """A name, a file or a folder that is not there."""


class NoWeights(NotFound):
    """Weights of a model that are in none of the folders looked at."""


class BadWeights(SegmeterError):
    """Weights of another architecture, damaged, or unsafe to open."""


class RunConflict(SegmeterError):
    """A run folder that belongs to another plan or to a process still writing."""


def check_choice(what: str, given: str, known: Iterable[str]) -> None:
    """Refuse a word that is none of those known, such as a misspelt protocol.

    >>> check_choice("mode", "fats", ["fast", "slow"])
    Traceback (most recent call last):
    segmeter.core.errors.BadInput: no mode 'fats'; did you mean 'fast'? it is fast or slow
    """
    words = list(known)
    if given not in words:
        *most, last = words
        choice = f"{', '.join(most)} or {last}" if most else last
        raise BadInput(f"no {what} '{given}';{suggestion(str(given), words)} it is {choice}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """`" did you mean 'x'?"` for the nearest known name, or nothing.

    >>> suggestion("grabcat", ["grabcut", "davis"])
    " did you mean 'grabcut'?"
    """
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f" did you mean '{near[0]}'?" if near else ""


def raised_at(error: BaseException) -> str:
    """`" (mine.py, line 12)"`: the last line of the user's own code in the traceback of an error.

    Lines of segmeter and of installed packages are not theirs to mend; nothing where there is
    no other.

    >>> raised_at(ValueError('never raised'))
    ''
    """
    ours = Path(__file__).resolve().parents[1]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        installed = "site-packages" in file.parts or ("lib" in file.parts and "python" in str(file))
        if file.is_file() and not installed and not file.resolve().is_relative_to(ours):
            return f" ({file.name}, line {frame.lineno})"
    return ""
