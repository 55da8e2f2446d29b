"""Words on a terminal: texts from files and names, with nothing in them that a terminal obeys."""

from __future__ import annotations

import codecs
import logging
import sys
import textwrap
import warnings
from typing import Any

__all__ = ["printable", "say_answer", "speak_plainly"]

# What an ASCII terminal sees of the few other characters that we print.
_PLAIN = {
    "\u2013": "-",
    "\u2014": "-",
    "\u2212": "-",
    "\u00d7": "x",
    "\u2026": "...",
    "\u00b1": "+-",
}


def printable(text: object) -> str:
    """A text with its control characters spelled out; line ends stay.

    >>> printable("a\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(c if c == "\n" or _harmless(c) else _spelled(c) for c in str(text))


def say_answer(sentence: str) -> None:
    """What a page answers first, in lines of a terminal; nothing where it has no answer."""
    if sentence:
        print(textwrap.fill(printable(sentence), 80, break_long_words=False))


def speak_plainly() -> None:
    """Replace characters that the terminal lacks; spell control characters in warnings out."""
    warnings.showwarning = _warn
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Plain())
    codecs.register_error("segmeter-plain", _replaced)
    for stream in (sys.stdout, sys.stderr):
        change = getattr(stream, "reconfigure", None)  # a test's stand-in may not have it
        if change is not None:
            change(errors="segmeter-plain")


def _warn(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """A library's warning on stderr; it may quote names of a run, which are not trusted."""
    print(printable(f"{category.__name__}: {message}"), file=sys.stderr)


class _Plain(logging.Formatter):
    """Log messages of libraries without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _harmless(character: str) -> bool:
    # Not printable: control characters, lone surrogates, and what turns the protocol direction.
    return character.isprintable()


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found: Any = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c, "?") for c in found), error.end
