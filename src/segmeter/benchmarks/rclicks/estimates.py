"""Estimates: every effect of a group with its interval, its null and the excess over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from segmeter.benchmarks.declared import once_per_run
from segmeter.benchmarks.rclicks import Rclicks
from segmeter.benchmarks.rclicks.effects import EFFECTS, Effect, interval_of
from segmeter.benchmarks.rclicks.group_curves import GroupCurves
from segmeter.benchmarks.rclicks.permutation_nulls import excess_of, nulls
from segmeter.benchmarks.rclicks.real_clicks import FirstClicks, Who
from segmeter.core.benchmarks import Group, Results
from segmeter.core.errors import BadInput
from segmeter.stats.intervals import Floats, Interval, Resampling
from segmeter.stats.nulls import Null
from segmeter.stats.rounds import at_round
from segmeter.stats.statistics import resampling
from segmeter.stats.variance_components import Components

__all__ = ["EffectEstimate", "Findings", "effects_of", "findings", "findings_of"]


@dataclass(frozen=True, slots=True)
class EffectEstimate:
    """One effect: what was seen, what nothing gives, and the difference."""

    effect: Effect
    seen: Interval
    null: Null | None
    excess: Interval | None

    @property
    def shown(self) -> EffectEstimate:
        """The same in the units in which it is printed: clicks, percent, points, counts."""
        scale = 100.0 if self.effect.percent else 1.0
        null = self.null and Null(
            self.null.mean * scale, self.null.low * scale, self.null.high * scale, self.null.p
        )
        excess = self.excess and self.excess.times(scale)
        return EffectEstimate(self.effect, self.seen.times(scale), null, excess)


@dataclass(frozen=True, slots=True)
class Findings:
    """All that is known about one model on one data set in one protocol, in printed units."""

    trial: GroupCurves
    by_name: dict[str, EffectEstimate]
    parts: dict[str, Components]
    base_first: Interval
    first: dict[Who, FirstClicks]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.trial.model, self.trial.dataset, self.trial.protocol

    def seen(self, name: str) -> Interval:
        return self.by_name[name].seen

    @property
    def drawn(self) -> Resampling:
        return resampling(self.trial)


def findings(run: Results) -> list[Findings]:
    """One for every model, data set and reading."""
    return once_per_run(run, "findings", lambda: _findings(Rclicks().groups(run)))


def _findings(groups: Sequence[Group]) -> list[Findings]:
    trials = [g for g in groups if isinstance(g, GroupCurves)]
    if not trials:
        raise BadInput("the run holds no target that the centre click and all groups played")
    made = []
    for trial in trials:
        first: dict[Who, FirstClicks] = {
            "people" if g.user == "people" else "samples": g
            for g in groups
            if isinstance(g, FirstClicks)
            and (g.model, g.dataset, g.protocol) == (trial.model, trial.dataset, trial.protocol)
        }
        made.append(findings_of(trial, first))
    return made


def findings_of(trial: GroupCurves, first: dict[Who, FirstClicks]) -> Findings:
    """Findings on one group of users, with its first clicks."""
    shown = {name: found.shown for name, found in trial.effects.items()}
    return Findings(trial, shown, trial.components, _base_first(trial, first), first)


def effects_of(trial: GroupCurves) -> dict[str, EffectEstimate]:
    """Every effect of a group with its interval and its null."""
    drawn = resampling(trial)
    made: dict[str, EffectEstimate] = {}
    for measure in ("noc", "auc", "nof"):
        clickers = trial.clickers(measure)
        null = _nulls(clickers.tobytes(), clickers.shape, measure, trial.dataset)
        for effect in EFFECTS.values():
            if effect.measure == measure:
                made[effect.name] = _estimate(effect, clickers, null.get(effect.name), drawn)
    return made


def _estimate(
    effect: Effect, clickers: Floats, null: Null | None, drawn: Resampling
) -> EffectEstimate:
    seen = interval_of(effect, clickers, drawn)
    if null is None:
        return EffectEstimate(effect, seen, None, None)
    return EffectEstimate(effect, seen, null, excess_of(effect, clickers, null, drawn))


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
