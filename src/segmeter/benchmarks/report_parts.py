"""Parts of reports that benchmarks share: tables of numbers and differences, curves, cases."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from segmeter.benchmarks.sessions import mask_of
from segmeter.core.benchmarks import Difference, Group, Results, Row, StatisticCard, SummaryRow
from segmeter.core.errors import BadInput, NotFound, SegmeterError
from segmeter.core.prompts import round_from_json
from segmeter.core.scenes import Scene, Target
from segmeter.core.sections import (
    Axis,
    Block,
    Cell,
    Column,
    Frame,
    Label,
    Line,
    Note,
    Section,
    Table,
    Value,
)
from segmeter.stats.comparisons import difference
from segmeter.stats.effort import CostModel
from segmeter.stats.intervals import Floats, Resampling

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


def column_of(card: StatisticCard, *, plot: bool = False) -> Column:
    """The column of a statistic: its title, unit, decimals and direction."""
    return Column(card.title, card.unit, card.digits, better=card.better, plot=plot)


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
    columns[Column("statistic")] = lambda d: titled(cards[d.measure])
    columns[Column("difference", "first − second", max(2, digits), plot=True)] = Value.of
    columns[P_VALUE] = lambda d: d.p_holm
    tested = Counter((d.protocol, d.measure) for d in found)
    columns[Column("significant")] = lambda d: (
        f"{'yes' if d.significant else 'no'}{at_odds(d, tested[d.protocol, d.measure])}"
    )
    note = _NOTE.format(units=units)
    return Table.of("differences", found, columns, "Differences between models", note)


def at_odds(d: Difference, pairs: int) -> str:
    """Why interval and p value seem to disagree, where they do."""
    apart = d.low > 0 or d.high < 0
    if apart and not d.significant:
        if d.p < 0.05:
            return (
                f" (the interval leaves out 0 but is for this pair alone; p is for {pairs} pairs)"
            )
        return (
            " (the interval leaves out 0; the exchange test, exact for few cases, does not"
            " reach 5 %)"
        )
    if d.significant and not apart and np.isfinite(d.low):
        return (
            " (the interval touches 0: it is wider than the exchange test where values are skewed)"
        )
    return ""


def titled(card: StatisticCard) -> str:
    """A statistic's title with its unit."""
    return f"{card.title}, {card.unit}" if card.unit else card.title


By = Mapping[Column, Callable[[SummaryRow], Cell]]
"""Columns that identify a group in addition to model and protocol."""

DATA: By = {Column("data"): lambda row: row.dataset}


def summary_table(
    name: str,
    rows: Sequence[SummaryRow],
    measures: Mapping[str, Column],
    *,
    by: By | None = None,
    who: str = "model",
    ranked: bool = False,
    caption: str = "",
    note: str = "",
) -> Table:
    """A line per group that has any of the measures, a column for each that any group has.

    `ranked` sets the highest of the first measure first; else groups stand as they came.

    >>> rows = [
    ...     SummaryRow(m, "mini", "", "corrected", "ap", v, v, v, 9) for m, v in zip("ab", (1, 2))
    ... ]
    >>> table = summary_table("ap", rows, {"ap": Column("AP"), "ar": Column("AR")}, ranked=True)
    >>> [label.text for label, _ in table.rows]
    ['b', 'a']
    """
    told = by or {}
    shown = [m for m in measures if any(row.measure == m for row in rows)]
    groups: dict[tuple[str, ...], dict[str, SummaryRow]] = {}
    for row in rows:
        if row.measure in shown:
            groups.setdefault(row.key, {})[row.measure] = row
    lines = list(groups.values())
    if ranked:
        lines.sort(key=lambda line: -line[shown[0]].value if shown[0] in line else 0.0)
    made: list[list[Cell]] = []
    for line in lines:
        one = next(iter(line.values()))
        head = [Label(one.model, protocol=one.protocol), *(tell(one) for tell in told.values())]
        made.append([*head, *(Value.of(line.get(m)) for m in shown)])
    columns = [Column(who), *told, *(measures[m] for m in shown)]
    return Table(name, columns, made, caption, note)


def matrix_table(
    name: str, labels: Sequence[str], values: Floats, caption: str, note: str = ""
) -> Table:
    """A square table, each cell tinted by its value; a dash where there is none.

    >>> matrix_table("r", ["a", "b"], np.array([[1, 0.5], [0.5, np.nan]]), "").rows
    [['a', 1.0, 0.5], ['b', 0.5, None]]
    """
    columns = [Column(""), *(Column(label, "", 2, shade=True) for label in labels)]
    rows: list[list[Cell]] = [
        [label, *(None if np.isnan(value) else float(value) for value in row)]
        for label, row in zip(labels, values, strict=True)
    ]
    return Table(name, columns, rows, caption, note)


