"""Nulls by permutation: what each statistic would be if it did not matter who clicked.

Players of a target change places at random: groups among themselves, or the centre click
with all of them. Whatever remains is what the statistic gives under the null; the excess over
it is the effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from segmeter.benchmarks.rclicks.effects import (
    Effect,
    Relabelled,
    interval_of,
    terms_of,
    value_of,
)
from segmeter.clickability.groups import GROUPS
from segmeter.core.seeds import generator
from segmeter.stats.intervals import Floats, Interval, Resampling
from segmeter.stats.nulls import Null, null_of, permuted_within

__all__ = ["excess_of", "nulls"]

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
