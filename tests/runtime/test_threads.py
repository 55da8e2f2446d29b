"""How many threads and cores there are."""

from __future__ import annotations

import os

import pytest

from segmeter.kernels import set_threads, threads
from segmeter.runtime.workers_and_devices import usable_cores


def test_there_is_always_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segmeter.kernels._count", 1)
    for asked, given in ((3, 3), (0, 1), (-2, 1)):
        set_threads(asked)
        assert threads() == given


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="a process runs on any core here")
def test_cores_that_are_closed_to_the_process_do_not_count() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert usable_cores() == len(allowed)


def test_without_restrictions_all_cores_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    for said, counted in ((6, 6), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda said=said: said)
        assert usable_cores() == counted
