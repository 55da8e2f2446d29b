"""What the report says about a click benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from segmeter.benchmarks.grouping import cost_of, resampling, uneven
from segmeter.benchmarks.noc.answer import answer
from segmeter.benchmarks.noc.cases import cases_of, hardest, replays
from segmeter.benchmarks.noc.comparison import Comparison, comparison_of, comparisons
from segmeter.benchmarks.noc.leaderboard import comparison_table, leaderboard
from segmeter.benchmarks.noc.statistics import (
    ROUNDS,
    ClickSessions,
    better_of,
    differences_of,
    groups,
    targets_of,
)
from segmeter.benchmarks.round_charts import QUALITY, curve_with_band, rounds_axis
from segmeter.core.benchmarks import Results
from segmeter.core.sections import (
    Axis,
    Bars,
    Block,
    Cell,
    Chart,
    Column,
    Label,
    Line,
    Multiples,
    Note,
    Part,
    Section,
    Table,
)
from segmeter.stats.effort import CostModel
from segmeter.stats.goals import Goals
from segmeter.stats.intervals import Floats
from segmeter.stats.rounds import first_round, success

__all__ = ["sections"]


def sections(run: Results) -> list[Section]:
    """All sections, in reading order."""
    found = groups(run, cost_of(run))
    made = comparisons(run, found)
    return [
        _which_costs_least(made),
        _growth(made),
        *_differences(made),
        _numbers(found, made),
        _time(made, run),
        *_cases(run, made),
    ]


def _which_costs_least(comparisons: Sequence[Comparison]) -> Section:
    blocks: list[Block | None] = []
    for comparison in comparisons:
        blocks += [
            answer(comparison, len(comparisons) > 1),
            leaderboard(comparison, f"leaderboard-{_stem(comparison)}"),
            uneven(comparison.title, comparison.groups),
        ]
    return Section("Which model costs least", blocks=[b for b in blocks if b is not None])


def _differences(comparisons: Sequence[Comparison]) -> list[Section]:
    """The conclusions, where there are models to compare."""
    tables = [comparison_table(c, f"differences-{_stem(c)}") for c in comparisons]
    blocks: list[Block] = [table for table in tables if table is not None]
    text = (
        "Every model against the one that is ahead, on the same objects. A difference is "
        "significant where its p value, corrected for the number of comparisons, is below 5 %."
    )
    return [Section("Significant differences (Holm-corrected)", text, blocks)] if blocks else []


def _growth(comparisons: Sequence[Comparison]) -> Section:
    """Quality over the rounds, and how many objects are done by then."""
    text = (
        "Left to right, a person keeps correcting. Bands are 95 % intervals from resampling "
        "images; point at a round, or walk along it with the arrow keys, to read it off."
    )
    quality = [_quality_chart(c, len(comparisons) > 1) for c in comparisons]
    done = [_success_chart(c, len(comparisons) > 1) for c in comparisons]
    if len(comparisons) == 1:
        return Section("Quality, click by click", text, [Multiples([*quality, *done])])
    return Section("Quality, click by click", text, [Multiples(quality), Multiples(done)])


def _quality_chart(comparison: Comparison, many: bool) -> Chart:
    title = "Mean IoU after each round" + (f": {comparison.title}" if many else "")
    lines = [_line(g, g.iou) for g in comparison.groups]
    return Chart(title, _rounds_axis(comparison), QUALITY, lines)


def _success_chart(comparison: Comparison, many: bool) -> Chart:
    goal = comparison.goals.lead
    title = f"Objects that have reached {goal.text}" + (f": {comparison.title}" if many else "")
    lines = [_line(g, success(*g.towards(goal))) for g in comparison.groups]
    axis = Axis("share of objects, %", low=0.0, high=1.0, percent=True)
    return Chart(title, _rounds_axis(comparison), axis, lines)


def _line(group: ClickSessions, values: Floats) -> Line:
    return curve_with_band(group.model, _held(values), resampling(group))


def _held(values: Floats) -> Floats:
    """Curves in which a session that was stopped early stays at its last quality."""
    last = np.maximum.accumulate(
        np.where(np.isnan(values), 0, np.arange(values.shape[1])[None, :]), axis=1
    )
    return np.asarray(np.take_along_axis(values, last, axis=1))


def _rounds_axis(comparison: Comparison) -> Axis:
    return rounds_axis(max(group.rounds for group in comparison.groups))


def _numbers(found: Sequence[ClickSessions], comparisons: Sequence[Comparison]) -> Section:
    """What papers print, in every protocol that was played."""
    blocks: list[Block] = []
    for comparison in comparisons:
        protocols = _in_every_protocol(comparison, found)
        stem = _stem(comparison)
        tables = (
            ("clicks", _click_columns(comparison.goals), "clicks to quality and failures"),
            ("quality", _quality_columns(comparison.groups[0]), "quality"),
        )
        blocks += [
            _paper_table(protocols, f"{name}-{stem}", columns, f"{comparison.title}: {what}")
            for name, columns, what in tables
        ]
    text = (
        "NoC@q is the mean number of rounds until IoU first reaches q %; a failure counts as "
        "all rounds. NoF@q counts failures: **published** also calls a success at the very "
        "last round one, **corrected** only what never gets there. AuC is the area under IoU over "
        "the rounds. The two protocols also differ in the clicks themselves: **published** "
        "keeps clicking at the corner when nothing is wrong, and drops the mask fed back when "
        "the second click is negative; **corrected** does neither. Strong: better than every other "
        "model, and significantly so."
    )
    return Section("The numbers papers print", text, blocks)


def _in_every_protocol(comparison: Comparison, found: Sequence[ClickSessions]) -> list[Comparison]:
    """The same comparison in every protocol that was played."""
    lead = comparison.groups[0]
    played: dict[str, list[ClickSessions]] = {}
    for group in found:
        if (group.dataset, group.user) == (lead.dataset, lead.user):
            played.setdefault(group.protocol, []).append(group)
    return [
        comparison
        if protocol == lead.protocol
        else comparison_of(comparison.title, members, comparison.cost, comparison.goals)
        for protocol, members in played.items()
    ]


def _click_columns(goals: Goals) -> dict[str, Column]:
    return {
        **{f"noc@{g.tag}": Column(f"NoC@{g.tag}", "clicks", 2, better="lower") for g in goals.all},
        **{
            f"nof@{g.tag}": Column(f"NoF@{g.tag}", "objects", 0, better="lower")
            for g in goals.all
            if g.tag != "80"
        },
    }


def _quality_columns(group: ClickSessions) -> dict[str, Column]:
    """IoU, Boundary IoU, and every further measure that was taken or scored later."""
    columns = {
        "auc": Column("IoU AuC", "%", 2, better="higher"),
        **{f"iou@{k}": Column(f"IoU@{k}", "%", 1, better="higher") for k in (1, 2, 3, 5, 10, 20)},
        "boundary-auc": Column("Boundary IoU AuC", "%", 2, better="higher"),
    }
    last = max(k for k in ROUNDS if k <= group.rounds)
    for name in group.others:
        if name != "boundary-iou":
            direction = better_of(f"{name}@1")
            columns[f"{name}-auc"] = Column(f"{name} AuC", "", 2, better=direction)
            for k in sorted({1, last}):
                columns[f"{name}@{k}"] = Column(f"{name}@{k}", "", 2, better=direction)
    return columns


def _paper_table(
    protocols: Sequence[Comparison], name: str, columns: dict[str, Column], caption: str
) -> Table:
    """Models down, statistics across; the best is marked where it is significantly better."""
    told = {m for c in protocols for _, m in c.rows}
    shown = [m for m in columns if m in told]
    rows: list[list[Cell]] = []
    for comparison in protocols:
        tested = replace(
            comparison,
            differences=differences_of(
                comparison.groups, comparison.cost, comparison.goals, _testable(comparison, shown)
            ),
        )
        rows += [
            [
                Label(model, protocol=comparison.protocol),
                *(replace(tested.value(model, m), best=tested.stands_out(model, m)) for m in shown),
            ]
            for model in comparison.models
        ]
    objects, rounds = len(protocols[0].groups[0].keys), protocols[0].groups[0].rounds
    table_caption = f"{caption}; {objects} objects, {rounds} rounds"
    return Table(name, [Column("model"), *(columns[m] for m in shown)], rows, table_caption)


def _testable(comparison: Comparison, measures: Sequence[str]) -> list[str]:
    """Statistics that every target of every model has a value for."""
    return [
        m
        for m in measures
        if all((g.model, m) in comparison.rows for g in comparison.groups)
        and not any(np.isnan(targets_of(g, m)).any() for g in comparison.groups)
    ]


def _time(comparisons: Sequence[Comparison], run: Results) -> Section:
    """Where a person's seconds go until an object is done, and how long machines let wait."""
    blocks: list[Block] = []
    for comparison in comparisons:
        parts = [_parts(g, comparison) for g in comparison.groups]
        used = [n for n in parts[0] if any(p[n] > 0 for p in parts)]
        blocks.append(
            Bars(
                f"A person's seconds per object until {comparison.goals.lead.text}: "
                f"{comparison.title}",
                Axis("seconds per object", low=0.0, digits=1),
                comparison.models,
                [Part(n, [p[n] for p in parts]) for n in used],
            )
        )
    blocks += [_latency_table(comparisons, _devices(run)), Note(_cost_note(comparisons[0].cost))]
    return Section("Where the time goes", _machines(run), blocks)


