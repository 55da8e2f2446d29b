"""Report sections of the click benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from segmeter.benchmarks.noc import Noc
from segmeter.benchmarks.noc.answer import answer
from segmeter.benchmarks.noc.cases import cases_of, hardest, replays
from segmeter.benchmarks.noc.comparison import (
    Comparison,
    common,
    comparison_table,
    comparisons,
    comparisons_in,
    leaderboard,
)
from segmeter.benchmarks.noc.statistics import (
    ROUNDS,
    ClickSessions,
    area,
    by_clicks_until,
    clicks_that_pay,
    clicks_to,
    failures_at,
    quality_after,
    seconds_until,
    with_touch_up,
)
from segmeter.benchmarks.report_parts import (
    QUALITY,
    column_of,
    curve_with_band,
    machines,
    rounds_axis,
    summary_table,
    uneven,
)
from segmeter.benchmarks.response_section import response_sections
from segmeter.benchmarks.starts import start_sections
from segmeter.core.benchmarks import Results
from segmeter.core.sections import (
    Axis,
    Bars,
    Block,
    Cell,
    Chart,
    Column,
    Line,
    Multiples,
    Note,
    Part,
    Section,
    Table,
    Value,
)
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.goals import Goal, Goals, success
from segmeter.stats.intervals import Floats, share_interval
from segmeter.stats.statistics import Statistic, percentiles, resampling


def sections(run: Results) -> list[Section]:
    """All sections, in reading order."""
    made = comparisons(run)
    goal = made[0].goals.lead
    return [
        _which_costs_least(comparisons(common(run)), made),
        _growth(made),
        *_differences(made),
        _numbers(run, made),
        *start_sections(
            run,
            [(g, g.start) for c in made for g in c.groups],
            [clicks_to(goal), seconds_until(goal)],
            goal.value if goal.measure == "iou" else 1.0,
        ),
        *response_sections(run, Noc()),
        _time(made, run),
        *_cases(run, made),
    ]


def _which_costs_least(found: Sequence[Comparison], whole: Sequence[Comparison]) -> Section:
    """The answer and its table on the objects that all models have, and a note if some lack."""
    blocks: list[Block | None] = []
    for comparison, every in zip(found, whole, strict=True):
        blocks += [
            answer(comparison, len(found) > 1),
            uneven(every.title, every.groups),
            leaderboard(comparison, f"leaderboard-{_stem(comparison)}"),
        ]
    return Section("Results", blocks=[b for b in blocks if b is not None])


def _differences(comparisons: Sequence[Comparison]) -> list[Section]:
    """The conclusions, where there are models to compare."""
    tables = [comparison_table(c, f"differences-{_stem(c)}") for c in comparisons]
    blocks: list[Block] = [table for table in tables if table is not None]
    text = (
        "Every model against the one that is ahead, on the same objects. A difference is "
        "significant where its p value, corrected for the number of comparisons, is below 5 %."
    )
    return [Section("Significant differences", text, blocks)] if blocks else []


def _growth(comparisons: Sequence[Comparison]) -> Section:
    """Quality over the rounds, and how many objects are done by then."""
    text = (
        "The x axis is the number of rounds. Bands are 95 % intervals from resampling "
        "images; point at a round, or walk along it with the arrow keys, to read it off."
    )
    quality = [_quality_chart(c, len(comparisons) > 1) for c in comparisons]
    done = [_success_chart(c, len(comparisons) > 1) for c in comparisons]
    if len(comparisons) == 1:
        return Section("Quality by number of clicks", text, [Multiples([*quality, *done])])
    return Section("Quality by number of clicks", text, [Multiples(quality), Multiples(done)])


def _quality_chart(comparison: Comparison, many: bool) -> Chart:
    title = "Mean IoU after each round" + (f": {comparison.title}" if many else "")
    lines = [_line(g, g.iou) for g in comparison.groups]
    return Chart(title, _rounds_axis(comparison), QUALITY, lines)


def _success_chart(comparison: Comparison, many: bool) -> Chart:
    goal = comparison.goals.lead
    title = f"Objects that have reached {goal.text}" + (f": {comparison.title}" if many else "")
    lines = [_share_line(g, success(*g.towards(goal))) for g in comparison.groups]
    axis = Axis("share of objects, %", low=0.0, high=1.0, percent=True)
    return Chart(title, _rounds_axis(comparison), axis, lines)


def _line(group: ClickSessions, values: Floats) -> Line:
    return curve_with_band(group.model, _held(values), resampling(group))


def _share_line(group: ClickSessions, reached: Floats) -> Line:
    """Shares of objects after each round with Wilson's limits, as the failures have."""
    found = [share_interval(column, group.clusters) for column in reached.T]
    rounds = np.arange(1, reached.shape[1] + 1)
    values, low, high = (np.array([getattr(i, n) for i in found]) for n in ("value", "low", "high"))
    known = len(set(group.clusters)) > 1
    return Line(group.model, rounds, values, low if known else None, high if known else None)