def headline_sections(
    headline: Sequence[str],
    cards: Mapping[str, StatisticCard],
    rows: Sequence[SummaryRow],
    found: Sequence[Difference],
) -> list[Section]:
    """The sections of a benchmark that declares none: its headline, and differences."""
    columns = {name: column_of(cards[name]) for name in headline or cards}
    by: By = {**DATA, Column("user"): lambda row: row.user}
    varied = {c: tell for c, tell in by.items() if len({str(tell(row)) for row in rows}) > 1}
    note = "95 % intervals from resampling images."
    table = summary_table("results", rows, columns, by=varied, note=note)
    return [Section("Results", blocks=[table]), *difference_section(found, cards)]


def printed_table(
    name: str,
    rows: Iterable[Mapping[str, str]],
    words: Mapping[str, str],
    numbers: Mapping[str, str],
    digits: int,
    caption: str,
) -> Table:
    """A published table as it was printed; `words` and `numbers` are headings by column."""
    columns = [*map(Column, words.values()), *(Column(n, digits=digits) for n in numbers.values())]
    body: list[list[Cell]] = [
        [*(row[w] for w in words), *(float(row[n]) if row[n] else None for n in numbers)]
        for row in rows
    ]
    return Table(name, columns, body, caption)


def published_rows(benchmark: str, file: str) -> list[dict[str, str]]:
    """Rows by column, as text.

    >>> published_rows("zeroshot.edges", "table5.csv")[0]["method"]
    'HED'
    """
    folder = resources.files(f"segmeter.benchmarks.{benchmark}")
    return list(csv.DictReader(folder.joinpath(file).read_text("utf-8").splitlines()))


QUALITY = Axis("IoU, %", high=1.0, percent=True)


def rounds_axis(rounds: int, title: str = "round") -> Axis:
    """From the first round to the last, with a tick at every fifth where there are many.

    >>> rounds_axis(20).ticks
    [1, 5, 10, 15, 20]
    """
    ticks = [1, *range(5, rounds - 1, 5), rounds] if rounds > 6 else list(range(1, rounds + 1))
    return Axis(title, low=1 if rounds > 1 else None, high=rounds, ticks=ticks, digits=0)


def curve_with_band(name: str, values: Floats, drawn: Resampling) -> Line:
    """Means of `(targets, rounds)`; the 95 % band is left out where one image gives none."""
    low, high = drawn.limits(values)
    known = not np.isnan(low).any()
    rounds = np.arange(1, values.shape[1] + 1)
    return Line(name, rounds, values.mean(axis=0), low if known else None, high if known else None)


def cost_of(run: Results) -> CostModel:
    """The cost model that the caller chose, else the default."""
    path = run.settings.get("cost")
    return CostModel() if path is None else CostModel.read(Path(path))


def uneven(where: str, groups: Sequence[Group]) -> Note | None:
    """A warning where models were not scored on the same targets."""
    if len({frozenset(group.keys) for group in groups}) < 2:
        return None
    counts = ", ".join(f"{group.model} {len(group.keys)}" for group in groups)
    return Note(
        f"On {where} the models were not scored on the same objects ({counts}): their means are "
        "not comparable, their paired differences are.",
        "warning",
    )


Key = tuple[str, str]
"""Scene and target."""

NO_MASKS = Note("Masks were not kept in this run, so objects cannot be shown.", "warning")


@dataclass(frozen=True, slots=True)
class Case:
    """One target with its scene, whose image is at hand; `dataset` as the run names it."""

    dataset: str
    key: Key
    scene: Scene
    target: Target

    @property
    def title(self) -> str:
        return title(*self.key, self.target.label)


def title(scene: str, target: str, label: str = "") -> str:
    """An object by name; its class says more than a number, and some names say nothing.

    >>> title("beach", "1"), title("beach", "dog"), title("beach", "7", "kite")
    ('beach', 'beach, dog', 'beach, kite (7)')
    """
    if label and target.isdecimal():
        return f"{scene}, {label} ({target})"
    return scene if target in ("", scene, "0", "1", "object") else f"{scene}, {target}"


def case_at_hand(run: Results, dataset: str, key: Key) -> Case:
    """The case, its image read; NotFound or BadInput where it cannot be shown."""
    scene = run.scene(dataset, key[0])
    if scene.header.kind != "image":
        raise BadInput("they are volumes; 'segmeter run volumes' has a page to scroll through")
    target = next((t for t in scene.targets if t.id == key[1]), None)
    if target is None:
        raise NotFound("the data set no longer holds the targets that were scored")
    scene.pixels  # noqa: B018  # read now: a missing image raises here
    return Case(dataset, key, scene, target)


