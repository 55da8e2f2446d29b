"""Load and faults: many people at once, and a server that is killed, on SQLite and PostgreSQL.

    python perf/study.py load [--people 200] [--think 5] [--kind clicks] [--db URL | --postgres]
    python perf/study.py kill [--times 20]

`load` lets people rate at once and checks that every job was rated as often as planned and
cells are balanced within one; it prints percentiles of the time of a request. `kill` ends the
server with SIGKILL at random moments while people work, starts it again, and checks that every
acknowledged answer is in the database and in the log, and that the log rebuilds the database.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import signal
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

from segmeter.study import tables as t
from segmeter.study.ledger import Ledger, open_engine, rebuild
from segmeter.study.people import SimulatedPerson
from segmeter.study.plan import read_plan
from segmeter.study.serving import Place, open_study, serve, study_app

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
"""
RATE = """
kind = "rate"
title = "Load"
[design]
open_to_all = true
batch = 5
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
        return {"score": int(rng.integers(1, 11)), "seconds": 1.0}
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


class Served:
    """A server in a process of its own, which can be killed and started again."""

    def __init__(self, plan: Path, url: str | None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self._command = [sys.executable, __file__, "serve", str(plan), str(self.port), url or ""]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command)
        while True:
            try:
                urllib.request.urlopen(f"{self.address}/static/study.css", timeout=5).close()
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.05)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def send(people: list[SimulatedPerson], most: int) -> list[BaseException]:
    """All at once, each in a thread; what went wrong."""
    wrong: list[BaseException] = []

    def work(person: SimulatedPerson) -> None:
        try:
            person.work(most, images=False)
        except Exception as error:  # noqa: BLE001  gathered and shown by the caller
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(person,)) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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
        engine = open_engine(Place.beside(plan, url).url)
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
    """Every cell as full as planned and no fuller; nobody answered a task twice."""
    with engine.connect() as connection:
        cells = connection.execute(sa.select(t.cells)).mappings().all()
        asked = (
            sa.select(t.trials.c.task, t.batches.c.person)
            .join(t.batches, t.batches.c.id == t.trials.c.batch)
            .where(t.trials.c.answered.is_not(None))
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


def kill(times: int, url: str | None) -> dict[str, Any]:
    """Kill the server at random moments while people work."""
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.toml"
        plan.write_text(CLICKS.format(per_cell=50))
        served = Served(plan, url)
        people = crowd(served.address, 8, persistent=True)
        wrong: list[BaseException] = []
        worker = threading.Thread(target=lambda: wrong.extend(send(again(people), 200)))
        worker.start()
        for _ in range(times):
            before = acknowledged(people)
            while acknowledged(people) == before and worker.is_alive():
                time.sleep(0.01)  # a slow machine must not be killed before anything happens
            time.sleep(rng.random())
            served.kill()
            served.start()
        _STOP.set()
        worker.join()
        served.kill()
        place = Place.beside(plan, url)
        kept = answers_in(Ledger(place.url, place.log).engine)
        logged = {
            event["body"]["trial"]: event["body"]["answer"]
            for event in map(json.loads, place.log.read_text().splitlines())
            if event["kind"] == "answered"
        }
        said = [each for person in people for each in person.acknowledged]
        rebuild(place.log, f"sqlite:///{folder}/again.db")
        return {
            "kills": times,
            "errors": len(wrong),
            "first error": str(wrong[0])[:200] if wrong else "",
            "acknowledged": len(said),
            "lost from the database": sum(kept.get(s["trial"]) != s["answer"] for s in said),
            "lost from the log": sum(logged.get(s["trial"]) != s["answer"] for s in said),
            "rebuilt alike": answers_in(open_engine(f"sqlite:///{folder}/again.db")) == kept,
        }


def acknowledged(people: list[SimulatedPerson]) -> int:
    return sum(len(person.acknowledged) for person in people)


_STOP = threading.Event()


def again(people: list[SimulatedPerson]) -> list[SimulatedPerson]:
    """People who go on until told to stop: when a batch list ends, somebody new comes."""
    for person in people:
        _endless(person)
    return people


def _endless(person: SimulatedPerson) -> None:
    def work(most: int = 0, *, images: bool = True) -> int:
        while not _STOP.is_set():
            person._http.cookies.clear()
            person.join()
            for batch in person.batches():
                for trial in batch["trials"]:
                    if _STOP.is_set():
                        return len(person.acknowledged)
                    if not trial["answered"]:
                        person.answer(trial, False)
        return len(person.acknowledged)

    person.work = work  # type: ignore[method-assign]  # the same person, who never tires


def answers_in(engine: sa.Engine) -> dict[str, Any]:
    with engine.connect() as connection:
        asked = sa.select(t.trials.c.id, t.trials.c.answer).where(t.trials.c.answer != "")
        return {row[0]: json.loads(row[1]) for row in connection.execute(asked)}


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        plan, port, url = Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] or None
        study = open_study(read_plan(plan), Place.beside(plan, url))
        serve(study_app(study, limited=False), "127.0.0.1", port)
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("load", "kill"))
    parser.add_argument("--kind", choices=("clicks", "rate"), default="rate")
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--think", type=float, default=5.0)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--db", default=None)
    parser.add_argument("--postgres", action="store_true", help="begin one for this")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(_postgres()) if given.postgres else given.db
        found = (
            load(given.people, url, given.kind, given.think)
            if given.what == "load"
            else kill(given.times, url)
        )
    print(json.dumps(found | {"load average": os.getloadavg()}, indent=1))


def _postgres() -> contextlib.AbstractContextManager[str]:
    from postgres import binaries, temporary

    programs = binaries()
    if programs is None:
        raise SystemExit("no PostgreSQL here; apt-get install postgresql")
    return temporary(programs)


if __name__ == "__main__":
    main()
