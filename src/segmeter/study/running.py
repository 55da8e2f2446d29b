"""A running study: permitted steps, and storing them."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from segmeter.report.replays import viewer_data
from segmeter.study import assignment, records
from segmeter.study import database as db
from segmeter.study.assignment import NextWork
from segmeter.study.messages import Answer, ClickAnswer, RatingAnswer
from segmeter.study.plan import Plan
from segmeter.study.records import Refused, Row, hashed
from segmeter.study.stimuli import Stimuli
from segmeter.study.validity import answer_flags
from segmeter.study.wording import questions_of

OPEN = "open"
"""The token of a study that anyone may join."""
_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
_HELD_BY_ONE_ADDRESS = 3
_LEAVE_SECONDS = 120.0
_MOST_REMEMBERED = 200_000
_VIEWS_TO_SEE = "view-masked"


def _code(letters: Sequence[str]) -> str:
    """A participant's code, 60 random bits that can be read out: `7KQ2-M4XR-9TBA`."""
    return "-".join("".join(letters[k : k + 4]) for k in (0, 4, 8))


class RunningStudy:
    """A plan, its stimuli and its database."""

    def __init__(self, plan: Plan, stimuli: Stimuli, database: db.Database) -> None:
        self.plan = plan
        self.stimuli = stimuli
        self.database = database
        self._started = time.time()
        self._lock = threading.Lock()
        self._fetched: dict[str, set[str]] = {}
        self._holders: dict[str, str] = {}
        with database.writing() as connection:
            records.begin_or_resume(connection, plan, stimuli)

    # The study as a whole

    def state(self) -> str:
        """`open`, `paused` or `closed`."""
        with self.database.snapshot() as connection:
            return str(connection.execute(sa.select(db.study.c.state)).scalar_one())

    def set_state(self, state: str) -> None:
        if state not in ("open", "paused", "closed"):
            raise Refused(422, "a study is open, paused or closed")
        with self.database.writing() as connection:
            connection.execute(sa.update(db.study).values(state=state))

    def check_open(self) -> None:
        """Refuse work while the study is paused or closed."""
        state = self.state()
        if state != "open":
            raise Refused(423, f"the study is {state}")

    def withdraw(self, code: str) -> bool:
        """Delete everything about the participant with this code; False if there is none."""
        return self.database.withdraw(_code([c for c in code.upper() if c in _ALPHABET]))

    # Joining

    def invite(self, many: int, role: str = "person", label: str = "") -> list[str]:
        """New single-use tokens; only their hashes are stored."""
        tokens = [secrets.token_urlsafe(24) for _ in range(many)]
        rows = [
            {"id": hashed(token), "role": role, "label": label, "made": time.time()}
            for token in tokens
        ]
        with self.database.writing() as connection:
            connection.execute(sa.insert(db.invitations), rows)
        return tokens

    def may_join(self, token: str) -> bool:
        """Whether a link is valid and unused."""
        if token == OPEN:
            return self.plan.design.open_to_all
        with self.database.snapshot() as connection:
            found = db.find(connection, db.invitations, id=hashed(token))
        return found is not None and found["person"] is None

    def join(self, token: str, language: str, platform: Mapping[str, str] | None = None) -> str:
        """Enrol a participant who has consented; returns their new session token."""
        self.check_open()
        session = secrets.token_urlsafe(32)
        person = _code([secrets.choice(_ALPHABET) for _ in range(12)])
        ids = dict(platform or {})
        own = next(iter(ids.values()), None)
        with self.database.writing() as connection:
            role, label, invitation = "person", "", None
            if token != OPEN or not self.plan.design.open_to_all:
                invitation = db.find(connection, db.invitations, id=hashed(token))
                if invitation is None or invitation["person"] is not None:
                    raise Refused(403, "this link is not valid any more")
                role, label = invitation["role"], invitation["label"]
            if own and db.count(connection, db.people.c.platform_id == own):
                raise Refused(409, "you have taken part in this study already")
            most = sa.select(sa.func.coalesce(sa.func.max(db.people.c.number), -1))
            number = 1 + int(connection.execute(most).scalar_one())
            row = {"id": person, "number": number, "session": hashed(session), "role": role}
            row |= {"label": label, "language": language, "joined": time.time(), "state": ""}
            row |= {"passed": False, "platform": json.dumps(ids), "platform_id": own}
            connection.execute(sa.insert(db.people), {**row, "plan": self.plan.hash})
            if invitation is not None:
                db.change(connection, db.invitations, invitation["id"], person=person)
        return session

    def person(self, session: str) -> Row | None:
        with self.database.snapshot() as connection:
            return db.find(connection, db.people, session=hashed(session))

    def choose_device(self, person: Row, device: str) -> None:
        """Store the device, and a condition for newcomers."""
        if device not in self.plan.design.devices:
            raise Refused(422, "this study is not for this kind of device")
        change: dict[str, Any] = {"device": device}
        with self.database.writing() as connection:
            if self.plan.fixed and person["condition"] is None:
                change["condition"] = assignment.choose_condition(connection, self.plan, device)
            db.change(connection, db.people, person["id"], **change)

    def choose_language(self, person: Row, language: str) -> None:
        if language != person["language"]:
            with self.database.writing() as connection:
                db.change(connection, db.people, person["id"], language=language)

    # Questionnaires

    def open_questions(self, person: Row, when: str) -> list[Any]:
        """The questions of a page that this participant has not answered."""
        with self.database.snapshot() as connection:
            given = records.answered_questions(connection, person["id"])
        wanted = questions_of(self.plan, when)
        return [] if any(q.name in given for q in wanted) else wanted

    def respond(self, person: Row, values: Mapping[str, str]) -> None:
        """Store answers to a questionnaire, and screen out by them and by quotas.

        A form that is sent twice is stored once.
        """
        with self.database.writing() as connection:
            given = records.answered_questions(connection, person["id"])
            rows = [
                {"person": person["id"], "question": name, "at": time.time(), "value": value}
                for name, value in values.items()
                if name not in given
            ]
            state = self._screened(connection, values) if rows else ""
            if rows:
                connection.execute(sa.insert(db.responses), rows)
            if state:
                db.change(connection, db.people, person["id"], state=state)

    def _screened(self, connection: sa.Connection, values: Mapping[str, str]) -> str:
        for question in self.plan.questions:
            chosen = values.get(question.name, "").split(";")
            if any(name in question.screen_out for name in chosen):
                return "screened_out"
        r, p = db.responses.c, db.people.c
        for quota in self.plan.design.quotas:
            if quota.answer not in values.get(quota.question, "").split(";"):
                continue
            asked = sa.select(r.value).join(db.people, p.id == r.person)
            given = connection.execute(asked.where(r.question == quota.question, p.state == ""))
            if sum(quota.answer in text.split(";") for text in given.scalars()) >= quota.people:
                return "quota_full"
        return ""

    # Work

    def offer(self, person: Row, address: str = "") -> dict[str, Any]:
        """The work for a participant now; nothing is reserved."""
        self.check_open()
        with self.database.snapshot() as connection:
            own = records.open_batch(connection, person["id"])
            if own is not None:
                rows = records.trials_of(connection, own)
                practice = rows[0]["role"] == "training"
                return {"state": "work", "count": len(rows), "training": practice}
            late = [batch["id"] for batch in records.late_batches(connection)]
            ignored = [*self._ignored(connection, address), *late]
            return NextWork(connection, self.plan, person, ignored).offer()

    def batch(self, person: Row, address: str = "") -> dict[str, Any] | None:
        """The participant's open batch, or a newly reserved one; None if there is none now."""
        self.check_open()
        if person["device"] is None:
            raise Refused(409, "choose a device first")
        with self.database.writing() as connection:
            for late in records.late_batches(connection):  # their places can be given again
                records.close(connection, self.plan, late, returned=True)
            batch = records.open_batch(connection, person["id"])
            if batch is not None:
                records.show_again(connection, self.plan, batch)
            else:
                ignored = self._ignored(connection, address)
                batch = NextWork(connection, self.plan, person, ignored).assign()
                if batch is not None:
                    with self._lock:
                        if len(self._holders) > _MOST_REMEMBERED:
                            self._holders.clear()
                        self._holders[batch] = address
        if batch is None:
            return None
        with self.database.snapshot() as connection:
            rows = records.trials_of(connection, batch)
            # No names of models, scenes or targets: a browser does not learn them.
            trials = [self._trial_view(connection, row, person["language"]) for row in rows]
        return {"batch": batch, "training": rows[0]["role"] == "training", "trials": trials}

    def leave(self, person: Row, batch: str) -> None:
        """The page was closed: the batch goes back soon unless it is opened again."""
        with self.database.writing() as connection:
            found = records.own_batch(connection, person["id"], batch)
            if found["state"] == "open":
                soon = min(found["deadline"], time.time() + _LEAVE_SECONDS)
                db.change(connection, db.batches, batch, deadline=soon)

    def trial(self, person: Row, trial: str) -> Row:
        """A trial of the participant's own; others do not exist for them."""
        with self.database.snapshot() as connection:
            return records.own_trial(connection, person["id"], trial)

    def note_fetched(self, trial: str, name: str) -> None:
        """Record that an image was sent, for the flag `unseen`."""
        with self._lock:
            if len(self._fetched) > _MOST_REMEMBERED:
                self._fetched.clear()
                self._started = time.time()
            self._fetched.setdefault(trial, set()).add(name)

    def answer(self, person: Row, trial: str, given: Answer) -> dict[str, Any]:
        """Store an answer; the same answer sent again is acknowledged again."""
        self.check_open()
        now, task = time.time(), self.trial(person, trial)
        self._check_answer(task, given)
        with self.database.writing() as connection:
            if self._is_new(connection, person, trial, given):
                body = {"given": given.model_dump()}
                body["server"] = self._observed(connection, person, task, now)
                flags = answer_flags(self.plan, self.stimuli, task, body)
                records.store(connection, self.plan, task, "answer", body, now)
                change = {"answered": now, "flags": json.dumps(flags), "plan": self.plan.hash}
                db.change(connection, db.trials, trial, **change)
                if not records.left(connection, task["batch"]) and self.plan.kind != "rate":
                    batch = records.own_batch(connection, person["id"], task["batch"])
                    records.close(connection, self.plan, batch)
            left = records.left(connection, task["batch"])
            row = records.own_trial(connection, person["id"], trial)
        found: dict[str, Any] = {"left": left}
        if task["task_role"] == "training":  # whether it was right, and the reference of ratings
            found["right"] = json.loads(row["flags"])["right"]
            if self.plan.kind == "rate":
                reference = self.plan.rating.training[task["task_place"]]
                found |= {"low": reference.low, "high": reference.high}
        return found if left or self.plan.kind == "rate" else found | self._after(person)

    def finish(self, person: Row, batch: str) -> dict[str, Any]:
        """End a batch of ratings; until then scores may be changed."""
        with self.database.writing() as connection:
            found = records.own_batch(connection, person["id"], batch)
            if found["state"] == "open":
                if records.left(connection, batch):
                    raise Refused(409, "some masks of this batch have no score yet")
                records.close(connection, self.plan, found)
        return self._after(person)

    def end(self, person: Row) -> None:
        """The participant is done; refused before anything was submitted."""
        with self.database.writing() as connection:
            if not assignment.ended_batches(connection, person["id"]):
                raise Refused(409, "finish a round first")
            if person["finished"] is None:
                db.change(connection, db.people, person["id"], finished=time.time())

    def _after(self, person: Row) -> dict[str, Any]:
        """The step after a batch: `passed` (of practice), and what there is to do next."""
        with self.database.snapshot() as connection:
            b, now = db.batches.c, db.find(connection, db.people, id=person["id"])
            assert now is not None
            last = sa.select(b.role, b.state).where(b.person == person["id"])
            role, state = connection.execute(last.order_by(b.opened.desc()).limit(1)).one()
            if now["state"]:
                return {"passed": False, "next": now["state"]}
            offered = NextWork(connection, self.plan, now).offer()["state"]
        return {"passed": state == "done" if role == "training" else None, "next": offered}

    def _ignored(self, connection: sa.Connection, address: str) -> list[str]:
        """Unproven reservations of other addresses that hold very many of them."""
        with self._lock:
            holders = dict(self._holders)
        unproven = [batch for batch in assignment.unproven_batches(connection) if batch in holders]
        held = Counter(holders[batch] for batch in unproven)
        crowded = {name for name, many in held.items() if many > _HELD_BY_ONE_ADDRESS}
        return [batch for batch in unproven if holders[batch] in crowded - {address}]

    def _trial_view(self, connection: sa.Connection, row: Row, language: str) -> dict[str, Any]:
        scene = self.stimuli.shown(row["scene"])
        height, width = scene.size
        view: dict[str, Any] = {
            "id": row["id"],
            "answered": row["answered"] is not None,
            "width": width,
            "height": height,
            "part": row["part"],
            "screens": [],
        }
        if self.plan.kind == "rate":
            kept = records.stored(connection, row["id"])
            view["score"] = None if kept is None else kept["given"]["score"]
            return view
        if self.plan.kind == "interact":
            names = {"x": "shown_x", "y": "shown_y", "slice": "slice", "positive": "positive"}
            view["clicks"] = [
                {name: s[key] for name, key in names.items()}
                for s in records.steps_of(connection, row["id"])
            ]
        if scene.volume:
            view["volume"] = viewer_data(scene.volume) | {"at": scene.centre(row["target"])}
        screens = self.plan.mode_of(row["condition"]).screens
        for screen, name in zip(screens, self.image_names(row), strict=True):
            shown: dict[str, Any] = {"seconds": screen.seconds}
            if name is None:
                shown["text"] = self.stimuli.label(row["scene"], row["target"], language)
            else:
                shown["image"] = name
            view["screens"].append(shown)
        return view

    def image_names(self, task: Row) -> list[str | None]:
        """Names of the images of a trial's screens, None for texts; a volume waits for clicks."""
        screens = self.plan.mode_of(task["condition"]).screens
        names: list[str | None] = [
            {"image": "image", "text": None}.get(screen.show, str(number))
            for number, screen in enumerate(screens)
        ]
        if self.stimuli.shown(task["scene"]).depth:
            names[-1] = "volume"
        return names

    def _check_answer(self, task: Row, given: Answer) -> None:
        """Refuse what no page of this study would send."""
        if isinstance(given, RatingAnswer):
            return
        planned = [screen.seconds for screen in self.plan.mode_of(task["condition"]).screens[:-1]]
        claimed = [screen.planned_ms for screen in given.screens]
        if len(claimed) != len(planned) or any(
            abs(ms - 1000 * (s or 0)) > 0.5 for ms, s in zip(claimed, planned, strict=True)
        ):
            raise Refused(422, "the screens are not those of the plan")
        if isinstance(given, ClickAnswer):
            height, width = self.stimuli.shown(task["scene"]).size
            if (given.natural_width, given.natural_height) != (width, height):
                raise Refused(422, "the image's size is not the one that was shown")
            slack = 0.02 * max(height, width)
            if not -slack <= given.x <= width + slack or not -slack <= given.y <= height + slack:
                raise Refused(422, "the click lies outside the image")

    def _is_new(self, connection: sa.Connection, person: Row, trial: str, given: Answer) -> bool:
        """Whether an answer may be stored now; False for a repeated message."""
        row = records.own_trial(connection, person["id"], trial)
        if row["answered"] is not None:
            kept = records.stored(connection, trial)
            assert kept is not None
            if kept["given"]["nonce"] == given.nonce:
                if kept["given"] != given.model_dump():
                    raise Refused(409, "this answer was given before, and differently")
                return False
            if self.plan.kind != "rate":
                raise Refused(409, "this trial has been answered, perhaps in another tab")
        if row["state"] != "open" or row["deadline"] < time.time():
            raise Refused(410, "the time for this batch is over")
        if self.plan.kind != "rate" and records.first_open(connection, row["batch"]) != trial:
            raise Refused(409, "trials are answered in their order")
        return True

    def _observed(
        self, connection: sa.Connection, person: Row, task: Row, now: float
    ) -> dict[str, Any]:
        """The server's own facts about an answer."""
        steps = records.steps_of(connection, task["id"], all_kinds=True)
        since = records.last_answer(connection, task["batch"])
        last = max([since, *(step["at"] for step in steps)])
        with self._lock:
            fetched = self._fetched.get(task["id"], set())
        rating = self.plan.kind == "rate"
        wanted = {_VIEWS_TO_SEE} if rating else {*self.image_names(task)} - {None}
        unseen = task["opened"] > self._started and not wanted <= fetched
        return {
            "ms": round(1000 * (now - last), 1),
            "total_ms": round(1000 * (now - since), 1),
            "clock": any(step["clock"] for step in steps),
            "steps": sum(step["kind"] == "step" for step in steps),
            "unseen": unseen,
            "shown_again": task["shown_again"],
            "device": person["device"],
        }
