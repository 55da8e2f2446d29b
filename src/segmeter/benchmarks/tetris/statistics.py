"""Statistics of TETRIS: Min, Base, Max and D as areas over ten clicks, and the first click.

All areas are AuC@K by trapezoids over rounds 1 to K divided by K - 1, in percent, as the
paper prints them. `iou-min` is the session of the worst clicks, `iou-max` that of the best,
`iou-base` that of centre clicks, `iou-d` the difference of the first two. Boundary IoU is
taken of the same sessions, which were chosen by IoU.
"""

from __future__ import annotations

from segmeter.benchmarks.tetris.groups import AttackedSessions
from segmeter.stats.statistics import (
    Better,
    Statistic,
    cards_by_name,
    mean_of_known,
    share_of_known,
)

__all__ = ["AREAS", "CARDS", "STATISTICS"]

_ROLES = {"min": "Min", "base": "Base", "max": "Max", "d": "D"}
_KINDS = {"iou": "", "biou": "BIoU "}
AREAS = tuple(f"{kind}-{role}" for kind in _KINDS for role in _ROLES)
_TESTED = ("iou-d", "iou-min", "iou-max", "iou-base")


def _mean(name: str, title: str, unit: str, digits: int = 1, better: Better = "") -> Statistic:
    return Statistic(
        name,
        title,
        unit,
        digits,
        better,
        values=lambda g: g.each(name),
        interval=mean_of_known,
        of=AttackedSessions,
        tested="yes" if name in _TESTED else "on request",
    )


def _share(name: str, title: str) -> Statistic:
    return Statistic(
        name,
        title,
        "% of objects",
        0,
        "higher",
        percent=True,
        values=lambda g: g.each(name),
        interval=share_of_known,
        of=AttackedSessions,
    )


STATISTICS = [
    *(
        _mean(f"{kind}-{role}", before + title, "AuC, %", 2, "lower" if role == "d" else "higher")
        for kind, before in _KINDS.items()
        for role, title in _ROLES.items()
    ),
    _mean("first-min", "first click, worst", "IoU, %", better="higher"),
    _mean("first-base", "first click, centre", "IoU, %", better="higher"),
    _mean("first-max", "first click, best", "IoU, %", better="higher"),
    _mean("first-spread", "first click, spread", "points", better="lower"),
    _mean("distance-min", "centre to worst click", "% of diagonal"),
    _mean("distance-max", "centre to best click", "% of diagonal"),
    *(
        statistic
        for role, word in (("min", "worst"), ("max", "best"))
        for statistic in (
            _mean(f"all-{role}", f"{word} of all clicks", "IoU, %"),
            _mean(f"gap-{role}", f"attack off the {word}", "points", 2, "lower"),
            _mean(f"search-gap-{role}", f"search off the {word}", "points", 2, "lower"),
            _share(f"found-{role}", f"attack finds the {word}"),
            _share(f"search-found-{role}", f"search finds the {word}"),
        )
    ),
    _mean("people-min", "worst person", "IoU, %"),
    _mean("people-max", "best person", "IoU, %"),
    _mean("people-spread", "spread of people", "points"),
    _mean("people-distance", "people to centre", "% of diagonal"),
    _mean("coverage", "people inside the attack's range", "% of clicks"),
]
"""All statistics; a group has those of what was done on it."""
CARDS = cards_by_name(STATISTICS)
