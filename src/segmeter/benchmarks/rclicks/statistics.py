"""Groups of a run (curves, first clicks, effects) and the statistics of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from segmeter.analysis.responses import STATISTICS as RESPONSES
from segmeter.analysis.responses import response_groups
from segmeter.benchmarks.rclicks.effects import EFFECTS, Effect, excess_of, interval_of, nulls
from segmeter.clickability.groups import GROUPS
from segmeter.core.benchmarks import Group, Results, SummaryRow, once_per_run
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped
from segmeter.core.scores_by_step import Tables
from segmeter.stats.goals import area_under, at_round, failed, rounds_to
from segmeter.stats.intervals import Floats, Interval, Resampling
from segmeter.stats.null_distributions import Components, Null, components
from segmeter.stats.statistics import Better, Statistic, cards_by_name, resampling
from segmeter.users.humanlike_clicks import ClickingGroup, MapSample
from segmeter.users.replay import ReplayUser

GOAL = 0.9
BASE = "centre-click"
Key = tuple[str, str]


@dataclass(frozen=True)
class GroupCurves(Group):
    """One model, dataset and protocol, all users on the same targets.

    IoU of the clicking groups has the least likely tenth first.
    """

    base: Floats  # IoU of the centre click, `(targets, rounds)`
    groups: Floats  # `(draws, groups, targets, rounds)`

    @cached_property
    def effects(self) -> dict[str, Interval]:
        drawn, tables = resampling(self), {m: self.clickers(m) for m in _NAMES}
        return {name: interval_of(e, tables[e.measure], drawn) for name, e in EFFECTS.items()}

    @cached_property
    def nulls(self) -> dict[str, tuple[Null, Interval]]:
        """The null of every effect that has one, and the excess over it."""
        drawn, made = resampling(self), {}
        for measure in _NAMES:
            clickers = self.clickers(measure)
            asked = [e for e in EFFECTS.values() if e.measure == measure]
            for name, found in nulls(asked, clickers, seed=self.dataset).items():
                made[name] = (found, excess_of(EFFECTS[name], clickers, found, drawn))
        return made

    @cached_property
    def components(self) -> dict[str, Components]:
        """Variance between and within groups, of clicks and of quality."""
        drawn, made = resampling(self), {}
        for measure in ("noc", "auc"):
            by_draw = self.clickers(measure)[:, 1:].reshape(self.size, -1, GROUPS)
            made[measure] = components(by_draw, drawn, self.dataset)
        return {measure: found for measure, found in made.items() if found is not None}

    def clickers(self, measure: str) -> Floats:
        """One number per player, `(targets, 1 + draws * groups)`: the centre click comes first.

        `noc` is clicks to 90 %, `auc` the mean IoU over the rounds in percent, `nof` 1 where 90 %
        is a failure in the trial's protocol.
        """
        every = (self.base, *self.groups.reshape(-1, *self.base.shape))
        number: dict[str, Callable[[Floats], Floats]] = {
            "noc": lambda curves: rounds_to(curves, GOAL),
            "auc": lambda curves: 100 * area_under(curves),
            "nof": lambda curves: failed(curves, GOAL, self.protocol).astype(float),
        }
        return np.stack([number[measure](curves) for curves in every], axis=1)


def groups(run: Results) -> list[Group]:
    """Sessions of groups of people, first clicks, and responses of models to all prompts."""
    return [*group_curves(run), *first_clicks(run), *response_groups(run, lambda user: "")]


def group_curves(run: Results) -> list[GroupCurves]:
    """Every model on every dataset in every protocol; incomplete ones are left out."""
    places = {BASE: (0, 0)}
    for options in (spec.options for spec in run.plan.users if "group" in spec.options):
        user = ClickingGroup(int(options["group"]), int(options.get("draw", 1)))
        places[user.name] = (user.draw, user.group)
    tables = [t for t in Tables.load(run, ["iou"]) if t.user in places]
    found = grouped(tables, lambda t: (t.model, t.dataset, t.protocol)).values()
    made = (_complete({places[t.user]: t for t in members}) for members in found)
    return [group for group in made if group is not None]


def _complete(members: Mapping[tuple[int, int], Tables]) -> GroupCurves | None:
    """All clickers on the objects that all have; `members` are by draw and group."""
    counts = Counter(group for _, group in members)
    draws = min(counts[group] for group in range(1, GROUPS + 1))
    wanted = [(0, 0), *product(range(1, draws + 1), range(1, GROUPS + 1))]
    if not draws or any(place not in members for place in wanted):
        return None
    tables = [members[place] for place in wanted]
    known = set.intersection(*(set(one.keys) for one in tables))
    clusters = {k: c for k, c in zip(tables[0].keys, tables[0].clusters, strict=True) if k in known}
    if not known:
        return None
    # Objects are in the order of their names in every table.
    curves = [one.table("iou")[[key in known for key in one.keys]] for one in tables]
    groups = np.stack(curves[1:]).reshape(draws, GROUPS, *curves[0].shape)
    model, dataset, _, protocol = tables[0].key
    head = (model, dataset, "groups", protocol, tuple(clusters), tuple(clusters.values()))
    return GroupCurves(*head, curves[0], groups)


class FirstClicks(Tables):
    """IoU after one click, of everyone who clicked; the group's user is `people` or `samples`."""

    @property
    def scores(self) -> list[Floats]:
        return [np.array(scores, float) for scores in self.fact("iou")]

    def means(self) -> Floats:
        return np.array([s.mean() for s in self.scores])

    def spreads(self) -> Floats:
        """Standard deviation on each target; zero where only one person clicked.

        The paper divides by n, the corrected protocol by n - 1.
        """
        ddof = 1 if self.protocol == "corrected" else 0
        return np.array([s.std(ddof=ddof) if s.size > ddof else 0.0 for s in self.scores])

    def noise(self) -> Floats:
        """Each target's noise-to-signal ratio; 1e-9 is the original's guard against a mean of 0."""
        return self.spreads() / (self.means() + 1e-9)


