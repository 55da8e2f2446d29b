"""Scripts of perf/: each starts, and nearly all run through with tiny sizes."""

from __future__ import annotations

import importlib
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


# What each script needs to be quick: options, and constants where it has none for sizes.
SMALL: dict[str, tuple[tuple[object, ...], dict[str, object]]] = {
    "boundaries": ((), {"TIMING": Path("none")}),
    "browse": (("--sessions", 400), {}),
    "click_response": (("--side", 64, "--clicks", 8, "--batch", 4, "--device", "cpu"), {}),
    "clicks": ((), {"SIZES": {"tiny": (60, 80)}}),
    "groups": ((), {"SHAPE": (60, 80)}),
    "import_time": ((), {"REPEATS": 1, "MOST_SECONDS": 60}),
    "large_store": (("--jobs", 20, "--report"), {}),
    "partitions": ((), {"TIMING": Path("none")}),
    "prior": ((), {}),
    "reading_runs": (("--rows", 960, "--compacted"), {}),
    "records": (("--rows", 2000), {}),
    "service_overhead": (("--clicks", 3), {"GOAL_MS": 1e6}),
    "similarity": ((), {"POINTS": 200}),
    "study": (("load", "--people", 2, "--think", 0), {}),
    "study_interact": (("--model", "disc", "--objects", 1, "--clicks", 2), {}),
    "study_screening": (("--studies", 2, "--raters", 8), {}),
    "study_statistics": (("--studies", 2, "--raters", 6, "--targets", 4), {}),
    "volume_readers": ((), {}),
    "volumes": ((), {"SHAPE": (20, 32, 32)}),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_script_runs_through_with_tiny_sizes(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, constants = SMALL[name]
    script = importlib.import_module(name)
    for constant, value in constants.items():
        monkeypatch.setattr(script, constant, value)
    monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
    assert not script.main()
    assert capsys.readouterr().out


def test_opening_a_small_coco_file_is_measured(printed: Callable[..., str]) -> None:
    assert "again" in printed("coco_index.py", 130)


def test_the_first_row_of_a_run_is_timed(printed: Callable[..., str], tmp_path: Path) -> None:
    run = ("run", "noc", "-m", "disc", "-d", "drawn", "--limit", 1, "--out", tmp_path / "run")
    said = printed("first_row.py", "--all", "--", sys.executable, "-m", "segmeter", *run)
    assert "first row after" in said
