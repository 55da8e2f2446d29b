"""Statistics of clicking groups: what the paper prints, and what it should have printed.

A table of players is `(..., targets, players)`: the centre click first, then the groups from
the least to the most likely tenth, draw after draw. Leading axes are relabellings, so that
one definition gives the value, its interval and its null. Three kinds of means occur:

- `mean` over targets of a term; the paper's relative effects are such means of ratios, which
  are above zero even when nothing differs (E[X] E[1/Y] > 1);
- `ratio` of two means, less one;
- `log`: the exponential of the mean log ratio, less one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from segmeter.clickability.groups import GROUPS
from segmeter.stats.intervals import Floats, Interval, Resampling

__all__ = ["STATISTICS", "Statistic", "interval_of", "terms_of", "value_of"]

Kind = Literal["mean", "ratio", "log", "sum", "spread"]
Relabelled = Literal["groups", "base", "draws", "nobody"]
Terms = Callable[[Floats], Floats | tuple[Floats, Floats]]
_HALF = GROUPS // 2


@dataclass(frozen=True, slots=True)
class Statistic:
    """One number of a trial.

    Attributes
    ----------
    name
        As rows of a summary have it, such as `dgr-noc`.
    measure
        What a player's number is: `noc`, `auc` or `nof`.
    terms
        A target's part, `(..., targets)`; of a ratio the pair above and below the line.
    relabelled
        Who changes places within a target when nothing differs: groups among themselves,
        the centre click with all of them, all draws of all groups, or nobody: then
        relabelling changes nothing and there is no null.
    all_draws
        Whether all draws are used; else the first one, as in the paper.
    percent
        Whether the number is a fraction that is printed times 100.
    """

    name: str
    measure: str
    kind: Kind
    terms: Terms
    relabelled: Relabelled = "nobody"
    all_draws: bool = False
    percent: bool = False


def value_of(statistic: Statistic, players: Floats) -> Floats:
    """The statistic of each table of players, over the leading axes."""
    terms = statistic.terms(_seen(statistic, players))
    match statistic.kind, terms:
        case "ratio", (above, below):
            return np.asarray(above.mean(axis=-1) / below.mean(axis=-1) - 1)
        case "log", np.ndarray():
            return np.asarray(np.expm1(terms.mean(axis=-1)))
        case "sum", np.ndarray():
            return np.asarray(terms.sum(axis=-1))
        case "spread", np.ndarray():  # (..., targets, groups)
            return np.asarray(terms.sum(axis=-2).std(axis=-1))
        case "mean", np.ndarray():
            return np.asarray(terms.mean(axis=-1))
    raise TypeError(statistic.name)


def interval_of(statistic: Statistic, players: Floats, drawn: Resampling) -> Interval:
    """The statistic with its interval, images drawn anew."""
    terms = statistic.terms(_seen(statistic, players))
    value = float(value_of(statistic, players))
    targets = players.shape[-2]
    match statistic.kind, terms:
        case "ratio", (above, below):
            # To first order a ratio is the mean of what each target adds to it.
            found = drawn.interval((above - (value + 1) * below) / below.mean() + value)
            return Interval(value, found.low, found.high)
        case "log", np.ndarray():
            found = drawn.interval(terms)
            return Interval(value, float(np.expm1(found.low)), float(np.expm1(found.high)))
        case "sum", np.ndarray():
            found = drawn.interval(terms)
            return Interval(value, found.low * targets, found.high * targets)
        case "spread", np.ndarray():
            if drawn.clusters == 1:
                return Interval(value, float("nan"), float("nan"))
            spreads = targets * drawn.means(terms).std(axis=1)
            low, high = np.quantile(spreads, [0.025, 0.975])
            return Interval(value, float(low), float(high))
        case _, np.ndarray():
            return drawn.interval(terms)
    raise TypeError(statistic.name)


def terms_of(statistic: Statistic, players: Floats) -> Floats:
    """Each target's part of a statistic that is a mean or a sum of them."""
    terms = statistic.terms(_seen(statistic, players))
    if isinstance(terms, tuple):
        raise TypeError(f"{statistic.name} is no mean of parts")
    return terms


def _seen(statistic: Statistic, players: Floats) -> Floats:
    return players if statistic.all_draws else players[..., : GROUPS + 1]


def _base(players: Floats) -> Floats:
    return players[..., 0]


def _groups(players: Floats) -> Floats:
    """Groups with their draws averaged, `(..., targets, groups)`."""
    several = players[..., 1:]
    draws = several.shape[-1] // GROUPS
    return np.asarray(several.reshape(*several.shape[:-1], draws, GROUPS).mean(axis=-2))


