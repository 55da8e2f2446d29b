"""Every script of perf/ starts: it imports what there is, and parses its options."""

from __future__ import annotations

import importlib.util
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


def test_the_decoder_s_paths_are_measured_with_tiny_sizes(python: Interpreter) -> None:
    pytest.importorskip("torch")
    tiny = ["--side", "64", "--clicks", "2", "--repeats", "1", "--device", "cpu"]
    done = python.run("perf/decoder_paths.py", *tiny, folder=ROOT)
    assert done.returncode == 0, done.stderr
    for path in ("captured graphs", "eager", "one pass"):
        assert f"{path}  " in done.stdout


def test_the_size_of_a_page_is_measured_with_tiny_sizes(python: Interpreter) -> None:
    tiny = ("--dataset", "drawn", "--images", 2, "--rounds", 2)
    done = python.run("perf/page_size.py", *tiny, folder=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 images") == 3
    assert "page: " in done.stdout


def test_videos_in_one_pass_have_the_rows_of_one_protocol_after_the_other(
    python: Interpreter,
) -> None:
    tiny = ("--model", "disc", "--frames", 3, "--rounds", 3)
    done = python.run("perf/video.py", *tiny, folder=ROOT)
    assert done.returncode == 0, done.stderr
    assert "rows equal: True" in done.stdout