def _held(values: Floats) -> Floats:
    """Curves in which a session that was stopped early stays at its last quality."""
    last = np.maximum.accumulate(
        np.where(np.isnan(values), 0, np.arange(values.shape[1])[None, :]), axis=1
    )
    return np.asarray(np.take_along_axis(values, last, axis=1))


def _rounds_axis(comparison: Comparison) -> Axis:
    return rounds_axis(max(group.rounds for group in comparison.groups))


def _numbers(run: Results, comparisons: Sequence[Comparison]) -> Section:
    """The statistics that papers print, in every protocol of the run."""
    blocks: list[Block] = []
    for comparison in comparisons:
        protocols = _in_every_protocol(run, comparison)
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
        "the second click is negative; **corrected** does neither. Bold: better than every other "
        "model, and significantly so."
    )
    return Section("Results in each protocol", text, blocks)


def _in_every_protocol(run: Results, comparison: Comparison) -> list[Comparison]:
    """The same comparison in every reading of the run."""
    lead = comparison.groups[0]
    return [
        other
        for protocol in run.plan.protocols
        for other in comparisons_in(run, protocol)
        if (other.groups[0].dataset, other.groups[0].user) == (lead.dataset, lead.user)
    ]


def _click_columns(goals: Goals) -> list[Statistic]:
    return [*map(clicks_to, goals.all), *map(failures_at, goals.all)]


def _quality_columns(group: ClickSessions) -> list[Statistic]:
    """IoU, Boundary IoU, and every further measure that was taken or scored later."""
    made = [area("iou"), *(quality_after("iou", k) for k in ROUNDS), area("boundary-iou")]
    last = max(k for k in ROUNDS if k <= group.rounds)
    for name in group.others:
        if name != "boundary-iou":
            made += [area(name), *(quality_after(name, k) for k in sorted({1, last}))]
    return made


def _paper_table(
    protocols: Sequence[Comparison], name: str, columns: Sequence[Statistic], caption: str
) -> Table:
    """Models down, statistics across; the best is marked where it is significantly better."""
    rows = [
        row
        for c in protocols
        for model in c.models
        for s in columns
        if (row := c.rows.get((model, s.name))) is not None
    ]
    group = protocols[0].groups[0]
    return summary_table(
        name,
        rows,
        {s.name: column_of(s) for s in columns},
        best={key for c in protocols for key in c.best},
        caption=f"{caption}; {group.size} objects, {group.rounds} rounds",
    )


def _time(comparisons: Sequence[Comparison], run: Results) -> Section:
    """A person's seconds per object by activity, and measured waiting for the machine."""
    blocks: list[Block] = []
    for comparison in comparisons:
        parts = [_parts(g, comparison) for g in comparison.groups]
        used = [n for n in parts[0] if any(p[n] > 1e-9 for p in parts)]
        blocks.append(
            Bars(
                f"A person's seconds per object until {comparison.goals.lead.text}: "
                f"{comparison.title}",
                Axis("seconds per object", low=0.0, digits=1),
                comparison.models,
                [Part(n, [p[n] for p in parts]) for n in used],
            )
        )
    blocks += _touch_up(comparisons)
    blocks += [_latency_table(comparisons, _devices(run)), Note(_cost_note(comparisons[0].cost))]
    told = machines(run)
    text = f"{told} It is in no comparison of seconds." if told else ""
    return Section("Time per object", text, blocks)


