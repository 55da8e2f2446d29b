"""A running study: who may do what next, and what is kept of it."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from segmeter.study import lookups
from segmeter.study import tables as t
from segmeter.study.assignment import assign, choose_condition, give_back_late
from segmeter.study.batch_views import batch_view
from segmeter.study.closing import close_batch
from segmeter.study.flagging import Answer, answer_flags
from segmeter.study.ledger import Ledger
from segmeter.study.lookups import Row, hashed
from segmeter.study.plan import Plan
from segmeter.study.plan_changes import begin_or_go_on, revalidate
from segmeter.study.plan_parts import Validity
from segmeter.study.refusals import Refused
from segmeter.study.stimuli import Stimuli

__all__ = ["OPEN", "RunningStudy"]

OPEN = "open"
"""The token of a study that anybody may join."""


class RunningStudy:
    """A plan, its stimuli and its ledger."""

    def __init__(self, plan: Plan, stimuli: Stimuli, ledger: Ledger) -> None:
        self.plan = plan
        self.stimuli = stimuli
        self.ledger = ledger
        begin_or_go_on(ledger, plan, stimuli)

    def state(self) -> str:
        """`open`, `paused` or `closed`."""
        with self.ledger.protocol() as connection:
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
        if token == OPEN:
            return self.plan.open_to_all
        with self.ledger.protocol() as connection:
            found = lookups.invitation(connection, token)
        return found is not None and found["person"] is None

    def join(self, token: str, language: str) -> str:
        """Take somebody in who has consented; returns their new session token."""
        self.check_open()
        session, person = secrets.token_urlsafe(32), secrets.token_urlsafe(12)
        with self.ledger.writing() as work:
            invitation, role = "", "person"
            if token != OPEN or not self.plan.open_to_all:
                found = lookups.invitation(work.connection, token)
                if found is None or found["person"] is not None:
                    raise Refused(403, "this link is not valid any more")
                invitation, role = found["id"], found["role"]
            body = {"session": hashed(session), "invitation": invitation, "role": role}
            work.record("joined", {**body, "language": language, "plan": self.plan.hash}, person)
        return session

    def person(self, session: str) -> Row | None:
        """Whose session this is."""
        with self.ledger.protocol() as connection:
            return lookups.person(connection, session)

    def choose_device(self, person: Row, device: str) -> None:
        """Keep what the person works with, and a condition for newcomers."""
        if device not in self.plan.devices:
            raise Refused(422, "this study does not take part on such a device")
        with self.ledger.writing() as work:
            body: dict[str, Any] = {"device": device}
            if self.plan.fixed and person["condition"] is None:
                body["condition"] = choose_condition(work.connection, self.plan, device)
            work.record("settled", body, person["id"])

    def choose_language(self, person: Row, language: str) -> None:
        """Keep the language that a person reads."""
        if language != person["language"]:
            with self.ledger.writing() as work:
                work.record("settled", {"language": language}, person["id"])

    def batch(self, person: Row) -> dict[str, Any] | None:
        """The person's open batch, or the next one; None when there is nothing left."""
        self.check_open()
        if person["device"] is None:
            raise Refused(409, "say first what you work with")
        with self.ledger.protocol() as connection:
            open = lookups.open_batch(connection, person["id"])
        if open is None:
            with self.ledger.writing() as work:
                give_back_late(work)
                open = lookups.open_batch(work.connection, person["id"])
                open = open or assign(work, self.plan, person)
        if open is None:
            return None
        with self.ledger.protocol() as connection:
            return batch_view(connection, self.plan, self.stimuli, open, person["language"])

    def trial(self, person: Row, trial: str) -> Row:
        """A trial of the person's own; others do not exist for them."""
        with self.ledger.protocol() as connection:
            return lookups.own_trial(connection, person["id"], trial)

    def answer(self, person: Row, trial: str, given: Answer) -> dict[str, Any]:
        """Keep an answer; the same answer sent again is acknowledged again."""
        self.check_open()
        task = self.trial(person, trial)
        flags = answer_flags(self.plan, self.stimuli, task, given)
        body: dict[str, Any] = {"trial": trial, "answer": given.model_dump(), "flags": flags}
        with self.ledger.writing() as work:
            new = self._is_new(work.connection, person, trial, given)
            if new:
                known = task["task_role"] in ("training", "gold")
                pending = self.plan.clicks or known
                body |= {"counts": None if pending else 1, "plan": self.plan.hash}
                body["deadline"] = time.time() + 60 * self.plan.lease_minutes
                work.record("answered", body, person["id"])
            left = lookups.left(work.connection, task["batch"])
            if new and not left and self.plan.kind != "rate":
                batch = lookups.own_batch(work.connection, person["id"], task["batch"])
                close_batch(work, self.plan, batch)
        return {"left": left}

    def finish(self, person: Row, batch: str) -> dict[str, Any]:
        """End a batch of ratings; until then scores may be changed."""
        with self.ledger.writing() as work:
            found = lookups.own_batch(work.connection, person["id"], batch)
            if found["state"] == "open":
                if lookups.left(work.connection, batch):
                    raise Refused(409, "some of this batch is still without an answer")
                close_batch(work, self.plan, found)
        return {"passed": self._passed(person["id"]) if found["role"] == "training" else None}

    def withdraw(self, person: str) -> bool:
        return self.ledger.withdraw(person)

    def revalidate(self, rules: Validity) -> int:
        """Run other rules over all finished batches; returns how many trials changed."""
        return revalidate(self.ledger, replace(self.plan, validity=rules), self.stimuli)

    def check_open(self) -> None:
        """Refuse work while the study is paused or closed."""
        if self.state() != "open":
            raise Refused(423, "the study is paused or closed")

    def _is_new(self, connection: sa.Connection, person: Row, trial: str, given: Answer) -> bool:
        """Whether an answer may be kept now; False for a repeated message."""
        row = lookups.own_trial(connection, person["id"], trial)
        if row["answered"] is not None:
            kept = json.loads(row["answer"])
            if kept["nonce"] == given.nonce:
                if kept != given.model_dump():
                    raise Refused(409, "this answer was given before, and differently")
                return False
            if self.plan.kind != "rate":
                raise Refused(409, "this trial has been answered")
        if row["state"] != "open":
            raise Refused(410, "this batch is over")
        if row["deadline"] < time.time():
            raise Refused(410, "the time for this batch is over")
        if self.plan.kind != "rate" and lookups.first_open(connection, row["batch"]) != trial:
            raise Refused(409, "trials are answered in their order")
        return True

    def _passed(self, person: str) -> bool:
        with self.ledger.protocol() as connection:
            asked = sa.select(t.people.c.passed).where(t.people.c.id == person)
            return bool(connection.execute(asked).scalar())
