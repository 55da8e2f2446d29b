"""Statistics of clicking groups: those printed in the paper, and corrected ones.

A table of users is `(..., objects, users)`: the centre click first, then the groups from the
least to the most likely tenth, draw after draw. Leading axes are relabellings, so that
one definition gives the value, its interval and its null. Three kinds of means occur:

- `mean` over targets of a term; the paper's relative effects are such means of ratios, which
  are above zero even when nothing differs (E[X] E[1/Y] > 1);
- `ratio` of two means, less one;
- `log`: the exponential of the mean log ratio, less one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from segmeter.clickability.groups import GROUPS
from segmeter.core.seeds import generator
from segmeter.stats.intervals import Floats, Interval, Resampling, percentiles
from segmeter.stats.null_distributions import Null, null_of, permuted_within

Kind = Literal["mean", "ratio", "log", "sum", "spread"]
Relabelled = Literal["groups", "base", "draws", "none"]
_HALF = GROUPS // 2


@dataclass(frozen=True, slots=True)
class Effect:
    """A number of a table of users, before it is a statistic of a group.

    `relabelled` are the users that are permuted within a target under the null: the groups, the
    centre click with all groups, all draws of all groups, or none if there is no null.
    """

    role: str  # `base`, `sample`, `std`, `nsr`, or the differences `dsb`, `dgr`, `dhh`
    measure: str  # what a player's number is: `noc`, `auc` or `nof`
    kind: Kind
    relabelled: Relabelled = "none"
    all_draws: bool = False  # else the first one, as in the paper
    percent: bool = False  # a fraction that is printed times 100
    form: str = ""  # unlike the paper's formula: `ratio`, `log`, `all` draws, `unbiased`

    @property
    def name(self) -> str:
        """As rows of a summary have it, such as `dgr-noc` or `dgr-noc-ratio`."""
        measure = "" if self.role == "nsr" else self.measure
        return "-".join(filter(None, (self.role, measure, self.form)))


def value_of(effect: Effect, clickers: Floats) -> Floats:
    """The effect in each table of clickers, over the leading axes."""
    terms = _terms(effect, clickers)
    if effect.kind == "spread":
        return np.asarray(np.stack([term.sum(axis=-1) for term in terms], axis=-1).std(axis=-1))
    if effect.kind == "sum":
        return np.asarray(terms[0].sum(axis=-1))
    means = [np.asarray(term.mean(axis=-1)) for term in terms]
    if effect.kind == "ratio":
        return np.asarray(means[0] / means[1] - 1)
    return np.asarray(np.expm1(means[0])) if effect.kind == "log" else means[0]


def interval_of(effect: Effect, clickers: Floats, drawn: Resampling) -> Interval:
    """The effect with its bootstrap interval over images."""
    terms, targets = _terms(effect, clickers), len(clickers)
    value = float(value_of(effect, clickers))
    if effect.kind == "ratio":
        found = drawn.ratio(*terms)
        return Interval(value, found.low - 1, found.high - 1)
    if effect.kind == "spread":
        draws = drawn.means(np.stack(terms, axis=-1)).std(axis=1)
        return percentiles(value, targets * draws, drawn.clusters)
    found = drawn.interval(terms[0])
    if effect.kind == "log":
        return Interval(value, float(np.expm1(found.low)), float(np.expm1(found.high)))
    return replace(found.times(targets), value=value) if effect.kind == "sum" else found


def _terms(effect: Effect, clickers: Floats) -> tuple[Floats, ...]:
    """Each target's part, `(..., targets)`; of a ratio those above and below the line, of a
    spread those of each group."""
    base, several = clickers[..., 0], clickers[..., 1 : None if effect.all_draws else GROUPS + 1]
    draws = several.shape[-1] // GROUPS
    groups = several.reshape(*several.shape[:-1], draws, GROUPS).mean(axis=-2)
    sample, ddof = np.asarray(groups.mean(axis=-1)), int(effect.form == "unbiased")
    low, high = groups[..., :_HALF], groups[..., _HALF:]
    published = effect.measure == "noc" and not effect.form
    match effect.role:
        case "base":
            return (base,)
        case "sample":
            return (sample,)
        case "std" if effect.kind == "spread":
            return tuple(np.moveaxis(groups, -1, 0))
        case "std":
            return (np.asarray(groups.std(axis=-1, ddof=ddof)),)
        case "nsr":  # zero where the mean is
            spread = groups.std(axis=-1, ddof=ddof)
            return (np.divide(spread, sample, np.zeros_like(sample), where=sample > 0),)
        case "dhh" if published:  # each of five groups against the one five tenths up, never merged
            return (np.asarray(((low - high) / high).mean(axis=-1)),)
        case "dsb":
            above, below = sample, base
        case "dgr":
            above, below = groups[..., 0], groups[..., -1]
        case _:  # the less and the more likely half, merged
            above, below = low.mean(axis=-1), high.mean(axis=-1)
    if effect.kind == "ratio":
        return above, below
    if effect.kind == "log":
        return (np.asarray(np.log(above) - np.log(below)),)
    return (np.asarray((above - below) / below if published else above - below),)


def _published() -> Iterator[Effect]:
    """Everything of the paper's tables 9 to 12 that needs groups, under its own formula."""
    gaps: dict[str, Relabelled] = {"dsb": "base", "dgr": "groups", "dhh": "groups"}
    for m in ("noc", "auc", "nof"):
        kind: Kind = "sum" if m == "nof" else "mean"
        yield from (Effect("base", m, kind), Effect("sample", m, kind))
        yield Effect("std", m, "spread", "groups") if m == "nof" else Effect("std", m, "mean")
        yield from (Effect(role, m, kind, who, percent=m == "noc") for role, who in gaps.items())
    yield Effect("nsr", "auc", "mean", percent=True)


