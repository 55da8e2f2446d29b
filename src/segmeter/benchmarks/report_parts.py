"""Parts of reports that benchmarks share: tables of numbers and differences, curves, cases."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.declared import once_per_run
from segmeter.benchmarks.sessions import mask_of
from segmeter.core.benchmarks import (
    Difference,
    Group,
    Results,
    Row,
    SummaryRow,
    too_few,
)
from segmeter.core.capabilities import KnowsItsScan
from segmeter.core.errors import BadInput, NotFound, SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.prompts import Prompt, round_from_json
from segmeter.core.scenes import Scene, Target, Volume
from segmeter.core.sections import (
    SCENE_NUMBERS,
    Answer,
    Axis,
    Block,
    Cell,
    Column,
    Frame,
    Greys,
    Illustration,
    Label,
    Line,
    Note,
    Outline,
    Phrase,
    Quantity,
    Replay,
    Section,
    Slices,
    Table,
    Value,
    phrase,
)
from segmeter.datasets.volumes.cases import WINDOWS
from segmeter.models.volumes.preparation import prepared
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.comparisons import difference
from segmeter.stats.intervals import Floats, Interval, Resampling
from segmeter.stats.statistics import G, Statistic

INTERVALS = "95 % intervals from resampling images, Wilson's for counts and shares of objects."
"""How tables with counts of objects explain their intervals."""
P_VALUE = Column("p", "Holm-corrected", 3)
"""How every table heads the p value of a difference."""

_TEXT = (
    "Every pair of models on the objects that both have. A difference is significant where its p "
    "value, corrected for all pairs of its statistic (Holm), is below 5 %."
)
_NOTE = (
    "Differences are first minus second, with 95 % intervals from resampling {units}; p is "
    "two-sided, by exchanging the two {pairs} within {units}."
)


def column_of(card: Statistic, *, plot: bool = False) -> Column:
    """The column of a statistic: its title, unit, decimals and direction."""
    return Column(card.title, card.unit, card.digits, better=card.better, plot=plot)


def difference_section(
    found: Sequence[Difference],
    cards: Mapping[str, Statistic],
    *,
    shown: Callable[[str], str] = str,
    users: Callable[[str], str] = str,
    units: str = "images",
    user: str = "user",
    folded: bool = False,
) -> list[Section]:
    """All pairs of models; nothing where there is one model.

    `shown` and `users` are how models and users are called there, `units` what is resampled,
    `user` the heading of users.
    """
    if not found:
        return []
    table = difference_table(
        found, cards, shown=shown, users=users, units=units, pairs=("models", user)
    )
    return [Section("Significant differences", _TEXT, [table], folded=folded)]


def difference_table(
    found: Sequence[Difference],
    cards: Mapping[str, Statistic],
    *,
    shown: Callable[[str], str] = str,
    users: Callable[[str], str] = str,
    units: str = "images",
    name: str = "differences",
    caption: str = "Differences between models",
    pairs: tuple[str, str] = ("models", "user"),
) -> Table:
    """A row per difference: where, between whom, how large and how sure.

    Datasets, users and protocols are named only where there are several. `pairs` are what is
    compared, and what heads the column of users.
    """
    columns: dict[Column, Callable[[Difference], Cell]] = {
        Column("first"): lambda d: (
            Label(shown(d.first), protocol=d.protocol) if protocols else shown(d.first)
        ),
        Column("second"): lambda d: shown(d.second),
    }
    protocols = len({d.protocol for d in found}) > 1
    if len({d.dataset for d in found}) > 1:
        columns[Column("dataset")] = lambda d: d.dataset
    if len({d.user for d in found}) > 1:
        columns[Column(pairs[1])] = lambda d: users(d.user)
    digits = max((cards[d.statistic].digits for d in found), default=2)
    columns[Column("statistic")] = lambda d: titled(cards[d.statistic])
    columns[Column("difference", "first − second", max(2, digits), plot=True)] = Value.of
    columns[P_VALUE] = lambda d: None if d.too_few else d.p_holm
    columns[Column("conclusion")] = lambda d: (
        _conclusion(d, cards[d.statistic].better, shown) + at_odds(d)
    )
    note = _NOTE.format(units=units, pairs=pairs[0])
    return Table.of(name, found, columns, caption, note)


def _conclusion(d: Difference, better: str, shown: Callable[[str], str]) -> str:
    if not d.significant:
        return d.too_few or "not significant"
    if not better:
        return "significant: they differ"
    first = (d.value < 0) == (better == "lower")
    return f"significant: {shown(d.first if first else d.second)} is better"


def at_odds(d: Difference) -> str:
    """Why interval and p value seem to disagree, where they do."""
    apart = d.low > 0 or d.high < 0
    if apart and not d.significant:
        if d.p < 0.05:
            return " (the interval excludes 0 but is for this pair alone; p is for all pairs)"
        return (
            " (the interval excludes 0; the paired permutation test, exact for few cases, does "
            "not reach 5 %)"
        )
    if d.significant and not apart and np.isfinite(d.low):
        return " (the interval touches 0: with skewed values it is wider than the permutation test)"
    return ""


def titled(card: Statistic) -> str:
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
    best: Collection[tuple[tuple[str, ...], str]] | None = None,
    caption: str = "",
    note: str = "",
) -> Table:
    """A line per group that has any of the measures, a column for each that any group has.

    `ranked` sets the highest of the first measure first; else groups stand as they came. `best`
    are the groups and measures that are set bold, where the numbers alone must not decide.

    >>> rows = [
    ...     SummaryRow(m, "mini", "", "corrected", "ap", v, v, v, 9) for m, v in zip("ab", (1, 2))
    ... ]
    >>> table = summary_table("ap", rows, {"ap": Column("AP"), "ar": Column("AR")}, ranked=True)
    >>> [label.text for label, _ in table.rows]
    ['b', 'a']
    """
    told = by or {}
    shown = [m for m in measures if any(row.statistic == m for row in rows)]
    groups: dict[tuple[str, ...], dict[str, SummaryRow]] = {}
    for row in rows:
        if row.statistic in shown:
            groups.setdefault(row.key, {})[row.statistic] = row
    lines = list(groups.values())
    if ranked:
        lines.sort(key=lambda line: -line[shown[0]].value if shown[0] in line else 0.0)
    made: list[list[Cell]] = []
    for line in lines:
        one = next(iter(line.values()))
        head = [Label(one.model, protocol=one.protocol), *(tell(one) for tell in told.values())]
        bold = {m: None if best is None else (one.key, m) in best for m in shown}
        made.append([*head, *(Value.of(line.get(m), bold[m]) for m in shown)])
    columns = [Column(who), *told, *(measures[m] for m in shown)]
    return Table(name, columns, made, caption, note)


def by_dataset(
    groups: Sequence[G], rows: Sequence[SummaryRow]
) -> Iterator[tuple[str, list[G], list[SummaryRow]]]:
    """Each dataset with its groups and its rows of the summary."""
    for dataset in dict.fromkeys(group.dataset for group in groups):
        mine = [row for row in rows if row.dataset == dataset]
        yield dataset, [group for group in groups if group.dataset == dataset], mine


def null_table(
    name: str, rows: Iterable[SummaryRow], cards: Mapping[str, Statistic], caption: str
) -> Table:
    """The statistics of one group that have a null: seen, under the null, what is left, and p."""
    held = {row.statistic: row for row in rows}

    def of(part: str) -> Callable[[str], Value]:
        return lambda n: Value.of(held[f"{n}{part}"])

    columns: dict[Column, Callable[[str], Cell]] = {
        Column("statistic"): lambda n: titled(cards[n]),
        Column("seen", "95 % interval", 2): of(""),
        Column("under the null", "middle 95 %", 2): of(":null"),
        Column("left", "95 % interval", 2): of(":excess"),
        Column("p", "uncorrected", 3): lambda n: held[f"{n}:p"].value,
        Column("conclusion"): lambda n: (
            f"{'differs' if held[f'{n}:p'].value < 0.05 else 'not shown to differ'} from the null"
        ),
    }
    return Table.of(name, [n for n in cards if f"{n}:p" in held], columns, caption)


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
    cards: Mapping[str, Statistic],
    rows: Sequence[SummaryRow],
    found: Sequence[Difference],
) -> list[Section]:
    """The sections of a benchmark that declares none: its headline, and differences."""
    columns = {name: column_of(cards[name]) for name in headline or cards}
    by: By = {**DATA, Column("user"): lambda row: row.user}
    varied = {c: tell for c, tell in by.items() if len({str(tell(row)) for row in rows}) > 1}
    table = summary_table("results", rows, columns, by=varied, note=INTERVALS)
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


def line_of(name: str, rows: Mapping[float, SummaryRow]) -> Line:
    """Values of a statistic along an axis; the band is left out where some have no limits."""
    x, found = list(rows), list(rows.values())
    low, high = [row.low for row in found], [row.high for row in found]
    known = not np.isnan([*low, *high]).any()
    values = [row.value for row in found]
    return Line(name, x, values, low if known else None, high if known else None)


def cost_of(run: Results) -> CostModel:
    """The cost model that the caller chose, else the default."""
    path = run.settings.get("cost")
    return CostModel() if path is None else CostModel.read(Path(path))


def on_common_objects(run: Results, groups: Sequence[Group]) -> Results:
    """The run on the objects that all groups of a dataset have; itself if none is missing.

    Groups of a dataset that share no object keep their own.
    """
    keys: dict[str, list[set[Key]]] = {}
    for group in groups:
        keys.setdefault(group.dataset, []).append(set(group.keys))
    common = {name: set.intersection(*held) for name, held in keys.items()}
    kept = {name: common[name] or set.union(*held) for name, held in keys.items()}
    if all(own == kept[name] for name, held in keys.items() for own in held):
        return run
    return run.only([(name, *key) for name, held in kept.items() for key in held])


def measured(row: SummaryRow, card: Statistic) -> Quantity:
    """A statistic with its interval, for a sentence."""
    low, high = f"{row.low:.{card.digits}f}", f"{row.high:.{card.digits}f}"
    limits = "" if np.isnan(row.low) or low == high else f"({low} to {high})"
    text = f"{row.value:.{card.digits}f} {card.unit}".strip()
    return Quantity(text, Value.of(row), limits, row.statistic)


def best_answer(
    rows: Sequence[SummaryRow],
    names: Sequence[str],
    cards: Mapping[str, Statistic],
    detail: str = "",
) -> list[Block]:
    """The model with the best value of each statistic, in each protocol of the rows.

    >>> from types import SimpleNamespace
    >>> card = SimpleNamespace(title="AP", unit="%", digits=1, better="higher")
    >>> rows = [
    ...     SummaryRow(m, "mini", "", "corrected", "ap", v, v - 1, v + 1, 9)
    ...     for m, v in zip("ab", (1, 2))
    ... ]
    >>> best_answer(rows, ["ap"], {"ap": card})[0].text
    '**b** has the highest AP, 2.0 % (1.0 to 3.0), on mini.'
    """
    several = len({row.protocol for row in rows}) > 1
    compared = len({row.model for row in rows}) > 1
    said: Phrase = ()
    told = ""  # where the numbers before are from
    for name in names:
        for protocol in dict.fromkeys(row.protocol for row in rows):
            mine = [r for r in rows if (r.statistic, r.protocol) == (name, protocol)]
            if not mine:
                continue
            card = cards[name]
            best = (min if card.better == "lower" else max)(mine, key=lambda row: row.value)
            word = "lowest" if card.better == "lower" else "highest"
            has = f"has the {word} {card.title}" if compared else f"has a {card.title} of"
            place = f"{', ' if compared else ' '}on {', '.join(filter(None, best.key[1:3]))}"
            opening = f"{'; ' if said else ''}**{best.model}** {has}{',' if compared else ''} "
            ending = ("" if place == told else place) + (f" ({protocol})" if several else "")
            said, told = phrase(said, opening, measured(best, card), ending), place
    return [Answer(phrase(said, "."), detail)] if said else []


def percent(row: SummaryRow) -> Quantity:
    """A percentage with its interval, for a sentence."""
    limits = "" if np.isnan(row.low) else f"({row.low:.1f} to {row.high:.1f})"
    return Quantity(f"{row.value:.1f} %", Value.of(row), limits, row.statistic)


def lost_jobs(run: Results) -> list[Note]:
    """A warning with the first reason where jobs failed."""
    lost = run.sql("select dataset, scene, model, error from errors order by all").to_pylist()
    first = "".join(f"{row['dataset']}/{row['scene']}: {row['error']}" for row in lost[:1])
    return [Note(f"{len(lost)} jobs failed, the first: {first}", "warning")] if lost else []


def uneven(where: str, groups: Sequence[Group]) -> Note | None:
    """A warning where models were not scored on the same targets."""
    if len({frozenset(group.keys) for group in groups}) < 2:
        return None
    counts = ", ".join(f"{group.model} {len(group.keys)}" for group in groups)
    common = len(set.intersection(*(set(group.keys) for group in groups)))
    shown = f"the answer, its table and costs are of the {common} that all have; elsewhere "
    return Note(
        f"On {where} the models were not scored on the same objects ({counts}): "
        f"{shown if common else ''}their means are not comparable, their paired differences are.",
        "warning",
    )


def machines(run: Results) -> str:
    """On what the seconds were measured, and whether it was busy; empty if unknown."""
    named = {f"{m['processor']} with {m['cores']} cores" for m in _worked(run) if "processor" in m}
    devices = {t.get("device", "") for t in run.provenance.get("segmenters", {}).values()}
    on = [*sorted(named), *sorted(devices - {"", "auto", "cpu"})]
    if not on:
        return ""
    told = busy(run)
    return (
        f"Waiting was measured on {', '.join(on)}, together with everything else that ran there; "
        f"it differs on other machines.{f' It {told}.' if told else ''}"
    )


def busy(run: Results) -> str:
    """That waiting was measured on a busy machine, to follow "it"; empty if it was idle."""
    loaded = [m for m in _worked(run) if (m.get("load") or 0) > (m.get("cores") or 1)]
    if not loaded:
        return ""
    worst = max(loaded, key=lambda m: float(m["load"]))
    return (
        f"was measured on a busy machine (load {worst['load']:g} on {worst['cores']} cores when "
        "the run began) and is shorter on an idle one"
    )


def _worked(run: Results) -> list[dict[str, Any]]:
    """The machines of commands that had jobs to do."""
    entries = run.provenance.get("commands", [])
    return [entry.get("machine", {}) for entry in entries if entry.get("jobs_left", 1)]


Key = tuple[str, str]
"""Scene and target."""

NO_MASKS = Note("Masks were not kept in this run, so objects cannot be shown.", "warning")


@dataclass(frozen=True, slots=True)
class Case:
    """One target with its scene, whose image is available; `dataset` as the run names it."""

    dataset: str
    key: Key
    scene: Scene
    target: Target

    @property
    def title(self) -> str:
        return title(*self.key, self.target.label, several=len(self.scene.targets) > 1)

    def drawn(
        self,
        caption: str,
        alt: str = "",
        *,
        mask: Mask | None = None,
        name: str = "",
        pixels: npt.NDArray[np.uint8] | None = None,
        prompts: Sequence[Prompt] = (),
        link: str = "",
    ) -> Illustration:
        """The object's neighbourhood with its ground truth, and a mask of that name."""
        outlines = [Outline(self.target.mask, "ground_truth", "the ground truth")]
        outlines += [] if mask is None else [Outline(mask, "prediction", name)]
        shown = self.scene.pixels if pixels is None else pixels
        return Illustration(
            shown, caption, alt, outlines=outlines, prompts=prompts, close=True, link=link
        )

    def replay(
        self, key: str, said: str, frames: Sequence[Frame], goal: float | None, caption: str
    ) -> Replay:
        """A session on the object; `said` follows its title."""
        image = Illustration(self.scene.pixels, close=True)
        name = f"{self.title}, {said}"
        return Replay(key, name, image, frames, self.target.mask, goal, caption)


