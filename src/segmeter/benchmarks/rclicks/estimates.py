"""Estimates: every statistic of a run with its interval, its null and the excess over it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from segmeter.benchmarks.grouping import differences_in, resampling
from segmeter.benchmarks.rclicks.group_curves import GroupCurves, group_curves
from segmeter.benchmarks.rclicks.permutation_nulls import excess_of, nulls
from segmeter.benchmarks.rclicks.real_clicks import FirstClicks, Who, first_clicks
from segmeter.benchmarks.rclicks.statistics import STATISTICS, Statistic, interval_of
from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.core.errors import BadInput
from segmeter.stats.intervals import Floats, Interval, Resampling
from segmeter.stats.nulls import Null
from segmeter.stats.rounds import at_round
from segmeter.stats.variance_components import Components, components

__all__ = [
    "Finding",
    "Findings",
    "differences",
    "differences_of",
    "findings",
    "findings_of",
    "summary",
]

_PARTS = ("noc", "auc")
_WHO: tuple[Who, ...] = ("people", "samples")


@dataclass(frozen=True, slots=True)
class Finding:
    """One statistic: what was seen, what nothing gives, and the difference.

    Numbers are in the units in which they are printed: clicks, percent, points, counts.
    """

    statistic: Statistic
    seen: Interval
    null: Null | None
    excess: Interval | None


@dataclass(frozen=True, slots=True)
class Findings:
    """All that is said about one model on one data set in one protocol."""

    trial: GroupCurves
    by_name: dict[str, Finding]
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
    found = group_curves(run)
    if not found:
        raise BadInput("the run holds no target that the centre click and all groups played")
    singles = {
        (f.model, f.dataset, f.protocol, who): f for who in _WHO for f in first_clicks(run, who)
    }
    made = []
    for trial in found:
        key = (trial.model, trial.dataset, trial.protocol)
        first = {who: singles[*key, who] for who in _WHO if (*key, who) in singles}
        made.append(findings_of(trial, first))
    return made


def summary(run: Results) -> list[SummaryRow]:
    """Every statistic as a row; `:null`, `:excess` and `:p` follow those that have a null."""
    return [row for f in findings(run) for row in _rows(f)]


def differences(run: Results) -> list[Difference]:
    """Every pair of models in clicks and quality with people's clicks."""
    return differences_of(group_curves(run))


def differences_of(members: Sequence[GroupCurves]) -> list[Difference]:
    """All pairs of models; the pairs of a measure are corrected together (Holm)."""
    return differences_in([f"sample-{part}" for part in _PARTS], members, _sampled)


def findings_of(trial: GroupCurves, first: dict[Who, FirstClicks]) -> Findings:
    """What there is to say about one trial, with the first clicks that belong to it."""
    drawn = resampling(trial)
    by_name: dict[str, Finding] = {}
    parts: dict[str, Components] = {}
    for measure in ("noc", "auc", "nof"):
        players = trial.players(measure)
        asked = [s for s in STATISTICS.values() if s.measure == measure]
        null = _nulls(players.tobytes(), players.shape, measure, trial.dataset)
        for statistic in asked:
            by_name[statistic.name] = _finding(statistic, players, null, drawn)
        if measure in _PARTS:
            found = components(trial.by_draw(measure), drawn, trial.dataset)
            if found is not None:
                parts[measure] = found
    return Findings(trial, by_name, parts, _base_first(trial, first), first)


def _base_first(trial: GroupCurves, first: dict[Who, FirstClicks]) -> Interval:
    """The robot's first click, on the targets that people clicked where there are any."""
    clicked = first["people"].scores if "people" in first else trial.keys
    kept = [i for i, key in enumerate(trial.keys) if key in clicked]
    drawn = Resampling([trial.clusters[i] for i in kept], seed=trial.dataset)
    return drawn.interval(100 * at_round(trial.base, 1)[kept])


@lru_cache(maxsize=64)
def _nulls(raw: bytes, shape: tuple[int, int], measure: str, seed: str) -> dict[str, Null]:
    """The nulls of a table of players, kept: a report and its tables ask more than once."""
    import numpy as np

    players = np.frombuffer(raw).reshape(shape)
    return nulls([s for s in STATISTICS.values() if s.measure == measure], players, seed=seed)


def _finding(
    statistic: Statistic, players: Floats, found: dict[str, Null], drawn: Resampling
) -> Finding:
    scale = 100.0 if statistic.percent else 1.0
    seen = interval_of(statistic, players, drawn).times(scale)
    null = found.get(statistic.name)
    if null is None:
        return Finding(statistic, seen, None, None)
    excess = excess_of(statistic, players, null, drawn).times(scale)
    shown = Null(null.mean * scale, null.low * scale, null.high * scale, null.p)
    return Finding(statistic, seen, shown, excess)


def _rows(f: Findings) -> Iterator[SummaryRow]:
    model, dataset, protocol = f.key
    targets = len(f.trial.keys)

    def row(user: str, measure: str, i: Interval | Null, many: int = targets) -> SummaryRow:
        value = i.mean if isinstance(i, Null) else i.value
        return SummaryRow(model, dataset, user, protocol, measure, value, i.low, i.high, many)

    for name, finding in f.by_name.items():
        yield row("groups", name, finding.seen)
    for name, finding in f.by_name.items():
        if finding.null is not None and finding.excess is not None:
            p = finding.null.p
            yield row("groups", f"{name}:null", finding.null)
            yield row("groups", f"{name}:excess", finding.excess)
            yield row("groups", f"{name}:p", Interval(p, p, p))
    for measure, parts in f.parts.items():
        yield row("groups", f"between-{measure}", parts.between)
        yield row("groups", f"within-{measure}", parts.within)
        yield row("groups", f"share-{measure}", parts.share.times(100))
        yield row("groups", f"share-{measure}:p", Interval(parts.p, parts.p, parts.p))
    yield row("groups", "base-iou@1", f.base_first)
    for who, clicks in f.first.items():
        drawn = Resampling(clicks.clusters, seed=dataset)
        for name, interval in clicks.statistics(drawn).items():
            yield row(who, name, interval, len(clicks.scores))


def _sampled(trial: GroupCurves, measure: str) -> Floats:
    """One value per target: the mean over all groups and draws."""
    players: Floats = trial.players(measure.removeprefix("sample-"))[:, 1:].mean(axis=1)
    return players
