"""Evaluation in one call, for notebooks and scripts: a benchmark with names or objects."""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from segmeter.api.runs import Run
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.models import ProtocolName
from segmeter.core.plans import Plan
from segmeter.core.wording import counted
from segmeter.engine import run_plan
from segmeter.engine.arithmetic import caller_state_kept
from segmeter.engine.estimates import free_folder
from segmeter.engine.jobs import Objects
from segmeter.runtime.remote_files import Roots, is_address

__all__ = ["Run", "evaluate"]


def evaluate(
    models: Any,
    datasets: Any = "mini",
    *,
    out: str | Path | None = None,
    benchmark: str = "noc",
    users: Any = (),
    measures: Any = (),
    rounds: int = 0,
    protocols: str | Sequence[str] = ("published", "corrected"),
    seed: int = 0,
    limit: int | None = None,
    data: str | Path | None = None,
    weights: str | Path | None = None,
    workers: int = 0,
    until: str | None = None,
    options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    again: bool = False,
) -> Run:
    """Run a benchmark and return the run.

    Warns if some scenes fail (see `run.errors()`), raises SegmeterError if all do.

    Parameters
    ----------
    models, datasets, users, measures
        A name, an object, or a list of either; a data set may be a folder, a model also a
        function `predict(image, clicks)` or a predictor with `set_image`. Objects of your own
        run in this process.
    out
        Run folder, `runs/<benchmark>-<n>` by default; an interrupted run is resumed.
    protocols
        `"corrected"`, `"published"`, `"both"` or a list of them.
    workers
        Processes; 0 plays in this one and needs no `if __name__ == "__main__":`.
    until, options
        A goal at which sessions end, such as `"iou>=0.9"`; settings of the benchmark's own.
    progress
        Show progress on stderr; by default on a terminal.
    again
        Re-run jobs in `out` whose model has changed since; otherwise a changed model is refused.

    Examples
    --------
    >>> import tempfile
    >>> run = evaluate("oracle", "drawn", out=f"{tempfile.mkdtemp()}/run", limit=1)
    >>> run.sql("select round(avg(iou), 2) as iou from rows").to_pylist()
    [{'iou': 1.0}]
    """
    if workers and multiprocessing.parent_process() is not None:
        raise BadInput("evaluate(workers=...) in a script stands under: if __name__ == '__main__':")
    settings = {"rounds": rounds, "protocols": _protocols(protocols), "seed": seed, "limit": limit}
    options = {**(options or {}), **({} if until is None else {"until": until})}
    plan, objects = _requested(benchmark, models, datasets, users, measures, options, settings)
    roots = Roots(_path(data), _path(weights))
    place = _path(out) or free_folder(plan, roots, objects)
    return _played(plan, place, roots, workers, objects, progress, again)


def _requested(
    benchmark: str,
    models: Any,
    datasets: Any,
    users: Any,
    measures: Any,
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> tuple[Plan, Objects]:
    """The plan of what was named or handed over, and the objects that it names."""
    objects: Objects = {}
    plan = Plan(
        benchmark,
        tuple(_model(thing, objects) for thing in _listed(models)),
        tuple(_data(thing, objects) for thing in _listed(datasets)),
        users=tuple(_user(thing) for thing in _listed(users)),
        measures=tuple(_measure(thing) for thing in _listed(measures)),
        options=options,
        **settings,
    )
    return plan, objects


def _played(
    plan: Plan,
    place: Path | str,
    roots: Roots,
    workers: int,
    objects: Objects,
    progress: bool | None,
    again: bool,
) -> Run:
    """The run of a plan, played or gone on with here."""
    lines = _Lines(str(place), sys.stderr.isatty() if progress is None else progress)
    with caller_state_kept():
        tally = run_plan(
            plan,
            place,
            roots=roots,
            workers=workers,
            objects=objects or None,
            progress=lines,
            again=again,
        )
    run = Run.open(place, roots, trust=True)
    if tally.failed:
        _tell(tally.failed, tally.done + tally.before, lines.first)
    return run


class _Lines:
    """Progress as one line on stderr that is written over; remembers the first failure."""

    def __init__(self, place: str, aloud: bool) -> None:
        self.place, self.aloud, self.first = place, aloud, ""

    def begin(self, total: int, done: int) -> None:
        self.total, self.done, self.failed = total, done, 0
        self._say()

    def step(self, outcome: Any) -> None:
        self.done += 1
        self.failed += bool(outcome.error)
        self.first = self.first or outcome.error or ""
        self._say()

    def end(self) -> None:
        if self.aloud:
            print(file=sys.stderr)

    def _say(self) -> None:
        if not self.aloud:
            return
        failed = f", {self.failed} failed" if self.failed else ""
        told = f"{self.place}: {self.done} of {self.total} scenes{failed}"
        print(f"\r{told}", end="", file=sys.stderr, flush=True)


def _tell(failed: int, done: int, first: str) -> None:
    """Raise where nothing came out; warn where some did not."""
    if not done:
        raise SegmeterError(f"every scene failed, the first with: {first}")
    told = f"{counted(failed, 'scene')} failed; run.errors() names them"
    warnings.warn(told, stacklevel=4)  # the caller of evaluate


def _listed(things: Any) -> list[Any]:
    return list(things) if isinstance(things, list | tuple) else [things]


def _model(thing: Any, objects: Objects) -> Spec:
    """The spec of a name, or of an object under its card's name."""
    if isinstance(thing, str):
        return Spec.parse(thing)
    if not hasattr(thing, "card"):
        thing = catalogue.adapted_model(thing)
    return _named(thing, objects)


def _data(thing: Any, objects: Objects) -> Spec:
    if isinstance(thing, str | Path):
        spec = Spec.parse(str(thing))
        folder = is_address(spec.name) or Path(spec.name).is_dir()
        return Spec("folder", {"path": spec.name, **spec.options}) if folder else spec
    return _named(thing, objects)


def _named(thing: Any, objects: Objects) -> Spec:
    name = thing.card.name
    if objects.setdefault(name, thing) is not thing:
        raise BadInput(f"two objects are called '{name}'; give each its own card.name")
    return Spec(name)


def _user(thing: Any) -> Spec:
    if isinstance(thing, str):
        return Spec.parse(thing)
    if not callable(getattr(thing, "next", None)):
        raise BadInput("a user of your own has a name and next(observation, rng)")
    catalogue.users.put(thing.name, thing, "your own user")
    return Spec(thing.name)


def _measure(thing: Any) -> str:
    """The name of a measure; one of your own knows its name since it was declared."""
    name = thing if isinstance(thing, str) else getattr(thing, "id", None)
    if not isinstance(name, str):
        raise BadInput("a measure of your own is a function under @measure(...)")
    return name


def _protocols(given: str | Sequence[str]) -> tuple[ProtocolName, ...]:
    known: Mapping[str, tuple[ProtocolName, ...]] = {
        "published": ("published",),
        "corrected": ("corrected",),
        "both": ("published", "corrected"),
    }
    words = [given] if isinstance(given, str) else list(given)
    for word in words:
        if word not in known:
            raise BadInput(f"protocols are 'published', 'corrected' or 'both', not '{word}'")
    return tuple(dict.fromkeys(r for word in words for r in known[word]))


def _path(place: str | Path | None) -> Path | str | None:
    """A folder, or an address as it is."""
    return place if place is None or is_address(place) else Path(place)