def title(scene: str, target: str, label: str = "", *, several: bool = False) -> str:
    """An object by name; its class says more than a number, and some names say nothing.

    `several` is whether the scene has other objects, from which a number tells it.

    >>> title("beach", "1"), title("beach", "dog"), title("beach", "7", "kite")
    ('beach', 'beach, dog', 'beach, kite (7)')
    """
    if label and target.isdecimal():
        return f"{scene}, {label} ({target})"
    plain = ("", scene, "object") if several else ("", scene, "0", "1", "object")
    return scene if target in plain else f"{scene}, {target}"


def case_at_hand(run: Results, dataset: str, key: Key) -> Case:
    """The case, its image read; NotFound or BadInput where it cannot be shown."""
    scene = run.scene(dataset, key[0])
    if scene.header.kind != "image":
        raise BadInput("they are volumes; 'segmeter run volumes' has a page to scroll through")
    target = next((t for t in scene.targets if t.id == key[1]), None)
    if target is None:
        raise NotFound("the dataset no longer holds the targets that were scored")
    scene.pixels  # noqa: B018  # read now: a missing image raises here
    return Case(dataset, key, scene, target)


def available_cases(run: Results, places: Iterable[tuple[str, Key]]) -> tuple[list[Case], str]:
    """Cases by dataset and key, or the reason why they cannot be shown."""
    try:
        return [case_at_hand(run, dataset, key) for dataset, key in places], ""
    except SegmeterError as error:
        return [], str(error)


