"""Statistics of clicking groups: what the paper prints, and what it should have printed.

A table of users is `(..., objects, users)`: the centre click first, then the groups from the
least to the most likely tenth, draw after draw. Leading axes are relabellings, so that
one definition gives the value, its interval and its null. Three kinds of means occur:

- `mean` over targets of a term; the paper's relative effects are such means of ratios, which
  are above zero even when nothing differs (E[X] E[1/Y] > 1);
- `ratio` of two means, less one;
- `log`: the exponential of the mean log ratio, less one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from segmeter.clickability.groups import GROUPS
from segmeter.core.seeds import generator
from segmeter.stats.intervals import Floats, Interval, Resampling
from segmeter.stats.nulls import Null, null_of, permuted_within

Kind = Literal["mean", "ratio", "log", "sum", "spread"]
Relabelled = Literal["groups", "base", "draws", "none"]
Terms = Callable[[Floats], Floats | tuple[Floats, Floats]]
_HALF = GROUPS // 2


@dataclass(frozen=True, slots=True)
class Effect:
    """A number of a table of users, before it is a statistic of a group.

    Attributes
    ----------
    role
        What is asked: `base`, `sample`, `std`, `nsr`, or the differences `dsb`, `dgr`, `dhh`.
    measure
        What a player's number is: `noc`, `auc` or `nof`.
    terms
        A target's part, `(..., targets)`; of a ratio the pair above and below the line.
    relabelled
        Who changes places within a target when nothing differs: groups among themselves,
        the centre click with all of them, all draws of all groups, or none: then
        relabelling changes nothing and there is no null.
    all_draws
        Whether all draws are used; else the first one, as in the paper.
    percent
        Whether the number is a fraction that is printed times 100.
    form
        What sets it apart from the paper's formula: `ratio`, `log`, `all` draws, `unbiased`.
    """

    role: str
    measure: str
    kind: Kind
    terms: Terms
    relabelled: Relabelled = "none"
    all_draws: bool = False
    percent: bool = False
    form: str = ""

    @property
    def name(self) -> str:
        """As rows of a summary have it, such as `dgr-noc` or `dgr-noc-ratio`."""
        measure = "" if self.role == "nsr" else self.measure
        return "-".join(filter(None, (self.role, measure, self.form)))


def value_of(statistic: Effect, simulated_sessions: Floats) -> Floats:
    """The statistic of each table of clickers, over the leading axes."""
    terms = statistic.terms(_seen(statistic, simulated_sessions))
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


def interval_of(statistic: Effect, simulated_sessions: Floats, drawn: Resampling) -> Interval:
    """The statistic with its bootstrap interval over images."""
    terms = statistic.terms(_seen(statistic, simulated_sessions))
    value = float(value_of(statistic, simulated_sessions))
    targets = simulated_sessions.shape[-2]
    match statistic.kind, terms:
        case "ratio", (above, below):
            found = drawn.ratio(above, below)
            return Interval(value, found.low - 1, found.high - 1)
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


def terms_of(statistic: Effect, simulated_sessions: Floats) -> Floats:
    """Each target's part of a statistic that is a mean or a sum of them."""
    terms = statistic.terms(_seen(statistic, simulated_sessions))
    if isinstance(terms, tuple):
        raise TypeError(f"{statistic.name} is no mean of parts")
    return terms


def _seen(statistic: Effect, simulated_sessions: Floats) -> Floats:
    return simulated_sessions if statistic.all_draws else simulated_sessions[..., : GROUPS + 1]


def _base(simulated_sessions: Floats) -> Floats:
    return simulated_sessions[..., 0]


def _groups(simulated_sessions: Floats) -> Floats:
    """Groups with their draws averaged, `(..., targets, groups)`."""
    several = simulated_sessions[..., 1:]
    draws = several.shape[-1] // GROUPS
    return np.asarray(several.reshape(*several.shape[:-1], draws, GROUPS).mean(axis=-2))


def _sample(simulated_sessions: Floats) -> Floats:
    return np.asarray(_groups(simulated_sessions).mean(axis=-1))


def _spread(ddof: int) -> Terms:
    return lambda simulated_sessions: np.asarray(
        _groups(simulated_sessions).std(axis=-1, ddof=ddof)
    )


def _noise_to_signal(ddof: int) -> Terms:
    """Spread over mean; zero where the mean is."""

    def terms(simulated_sessions: Floats) -> Floats:
        groups = _groups(simulated_sessions)
        mean = groups.mean(axis=-1)
        spread = groups.std(axis=-1, ddof=ddof)
        return np.asarray(np.divide(spread, mean, out=np.zeros_like(mean), where=mean > 0))

    return terms


def _ends(simulated_sessions: Floats) -> tuple[Floats, Floats]:
    groups = _groups(simulated_sessions)
    return groups[..., 0], groups[..., -1]


def _halves(simulated_sessions: Floats) -> tuple[Floats, Floats]:
    """The less and the more likely half, merged."""
    groups = _groups(simulated_sessions)
    return groups[..., :_HALF].mean(axis=-1), groups[..., _HALF:].mean(axis=-1)


def _against_base(simulated_sessions: Floats) -> tuple[Floats, Floats]:
    return _sample(simulated_sessions), _base(simulated_sessions)


def _relative(pair: Callable[[Floats], tuple[Floats, Floats]]) -> Terms:
    def terms(simulated_sessions: Floats) -> Floats:
        above, below = pair(simulated_sessions)
        return np.asarray((above - below) / below)

    return terms


