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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from segmeter.clickability.groups import GROUPS
from segmeter.core.seeds import generator
from segmeter.stats.intervals import Floats, Interval, Resampling
from segmeter.stats.null_distributions import Null, null_of, permuted_within

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


def value_of(effect: Effect, clickers: Floats) -> Floats:
    """The effect in each table of clickers, over the leading axes."""
    terms = _terms(effect, clickers)
    if isinstance(terms, tuple):
        return np.asarray(terms[0].mean(axis=-1) / terms[1].mean(axis=-1) - 1)
    if effect.kind == "spread":  # (..., targets, groups)
        return np.asarray(terms.sum(axis=-2).std(axis=-1))
    if effect.kind == "sum":
        return np.asarray(terms.sum(axis=-1))
    mean = np.asarray(terms.mean(axis=-1))
    return np.asarray(np.expm1(mean)) if effect.kind == "log" else mean


def interval_of(effect: Effect, clickers: Floats, drawn: Resampling) -> Interval:
    """The effect with its bootstrap interval over images."""
    terms, value = _terms(effect, clickers), float(value_of(effect, clickers))
    targets = clickers.shape[-2]
    if isinstance(terms, tuple):
        found = drawn.ratio(*terms)
        return Interval(value, found.low - 1, found.high - 1)
    if effect.kind == "spread":
        if drawn.clusters == 1:
            return Interval(value, float("nan"), float("nan"))
        low, high = np.quantile(targets * drawn.means(terms).std(axis=1), [0.025, 0.975])
        return Interval(value, float(low), float(high))
    found = drawn.interval(terms)
    if effect.kind == "log":
        return Interval(value, float(np.expm1(found.low)), float(np.expm1(found.high)))
    if effect.kind == "sum":
        return Interval(value, found.low * targets, found.high * targets)
    return found


def _terms(effect: Effect, clickers: Floats) -> Floats | tuple[Floats, Floats]:
    return effect.terms(clickers if effect.all_draws else clickers[..., : GROUPS + 1])


def _parts(effect: Effect, clickers: Floats) -> Floats:
    """Each target's part of an effect that is a mean or a sum of them."""
    terms = _terms(effect, clickers)
    assert isinstance(terms, np.ndarray)  # asked of means and sums only
    return terms


def _base(clickers: Floats) -> Floats:
    return clickers[..., 0]


def _groups(clickers: Floats) -> Floats:
    """Groups with their draws averaged, `(..., targets, groups)`."""
    several = clickers[..., 1:]
    draws = several.shape[-1] // GROUPS
    return np.asarray(several.reshape(*several.shape[:-1], draws, GROUPS).mean(axis=-2))


def _sample(clickers: Floats) -> Floats:
    return np.asarray(_groups(clickers).mean(axis=-1))


def _spread(ddof: int) -> Terms:
    return lambda clickers: np.asarray(_groups(clickers).std(axis=-1, ddof=ddof))


def _noise_to_signal(ddof: int) -> Terms:
    """Spread over mean; zero where the mean is."""

    def terms(clickers: Floats) -> Floats:
        mean, spread = _sample(clickers), _groups(clickers).std(axis=-1, ddof=ddof)
        return np.asarray(np.divide(spread, mean, out=np.zeros_like(mean), where=mean > 0))

    return terms


def _ends(clickers: Floats) -> tuple[Floats, Floats]:
    groups = _groups(clickers)
    return groups[..., 0], groups[..., -1]


def _halves(clickers: Floats) -> tuple[Floats, Floats]:
    """The less and the more likely half, merged."""
    groups = _groups(clickers)
    return groups[..., :_HALF].mean(axis=-1), groups[..., _HALF:].mean(axis=-1)


def _against_base(clickers: Floats) -> tuple[Floats, Floats]:
    return _sample(clickers), _base(clickers)


Pair = Callable[[Floats], tuple[Floats, Floats]]


def _joined(pair: Pair, join: Callable[[Floats, Floats], Floats]) -> Terms:
    return lambda clickers: np.asarray(join(*pair(clickers)))


def _relative(pair: Pair) -> Terms:
    return _joined(pair, lambda above, below: (above - below) / below)


def _gap(pair: Pair) -> Terms:
    return _joined(pair, lambda above, below: above - below)


