"""The command line is a thin layer: options per benchmark, completion, few commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import segmeter
from segmeter.api.listing import BenchmarkOptions
from segmeter.cli.app import app, commands

from .conftest import type_here


@pytest.mark.parametrize(
    ("benchmark", "shown", "hidden"),
    [
        ("noc", {"--until", "--user", "--model"}, {"--clicks", "--method"}),
        ("rclicks", {"--clicks", "--model"}, {"--until", "--method"}),
        ("boxes", {"--boxes", "--model"}, {"--user", "--rounds", "--method"}),
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


def test_the_options_of_a_benchmark_import_no_other_benchmark() -> None:
    """All of them together take a second that every run would wait for."""
    code = (
        "import sys\n"
        "from segmeter.api.listing import BenchmarkOptions\n"
        "BenchmarkOptions.of('noc')\n"
        "print([name for name in sys.modules if name.startswith('segmeter.benchmarks.volumes')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_examples_name_what_can_be_listed() -> None:
    kinds = {"--model": segmeter.list_models, "--method": segmeter.list_methods}
    kinds["--dataset"] = segmeter.list_datasets
    for benchmark in segmeter.list_benchmarks():
        words = BenchmarkOptions.of(benchmark).example.split()
        for flag, name in zip(words[::2], words[1::2], strict=True):
            assert flag == "--data" or name.partition("?")[0] in kinds[flag](), benchmark


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


def test_the_top_level_has_at_most_24_commands() -> None:
    names = [info.name or info.callback.__name__ for info in commands().registered_commands]  # type: ignore[union-attr]
    names += [str(group.name) for group in app.registered_groups]
    assert len(names) == len(set(names)) <= 24