def session_rows(run: Results, group: Group, key: Key, users: Collection[str]) -> list[Row]:
    """The rows of some users on one target in the group's reading, round by round."""
    scene, target = key
    job = (group.model, group.dataset, scene)
    return [
        row
        for row in once_per_run(run, f"rows of {job}", lambda: run.job_rows(*job))
        if (row["protocol"], row["target"]) == (group.protocol, target) and row["user"] in users
    ]


def frame_of(row: Row, shape: tuple[int, ...], note: str = "") -> Frame:
    """One round of a replay; BadInput where the mask is damaged."""
    named = {"IoU": row["iou"], "boundary": row.get("boundary_iou")}
    scores = {name: value for name, value in named.items() if value is not None}
    prompts = round_from_json(row["prompt"])
    seconds = row["seconds_predict"] if prompts else None
    return Frame(mask_of(row, shape), prompts, scores, seconds, note)


def session_frames(
    run: Results,
    group: Group,
    case: Case,
    users: Collection[str],
    note: Callable[[Row], str] = lambda row: "",
) -> list[Frame]:
    """The rounds of some users on a case; none where masks were not kept or are damaged."""
    rows = session_rows(run, group, case.key, users)
    if any(row["mask"] is None for row in rows):
        return []
    try:
        return [frame_of(row, case.scene.shape, note(row)) for row in rows]
    except BadInput:  # a run that was damaged or made up
        return []


