"""Adding: the plan of an existing run with more models, data sets or users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from segmeter.core import catalogue
from segmeter.core.capabilities import RunsUsersIndependently
from segmeter.core.catalogue import Spec
from segmeter.core.errors import RunConflict
from segmeter.core.plans import Plan
from segmeter.core.received import check_names, received
from segmeter.core.scenes import Dataset
from segmeter.engine.jobs import Built
from segmeter.engine.validation import complete

__all__ = ["check_received", "wider_plan"]

_MAY_DIFFER = {"segmenters", "datasets", "fingerprints"}


def check_received(held: Plan, asked: Plan) -> None:
    """Refuse to add to a run that names Python files, addresses or folders of its own choice."""
    with received():
        check_names(held, chosen=asked)
    known = {str(spec) for spec in asked.datasets}
    for spec in held.datasets:
        if spec.options and str(spec) not in {*held.fingerprints, *known}:
            raise RunConflict(
                f"the run notes no fingerprint of its data set '{spec}'; name the data set in "
                "this command, or say --trust if you know who made the run"
            )


def wider_plan(
    held: Plan, asked: Plan, built: Built, address: str
) -> tuple[Plan, dict[str, Dataset]]:
    """The plan of a run widened by the models, data sets and users of another; its data sets.

    Whatever the request leaves out (data sets, users, rounds, measures, options) is taken from
    the run. Existing rows stay as they are; added users run on the scenes of the run. Benchmarks
    whose users depend on each other, such as attacks, take no further users.
    """
    wanted = replace(
        asked,
        segmenters=asked.segmenters or held.segmenters,
        datasets=asked.datasets or held.datasets,
        users=asked.users or held.users,
        rounds=asked.rounds or held.rounds,
        measures=asked.measures or held.measures,
        options=asked.options or held.options,
        limit=held.limit if asked.limit is None else asked.limit,
        sample=held.sample if asked.sample is None else asked.sample,
    )
    filled, _ = complete(wanted, built)
    apart = isinstance(catalogue.benchmarks.make(held.benchmark), RunsUsersIndependently)
    may_differ = _MAY_DIFFER | ({"users"} if apart else set())
    differ = [f for f in held.differs_in(filled) if f not in may_differ]
    if differ:
        what = "models, data sets and users" if apart else "models and data sets"
        raise RunConflict(
            f"'{address}' was run with other {', '.join(differ)}; only {what} can be added to a "
            f"run of '{held.benchmark}', and 'segmeter compare' reads several runs"
        )
    wider = replace(
        held,
        segmenters=_together(held.segmenters, filled.segmenters),
        datasets=_together(held.datasets, filled.datasets),
        users=_together(held.users, filled.users),
        fingerprints={},
    )
    whole, datasets = complete(wider, built, to_run=False)
    changed = [d for d, f in held.fingerprints.items() if whole.fingerprints.get(d) != f]
    if changed:
        raise RunConflict(f"data set '{changed[0]}' has changed since '{address}' was run")
    return whole, datasets


def _together(one: Sequence[Spec], other: Sequence[Spec]) -> tuple[Spec, ...]:
    known = {str(spec) for spec in one}
    return (*one, *(spec for spec in other if str(spec) not in known))
