"""The section on differences between models, the same for every benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from segmeter.core.benchmarks import Difference, StatisticCard
from segmeter.core.sections import Cell, Column, Label, Section, Table, Value

__all__ = ["P_VALUE", "difference_section", "difference_table"]

P_VALUE = Column("p", "Holm-corrected", 3)
"""How every table heads the p value of a difference."""

_TEXT = (
    "Every pair of models on the objects that both have. A difference is significant where its p "
    "value, corrected for all pairs of its statistic (Holm), is below 5 %."
)
_NOTE = (
    "Differences are first minus second, with 95 % intervals from resampling {units}; p is "
    "two-sided, by exchanging the two models within {units}."
)


def difference_section(
    found: Sequence[Difference],
    cards: Mapping[str, StatisticCard],
    *,
    shown: Callable[[str], str] = str,
    users: Callable[[str], str] = str,
    units: str = "images",
    folded: bool = False,
) -> list[Section]:
    """All pairs of models; nothing where there is one model.

    `shown` and `users` are how models and users are called there, `units` what is resampled.
    """
    if not found:
        return []
    table = difference_table(found, cards, shown=shown, users=users, units=units)
    return [Section("Significant differences", _TEXT, [table], folded=folded)]


def difference_table(
    found: Sequence[Difference],
    cards: Mapping[str, StatisticCard],
    *,
    shown: Callable[[str], str] = str,
    users: Callable[[str], str] = str,
    units: str = "images",
) -> Table:
    """A row per difference: where, between whom, how large and how sure.

    Data sets, users and protocols are named only where there are several.
    """
    columns: dict[Column, Callable[[Difference], Cell]] = {
        Column("first"): lambda d: Label(shown(d.first), protocol=d.protocol if protocols else ""),
        Column("second"): lambda d: shown(d.second),
    }
    protocols = len({d.protocol for d in found}) > 1
    if len({d.dataset for d in found}) > 1:
        columns[Column("data set")] = lambda d: d.dataset
    if len({d.user for d in found}) > 1:
        columns[Column("user")] = lambda d: users(d.user)
    digits = max(cards[d.measure].digits for d in found)
    columns[Column("statistic")] = lambda d: _titled(cards[d.measure])
    columns[Column("difference", "first − second", max(2, digits), plot=True)] = Value.of
    columns[P_VALUE] = lambda d: d.p_holm
    columns[Column("significant")] = lambda d: "yes" if d.significant else "no"
    note = _NOTE.format(units=units)
    return Table.of("differences", found, columns, "Differences between models", note)


def _titled(card: StatisticCard) -> str:
    return f"{card.title}, {card.unit}" if card.unit else card.title
