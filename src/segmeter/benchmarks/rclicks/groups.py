"""Groups of a run (curves, first clicks, effects) and the statistics of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, Literal

import numpy as np

from segmeter.benchmarks.declared import once_per_run
from segmeter.benchmarks.rclicks import Rclicks
from segmeter.benchmarks.rclicks.effects import EFFECTS, Effect, excess_of, interval_of, nulls
from segmeter.clickability.groups import GROUPS
from segmeter.core.benchmarks import Group, Results, SummaryRow
from segmeter.core.errors import BadInput
from segmeter.core.models import ProtocolName
from segmeter.core.scores_by_step import Tables, load_tables
from segmeter.stats.goals import area_under, at_round, failed, rounds_to
from segmeter.stats.intervals import Floats, Interval, Resampling
from segmeter.stats.null_distributions import Components, Null, components
from segmeter.stats.statistics import Better, Statistic, cards_by_name, resampling
from segmeter.users.humanlike_clicks import ClickingGroup, MapSample
from segmeter.users.replay import ReplayUser

GOAL = 0.9
BASE = "centre-click"
Who = Literal["people", "samples"]
Key = tuple[str, str]


@dataclass(frozen=True)
class GroupCurves(Group):
    """One model, dataset and reading, all users on the same targets.

    Attributes
    ----------
    base
        IoU of the centre click, `(targets, rounds)`.
    groups
        IoU of the clicking groups, `(draws, groups, targets, rounds)`, the least likely tenth
        first.
    """

    base: Floats
    groups: Floats

    @property
    def draws(self) -> int:
        return len(self.groups)

    @cached_property
    def effects(self) -> dict[str, Interval]:
        """Every effect with its interval."""
        drawn, tables = resampling(self), {m: self.clickers(m) for m in _NAMES}
        return {name: interval_of(e, tables[e.measure], drawn) for name, e in EFFECTS.items()}

    @cached_property
    def nulls(self) -> dict[str, tuple[Null, Interval]]:
        """The null of every effect that has one, and the excess over it."""
        drawn, made = resampling(self), {}
        for measure in _NAMES:
            clickers = self.clickers(measure)
            null = _nulls(clickers.tobytes(), clickers.shape, measure, self.dataset)
            for name, found in null.items():
                made[name] = (found, excess_of(EFFECTS[name], clickers, found, drawn))
        return made

    @cached_property
    def components(self) -> dict[str, Components]:
        """Variance between and within groups, of clicks and of quality."""
        drawn = resampling(self)
        found = {m: components(self.by_draw(m), drawn, self.dataset) for m in ("noc", "auc")}
        return {measure: parts for measure, parts in found.items() if parts is not None}

    def sampled(self, measure: str) -> Floats:
        """One value per object: the mean over all groups and draws."""
        found: Floats = self.clickers(measure)[:, 1:].mean(axis=1)
        return found

    def clickers(self, measure: str) -> Floats:
        """One number per player, `(targets, 1 + draws * groups)`: the centre click comes first.

        `noc` is clicks to 90 %, `auc` the mean IoU over the rounds in percent, `nof` 1 where
        90 % is a failure in the trial's reading.
        """
        every = (self.base, *self.groups.reshape(-1, *self.base.shape))
        number: dict[str, Callable[[Floats], Floats]] = {
            "noc": lambda curves: rounds_to(curves, GOAL),
            "auc": lambda curves: 100 * area_under(curves),
            "nof": lambda curves: failed(curves, GOAL, self.protocol).astype(float),
        }
        return np.stack([number[measure](curves) for curves in every], axis=1)

    def by_draw(self, measure: str) -> Floats:
        """The groups' numbers, `(targets, draws, groups)`."""
        return self.clickers(measure)[:, 1:].reshape(len(self.keys), self.draws, GROUPS)


def group_curves(run: Results) -> list[GroupCurves]:
    """Every model on every dataset in every protocol; incomplete ones are left out."""
    places = {BASE: (0, 0)}
    for options in (spec.options for spec in run.plan.users if "group" in spec.options):
        user = ClickingGroup(int(options["group"]), int(options.get("draw", 1)))
        places[user.name] = (user.draw, user.group)
    found: dict[tuple[str, str, ProtocolName], dict[tuple[int, int], Tables]] = {}
    for tables in load_tables(run, ["iou"]):
        if tables.user in places:
            key = (tables.model, tables.dataset, tables.protocol)
            found.setdefault(key, {})[places[tables.user]] = tables
    made = (_complete(*key, members) for key, members in found.items())
    return [group for group in made if group is not None]


