"""What the report says about a click benchmark."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from segmeter.benchmarks.noc.cases import cases_of, hardest, replays
from segmeter.benchmarks.noc.leaderboard import (
    Comparison,
    answer,
    comparison_table,
    leaderboard,
    uneven,
)
from segmeter.benchmarks.noc.statistics import (
    Group,
    cost_of,
    differences_of,
    groups,
    rows_of,
    targets_of,
)
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
    Value,
)
from segmeter.stats.effort import CostModel
from segmeter.stats.intervals import Floats, Resampling
from segmeter.stats.rounds import first_round, success

__all__ = ["sections"]


def sections(run: Results) -> list[Section]:
    """All sections, in reading order."""
    cost = cost_of(run)
    found = groups(run, cost)
    lead = "sound" if "sound" in run.plan.readings else run.plan.readings[0]
    comparisons = _comparisons(found, lead, cost)
    return [
        _which_costs_least(comparisons),
        _growth(comparisons),
        *_differences(comparisons),
        _numbers(found, comparisons, cost),
        _time(comparisons, _machines(run)),
        *_cases(run, comparisons),
    ]


def _comparisons(found: Sequence[Group], reading: str, cost: CostModel) -> list[Comparison]:
    """One comparison a data set and user, the cheapest model first in each."""
    places: dict[tuple[str, str], list[Group]] = {}
    for group in found:
        if group.key[3] == reading:
            places.setdefault((group.key[1], group.key[2]), []).append(group)
    one_user = len({user for _, user in places}) == 1
    comparisons = []
    for (dataset, user), members in places.items():
        members.sort(key=lambda g: float(targets_of(g, "seconds-to-90", cost).mean()))
        rows = {(r.model, r.measure): r for g in members for r in rows_of(g, cost)}
        title = dataset if one_user else f"{dataset}, {user}"
        comparisons.append(Comparison(title, members, rows, differences_of(members, cost), cost))
    return comparisons


def _which_costs_least(comparisons: Sequence[Comparison]) -> Section:
    blocks: list[Block | None] = []
    for comparison in comparisons:
        blocks += [
            answer(comparison, len(comparisons) > 1),
            leaderboard(comparison, f"leaderboard-{_stem(comparison)}"),
            uneven(comparison),
        ]
    return Section("Which model costs least", blocks=[b for b in blocks if b is not None])


def _differences(comparisons: Sequence[Comparison]) -> list[Section]:
    """The conclusions, where there are models to compare."""
    tables = [comparison_table(c, f"differences-{_stem(c)}") for c in comparisons]
    blocks: list[Block] = [table for table in tables if table is not None]
    return [Section("What is established", blocks=blocks)] if blocks else []


def _growth(comparisons: Sequence[Comparison]) -> Section:
    """Quality over the rounds, and how many objects are done by then."""
    text = (
        "Left to right, a person keeps correcting. Bands are 95 % intervals from resampling "
        "photographs; point at a round, or walk along it with the arrow keys, to read it off."
    )
    quality = [_quality_chart(c, len(comparisons) > 1) for c in comparisons]
    done = [_success_chart(c, len(comparisons) > 1) for c in comparisons]
    if len(comparisons) == 1:
        return Section("Quality, click by click", text, [Multiples([*quality, *done])])
    return Section("Quality, click by click", text, [Multiples(quality), Multiples(done)])


def _quality_chart(comparison: Comparison, many: bool) -> Chart:
    title = "Mean IoU after each round" + (f": {comparison.title}" if many else "")
    lines = [_line(g, g.iou.values) for g in comparison.groups]
    return Chart(title, _rounds_axis(comparison), Axis("IoU, %", high=1.0, percent=True), lines)


def _success_chart(comparison: Comparison, many: bool) -> Chart:
    title = "Objects that have reached 90 % IoU" + (f": {comparison.title}" if many else "")
    lines = [_line(g, success(g.iou.values, 0.9)) for g in comparison.groups]
    axis = Axis("share of objects, %", low=0.0, high=1.0, percent=True)
    return Chart(title, _rounds_axis(comparison), axis, lines)


def _line(group: Group, values: Floats) -> Line:
    drawn = Resampling(group.iou.clusters, seed=group.key[1])
    low, high = drawn.limits(values)
    known = not np.isnan(low).any()
    rounds = np.arange(1, values.shape[1] + 1)
    return Line(
        group.key[0], rounds, values.mean(axis=0), low if known else None, high if known else None
    )


def _rounds_axis(comparison: Comparison) -> Axis:
    rounds = max(g.iou.values.shape[1] for g in comparison.groups)
    wanted = [1, *range(5, rounds - 1, 5), rounds] if rounds > 6 else range(1, rounds + 1)
    return Axis("round", low=1 if rounds > 1 else None, high=rounds, ticks=list(wanted), digits=0)


def _numbers(found: Sequence[Group], comparisons: Sequence[Comparison], cost: CostModel) -> Section:
    """What papers print, in every reading that was played."""
    blocks: list[Block] = []
    for comparison in comparisons:
        place = comparison.groups[0].key[1:3]
        members = [g for g in found if g.key[1:3] == place]
        members.sort(key=lambda g: (comparison.models.index(g.key[0]), g.key[3]))
        blocks += [
            _paper_table(
                members,
                cost,
                f"clicks-{_stem(comparison)}",
                _CLICK_COLUMNS,
                f"{comparison.title}: clicks to quality and failures",
            ),
            _paper_table(
                members,
                cost,
                f"quality-{_stem(comparison)}",
                _QUALITY_COLUMNS,
                f"{comparison.title}: quality",
            ),
        ]
    text = (
        "NoC@q is the mean number of rounds until IoU first reaches q %; a failure counts as "
        "all rounds. NoF@q counts failures: **published** also calls a success at the very "
        "last round one, **sound** only what never gets there. AuC is the area under IoU over "
        "the rounds. The two readings also differ in the clicks themselves: **published** "
        "keeps clicking at the corner when nothing is wrong, and drops the mask fed back when "
        "the second click is negative; **sound** does neither."
    )
    return Section("The numbers papers print", text, blocks)


_CLICK_COLUMNS = {
    **{f"noc@{q}": Column(f"NoC@{q}", "clicks", 2, better="lower") for q in (80, 85, 90, 95)},
    **{f"nof@{q}": Column(f"NoF@{q}", "objects", 0, better="lower") for q in (85, 90, 95)},
}
_QUALITY_COLUMNS = {
    "auc": Column("IoU AuC", "%", 2, better="higher"),
    **{f"iou@{k}": Column(f"IoU@{k}", "%", 1, better="higher") for k in (1, 2, 3, 5, 10, 20)},
    "boundary-auc": Column("Boundary IoU AuC", "%", 2, better="higher"),
}


def _paper_table(
    members: Sequence[Group], cost: CostModel, name: str, columns: dict[str, Column], caption: str
) -> Table:
    rows, known = [], set()
    for group in members:
        values = {r.measure: r for r in rows_of(group, cost)}
        known |= values.keys() & columns.keys()
        rows.append((group, values))
    shown = [m for m in columns if m in known]
    return Table(
        name,
        [Column("model"), *(columns[m] for m in shown)],
        [
            [
                Label(group.key[0], reading=group.key[3]),
                *(
                    Value(values[m].value, values[m].low, values[m].high)
                    if m in values
                    else Value(None)
                    for m in shown
                ),
            ]
            for group, values in rows
        ],
        caption,
    )


def _time(comparisons: Sequence[Comparison], machines: str) -> Section:
    """Where the seconds go until an object is done."""
    blocks: list[Block] = []
    for comparison in comparisons:
        parts = [_parts(g, comparison.cost) for g in comparison.groups]
        names = list(parts[0])
        used = [n for n in names if any(p[n] > 0 for p in parts)]
        blocks.append(
            Bars(
                f"Seconds an object until 90 % IoU: {comparison.title}",
                Axis("seconds", low=0.0, digits=1),
                comparison.models,
                [Part(n, [p[n] for p in parts]) for n in used],
            )
        )
    blocks += [_latency_table(comparisons), Note(_cost_note(comparisons[0].cost))]
    return Section("Where the time goes", machines, blocks)


def _machines(run: Results) -> str:
    """On what the seconds were measured: other machines answer at other speeds."""
    known = [entry.get("machine", {}) for entry in run.provenance.get("commands", [])]
    named = {f"{m['processor']} with {m['cores']} cores" for m in known if "processor" in m}
    devices = {t.get("device", "") for t in run.provenance.get("subjects", {}).values()}
    on = [*sorted(named), *sorted(devices - {"", "auto", "cpu"})]
    if not on:
        return ""
    return f"Waiting was measured on {', '.join(on)}; another machine waits longer or shorter."


def _parts(group: Group, cost: CostModel) -> dict[str, float]:
    """Mean seconds of each part until the goal, or until the rounds are over."""
    first = first_round(group.iou.values, 0.9)
    last = np.where(first == 0, group.iou.values.shape[1], first)
    played = np.arange(1, group.iou.values.shape[1] + 1) <= last[:, None]
    wait = 1.0 if cost.wait else 0.0
    return {
        "finding the object": cost.locate,
        "giving prompts": float((group.spoken * played).sum(axis=1).mean()),
        "waiting for the look": wait * float(group.look.mean()),
        "waiting for answers": wait * float((group.answer * played).sum(axis=1).mean()),
        "drawing by hand": cost.by_hand * float((first == 0).mean()),
    }


def _latency_table(comparisons: Sequence[Comparison]) -> Table:
    rows: list[list[Cell]] = [
        [
            model,
            comparison.title,
            comparison.value(model, "seconds-look"),
            comparison.value(model, "seconds-answer"),
            comparison.value(model, "seconds-user"),
        ]
        for comparison in comparisons
        for model in comparison.models
    ]
    columns = [
        Column("model"),
        Column("data"),
        Column("look", "s, an object's share", 2, better="lower"),
        Column("answer", "s a round", 3, better="lower"),
        Column("simulated user", "s a round", 4),
    ]
    return Table(
        "latency",
        columns,
        rows,
        "Measured seconds",
        "A look is the model's median "
        "over scenes, shared by a scene's objects. Answers are shares of batched "
        "calls. The simulated user's own computing is no part of the cost.",
    )


def _cost_note(cost: CostModel) -> str:
    hand = f", {cost.by_hand:g} s by hand for what is never reached" if cost.by_hand else ""
    waits = "measured waiting added" if cost.wait else "waiting left out"
    return (
        f"Cost model: {cost.locate:g} s to find the object, {cost.click:g} s a click, "
        f"{cost.box:g} s a box, {cost.scribble:g} s a stroke, {waits}{hand}. Sources of these "
        "seconds stand in the documentation; `--cost FILE` sets your own."
    )


def _cases(run: Results, comparisons: Sequence[Comparison]) -> list[Section]:
    """Hardest objects and replays, of each data set."""
    galleries: list[Block] = []
    sessions: list[Block] = []
    for comparison in comparisons:
        cases, why = cases_of(run, comparison)
        if why:
            galleries.append(
                Note(f"Pictures of {comparison.title} cannot be shown: {why}", "warning")
            )
            continue
        if len(comparisons) > 1:
            galleries.append(Note(f"**{comparison.title}**"))
        galleries.append(hardest(run, comparison, cases))
        sessions += replays(run, comparison, cases)
    text = "Objects that cost most clicks over all models, and the clicks to 90 % IoU of each."
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
