"""Annotation events: annotator, object, action and time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal

from segmeter.core.grouping import grouped_pairs

Kind = Literal["start", "click", "box", "scribble", "other", "by_hand", "touch_up", "done"]

EVENTS: dict[str, Kind] = {
    "start": "start", "open": "start", "shown": "start",
    "click": "click", "point": "click",
    "box": "box", "rectangle": "box",
    "scribble": "scribble", "stroke": "scribble", "brush": "scribble",
    "polygon": "by_hand", "by-hand": "by_hand", "by_hand": "by_hand", "draw": "by_hand",
    "touch-up": "touch_up", "touch_up": "touch_up", "edit": "touch_up", "correct": "touch_up",
    "done": "done", "submit": "done", "accept": "done",
    "other": "other", "text": "other",
}  # fmt: skip
"""Accepted event names in a log, and the event each one means."""


@dataclass(frozen=True, slots=True)
class AnnotationEvent:
    """An action of an annotator at a time, in seconds on any clock."""

    annotator: str
    image: str
    object: str
    kind: Kind
    seconds: float
    length_px: float = float("nan")  # of the outline that was drawn or corrected


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one step took; `first` where it was the object's first prompt."""

    annotator: str
    image: str
    kind: Kind
    first: bool
    seconds: float
    length_px: float = float("nan")


def timings(events: Iterable[AnnotationEvent]) -> Iterator[Timing]:
    """The seconds of every step: those since the annotator's event before.

    An object's first prompt is timed from its `start`, or from the `done` of the object before;
    where the log has neither, the duration is unknown and the prompt is left out.

    >>> log = [AnnotationEvent("a", "p", "1", kind, at)
    ...        for kind, at in (("start", 0.0), ("click", 2.5), ("click", 4.0), ("done", 5.0))]
    >>> [(t.kind, t.first, t.seconds) for t in timings(log)]
    [('click', True, 2.5), ('click', False, 1.5), ('done', False, 1.0)]
    """
    by_person = grouped_pairs((event.annotator, event) for event in events).values()
    ordered = (sorted(own, key=lambda event: event.seconds) for own in by_person)
    for before, event in chain.from_iterable(map(pairwise, ordered)):
        same = (before.image, before.object) == (event.image, event.object)
        if event.kind == "start" or not (same or before.kind == "done"):
            continue
        if event.kind == "done" and not (same and before.kind != "start"):
            continue  # nothing was done that could be looked at
        first = before.kind in ("start", "done")
        seconds = event.seconds - before.seconds
        yield Timing(event.annotator, event.image, event.kind, first, seconds, event.length_px)
