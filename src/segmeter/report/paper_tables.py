"""Paper tables: methods down, data sets across, as the papers of a benchmark print them.

A number is bold only where its model is better than every other one on that data set and that
is significant (paired on the same targets, exchange test, Holm).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.core.catalogue import short
from segmeter.core.dataset_names import display_names
from segmeter.core.errors import BadInput, check_choice
from segmeter.report.exports import identifier
from segmeter.report.paper_formats import Format, Head, Number, PaperTable, write_table
from segmeter.store import Run

__all__ = ["LAYOUTS", "Layout", "Statistic", "table_text"]


@dataclass(frozen=True, slots=True)
class Statistic:
    """A column of a paper: the summary's name of it, its heading, decimals, what is good."""

    measure: str
    title: str
    digits: int
    better: Literal["lower", "higher"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Which statistics a paper's table has, and what it says of them."""

    benchmark: str
    statistics: tuple[Statistic, ...]
    caption: str


LAYOUTS: Mapping[str, Layout] = {
    layout.benchmark: layout
    for layout in (
        Layout(
            "noc",
            (
                Statistic("noc@85", "NoC85", 2, "lower"),
                Statistic("noc@90", "NoC90", 2, "lower"),
                Statistic("nof@90", "NoF90", 0, "lower"),
                Statistic("auc", "AuC", 2, "higher"),
                Statistic("boundary-auc", "BIoU", 2, "higher"),
                Statistic("seconds-predict", "SPC", 3, "lower"),
            ),
            "Clicks to 85 and 90 % IoU, failures, areas under IoU and Boundary IoU (%), seconds "
            "per click",
        ),
        Layout(
            "rclicks",
            (
                Statistic("sample-noc", "Sample NoC", 2, "lower"),
                Statistic("base-noc", "Base NoC", 2, "lower"),
                Statistic("dsb-noc", "dSB", 2, "lower"),
                Statistic("dgr-noc", "dGR", 2, "lower"),
                Statistic("dhh-noc", "dHH", 2, "lower"),
            ),
            "Clicks under clicking groups, and the relative increases of the paper (%)",
        ),
        Layout(
            "tetris",
            (
                Statistic("iou-min", "Min", 2, "higher"),
                Statistic("iou-max", "Max", 2, "higher"),
                Statistic("iou-d", "D", 2, "lower"),
            ),
            "Area under IoU (%) of the worst and the best clicks, and their difference",
        ),
        Layout(
            "seism",
            (
                Statistic("fb-ods", "Fb", 3, "higher"),
                Statistic("fop-ods", "Fop", 3, "higher"),
            ),
            "Boundaries (Fb) and objects and parts (Fop), best setting for the whole data set "
            "(ODS)",
        ),
    )
}


@runtime_checkable
class ComparesAnything(Protocol):
    """A benchmark that compares models in any of its statistics, not only in the leading ones."""

    def differences_in(self, run: Results, measures: Sequence[str]) -> list[Difference]: ...


def table_text(
    run: Run, layout: str | None = None, kind: Format = "latex", protocol: str = "corrected"
) -> str:
    """A run's table in a paper's layout, as text."""
    name = layout or run.plan.benchmark
    if layout is None and name not in LAYOUTS:
        raise BadInput(
            f"no paper's table for a run of '{name}', only for {', '.join(LAYOUTS)}; "
            "'segmeter report RUN --format tex' writes all tables of its page"
        )
    check_choice("layout", name, LAYOUTS)
    check_choice("protocol", protocol, ("published", "corrected"))
    wanted = LAYOUTS[name]
    if wanted.benchmark != run.plan.benchmark:
        raise BadInput(f"layout '{name}' is for '{wanted.benchmark}', not '{run.plan.benchmark}'")
    rows = [row for row in run.summary() if row.protocol == protocol]
    if not rows:
        raise BadInput(f"the run has no protocol '{protocol}'")
    return write_table(_paper_table(run, wanted, rows, protocol), kind)


def _paper_table(run: Run, layout: Layout, rows: Sequence[SummaryRow], protocol: str) -> PaperTable:
    """The table of a protocol, whose summary these rows are."""
    sizes, names = _sizes(run), display_names(run.plan.datasets)
    statistics = _statistics(layout, rows)
    models = list(dict.fromkeys(row.model for row in rows))
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    values = {(row.model, row.dataset, row.measure): row for row in rows}
    leaders = _leaders(run, layout, models, protocol)
    columns = [(dataset, each) for dataset in datasets for each in statistics]
    heads = [_head(names.get(dataset, dataset), each) for dataset, each in columns]
    body: list[tuple[str, list[Number]]] = []
    for model in models:
        places = [((model, dataset, each.measure), each.digits) for dataset, each in columns]
        cells = [_number(values.get(key), digits, key in leaders) for key, digits in places]
        body.append((short(model), [*([_size(sizes.get(model))] if sizes else []), *cells]))
    parameters = [Head("", "Params (M)", "parameters", limits=False)] if sizes else []
    counts = ", ".join(f"{names.get(d, d)}: n = {_targets(rows, d)}" for d in datasets)
    rounds = run.plan.rounds if run.plan.kind == "model" else 0  # methods are not prompted
    played = f"{rounds} round{'s' if rounds != 1 else ''}, " if rounds else ""
    caption = (
        f"{layout.caption}. {counts}; {played}protocol {protocol}. Bold: better than every other "
        "model, significant at 5 % (paired exchange test, Holm)."
    )
    return PaperTable([*parameters, *heads], body, caption, f"tab:{layout.benchmark}-{protocol}")


def _statistics(layout: Layout, rows: Sequence[SummaryRow]) -> list[Statistic]:
    """Those of the layout that the run has."""
    known = {row.measure for row in rows}
    found = [each for each in layout.statistics if each.measure in known]
    if not found:
        raise BadInput(
            f"no statistic of layout '{layout.benchmark}' is in this run; it has "
            f"{', '.join(sorted(known)[:8])}"
        )
    return found


def _leaders(
    run: Run, layout: Layout, models: Sequence[str], protocol: str
) -> set[tuple[str, str, str]]:
    """Model, data set and measure of what is significant to be better than every other model."""
    signs = {each.measure: 1 if each.better == "higher" else -1 for each in layout.statistics}
    won: dict[tuple[str, str, str], list[bool]] = {}
    for d in _differences(run, layout):
        if d.protocol != protocol:
            continue
        for model, gain in ((d.first, d.value), (d.second, -d.value)):
            ahead = d.significant and signs.get(d.measure, 0) * gain > 0
            won.setdefault((model, d.dataset, d.measure), []).append(ahead)
    return {key for key, each in won.items() if len(each) == len(models) - 1 and all(each)}


def _differences(run: Run, layout: Layout) -> list[Difference]:
    if not isinstance(run.benchmark, ComparesAnything):
        return run.differences()
    # What a machine's seconds were is shown and never tested.
    measures = [each.measure for each in layout.statistics]
    tested = [measure for measure in measures if not measure.startswith("seconds-")]
    return run.benchmark.differences_in(run, tested)


def _sizes(run: Run) -> dict[str, int]:
    """How many parameters each model has, where its rows say so."""
    trails = run.provenance["segmenters"]
    told = {name: str(trail.get("parameters", "")) for name, trail in trails.items()}
    return {name: int(text) for name, text in told.items() if text.isdecimal() and int(text)}


def _targets(rows: Sequence[SummaryRow], dataset: str) -> int:
    return max(row.targets for row in rows if row.dataset == dataset)


def _head(dataset: str, statistic: Statistic) -> Head:
    return Head(dataset, statistic.title, identifier(f"{dataset}_{statistic.measure}"))


def _size(parameters: int | None) -> Number:
    """A model's size in millions; classical ones have none."""
    if parameters is None:
        return Number("–", None)
    return Number(f"{parameters / 1e6:.{1 if parameters >= 1e6 else 3}f}", parameters)


def _number(row: SummaryRow | None, digits: int, bold: bool) -> Number:
    if row is None:
        return Number("–", None)
    return Number(f"{row.value:.{digits}f}", row.value, row.low, row.high, bold)
