"""Commands as a person types them, in this very process: quicker than a new one each."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from typer import main

from segmeter.cli.app import run_app

# Commands are built once per process, as where one is typed; not all of them for each that is.
main.get_command_from_info = cache(main.get_command_from_info)

Typed = Callable[..., tuple[int, str, str]]
Done = subprocess.CompletedProcess[str]


def type_here(*words: object, **environment: str) -> Done:
    """Type a command: what a new process would have given, a second sooner."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["segmeter", *map(str, words)])
        for name, value in {"COLUMNS": "80", **environment}.items():
            patch.setenv(name, value)
        said = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
        with said[0], said[1], pytest.raises(SystemExit) as stopped:
            run_app()
    code = stopped.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(list(map(str, words)), code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all commands, as at home: results of a run are computed once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cache_home: Path
) -> Typed:
    """Type a command: its exit code, what it printed, what it complained of."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home))
    monkeypatch.delenv("SEGMETER_WEIGHTS", raising=False)
    monkeypatch.delenv("SEGMETER_DATA", raising=False)

    def type_it(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["segmeter", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            run_app()
        out, err = capsys.readouterr()
        assert isinstance(stopped.value.code, int)
        return stopped.value.code, out, err

    return type_it