def _sample(players: Floats) -> Floats:
    return np.asarray(_groups(players).mean(axis=-1))


def _spread(ddof: int) -> Terms:
    return lambda players: np.asarray(_groups(players).std(axis=-1, ddof=ddof))


def _noise_to_signal(ddof: int) -> Terms:
    """Spread over mean; zero where the mean is."""

    def terms(players: Floats) -> Floats:
        groups = _groups(players)
        mean = groups.mean(axis=-1)
        spread = groups.std(axis=-1, ddof=ddof)
        return np.asarray(np.divide(spread, mean, out=np.zeros_like(mean), where=mean > 0))

    return terms


def _ends(players: Floats) -> tuple[Floats, Floats]:
    groups = _groups(players)
    return groups[..., 0], groups[..., -1]


def _halves(players: Floats) -> tuple[Floats, Floats]:
    """The less and the more likely half, merged."""
    groups = _groups(players)
    return groups[..., :_HALF].mean(axis=-1), groups[..., _HALF:].mean(axis=-1)


def _against_base(players: Floats) -> tuple[Floats, Floats]:
    return _sample(players), _base(players)


def _relative(pair: Callable[[Floats], tuple[Floats, Floats]]) -> Terms:
    def terms(players: Floats) -> Floats:
        above, below = pair(players)
        return np.asarray((above - below) / below)

    return terms


def _logarithm(pair: Callable[[Floats], tuple[Floats, Floats]]) -> Terms:
    def terms(players: Floats) -> Floats:
        above, below = pair(players)
        return np.asarray(np.log(above) - np.log(below))

    return terms


def _gap(pair: Callable[[Floats], tuple[Floats, Floats]]) -> Terms:
    def terms(players: Floats) -> Floats:
        above, below = pair(players)
        return np.asarray(above - below)

    return terms


def _paired_halves(players: Floats) -> Floats:
    """The paper's: each of five groups against the one five tenths up, never merged."""
    groups = _groups(players)
    low, high = groups[..., :_HALF], groups[..., _HALF:]
    return np.asarray(((low - high) / high).mean(axis=-1))


def _published() -> list[Statistic]:
    """Everything of the paper's tables 9 to 12 that needs groups, under its own formula."""
    made = []
    for m in ("noc", "auc", "nof"):
        over = "sum" if m == "nof" else "mean"
        kind: Kind = "sum" if over == "sum" else "mean"
        made += [
            Statistic(f"base-{m}", m, kind, _base),
            Statistic(f"sample-{m}", m, kind, _sample),
        ]
        if m == "nof":
            made.append(Statistic("std-nof", m, "spread", _groups, "groups"))
        else:
            made.append(Statistic(f"std-{m}", m, "mean", _spread(0)))
        if m == "noc":
            made += [
                Statistic("dsb-noc", m, "mean", _relative(_against_base), "base", percent=True),
                Statistic("dgr-noc", m, "mean", _relative(_ends), "groups", percent=True),
                Statistic("dhh-noc", m, "mean", _paired_halves, "groups", percent=True),
            ]
        else:
            made += [
                Statistic(f"dsb-{m}", m, kind, _gap(_against_base), "base"),
                Statistic(f"dgr-{m}", m, kind, _gap(_ends), "groups"),
                Statistic(f"dhh-{m}", m, kind, _gap(_halves), "groups"),
            ]
    made.append(Statistic("nsr", "auc", "mean", _noise_to_signal(0), percent=True))
    return made


def _sound() -> list[Statistic]:
    """The same questions without the bias, from all draws."""
    made = []
    pairs = (("dsb", _against_base, "base"), ("dgr", _ends, "draws"), ("dhh", _halves, "draws"))
    for name, pair, relabelled in pairs:
        who: Relabelled = "base" if relabelled == "base" else "draws"
        made += [
            Statistic(f"{name}-noc-ratio", "noc", "ratio", pair, who, True, True),
            Statistic(f"{name}-noc-log", "noc", "log", _logarithm(pair), who, True, True),
            Statistic(f"{name}-auc-all", "auc", "mean", _gap(pair), who, True),
            Statistic(f"{name}-nof-all", "nof", "sum", _gap(pair), who, True),
        ]
    for m in ("noc", "auc"):
        made.append(Statistic(f"std-{m}-unbiased", m, "mean", _spread(1), "draws", True))
    made.append(Statistic("nsr-unbiased", "auc", "mean", _noise_to_signal(1), "draws", True, True))
    return made


STATISTICS: dict[str, Statistic] = {s.name: s for s in (*_published(), *_sound())}
