"""A small run to attack, and the commands to do it with."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from segmeter.cli.app import run_app
from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.engine import run_plan

PLAN = Plan("noc", (Spec("disc"), Spec("noisy")), (Spec("drawn"),), rounds=2, limit=2)
Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run of two models on two scenes."""
    out = tmp_path_factory.mktemp("store") / "played"
    run_plan(PLAN, out, workers=0)
    return out


@pytest.fixture
def run(played: Path, tmp_path: Path) -> Path:
    """A copy of the run to do harm to."""
    return Path(shutil.copytree(played, tmp_path / "run"))


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type a command; its exit code, stdout and stderr."""

    def type_it(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["segmeter", *map(os.fspath, map(str, words))])
        monkeypatch.setattr("segmeter.cli.app._hear_one_interrupt", lambda: None)
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            run_app()
        said = capsys.readouterr()
        return int(str(stop.value.code)), said.out, said.err

    return type_it
