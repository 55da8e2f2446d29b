"""Errors: one sentence each, with what went wrong, where, and what to do."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path

from segmeter.core.wording import joined


class SegmeterError(Exception):
    """Base class of all errors that segmeter raises; the message is one sentence.

    >>> import segmeter
    >>> try:
    ...     segmeter.load_dataset("minni")
    ... except segmeter.SegmeterError as error:
    ...     print(type(error).__name__)
    NotFound
    """


class BadInput(SegmeterError):
    """A file or an argument that is not valid.

    >>> import numpy, segmeter
    >>> segmeter.Mask.of(numpy.array([[0.2]]))
    Traceback (most recent call last):
    segmeter.core.errors.BadInput: ...
    """


class NotFound(SegmeterError):
    """A name, a file or a folder that does not exist.

    >>> import segmeter
    >>> segmeter.load_model("grabcutt")
    Traceback (most recent call last):
    segmeter.core.errors.NotFound: ...did you mean 'grabcut'?...
    """


class NoWeights(NotFound):
    """A model's weights that are in none of the searched folders."""


class BadWeights(SegmeterError):
    """Weights of another architecture, damaged, or unsafe to open.

    >>> import segmeter
    >>> file = getfixture("tmp_path") / "sam.safetensors"
    >>> _ = file.write_bytes(b"not weights")
    >>> segmeter.load_model(f"sam-vit-b?weights={file}")
    Traceback (most recent call last):
    segmeter.core.errors.BadWeights: ...
    """


class RunConflict(SegmeterError):
    """A run folder that holds another plan, or that another process is writing.

    >>> import segmeter
    >>> run = segmeter.evaluate("disc", "mini", out=getfixture("tmp_path"), limit=1, rounds=1)
    >>> segmeter.evaluate("disc", "mini", out=run.address, limit=1, rounds=2)
    Traceback (most recent call last):
    segmeter.core.errors.RunConflict: ...
    """


def check_choice(what: str, given: str, known: Iterable[str]) -> None:
    """Refuse a word that is none of those known, such as a misspelt protocol.

    >>> check_choice("mode", "fats", ["fast", "slow"])
    Traceback (most recent call last):
    segmeter.core.errors.BadInput: no mode 'fats'; did you mean 'fast'? it is fast or slow
    """
    words = list(known)
    if given not in words:
        hint = suggestion(str(given), words)
        raise BadInput(f"no {what} '{given}';{hint} it is {joined(words, 'or')}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """`" did you mean 'x'?"` for the nearest known name, or nothing.

    >>> suggestion("grabcat", ["grabcut", "davis"])
    " did you mean 'grabcut'?"
    """
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f" did you mean '{near[0]}'?" if near else ""


def first_line(error: BaseException) -> str:
    """The first line of an error's message, shortened; the kind of error where it has none.

    >>> first_line(ValueError("one\\ntwo")), first_line(KeyboardInterrupt())
    ('one', 'KeyboardInterrupt')
    """
    return str(error).strip().split("\n")[0][:200] or type(error).__name__


def error_text(error: BaseException) -> str:
    """An error in a line: its kind unless it is segmeter's own, message, line of the user's code.

    >>> error_text(ValueError("too small")), error_text(MemoryError()), error_text(BadInput("no"))
    ('ValueError: too small', 'MemoryError', 'no')
    """
    kind = "" if isinstance(error, SegmeterError) else type(error).__name__
    return ": ".join(filter(None, (kind, str(error)))) + _raised_at(error)


def _raised_at(error: BaseException) -> str:
    """`" (mine.py, line 12)"`: the last line of the user's own code in the traceback of an error.

    Lines of segmeter and of installed packages are not theirs to fix; nothing where there is
    no other.
    """
    ours = Path(__file__).resolve().parents[1]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        installed = "site-packages" in file.parts or ("lib" in file.parts and "python" in str(file))
        if file.is_file() and not installed and not file.resolve().is_relative_to(ours):
            return f" ({file.name}, line {frame.lineno})"
    return ""