_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Way:
    """A way to annotate objects: a person's work, waiting and drawing by hand, in seconds.

    `mean`, `waited` and `total` (both added) have intervals; the others are one per object.
    """

    name: str
    group: Group
    mean: Value
    waited: Value
    total: Value
    seconds: Floats
    waiting: Floats
    by_hand: Floats

    @property
    def spent(self) -> Floats:
        """Work and waiting of each object."""
        return self.seconds + self.waiting


def cost_section(
    tables: Mapping[str, Sequence[Way]],
    objects: int,
    rate: float | None,
    units: str,
    assumed: str,
    ranked: Mapping[str, str] | None = None,
    loaded: str = "",
) -> Section:
    """Hours, and money at a rate per hour, for so many objects, by what they are like.

    `assumed` states the goal, the price of drawing by hand and how waiting was measured,
    `ranked` which way another ranking of the report puts first, `loaded` that the machine was
    `busy`.
    """
    if objects < 1:
        raise BadInput(f"--objects is a number of objects, not {objects}")
    if rate is not None and not 0 <= rate < float("inf"):
        raise BadInput(f"--hourly-rate is money per hour, not {rate:g}")
    text = (
        "Annotators are paid while they wait for the model: order, money and savings include "
        "waiting. Numbers hold if all objects are like those measured; 95 % intervals are of the "
        f"mean over {units}. {assumed}"
    )
    columns = [Column("way"), Column("time", "hours", 1), Column("waiting", "hours", 1),
               Column("with waiting", "hours", 1)]  # fmt: skip
    if rate is not None:
        columns.append(Column("money", f"at {rate:g} per hour, same currency", 0))
    columns += [Column("saved", "% of drawing by hand", 0), Column("conclusion")]
    blocks: list[Block] = []
    for title, found in tables.items():
        ways = sorted(found, key=lambda way: float(way.spent.mean()))
        rows = [_cost_row(way, objects, rate) for way in ways]
        hand = float(ways[0].by_hand.mean()) * objects / _HOUR
        money: list[Cell] = [] if rate is None else [Value(hand * rate)]
        rows.append(["all by hand", Value(hand), Value(0.0), Value(hand), *money, None,
                     "baseline"])  # fmt: skip
        where = f" like those of {title}" if len(tables) > 1 else ""
        group = ways[0].group
        scenes = len(set(group.clusters))
        measured = f"{group.size} measured in {scenes} {units if scenes > 1 else units[:-1]}"
        caption = f"{objects} objects{where}; {measured}"
        advice = _advice(ways, objects, rate, loaded, (ranked or {}).get(title, ""))
        blocks += [
            Answer((f"On {title}: " if len(tables) > 1 else "") + advice),
            Table(f"project-{title}", columns, rows, caption),
        ]
    return Section(f"What {objects:,} objects cost".replace(",", " "), "", [*blocks, Note(text)])


