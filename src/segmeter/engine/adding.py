"""Adding: more models, data sets or users for a run that exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from segmeter.core import catalogue
from segmeter.core.capabilities import PlaysUsersApart
from segmeter.core.catalogue import Spec
from segmeter.core.errors import RunConflict
from segmeter.core.plans import Plan
from segmeter.engine.jobs import Objects
from segmeter.engine.validation import complete
from segmeter.runtime.roots import Roots
from segmeter.store.folder import RunFolder
from segmeter.store.places import Address

__all__ = ["add_to_run"]

_MAY_DIFFER = {"subjects", "datasets", "fingerprints"}


def add_to_run(plan: Plan, out: Address, roots: Roots, objects: Objects | None = None) -> Plan:
    """Widen the plan in a run folder by subjects, data sets and users of another; the wider plan.

    What is left out of the request (data sets, users, rounds, measures, options) is taken from
    the run. Rows that are there stay as they are; users that are added play the scenes that were
    played without them. Where users play together, as attacks and the click they are bound by do,
    none can be added: 'segmeter compare RUN RUN' reads several runs.
    """
    folder = RunFolder.existing(out)
    held = folder.plan
    wanted = replace(
        plan,
        subjects=plan.subjects or held.subjects,
        datasets=plan.datasets or held.datasets,
        users=plan.users or held.users,
        rounds=plan.rounds or held.rounds,
        measures=plan.measures or held.measures,
        options=plan.options or held.options,
        limit=held.limit if plan.limit is None else plan.limit,
    )
    filled, _ = complete(wanted, roots, objects)
    apart = isinstance(catalogue.benchmarks.make(held.benchmark), PlaysUsersApart)
    may_differ = _MAY_DIFFER | ({"users"} if apart else set())
    differ = [f for f in held.differs_in(filled) if f not in may_differ]
    if differ:
        what = "models, data sets and users" if apart else "models and data sets"
        raise RunConflict(
            f"'{out}' was played with other {', '.join(differ)}; only {what} can be added to a "
            f"run of '{held.benchmark}', and 'segmeter compare' reads several runs"
        )
    wider = replace(
        held,
        subjects=_together(held.subjects, filled.subjects),
        datasets=_together(held.datasets, filled.datasets),
        users=_together(held.users, filled.users),
        fingerprints={},
    )
    whole, _ = complete(wider, roots, objects, to_play=False)
    changed = [d for d, f in held.fingerprints.items() if whole.fingerprints.get(d) != f]
    if changed:
        raise RunConflict(f"data set '{changed[0]}' has changed since '{out}' was run")
    folder.widen(whole)
    return whole


def _together(one: Sequence[Spec], other: Sequence[Spec]) -> tuple[Spec, ...]:
    known = {str(spec) for spec in one}
    return (*one, *(spec for spec in other if str(spec) not in known))