def _complete(
    model: str, dataset: str, protocol: ProtocolName, members: Mapping[tuple[int, int], Tables]
) -> GroupCurves | None:
    """All clickers on the objects that all have; `members` are by draw and group."""
    counts = Counter(group for _, group in members)
    draws = min(counts[group] for group in range(1, GROUPS + 1))
    wanted = [(0, 0), *product(range(1, draws + 1), range(1, GROUPS + 1))]
    if not draws or any(place not in members for place in wanted):
        return None
    base, *others = (members[place] for place in wanted)
    known = set.intersection(set(base.keys), *(set(tables.keys) for tables in others))
    keys = tuple(key for key in base.keys if key in known)
    if not keys:
        return None
    curves = [_of_objects(tables, keys) for tables in (base, *others)]
    groups = np.stack(curves[1:]).reshape(draws, GROUPS, *curves[0].shape)
    clusters = tuple(c for k, c in zip(base.keys, base.clusters, strict=True) if k in known)
    return GroupCurves(model, dataset, "groups", protocol, keys, clusters, curves[0], groups)


def _of_objects(tables: Tables, keys: Sequence[Key]) -> Floats:
    place = {key: line for line, key in enumerate(tables.keys)}
    return tables.table("iou")[[place[key] for key in keys]]


@dataclass(frozen=True, slots=True)
class FirstClicks(Group):
    """IoU after one click, of everybody who clicked; the group's user is `people` or `samples`."""

    scores: Mapping[Key, Floats]

    @property
    def ddof(self) -> int:
        """The paper divides by n, the corrected protocol by n - 1."""
        return 1 if self.protocol == "corrected" else 0

    def means(self) -> Floats:
        return np.array([s.mean() for s in self.scores.values()])

    def spreads(self) -> Floats:
        """Standard deviation on each target; zero where only one person clicked."""
        return np.array([_spread(s, self.ddof) for s in self.scores.values()])

    def noise(self) -> Floats:
        """Each target's noise-to-signal ratio, spread over mean."""
        return np.array([target_nsr(s, self.ddof) for s in self.scores.values()])


def target_nsr(scores: Floats, ddof: int = 0) -> float:
    """Spread over mean; the 1e-9 is the original's guard against a mean of zero."""
    return _spread(scores, ddof) / (float(scores.mean()) + 1e-9)


def first_clickers(run: Results) -> dict[Who, list[str]]:
    """Names of the users who gave one click only: recorded people, and draws from the map."""

    def compute() -> dict[Who, list[str]]:
        held = run.sql('select distinct "user" from rows order by "user"')["user"].to_pylist()
        numbers = range(1, len(held) + 1)
        known: dict[Who, set[str]] = {
            "people": {ReplayUser("", number).name for number in numbers},
            "samples": {MapSample(number).name for number in numbers},
        }
        return {who: [user for user in held if user in names] for who, names in known.items()}

    return once_per_run(run, "first clickers", compute)


def first_clicks(run: Results) -> list[FirstClicks]:
    """The first clicks of a run by model, dataset and protocol; empty if there are none."""
    return [
        FirstClicks(
            tables.model, tables.dataset, who, tables.protocol, tables.keys, tables.clusters,
            dict(zip(tables.keys, (np.array(s, float) for s in tables.fact("iou")), strict=True)),
        )
        for who, names in first_clickers(run).items()
        for tables in load_tables(
            run, ["iou"], axis="user", by=("model", "dataset", "protocol"),
            where=f"round = 1 and list_contains({names}, \"user\")",
        )
    ]  # fmt: skip


def _spread(scores: Floats, ddof: int) -> float:
    return float(scores.std(ddof=ddof)) if scores.size > ddof else 0.0


@dataclass(frozen=True, slots=True)
class Findings:
    """All that is known about one model on one dataset in one protocol, in printed units."""

    trial: GroupCurves
    rows: Mapping[str, SummaryRow]
    base_first: Interval
    first: dict[Who, FirstClicks]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.trial.model, self.trial.dataset, self.trial.protocol

    def seen(self, name: str) -> SummaryRow:
        return self.rows[name]

    def p(self, name: str) -> float:
        """p of the null of a statistic; 1 where it has none."""
        found = self.rows.get(f"{name}:p")
        return 1.0 if found is None else found.value


def findings(run: Results) -> list[Findings]:
    """One for every model, dataset and reading."""
    groups, rows = Rclicks().groups(run), Rclicks().summary(run)
    return once_per_run(run, "findings", lambda: findings_of(groups, rows))


def findings_of(groups: Sequence[Group], rows: Iterable[SummaryRow]) -> list[Findings]:
    """Findings on groups of clickers, with their first clicks."""
    trials = [g for g in groups if isinstance(g, GroupCurves)]
    if not trials:
        raise BadInput("the run has no target with the centre click and all groups")
    first: dict[tuple[str, str, str], dict[Who, FirstClicks]] = {}
    for g in groups:
        if isinstance(g, FirstClicks):
            who: Who = "people" if g.user == "people" else "samples"
            first.setdefault((g.model, g.dataset, g.protocol), {})[who] = g
    held: dict[tuple[str, str, str, str], dict[str, SummaryRow]] = {}
    for row in rows:
        held.setdefault(row.key, {})[row.statistic] = row
    clicks = [first.get((t.model, t.dataset, t.protocol), {}) for t in trials]
    return [
        Findings(t, held.get(t.key, {}), _base_first(t, own), own)
        for t, own in zip(trials, clicks, strict=True)
    ]


