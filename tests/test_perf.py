"""Every script of perf/ starts: it imports what there is, and parses its options."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .forking import Interpreter

ROOT = Path(__file__).resolve().parents[1]

# One process for all of them: torch is imported once. Scripts without options are imported only.
STARTED = """
import contextlib, io, runpy, sys
sys.path[:0] = ["perf", "."]
for script in sys.argv[1:]:
    sys.argv = [script, "--help"]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            options = "ArgumentParser" in open(script).read()
            runpy.run_path(script, run_name="__main__" if options else "started")
    except SystemExit as end:
        assert end.code in (0, None), (script, end.code)
    except Exception as error:
        raise AssertionError(f"{script}: {error!r}") from error
    assert not options or "usage:" in printed.getvalue(), script
    print("started", script)
"""


def test_every_script_starts(python: Interpreter, tmp_path: Path) -> None:
    for package in ("torch", "SimpleITK", "nibabel", "fastapi"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs the package {package}")
    scripts = [str(path) for path in sorted((ROOT / "perf").glob("*.py"))]
    (tmp_path / "started.py").write_text(STARTED)
    done = python.run(tmp_path / "started.py", *scripts, folder=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("started ") == len(scripts)


@pytest.fixture
def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run a script in this process, which has imported most of what it needs."""

    def run(script: str, *words: object) -> str:
        monkeypatch.setattr(sys, "argv", [script, *map(str, words)])
        runpy.run_path(str(ROOT / "perf" / script), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_the_decoder_s_paths_are_measured_with_tiny_sizes(printed: Callable[..., str]) -> None:
    pytest.importorskip("torch")
    tiny = ("--side", 64, "--clicks", 2, "--repeats", 1, "--device", "cpu")
    said = printed("decoder_paths.py", *tiny)
    for path in ("captured graphs", "eager", "one pass"):
        assert f"{path}  " in said


def test_the_size_of_a_page_is_measured_with_tiny_sizes(printed: Callable[..., str]) -> None:
    said = printed("page_size.py", "--dataset", "drawn", "--images", 2, "--rounds", 2)
    assert said.count("2 images") == 3
    assert "page: " in said


def test_videos_in_one_pass_have_the_rows_of_one_protocol_after_the_other(
    printed: Callable[..., str],
) -> None:
    said = printed("video.py", "--model", "disc", "--frames", 3, "--rounds", 3)
    assert "rows equal: True" in said