def cases_at_hand(run: Results, places: Iterable[tuple[str, Key]]) -> tuple[list[Case], str]:
    """Cases by data set and key, or the reason why they cannot be shown."""
    try:
        return [case_at_hand(run, dataset, key) for dataset, key in places], ""
    except SegmeterError as error:
        return [], str(error)


def session_rows(run: Results, group: Group, key: Key, users: Collection[str]) -> list[Row]:
    """The rows of some users on one target in the group's reading, round by round."""
    scene, target = key
    return [
        row
        for row in run.job_rows(group.model, group.dataset, scene)
        if (row["protocol"], row["target"]) == (group.protocol, target) and row["user"] in users
    ]


def frame_of(row: Row, shape: tuple[int, ...], note: str = "") -> Frame:
    """One round of a replay; BadInput where the mask is damaged."""
    named = {"IoU": row["iou"], "boundary": row.get("boundary_iou")}
    scores = {name: value for name, value in named.items() if value is not None}
    prompts = round_from_json(row["prompt"])
    seconds = row["seconds_predict"] if prompts else None
    return Frame(mask_of(row, shape), prompts, scores, seconds, note)


_HOUR = 3600.0
_PAIRS = 6
"""With fewer clusters, no exchange of two ways reaches p = 0.05."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to annotate objects: seconds of a person and by hand, one for each object."""

    name: str
    mean: Value
    waiting: Value
    seconds: Floats
    by_hand: Floats
    clusters: Sequence[str]
    dataset: str


def cost_section(
    tables: Mapping[str, Sequence[Way]], objects: int, rate: float | None, units: str
) -> Section:
    """Hours, and money at a rate per hour, for so many objects, by what they are like."""
    if objects < 1:
        raise BadInput(f"--objects is a number of objects, not {objects}")
    if rate is not None and not 0 <= rate < float("inf"):
        raise BadInput(f"--rate is money per hour, not {rate:g}")
    text = (
        "Time of a person, if all objects are like those measured; objects that fail are drawn by "
        "hand. Waiting is for the machine that ran this benchmark, and is not paid here. 95 % "
        f"intervals are of the mean over {units}: other kinds of objects cost something else."
    )
    columns = [Column("way"), Column("time", "hours", 1), Column("waiting", "hours", 1)]
    if rate is not None:
        columns.append(Column("money", f"at {rate:g} per hour", 0))
    columns += [Column("saved", "% of drawing by hand", 0), Column("conclusion")]
    blocks: list[Block] = []
    for title, ways in tables.items():
        rows = [_cost_row(way, objects, rate, units) for way in ways]
        hand = float(ways[0].by_hand.mean()) * objects / _HOUR
        money: list[Cell] = [] if rate is None else [Value(hand * rate)]
        rows.append(["all by hand", Value(hand), Value(0.0), *money, None, "the alternative"])
        where = f" like those of {title}" if len(tables) > 1 else ""
        blocks.append(Table(f"project-{title}", columns, rows, f"{objects} objects{where}"))
    return Section(f"What {objects:,} objects cost".replace(",", " "), text, blocks)


def _cost_row(way: Way, objects: int, rate: float | None, units: str) -> list[Cell]:
    hours = _times(way.mean, objects / _HOUR)
    hand = float(way.by_hand.mean())
    few = len(set(way.clusters)) < _PAIRS
    paired = difference(way.seconds, way.by_hand, way.clusters, seed=way.dataset)
    gap = paired.interval
    limits = (None, None) if few else (-gap.high, -gap.low)
    saved = _times(Value(-gap.value, *limits), 100 / hand) if hand else Value(None)
    money: list[Cell] = [] if rate is None else [_times(hours, rate)]
    waiting = _times(way.waiting, objects / _HOUR)
    conclusion = f"too few {units} to test" if few else _pays(gap.value, paired.p)
    return [way.name, hours, waiting, *money, saved, conclusion]


def _pays(gap: float, p: float) -> str:
    if p >= 0.05:
        return "no significant difference from drawing by hand"
    word = "pays: costs less" if gap < 0 else "does not pay: costs more"
    return f"{word} than drawing by hand"


def _times(value: Value, factor: float) -> Value:
    def times(part: float | None) -> float | None:
        return None if part is None else part * factor

    return Value(times(value.value), times(value.low), times(value.high))