def _touch_up(comparisons: Sequence[Comparison]) -> list[Block]:
    """How many clicks pay before correcting by hand does, where that was measured."""
    goal = comparisons[0].goals.lead
    shown = [by_clicks_until(goal), seconds_until(goal), clicks_that_pay(goal)]
    rows: list[list[Cell]] = [
        [g.model, c.title, *(c.value(g.model, s.name) for s in shown),
         *(_at_price(g, goal, factor) for factor in (0.5, 2.0))]
        for c in comparisons
        for g in c.groups
        if (g.model, shown[0].name) in c.rows
    ]  # fmt: skip
    if not rows:
        return []
    heads = [Column(s.title, s.unit, s.digits, better=s.better) for s in shown]
    heads += [Column(f"time at {what} that price", "s per object", 1) for what in ("half", "twice")]
    note = (
        "After each click a person may stop and correct the outline by hand: what is missing or "
        "too much, whichever is longer, beyond 3 px. A pixel costs "
        f"{comparisons[0].cost.touch_up:g} times the price of drawing, an assumption (`touch_up` "
        "in the cost file; `segmeter clicks costs` fits it to a log). The headline takes the "
        "cheaper way for each object."
    )
    columns = [Column("model"), Column("data"), *heads]
    return [Table("touch-up", columns, rows, "Stop clicking and correct by hand", note)]


def _at_price(group: ClickSessions, goal: Goal, factor: float) -> Value:
    """A person's time if correcting by hand costs so many times as much."""
    cost = replace(group.cost, touch_up=factor * group.cost.touch_up)
    return Value.of(resampling(group).interval(with_touch_up(replace(group, cost=cost), goal)[0]))


def _devices(run: Results) -> dict[str, str]:
    """The device each model answered on."""
    known = run.provenance.get("segmenters", {})
    return {model: str(facts.get("device", "")) for model, facts in known.items()}


def _parts(group: ClickSessions, comparison: Comparison) -> dict[str, float]:
    """A person's mean seconds of each part, by the cheaper of clicking on and correcting."""
    cost = comparison.cost
    seconds, last = with_touch_up(group, comparison.goals.lead)
    active = np.arange(1, group.rounds + 1) <= last[:, None]
    prompts = (group.spoken * active).sum(axis=1)
    return {
        "finding the object" + (" and reviewing it" if cost.review else ""): cost.per_object,
        "giving prompts": float(prompts.mean()),
        "drawing or correcting by hand": float((seconds - prompts).mean()) - cost.per_object,
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
        Column("p50", "s per round", 3): lambda r: _latency(r[0], r[1], 0.5),
        Column("p95", "s per round", 3): lambda r: _latency(r[0], r[1], 0.95),
        Column("simulated user", "s per round", 4): seconds("seconds-user"),
    }
    return Table.of(
        "latency",
        [(comparison, model) for comparison in comparisons for model in comparison.models],
        columns,
        "Measured seconds of machines",
        "Encoding is the model's median over scenes, shared by a scene's objects. Predictions are "
        "shares of batched calls, and include the network for a service; p50 and p95 are "
        "percentiles over rounds. The simulated user's own computing is not counted.",
    )


def _latency(comparison: Comparison, model: str, share: float) -> Value:
    """A quantile of the seconds of a prediction, over all rounds in which a prompt was given."""
    group = next(g for g in comparison.groups if g.model == model)
    seconds = np.where(group.spoken > 0, group.answer, np.nan)
    if np.isnan(seconds).all():
        return Value(None)
    drawn = resampling(group, 200)
    small = drawn.clusters > 1 and seconds.size < 1_000_000
    draws = [np.nanquantile(seconds[lines], share) for lines in drawn.drawn()] if small else []
    return Value.of(percentiles(float(np.nanquantile(seconds, share)), np.array(draws)))


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
    made = [Section("Hardest objects", text, galleries)]
    if sessions:
        text = (
            "Choose a session; step through it with the buttons, the slider or the arrow keys. "
            "The hardest objects come first, then one of middling cost and the one on which "
            "the models differ most."
        )
        made.append(Section("Sessions", text, sessions))
    return made


def _stem(comparison: Comparison) -> str:
    return "-".join(comparison.title.replace(",", "").split())
