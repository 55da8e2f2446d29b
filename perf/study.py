"""Load and faults: many people at once, a class at one address, and a server that is killed.

    python perf/study.py load [--people 200] [--think 5] [--kind clicks] [--db URL | --postgres]
    python perf/study.py join [--people 100]
    python perf/study.py kill [--times 20]

`load` lets people answer at once, with all limits on, and checks that every task was answered as
often as planned and that cells are balanced; it prints percentiles of the time of a request.
`join` measures how long a class behind one address takes to join. `kill` ends the server with
SIGKILL at random moments while people work and commands (invite, export, backup, withdraw) run
at the same time, starts it again, and checks that every acknowledged answer is in the database
once and that a backup equals the database.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from segmeter.study import database as db
from segmeter.study.database import Database, backup, open_engine
from segmeter.study.people import SimulatedPerson
from segmeter.study.plan import read_plan
from segmeter.study.server import default_url, open_study, serve, study_app

CLICKS = """
kind = "clicks"
title = "Load"
[design]
open_to_all = true
per_cell = {per_cell}
devices = ["pc"]
modes = ["Object_CutOut"]
[validity]
radius = 1.0
batch_minimum = 0
exclude = []
"""
RATE = """
kind = "rate"
title = "Load"
[design]
open_to_all = true
batch = 5
[validity]
exclude = []
[rating]
overlap = 0.2
spot_checks = 0.0
[[masks]]
name = "ground truth"
{more}
"""


def anywhere(trial: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """A click somewhere, or any score."""
    if not trial["screens"]:
        score = int(rng.integers(1, 11))
        return {"score": score, "seconds": 1.0, "pointer": "mouse", "focus_lost": False}
    timed = [1000.0 * screen["seconds"] for screen in trial["screens"][:-1]]
    return {
        "x": float(rng.random() * trial["width"]),
        "y": float(rng.random() * trial["height"]),
        "natural_width": trial["width"],
        "natural_height": trial["height"],
        "shown_width": 1.0 * trial["width"],
        "shown_height": 1.0 * trial["height"],
        "pixel_ratio": 1.0,
        "pointer": "mouse",
        "latency_ms": 500.0,
        "screens": [{"planned_ms": ms, "true_ms": ms} for ms in timed],
        "focus_lost": False,
        "blocked_clicks": 0,
    }


class Killable(subprocess.Popen[str]):
    """A process that has ended once it is killed."""

    def kill(self) -> None:
        super().kill()
        self.wait()


def start_python(*words: str) -> Any:
    """Start `python WORDS`."""
    return Killable([sys.executable, *words])


def run_python(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `python WORDS` to its end."""
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Served:
    """A server in a process of its own, which can be killed and started again."""

    def __init__(self, plan: Path, url: str | None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self._command = [__file__, "serve", str(plan), str(self.port), url or ""]
        self.start()

    def start(self) -> None:
        self.process = start_python(*self._command)
        while True:
            try:
                urllib.request.urlopen(f"{self.address}/static/study.css", timeout=5).close()
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.05)

    def kill(self) -> None:
        self.process.kill()


def send(people: list[SimulatedPerson], most: int) -> list[BaseException]:
    """All at once, each in a thread; what went wrong."""
    wrong: list[BaseException] = []

    def work(person: SimulatedPerson) -> None:
        try:
            person.work(most, images=False)
        except Exception as error:  # noqa: BLE001  gathered and shown by the caller
            wrong.append(error)

    run_all([threading.Thread(target=work, args=(person,)) for person in people])
    return wrong


def crowd(address: str, many: int, persistent: bool = False) -> list[SimulatedPerson]:
    return [
        SimulatedPerson(address, anywhere, np.random.default_rng(k), persistent=persistent)
        for k in range(many)
    ]


