"""Groups of a run (curves, first clicks, effects) and the statistics of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.declared import once_per_run
from segmeter.benchmarks.rclicks import Rclicks
from segmeter.benchmarks.rclicks.effects import EFFECTS, Effect, excess_of, interval_of, nulls
from segmeter.clickability.groups import GROUPS
from segmeter.core.benchmarks import Curves, Group, Results, SummaryRow
from segmeter.core.errors import BadInput
from segmeter.core.models import ProtocolName
from segmeter.core.scores_by_step import load_tables
from segmeter.stats.goals import area_under, at_round, failed, rounds_to
from segmeter.stats.intervals import Floats, Interval, Resampling
from segmeter.stats.null_distributions import Components, Null, components
from segmeter.stats.statistics import Better, Statistic, cards_by_name, resampling

GOAL = 0.9
BASE = "centre-click"
_GROUP = re.compile(r"clicking-group-(\d+)(?:-draw-(\d+))?")


@dataclass(frozen=True)
class GroupCurves(Group):
    """One model, data set and reading, all users on the same targets.

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
    def effects(self) -> dict[str, EffectEstimate]:
        """Every effect with its interval, its null and the excess over it."""
        return effects_of(self)

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


def group_name(group: int, draw: int = 1) -> str:
    """The user's name in the rows of a run."""
    return f"clicking-group-{group}" + (f"-draw-{draw}" if draw > 1 else "")


def group_curves(run: Results) -> list[GroupCurves]:
    """Every model on every data set in every protocol; incomplete ones are left out."""
    found: dict[tuple[str, str, ProtocolName], dict[str, Curves]] = {}
    for tables in load_tables(run, ["iou"]):
        curves = Curves(*tables.key, tables.keys, tables.clusters, tables.table("iou"))
        key = (curves.model, curves.dataset, curves.protocol)
        found.setdefault(key, {})[curves.user] = curves
    made = (_trial(*key, users) for key, users in found.items())
    return [trial for trial in made if trial is not None]


def _trial(
    model: str, dataset: str, protocol: ProtocolName, users: Mapping[str, Curves]
) -> GroupCurves | None:
    draws = _draws(users)
    names = [[group_name(g, d) for g in range(1, GROUPS + 1)] for d in range(1, draws + 1)]
    wanted = [users.get(name) for name in (BASE, *(n for row in names for n in row))]
    present = [curves for curves in wanted if curves is not None]
    if not draws or len(present) < len(wanted):
        return None
    known = set.intersection(*(set(curves.keys) for curves in present))
    keys = [key for key in present[0].keys if key in known]
    if not keys:
        return None
    tables = [_rows(curves, keys) for curves in present]
    groups = np.stack(tables[1:]).reshape(draws, GROUPS, *tables[0].shape)
    cluster = dict(zip(present[0].keys, present[0].clusters, strict=True))
    clusters = tuple(cluster[key] for key in keys)
    return GroupCurves(model, dataset, "groups", protocol, tuple(keys), clusters, tables[0], groups)


def _draws(users: Iterable[str]) -> int:
    """How many draws every group has."""
    counts = Counter(int(match[1]) for user in users if (match := _GROUP.fullmatch(user)))
    return min(counts[group] for group in range(1, GROUPS + 1))


