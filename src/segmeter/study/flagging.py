"""Flagging: what is wrong with an answer, said when it comes and again when rules change."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from segmeter.study import lookups
from segmeter.study import tables as t
from segmeter.study.ledger import Writing
from segmeter.study.lookups import Row
from segmeter.study.messages import ClickAnswer, ContentAnswer, RatingAnswer
from segmeter.study.plan import Plan
from segmeter.study.refusals import Refused
from segmeter.study.stimuli import Stimuli
from segmeter.study.validity import batch_verdict, click_flags, timing_flags

__all__ = ["Answer", "answer_flags", "revalidate_batch"]

Answer = ClickAnswer | RatingAnswer | ContentAnswer


def answer_flags(plan: Plan, stimuli: Stimuli, task: Row, given: Answer) -> dict[str, Any]:
    """Check an answer against what was shown, and say what is wrong with it."""
    if isinstance(given, RatingAnswer):
        return _known_flags(plan, task, given.score)
    planned = [s.seconds for s in plan.mode(task["condition"]).screens[:-1]]
    told = [screen.planned_ms for screen in given.screens]
    if len(told) != len(planned) or any(
        abs(ms - 1000 * (seconds or 0)) > 0.5 for ms, seconds in zip(told, planned, strict=True)
    ):
        raise Refused(422, "the screens are not those of the plan")
    flags = timing_flags(given.model_dump(), plan.validity)
    if isinstance(given, ClickAnswer):
        flags |= _click_flags(plan, stimuli, task, given)
    return flags


def _click_flags(plan: Plan, stimuli: Stimuli, task: Row, given: ClickAnswer) -> dict[str, Any]:
    height, width = stimuli.shown(task["scene"]).size
    if (given.natural_width, given.natural_height) != (width, height):
        raise Refused(422, "the image's size is not the one that was shown")
    slack = 0.02 * max(height, width)
    if not -slack <= given.x <= width + slack or not -slack <= given.y <= height + slack:
        raise Refused(422, "the click lies outside the image")
    mask = stimuli.mask(task["scene"], task["target"], task["part"], task["source"])
    return click_flags(mask, given.y, given.x, plan.validity)


def revalidate_batch(work: Writing, plan: Plan, stimuli: Stimuli, batch: str) -> int:
    """One batch under other rules; returns how many of its trials changed."""
    rows = lookups.trials_of(work.connection, batch)
    flags = [_flags_again(plan, stimuli, row) for row in rows]
    state, reason, counts = batch_verdict(plan, flags)
    changed: list[list[Any]] = [
        [row["id"], each, count]
        for row, each, count in zip(rows, flags, counts, strict=True)
        if count != row["counts"] or json.dumps(each) != row["flags"]
    ]
    if changed:
        body = {"batches": [[batch, state, reason]], "trials": changed}
        owner = sa.select(t.batches.c.person).where(t.batches.c.id == batch)
        work.record("revalidated", body, work.connection.execute(owner).scalar_one())
    return len(changed)


def _known_flags(plan: Plan, task: Row, score: int) -> dict[str, Any]:
    """Whether a mask with a known answer was rated right; nothing about other masks."""
    if task["task_role"] != "gold":
        return {}
    return {"right": plan.rating.gold[task["task_place"]].passes(score)}


def _flags_again(plan: Plan, stimuli: Stimuli, row: Row) -> dict[str, Any]:
    answer = json.loads(row["answer"])
    if "score" in answer:
        return _known_flags(plan, row, answer["score"])
    flags = timing_flags(answer, plan.validity)
    if "x" in answer:
        mask = stimuli.mask(row["scene"], row["target"], row["part"], row["source"])
        flags |= click_flags(mask, answer["y"], answer["x"], plan.validity)
    return flags
