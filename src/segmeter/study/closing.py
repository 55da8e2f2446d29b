"""Closing a batch: which of its answers count, and whether practice was passed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from segmeter.study import lookups
from segmeter.study.ledger import Writing
from segmeter.study.lookups import Row
from segmeter.study.plan import Plan
from segmeter.study.validity import batch_verdict

__all__ = ["close_batch"]


def close_batch(work: Writing, plan: Plan, batch: Row) -> None:
    """End a batch of which every trial has its answer."""
    rows = lookups.trials_of(work.connection, batch["id"])
    if batch["role"] == "training":
        share = _share_right(plan, rows)
        passed = share >= plan.rating.pass_mark
        work.record("settled", {"passed": passed}, batch["person"])
        state, counts = ("done" if passed else "dropped"), [0] * len(rows)
        reason = "" if passed else f"training: {math.floor(100 * share)} % right"
    else:
        flags = [json.loads(row["flags"]) if row["flags"] else None for row in rows]
        state, reason, counts = batch_verdict(plan, flags)
    body = {"batch": batch["id"], "state": state, "reason": reason}
    body["counts"] = [[row["id"], each] for row, each in zip(rows, counts, strict=True)]
    work.record("closed", body, batch["person"])


def _share_right(plan: Plan, rows: Sequence[Row]) -> float:
    """How many training answers lie in their references' range."""
    right: list[bool] = [
        plan.rating.training[row["task_place"]].passes(json.loads(row["answer"])["score"])
        for row in rows
    ]
    return sum(right) / len(right)
