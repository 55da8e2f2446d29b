"""Wording of numbers in sentences: counts with their nouns, signed values, p values."""

from __future__ import annotations

__all__ = ["counted", "p_value", "signed"]


def counted(count: int, noun: str) -> str:
    """A count and its noun.

    >>> counted(1, "scene"), counted(0, "mask"), counted(2, "class"), counted(2, "series")
    ('1 scene', '0 masks', '2 classes', '2 series')
    """
    same = count == 1 or noun.endswith("series")
    ending = "" if same else "es" if noun.endswith(("s", "x")) else "s"
    return f"{count} {noun}{ending}"


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
