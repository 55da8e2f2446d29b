"""Report sections of volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import attrgetter

import numpy as np

from segmeter.analysis import report_parts as parts
from segmeter.analysis.costs import Way, cost_of, cost_section
from segmeter.analysis.response_section import followed_notes, response_sections
from segmeter.analysis.start_section import start_sections
from segmeter.benchmarks.volumes import statistics as volumes
from segmeter.benchmarks.volumes import tables
from segmeter.benchmarks.volumes.statistics import VolumeSessions, goals_of
from segmeter.benchmarks.volumes.tables import failures, lost_prompts, sessions_to_scroll, typed
from segmeter.benchmarks.volumes.work import left_out
from segmeter.core import sections as page
from segmeter.core.benchmarks import Difference, Group, Results
from segmeter.core.grouping import grouped
from segmeter.core.wording import counted
from segmeter.measures.judging import Surfaces
from segmeter.stats.statistics import Statistic, corrected_together, differences_of

Sets = Sequence[Sequence[VolumeSessions]]
"""Groups of the leading protocol, those of a dataset together."""


def sections(run: Results) -> list[page.Section]:
    findings, goals = parts.Findings(run), goals_of(run)
    found, cards = findings.groups(VolumeSessions), findings.cards
    several = len(run.plan.segmenters) > 1  # prompters of one model have their own section
    apart = [d for d in findings.differences if d.protocol == findings.lead] if several else []
    leading = _sets(findings.groups(VolumeSessions, findings.lead))
    paper = [
        block for protocol in run.plan.protocols for block in tables.paper_tables(found, protocol)
    ]
    charts = [_effort_chart(own, findings.numbers) for own in leading]
    return [
        _results(findings, leading, goals[-1]),
        page.Section("Quality against effort", _EFFORT, [page.Multiples(charts)] if charts else []),
        _prompters(leading, cards),
        page.Section("Quality by organ", _measured_by(run), [*map(tables.by_organ, leading)]),
        _equal_effort(findings, leading, goals),
        *findings.difference_section(apart, users=typed, pairs=("models", "prompter")),
        page.Section("Comparison with the paper's tables", _PAPER, paper, folded=True),
        page.Section("Instances", blocks=[
            table for own in _sets(found) for table in tables.instances(findings, own)
        ]),
        page.Section("Hardest objects", _HARDEST, [
            *(failures(run, own) for own in leading),
            *lost_prompts(run),
        ]),
        *start_sections(
            run, [(g, g.start) for own in leading for g in own],
            [volumes.seconds_until(goal) for goal in goals], goals[-1] / (200 - goals[-1]),
        ),
        *response_sections(run, corrections_only=True),
        page.Section("Sessions", _SCROLLED, [
            block for own in leading for block in sessions_to_scroll(run, own)
        ]),
    ]  # fmt: skip


_EFFORT = (
    "A dot is a prompter after its last round, with its name for `--user`. A line is the best "
    "Dice of a model within a number of interactions, including rounds of refinement. Up and to "
    "the left is better."
)
_BEST = (volumes.dice_within(10).name, "dice")
_PAPER = "Percent Dice. The paper's datasets are named D1 to D8."
_HARDEST = "The objects with the lowest Dice over all models and prompters."
_SCROLLED = (
    "The worst object of each dataset, a typical one and the best, with the session of the "
    "highest Dice. Scroll with the wheel or the arrow keys."
)


def _results(findings: parts.Findings, leading: Sets, goal: float) -> page.Section:
    run = findings.run
    blocks: list[page.Block] = [page.Note(f"{sentence}.") for sentence in left_out(run)]
    planned = [str(spec) for spec in run.plan.segmenters]
    for members in leading:
        blocks.append(recommendation(members, goal, planned))
        if _complete(members, planned):
            rows = [findings.numbers[g.key, n] for g in members for n in _BEST]
            blocks += parts.best_answer(rows, _BEST, findings.cards)
        blocks.append(tables.leaderboard(findings, members, goal))
    blocks += [tables.prompters_table([g for own in leading for g in own]), *followed_notes(run)]
    text = (
        "A prompter is a simulated annotator who prompts in one way. A point is one interaction, a "
        f"box two, a 3D box three, a scribble three, naming a slice one. {seen_as(run)}"
    )
    return page.Section("Results", text, blocks)


def _effort_chart(members: Sequence[VolumeSessions], numbers: parts.Numbers) -> page.Chart:
    """A step line with the best Dice of each model for so many interactions, and its prompters."""
    high = max(10.0, *(float(g.interactions[:, -1].mean()) for g in members))
    marks: list[page.Line | page.Points] = []
    for model, mine in grouped(members, attrgetter("model")).items():
        steps = sorted(
            (max(1.0, float(spent.mean())), 100 * float(volumes.per_case(g, dice)[0].mean()))
            for g in mine
            for spent, dice in zip(g.interactions.T, g.dice.T, strict=True)
        )
        best = list(accumulate((dice for _, dice in steps), max))
        better = [0, *(i for i in range(1, len(steps)) if best[i] > best[i - 1])]
        xs, ys = [steps[i][0] for i in better], [best[i] for i in better]
        marks.append(page.Line(model, [*xs, high], [*ys, best[-1]], role="step"))
        spent = [max(1.0, float(g.interactions[:, -1].mean())) for g in mine]
        ends = parts.line_of(model, {n: numbers[g.key, "dice"] for n, g in enumerate(mine)})
        names = [typed(g.user) for g in mine]
        marks.append(page.Points(model, spent, ends.y, names, ends.low, ends.high))
    x = page.Axis("interactions per object", low=1, high=high, scale="log")
    return page.Chart(members[0].dataset, x, page.Axis("Dice, %", low=0, high=100), marks)


def _prompters(leading: Sets, cards: Mapping[str, Statistic]) -> page.Section:
    """Prompters of one model against its best, on the same objects."""
    blocks: list[page.Block] = []
    for members in leading:
        found = against_best(members, [cards["dice"]])
        if found:
            blocks.append(parts.difference_table(
                found, cards, shown=typed,
                name=tables.stem("prompters", members), pairs=("prompters", "model"),
                caption=f"{members[0].dataset}: differences between prompters of one model",
            ))  # fmt: skip
    text = (
        "The prompter with the highest Dice of each model (first) against its others (second), on "
        "the same objects; p values are corrected for all pairs together (Holm)."
    )
    return page.Section("Prompters compared", text, blocks)


def _measured_by(run: Results) -> str:
    surfaces = Surfaces.of(run.plan.options)
    between = {
        "surface": "surface elements by area, as DeepMind's surface-distance",
        "monai": "outermost voxels, as MONAI",
    }[surfaces.convention]
    return (
        f"NSD is at {surfaces.nsd_mm} mm; distances are between {between}. Volumes are of the "
        "ground truth, errors are predicted less true."
    )


def _equal_effort(findings: parts.Findings, leading: Sets, goals: Sequence[float]) -> page.Section:
    """Dice for the same number of interactions, prompter by prompter."""
    of_goals = (volumes.seconds_until, volumes.rounds_that_pay, volumes.never)
    cards = [*map(volumes.dice_within, volumes.BUDGETS), *(of(g) for g in goals for of in of_goals)]
    caption = (
        "Dice of the last prediction within a number of interactions, 0 if there is none. Seconds "
        "to a goal include correcting by hand as soon as that is faster than prompting, and "
        "drawing by hand, slice by slice, if the goal is never reached."
    )
    blocks = [
        page.Table.of(
            tables.stem("equal-effort", own),
            own,
            {**tables.PROMPTER, **findings.columns(own, [card.name for card in cards])},
            f"{own[0].dataset}: {caption}",
        )
        for own in leading
    ]
    text = "Dice of every prompter after the same number of interactions."
    return page.Section("Dice at equal effort", text, blocks)


def project_section(run: Results, objects: int, rate: float | None) -> page.Section:
    """Costs of so many objects with each model and prompter, to the last goal."""
    goal, cost, lead = goals_of(run)[-1], cost_of(run), run.plan.leading_protocol
    common = parts.on_common_objects(run, parts.Findings(run).groups(VolumeSessions, lead))
    found = parts.Findings(common).groups(VolumeSessions, lead)
    card = volumes.seconds_until(goal)
    every: dict[str, list[Way]] = {}
    ranked: dict[str, str] = {}
    for members in _sets(found):
        ways = every.setdefault(members[0].dataset, [])
        for group in members:
            assert card.values is not None
            assert card.waiting is not None
            name, hand = f"{group.model}, {typed(group.user)}", cost.per_object + group.by_hand
            ways.append(Way(name, group, card, card.values(group), card.waiting(group), hand))
        share, _, first = _recommended(members, goal)
        name = f"{first.model}, {typed(first.user)}"
        if name != min(ways, key=lambda way: float(way.spent.mean())).name:
            fewest = "by interactions, as recommended," if share >= _WANTED else "by Dice alone"
            ranked[first.dataset] = (
                f"this ranks by time, with correction by hand; {fewest} **{name}** is first"
            )
    assumed = (
        f"Goal: {goal:g} % Dice. Assumed for drawing by hand: {cost.by_hand:g} s per slice of "
        f"the object, and {cost.per_object:g} s to find and review it."
    )
    return cost_section(run, every, objects, rate, assumed, ranked)


def _sets(found: Sequence[VolumeSessions]) -> Sets:
    return list(grouped(found, attrgetter("dataset")).values())


_WANTED, _ORGANS = 0.9, 12
"""Share of objects that must reach the goal, and organs that are named."""


def _complete(groups: Sequence[VolumeSessions], planned: Sequence[str]) -> bool:
    """Whether all models have results, and every prompter has them on the same objects."""
    return {g.model for g in groups} >= {*planned} and len({frozenset(g.keys) for g in groups}) == 1


def recommendation(
    groups: Sequence[VolumeSessions], goal: float, planned: Sequence[str] = ()
) -> page.Answer:
    """Fewest interactions that reach a Dice in nine of ten objects, over all and by organ.

    There is none while a model of the plan lacks objects that others have.
    """
    dataset = groups[0].dataset
    if not _complete(groups, planned):
        counts = {name: [len(g.keys) for g in groups if g.model == name] for name in planned}
        known = ", ".join(f"{name} on {min(counts[name], default=0)}" for name in planned)
        return page.Answer(
            page.phrase(f"{dataset}: no recommendation yet; objects with results: {known}.")
        )
    share, best, _ = _recommended(groups, goal)
    text = f"no prompter reaches Dice {goal:g} % in 90 % of objects; closest is {best}."
    if share == 0:
        text = f"no prompter reaches Dice {goal:g} % in any object."
    elif share >= _WANTED:
        text = f"fewest interactions that reach Dice {goal:g} % in 90 % of objects: {best}."
    organs = sorted({label for group in groups for label in group.labels if label})
    lines = []
    for organ in organs[:_ORGANS] if len(organs) > 1 else []:
        own, best, _ = _recommended(groups, goal, organ)
        word = "fewest interactions" if own >= _WANTED else "closest"
        lines.append(f"{organ}, {word}: {best}.")
    return page.Answer(page.phrase(f"{dataset}: {text}"), lines=tuple(lines))


def _recommended(
    groups: Sequence[VolumeSessions], goal: float, organ: str | None = None
) -> tuple[float, str, VolumeSessions]:
    """The share of objects that reach the goal with the best prompter, and which that is."""
    found = []
    for group in groups:
        mine = np.array([organ in (None, label) for label in group.labels])
        if mine.any():
            draws = [one.dice[mine, -1] >= goal / 100 for one in group.repeats or (group,)]
            ends = (table[mine, -1] for table in (group.dice, group.interactions))
            dice, spent = (float(values.mean()) for values in ends)
            found.append((float(np.mean(draws)), dice, spent, group))
    enough = [one for one in found if one[0] >= _WANTED]
    if enough:
        one = min(enough, key=lambda one: (one[2], -one[0], -one[1], one[3].key))
    else:
        one = max(found, key=lambda one: (*one[:2], -one[2], one[3].key))
    share, dice, spent, best = one
    tied = 0 if enough or not share else sum(other[0] == share for other in found) - 1
    many = counted(sum(organ in (None, label) for label in best.labels), "object")
    ties = f"{counted(tied, 'other way')} {'reaches' if tied == 1 else 'reach'} the goal"
    text = (
        f"{best.model} with --user '{typed(best.user)}', {100 * share:.0f} % of {many}, "
        f"{spent:.1f} interactions per object, mean Dice {100 * dice:.1f} %"
        + (f" ({ties} in as many objects, with a lower mean Dice)" if tied else "")
    )
    return share, text, best


def against_best(groups: Sequence[Group], statistics: Sequence[Statistic]) -> list[Difference]:
    """Each model's prompter with the highest Dice against its others, paired on objects."""
    found: list[Difference] = []
    own = [g for g in groups if isinstance(g, VolumeSessions)]
    for model, mine in grouped(own, attrgetter("model")).items():
        best = max(mine, key=lambda group: (float(group.dice[:, -1].mean()), group.user))
        swapped = {group.user: replace(group, model=group.user, user=model) for group in mine}
        for user in swapped:
            pair = [swapped[one] for one in swapped if one in (user, best.user)]
            apart = differences_of(pair, statistics)
            found += [d if d.first == best.user else d.turned for d in apart]
    order = [statistic.name for statistic in statistics]
    return corrected_together(sorted(found, key=lambda d: order.index(d.statistic)))


def seen_as(run: Results) -> str:
    """Modality, window and orientation of what networks for slices saw."""
    rows = run.sql(
        "select distinct modality, window_low as low, window_high as high from sessions"
        " where window_low is not null and protocol = ? order by all",
        [run.plan.leading_protocol],
    ).to_pylist()
    shown = f"{len(rows)} windows, one per volume"
    if len(rows) == 1:
        modality, low, high = rows[0].values()
        shown = f"{modality or 'unknown modality'} from {low:g} to {high:g}"
    way = "upright, the patient's right on the left"
    if run.plan.leading_protocol == "published":
        way = "rotated by 180 degrees, as in the paper"
    return f"Networks for slices saw {shown}; slices were shown {way}." if rows else ""