def first_clickers(run: Results) -> dict[str, list[str]]:
    """Names of the users who gave one click only: recorded people, and draws from the map."""

    def compute() -> dict[str, list[str]]:
        held = run.sql('select distinct "user" from rows order by "user"')["user"].to_pylist()
        numbers = range(1, len(held) + 1)
        people = {ReplayUser("", number).name for number in numbers}
        samples = {MapSample(number).name for number in numbers}
        known = {"people": people, "samples": samples}
        return {who: [user for user in held if user in names] for who, names in known.items()}

    return once_per_run(run, "first clickers", compute)


def first_clicks(run: Results) -> list[FirstClicks]:
    """The first clicks of a run by model, dataset and protocol; empty if there are none."""
    return [
        replace(tables, user=who)
        for who, names in first_clickers(run).items()
        for tables in FirstClicks.load(
            run, ["iou"], axis="user", by=("model", "dataset", "protocol"),
            where=f"round = 1 and list_contains({names}, \"user\")",
        )
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelFindings:
    """All that is known about one model on one dataset in one protocol, in printed units.

    `rows` are those of the summary by statistic; `first` are the first clicks by who gave them;
    `base_first` is the centre click's first click, on the objects that people clicked where there
    are any.
    """

    trial: GroupCurves
    rows: Mapping[str, SummaryRow]
    base_first: Interval
    first: Mapping[str, FirstClicks]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.trial.model, self.trial.dataset, self.trial.protocol

    @property
    def clicks(self) -> FirstClicks | None:
        """Real people's first clicks where there are any, else as many drawn from the map."""
        return self.first.get("people") or self.first.get("samples")

    def p(self, name: str) -> float:
        """p of the null of a statistic; 1 where it has none."""
        found = self.rows.get(f"{name}:p")
        return 1.0 if found is None else found.value


def findings(run: Results) -> list[ModelFindings]:
    """One for every model, dataset and protocol."""
    groups, rows = run.benchmark.groups(run), run.benchmark.summary(run)
    return once_per_run(run, "findings", lambda: findings_of(groups, rows))


def findings_of(groups: Sequence[Group], rows: Iterable[SummaryRow]) -> list[ModelFindings]:
    """ModelFindings on groups of clickers, with their first clicks."""
    trials = [g for g in groups if isinstance(g, GroupCurves)]
    if not trials:
        raise BadInput("the run has no target with the centre click and all groups")
    held, made = grouped(rows, lambda row: row.key), []
    for t in trials:
        same = [g for g in groups if (g.model, g.dataset, g.protocol) == (*t.key[:2], t.protocol)]
        first = {g.user: g for g in same if isinstance(g, FirstClicks)}
        clicked = first["people"].keys if "people" in first else t.keys
        kept = [i for i, key in enumerate(t.keys) if key in clicked]
        drawn = Resampling([t.clusters[i] for i in kept], seed=t.dataset)
        base = drawn.interval(100 * at_round(t.base, 1)[kept])
        own = {row.statistic: row for row in held.get(t.key, ())}
        made.append(ModelFindings(t, own, base, first))
    return made


_NAMES = {"noc": "clicks", "auc": "IoU AuC", "nof": "failures"}
_UNITS = {"noc": "clicks", "auc": "%", "nof": "objects"}
_GAPS = {"dsb": "ΔSB", "dgr": "ΔGR", "dhh": "ΔHH"}
_WORDS = {**_GAPS, "base": "Base", "sample": "Sample", "std": "± std of"}
_FORMS = {
    "": "",
    "ratio": " (ratio of means)",
    "log": " (mean log ratio)",
    "all": " (all draws)",
    "unbiased": " (n - 1, all draws)",
}
"""How an effect differs from the paper's own formula."""


def _of_effect(effect: Effect) -> Statistic:
    """The statistic of an effect: more IoU is better; more clicks, failures and noise are not.

    Models are compared in clicks, quality or failures of the centre click or of people.
    """
    name, role, measure, gap = effect.name, effect.role, effect.measure, effect.role in _GAPS
    title = "NSR@20" if role == "nsr" else f"{_WORDS[role]} {_NAMES[measure]}"
    unit = "points" if gap and measure == "auc" else "%" if effect.percent else _UNITS[measure]
    compared: dict[str, Callable[[GroupCurves], Floats]] = {
        "base": lambda g: g.clickers(measure)[:, 0],
        "sample": lambda g: np.asarray(g.clickers(measure)[:, 1:].mean(axis=1)),
    }
    return Statistic(
        name,
        title + _FORMS[effect.form],
        unit,
        1 if effect.percent or (measure == "nof" and not gap) else 2,
        "higher" if measure == "auc" and role not in ("std", "nsr") else "lower",
        effect.percent,
        whole=lambda g: g.effects[name],
        paired=compared.get(role),
        of=GroupCurves,
        tested="yes" if name in ("sample-noc", "sample-auc") else "on request",
        null=lambda g: g.nulls.get(name),
    )


def _first(name: str, title: str, values: Callable[[Any], Floats], better: Better) -> Statistic:
    return Statistic(name, title, "%", 2, better, True, values, of=FirstClicks)


def _component(measure: str, name: str, part: str, title: str, unit: str = "") -> Statistic:
    """A variance component, for groups with two draws or more."""

    def whole(group: GroupCurves) -> Interval | None:
        found = getattr(group.components.get(measure), part, None)
        return Interval(found, found, found) if isinstance(found, float) else found

    title = f"{title} of {_NAMES[measure]}"
    return Statistic(name, title, unit, 3, "", unit == "%", whole=whole, of=GroupCurves)


CARDS = cards_by_name([
    *map(_of_effect, EFFECTS.values()),
    *(
        statistic
        for m in ("noc", "auc")
        for statistic in (
            _component(m, f"between-{m}", "between", "variance between groups"),
            _component(m, f"within-{m}", "within", "variance within a group"),
            _component(m, f"share-{m}", "share", "share between groups", "%"),
            _component(m, f"share-{m}:p", "p", "p of no share"),
        )
    ),
    Statistic(
        "base-iou@1", "Base@1", "IoU, %", 2, "higher", True,
        lambda g: at_round(g.base, 1), of=GroupCurves,
    ),
    _first("iou@1", "IoU@1", lambda g: g.means(), "higher"),
    _first("std@1", "± std@1", lambda g: g.spreads(), "lower"),
    _first("nsr@1", "NSR@1", lambda g: g.noise(), "lower"),
])  # fmt: skip
"""Effects with their nulls, components of variance, and first clicks."""
STATISTICS = [*CARDS.values(), *RESPONSES]
