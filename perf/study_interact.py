"""Latency of masks with a model in the loop, through the real server.

    python perf/study_interact.py --weights WEIGHTS [--model mobile-sam] [--people 1]
                                  [--objects 6] [--clicks 10] [--dataset mini]

`segmeter study serve` runs in a process of its own; people join, look at the screens and
click. With one person the server rests before each click, so that its processor time per
click can be read; with several they click when they like. Printed are medians and 95th
percentiles of the request as a browser waits for it, and what the server itself took.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.study.people import SimulatedPerson

PLAN = """
kind = "interact"
title = "Waiting"
[data]
dataset = "{dataset}"
[design]
models = ["{model}"]
devices = ["pc"]
open_to_all = true
per_cell = {people}
batch = {objects}
rounds = {clicks}
"""


class Server:
    """The real command, and how much processor time it has taken."""

    def __init__(self, plan: Path, more: list[str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "segmeter", "study", "serve", str(plan)]
        self.process = subprocess.Popen(
            [*command, "--port", str(port), *more], stdout=subprocess.DEVNULL
        )
        while True:
            try:
                urllib.request.urlopen(f"{self.address}/static/study.css", timeout=5).close()
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)

    def cpu(self) -> float:
        """Processor seconds of all its threads, by the scheduler's own count."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def rest(self) -> None:
        """Wait until it has nothing left to look at."""
        before = -1.0
        while (now := self.cpu()) - before > 0.02:
            before = now
            time.sleep(0.4)


class Clicking:
    """A participant who clicks; records the time of every request."""

    def __init__(self, server: Server, seed: int, clicks: int, alone: bool) -> None:
        self.server, self.clicks, self.alone = server, clicks, alone
        self.rng = np.random.default_rng(seed)
        self.person = SimulatedPerson(server.address, lambda *_: {}, self.rng)
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def work(self) -> None:
        self.person.join()
        batch = next(self.person.batches())
        for trial in batch["trials"]:
            time.sleep(0 if self.alone else 5.0)  # the screens before the first click
            for number in range(1, self.clicks + 1):
                self._click(trial, number)
            self._accept(trial)

    def _click(self, trial: dict[str, Any], number: int) -> None:
        if self.alone:
            self.server.rest()
        else:
            time.sleep(float(self.rng.exponential(2.0)))
        y, x = self.rng.random(2) * (trial["height"], trial["width"])
        ask: dict[str, Any] = {
            "number": number,
            "x": float(x),
            "y": float(y),
            "positive": number % 3 > 0,
        }
        ask |= {"user_ms": 900.0, "pointer": "mouse"}
        before, start = self.server.cpu(), time.perf_counter()
        self.person.post(f"/api/trials/{trial['id']}/steps", ask)
        self.wall.append(time.perf_counter() - start)
        self.cpu.append(self.server.cpu() - before)

    def _accept(self, trial: dict[str, Any]) -> None:
        times = [1000.0 * screen["seconds"] for screen in trial["screens"][:-1]]
        body = {"nonce": "a" * 8, "accepted": True, "review_ms": 1.0, "focus_lost": False}
        body["screens"] = [{"planned_ms": ms, "true_ms": ms} for ms in times]
        self.person.post(f"/api/trials/{trial['id']}", body)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    more = ["--weights", str(given.weights)] if given.weights else []
    more += ["--data", str(given.data)] if given.data else []
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.toml"
        plan.write_text(PLAN.format(**vars(given)))
        server = Server(plan, more)
        try:
            everybody = [
                Clicking(server, seed, given.clicks, given.people == 1)
                for seed in range(given.people)
            ]
            threads = [threading.Thread(target=one.work) for one in everybody]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            server.process.kill()
            server.process.wait()
    wall = 1000 * np.array([each for one in everybody for each in one.wall])
    cpu = 1000 * np.array([each for one in everybody for each in one.cpu])
    found = {"model": given.model, "people": given.people, "clicks": len(wall)}
    found |= {f"wall ms p{p}": round(float(np.percentile(wall, p)), 1) for p in (5, 50, 95)}
    if given.people == 1:
        found |= {f"CPU ms p{p}": round(float(np.percentile(cpu, p)), 1) for p in (5, 50, 95)}
    return found | {"load average": [round(each, 1) for each in os.getloadavg()]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="mobile-sam")
    parser.add_argument("--dataset", default="mini")
    parser.add_argument("--people", type=int, default=1)
    parser.add_argument("--objects", type=int, default=6)
    parser.add_argument("--clicks", type=int, default=10)
    parser.add_argument("--weights", type=Path, default=os.environ.get("SEGMETER_WEIGHTS"))
    parser.add_argument("--data", type=Path, default=os.environ.get("SEGMETER_DATA"))
    print(json.dumps(measure(parser.parse_args()), indent=1))


if __name__ == "__main__":
    main()
