"""What the report says about a click benchmark."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from segmeter.benchmarks.noc.cases import cases_of, hardest, replays
from segmeter.benchmarks.noc.leaderboard import (
    Contest,
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
    contests = _contests(found, lead, cost)
    return [
        _which_costs_least(contests),
        _growth(contests),
        *_differences(contests),
        _numbers(found, contests, cost),
        _time(contests, _machines(run)),
        *_cases(run, contests),
    ]


def _contests(found: Sequence[Group], reading: str, cost: CostModel) -> list[Contest]:
    """One contest a data set and user, the cheapest model first in each."""
    places: dict[tuple[str, str], list[Group]] = {}
    for group in found:
        if group.key[3] == reading:
            places.setdefault((group.key[1], group.key[2]), []).append(group)
    one_user = len({user for _, user in places}) == 1
    contests = []
    for (dataset, user), members in places.items():
        members.sort(key=lambda g: float(targets_of(g, "seconds-to-90", cost).mean()))
        rows = {(r.model, r.measure): r for g in members for r in rows_of(g, cost)}
        title = dataset if one_user else f"{dataset}, {user}"
        contests.append(Contest(title, members, rows, differences_of(members, cost), cost))
    return contests


def _which_costs_least(contests: Sequence[Contest]) -> Section:
    blocks: list[Block | None] = []
    for contest in contests:
        blocks += [
            answer(contest, len(contests) > 1),
            leaderboard(contest, f"leaderboard-{_stem(contest)}"),
            uneven(contest),
        ]
    return Section("Which model costs least", blocks=[b for b in blocks if b is not None])


def _differences(contests: Sequence[Contest]) -> list[Section]:
    """The verdicts, where there are models to compare."""
    tables = [comparison_table(c, f"differences-{_stem(c)}") for c in contests]
    blocks: list[Block] = [table for table in tables if table is not None]
    return [Section("What is established", blocks=blocks)] if blocks else []


def _growth(contests: Sequence[Contest]) -> Section:
    """Quality over the rounds, and how many objects are done by then."""
    text = (
        "Left to right, a person keeps correcting. Bands are 95 % intervals from resampling "
        "photographs; point at a round, or walk along it with the arrow keys, to read it off."
    )
    quality = [_quality_chart(c, len(contests) > 1) for c in contests]
    done = [_success_chart(c, len(contests) > 1) for c in contests]
    if len(contests) == 1:
        return Section("Quality, click by click", text, [Multiples([*quality, *done])])
    return Section("Quality, click by click", text, [Multiples(quality), Multiples(done)])


def _quality_chart(contest: Contest, many: bool) -> Chart:
    title = "Mean IoU after each round" + (f": {contest.title}" if many else "")
    lines = [_line(g, g.iou.values) for g in contest.groups]
    return Chart(title, _rounds_axis(contest), Axis("IoU, %", high=1.0, percent=True), lines)


def _success_chart(contest: Contest, many: bool) -> Chart:
    title = "Objects that have reached 90 % IoU" + (f": {contest.title}" if many else "")
    lines = [_line(g, success(g.iou.values, 0.9)) for g in contest.groups]
    axis = Axis("share of objects, %", low=0.0, high=1.0, percent=True)
    return Chart(title, _rounds_axis(contest), axis, lines)


def _line(group: Group, values: Floats) -> Line:
    drawn = Resampling(group.iou.clusters, seed=group.key[1])
    low, high = drawn.limits(values)
    known = not np.isnan(low).any()
    rounds = np.arange(1, values.shape[1] + 1)
    return Line(
        group.key[0], rounds, values.mean(axis=0), low if known else None, high if known else None
    )


def _rounds_axis(contest: Contest) -> Axis:
    rounds = max(g.iou.values.shape[1] for g in contest.groups)
    wanted = [1, *range(5, rounds - 1, 5), rounds] if rounds > 6 else range(1, rounds + 1)
    return Axis("round", low=1 if rounds > 1 else None, high=rounds, ticks=list(wanted), digits=0)


def _numbers(found: Sequence[Group], contests: Sequence[Contest], cost: CostModel) -> Section:
    """What papers print, in every reading that was played."""
    blocks: list[Block] = []
    for contest in contests:
        place = contest.groups[0].key[1:3]
        members = [g for g in found if g.key[1:3] == place]
        members.sort(key=lambda g: (contest.models.index(g.key[0]), g.key[3]))
        blocks += [
            _paper_table(
                members,
                cost,
                f"clicks-{_stem(contest)}",
                _CLICK_COLUMNS,
                f"{contest.title}: clicks to quality and failures",
            ),
            _paper_table(
                members,
                cost,
                f"quality-{_stem(contest)}",
                _QUALITY_COLUMNS,
                f"{contest.title}: quality",
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


def _time(contests: Sequence[Contest], machines: str) -> Section:
    """Where the seconds go until an object is done."""
    blocks: list[Block] = []
    for contest in contests:
        parts = [_parts(g, contest.cost) for g in contest.groups]
        names = list(parts[0])
        used = [n for n in names if any(p[n] > 0 for p in parts)]
        blocks.append(
            Bars(
                f"Seconds an object until 90 % IoU: {contest.title}",
                Axis("seconds", low=0.0, digits=1),
                contest.models,
                [Part(n, [p[n] for p in parts]) for n in used],
            )
        )
    blocks += [_latency_table(contests), Note(_cost_note(contests[0].cost))]
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


def _latency_table(contests: Sequence[Contest]) -> Table:
    rows: list[list[Cell]] = [
        [
            model,
            contest.title,
            contest.value(model, "seconds-look"),
            contest.value(model, "seconds-answer"),
            contest.value(model, "seconds-user"),
        ]
        for contest in contests
        for model in contest.models
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


def _cases(run: Results, contests: Sequence[Contest]) -> list[Section]:
    """Hardest objects and replays, of each data set."""
    galleries: list[Block] = []
    sessions: list[Block] = []
    for contest in contests:
        cases, why = cases_of(run, contest)
        if why:
            galleries.append(Note(f"Pictures of {contest.title} cannot be shown: {why}", "warning"))
            continue
        if len(contests) > 1:
            galleries.append(Note(f"**{contest.title}**"))
        galleries.append(hardest(run, contest, cases))
        sessions += replays(run, contest, cases)
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


def _stem(contest: Contest) -> str:
    return "-".join(contest.title.replace(",", "").split())