def _advice(ways: Sequence[Way], objects: int, rate: float | None, loaded: str, ranked: str) -> str:
    """Which way takes least with waiting, how sure that is, and whether waiting decides it."""
    best, *others = ways
    factor, hand = objects / _HOUR, float(best.by_hand.mean())
    saved = _saved(best)
    against = f"{_spread(_times(best.total, factor), 1)} hours with waiting"
    told = [
        f"**{best.name}** takes {'the least time, ' if others else ''}{against}, against "
        f"{hand * factor:.1f} by hand: {_spread(saved, 0)} % saved"
    ]
    if rate is not None:
        money = _spread(_times(best.total, factor * rate), 0)
        told.append(f"at {rate:g} per hour that is {money}, against {hand * factor * rate:.0f}")
    if others and others[0].group.keys == best.group.keys:
        gap = difference(others[0].spent, best.spent, best.group.clusters, seed=best.group.dataset)
        sure = _untested(best) or f"{'' if gap.p < 0.05 else 'not '}significant"
        more = _spread(_times(_known(best, gap.interval), factor), 1)
        told.append(f"the next, **{others[0].name}**, takes {more} hours more ({sure})")
    working = min(ways, key=lambda way: float(way.seconds.mean()))
    mine, theirs = (float(way.seconds.mean()) * factor for way in (best, working))
    if round(mine - theirs, 1) > 0:
        told.append(f"without waiting **{working.name}** would, {theirs:.1f} against {mine:.1f}")
        if loaded:
            told.append(f"waiting {loaded}, so measure it on an idle machine before you choose")
    return "; ".join(filter(None, (*told, ranked))) + "."


