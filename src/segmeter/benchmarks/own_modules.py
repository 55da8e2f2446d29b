"""What benchmark classes share: statistics and sections wait in modules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import ClassVar

from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.core.sections import Section

__all__ = ["OwnModules"]


class OwnModules:
    """A benchmark whose `summary`, `differences` and `sections` are functions of named modules.

    They are imported when first asked for: looking a benchmark up, or running it, needs none
    of what its statistics and pictures need.
    """

    __slots__ = ()
    statistics_in: ClassVar[str]
    sections_in: ClassVar[str]

    def summary(self, run: Results) -> list[SummaryRow]:
        return list(import_module(self.statistics_in).summary(run))

    def differences(self, run: Results) -> list[Difference]:
        return list(import_module(self.statistics_in).differences(run))

    def sections(self, run: Results) -> Sequence[Section]:
        return list(import_module(self.sections_in).sections(run))
