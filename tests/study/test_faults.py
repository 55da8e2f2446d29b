"""Many people at once, and a server that is killed: nothing is lost, nothing counted twice.

`perf/study.py` does the same with 200 people and 20 kills.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

from ..forking import Forked, Interpreter

ROOT = Path(__file__).resolve().parents[2]


class Python:
    """Processes of an interpreter that has imported most; two threads start and end some."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter, self._lock = interpreter, threading.Lock()

    def start(self, *words: str) -> Started:
        with self._lock:
            return Started(self._interpreter.start(*words), self._lock)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self._lock:
            process = self._interpreter.start(*words)
        while True:
            with self._lock:
                if process.poll() is not None:
                    return process.wait()
            time.sleep(0.02)


class Started:
    """A process that only one thread asks about at a time."""

    def __init__(self, process: Forked, lock: threading.Lock) -> None:
        self._process, self._lock = process, lock

    def kill(self) -> None:
        with self._lock:
            self._process.kill()


@pytest.fixture(scope="module")
def faults(python: Interpreter) -> ModuleType:
    spec = importlib.util.spec_from_file_location("perf_study", ROOT / "perf" / "study.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    forked = Python(python)
    vars(module).update(start_python=forked.start, run_python=forked.run)
    return module


def check_load(found: dict[str, object]) -> None:
    assert found["errors"] == 0, found["first error"]
    assert found["cells over plan"] == 0
    assert found["cells lost"] == 0
    assert found["answered twice by one person"] == 0


def test_raters_at_once_rate_every_job_as_planned(faults: ModuleType) -> None:
    found = faults.load(8, None, "rate", 0.0)
    check_load(found)
    assert found["cells not full"] == 0


def test_clickers_at_once_fill_cells_evenly_on_postgresql(
    faults: ModuleType, postgres: str
) -> None:
    found = faults.load(10, postgres, "clicks", 0.0)
    check_load(found)
    assert int(str(found["spread over cells"])) <= 1


def test_a_killed_server_loses_no_acknowledged_answer(faults: ModuleType) -> None:
    """Commands run beside it."""
    found = faults.kill(1, None, many=4)
    assert found["errors"] == 0, found["first error"]
    assert int(str(found["acknowledged"])) > 0
    assert found["lost"] == 0
    assert found["stored twice"] == 0
    assert found["backup equal"]
    assert int(str(found["commands run"])) > 0
    assert found["commands failed"] == []


def test_a_class_of_100_behind_one_address_joins_without_an_error(faults: ModuleType) -> None:
    """With all limits on; perf/study.py join measures the time."""
    found = faults.join(100, None)
    assert found["errors"] == 0, found["first error"]
