"""Report sections of the click benchmark, with the cases behind its numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from segmeter.analysis import report_parts as parts
from segmeter.analysis.costs import Way, cost_section, machines
from segmeter.analysis.report_cases import (
    NO_MASKS,
    Case,
    Key,
    available_cases,
    session_frames,
    values_by_key,
)
from segmeter.analysis.response_section import response_sections
from segmeter.analysis.start_section import start_sections
from segmeter.benchmarks.noc import statistics as noc
from segmeter.benchmarks.noc.comparison import (
    TIED,
    Comparison,
    answer,
    comparisons,
    drawn_by_hand,
    leaderboard,
    overview,
    tested_differences,
)
from segmeter.benchmarks.noc.statistics import ClickSessions
from segmeter.core import sections as page
from segmeter.core.benchmarks import Results
from segmeter.core.scores_by_step import to_the_end
from segmeter.core.wording import counted
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.goals import Goal, area_under, first_round, success
from segmeter.stats.intervals import percentiles, share_interval
from segmeter.stats.statistics import Statistic, resampling, standing_out

_MANY = 5  # pairs of dataset and user with a sentence and a table each; more share them


def sections(run: Results) -> list[page.Section]:
    made = comparisons(run)
    findings, goal = made[0].findings, made[0].goals.lead
    results: list[page.Block] = []
    # On the objects that all models have; a note names models that lack some.
    for c in (shared := comparisons(run, common=True)):
        results += [answer(c, len(made) > 1), leaderboard(c, f"leaderboard-{_stem(c)}")]
    results = [*overview(shared)] if len(made) > _MANY else results
    results += filter(None, (parts.uneven(c.title, c.groups) for c in made))
    apart = [
        d
        for c in made
        for d in c.differences
        if c.models[0] in (d.first, d.second) and findings.cards[d.statistic].tested == "yes"
    ]
    return [
        page.Section("Results", blocks=results),
        _growth(made),
        *findings.difference_section(
            apart, caption="The model with the least annotation time against every other"
        ),
        _numbers(made),
        *start_sections(
            run,
            [(g, g.start) for c in made for g in c.groups],
            [noc.clicks_to(goal), noc.seconds_until(goal)],
            goal.value if goal.measure == "iou" else 1.0,
        ),
        *response_sections(run),
        _time(made, run),
        *_cases(run, made),
    ]


def _growth(comparisons: Sequence[Comparison]) -> page.Section:
    """Quality over the rounds, and how many objects are done by then."""
    text = (
        "Bands are 95 % intervals from resampling images. Point at a round, or use the arrow "
        "keys, to read its values."
    )
    share = page.Axis("share of objects, %", low=0.0, high=1.0, percent=True)
    quality, done = [], []
    for c in comparisons:
        axis = parts.rounds_axis(max(group.rounds for group in c.groups))
        where = f": {c.title}" if len(comparisons) > 1 else ""
        lines, reached = [], []
        for g in c.groups:
            # A session that was stopped early stays at its last quality.
            lines.append(parts.curve_with_band(g.model, to_the_end(g.iou), g))
            # Shares have Wilson's limits, as the failures have.
            shares = success(*g.towards(c.goals.lead)).T
            found = [share_interval(column, g.clusters) for column in shares]
            line = parts.line_of(g.model, dict(enumerate(found, start=1)))
            several = len(set(g.clusters)) > 1
            reached.append(line if several else replace(line, low=None, high=None))
        title = f"Objects that have reached {c.goals.lead.text}{where}"
        quality.append(page.Chart(f"Mean IoU after each round{where}", axis, parts.QUALITY, lines))
        done.append(page.Chart(title, axis, share, reached))
    charts = [quality, done] if len(comparisons) > 1 else [[*quality, *done]]
    return page.Section("Quality by number of clicks", text, list(map(page.Multiples, charts)))


_PROTOCOL_TEXT = {
    "published": (
        "In **published**, a success at the last round is a failure too, the user keeps clicking "
        "pixel (0, 0) when no error is left, and the previous mask is not fed back if the second "
        "click is negative."
    ),
    "corrected": "In **corrected**, failures are the objects that never reach q %.",
}


def _numbers(comparisons: Sequence[Comparison]) -> page.Section:
    """The statistics that papers print, in every protocol of the run."""
    findings = comparisons[0].findings
    best = standing_out(findings.rows, tested_differences(findings), findings.cards)
    blocks: list[page.Block] = []
    for comparison in comparisons:
        group, goals = comparison.groups[0], comparison.goals.all
        own = [
            row for row in findings.rows if (row.dataset, row.user) == (group.dataset, group.user)
        ]
        effort = [*map(noc.clicks_to, goals), *map(noc.failures_at, goals)]
        for name, cards, what in (
            ("clicks", effort, "clicks to quality and failures"),
            ("quality", _quality_columns(group), "quality"),
        ):
            caption = f"{comparison.title}: {what}; {group.size} objects, {group.rounds} rounds"
            stem, names = f"{name}-{_stem(comparison)}", [card.name for card in cards]
            blocks.append(findings.table(stem, own, names, best=best, caption=caption))
    protocols = findings.run.plan.protocols
    text = (
        "NoC@q is the mean number of rounds until IoU first reaches q %; a failure counts as all "
        "rounds. NoF@q is the number of failures. AuC is the area under IoU over the rounds. "
        f"{' '.join(_PROTOCOL_TEXT[name] for name in protocols)} Bold: significantly better than "
        "every other model."
    )
    title = "Results in each protocol" if len(protocols) > 1 else "Clicks, failures and quality"
    return page.Section(title, text, blocks)


def _quality_columns(group: noc.ClickSessions) -> list[Statistic]:
    """IoU, Boundary IoU, and every further measure that was taken or scored later."""
    made = [
        noc.area("iou"),
        *(noc.quality_after("iou", k) for k in noc.ROUNDS),
        noc.area("boundary-iou"),
    ]
    last = max(k for k in noc.ROUNDS if k <= group.rounds)
    for name in group.others:
        if name != "boundary-iou":
            made += [noc.area(name), *(noc.quality_after(name, k) for k in sorted({1, last}))]
    return made


Head = dict[page.Column, Callable[[noc.ClickSessions], page.Cell]]
"""Columns that are no statistic."""


def _time(comparisons: Sequence[Comparison], run: Results) -> page.Section:
    """A person's seconds per object by activity, and measured waiting for the machine."""
    blocks: list[page.Block] = []
    for comparison in comparisons:
        spent = [_spent(g, comparison) for g in comparison.groups]
        used = [n for n in spent[0] if any(s[n] > 1e-9 for s in spent)]
        blocks.append(
            page.Bars(
                f"Annotation time in seconds per object until {comparison.goals.lead.text}: "
                f"{comparison.title}",
                page.Axis("seconds per object", low=0.0, digits=1),
                comparison.models,
                [page.Part(n, [s[n] for s in spent]) for n in used],
            )
        )
    titles = {group.key: c.title for c in comparisons for group in c.groups}
    head: Head = {
        page.Column("model"): lambda group: group.model,
        page.Column("data"): lambda group: titles[group.key],
    }
    groups, cost = [group for c in comparisons for group in c.groups], comparisons[0].cost
    review = f", {cost.review:g} s to review it" if cost.review else ""
    priced = page.Note(
        f"Cost model: {cost.locate:g} s to find the object{review}, {cost.click:g} s per click, "
        f"{cost.box:g} s per box, {cost.scribble:g} s per stroke; objects that never reach the "
        f"goal are drawn by hand, {drawn_by_hand(cost)}. The documentation has the sources of "
        "these seconds; `--cost FILE` sets your own."
    )
    blocks += [*_touch_up(comparisons[0], groups, head), _latency(comparisons[0], groups, head)]
    text = machines(run) and f"{machines(run)} No comparison of seconds includes it."
    return page.Section("Time per object", text, [*blocks, priced])