def _corrected() -> Iterator[Effect]:
    """The same questions without the bias, from all draws."""
    gaps: dict[str, Relabelled] = {"dsb": "base", "dgr": "draws", "dhh": "draws"}
    forms: dict[tuple[str, str], Kind] = {
        ("noc", "ratio"): "ratio", ("noc", "log"): "log", ("auc", "all"): "mean",
        ("nof", "all"): "sum",
    }  # fmt: skip
    for role, who in gaps.items():
        for (m, form), kind in forms.items():
            yield Effect(role, m, kind, who, True, percent=m == "noc", form=form)
    for role, m in (("std", "noc"), ("std", "auc"), ("nsr", "auc")):
        yield Effect(role, m, "mean", "draws", True, percent=role == "nsr", form="unbiased")


EFFECTS: dict[str, Effect] = {e.name: e for e in (*_published(), *_corrected())}

_MOST, _FEWEST = 2000, 500  # relabellings; many targets need fewer for the same precision
_ENOUGH = 500_000  # relabelled targets in all


def nulls(
    effects: Sequence[Effect], clickers: Floats, *, relabellings: int = 0, seed: object = 0
) -> dict[str, Null]:
    """The null of each effect of one measure, from a table `(targets, clickers)`.

    By default 2000 relabellings, of very many targets fewer, but never below 500.
    """
    many = relabellings or min(_MOST, max(_FEWEST, _ENOUGH // len(clickers)))
    every = clickers.shape[1]
    found: dict[str, Null] = {}
    exchanges = {"groups": (1, GROUPS + 1), "base": (0, every), "draws": (1, every)}
    for who, exchanged in exchanges.items():
        asked = [e for e in effects if e.relabelled == who]
        values: dict[str, list[Floats]] = {e.name: [] for e in asked}
        terms = {e.name: np.zeros(len(clickers)) for e in asked if e.kind in ("mean", "sum")}
        # Clickers change places within each target: `(relabellings, targets, clickers)`.
        rng = generator("relabelled", who, seed)
        for block in permuted_within(clickers, slice(*exchanged), many, rng) if asked else ():
            for e in asked:
                values[e.name].append(value_of(e, block))
                if e.name in terms:
                    terms[e.name] += _terms(e, block)[0].sum(axis=0) / many
        for e in asked:
            seen = float(value_of(e, clickers))
            found[e.name] = null_of(np.concatenate(values[e.name]), seen, terms.get(e.name))
    return found


def excess_of(effect: Effect, clickers: Floats, null: Null, drawn: Resampling) -> Interval:
    """How far an effect exceeds its null, with a joint bootstrap over images."""
    if null.terms is not None:
        scale = len(clickers) if effect.kind == "sum" else 1
        return drawn.interval(_terms(effect, clickers)[0] - null.terms).times(scale)
    seen = interval_of(effect, clickers, drawn)
    return Interval(seen.value - null.mean, seen.low - null.mean, seen.high - null.mean)
