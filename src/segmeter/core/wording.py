"""Wording of numbers and names in sentences: counts, signed values, times, safe text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def counted(count: int, noun: str) -> str:
    """A count and its noun.

    >>> counted(1, "scene"), counted(0, "mask"), counted(2, "class"), counted(2, "series")
    ('1 scene', '0 masks', '2 classes', '2 series')
    """
    same = count == 1 or noun.endswith("series")
    ending = "" if same else "es" if noun.endswith(("s", "x")) else "s"
    return f"{count} {noun}{ending}"


def joined(words: Iterable[str], last: str = "and") -> str:
    """Words as a sentence lists them.

    >>> joined(["a", "b", "c"]), joined(["a", "b"], "or"), joined(["a"])
    ('a, b and c', 'a or b', 'a')
    """
    *most, end = [*words] or [""]
    return f"{', '.join(most)} {last} {end}" if most else end


def some(names: Sequence[str], most: int) -> str:
    """The first few names, and how many more there are.

    >>> some(["a", "b", "c"], 2), some(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def signed(value: float, digits: int) -> str:
    """A number with its sign; one that rounds to zero is no loss.

    >>> signed(-1.25, 1), signed(0.5, 1), signed(-0.01, 1)
    ('−1.2', '+0.5', '+0.0')
    """
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if float(text) else text.replace("-", "+")


def p_value(p: float) -> str:
    """Two or three decimals, never a zero.

    >>> p_value(0.0004), p_value(0.0123), p_value(0.31)
    ('below 0.001', '0.012', '0.31')
    """
    return "below 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def printable(text: object) -> str:
    """A text with its control characters spelled out; line ends stay.

    >>> printable("a\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(c if c == "\n" or c.isprintable() else _spelled(c) for c in str(text))


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def time_text(seconds: float) -> str:
    """A time in a unit that people read.

    >>> time_text(0.3), time_text(40), time_text(600), time_text(90_000)
    ('1 s', '40 s', '10.0 minutes', '25.0 hours')
    """
    if seconds < 60:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.1f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def size_text(count: float) -> str:
    """Bytes in a unit that people read.

    >>> size_text(900), size_text(12_000_000)
    ('900 B', '12.0 MB')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"
