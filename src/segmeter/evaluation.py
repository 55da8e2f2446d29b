"""One function for notebooks: play a benchmark with names or objects of your own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.models import Reading
from segmeter.core.plans import Plan, Roots
from segmeter.engine import run_plan
from segmeter.store import Run

__all__ = ["evaluate"]


def evaluate(
    models: Any,
    datasets: Any = "mini",
    *,
    out: str | Path,
    benchmark: str = "noc",
    users: Sequence[str] = (),
    rounds: int = 0,
    readings: Sequence[Reading] = ("published", "sound"),
    seed: int = 0,
    limit: int | None = None,
    options: Mapping[str, Any] | None = None,
    data: str | Path | None = None,
    weights: str | Path | None = None,
    workers: int | None = None,
) -> Run:
    """Play a benchmark and return the run, ready to be asked.

    Parameters
    ----------
    models, datasets
        A name, an object, or a list of either. Objects of your own are played in this
        process; give each its own `card.name`.
    options
        Settings of the benchmark's own, such as `{"boxes": "picodet"}`.
    out
        Run folder; a run that was stopped goes on.

    Examples
    --------
    >>> import tempfile
    >>> run = evaluate("oracle", "drawn", out=f"{tempfile.mkdtemp()}/run", limit=1, workers=0)
    >>> run.sql("select round(avg(iou), 2) as iou from rows").to_pylist()
    [{'iou': 1.0}]
    """
    objects: dict[str, Any] = {}
    plan = Plan(
        benchmark,
        tuple(_spec(thing, objects) for thing in _listed(models)),
        tuple(_spec(thing, objects) for thing in _listed(datasets)),
        users=tuple(Spec.parse(name) for name in users),
        rounds=rounds,
        readings=tuple(readings),
        seed=seed,
        limit=limit,
        options=dict(options or {}),
    )
    roots = Roots(_path(data), _path(weights))
    run_plan(plan, out, roots=roots, workers=workers, objects=objects or None)
    return Run.open(out, roots, trust=True)


def _listed(things: Any) -> list[Any]:
    return list(things) if isinstance(things, list | tuple) else [things]


def _spec(thing: Any, objects: dict[str, Any]) -> Spec:
    """The spec of a name, or of an object under its card's name."""
    if isinstance(thing, str):
        return Spec.parse(thing)
    name = thing.card.name
    if objects.setdefault(name, thing) is not thing:
        raise BadInput(f"two objects are called '{name}'; give each its own card.name")
    return Spec(name)


def _path(place: str | Path | None) -> Path | None:
    return None if place is None else Path(place)
