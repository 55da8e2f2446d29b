"""Paper tables: models down, datasets across, as the papers of a benchmark print them.

The columns are those that the benchmark declares. A number is bold only where its model is
significantly better than every other one on that dataset (paired permutation
test, Holm). Where models were not scored on the same objects, each number of objects is a column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from segmeter.core.benchmarks import PaperLayout, SummaryRow
from segmeter.core.catalogue import short
from segmeter.core.errors import BadInput, NotFound, check_choice, suggestion
from segmeter.core.plans import display_names
from segmeter.core.sections import Cell, Column, Table, Value
from segmeter.report.exports import WRITERS, Language
from segmeter.report.provenance import rounds_text, unfinished
from segmeter.stats.statistics import Statistic, standing_out
from segmeter.store import Run

_FEW = 6


@dataclass(frozen=True, slots=True)
class TableChoice:
    """Choices of a paper's author; empty fields leave the usual table.

    Attributes
    ----------
    columns
        Statistics in their order, such as `("noc@80", "noc@90")`.
    models, datasets
        Which of them, in their order.
    names
        Display names of models and datasets.
    """

    columns: Sequence[str] = ()
    models: Sequence[str] = ()
    datasets: Sequence[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)


def table_text(
    run: Run,
    kind: Language = "latex",
    protocol: str = "corrected",
    choice: TableChoice | None = None,
) -> str:
    """A run's table as its papers print it, as text."""
    return WRITERS[kind](paper_table(run, protocol, choice), limits=False)


def paper_table(run: Run, protocol: str = "corrected", choice: TableChoice | None = None) -> Table:
    """A run's table as its papers print it: the benchmark's own columns for every dataset."""
    check_choice("protocol", protocol, ("published", "corrected"))
    choice, labels = choice or TableChoice(), display_names(run.plan.datasets)
    rows = _chosen(run, protocol, choice, labels)
    models = {m: (m, short(m)) for m in map(str, run.plan.segmenters)}
    _places(
        "model or dataset",
        list(choice.names),
        {**models, **{d: (d, n) for d, n in labels.items()}},
    )
    cards = {card.name: card for card in reversed(run.benchmark.statistics(run))}
    layout = run.benchmark.paper_table(run) or _headline(run, cards)
    if choice.columns:
        layout = replace(layout, caption=f"Results of {run.plan.benchmark}")
    shown = _shown(rows, layout, cards, choice.columns)
    rows = [row for row in rows if row.statistic in shown]
    names = {
        n: choice.names.get(n) or choice.names.get(label, label) for n, label in labels.items()
    }
    tested = [name for name in shown if cards[name].testable]
    sizes, best = _sizes(run), standing_out(rows, run.benchmark.differences(run, tested), cards)
    places = list(dict.fromkeys((row.dataset, row.user) for row in rows))
    several = len({user for _, user in places}) > 1
    values = {(r.model, r.dataset, r.user, r.statistic): r for r in rows}
    columns = [Column("method"), *([Column("Params (M)", digits=1)] if sizes else [])]
    uneven = {place for place in places if len(_counts(rows, place)) > 1}
    for dataset, user in places:
        group = names.get(dataset, dataset) + (f", {user}" if several else "")
        columns += [Column("n", digits=0, group=group)] if (dataset, user) in uneven else []
        columns += [
            Column(title, digits=cards[name].digits, group=group) for name, title in shown.items()
        ]
    body: list[list[Cell]] = []
    for model in dict.fromkeys(row.model for row in rows):
        named = choice.names.get(model) or choice.names.get(short(model)) or short(model)
        line: list[Cell] = [named, *([_millions(sizes.get(model))] if sizes else [])]
        for dataset, user in places:
            mine = [values.get((model, dataset, user, name)) for name in shown]
            if (dataset, user) in uneven:
                line.append(max((row.targets for row in mine if row is not None), default=0))
            line += [
                Value.of(row, row is not None and (row.key, row.statistic) in best) for row in mine
            ]
        body.append(line)
    caption = _caption(run, layout, rows, places, names, protocol, bool(uneven))
    return Table(f"{run.plan.benchmark}-{protocol}", columns, body, caption)


