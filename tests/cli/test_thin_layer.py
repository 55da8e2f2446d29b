"""The command line is a thin layer: options per benchmark, completion, JSON of the API."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import segmeter

from .conftest import type_here

Typed = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("benchmark", "shown", "hidden"),
    [
        ("noc", {"--until", "--user", "--model"}, {"--clicks", "--method"}),
        ("rclicks", {"--clicks", "--model"}, {"--until", "--method"}),
        ("seism", {"--method", "--dataset"}, {"--model", "--user", "--until", "--rounds"}),
    ],
)
def test_help_shows_the_options_of_that_benchmark_only(
    benchmark: str, shown: set[str], hidden: set[str]
) -> None:
    done = type_here("run", benchmark, "--help")
    assert done.returncode == 0
    words = set(done.stdout.split())
    assert shown <= words
    assert not hidden & words


def test_the_command_run_lists_the_benchmarks() -> None:
    done = type_here("run", "--help")
    assert all(name in done.stdout for name in (*segmeter.list_benchmarks(), "zero-shot"))


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (["run", "noc", "--model", "mobile"], "mobile-sam"),
        (["run", "noc", "-d", "grab"], "grabcut"),
        (["run", "rcl"], "rclicks"),
        (["run", "noc", "--unt"], "--until"),
        (["report", "runs/fi"], "runs/first"),
        (["leader"], "leaderboard"),
    ],
)
def test_a_shell_completes_names_options_and_runs(
    typed: list[str], completed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs/first").mkdir(parents=True)
    done = type_here(
        COMP_WORDS=" ".join(["segmeter", *typed]),
        COMP_CWORD=str(len(typed)),
        _SEGMETER_COMPLETE="complete_bash",
    )
    assert done.stdout.split() == [completed]


def test_json_of_commands_without_a_run_is_what_the_api_returns(
    typed: Typed, tmp_path: Path
) -> None:
    def facts(*words: object) -> Any:
        code, out, err = typed(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    def plain(value: Any) -> Any:
        return json.loads(json.dumps(value, default=str))

    assert facts("doctor") == plain(asdict(segmeter.doctor()))
    assert [row["name"] for row in facts("list", "models")["models"]] == segmeter.list_models()
    mask = tmp_path / "mask.png"
    Image.fromarray(np.eye(16, dtype=np.uint8)).save(mask)
    measured = segmeter.measure_files(mask, [mask], "object").facts()
    assert facts("measures", "compute", "--as", "object", mask, mask) == plain(measured)
    words = ("-m", "disc", "-d", "mini", "--stride", 64, "--no-boundary")
    mapped = segmeter.click_map("disc", "mini", tmp_path / "a", stride=64, boundary=False)
    assert facts("clicks", "map", *words, "-o", tmp_path / "b") == plain(mapped)
    parity = facts("models", "parity", "disc", "disc?radius=9", "--limit", 1, "--rounds", 1)
    expected = segmeter.parity("disc", "disc?radius=9", limit=1, rounds=1).facts()
    assert parity["iou"] == plain(expected)["iou"]
    estimated = segmeter.estimate("disc", "mini", rounds=1).facts()
    dry = facts("run", "noc", "-m", "disc", "-d", "mini", "--rounds", 1, "--dry-run",
                "--workers", 0)  # fmt: skip
    assert dry["cost"]["jobs"] == estimated["cost"]["jobs"]
    for shard in ("1/2", "2/2"):
        segmeter.evaluate(
            "disc", "mini", out=tmp_path / "runs" / shard[0], rounds=1, limit=2, shard=shard
        )
    listed = segmeter.list_runs(tmp_path / "runs")
    assert facts("runs", tmp_path / "runs")["runs"] == plain([asdict(run) for run in listed])
    merged = segmeter.merge(tmp_path / "one", [tmp_path / "runs/1", tmp_path / "runs/2"])
    both = facts("merge", tmp_path / "two", tmp_path / "runs/1", tmp_path / "runs/2")
    assert (both["jobs"], both["taken"]) == (merged.jobs, plain(merged.taken))