def _base_first(trial: GroupCurves, first: dict[Who, FirstClicks]) -> Interval:
    """The centre click's first click, on the objects that people clicked where there are any."""
    clicked = first["people"].scores if "people" in first else trial.keys
    kept = [i for i, key in enumerate(trial.keys) if key in clicked]
    drawn = Resampling([trial.clusters[i] for i in kept], seed=trial.dataset)
    return drawn.interval(100 * at_round(trial.base, 1)[kept])


@lru_cache(maxsize=64)
def _nulls(raw: bytes, shape: tuple[int, int], measure: str, seed: str) -> dict[str, Null]:
    """The nulls of a table of users, kept: a report and its tables ask more than once."""
    clickers = np.frombuffer(raw).reshape(shape)
    return nulls([e for e in EFFECTS.values() if e.measure == measure], clickers, seed=seed)


_UNITS = {"noc": "clicks", "auc": "%", "nof": "objects"}
_NAMES = {"noc": "clicks", "auc": "IoU AuC", "nof": "failures"}
_WHAT = {"dsb": "ΔSB", "dgr": "ΔGR", "dhh": "ΔHH"}
_WORDS = {**_WHAT, "base": "Base", "sample": "Sample", "std": "± std of"}
_TESTED = ("sample-noc", "sample-auc")


_FORMS = {
    "ratio": "ratio of means",
    "log": "mean log ratio",
    "all": "all draws",
    "unbiased": "n - 1, all draws",
}


def effect_title(effect: Effect) -> str:
    """The heading of an effect; in brackets how it differs from the paper's own formula."""
    variant = f" ({_FORMS[effect.form]})" if effect.form else ""
    if effect.role == "nsr":
        return f"NSR@20{variant}"
    return f"{_WORDS[effect.role]} {_NAMES[effect.measure]}{variant}"


def _direction(effect: Effect) -> Better:
    """More IoU is better; more clicks, failures and noise are not."""
    return "higher" if effect.measure == "auc" and effect.role not in ("std", "nsr") else "lower"


def _of_effect(effect: Effect) -> Statistic:
    name = effect.name
    gap = effect.role in _WHAT
    unit = "%" if effect.percent else _UNITS[effect.measure]
    return Statistic(
        name,
        effect_title(effect),
        "points" if gap and effect.measure == "auc" else unit,
        1 if effect.percent or (effect.measure == "nof" and not gap) else 2,
        _direction(effect),
        effect.percent,
        whole=lambda g: g.effects[name],
        paired=_paired(effect),
        of=GroupCurves,
        tested="yes" if name in _TESTED else "on request",
        null=lambda g: g.nulls.get(name),
    )


def _paired(effect: Effect) -> Callable[[GroupCurves], Floats] | None:
    """Clicks, quality or failures of the centre click or of people, object by object."""
    if effect.role == "base":
        return lambda g: g.clickers(effect.measure)[:, 0]
    return (lambda g: g.sampled(effect.measure)) if effect.role == "sample" else None


def _first(name: str, title: str, values: Callable[[Any], Floats], better: Better) -> Statistic:
    return Statistic(name, title, "%", 2, better, True, values, of=FirstClicks)


def _components(measure: str) -> list[Statistic]:
    """Variance components, for groups with two draws or more."""

    def part(
        name: str, title: str, unit: str, get: Callable[[Any], Interval], percent: bool = False
    ) -> Statistic:
        def whole(group: GroupCurves) -> Interval | None:
            found = group.components.get(measure)
            return None if found is None else get(found)

        title = f"{title} of {_NAMES[measure]}"
        return Statistic(name, title, unit, 3, "", percent, whole=whole, of=GroupCurves)

    return [
        part(f"between-{measure}", "variance between groups", "", lambda c: c.between),
        part(f"within-{measure}", "variance within a group", "", lambda c: c.within),
        part(f"share-{measure}", "share between groups", "%", lambda c: c.share, True),
        part(f"share-{measure}:p", "p of no share", "", lambda c: Interval(c.p, c.p, c.p)),
    ]


STATISTICS = [
    *map(_of_effect, EFFECTS.values()),
    *_components("noc"),
    *_components("auc"),
    Statistic(
        "base-iou@1", "Base@1", "IoU, %", 2, "higher", True,
        lambda g: at_round(g.base, 1), of=GroupCurves,
    ),
    _first("iou@1", "IoU@1", lambda g: g.means(), "higher"),
    _first("std@1", "± std@1", lambda g: g.spreads(), "lower"),
    _first("nsr@1", "NSR@1", lambda g: g.noise(), "lower"),
]  # fmt: skip
"""Effects with their nulls, components of variance, and first clicks."""
CARDS = cards_by_name(STATISTICS)
