"""Runs of all benchmarks kept as rows, read as a finished run is.

`kept_runs/*.parquet` hold the rows of small runs (the plan is in the file's metadata) without
columns that no statistic reads; `kept_runs/numbers.parquet` every number of their summaries and
differences. `python tests/benchmarks/kept_results.py` computes the numbers again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from segmeter.core import catalogue
from segmeter.core.benchmarks import Benchmark, SummaryRow
from segmeter.core.errors import NotFound
from segmeter.core.plans import Plan
from segmeter.core.rows import Schema
from segmeter.core.scenes import Scene
from segmeter.store import Run
from segmeter.store.job_files import ARROW_TYPES
from segmeter.store.validated_rows import database, has_sessions, sessions_of

KEPT = Path(__file__).parent / "kept_runs"
NUMBERS = KEPT / "numbers.parquet"
RUNS = sorted(path.stem for path in KEPT.glob("*.parquet") if path != NUMBERS)


class KeptRun:
    """One kept run; its images are not available."""

    provenance: Mapping[str, Any] = {"commands": [], "segmenters": {}}
    damaged: Mapping[str, str] = {}

    def __init__(
        self, name: str, settings: Mapping[str, Any] | None = None, where: str = "true"
    ) -> None:
        """`where` is a condition on rows, in SQL."""
        table = pq.read_table(KEPT / f"{name}.parquet")
        kept = duckdb.from_arrow(table).filter(where).to_arrow_table()
        table = kept.replace_schema_metadata(table.schema.metadata)
        self.settings = settings or {}
        self.plan = Plan.from_json(table.schema.metadata[b"plan"].decode())
        self.benchmark: Benchmark = catalogue.benchmarks.make(self.plan.benchmark)
        known = set(table.column_names)
        for column in self.benchmark.schema.columns:
            if column.name not in known:
                nulls = pa.nulls(len(table), ARROW_TYPES[column.kind])
                table = table.append_column(column.name, nulls)
        self._table = table

    headline = Run.headline

    @property
    def schema(self) -> Schema:
        return self.benchmark.schema

    @property
    def whole(self) -> KeptRun:
        return self

    def parts(self) -> list[tuple[KeptRun, dict[str, str]]]:
        return [(self, {})]

    def errors(self) -> list[dict[str, str]]:
        return []

    def summary(self) -> list[SummaryRow]:
        return self.benchmark.summary(self)

    @property
    def objects(self) -> str:
        return "sessions" if has_sessions(self.benchmark.schema) else "rows"

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        connection = database()
        connection.register("rows", self._table)
        if self.objects == "sessions":
            columns = [c for c in self._table.column_names if c != "mask"]
            sessions = sessions_of(connection, "select * from rows", columns, self.schema)
            connection.register("sessions", sessions)
        errors = ", ".join(f"null::varchar as {n}" for n in ("model", "dataset", "scene", "error"))
        connection.execute(f"create temp view errors as select {errors} where false")
        return connection

    def sql(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> pa.Table:
        given: Any = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
        return self._connection.sql(query, params=given or None).to_arrow_table()

    def columns(self, view: str = "") -> list[str]:
        names: list[str] = self.sql(f"select * from {view or self.objects} limit 0").column_names
        return names

    def cached(self, what: str, kind: type[Any], compute: Callable[[], list[Any]]) -> list[Any]:
        return compute()

    def job_rows(self, model: str, dataset: str, scene: str) -> list[dict[str, Any]]:
        query = "select * from rows where (model, dataset, scene) = (?, ?, ?)"
        rows: list[dict[str, Any]] = self.sql(query, [model, dataset, scene]).to_pylist()
        return rows

    def scene(self, dataset: str, scene: str) -> Scene:
        raise NotFound("only rows were kept")

    def scenes(self, dataset: str) -> list[str]:
        raise NotFound("only rows were kept")


def numbers_of(name: str) -> Iterator[dict[str, Any]]:
    """Every number of a run's summary and differences."""
    run = KeptRun(name)
    for row in run.benchmark.summary(run):
        yield {"run": name, **asdict(row)}
    for difference in run.benchmark.differences(run):
        yield {"run": name, **asdict(difference)}


if __name__ == "__main__":
    rows = [row for name in RUNS for row in numbers_of(name)]
    columns = dict.fromkeys(column for row in rows for column in row)
    table = pa.table({column: [row.get(column) for row in rows] for column in columns})
    pq.write_table(table, NUMBERS, compression="zstd", compression_level=19)
