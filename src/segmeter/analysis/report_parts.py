"""Parts of reports that benchmarks share: tables of numbers and differences, curves, sentences."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from itertools import product
from typing import Any

import numpy as np

from segmeter.core import sections as page
from segmeter.core.benchmarks import Difference, Group, Results, SummaryRow
from segmeter.core.grouping import grouped
from segmeter.stats.intervals import Floats, Interval
from segmeter.stats.statistics import G, Statistic, cards_by_name, resampling

INTERVALS = "95 % intervals from resampling images, Wilson's for counts and shares of objects."
"""How tables with counts of objects explain their intervals."""
P_VALUE = page.Column("p", "Holm-corrected", 3, least=0.001)
"""How every table heads the p value of a difference."""

_TEXT = (
    "Models are compared in pairs on the objects that both have. A difference is significant if "
    "its p value, Holm-corrected for all pairs of its statistic, is below 5 %."
)


Numbers = dict[tuple[tuple[str, str, str, str], str], SummaryRow]
"""Rows of a summary by their group and the name of the statistic."""


def column_of(card: Statistic, *, plot: bool = False) -> page.Column:
    """The column of a statistic: its title, unit, decimals and direction."""
    return page.Column(card.title, card.unit, card.digits, better=card.better, plot=plot)


def difference_table(
    found: Sequence[Difference],
    cards: Mapping[str, Statistic],
    *,
    shown: Callable[[str], str] = str,
    users: Callable[[str], str] = str,
    name: str = "differences",
    caption: str = "Differences between models",
    pairs: tuple[str, str] = ("models", "user"),
) -> page.Table:
    """A row per difference: where, between whom, how large and how sure.

    Datasets, users and protocols are named only where there are several. `shown` and `users` are
    how models and users are called there, `pairs` what is compared, and what heads the column of
    users.
    """
    columns: dict[page.Column, Callable[[Difference], page.Cell]] = {
        page.Column("first"): lambda d: (
            page.Label(shown(d.first), protocol=d.protocol) if protocols else shown(d.first)
        ),
        page.Column("second"): lambda d: shown(d.second),
    }
    protocols = len({d.protocol for d in found}) > 1
    if len({d.dataset for d in found}) > 1:
        columns[page.Column("dataset")] = lambda d: d.dataset
    if len({d.user for d in found}) > 1:
        columns[page.Column(pairs[1])] = lambda d: users(d.user)
    digits = max((cards[d.statistic].digits for d in found), default=2)
    columns[page.Column("statistic")] = lambda d: titled(cards[d.statistic])
    columns[page.Column("difference", "first − second", max(2, digits), plot=True)] = page.Value.of
    columns[P_VALUE] = lambda d: None if d.too_few else d.p_holm
    columns[page.Column("conclusion")] = lambda d: _conclusion(d, cards[d.statistic].better, shown)
    units = " or ".join(dict.fromkeys(f"{d.unit}s" for d in found))
    tests = {
        f"a t-test over resampled {units}"
        if cards[d.statistic].values is None and cards[d.statistic].pair
        else f"a permutation test that exchanges the two {pairs[0]} within {units}"
        for d in found
    }
    note = (
        f"Differences are first minus second, with 95 % intervals over {units}; p is two-sided, of "
        f"{' or '.join(sorted(tests))}. The dotted line is 0; each statistic has its own scale."
    )
    return page.Table.of(name, found, columns, caption, note)


def _conclusion(d: Difference, better: str, shown: Callable[[str], str]) -> str:
    """Which is better, if significantly, and why interval and p value may disagree."""
    apart = d.low > 0 or d.high < 0
    if d.significant:
        first = (d.value < 0) == (better == "lower")
        who = f"{shown(d.first if first else d.second)} is better" if better else "they differ"
        odd = " (the interval includes 0, because with skewed values it is wide)"
        return f"significant: {who}{'' if apart or not np.isfinite(d.low) else odd}"
    if d.too_few or not apart:
        return d.too_few or "not significant"
    odd = ", but only for this pair; p is corrected for all pairs"
    if d.p >= 0.05:
        odd = "; the paired permutation test, exact for few cases, does not reach 5 %"
    return f"not significant (the interval excludes 0{odd})"


def titled(card: Statistic) -> str:
    return f"{card.title}, {card.unit}" if card.unit else card.title


By = Mapping[page.Column, Callable[[SummaryRow], page.Cell]]
"""Columns that identify a group in addition to model and protocol."""

DATA: By = {page.Column("data"): lambda row: row.dataset}


def _varied(rows: Sequence[SummaryRow]) -> By:
    """Columns of dataset and user, each where rows differ in it."""
    by: By = {**DATA, page.Column("user"): lambda row: row.user}
    return {c: cell for c, cell in by.items() if len({str(cell(row)) for row in rows}) > 1}


def summary_table(
    name: str,
    rows: Sequence[SummaryRow],
    measures: Mapping[str, page.Column],
    *,
    by: By | None = None,
    who: str = "model",
    ranked: bool = False,
    best: Collection[tuple[tuple[str, ...], str]] | None = None,
    caption: str = "",
    note: str = "",
) -> page.Table:
    """A line per group that has any of the measures, a column for each that any group has.

    Columns `by` distinguish groups, by default dataset and user where they differ. `ranked` sets
    the highest of the first measure first; otherwise groups keep their order. `best` are the groups
    and measures that are set bold, where the numbers alone must not decide.

    >>> rows = [
    ...     SummaryRow(m, "mini", "", "corrected", "ap", v, v, v, 9) for m, v in zip("ab", (1, 2))
    ... ]
    >>> columns = {"ap": page.Column("AP"), "ar": page.Column("AR")}
    >>> table = summary_table("ap", rows, columns, ranked=True)
    >>> [label.text for label, _ in table.rows]
    ['b', 'a']
    """
    shown = [m for m in measures if any(row.statistic == m for row in rows)]
    kept = [row for row in rows if row.statistic in shown]
    varied = _varied(kept) if by is None else by
    groups = grouped(kept, lambda row: row.key)
    lines = {key: {row.statistic: row for row in own} for key, own in groups.items()}
    order = list(lines)
    if ranked:
        order.sort(key=lambda key: -lines[key][shown[0]].value if shown[0] in lines[key] else 0.0)
    made: list[list[page.Cell]] = []
    for key in order:
        one, *_ = groups[key]
        bold = {m: None if best is None else (key, m) in best for m in shown}
        values = (page.Value.of(lines[key].get(m), bold[m]) for m in shown)
        head = page.Label(one.model, protocol=one.protocol)
        made.append([head, *(cell(one) for cell in varied.values()), *values])
    columns = [page.Column(who), *varied, *(measures[m] for m in shown)]
    return page.Table(name, columns, made, caption, note)


@dataclass(frozen=True)
class Findings:
    """A run with the numbers of its benchmark, for the page that shows them.

    `called` is how tables call a model.
    """

    run: Results
    called: Callable[[str], str] = str

    @property
    def lead(self) -> str:
        """The protocol that the page begins with."""
        return self.run.plan.leading_protocol

    @cached_property
    def cards(self) -> dict[str, Statistic]:
        return cards_by_name(self.run.benchmark.statistics(self.run))

    @cached_property
    def rows(self) -> list[SummaryRow]:
        found = self.run.benchmark.summary(self.run)
        return [replace(row, model=self.called(row.model)) for row in found]

    @cached_property
    def numbers(self) -> Numbers:
        return {(row.key, row.statistic): row for row in self.rows}

    @property
    def leading(self) -> list[SummaryRow]:
        return [row for row in self.rows if row.protocol == self.lead]

    @cached_property
    def differences(self) -> list[Difference]:
        return [
            replace(d, first=self.called(d.first), second=self.called(d.second))
            for d in self.run.benchmark.differences(self.run)
        ]

    def groups(self, kind: type[G], protocol: str = "") -> list[G]:
        """The groups of a kind, of one protocol or of all."""
        found = [g for g in self.run.benchmark.groups(self.run) if isinstance(g, kind)]
        return [g for g in found if protocol in ("", g.protocol)]

    def datasets(self, groups: Sequence[G]) -> Iterator[tuple[str, list[G], list[SummaryRow]]]:
        """Each dataset with its groups and its rows of the summary."""
        for dataset in dict.fromkeys(group.dataset for group in groups):
            mine = [row for row in self.rows if row.dataset == dataset]
            yield dataset, [group for group in groups if group.dataset == dataset], mine

    def table(
        self,
        name: str,
        rows: Sequence[SummaryRow],
        names: Iterable[str],
        plot: str = "",
        **options: Any,
    ) -> page.Table:
        """A table of statistics by name, one of them plotted; `options` go to `summary_table`."""
        known = [n for n in names if n in self.cards]
        columns = {n: column_of(self.cards[n], plot=n == plot) for n in known}
        return summary_table(name, rows, columns, **options)

    def columns(
        self, groups: Sequence[Group], names: Iterable[str], plot: str = ""
    ) -> dict[page.Column, Callable[[Group], page.Cell]]:
        """The column of each statistic that any of the groups has."""

        def cell(name: str) -> Callable[[Group], page.Cell]:
            return lambda group: page.Value.of(self.numbers.get((group.key, name)))

        shown = [n for n in names if any((g.key, n) in self.numbers for g in groups)]
        return {column_of(self.cards[n], plot=n == plot): cell(n) for n in shown}

    def difference_section(
        self, found: Sequence[Difference] | None = None, *, folded: bool = False, **options: Any
    ) -> list[page.Section]:
        """All pairs of models, or those found; nothing for one model. `options` go to the table."""
        chosen = self.differences if found is None else found
        blocks = [difference_table(chosen, self.cards, **options)]
        made = page.Section("Significant differences", _TEXT, blocks, folded=folded)
        return [made] if chosen else []


def null_table(
    name: str, rows: Iterable[SummaryRow], cards: Mapping[str, Statistic], caption: str
) -> page.Table:
    """The statistics of a group that have a null: observed, under the null, difference, and p."""
    held = {row.statistic: row for row in rows}

    def of(part: str) -> Callable[[str], page.Value]:
        return lambda n: page.Value.of(held[f"{n}{part}"])

    columns: dict[page.Column, Callable[[str], page.Cell]] = {
        page.Column("statistic"): lambda n: titled(cards[n]),
        page.Column("seen", "95 % interval", 2): of(""),
        page.Column("under the null", "middle 95 %", 2): of(":null"),
        page.Column("left", "95 % interval", 2): of(":excess"),
        replace(P_VALUE, unit="uncorrected"): lambda n: held[f"{n}:p"].value,
        page.Column("conclusion"): lambda n: (
            f"{'differs' if held[f'{n}:p'].value < 0.05 else 'not shown to differ'} from the null"
        ),
    }
    return page.Table.of(name, [n for n in cards if f"{n}:p" in held], columns, caption)


def matrix_table(
    name: str, labels: Sequence[str], values: Floats, caption: str, note: str = ""
) -> page.Table:
    """A square table, each cell tinted by its value; a dash where there is none.

    >>> matrix_table("r", ["a", "b"], np.array([[1, 0.5], [0.5, np.nan]]), "").rows
    [['a', 1.0, 0.5], ['b', 0.5, None]]
    """
    columns = [page.Column(""), *(page.Column(label, "", 2, shade=True) for label in labels)]
    rows: list[list[page.Cell]] = [
        [label, *(None if np.isnan(value) else float(value) for value in row)]
        for label, row in zip(labels, values, strict=True)
    ]
    return page.Table(name, columns, rows, caption, note)


def headline_sections(
    findings: Findings, headline: Sequence[str], rows: Sequence[SummaryRow]
) -> list[page.Section]:
    """The sections of a benchmark that declares none: its headline, and differences."""
    names = headline or findings.cards
    table = findings.table("results", rows, names, note=INTERVALS)
    return [page.Section("Results", blocks=[table]), *findings.difference_section()]


def printed_table(
    name: str,
    source: tuple[str, str],
    words: Mapping[str, str],
    numbers: Mapping[str, str],
    digits: int,
    caption: str,
) -> page.Table:
    """A published table as it was printed; `words` and `numbers` are headings by column.

    `source` is the benchmark and its file.
    """
    columns = [
        *map(page.Column, words.values()),
        *(page.Column(n, digits=digits) for n in numbers.values()),
    ]
    body: list[list[page.Cell]] = [
        [*(row[w] for w in words), *(float(row[n]) if row[n] else None for n in numbers)]
        for row in published_rows(*source)
    ]
    return page.Table(name, columns, body, caption)


def published_rows(benchmark: str, file: str) -> list[dict[str, str]]:
    """Rows by column, as text.

    >>> published_rows("zeroshot.edges", "table5.csv")[0]["method"]
    'HED'
    """
    folder = resources.files(f"segmeter.benchmarks.{benchmark}")
    return list(csv.DictReader(folder.joinpath(file).read_text("utf-8").splitlines()))


QUALITY = page.Axis("IoU, %", high=1.0, percent=True)


def rounds_axis(rounds: int, title: str = "round") -> page.Axis:
    """From the first round to the last, with a tick at every fifth where there are many.

    >>> rounds_axis(20).ticks
    [1, 5, 10, 15, 20]
    """
    ticks = [1, *range(5, rounds - 1, 5), rounds] if rounds > 6 else list(range(1, rounds + 1))
    return page.Axis(title, low=1 if rounds > 1 else None, high=rounds, ticks=ticks, digits=0)


def curve_with_band(name: str, values: Floats, group: Group) -> page.Line:
    """Means of `(targets, rounds)`; the 95 % band is left out where one image gives none."""
    found = zip(values.mean(axis=0), *resampling(group).limits(values), strict=True)
    return line_of(name, {k: Interval(*map(float, row)) for k, row in enumerate(found, start=1)})


def line_of(name: str, rows: Mapping[float, page.WithLimits]) -> page.Line:
    """Values of a statistic along an axis; the band is left out where some have no limits."""
    found = np.array([(row.value, row.low, row.high) for row in rows.values()]).reshape(-1, 3)
    values, low, high = found.T
    band = (None, None) if np.isnan(found).any() else (low, high)
    return page.Line(name, list(rows), values, *band)


def curves_chart(
    title: str, group: Group, tables: Mapping[str, Floats], steps: str = "round"
) -> page.Chart:
    """Mean IoU after each round of a group, with bands; a curve per table `(targets, rounds)`."""
    lines = [curve_with_band(name, table, group) for name, table in tables.items()]
    axis = rounds_axis(max(table.shape[1] for table in tables.values()), steps)
    return page.Chart(title, axis, QUALITY, lines)


def on_common_objects(run: Results, groups: Sequence[Group]) -> Results:
    """The run on the objects that all groups of a dataset have; itself if none is missing.

    Groups of a dataset that share no object keep their own.
    """
    kept: dict[str, set[tuple[str, str]]] = {}
    for dataset, members in grouped(groups, lambda group: group.dataset).items():
        held = [set(group.keys) for group in members]
        kept[dataset] = set.intersection(*held) or set.union(*held)
    if all(set(group.keys) == kept[group.dataset] for group in groups):
        return run
    return run.only([(name, *key) for name, held in kept.items() for key in held])


def measured(row: SummaryRow, unit: str = "%", digits: int = 1, words: str = "") -> page.Quantity:
    """A statistic with its interval after `words`, for a sentence."""
    text, value = f"{row.value:.{digits}f} {unit}".strip(), page.Value.of(row)
    return page.Quantity(text, value, value.limits(digits, words), row.statistic)


def best_answer(
    rows: Sequence[SummaryRow],
    names: Sequence[str],
    cards: Mapping[str, Statistic],
    detail: str = "",
    differences: Sequence[Difference] = (),
) -> list[page.Block]:
    """The model with the best value of each statistic, in each protocol of the rows.

    With `differences` also the others from which it differs significantly.

    >>> from types import SimpleNamespace
    >>> card = SimpleNamespace(title="AP", unit="%", digits=1, better="higher")
    >>> rows = [
    ...     SummaryRow(m, "mini", "", "corrected", s, v, v - 1, v + 1, 9)
    ...     for m, v in zip("ab", (1, 2)) for s in ("ap", "ar")
    ... ]
    >>> best_answer(rows, ["ap"], {"ap": card})[0].text
    '**b** has the highest AP, 2.0 % (1.0 to 3.0), on mini.'
    >>> best_answer(rows, ["ap", "ar"], {"ap": card, "ar": card})[0].text.split("; ")[1]
    'it also has the highest AP, 2.0 % (1.0 to 3.0).'
    """
    held = grouped(rows, lambda row: (row.statistic, row.protocol))
    protocols = dict.fromkeys(row.protocol for row in rows)
    several, compared = len(protocols) > 1, len({row.model for row in rows}) > 1
    answer: page.Phrase = ()
    before = leader = ""  # where the previous number is from, and its model
    for name, protocol in product(names, protocols):
        if mine := held.get((name, protocol)):
            card = cards[name]
            best = (min if card.better == "lower" else max)(mine, key=lambda row: row.value)
            word = "lowest" if card.better == "lower" else "highest"
            has = f"has the {word} {card.title}" if compared else f"has {card.title}"
            place = f"{', ' if compared else ' '}on {', '.join(filter(None, best.key[1:3]))}"
            who = "it also" if best.model == leader else f"**{best.model}**"
            opening = f"{'; ' if answer else ''}{who} {has}{',' if compared else ''} "
            ending = ("" if place == before else place) + (f" ({protocol})" if several else "")
            value = measured(best, card.unit, card.digits)
            answer = page.phrase(answer, opening, value, ending + _lead(best, differences))
            before, leader = place, best.model
    return [page.Answer(page.phrase(answer, "."), detail)] if answer else []


def _lead(best: SummaryRow, differences: Sequence[Difference]) -> str:
    """Over which other models the best one leads significantly, to follow its number."""
    here = [d for d in differences if d.statistic == best.statistic]
    here = [d for d in here if (d.dataset, d.user, d.protocol) == best.key[1:]]
    against = {d.first if d.second == best.model else d.second: d for d in here
               if best.model in (d.first, d.second)}  # fmt: skip
    if not against:
        return ""
    yes = " and ".join(name for name, d in against.items() if d.significant)
    no = " and ".join(name for name, d in against.items() if not d.significant)
    why = next((d.too_few for d in against.values() if d.too_few), "")
    if not yes:
        return f" ({why})" if why else ", but its lead is not significant"
    return f", significantly ahead of {yes}" + (f" but not of {no}" if no else "")


def uneven(where: str, groups: Sequence[Group]) -> page.Note | None:
    """A warning where models were not scored on the same targets."""
    if len({frozenset(group.keys) for group in groups}) < 2:
        return None
    counts = ", ".join(f"{group.model} {len(group.keys)}" for group in groups)
    common = len(set.intersection(*(set(group.keys) for group in groups)))
    shown = f"the conclusion, its table and costs use the {common} that all have; elsewhere "
    return page.Note(
        f"On {where} the models were not scored on the same objects ({counts}): "
        f"{shown if common else ''}their means cannot be compared, but paired differences can.",
        "warning",
    )
