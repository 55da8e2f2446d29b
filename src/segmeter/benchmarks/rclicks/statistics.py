"""Statistics of the benchmark: people's clicks, what depends on who clicks, and noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from segmeter.benchmarks.rclicks.effects import EFFECTS, Effect
from segmeter.benchmarks.rclicks.groups import FirstClicks, GroupCurves
from segmeter.stats.goals import at_round
from segmeter.stats.intervals import Floats, Interval
from segmeter.stats.nulls import Null
from segmeter.stats.statistics import Better, Statistic, cards_by_name

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
