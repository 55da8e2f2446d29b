"""Habits of every command: versions, slips of the pen, exit codes, pipes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer.main

import segmeter
from segmeter.cli.app import commands
from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.engine import run_plan
from segmeter.store import Run

from ..forking import Interpreter

Typed = Callable[..., tuple[int, str, str]]
SEGMETER = [sys.executable, "-c", "import segmeter.cli; segmeter.cli.main()"]


def test_the_version_is_printed(typed: Typed) -> None:
    assert typed("--version") == (0, f"segmeter {segmeter.__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["rnu"], "'run'? 'segmeter --help' shows how"),
        (["run", "nco"], "no benchmark 'nco'; did you mean 'noc'?"),
        (["run", "seism", "--user", "x"], "no such option: --user"),
        (["run", "noc", "--modle", "disc"], "--model"),
        (["report", "runs/none", "--format", "docx"], "'docx' is not one of 'html', 'csv'"),
        (["list", "modles"], "did you mean 'models'?"),
        (["run", "noc", "--max-clicks", "5"], "did you mean --rounds?"),
        (["run", "noc", "-m", "disc", "-d", "example"], "no such folder; did you mean 'examples'?"),
        (["run", "noc", "-m", "disc", "-d", "docs/imges"], "did you mean 'docs/images'?"),
        (
            ["run", "noc", "-m", "disc", "-d", "docs/runs.md"],
            "is a file; name the folder with the images",
        ),
        (["run", "noc", "-m", "disc", "--weights", "README.md"], "it is a file: --model README.md"),
    ],
)
def test_a_slip_of_the_pen_is_answered_in_one_sentence(
    words: list[str], sentence: str, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    code, said, complaint = typed(*words)
    assert (code, said) == (2, "")
    (line,) = complaint.strip().splitlines()
    assert line.startswith("segmeter: ")
    assert sentence in line


def test_a_benchmark_that_only_score_runs_is_not_offered(typed: Typed) -> None:
    said = typed("run", "--help")[1]
    assert re.search(r"\bvolumes\b", said)
    assert not re.search(r"\bmasks  ", said)


@pytest.mark.parametrize(
    ("benchmark", "defaults"),
    [
        ("noc", ["--user", "centre-click", "--rounds", "20", "iou, boundary-iou, redrawn-path"]),
        ("tetris", ["centre-click, worst-click, best-click", "10"]),
        ("points", ["centre-point", "9"]),
    ],
)
def test_the_help_of_a_benchmark_names_its_defaults(
    typed: Typed, benchmark: str, defaults: list[str]
) -> None:
    said = " ".join(re.sub(r"[│╭╮╰╯─]", " ", typed("run", benchmark, "--help")[1]).split())
    assert "both by default" in said
    for value in defaults:
        assert (value if value.startswith("--") else f"Default: {value}.") in said


def test_no_argument_shows_the_help(typed: Typed) -> None:
    code, said, complaint = typed()
    assert code == 2
    assert "demo" in said + complaint
    assert "Exit codes" in said + complaint


def test_the_trace_is_shown_for_debug_in_any_position(typed: Typed) -> None:
    for words in (("--debug", "report", "none"), ("report", "none", "--debug")):
        code, _, complaint = typed(*words)
        assert code == 2
        assert "Traceback" in complaint


def test_every_command_has_help_with_an_example_and_no_empty_option() -> None:
    waiting = [((), typer.main.get_command(commands()))]
    while waiting:
        path, command = waiting.pop()
        inner = getattr(command, "commands", {})
        waiting += [((*path, name), found) for name, found in inner.items()]
        if not inner:
            assert "Example" in command.help, path
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{' '.join(path)} {parameter.name}"


def test_the_help_shows_no_types_of_python_and_the_panels_in_order(typed: Typed) -> None:
    _, said, _ = typed("run", "--help")
    assert "bool" not in said
    assert "list[" not in said
    _, said, _ = typed("--help")
    names = ["demo", "run", "report", "table", "study", "clicks", "models"]
    places = [said.index(f"│ {name} ") for name in names]
    assert places == sorted(places)


def test_limits_are_shown_whichever_typer_holds_them() -> None:
    """Options of typer before 0.29 keep their limits on their type, as those of click do."""
    import click

    from segmeter.cli.app import _plainly

    options = [
        click.Option(["--rounds"], type=click.IntRange(min=0)),
        click.Option(["--name"], type=str),
    ]
    assert [option.metavar for option in _plainly(list(options))] == ["<n>", None]


def test_every_command_that_writes_has_the_option_out() -> None:
    found = typer.main.get_command(commands()).commands  # type: ignore[attr-defined]
    for name, command in found.items():
        for parameter in command.params if name != "fetch" else ():  # fetches to, and from
            assert "--out" not in parameter.opts or {"--out", "-o"} <= set(parameter.opts), name


INTERRUPTED = """
import os, signal
from segmeter.models.synthetic import Disc

