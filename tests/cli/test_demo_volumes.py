"""The demo of volumes: a run and a page that is small enough to send."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from segmeter.api.demo import _REQUESTS, _models
from segmeter.core.errors import NotFound


def test_the_demo_of_volumes_needs_nothing_downloaded(
    typed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(_REQUESTS["volumes"][1], "users", ("box-per-slice",))
    quick = (["disc", "synthetic-stubborn"], "drawn models, for the time it takes")
    monkeypatch.setattr("segmeter.api.demo._models", lambda *_: quick)
    code, out, err = typed("demo", "volumes", "--out", "run")
    assert code == 0, err
    assert "ranges:" not in out, "three scans have none"
    assert "only the cap" not in out, "boxes drawn are no clicks that failed"
    assert "disc and synthetic-stubborn on the built-in volumes" in err
    page = Path("run/report.html").read_bytes()
    assert b'class="replay slices"' in page
    assert b"1 round with box-per-slice" in page
    assert b"a tight box in every slice" in page
    assert len(page) < 5_000_000


def test_without_weights_models_that_need_none_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segmeter.api.demo._available", lambda *_: False)
    assert _models("volumes", None, print)[0] == ["random-walker", "disc"]


def test_other_demos_there_are_none(typed: Any) -> None:
    code, _, err = typed("demo", "films")
    assert code == 2
    assert "no demo 'films'; it is images, volumes or video" in err


def test_networks_come_first_where_their_weights_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segmeter.api.demo._available", lambda *_: True)
    assert _models("volumes", None, print)[0] == ["litemedsam", "mobile-sam"]
    monkeypatch.setattr("segmeter.api.demo._available", lambda name, _: name == "mobile-sam")
    assert _models("volumes", None, print)[0] == ["mobile-sam", "random-walker"]


def test_the_demo_prints_where_its_weights_are(
    typed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks where `segmeter doctor` does: not in a folder next to this one."""
    weights = tmp_path / "shared" / "weights"
    for name in ("sam2-hiera-tiny", "mobile-sam"):
        (weights / name).mkdir(parents=True)
        (weights / name / "model.safetensors").touch()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("SEGMETER_OFFLINE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))

    def not_run(*_: object, **__: object) -> None:
        raise NotFound("not run here")

    monkeypatch.setattr("segmeter.evaluation.evaluate", not_run)
    _, _, err = typed("demo")
    assert "grabcut and random-walker" in err
    _, _, err = typed("demo", "--weights", "../shared/weights")
    assert "networks whose weights are in ../shared/weights" in " ".join(err.split())


def test_make_gives_the_demo_and_the_doctor_the_same_weights() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        ["make", "-n", "demo", "WEIGHTS=w"], cwd=root, text=True, capture_output=True, check=True
    )
    assert "segmeter demo --weights w" in done.stdout
    assert "segmeter doctor --weights w" in done.stdout


def test_a_log_file_gets_a_line_now_and_then_of_each_run_a_bar_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from types import SimpleNamespace

    from segmeter.api import progress

    monkeypatch.setattr(progress, "_EVERY_S", -1.0)
    monkeypatch.setattr(progress.Bar, "_write_lines", lambda self, ended: None)
    bar = progress.Bar()
    for error, line in (("no weights", "1 of 3 jobs, 1 failed, about"), ("", "1 of 3 jobs, about")):
        bar.begin(3, 0)
        bar.step(SimpleNamespace(error=error, job="a"))
        assert bar.reason == (error and f"a: {error}")
        bar.end()
        assert line in capsys.readouterr().err


def test_a_job_that_lasts_raises_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from segmeter.api import progress

    bar = progress.Bar(quiet=True)
    bar.begin(2, 0)
    bar.step(SimpleNamespace(error="", job="quick"))
    ended = progress.monotonic()
    monkeypatch.setattr(progress, "monotonic", lambda: ended + 600)
    assert bar._line("") == "1 of 2 jobs, about 10.0 minutes left"
    bar.end()


def test_a_log_file_gets_a_line_also_before_the_first_scene_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from threading import Event

    from segmeter.api import progress

    monkeypatch.setattr(progress, "_EVERY_S", 0.01)
    written, lines, bar = Event(), [], progress.Bar()
    monkeypatch.setattr(bar, "_print", lambda text: (lines.append(text), written.set()))
    bar.begin(3, 0)
    assert written.wait(60)
    bar.end()
    assert lines[0].startswith("0 of 3 jobs after ")


def test_quiet_prints_results_only_and_verbose_a_line_per_scene(typed: Any, tmp_path: Path) -> None:
    words = ("run", "noc", "-m", "disc", "-d", "mini", "--limit", 2, "--rounds", 1, "--workers", 0)
    code, out, err = typed(*words, "-o", tmp_path / "loud", "-v")
    assert (code, err.count(" of 2 jobs")) == (0, 2)
    code, quiet, err = typed("-q", *words, "-o", tmp_path / "quiet")
    assert (code, err) == (0, "")
    assert quiet.replace(str(tmp_path / "quiet"), str(tmp_path / "loud")) == out