def _touch_up(
    comparison: Comparison, groups: Sequence[noc.ClickSessions], head: Head
) -> list[page.Block]:
    """Clicks until correcting by hand is faster, where that was measured."""
    findings, goal, cost = comparison.findings, comparison.goals.lead, comparison.cost
    shown = [noc.by_clicks_until(goal), noc.seconds_until(goal), noc.clicks_that_pay(goal)]
    measured = [group for group in groups if (group.key, shown[0].name) in findings.numbers]

    def at_price(factor: float) -> Callable[[noc.ClickSessions], page.Cell]:
        """A person's time if correcting by hand costs so many times as much."""
        dear = replace(cost, touch_up=factor * cost.touch_up)
        return lambda group: page.Value.of(
            resampling(group).interval(noc.with_touch_up(replace(group, cost=dear), goal)[0])
        )

    columns = {**head, **findings.columns(measured, [card.name for card in shown])}
    for what, factor in (("half", 0.5), ("twice", 2.0)):
        title = f"time if correcting costs {what}"
        columns[page.Column(title, "s per object", 1)] = at_price(factor)
    note = (
        "After each click, a person may stop and correct the outline by hand: the missing or the "
        "superfluous part, whichever is longer, beyond 3 px. Correcting a "
        f"pixel is assumed to cost {cost.touch_up:g} x drawing one (`touch_up` in the cost file; "
        "`segmeter clicks costs` fits it to a log). Annotation time uses the faster way for each "
        "object, chosen with the ground truth, and is thus a lower bound."
    )
    title = "Stop clicking and correct by hand"
    return [page.Table.of("touch-up", measured, columns, title, note)] if measured else []