class Impatient(Disc):
    def encode(self, scene):
        if scene.id != "000" and "TEST_IMPATIENT" in os.environ:
            os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does
        return super().encode(scene)
"""


def test_an_interrupted_run_states_it_and_resumes_with_the_same_command(
    python: Interpreter, tmp_path: Path
) -> None:
    file, out = tmp_path / "impatient.py", tmp_path / "run"
    file.write_text(INTERRUPTED)
    words = ["run", "noc", "-m", f"{file}:Impatient", "-d", "drawn", "--limit", "3"]
    command = ["-m", "segmeter", *words, "--rounds", "1", "--workers", "0", "-o", str(out)]
    # A file that the source names is part of it; a variable is not.
    first = python.run(*command, TEST_IMPATIENT="1")
    assert first.returncode == 130, first.stderr
    kept = (
        "segmeter: interrupted; nothing that was finished is lost. To resume: segmeter run noc -m "
    )
    assert first.stderr.startswith(kept)
    assert first.stderr.endswith(f"--workers 0 -o {out}\n")
    assert len(list((out / "jobs").glob("*.parquet"))) == 1
    second = python.run(*command)
    assert second.returncode == 0, second.stderr
    assert second.stderr == "resuming: 1 of 3 jobs were done before, 2 left\n"
    third = python.run(*command)
    assert third.stderr == "resuming: 3 of 3 jobs were done before, nothing is left to run\n"
    assert Run.open(out).sql("select count(distinct scene) as n from rows").to_pylist() == [
        {"n": 3}
    ]


@pytest.mark.parametrize("module", ["typer", "rich", "segmeter.cli.list", "numpy", "duckdb"])
def test_ctrl_c_during_imports_prints_no_trace(module: str, tmp_path: Path) -> None:
    script = f"""
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            try:
                os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does
            except KeyboardInterrupt as error:
                raise ImportError("as compiled modules do") from error

sys.meta_path.insert(0, Interrupting())
sys.argv = ["segmeter", *sys.argv[1:]]
import segmeter.cli
segmeter.cli.main()
"""
    words = ["list", "users"]
    if module == "duckdb":  # imported late, by a command that is at work
        run_plan(Plan("noc", (Spec("disc"),), (Spec("drawn"),), rounds=1, limit=1), tmp_path / "r")
        words = ["compare", str(tmp_path / "r")]
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1].startswith("segmeter: interrupted")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["browse RUN", "models serve --model disc --port 0"])
def test_a_server_is_ended_by_ctrl_c_without_a_complaint(words: str, tmp_path: Path) -> None:
    run_plan(Plan("noc", (Spec("disc"),), (Spec("drawn"),), rounds=1, limit=1), tmp_path / "RUN")
    served = subprocess.Popen(
        [*SEGMETER, *words.split()],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert served.stdout is not None
    assert "Ctrl-C stops it" in served.stdout.readline()
    served.send_signal(signal.SIGINT)
    _, complaint = served.communicate()
    assert (served.returncode, complaint) == (0, "")


def test_a_closed_pipe_is_not_an_error() -> None:
    """As in `segmeter list | head -1`."""
    protocol, writing = os.pipe()
    os.close(protocol)
    command = [*SEGMETER, "list", "benchmarks", "--json"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fault_is_not_taken_for_a_run_with_errors(typed: Typed, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("class Mine:\n    def __init__(self):\n        raise LookupError('oops')\n")
    words = ("run", "noc", "-m", "disc", "-d", "drawn", "-u", f"{file}:Mine")
    code, _, complaint = typed(*words, "-o", tmp_path / "run")
    assert code == 70
    assert "LookupError: oops" in complaint
    assert not (tmp_path / "run").exists()


def test_a_second_demo_runs_next_to_another(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that were fetched after the first demo make it another plan."""
    from segmeter.api.demo import _folder_for
    from segmeter.core.catalogue import Spec
    from segmeter.core.plans import Plan
    from segmeter.store import RunFolder

    monkeypatch.chdir(tmp_path)
    first = Plan("noc", (Spec("disc"),), (Spec("mini"),))
    assert _folder_for(["disc"]) == Path("runs/demo")
    with RunFolder.claimed(Path("runs/demo"), first):
        pass
    assert _folder_for(["disc"]) == Path("runs/demo")
    assert _folder_for(["synthetic-noisy"]) == Path("runs/demo-2")
