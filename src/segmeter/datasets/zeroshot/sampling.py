"""Sampling: which images of a large data set are played.

Segment Anything plays data sets of more than 15 000 masks in part: random images until
there are about 10 000 masks. Its own parts were not published.
"""

from __future__ import annotations

from collections.abc import Mapping

from segmeter.core.seeds import generator

__all__ = ["ABOUT", "LARGE", "sampled"]

LARGE, ABOUT = 15_000, 10_000


def sampled(
    masks: Mapping[str, int], seed: int, large: int = LARGE, about: int = ABOUT
) -> set[str]:
    """The images to play, from how many masks each one has.

    All that have a mask where there are at most `large` masks. Otherwise images in an order
    that the seed draws (over their names, sorted), until there are `about` masks or more; the
    last one goes again if the total is then nearer to `about`.

    >>> sorted(sampled({"a": 3, "b": 0, "c": 2}, seed=0))
    ['a', 'c']
    """
    names = sorted(name for name, count in masks.items() if count)
    if sum(masks.values()) <= large:
        return set(names)
    chosen, total = [], 0
    for place in generator("zeroshot sample", seed).permutation(len(names)):
        if total >= about:
            break
        chosen.append(names[place])
        total += masks[names[place]]
    over, under = total - about, about - (total - masks[chosen[-1]])
    if len(chosen) > 1 and under < over:
        chosen.pop()
    return set(chosen)
