"""Refusals: what a browser asked for and may not have."""

from __future__ import annotations

from segmeter.core.errors import SegmeterError

__all__ = ["Refused"]


class Refused(SegmeterError):
    """Something a browser asked for and may not have; `status` is HTTP's."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
