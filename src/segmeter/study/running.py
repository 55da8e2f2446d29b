"""A running study: who may do what next, and what is kept of it."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import time
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from segmeter.core.errors import BadInput
from segmeter.study import tables as t
from segmeter.study.assignment import assign, choose_condition, give_back_late
from segmeter.study.batch_views import batch_view
from segmeter.study.flagging import Answer, answer_flags, revalidate_batch
from segmeter.study.ledger import Ledger, Writing
from segmeter.study.plan import Plan, Validity
from segmeter.study.refusals import Refused
from segmeter.study.stimuli import Stimuli
from segmeter.study.tasks import cells_of, tasks_of
from segmeter.study.validity import batch_verdict

__all__ = ["RunningStudy", "hashed"]

Row = sa.RowMapping
_TASKS_PER_EVENT = 2000
_OPEN = "open"  # the token of a study that anybody may join


def hashed(token: str) -> str:
    """What is stored of a secret token."""
    return hashlib.sha256(token.encode()).hexdigest()


class RunningStudy:
    """A plan, its stimuli and its ledger."""

    def __init__(self, plan: Plan, stimuli: Stimuli, ledger: Ledger) -> None:
        self.plan = plan
        self.stimuli = stimuli
        self.ledger = ledger
        self._open()

    def state(self) -> str:
        """`open`, `paused` or `closed`."""
        with self.ledger.reading() as connection:
            return str(connection.execute(sa.select(t.study.c.state)).scalar_one())

    def set_state(self, state: str) -> None:
        if state not in ("open", "paused", "closed"):
            raise Refused(422, "a study is open, paused or closed")
        with self.ledger.writing() as work:
            work.record("state", {"state": state})

    def invite(self, many: int, role: str = "person", label: str = "") -> list[str]:
        """New single-use tokens; only their hashes are kept."""
        tokens = [secrets.token_urlsafe(24) for _ in range(many)]
        with self.ledger.writing() as work:
            ids = [hashed(token) for token in tokens]
            work.record("invited", {"ids": ids, "role": role, "label": label})
        return tokens

    def may_join(self, token: str) -> bool:
        """Whether a link still opens the door."""
        if token == _OPEN:
            return self.plan.open_to_all
        with self.ledger.reading() as connection:
            found = _invitation(connection, token)
        return found is not None and found["person"] is None

    def join(self, token: str, language: str) -> str:
        """Take somebody in who has consented; returns their new session token."""
        self.check_open()
        session, person = secrets.token_urlsafe(32), secrets.token_urlsafe(12)
        with self.ledger.writing() as work:
            invitation, role = "", "person"
            if token != _OPEN or not self.plan.open_to_all:
                found = _invitation(work.connection, token)
                if found is None or found["person"] is not None:
                    raise Refused(403, "this link is not valid any more")
                invitation, role = found["id"], found["role"]
            body = {"session": hashed(session), "invitation": invitation, "role": role}
            work.record("joined", {**body, "language": language, "plan": self.plan.hash}, person)
        return session

    def person(self, session: str) -> Row | None:
        """Whose session this is."""
        with self.ledger.reading() as connection:
            asked = sa.select(t.people).where(t.people.c.session == hashed(session))
            return connection.execute(asked).mappings().first()

    def choose_device(self, person: Row, device: str) -> None:
        """Keep what the person works with, and a condition for newcomers."""
        if device not in self.plan.devices:
            raise Refused(422, "this study does not take part on such a device")
        with self.ledger.writing() as work:
            body: dict[str, Any] = {"device": device}
            if self.plan.fixed and person["condition"] is None:
                body["condition"] = choose_condition(work.connection, self.plan, device)
            work.record("settled", body, person["id"])

    def batch(self, person: Row) -> dict[str, Any] | None:
        """The person's open batch, or the next one; None when there is nothing left."""
        self.check_open()
        if person["device"] is None:
            raise Refused(409, "say first what you work with")
        open = self._open_batch(person["id"])
        if open is None:
            with self.ledger.writing() as work:
                give_back_late(work)
                open = _open_batch(work.connection, person["id"])
                open = open or assign(work, self.plan, person)
        if open is None:
            return None
        with self.ledger.reading() as connection:
            return batch_view(connection, self.plan, self.stimuli, open, person["language"])

    def trial(self, person: Row, trial: str) -> Row:
        """A trial of the person's own; others do not exist for them."""
        asked = (
            sa.select(
                t.trials,
                *t.TASK_COLUMNS,
                t.tasks.c.condition,
                t.batches.c.state,
                t.batches.c.role,
                t.batches.c.deadline,
            )
            .join(t.tasks, t.tasks.c.id == t.trials.c.task)
            .join(t.batches, t.batches.c.id == t.trials.c.batch)
            .where(t.trials.c.id == trial, t.batches.c.person == person["id"])
        )
        with self.ledger.reading() as connection:
            found = connection.execute(asked).mappings().first()
        if found is None:
            raise Refused(404, "there is no such trial")
        return found

    def answer(self, person: Row, trial: str, given: Answer) -> dict[str, Any]:
        """Keep an answer; the same answer sent again is acknowledged again."""
        self.check_open()
        task = self.trial(person, trial)
        flags = answer_flags(self.plan, self.stimuli, task, given)
        body: dict[str, Any] = {"trial": trial, "answer": given.model_dump(), "flags": flags}
        with self.ledger.writing() as work:
            current = self._answerable(work.connection, person, trial, given)
            if current is not None:
                known = task["task_role"] in ("training", "gold")
                pending = self.plan.clicks or known
                body |= {"counts": None if pending else 1, "plan": self.plan.hash}
                body["deadline"] = time.time() + 60 * self.plan.lease_minutes
                work.record("answered", body, person["id"])
                if self.plan.kind != "rate" and _left(work.connection, task["batch"]) == 0:
                    self._close(work, person, task["batch"])
            left = _left(work.connection, task["batch"])
        return {"left": left}

    def finish(self, person: Row, batch: str) -> dict[str, Any]:
        """End a batch of ratings; until then scores may be changed."""
        with self.ledger.writing() as work:
            found = _own_batch(work.connection, person["id"], batch)
            if found["state"] == "open":
                if _left(work.connection, batch):
                    raise Refused(409, "some of this batch is still without an answer")
                self._close(work, person, batch)
        return {"passed": self._passed(person["id"]) if found["role"] == "training" else None}

    def withdraw(self, person: str) -> bool:
        return self.ledger.withdraw(person)

    def revalidate(self, rules: Validity) -> int:
        """Run other rules over all finished batches; returns how many trials changed."""
        plan, changed = replace(self.plan, validity=rules), 0
        if not plan.clicks and not plan.rating.gold:
            return 0  # the rules are about clicks and known masks
        with self.ledger.writing() as work:
            finished = t.batches.c.state.in_(["done", "dropped"]), t.batches.c.role == "main"
            ids = sa.select(t.batches.c.id).where(*finished)
            for batch in work.connection.execute(ids).scalars().all():
                changed += revalidate_batch(work, plan, self.stimuli, batch)
        return changed

    def _open(self) -> None:
        with self.ledger.reading() as connection:
            row = connection.execute(sa.select(t.study)).mappings().one()
            known = sa.select(t.plans.c.text).where(t.plans.c.hash == row["plan"])
            earlier = connection.execute(known).scalar()
        if earlier is None:
            self._begin()
        elif row["plan"] != self.plan.hash:
            self._change(earlier)

    def _begin(self) -> None:
        tasks = tasks_of(self.plan, self.stimuli)
        cells = cells_of(self.plan, tasks)
        with self.ledger.writing() as work:
            work.record("planned", {"hash": self.plan.hash, "text": self.plan.text})
            for k in range(0, len(tasks), _TASKS_PER_EVENT):
                some = tasks[k : k + _TASKS_PER_EVENT]
                ids = {task.id for task in some}
                rows = [task.row() for task in some]
                counts = [list(cell) for cell in cells if cell[0] in ids]
                work.record("tasks", {"tasks": rows, "cells": counts})
            work.record("state", {"state": "open"})

    def _change(self, earlier: str) -> None:
        """Texts and rules of validity may change while a study runs, its design may not."""
        from segmeter.study.plan import parse_plan

        free = {"text": "", "texts": {}, "validity": Validity(), "title": "", "folder": None}
        free |= {"languages": (), "words": "", "open_to_all": False, "lease_minutes": 0.0}
        before = parse_plan(earlier, self.plan.folder)
        if replace(before, **free) != replace(self.plan, **free):  # type: ignore[arg-type]  # blanks to compare by
            raise BadInput(
                "the plan's design is not the one this database was begun with; only texts, "
                "languages and [validity] may change: begin a new study with another --db"
            )
        with self.ledger.writing() as work:
            work.record("planned", {"hash": self.plan.hash, "text": self.plan.text})
        if before.validity != self.plan.validity:
            self.revalidate(self.plan.validity)

    def check_open(self) -> None:
        """Refuse work while the study is paused or closed."""
        if self.state() != "open":
            raise Refused(423, "the study is paused or closed")

    def _open_batch(self, person: str) -> str | None:
        with self.ledger.reading() as connection:
            return _open_batch(connection, person)

    def _answerable(
        self, connection: sa.Connection, person: Row, trial: str, given: Answer
    ) -> Row | None:
        """The trial if it may be answered now; None for a repeated message."""
        asked = (
            sa.select(t.trials, t.batches.c.state, t.batches.c.deadline)
            .join(t.batches, t.batches.c.id == t.trials.c.batch)
            .where(t.trials.c.id == trial, t.batches.c.person == person["id"])
        )
        row = connection.execute(asked).mappings().one()
        if row["answered"] is not None:
            kept = json.loads(row["answer"])
            if kept["nonce"] == given.nonce:
                if kept != given.model_dump():
                    raise Refused(409, "this answer was given before, and differently")
                return None
            if self.plan.kind != "rate":
                raise Refused(409, "this trial has been answered")
        if row["state"] != "open":
            raise Refused(410, "this batch is over")
        if row["deadline"] < time.time():
            raise Refused(410, "the time for this batch is over")
        if self.plan.kind != "rate" and _first_open(connection, row["batch"]) != trial:
            raise Refused(409, "trials are answered in their order")
        return row

    def _close(self, work: Writing, person: Row, batch: str) -> None:
        asked = sa.select(t.trials).where(t.trials.c.batch == batch).order_by(t.trials.c.place)
        rows = work.connection.execute(asked).mappings().all()
        flags = [json.loads(row["flags"]) if row["flags"] else None for row in rows]
        state, reason, counts = batch_verdict(self.plan, flags)
        if (found := _own_batch(work.connection, person["id"], batch))["role"] == "training":
            share = self._training_share(work.connection, batch)
            passed = share >= self.plan.rating.pass_mark
            work.record("settled", {"passed": passed}, person["id"])
            state, counts = ("done" if passed else "dropped"), [0] * len(rows)
            reason = "" if passed else f"training: {math.floor(100 * share)} % right"
        body = {"batch": found["id"], "state": state, "reason": reason}
        body["counts"] = [[row["id"], each] for row, each in zip(rows, counts, strict=True)]
        work.record("closed", body, person["id"])

    def _training_share(self, connection: sa.Connection, batch: str) -> float:
        """How many training answers lie in their references' range."""
        asked = (
            sa.select(t.trials.c.answer, t.tasks.c.place)
            .join(t.tasks, t.tasks.c.id == t.trials.c.task)
            .where(t.trials.c.batch == batch)
        )
        rows = connection.execute(asked).all()
        right = 0
        for answer, place in rows:
            right += self.plan.rating.training[place].passes(json.loads(answer)["score"])
        return right / len(rows)

    def _passed(self, person: str) -> bool:
        with self.ledger.reading() as connection:
            asked = sa.select(t.people.c.passed).where(t.people.c.id == person)
            return bool(connection.execute(asked).scalar())


def _invitation(connection: sa.Connection, token: str) -> Row | None:
    asked = sa.select(t.invitations).where(t.invitations.c.id == hashed(token))
    return connection.execute(asked).mappings().first()


def _open_batch(connection: sa.Connection, person: str) -> str | None:
    b = t.batches.c
    asked = sa.select(b.id).where(b.person == person, b.state == "open", b.deadline > time.time())
    return connection.execute(asked).scalar()


def _own_batch(connection: sa.Connection, person: str, batch: str) -> Row:
    asked = sa.select(t.batches).where(t.batches.c.id == batch, t.batches.c.person == person)
    found = connection.execute(asked).mappings().first()
    if found is None:
        raise Refused(404, "there is no such batch")
    return found


def _left(connection: sa.Connection, batch: str) -> int:
    asked = sa.select(sa.func.count()).where(
        t.trials.c.batch == batch, t.trials.c.answered.is_(None)
    )
    return int(connection.execute(asked).scalar_one())


def _first_open(connection: sa.Connection, batch: str) -> str | None:
    asked = sa.select(t.trials.c.id).where(t.trials.c.batch == batch, t.trials.c.answered.is_(None))
    return connection.execute(asked.order_by(t.trials.c.place).limit(1)).scalar()
