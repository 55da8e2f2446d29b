"""Adding: more models or data sets for a run that exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from segmeter.core.catalogue import Spec
from segmeter.core.errors import RunConflict
from segmeter.core.plans import Plan, Roots
from segmeter.engine.jobs import Objects
from segmeter.engine.runner import complete
from segmeter.store.folder import RunFolder
from segmeter.store.places import Address

__all__ = ["add_to_run"]

_MAY_DIFFER = {"subjects", "datasets", "fingerprints"}


def add_to_run(plan: Plan, out: Address, roots: Roots, objects: Objects | None = None) -> Plan:
    """Widen the plan in a run folder by the subjects and data sets of another; the wider plan.

    What is left out of the request (data sets, users, rounds) is taken from the run. Users
    cannot be added to scenes that were played: play them into a run of their own, and
    'segmeter compare RUN RUN' reads both.
    """
    folder = RunFolder.existing(out)
    held = folder.plan
    wanted = replace(
        plan,
        subjects=plan.subjects or held.subjects,
        datasets=plan.datasets or held.datasets,
        users=plan.users or held.users,
        rounds=plan.rounds or held.rounds,
    )
    filled, _ = complete(wanted, roots, objects)
    differ = [f for f in held.differs_in(filled) if f not in _MAY_DIFFER]
    if differ:
        raise RunConflict(
            f"'{out}' was played with other {', '.join(differ)}; only models and data sets can "
            "be added to a run, and 'segmeter compare' reads several runs"
        )
    wider = replace(
        held,
        subjects=_together(held.subjects, filled.subjects),
        datasets=_together(held.datasets, filled.datasets),
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