def _devices(run: Results) -> dict[str, str]:
    """The device each model answered on."""
    trails = run.provenance.get("segmenters", {})
    return {model: str(trail.get("device", "")) for model, trail in trails.items()}


def _machines(run: Results) -> str:
    """On what the seconds were measured: other machines answer at other speeds."""
    known = [entry.get("machine", {}) for entry in run.provenance.get("commands", [])]
    named = {f"{m['processor']} with {m['cores']} cores" for m in known if "processor" in m}
    devices = {t.get("device", "") for t in run.provenance.get("segmenters", {}).values()}
    on = [*sorted(named), *sorted(devices - {"", "auto", "cpu"})]
    if not on:
        return ""
    return (
        f"Waiting was measured on {', '.join(on)}, with whatever else ran there at the time; "
        "another machine waits longer or shorter. It is in no comparison."
    )


def _parts(group: ClickSessions, comparison: Comparison) -> dict[str, float]:
    """A person's mean seconds of each part until the goal, or until the rounds are over."""
    cost = comparison.cost
    first = first_round(*group.towards(comparison.goals.lead))
    last = np.where(first == 0, group.rounds, first)
    played = np.arange(1, group.rounds + 1) <= last[:, None]
    drawn = np.where(first == 0, cost.drawing(group.outline_px), 0.0)
    return {
        "finding the object" + (" and reviewing it" if cost.review else ""): cost.per_object,
        "giving prompts": float((group.spoken * played).sum(axis=1).mean()),
        "drawing by hand": float(drawn.mean()),
    }