def _rows(curves: Curves, keys: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
    place = {key: i for i, key in enumerate(curves.keys)}
    return curves.values[[place[key] for key in keys]]


Who = Literal["people", "samples"]
Key = tuple[str, str]
_KINDS: dict[Who, str] = {"people": "replay-%", "samples": "map-sample-%"}


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


def first_clicks(run: Results, who: Who) -> list[FirstClicks]:
    """The first clicks of a run by model, data set and protocol; empty if there are none."""
    table = run.sql(f"""
        select model, dataset, protocol, scene, target, min(cluster) as cluster,
               list(iou order by "user") as scores
        from rows where round = 1 and "user" like '{_KINDS[who]}'
        group by model, dataset, protocol, scene, target
        order by model, dataset, protocol desc, scene, target
    """)
    found: dict[tuple[str, str, ProtocolName], dict[Key, tuple[Floats, str]]] = {}
    for row in table.to_pylist():
        place = (row["model"], row["dataset"], row["protocol"])
        key = (row["scene"], row["target"])
        scores = np.array(row["scores"], dtype=float)
        found.setdefault(place, {})[key] = (scores, row["cluster"] or row["scene"])
    return [
        FirstClicks(
            *place[:2],
            who,
            place[2],
            tuple(targets),
            tuple(cluster for _, cluster in targets.values()),
            {key: scores for key, (scores, _) in targets.items()},
        )
        for place, targets in found.items()
    ]


def _spread(scores: Floats, ddof: int) -> float:
    return float(scores.std(ddof=ddof)) if scores.size > ddof else 0.0


@dataclass(frozen=True, slots=True)
class EffectEstimate:
    """One effect: what was seen, what nothing gives, and the difference."""

    effect: Effect
    seen: Interval
    null: Null | None
    excess: Interval | None


@dataclass(frozen=True, slots=True)
class Findings:
    """All that is known about one model on one data set in one protocol, in printed units."""

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
    """One for every model, data set and reading."""
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
        held.setdefault(row.key, {})[row.measure] = row
    found = []
    for t in trials:
        clicks = first.get((t.model, t.dataset, t.protocol), {})
        found.append(Findings(t, held.get(t.key, {}), _base_first(t, clicks), clicks))
    return found


def effects_of(trial: GroupCurves) -> dict[str, EffectEstimate]:
    """Every effect of a group with its interval and its null."""
    drawn = resampling(trial)
    made: dict[str, EffectEstimate] = {}
    for measure in ("noc", "auc", "nof"):
        clickers = trial.clickers(measure)
        null = _nulls(clickers.tobytes(), clickers.shape, measure, trial.dataset)
        for effect in EFFECTS.values():
            if effect.measure == measure:
                seen, found = interval_of(effect, clickers, drawn), null.get(effect.name)
                excess = None if found is None else excess_of(effect, clickers, found, drawn)
                made[effect.name] = EffectEstimate(effect, seen, found, excess)
    return made


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
_TESTED = ("sample-noc", "sample-auc")


def effect_title(effect: Effect) -> str:
    """The heading of an effect, with its variant in brackets."""
    what = _WHAT.get(effect.role, {"base": "Base", "sample": "Sample"}.get(effect.role, ""))
    if effect.role == "std":
        what = "± std of"
    if effect.role == "nsr":
        return "NSR@20" + _variant(effect)
    return f"{what} {_NAMES[effect.measure]}{_variant(effect)}"


_FORMS = {
    "ratio": "ratio of means",
    "log": "mean log ratio",
    "all": "all draws",
    "unbiased": "n - 1, all draws",
}


def _variant(effect: Effect) -> str:
    """Suffix of its title; empty for the paper's own formula."""
    return f" ({_FORMS[effect.form]})" if effect.form else ""


def _direction(effect: Effect) -> Better:
    """More IoU is better; more clicks, failures and noise are not."""
    return "higher" if effect.measure == "auc" and effect.role not in ("std", "nsr") else "lower"


def _of_effect(effect: Effect) -> Statistic:
    name = effect.name
    gap = effect.role in _WHAT

    def null(group: GroupCurves) -> tuple[Null, Interval] | None:
        found = group.effects[name]
        if found.null is None or found.excess is None:
            return None
        return found.null, found.excess

    unit = "%" if effect.percent else _UNITS[effect.measure]
    return Statistic(
        name,
        effect_title(effect),
        "points" if gap and effect.measure == "auc" else unit,
        1 if effect.percent or (effect.measure == "nof" and not gap) else 2,
        _direction(effect),
        effect.percent,
        whole=lambda g: g.effects[name].seen,
        paired=_paired(effect),
        of=GroupCurves,
        tested="yes" if name in _TESTED else "on request",
        null=null,
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