def load(many: int, url: str | None, kind: str, think: float) -> dict[str, Any]:
    """So many people at once, until nothing is left; each thinks before every answer."""

    def thinking(trial: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        time.sleep(float(rng.exponential(think)) if think else 0.0)
        return anywhere(trial, rng)

    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.toml"
        more = "\n".join(f'[[masks]]\nname = "model-{k}"' for k in range(max(1, many // 14)))
        text = RATE.format(more=more) if kind == "rate" else CLICKS.format(per_cell=many // 5)
        plan.write_text(text)
        served = Served(plan, url)
        people = crowd(served.address, many)
        for person in people:
            person.answering = thinking
        start = time.perf_counter()
        wrong = send(people, 1000 if kind == "rate" else 1)
        seconds = time.perf_counter() - start
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        served.kill()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = sum(after[k] - before[k] for k in (0, 1))
        engine = open_engine(url or default_url(plan))
        checked = check(engine, kind)
        took = np.array([each for person in people for each in person.seconds])
        # The first six requests are coming in, all people at the same moment.
        later = [each for person in people for each in person.seconds[6:]] or [0.0]
        return {
            "kind": kind,
            "people": many,
            "seconds of thinking": think,
            "errors": len(wrong),
            "first error": str(wrong[0])[:200] if wrong else "",
            "requests": len(took),
            "requests per second": round(len(took) / seconds, 1),
            "CPU ms per request": round(1000 * cpu / len(took), 2),
            "p50 ms": round(1000 * float(np.percentile(took, 50)), 1),
            "p95 ms": round(1000 * float(np.percentile(took, 95)), 1),
            "p99 ms": round(1000 * float(np.percentile(took, 99)), 1),
            "p95 ms once all have come in": round(1000 * float(np.percentile(later, 95)), 1),
            **checked,
        }


def check(engine: sa.Engine, kind: str) -> dict[str, Any]:
    """Every cell as full as planned and no fuller; no participant answered a task twice."""
    with engine.connect() as connection:
        cells = connection.execute(sa.select(db.cells)).mappings().all()
        asked = (
            sa.select(db.trials.c.task, db.batches.c.person)
            .join(db.batches, db.batches.c.id == db.trials.c.batch)
            .where(db.trials.c.answered.is_not(None))
        )
        given = [tuple(row) for row in connection.execute(asked)]
    counts = Counter(task for task, _ in given)
    valid = [cell["valid"] for cell in cells]
    return {
        "answers": len(given),
        "cells over plan": sum(counts[c["task"]] > c["wanted"] for c in cells),
        "cells lost": sum(c["valid"] != counts[c["task"]] for c in cells),
        "cells not full": sum(c["valid"] < c["wanted"] for c in cells) if kind == "rate" else "-",
        "spread over cells": max(valid) - min(valid) if kind != "rate" else "-",
        "answered twice by one person": len(given) - len(set(given)),
    }


def join(many: int, url: str | None) -> dict[str, Any]:
    """A class opens the study at the same moment, all from one address."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.toml"
        plan.write_text(CLICKS.format(per_cell=50))
        served = Served(plan, url)
        people = crowd(served.address, many)
        wrong: list[BaseException] = []

        def enter(person: SimulatedPerson) -> None:
            try:
                person.join()
            except Exception as error:  # noqa: BLE001  gathered and shown below
                wrong.append(error)

        start = time.perf_counter()
        run_all([threading.Thread(target=enter, args=(person,)) for person in people])
        seconds = time.perf_counter() - start
        served.kill()
        return {
            "people": many,
            "errors": len(wrong),
            "first error": str(wrong[0])[:200] if wrong else "",
            "seconds": round(seconds, 1),
        }


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Commands:
    """Commands that run while people answer and the server is killed."""

    def __init__(self, plan: Path, url: str | None, folder: Path) -> None:
        self._plan, self._folder = plan, folder
        self._db = ["--db", url] if url else []
        self.calls = 0
        self.wrong: list[str] = []

    def until(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.call("invite", str(self._plan), "-n", "2", *self._db)
            self.call("export", str(self._plan), "-o", str(self._folder / "export"), *self._db)
            self.call("backup", str(self._plan), "-o", str(self._folder / "b.db"), *self._db)

    def call(self, *words: str) -> None:
        done = run_python("-m", "segmeter", "study", *words)
        self.calls += 1
        if done.returncode and "nothing to export" not in done.stderr:
            self.wrong.append(done.stderr[-300:])


def kill(times: int, url: str | None, commands_too: bool = True, many: int = 8) -> dict[str, Any]:
    """Kill the server at random moments while people answer and commands run."""
    rng = random.Random(0)
    _STOP.clear()
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.toml"
        plan.write_text(CLICKS.format(per_cell=50))
        served = Served(plan, url)
        people = crowd(served.address, many, persistent=True)
        commands = Commands(plan, url, Path(folder))
        wrong: list[BaseException] = []
        workers = [threading.Thread(target=lambda: wrong.extend(send(again(people), 200)))]
        if commands_too:
            workers.append(threading.Thread(target=commands.until, args=(_STOP,)))
        for worker in workers:
            worker.start()
        for _ in range(times):
            before = acknowledged(people)
            while acknowledged(people) == before and workers[0].is_alive():
                time.sleep(0.01)  # a slow machine must not be killed before anything happens
            time.sleep(rng.random())
            served.kill()
            served.start()
        _STOP.set()
        for worker in workers:
            worker.join()
        served.kill()
        return _kept(plan, url, people, wrong) | {
            "kills": times,
            "commands run": commands.calls,
            "commands failed": commands.wrong,
        }


def _kept(
    plan: Path, url: str | None, people: list[SimulatedPerson], wrong: list[BaseException]
) -> dict[str, Any]:
    """Which acknowledged answers are in the database."""
    database = Database(url or default_url(plan))
    backup(database, plan.with_suffix(".copy.db"))
    kept = answers_in(database.engine)
    said = [each for person in people for each in person.acknowledged]
    return {
        "errors": len(wrong),
        "first error": str(wrong[0])[:200] if wrong else "",
        "acknowledged": len(said),
        "lost": sum(kept.get(s["trial"], [None])[-1] != s["answer"] for s in said),
        "stored twice": sum(len(each) > 1 for each in kept.values()),
        "backup equal": answers_in(open_engine(f"sqlite:///{plan.with_suffix('.copy.db')}"))
        == kept,
    }


def acknowledged(people: list[SimulatedPerson]) -> int:
    return sum(len(person.acknowledged) for person in people)


_STOP = threading.Event()


def again(people: list[SimulatedPerson]) -> list[SimulatedPerson]:
    """People who work until they are stopped: when nothing is left, a new participant joins."""
    for person in people:
        _endless(person)
    return people


def _endless(person: SimulatedPerson) -> None:
    def work(most: int = 0, *, images: bool = True) -> int:
        while not _STOP.is_set():
            person._http.cookies.clear()
            if not person.join():
                break
            for batch in person.batches():
                for trial in batch["trials"]:
                    if _STOP.is_set():
                        return len(person.acknowledged)
                    if not trial["answered"]:
                        person.answer(trial, False)
        return len(person.acknowledged)

    person.work = work  # type: ignore[method-assign]  # the same person, again and again


def answers_in(engine: sa.Engine) -> dict[str, list[Any]]:
    """All answers by trial."""
    found: dict[str, list[Any]] = {}
    with engine.connect() as connection:
        asked = sa.select(db.answers.c.trial, db.answers.c.body).order_by(db.answers.c.number)
        for trial, body in connection.execute(asked):
            found.setdefault(trial, []).append(json.loads(body)["given"])
    return found


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        plan, port, url = Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] or None
        study = open_study(read_plan(plan), url or default_url(plan))
        serve(study_app(study), "127.0.0.1", port)
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("load", "join", "kill"))
    parser.add_argument("--kind", choices=("clicks", "rate"), default="rate")
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--think", type=float, default=5.0)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--db", default=None)
    parser.add_argument("--postgres", action="store_true", help="start a temporary one")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(_postgres()) if given.postgres else given.db
        match given.what:
            case "load":
                found = load(given.people, url, given.kind, given.think)
            case "join":
                found = join(given.people, url)
            case _:
                found = kill(given.times, url)
    print(json.dumps(found | {"load average": os.getloadavg()}, indent=1))


def _postgres() -> contextlib.AbstractContextManager[str]:
    from postgres import binaries, temporary

    programs = binaries()
    if programs is None:
        raise SystemExit("no PostgreSQL here; apt-get install postgresql")
    return temporary(programs)


if __name__ == "__main__":
    main()
