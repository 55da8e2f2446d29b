"""Statistics of the click benchmark: clicks and seconds to quality, failures, areas.

Numbers have the units of the papers: clicks, counts, seconds, and percent
for IoU and the areas under its curve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from segmeter.analysis.costs import cost_of, means_over_targets
from segmeter.analysis.responses import STATISTICS as RESPONSES
from segmeter.analysis.responses import response_groups
from segmeter.benchmarks.noc import until, within_range
from segmeter.core import catalogue
from segmeter.core.benchmarks import Group, PaperLayout, Results
from segmeter.core.errors import BadInput, suggestion
from segmeter.core.measures import Measure
from segmeter.core.rows import SESSION_FACTS, SESSION_ROWS
from segmeter.core.scores_by_step import Tables, spread, words_of
from segmeter.stats.annotation_time import CostModel, seconds_to, seconds_with_touch_up, waiting_to
from segmeter.stats.goals import Goal, Goals, area_under, at_round, failed, reached, rounds_to
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import Better, Effort, Statistic, Tested, count_interval

ROUNDS = (1, 2, 3, 5, 10, 20)

# Columns of rows that are no measure, among them those of earlier versions.
_NO_MEASURE = {*SESSION_ROWS.names, *SESSION_FACTS, "height", "width", "error", "detail"}


@dataclass(frozen=True, slots=True)
class ClickSessions(Group):
    """All sessions of a group, object by object.

    `iou` holds the curves, `(objects, rounds)`, and `others` those of every further measure;
    `spent` are a person's seconds by the end of each round under the cost model, `prompt_cost` the
    cost of each round's prompts (zero without prompts); `encode` (each object's share), `answer`
    and `busy` (the simulated user's own) are measured seconds; `contour_px` is the length of each
    object's contour where the run kept it; `only_clicks` is whether no other prompt was given;
    `start` is the IoU of the masks that sessions started from; `typical_px` is the mean contour
    of all objects of the dataset.
    """

    iou: Floats
    others: Mapping[str, Floats]
    cost: CostModel
    spent: Floats
    encode: Floats
    answer: Floats
    busy: Floats
    prompt_cost: Floats
    contour_px: Floats | None = None
    only_clicks: bool = True
    start: Floats | None = None
    typical_px: float = np.nan

    @property
    def rounds(self) -> int:
        return int(self.iou.shape[1])

    def curves(self, measure: str) -> Floats:
        if measure == "iou":
            return self.iou
        if measure not in self.others:
            known = ["iou", *self.others]
            raise BadInput(
                f"this run has no measure '{measure}';{suggestion(measure, known)} it has "
                f"{', '.join(known)}, and 'segmeter score' adds more"
            )
        return self.others[measure]

    def towards(self, goal: Goal) -> tuple[Floats, float]:
        """Curves and a limit from which more is better."""
        return within_range(goal).signed(self.curves(goal.measure))

    def unless_met(self, goal: Goal, values: Floats, at_start: float = 0.0) -> Floats:
        """Values of objects, `at_start` where the starting mask meets a goal of IoU or Dice."""
        if self.start is None or goal.measure not in ("iou", "dice") or goal.below:
            return values
        start = self.start if goal.measure == "iou" else 2 * self.start / (1 + self.start)
        return np.where(start >= goal.value, at_start, values)


def groups(run: Results) -> list[Group]:
    """Sessions of every user, and responses of models to their prompts."""
    return [*sessions(run), *response_groups(run)]


def sessions(run: Results) -> list[ClickSessions]:
    """The run's sessions, grouped, with their seconds under the cost model in use."""
    measures = ["iou", *measures_of(run)]
    names = {name: name.replace("-", "_") for name in measures}
    timed = ("seconds_encode", "seconds_predict", "seconds_user")
    cost, typical = cost_of(run), _typical_encode(run)
    started = [name for name in ("start_mask_iou",) if name in run.columns()]
    found = Tables.load(run, [*names.values(), "kinds_", *timed, *started], facts=["contour_px"])
    px = means_over_targets(run, "contour_px") if "contour_px" in run.columns() else {}
    return [
        _group(t, names, run.plan.rounds, cost, typical[t.model, t.dataset], *px.get(t.dataset, ()))
        for t in found
    ]


def _group(
    tables: Tables, names: Mapping[str, str], rounds: int, cost: CostModel, typical: float,
    typical_px: float = np.nan,
) -> ClickSessions:  # fmt: skip
    """One line per object; a session that was stopped early costs nothing any more."""
    iou, *others = (tables.table(column, np.nan, rounds) for column in names.values())
    answer, busy = (tables.table(c, 0.0, rounds) for c in ("seconds_predict", "seconds_user"))
    kinds, spent = _spent(tables.lists("kinds_"), rounds, cost)
    sharing = Counter(tables.scenes)
    outlines = tables.numbers("contour_px")
    held = "start_mask_iou" in tables.lines.column_names
    start = tables.table("start_mask_iou")[:, 0] if held else np.array([np.nan])
    return ClickSessions(
        *tables.key,
        tables.keys,
        tables.clusters,
        iou,
        dict(zip(list(names)[1:], others, strict=True)),
        cost,
        spent,
        np.array([typical / sharing[scene] for scene in tables.scenes]),
        answer,
        busy,
        np.diff(spent, axis=1, prepend=cost.per_object),
        None if np.isnan(outlines).any() else outlines,
        kinds <= {"click", ""},
        None if np.isnan(start).any() else start,
        typical_px,
    )


def _spent(lists: Any, rounds: int, cost: CostModel) -> tuple[set[str], Floats]:
    """All kinds of prompts, and a person's seconds by the end of each round."""
    names, which = words_of(lists.flatten())
    prices = np.array([cost.of_round(name) for name in names], dtype=float)
    prompt_cost = spread(lists, prices[which], 0.0, rounds)
    return set(names), np.asarray(np.cumsum(prompt_cost, axis=1) + cost.per_object)


def _typical_encode(run: Results) -> dict[tuple[str, str], float]:
    """A model's median seconds to encode a scene: the first of a worker also pays for loading."""
    table = run.sql("""
        select model, dataset, median(encode) as typical
        from (select distinct model, dataset, scene, unnest(seconds_encode) as encode
              from sessions) group by all order by model, dataset
    """)
    return {(r["model"], r["dataset"]): r["typical"] or 0.0 for r in table.to_pylist()}


def measures_of(run: Results) -> list[str]:
    """Measures other than IoU that the rows hold, taken in the run or scored later, by name."""
    found = [name.replace("_", "-") for name in run.columns() if name not in _NO_MEASURE]
    return [name for name in found if name != "iou"]


def goals_of(run: Results) -> Goals:
    """The goals given with `--goal`, else the usual ones.

    Sessions that ended at a goal (`--until`) are known up to that goal only.
    """
    goals, end = Goals.of(run.settings.get("goal")), until(run.plan)
    if end is None:
        return goals
    if run.settings.get("goal") is not None:
        beyond = [goal for goal in goals.all if not end.covers(goal)]
        if beyond:
            raise BadInput(
                f"goal '{beyond[0].tag}' is not known: sessions of this run ended at {end.text} "
                "(--until); run it again without --until"
            )
        return goals
    known = tuple(goal for goal in goals.all if end.covers(goal))
    all_goals = known if end in known else (*known, end)
    return Goals(goals.lead if goals.lead in known else end, all_goals)


def statistics(run: Results) -> list[Statistic]:
    """The statistics of a run: its goals, measures and rounds.

    Where sessions ended at a goal there is no quality after later rounds, and no area.
    """
    early, goals, measures = until(run.plan) is not None, goals_of(run), measures_of(run)
    shown = [k for k in ROUNDS if k <= (1 if early else run.plan.rounds)]
    made: list[Statistic] = []
    for goal in goals.all:
        lead = goal == goals.lead
        made += [clicks_to(goal, lead=lead), failures_at(goal), never_reached(goal)]
    for name in ("iou", *measures):
        made += [] if early else [area(name)]
        made += [quality_after(name, k) for k in shown]
    made += [seconds_until(goal, lead=goal == goals.lead) for goal in goals.all]
    if "redrawn-path" in measures:
        made += [by_clicks_until(goals.lead), clicks_that_pay(goals.lead)]
    return [*made, waiting_until(goals.lead), *_MACHINE, *RESPONSES]


def paper_layout(run: Results) -> PaperLayout:
    """Clicks to each goal, failures at the leading one, areas."""
    goals = goals_of(run)
    usual = [goal for goal in (Goal(0.85), Goal(0.9)) if goal in goals.all]
    shown = usual if run.settings.get("goal") is None and usual else list(goals.all)
    *others, last = shown
    firsts = ", ".join(g.short if last.text == f"{last.short} IoU" else g.text for g in others)
    listed = " and ".join(filter(None, (firsts, last.text)))
    return PaperLayout(
        {
            **{clicks_to(g).name: f"NoC@{g.tag}" for g in shown},
            failures_at(goals.lead).name: f"NoF@{goals.lead.tag}",
            "auc": "AuC",
            "boundary-auc": "BIoU",
        },
        f"Clicks to {listed}, failures, areas under IoU and Boundary IoU (%)",
    )


_statistic = partial(Statistic, of=ClickSessions, better="lower")
_TESTED: dict[bool, Tested] = {True: "yes", False: "on request"}


def with_touch_up(group: ClickSessions, goal: Goal) -> tuple[Floats, Floats]:
    """Least seconds, and after how many clicks; by clicks alone where `redrawn-path` is unknown."""
    curves, limit = group.towards(goal)
    if group.contour_px is None or "redrawn-path" not in group.others:
        return _by_clicks(group, goal), group.unless_met(goal, rounds_to(curves, limit))
    seconds, clicks = seconds_with_touch_up(
        group.cost, curves, group.spent, limit, group.curves("redrawn-path"), group.contour_px,
        typical=(group.typical_px, float(group.cost.drawing(group.typical_px))),
    )  # fmt: skip
    return group.unless_met(goal, seconds, group.cost.per_object), group.unless_met(goal, clicks)


def _by_clicks(group: ClickSessions, goal: Goal) -> Floats:
    curves, limit = group.towards(goal)
    seconds = seconds_to(group.cost, curves, group.spent, limit, group.contour_px)
    return group.unless_met(goal, seconds, group.cost.per_object)


def _waiting(group: ClickSessions, goal: Goal) -> Floats:
    curves, limit = group.towards(goal)
    return group.unless_met(goal, waiting_to(curves, group.answer, group.encode, limit))


def _of_goal(
    name: str, title: str, unit: str, digits: int,
    values: Callable[[ClickSessions, Goal], Floats], *, effort: Effort = "",
    waiting: Callable[[ClickSessions, Goal], Floats] | None = None, **more: Any,
) -> Callable[..., Statistic]:  # fmt: skip
    """A statistic for each goal, whose name and title it fills in.

    Differences at the leading goal are tested.
    """

    def made(goal: Goal, *, lead: bool = False) -> Statistic:
        words = {"tag": goal.tag, "text": goal.text}
        facts = {"tested": _TESTED[lead], "effort": effort if lead else "", **more}
        facts |= {"waiting": lambda g: waiting(g, goal)} if waiting else {}
        given = (name.format(**words), title.format(**words), unit, digits)
        return _statistic(*given, values=lambda g: values(g, goal), **facts)

    return made


clicks_to = _of_goal(
    "noc@{tag}", "NoC@{tag}", "clicks", 2,
    lambda g, goal: g.unless_met(goal, rounds_to(*g.towards(goal))), effort="clicks",
)  # fmt: skip
"""NoC@q: rounds until the goal is first reached; all rounds where it never is."""
failures_at = _of_goal(
    "nof@{tag}", "NoF@{tag}", "objects", 0,
    lambda g, goal: g.unless_met(goal, failed(*g.towards(goal), g.protocol).astype(float)),
    interval=count_interval,
)  # fmt: skip
"""NoF@q: objects that fail to reach the goal, as the protocol counts them."""
never_reached = _of_goal(
    "never@{tag}", "never reach {text}", "objects", 0,
    lambda g, goal: g.unless_met(goal, (~reached(*g.towards(goal))).astype(float)),
    interval=count_interval,
)  # fmt: skip
"""Objects that never reach the goal, in either protocol."""
seconds_until = _of_goal(
    "seconds-to-{tag}", "annotation time to {text}", "s per object", 1,
    lambda g, goal: with_touch_up(g, goal)[0], effort="seconds", waiting=_waiting,
)  # fmt: skip
"""A person's seconds until the goal; where it is never reached, drawing by hand is added.

Where `redrawn-path` was measured, masks are corrected by hand as soon as that is cheaper.
"""
by_clicks_until = _of_goal(
    "seconds-by-clicks-to-{tag}", "time to {text} by clicks alone", "s per object", 1, _by_clicks
)
"""A person's seconds until the goal if masks are never corrected by hand."""
clicks_that_pay = _of_goal(
    "clicks-before-touch-up-to-{tag}", "clicks before correcting by hand", "clicks", 2,
    lambda g, goal: with_touch_up(g, goal)[1], better="",
)  # fmt: skip
"""Clicks after which correcting by hand, or the goal itself, is cheapest."""
waiting_until = _of_goal(
    "waiting-to-{tag}", "waiting to {text}", "s per object", 2, _waiting, tested="no"
)
"""Measured seconds that a person waits for the model until the goal."""


def area(measure: str) -> Statistic:
    """AuC: the mean of a measure over the rounds, by trapezoids."""
    unit, better, percent = _shown(measure)
    over = "AuC" if percent or not unit else "mean over clicks"
    title = f"{_TITLES.get(measure, measure)} {over}"
    name = {"iou": "auc", "boundary-iou": "boundary-auc"}.get(measure, f"{measure}-auc")
    tested = _TESTED[measure not in ("boundary-iou", "added-path", "redrawn-path")]
    return _statistic(
        name, title, unit, better=better, percent=percent, tested=tested,
        values=lambda g: area_under(g.curves(measure)),
    )  # fmt: skip


def quality_after(measure: str, k: int) -> Statistic:
    title, (unit, better, percent) = _TITLES.get(measure, measure), _shown(measure)
    return _statistic(
        f"{measure}@{k}", f"{title}@{k}", unit, 1 if percent else 2, better=better,
        percent=percent, values=lambda g: at_round(g.curves(measure), k),
        tested=_TESTED[(measure, k) == ("iou", 1)],
    )  # fmt: skip


_TITLES = {
    "iou": "IoU",
    "boundary-iou": "Boundary IoU",
    "redrawn-path": "contour to correct",
    "added-path": "contour to add",
    "touch-up": "vertices to correct",
}


def _shown(measure: str) -> tuple[str, Better, bool]:
    """Unit and direction of a measure, and whether it is a share that is shown in percent.

    A measure in a file of the user's own is not loaded.
    """
    card = catalogue.measures.make(measure) if measure in catalogue.measures.names() else None
    if not isinstance(card, Measure):
        return "", "", False
    share = card.range == (0, 1)
    return "%" if share else card.units[0], card.better, share


def _per_prompt(seconds: Floats, prompt_cost: Floats) -> Floats:
    """Mean seconds per round of each object, over the rounds in which a prompt was given."""
    counts = np.maximum((prompt_cost > 0).sum(axis=1), 1)
    return np.asarray(seconds.sum(axis=1) / counts)


_machine = partial(_statistic, tested="no")
_MACHINE = [
    _machine("seconds-predict", "predict", "s per round", 3,
             values=lambda g: _per_prompt(g.answer, g.prompt_cost)),
    _machine("seconds-user", "simulated user", "s per round", 4,
             values=lambda g: _per_prompt(g.busy, g.prompt_cost)),
    _machine("seconds-encode", "encode", "s, an object's share", values=lambda g: g.encode),
]  # fmt: skip
"""Measured seconds of machines."""
