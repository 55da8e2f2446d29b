"""What the report says about people's clicks."""

from __future__ import annotations

from segmeter.core.benchmarks import Results
from segmeter.core.sections import Section

__all__ = ["sections"]


def sections(run: Results) -> list[Section]:
    """All sections, in reading order."""
    return []