def _logarithm(pair: Callable[[Floats], tuple[Floats, Floats]]) -> Terms:
    def terms(simulated_sessions: Floats) -> Floats:
        above, below = pair(simulated_sessions)
        return np.asarray(np.log(above) - np.log(below))

    return terms


def _gap(pair: Callable[[Floats], tuple[Floats, Floats]]) -> Terms:
    def terms(simulated_sessions: Floats) -> Floats:
        above, below = pair(simulated_sessions)
        return np.asarray(above - below)

    return terms


def _paired_halves(simulated_sessions: Floats) -> Floats:
    """The paper's: each of five groups against the one five tenths up, never merged."""
    groups = _groups(simulated_sessions)
    low, high = groups[..., :_HALF], groups[..., _HALF:]
    return np.asarray(((low - high) / high).mean(axis=-1))


def _published() -> list[Effect]:
    """Everything of the paper's tables 9 to 12 that needs groups, under its own formula."""
    made = []
    for m in ("noc", "auc", "nof"):
        over = "sum" if m == "nof" else "mean"
        kind: Kind = "sum" if over == "sum" else "mean"
        made += [
            Effect("base", m, kind, _base),
            Effect("sample", m, kind, _sample),
        ]
        if m == "nof":
            made.append(Effect("std", m, "spread", _groups, "groups"))
        else:
            made.append(Effect("std", m, "mean", _spread(0)))
        if m == "noc":
            made += [
                Effect("dsb", m, "mean", _relative(_against_base), "base", percent=True),
                Effect("dgr", m, "mean", _relative(_ends), "groups", percent=True),
                Effect("dhh", m, "mean", _paired_halves, "groups", percent=True),
            ]
        else:
            made += [
                Effect("dsb", m, kind, _gap(_against_base), "base"),
                Effect("dgr", m, kind, _gap(_ends), "groups"),
                Effect("dhh", m, kind, _gap(_halves), "groups"),
            ]
    made.append(Effect("nsr", "auc", "mean", _noise_to_signal(0), percent=True))
    return made


def _corrected() -> list[Effect]:
    """The same questions without the bias, from all draws."""
    made = []
    pairs = (("dsb", _against_base, "base"), ("dgr", _ends, "draws"), ("dhh", _halves, "draws"))
    for name, pair, relabelled in pairs:
        who: Relabelled = "base" if relabelled == "base" else "draws"
        made += [
            Effect(name, "noc", "ratio", pair, who, True, True, "ratio"),
            Effect(name, "noc", "log", _logarithm(pair), who, True, True, "log"),
            Effect(name, "auc", "mean", _gap(pair), who, True, form="all"),
            Effect(name, "nof", "sum", _gap(pair), who, True, form="all"),
        ]
    for m in ("noc", "auc"):
        made.append(Effect("std", m, "mean", _spread(1), "draws", True, form="unbiased"))
    noise = _noise_to_signal(1)
    made.append(Effect("nsr", "auc", "mean", noise, "draws", True, True, "unbiased"))
    return made


EFFECTS: dict[str, Effect] = {s.name: s for s in (*_published(), *_corrected())}


_MOST, _FEWEST = 2000, 500  # relabellings; many targets need fewer for the same precision
_ENOUGH = 500_000  # relabelled targets in all


def nulls(
    statistics: Sequence[Effect],
    clickers: Floats,
    *,
    relabellings: int | None = None,
    seed: object = 0,
) -> dict[str, Null]:
    """The null of each statistic of one measure, from a table `(targets, clickers)`.

    By default 2000 relabellings, of very many targets fewer, but never below 500.
    """
    many = relabellings or min(_MOST, max(_FEWEST, _ENOUGH // len(clickers)))
    found: dict[str, Null] = {}
    for who in ("groups", "base", "draws"):
        asked = [s for s in statistics if s.relabelled == who]
        if not asked:
            continue
        values: dict[str, list[Floats]] = {s.name: [] for s in asked}
        terms = {s.name: np.zeros(len(clickers)) for s in asked if s.kind in ("mean", "sum")}
        for relabelled in _relabelled(clickers, who, many, seed):
            for s in asked:
                values[s.name].append(value_of(s, relabelled))
                if s.name in terms:
                    terms[s.name] += terms_of(s, relabelled).sum(axis=0) / many
        for s in asked:
            seen = float(value_of(s, clickers))
            found[s.name] = null_of(np.concatenate(values[s.name]), seen, terms.get(s.name))
    return found


def excess_of(statistic: Effect, clickers: Floats, null: Null, drawn: Resampling) -> Interval:
    """How far a statistic exceeds its null, with a joint bootstrap over images."""
    if null.terms is not None:
        gaps = terms_of(statistic, clickers) - null.terms
        scale = len(clickers) if statistic.kind == "sum" else 1
        return drawn.interval(gaps).times(scale)
    seen = interval_of(statistic, clickers, drawn)
    return Interval(seen.value - null.mean, seen.low - null.mean, seen.high - null.mean)


def _relabelled(
    clickers: Floats, who: Relabelled, relabellings: int, seed: object
) -> Iterator[Floats]:
    """Blocks `(relabellings, targets, clickers)` with clickers shuffled within each target."""
    exchanged = {
        "groups": slice(1, GROUPS + 1),
        "draws": slice(1, clickers.shape[1]),
        "base": slice(0, clickers.shape[1]),
    }[who]
    return permuted_within(clickers, exchanged, relabellings, generator("relabelled", who, seed))
