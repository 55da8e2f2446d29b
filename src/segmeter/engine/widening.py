"""Widening: a job file that was played by some users gets the rows of further ones."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from segmeter.core import catalogue
from segmeter.core.benchmarks import Row
from segmeter.core.catalogue import Spec
from segmeter.core.plans import Job, Plan
from segmeter.store.folder import RunFolder
from segmeter.store.job_files import provenance_of

__all__ = ["lacking_users", "rows_to_widen", "users_left", "users_text"]

_SAME = ("fingerprint", "source")


def users_text(plan: Plan) -> str:
    """The users of a plan as a job file notes them.

    >>> users_text(Plan("noc", (), (), users=(Spec("centre-click"),)))
    '["centre-click"]'
    """
    return json.dumps([str(spec) for spec in plan.users])


def lacking_users(table: Any, plan: Plan) -> tuple[Spec, ...]:
    """The users of a plan that a job file, as it was read, was played without."""
    told = users_left(provenance_of(table.schema), table.column_names, plan)
    if told is not None:
        return told
    # Older job files note no users; their rows tell.
    there = set(table["user"].to_pylist())
    return tuple(s for s in plan.users if catalogue.users.make(s).name not in there)


def users_left(
    provenance: Mapping[str, str], columns: Collection[str], plan: Plan
) -> tuple[Spec, ...] | None:
    """The users that rows were played without, by their provenance; None where it does not tell."""
    if provenance.get("plan") == plan.id or "user" not in columns:
        return ()
    if "users" in provenance:
        return tuple(spec for spec in plan.users if str(spec) not in _noted(provenance["users"]))
    return None


def rows_to_widen(
    folder: RunFolder, job: Job, plan: Plan, provenance: Mapping[str, str]
) -> tuple[list[Row], Plan]:
    """Rows of a job that are kept, and the plan of what is left to play of it.

    Nothing is kept of a job file that other weights or another source played.
    """
    if not folder.alone(job):  # what lay in a compacted file has been unpacked before
        return [], plan
    table = folder.rows(job)
    then = provenance_of(table.schema)
    lacking = lacking_users(table, plan)
    if not lacking or any(then.get(what, provenance[what]) != provenance[what] for what in _SAME):
        return [], plan
    rows: list[Row] = table.to_pylist(maps_as_pydicts="lossy")
    return rows, replace(plan, users=lacking)


def _noted(text: str) -> set[str]:
    """The users that a job file notes; none if what it notes is damaged, which plays them again."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return set()
    return set(map(str, found)) if isinstance(found, list) else set()
