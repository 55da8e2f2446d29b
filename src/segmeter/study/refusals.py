"""Refusals: what a browser asked for and may not have."""

from __future__ import annotations

from segmeter.core.errors import SegmeterError

__all__ = ["Refused"]


class Refused(SegmeterError):
    """Something a browser asked for and may not have; `status` is HTTP's."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status

    @property
    def sentence(self) -> str:
        """For a page: with a capital and a full stop.

        >>> Refused(403, "log in first").sentence
        'Log in first.'
        """
        why = str(self)
        return f"{why[:1].upper()}{why[1:]}."
