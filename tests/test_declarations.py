"""Statistics and benchmarks are declared in one place; no other code depends on their names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from segmeter.analysis.responses import STATISTICS as RESPONSES
from segmeter.core import catalogue

from .syntax import MODULES, PACKAGE, nodes

NAMES = catalogue.benchmarks.names()
# Names that are no everyday words of the field, so that every text with one is about it.
DISTINCT = re.compile(r"\b(noc|rclicks|tetris|tetris-boxes|seism)\b(?!@)")
# Modules that run one benchmark: the default of the public call, demonstrations, studies, and
# training, which evaluates what it has trained.
USERS = {
    "cli/study.py",
    "cli/train.py",
    "evaluation.py",
    "study/interactions.py",
    "training/decoder_training.py",
}
# A dataset and a rule of the SEISM programs that share their name with a benchmark.
SAME_WORD = {
    "datasets/click_benchmarks.py",
    "measures/curves.py",
    "models/clicknets/clicknet.py",
    "users/replay.py",
}
CUTS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition"}


def texts(path: Path) -> Iterator[str]:
    """String constants of a module without its docstrings."""
    docs = {
        id(node.body[0].value)
        for node in nodes(path, ast.Module, ast.ClassDef, ast.FunctionDef)
        if node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes(path, ast.Constant):
        if isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_no_benchmark_is_named_outside_its_folder() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if "benchmarks" not in path.parts and any(map(DISTINCT.search, texts(path)))
    }
    assert found == USERS | SAME_WORD


def test_shared_modules_of_benchmarks_name_none_of_them() -> None:
    shared = (PACKAGE / "benchmarks").glob("*.py")
    named = [path.name for path in shared if any(map(DISTINCT.search, texts(path)))]
    assert named == []


def test_nothing_outside_its_folder_depends_on_which_benchmark_a_run_is_of() -> None:
    wrong = []
    for path in MODULES:
        for node in nodes(path, ast.Compare):
            parts = [node.left, *node.comparators]
            asked = any(isinstance(p, ast.Attribute) and p.attr == "benchmark" for p in parts)
            named = any(isinstance(p, ast.Constant) and p.value in NAMES for p in parts)
            if asked and named and path.parent.name != "tetris":
                wrong.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert wrong == []


def test_names_of_statistics_are_never_parsed() -> None:
    wrong = []
    for room in ("analysis", "benchmarks", "report", "cli", "stats", "core"):
        for path in sorted((PACKAGE / room).rglob("*.py")):
            for node in nodes(path, ast.Call):
                if isinstance(node.func, ast.Attribute) and node.func.attr in CUTS:
                    source = ast.unparse(node.func.value)
                    if re.search(r"(^|\.)(measure|statistic)$|statistic\.name$", source):
                        wrong.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert wrong == []


def test_no_text_is_compared_with_a_part_of_the_name_of_a_statistic() -> None:
    """Whatever the variable is called: parts are those of the names in the kept runs."""
    kept = Path(__file__).parent / "benchmarks" / "kept_runs" / "numbers.parquet"
    named = {*pq.read_table(kept)["statistic"].to_pylist(), *(s.name for s in RESPONSES)}
    wrong = []
    for path in MODULES:
        for node in nodes(path, ast.Call):
            if not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in CUTS | {"match", "fullmatch", "search", "compile"}:
                continue
            words = [w for arg in node.args for w in ast.walk(arg) if isinstance(w, ast.Constant)]
            for word in (w.value for w in words if isinstance(w.value, str)):
                part = len(word) > 2 and any(mark in word for mark in "-@:")
                if part and any(n.startswith(word) or n.endswith(word) for n in named):
                    wrong.append(f"{path.relative_to(PACKAGE)}:{node.lineno}: {word}")
    assert wrong == []


def test_there_is_one_class_of_statistics() -> None:
    classes = [
        str(path.relative_to(PACKAGE))
        for path in MODULES
        for node in nodes(path, ast.ClassDef)
        if node.name == "Statistic"
    ]
    assert classes == ["stats/statistics.py"]


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_declares_a_schema_a_headline_and_a_citation(name: str) -> None:
    benchmark = catalogue.benchmarks.make(name)
    assert benchmark.schema.key
    assert benchmark.headline
    assert benchmark.citations


def test_options_are_declared_with_type_default_and_help() -> None:
    until = next(o for o in catalogue.benchmarks.make("noc").options if o.name == "until")
    assert (until.flag, until.kind, until.default) == ("--until", str, None)
    for name in NAMES:
        for option in catalogue.benchmarks.make(name).options:
            assert option.kind in (int, float, bool, str, Path)
            assert option.default is None or option.read(option.default) == option.default
            assert not option.help or option.help.endswith(".")
