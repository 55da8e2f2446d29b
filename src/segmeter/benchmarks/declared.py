"""The base of benchmark classes: groups and statistics are declared, all numbers follow.

Summaries, differences, breakdowns, tables and leaderboards are computed here from what a
benchmark declares, once per run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

from segmeter.core.benchmarks import (
    Difference,
    Group,
    PaperLayout,
    Results,
    RunOption,
    SummaryRow,
)
from segmeter.core.sections import Section
from segmeter.stats.statistics import Statistic, cards_by_name, differences_of, summary_of

__all__ = ["Declared", "Numbers", "once_per_run"]

T = TypeVar("T")
Numbers = dict[tuple[tuple[str, str, str, str], str], SummaryRow]
"""Rows of a summary by their group and the name of the statistic."""

_KEPT: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def once_per_run(run: Results, what: str, compute: Callable[[], T]) -> T:
    """The cached value of this run, computed on first use."""
    held = _KEPT.setdefault(run, {})
    if what not in held:
        held[what] = compute()
    found: T = held[what]
    return found


class Declared:
    """A benchmark that declares the groups of a run and the statistics of a group.

    What needs more than rows to be looked up is imported inside the methods, so that listing
    benchmarks, or running one, needs none of what its statistics and pages need.
    """

    __slots__ = ()
    headline: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[tuple[RunOption, ...]] = ()
    citations: ClassVar[Mapping[str, str]] = {}
    split_by: ClassVar[tuple[str, ...]] = ()

    def load(self, run: Results) -> Sequence[Group]:
        """The groups of a run, from its rows."""
        raise NotImplementedError

    def statistics(self, run: Results) -> Sequence[Statistic]:
        """The statistics of the run's groups, in the order in which they are listed."""
        raise NotImplementedError

    def sections(self, run: Results) -> Sequence[Section]:
        """Sections of the report: by default the headline and significant differences."""
        from segmeter.benchmarks.summary_tables import headline_sections

        cards = cards_by_name(self.statistics(run))
        return headline_sections(self.headline, cards, self.summary(run), self.differences(run))

    def groups(self, run: Results) -> Sequence[Group]:
        """The groups of a run, loaded once; models in the order in which they were named."""
        order = {str(spec): place for place, spec in enumerate(run.plan.segmenters)}
        return once_per_run(
            run,
            "groups",
            lambda: sorted(self.load(run), key=lambda g: order.get(g.model, len(order))),
        )

    def summary(self, run: Results) -> list[SummaryRow]:
        """Every statistic of every group, with its interval."""
        made: list[SummaryRow] = once_per_run(
            run, "summary", lambda: list(summary_of(self.groups(run), self.statistics(run)))
        )
        return list(made)

    def numbers(self, run: Results) -> Numbers:
        """The summary by group and statistic."""
        return {(row.key, row.measure): row for row in self.summary(run)}

    def differences(self, run: Results, names: Sequence[str] | None = None) -> list[Difference]:
        """Every pair of models in the named statistics, by default in those that are tested."""
        found: list[Difference] = once_per_run(
            run,
            f"differences {names}",
            lambda: differences_of(self.groups(run), self.statistics(run), names),
        )
        return list(found)

    def paper_table(self, run: Results) -> PaperLayout | None:
        """The columns of the table that papers print; none for the headline."""
        return None

    def cost_section(self, run: Results, objects: int, rate: float | None) -> Section | None:
        """Hours and money for so many objects; None where it does not measure time."""
        return None