def _paired_halves(clickers: Floats) -> Floats:
    """The paper's: each of five groups against the one five tenths up, never merged."""
    groups = _groups(clickers)
    low, high = groups[..., :_HALF], groups[..., _HALF:]
    return np.asarray(((low - high) / high).mean(axis=-1))


def _published() -> list[Effect]:
    """Everything of the paper's tables 9 to 12 that needs groups, under its own formula."""
    made = []
    for m in ("noc", "auc", "nof"):
        kind: Kind = "sum" if m == "nof" else "mean"
        share = m == "noc"
        gap = _relative if share else _gap
        spread = ("spread", _groups, "groups") if m == "nof" else ("mean", _spread(0))
        made += [
            Effect("base", m, kind, _base),
            Effect("sample", m, kind, _sample),
            Effect("std", m, *spread),
            Effect("dsb", m, kind, gap(_against_base), "base", percent=share),
            Effect("dgr", m, kind, gap(_ends), "groups", percent=share),
            Effect("dhh", m, kind, _paired_halves if share else gap(_halves), "groups",
                   percent=share),
        ]  # fmt: skip
    return [*made, Effect("nsr", "auc", "mean", _noise_to_signal(0), percent=True)]


def _corrected() -> list[Effect]:
    """The same questions without the bias, from all draws."""
    made = []
    pairs: tuple[tuple[str, Pair, Relabelled], ...] = (
        ("dsb", _against_base, "base"), ("dgr", _ends, "draws"), ("dhh", _halves, "draws"),
    )  # fmt: skip
    for name, pair, who in pairs:
        logs = _joined(pair, lambda above, below: np.log(above) - np.log(below))
        made += [
            Effect(name, "noc", "ratio", pair, who, True, True, "ratio"),
            Effect(name, "noc", "log", logs, who, True, True, "log"),
            Effect(name, "auc", "mean", _gap(pair), who, True, form="all"),
            Effect(name, "nof", "sum", _gap(pair), who, True, form="all"),
        ]
    for m in ("noc", "auc"):
        made.append(Effect("std", m, "mean", _spread(1), "draws", True, form="unbiased"))
    noise = _noise_to_signal(1)
    return [*made, Effect("nsr", "auc", "mean", noise, "draws", True, True, "unbiased")]


EFFECTS: dict[str, Effect] = {e.name: e for e in (*_published(), *_corrected())}

_MOST, _FEWEST = 2000, 500  # relabellings; many targets need fewer for the same precision
_ENOUGH = 500_000  # relabelled targets in all


def nulls(
    effects: Sequence[Effect],
    clickers: Floats,
    *,
    relabellings: int | None = None,
    seed: object = 0,
) -> dict[str, Null]:
    """The null of each effect of one measure, from a table `(targets, clickers)`.

    By default 2000 relabellings, of very many targets fewer, but never below 500.
    """
    many = relabellings or min(_MOST, max(_FEWEST, _ENOUGH // len(clickers)))
    every = clickers.shape[1]
    found: dict[str, Null] = {}
    for who, exchanged in (
        ("groups", (1, GROUPS + 1)),
        ("base", (0, every)),
        ("draws", (1, every)),
    ):
        asked = [e for e in effects if e.relabelled == who]
        values: dict[str, list[Floats]] = {e.name: [] for e in asked}
        terms = {e.name: np.zeros(len(clickers)) for e in asked if e.kind in ("mean", "sum")}
        # Clickers change places within each target: `(relabellings, targets, clickers)`.
        rng = generator("relabelled", who, seed)
        for block in permuted_within(clickers, slice(*exchanged), many, rng) if asked else ():
            for e in asked:
                values[e.name].append(value_of(e, block))
                if e.name in terms:
                    terms[e.name] += _parts(e, block).sum(axis=0) / many
        for e in asked:
            seen = float(value_of(e, clickers))
            found[e.name] = null_of(np.concatenate(values[e.name]), seen, terms.get(e.name))
    return found


def excess_of(effect: Effect, clickers: Floats, null: Null, drawn: Resampling) -> Interval:
    """How far an effect exceeds its null, with a joint bootstrap over images."""
    if null.terms is not None:
        scale = len(clickers) if effect.kind == "sum" else 1
        return drawn.interval(_parts(effect, clickers) - null.terms).times(scale)
    seen = interval_of(effect, clickers, drawn)
    return Interval(seen.value - null.mean, seen.low - null.mean, seen.high - null.mean)