def _spent(group: noc.ClickSessions, comparison: Comparison) -> dict[str, float]:
    """A person's mean seconds of each part, by the cheaper of clicking on and correcting."""
    cost = comparison.cost
    seconds, last = noc.with_touch_up(group, comparison.goals.lead)
    active = np.arange(1, group.rounds + 1) <= last[:, None]
    prompts = (group.prompt_cost * active).sum(axis=1)
    return {
        "finding the object" + (" and reviewing it" if cost.review else ""): cost.per_object,
        "giving prompts": float(prompts.mean()),
        "drawing or correcting by hand": float((seconds - prompts).mean()) - cost.per_object,
    }


def _latency(comparison: Comparison, groups: Sequence[noc.ClickSessions], head: Head) -> page.Table:
    findings = comparison.findings
    known = findings.run.provenance.get("segmenters", {})
    shown = ("seconds-encode", "seconds-predict", comparison.waiting, "seconds-user")
    columns: Head = {
        **head,
        page.Column("device"): lambda group: str(known.get(group.model, {}).get("device", "")),
        # Bold is for what was tested; these are the speed of one machine.
        **{replace(c, better=""): cell for c, cell in findings.columns(groups, shown).items()},
        page.Column("p50", "s per round", 3): lambda group: _quantile(group, 0.5),
        page.Column("p95", "s per round", 3): lambda group: _quantile(group, 0.95),
    }
    return page.Table.of(
        "latency",
        groups,
        columns,
        "Measured machine time",
        "Encoding is the model's median over scenes, divided among a scene's objects. Predictions "
        "are shares of batched calls; for a service they include the network connection. p50 and "
        "p95 are percentiles over rounds, without the simulated user's computing time.",
    )


def _quantile(group: noc.ClickSessions, share: float) -> page.Value:
    """A quantile of the seconds of a prediction, over all rounds in which a prompt was given."""
    seconds = np.where(group.prompt_cost > 0, group.answer, np.nan)
    if np.isnan(seconds).all():
        return page.Value(None)
    drawn = resampling(group, 200)
    draws = drawn.quantiles(seconds, share) if seconds.size < 1_000_000 else np.empty(0)
    value = float(np.nanquantile(seconds, share))
    return page.Value.of(percentiles(value, draws, drawn.clusters))


def _cases(run: Results, comparisons: Sequence[Comparison]) -> list[page.Section]:
    """Hardest objects and replays, of each dataset."""
    galleries: list[page.Block] = []
    sessions: list[page.Block] = []
    for comparison in comparisons:
        cases, why = cases_of(run, comparison)
        if why:
            text = f"Images of {comparison.title} cannot be shown: {why}"
            galleries.append(page.Note(text, "warning"))
            continue
        if len(comparisons) > 1:
            galleries.append(page.Note(f"**{comparison.title}**"))
        anchors = replay_keys(comparison, cases)
        galleries.append(hardest(run, comparison, cases, anchors))
        sessions += replays(run, comparison, cases, anchors)
    text = "The objects that need the most clicks over all models, with the clicks of each model."
    replayed = (
        "Choose a session; step through it with the buttons, the slider or the arrow keys. "
        "The hardest objects come first, then a typical one and the one on which the models "
        "differ most."
    )
    made = [page.Section("Hardest objects", text, galleries)]
    return [*made, page.Section("Sessions", replayed, sessions)] if sessions else made


def _stem(comparison: Comparison) -> str:
    return "-".join(comparison.title.replace(",", "").split())


def project_section(run: Results, objects: int, rate: float | None = None) -> page.Section:
    """Hours, and money at a rate per hour, for so many objects like those of the run."""
    found = comparisons(run, common=True)
    tables, cost = {c.title: [_way(c, group) for group in c.groups] for c in found}, found[0].cost
    source = ", the time of a polygon in COCO (Lin et al. 2014)" if cost == CostModel() else ""
    assumed = (
        f"Goal: {found[0].goals.lead.text}. Assumed for drawing by hand: {drawn_by_hand(cost)}"
        f"{source}, and {cost.per_object:g}{TIED}s to find and review it."
    )
    return cost_section(run, tables, objects, rate, assumed)


def _way(comparison: Comparison, group: noc.ClickSessions) -> Way:
    names = (comparison.seconds, comparison.waiting)
    seconds, waited = (comparison.per_object(group, name) for name in names)
    hand = comparison.cost.per_object + comparison.cost.drawing(group.contour_px) + 0 * seconds
    card = comparison.findings.cards[comparison.seconds]
    return Way(group.model, group, card, seconds, waited, hand)


