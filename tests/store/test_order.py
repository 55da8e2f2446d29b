"""Whatever the threads, the files' order and the hash seed: a run gives the same bytes."""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import segmeter
from segmeter.core.rows import SESSION_ROWS
from segmeter.store import Run, validated_rows
from segmeter.store.job_files import ARROW_TYPES

Typed = Callable[..., tuple[int, str, str]]
SOURCE = Path(segmeter.__file__).parent


def texts(node: ast.expr) -> str:
    """What a literal says; what is put into it stands as a mark."""
    if isinstance(node, ast.JoinedStr):
        return "".join(texts(v) for v in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else "{}"


@cache
def queries() -> list[tuple[str, str]]:
    """Every query in the source, with the place where it stands."""
    return [query for file in sorted(SOURCE.rglob("*.py")) for query in queries_in(file)]


def queries_in(file: Path) -> Iterator[tuple[str, str]]:
    source = file.read_text("utf-8")
    if "select " in source:
        nodes = list(ast.walk(ast.parse(source)))
        inner = {id(v) for n in nodes if isinstance(n, ast.JoinedStr) for v in n.values}
        for node in nodes:
            if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in inner:
                text = " ".join(texts(node).lower().split())
                if re.match(r"(with|select)\b.* from ", text):
                    yield f"{file.relative_to(SOURCE)}:{node.lineno}", text


# One row, no row; and what only makes views and sets.
ONE_ROW = re.compile(r"limit 0$|^select 1 from|^select (count|max|min|sum|avg)\((?!.*group by)")
VIEWS = ("store/validated_rows.py", "store/run.py")


def ordered(text: str) -> bool:
    """Whether the rows that come out stand in an order that the query gives."""
    outer = text[text.rindex(" from ") :] if "group by" not in text else text
    return bool(ONE_ROW.search(text)) or " order by " in outer.replace("(order by", "")


def test_every_query_orders_its_rows() -> None:
    loose = {place: text for place, text in queries() if not ordered(text)}
    assert {p: t for p, t in loose.items() if not p.startswith(VIEWS)} == {}
    assert len(queries()) > 25  # they are found at all


def test_no_query_takes_an_arbitrary_value() -> None:
    """`any_value` and `first` follow the threads where rows disagree."""
    assert [p for p, t in queries() if re.search(r"any_value\(|\bfirst\(|\blast\(", t)] == []


def test_no_sum_depends_on_the_number_of_threads() -> None:
    """Means and sums of fractions are taken over ordered lists; those of counts are exact."""
    exact = r"\{\}|inherited|list_sum\(prompts_outside_input|len\(|case when prompt is null then 0"
    counted = re.compile(rf"(?<!_)(?:avg|sum)\((?!{exact})")
    assert [p for p, t in queries() if counted.search(t)] == []


@pytest.fixture
def threaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Let every connection have so many threads."""
    connect = duckdb.connect

    def set_threads(many: int) -> None:
        def connected(place: str = ":memory:", config: dict[str, Any] | None = None) -> Any:
            return connect(place, config={**(config or {}), "threads": many})

        monkeypatch.setattr(duckdb, "connect", connected)
        validated_rows._engine.cache_clear()

    yield set_threads
    validated_rows._engine.cache_clear()


def test_threads_and_the_order_of_files_change_no_byte(
    run: Path, tmp_path: Path, typed: Typed, threaded: Callable[[int], None]
) -> None:
    told = set()
    for turn, threads in enumerate((1, 2, 7)):
        copy = tmp_path / f"copy{turn}"
        shutil.copytree(run, copy, ignore=shutil.ignore_patterns("jobs"))
        (copy / "jobs").mkdir()
        files = sorted((run / "jobs").iterdir(), reverse=bool(turn % 2))
        for k, file in enumerate(files):
            shutil.copy(file, copy / "jobs")
            os.utime(copy / "jobs" / file.name, (k, k))
        threaded(threads)
        summary, apart = typed("report", copy, "--json"), typed("compare", copy, "--json")
        told.add((summary, apart))
        rows = Run.open(copy).sql("select * from rows order by all").to_pylist()
        assert len(rows) > 0
    assert len(told) == 1


def test_views_are_found_however_a_query_spells_them(played: Path) -> None:
    opened = Run.open(played)
    counts = [
        opened.sql(f"SELECT COUNT(*) AS n FROM {view}").to_pylist()[0]["n"]
        for view in ("SESSIONS", "Rows", "ERRORS")
    ]
    assert 0 < counts[0] < counts[1]
    assert counts[2] == 0


@pytest.mark.parametrize("how", ["reversed", "by round", "drawn"])
def test_sessions_do_not_depend_on_the_order_of_rows(how: str) -> None:
    """Rows of sessions that follow each other are not sorted; others are."""
    rows = [
        {"model": "m", "dataset": "d", "scene": scene, "target": target, "user": "u"}
        | {"protocol": "corrected", "round": k, "iou": k / 5, "kinds": "click", "file_": 0}
        for scene in ("b", "a")
        for target in ("2", "1")
        for k in range(1, 5)
    ]
    other = {
        "reversed": rows[::-1],
        "by round": sorted(rows, key=lambda row: row["round"]),
        "drawn": [rows[k] for k in np.random.default_rng(0).permutation(len(rows))],
    }[how]
    sessions = sessions_of_rows(rows)
    assert sessions["scene"].to_pylist() == ["a", "a", "b", "b"]
    assert sessions["target"].to_pylist() == ["1", "2", "1", "2"]
    assert sessions["iou"].to_pylist() == [[0.2, 0.4, 0.6, 0.8]] * 4
    assert sessions["fault_"].to_pylist() == [None] * 4
    assert sessions_of_rows(other).equals(sessions)


@pytest.mark.parametrize(
    ("rounds", "why"),
    [([1, 2, 2], "two rows have the same key"), ([1, 3, 4], "some of its rounds are missing")],
)
def test_wrong_rounds_are_found_among_right_ones(rounds: list[int], why: str) -> None:
    rows = [
        {"model": "m", "dataset": "d", "scene": "s", "target": target, "user": "u"}
        | {"protocol": "corrected", "round": k, "iou": 0.5, "kinds": "click", "file_": 0}
        for target, numbers in (("right", [1, 2, 3]), ("wrong", rounds))
        for k in numbers
    ]
    assert sessions_of_rows(rows)["fault_"].to_pylist() == [None, why]


def sessions_of_rows(rows: list[dict[str, Any]]) -> pa.Table:
    connection = validated_rows.database()
    held = pa.Table.from_pylist(rows)
    for column in SESSION_ROWS.columns:
        if column.fact:
            nothing = pa.nulls(len(rows), ARROW_TYPES[column.kind])
            held = held.append_column(column.name, nothing)
    connection.register("rows", held)
    return validated_rows.sessions_of(connection, "select * from rows", held.column_names)