def _untested(way: Way) -> str:
    return too_few(len(set(way.group.clusters)), way.group.unit)


def _known(way: Way, found: Interval) -> Value:
    """A difference to the way, without limits where the way itself has none."""
    sure = way.total.low is not None and not np.isnan(way.total.low)
    return Value.of(found) if sure else Value(found.value)


def _spread(value: Value, digits: int) -> str:
    """A number with its interval in brackets, where it has one."""
    if value.value is None:
        return "–"
    text = f"{value.value:.{digits}f}"
    low, high = (f"{end:.{digits}f}" if end is not None else "" for end in (value.low, value.high))
    return text if low == high or "nan" in low else f"{text} ({low} to {high})"


def _saved(way: Way) -> Value:
    """Percent of drawing by hand that is saved, waiting counted; no limits for one image."""
    hand = float(way.by_hand.mean())
    if not hand:
        return Value(None)
    group = way.group
    gap = difference(way.spent, way.by_hand, group.clusters, seed=group.dataset).interval
    return _times(_known(way, Interval(-gap.value, -gap.high, -gap.low)), 100 / hand)


def _cost_row(way: Way, objects: int, rate: float | None) -> list[Cell]:
    factor, group = objects / _HOUR, way.group
    paired = difference(way.spent, way.by_hand, group.clusters, seed=group.dataset)
    money: list[Cell] = [] if rate is None else [_times(way.total, factor * rate)]
    hours = [_times(value, factor) for value in (way.mean, way.waited, way.total)]
    conclusion = _untested(way) or _pays(paired.interval.value, paired.p)
    return [way.name, *hours, *money, _saved(way), conclusion]


def _pays(gap: float, p: float) -> str:
    if p >= 0.05:
        return "no significant difference"
    return f"{'cheaper' if gap < 0 else 'more expensive'} than by hand"


def _times(value: Value, factor: float) -> Value:
    def times(part: float | None) -> float | None:
        return None if part is None else part * factor

    return Value(times(value.value), times(value.low), times(value.high))


def volume_slices(
    scene: Volume,
    key: str,
    title: str,
    frames: Sequence[Frame] = (),
    ground_truth: Mask | None = None,
    caption: str = "",
) -> Slices:
    """A volume to scroll through: voxels as codes of a wide range, modality and window named."""
    shown = prepared(scene, "sam", "corrected")
    low, high = shown.range
    ct = shown.modality.startswith("CT")
    ends = (min(low, float(scene.voxels.min())), max(high, float(scene.voxels.max())))
    greys = Greys((ends[0], low, high, ends[1]), "HU" if ct else "", WINDOWS if ct else {})
    modality = shown.modality or "Unknown modality"
    return Slices(
        key,
        title,
        np.stack([greys.codes(plane) for plane in scene.voxels]),
        frames,
        ground_truth,
        f"{caption} {modality}, shown to networks from {low:g} to {high:g}.",
        header=scene.header,
        greys=greys,
        numbers=scene.slice_numbers if isinstance(scene, KnowsItsScan) else SCENE_NUMBERS,
    )