_GALLERY, _REPLAYED, _MODELS = 8, 5, 3
Anchors = Mapping[tuple[Key, str], str]
"""Anchors of replays, by object and model."""


def cases_of(run: Results, comparison: Comparison) -> tuple[list[Case], str]:
    """The targets to show, the hardest first, then a middling and a disputed one.

    Hard is what costs most over all models, then what ends low; the models differ most on the
    disputed one. With them comes the reason why there are none, where the data is not available.
    """
    area = values_by_key(comparison.groups, _areas)
    clicks = values_by_key(comparison.groups, lambda g: comparison.per_object(g, comparison.clicks))
    cost = {key: np.mean(np.subtract(clicks[key], np.divide(area[key], 1000))) for key in area}
    order = sorted(cost, key=lambda key: (-float(cost[key]), key))
    disputed = max(sorted(area), key=lambda key: max(area[key]) - min(area[key]))
    chosen = [*order[:_GALLERY], order[len(order) // 2], disputed]
    dataset = comparison.groups[0].dataset
    return available_cases(run, [(dataset, key) for key in dict.fromkeys(chosen)])


def hardest(
    run: Results, comparison: Comparison, cases: Sequence[Case], anchors: Anchors
) -> page.Gallery | page.Note:
    """The objects that cost most over all models, with the best model's clicks."""
    best, goal, images = comparison.groups[0], comparison.goals.lead, []
    for case in cases[:_GALLERY]:
        frames = session_frames(run, best, case, (best.user,))
        if not frames:
            return NO_MASKS
        seen = frames[: _reached(best, case.key, goal) or len(frames)]
        outcomes = [f"**{case.title}**"]
        for group in comparison.groups:
            if case.key in group.keys:
                curve = group.iou[group.keys.index(case.key)]
                never = f"never, ends at {100 * curve[~np.isnan(curve)][-1]:.0f} %"
                outcomes.append(f"{group.model}: {_reached(group, case.key, goal) or never}")
        alt = f"{case.title} with the ground truth, the mask of {best.model} and its clicks"
        images.append(case.drawn(
            "\n".join(outcomes), alt, mask=seen[-1].mask, name=best.model,
            prompts=[prompt for frame in seen for prompt in frame.prompts],
            link=anchors.get((case.key, best.model), ""),
        ))  # fmt: skip
    return page.Gallery(
        images,
        f"Dashed: the ground truth. Filled: the mask of {best.model} when it reached {goal.text}, "
        "or its last one. Discs with a plus are clicks on the object, squares with a minus off it. "
        "An image with a link opens its session.",
    )


def replays(
    run: Results, comparison: Comparison, cases: Sequence[Case], anchors: Anchors
) -> list[page.Replay]:
    """Chosen sessions of the first models, click by click."""
    goal, made = comparison.goals.lead, []
    for case, group in product(cases, comparison.groups):
        key = anchors.get((case.key, group.model))
        if key and (frames := session_frames(run, group, case, (group.user,))):
            reached = _reached(group, case.key, goal)
            outcome = f"{goal.short} after {counted(reached, 'click')}"
            outcome = outcome if reached else f"not {goal.short} in {len(frames)} rounds"
            caption = f"{case.scene.name}, user {group.user}, protocol {group.protocol}"
            shown = goal.value if goal.measure == "iou" else None
            made.append(case.replay(key, f"{group.model}: {outcome}", frames, shown, caption))
    return made


def replay_keys(comparison: Comparison, cases: Sequence[Case]) -> Anchors:
    """The sessions to replay, and their anchors."""
    chosen = [*cases[: _REPLAYED - 2], *cases[-2:]]
    place = re.sub(r"\W+", "-", comparison.title)
    return {
        (case.key, model): f"replay-{place}-{i}-{k}"
        for i, case in enumerate({c.key: c for c in chosen}.values())
        for k, model in enumerate(comparison.models[:_MODELS])
    }


def _reached(group: ClickSessions, key: Key, goal: Goal) -> int:
    """The round in which a target reaches the goal; 0 where it never does."""
    curves, limit = group.towards(goal)
    return int(first_round(curves[group.keys.index(key)][None], limit)[0])


def _areas(group: ClickSessions) -> Any:
    """Area under IoU of each target; of a session stopped early, its last quality."""
    values = group.iou
    known = np.where(np.isnan(values), -np.inf, values).max(axis=1)
    return np.where(np.isnan(values).any(axis=1), 100 * known, 100 * area_under(values))
