"""Changes of a plan: beginning a study, and going on with one that was edited meanwhile."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from segmeter.core.errors import BadInput
from segmeter.study import tables as t
from segmeter.study.flagging import revalidate_batch
from segmeter.study.ledger import Ledger
from segmeter.study.plan import Plan, parse_plan
from segmeter.study.plan_parts import Validity
from segmeter.study.stimuli import Stimuli
from segmeter.study.tasks import cells_of, tasks_of

__all__ = ["begin_or_go_on", "revalidate"]

_TASKS_PER_EVENT = 2000


def begin_or_go_on(ledger: Ledger, plan: Plan, stimuli: Stimuli) -> None:
    """Write the plan's tasks into a new database, or check that the plan may follow its last."""
    with ledger.protocol() as connection:
        current = connection.execute(sa.select(t.study.c.plan)).scalar_one()
        known = sa.select(t.plans.c.text).where(t.plans.c.hash == current)
        earlier = connection.execute(known).scalar()
    if earlier is None:
        _begin(ledger, plan, stimuli)
    elif current != plan.hash:
        _change(ledger, plan, stimuli, parse_plan(earlier, plan.folder))


def revalidate(ledger: Ledger, plan: Plan, stimuli: Stimuli) -> int:
    """Run a plan's rules over all finished batches; returns how many trials changed."""
    if not plan.clicks and not plan.rating.gold:
        return 0  # the rules are about clicks and known masks
    finished = t.batches.c.state.in_(["done", "dropped"]), t.batches.c.role == "main"
    with ledger.writing() as work:
        ids = work.connection.execute(sa.select(t.batches.c.id).where(*finished)).scalars().all()
        return sum(revalidate_batch(work, plan, stimuli, batch) for batch in ids)


def _begin(ledger: Ledger, plan: Plan, stimuli: Stimuli) -> None:
    tasks = tasks_of(plan, stimuli)
    cells = cells_of(plan, tasks)
    with ledger.writing() as work:
        work.record("planned", {"hash": plan.hash, "text": plan.text})
        for k in range(0, len(tasks), _TASKS_PER_EVENT):
            some = tasks[k : k + _TASKS_PER_EVENT]
            ids = {task.id for task in some}
            rows = [task.row() for task in some]
            counts = [list(cell) for cell in cells if cell[0] in ids]
            work.record("tasks", {"tasks": rows, "cells": counts})
        work.record("state", {"state": "open"})


def _change(ledger: Ledger, plan: Plan, stimuli: Stimuli, before: Plan) -> None:
    """Texts and rules of validity may change while a study runs, its design may not."""
    if _design(before) != _design(plan):
        raise BadInput(
            "the plan's design is not the one this database was begun with; only texts, "
            "languages and [validity] may change: begin a new study with another --db"
        )
    with ledger.writing() as work:
        work.record("planned", {"hash": plan.hash, "text": plan.text})
    if before.validity != plan.validity:
        revalidate(ledger, plan, stimuli)


def _design(plan: Plan) -> Plan:
    """A plan without what may change."""
    return replace(
        plan,
        text="",
        title="",
        texts={},
        languages=(),
        words="",
        validity=Validity(),
        open_to_all=False,
        lease_minutes=0.0,
    )
