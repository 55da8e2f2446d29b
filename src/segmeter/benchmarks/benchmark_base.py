"""The base of benchmark classes: statistics and sections wait in modules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from sys import modules
from typing import Any, ClassVar

from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.core.sections import Section

__all__ = ["OwnModules"]


class OwnModules:
    """A benchmark whose `summary`, `differences` and `sections` are functions of its own modules.

    They are imported when first asked for: looking a benchmark up, or running it, needs none
    of what its statistics and images need.
    """

    __slots__ = ()
    statistics_in: ClassVar[str] = "statistics"
    sections_in: ClassVar[str] = "sections"

    def summary(self, run: Results) -> list[SummaryRow]:
        return list(self._module(self.statistics_in).summary(run))

    def differences(self, run: Results) -> list[Difference]:
        return list(self._module(self.statistics_in).differences(run))

    def sections(self, run: Results) -> Sequence[Section]:
        return list(self._module(self.sections_in).sections(run))

    def _module(self, name: str) -> Any:
        """A module beside the one that the benchmark is in."""
        return import_module(f".{name}", modules[type(self).__module__].__package__)