def _chosen(
    run: Run, protocol: str, choice: TableChoice, labels: Mapping[str, str]
) -> list[SummaryRow]:
    """Rows of the summary in the order of the plan, or in that of the choice."""
    rows = [row for row in run.summary() if row.protocol == protocol]
    if not rows:
        raise BadInput(f"the run has no protocol '{protocol}'")
    models = [str(spec) for spec in run.plan.segmenters]
    of_models = _places("model", choice.models, {m: (m, short(m)) for m in models})
    of_data = _places("dataset", choice.datasets, {d: (d, n) for d, n in labels.items()})
    kept = [row for row in rows if row.model in of_models and row.dataset in of_data]
    return sorted(kept, key=lambda row: (of_models[row.model], of_data[row.dataset]))


def _places(
    what: str, wanted: Sequence[str], known: Mapping[str, tuple[str, str]]
) -> dict[str, int]:
    """The place of each name; of all where none are wanted."""
    if not wanted:
        return {name: place for place, name in enumerate(known)}
    found = {}
    for place, word in enumerate(wanted):
        matches = [name for name, called in known.items() if word in called]
        if not matches:
            spoken = [shown for _, shown in known.values()]
            hint = suggestion(word, spoken)
            raise NotFound(f"the run has no {what} '{word}';{hint} it has {', '.join(spoken)}")
        found[matches[0]] = place
    return found


def _shown(
    rows: Sequence[SummaryRow],
    layout: PaperLayout,
    cards: Mapping[str, Statistic],
    columns: Sequence[str],
) -> dict[str, str]:
    """Statistics of the columns with their headings: those of the layout, or as chosen."""
    known = list(dict.fromkeys(row.statistic for row in rows if row.statistic in cards))
    for name in columns:
        if name not in known:
            hint = suggestion(name, known)
            raise NotFound(f"the run has no statistic '{name}';{hint} it has {', '.join(known)}")
    if columns:
        return {name: cards[name].title for name in columns}
    shown = {name: title for name, title in layout.columns.items() if name in known}
    if not shown:
        raise BadInput(f"the run has none of {', '.join(layout.columns)}")
    return shown


def _headline(run: Run, cards: Mapping[str, Statistic]) -> PaperLayout:
    """The columns of a benchmark without a table of its own: its headline, or what it has."""
    known = [row.statistic for row in run.summary() if row.statistic in cards]
    names = run.headline() or list(dict.fromkeys(known))[:_FEW]
    shown = {name: cards[name].title for name in names}
    return PaperLayout(shown, f"Results of {run.plan.benchmark}")


def _counts(rows: Sequence[SummaryRow], place: tuple[str, str]) -> set[int]:
    """How many objects the models of a dataset and user were scored on."""
    most: dict[str, int] = {}
    for row in rows:
        if (row.dataset, row.user) == place:
            most[row.model] = max(row.targets, most.get(row.model, 0))
    return set(most.values())


def _caption(
    run: Run,
    layout: PaperLayout,
    rows: Sequence[SummaryRow],
    places: Sequence[tuple[str, str]],
    names: Mapping[str, str],
    protocol: str,
    uneven: bool,
) -> str:
    counts = ", ".join(
        f"{names.get(place[0], place[0])}: n = {max(_counts(rows, place))}"
        for place in dict.fromkeys((dataset, user) for dataset, user in places)
    )
    users = ", ".join(dict.fromkeys(user for _, user in places if user))
    ran = f"{rounds_text(run)} by {users}, " if users else ""
    warning = (
        " Models were not scored on the same objects (columns n): compare their paired "
        "differences, not these means."
        if uneven
        else ""
    )
    return (
        f"{layout.caption}. {counts}; {ran}protocol {protocol}. Bold: significantly better than "
        f"every other model at 5 % (paired permutation test, Holm).{warning}"
        f"{''.join(f' {sentence}' for sentence in unfinished(run))}"
    )


def _sizes(run: Run) -> dict[str, int]:
    """How many parameters each model has, where its rows say so."""
    known = run.provenance["segmenters"]
    counts = {name: str(facts.get("parameters", "")) for name, facts in known.items()}
    return {name: int(text) for name, text in counts.items() if text.isdecimal() and int(text)}


def _millions(parameters: int | None) -> float | None:
    """A model's size in millions; classical ones have none."""
    return None if parameters is None else parameters / 1e6