def _latency_table(comparisons: Sequence[Comparison], devices: Mapping[str, str]) -> Table:
    Told = Callable[[tuple[Comparison, str]], Cell]

    def seconds(measure: str) -> Told:
        return lambda r: r[0].value(r[1], measure)

    columns: dict[Column, Told] = {
        Column("model"): lambda r: r[1],
        Column("data"): lambda r: r[0].title,
        Column("device"): lambda r: devices.get(r[1], ""),
        Column("waiting", "s per object, to the goal", 2): lambda r: r[0].value(r[1], r[0].waiting),
        Column("encode", "s, an object's share", 2): seconds("seconds-encode"),
        Column("predict", "s per round", 3): seconds("seconds-predict"),
        Column("simulated user", "s per round", 4): seconds("seconds-user"),
    }
    return Table.of(
        "latency",
        [(comparison, model) for comparison in comparisons for model in comparison.models],
        columns,
        "Measured seconds of machines",
        "A look is the model's median "
        "over scenes, shared by a scene's objects. Answers are shares of batched "
        "calls. The simulated user's own computing is no part of anybody's time.",
    )


def _cost_note(cost: CostModel) -> str:
    review = f", {cost.review:g} s to review it" if cost.review else ""
    length = f" and {cost.by_hand_px:g} s per pixel of its outline" if cost.by_hand_px else ""
    return (
        f"Cost model: {cost.locate:g} s to find the object{review}, {cost.click:g} s per click, "
        f"{cost.box:g} s per box, {cost.scribble:g} s per stroke; what never reaches the goal is "
        f"drawn by hand in {cost.by_hand:g} s{length}. Sources of these seconds stand in the "
        "documentation; `--cost FILE` sets your own."
    )


def _cases(run: Results, comparisons: Sequence[Comparison]) -> list[Section]:
    """Hardest objects and replays, of each data set."""
    galleries: list[Block] = []
    sessions: list[Block] = []
    for comparison in comparisons:
        cases, why = cases_of(run, comparison)
        if why:
            galleries.append(
                Note(f"Images of {comparison.title} cannot be shown: {why}", "warning")
            )
            continue
        if len(comparisons) > 1:
            galleries.append(Note(f"**{comparison.title}**"))
        galleries.append(hardest(run, comparison, cases))
        sessions += replays(run, comparison, cases)
    text = "Objects that cost most clicks over all models, and the clicks to the goal of each."
    made = [Section("The hardest objects", text, galleries)]
    if sessions:
        text = (
            "Choose a session; step through it with the buttons, the slider or the arrow keys. "
            "The hardest objects come first, then one of middling cost and the one on which "
            "the models differ most."
        )
        made.append(Section("Click by click", text, sessions))
    return made


def _stem(comparison: Comparison) -> str:
    return "-".join(comparison.title.replace(",", "").split())
