"""Results: a run as tables, by SQL over its parts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from segmeter.core import catalogue
from segmeter.core.benchmarks import Curves, SummaryRow
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.models import Reading
from segmeter.core.plans import Plan, Roots
from segmeter.core.scenes import Dataset, Scene
from segmeter.store.folder import RunFolder

if TYPE_CHECKING:
    import duckdb

__all__ = ["Run"]

_KEY = 'model, dataset, scene, target, "user", reading, round'


class Run:
    """A run to read from: plan, provenance, rows, errors."""

    def __init__(
        self,
        folder: RunFolder,
        roots: Roots | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = folder
        self.roots = roots or Roots()
        self.settings: Mapping[str, Any] = settings or {}
        self.plan: Plan = folder.plan
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._datasets: dict[str, Dataset] = {}

    @classmethod
    def open(
        cls,
        path: Path | str,
        roots: Roots | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Run:
        """A run folder.

        `roots` say where its pictures lie, for those who want to show them; `settings` go to
        the benchmark's statistics, such as the path of a cost model.
        """
        return cls(RunFolder.existing(Path(path)), roots, settings)

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Commands that worked on the run, and what each subject was made of."""
        return {"commands": self.folder.provenance, "subjects": self._trails()}

    def summary(self) -> list[SummaryRow]:
        """The benchmark's own summary: every number with its interval."""
        rows: list[SummaryRow] = catalogue.benchmarks.make(self.plan.benchmark).summary(self)
        return rows

    def sql(self, query: str) -> pa.Table:
        """Run a query over the views `rows` and `errors`."""
        try:
            import duckdb
        except ModuleNotFoundError as error:
            raise NotFound(
                "summaries need duckdb, which is not installed here; the rows are kept, take the "
                "run folder to a machine that has it"
            ) from error
        if self._connection is None:
            self._connection = self._views()
        try:
            return self._connection.sql(query).to_arrow_table()
        except duckdb.Error as error:
            raise BadInput(f"'{self.folder.path}' cannot answer: {error}") from error

    def curves(self, measure: str) -> list[Curves]:
        """A measure of every target over the rounds, by model, data set, user and reading."""
        column = measure.replace("-", "_")
        table = self.sql(f"""
            select model, dataset, "user", reading, scene, target,
                   any_value(cluster) as cluster,
                   list("{column}" order by round) as curve
            from rows group by all order by all
        """)
        groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for row in table.to_pylist():
            key = (row["model"], row["dataset"], row["user"], row["reading"])
            groups.setdefault(key, []).append(row)
        return [_curves(key, rows) for key, rows in groups.items()]

    def scene(self, dataset: str, scene: str) -> Scene:
        """A scene of the run, to show; NotFound where the data is not at hand."""
        return self._dataset(dataset).load(scene)

    def scenes(self, dataset: str) -> list[str]:
        """All scenes the plan asks for; NotFound where the data is not at hand."""
        return list(self._dataset(dataset).scenes()[: self.plan.limit])

    def _dataset(self, name: str) -> Dataset:
        if name not in self._datasets:
            self._datasets[name] = catalogue.datasets.make(name, **self.roots.options())
        return self._datasets[name]

    def _views(self) -> duckdb.DuckDBPyConnection:
        import duckdb

        connection = duckdb.connect(":memory:")
        parts = sorted((self.folder.path / "parts").glob("*.parquet"))
        if not parts:
            raise BadInput(f"'{self.folder.path}' has no finished job yet")
        glob = _quoted(self.folder.path / "parts" / "*.parquet")
        joined, added = "", ""
        for folder in sorted((self.folder.path / "scores").glob("*")):
            name = folder.name.replace("-", "_")
            files = _quoted(folder / "*.parquet")
            joined += f' left join read_parquet({files}) as "{name}_" using ({_KEY})'
            added += f', "{name}_".value as "{name}"'
        connection.execute(
            f"create view rows as select parts.*{added} "
            f"from read_parquet({glob}, union_by_name=true) as parts{joined}"
        )
        connection.execute(f"create view errors as {self._errors_query()}")
        return connection

    def _errors_query(self) -> str:
        if any((self.folder.path / "errors").glob("*.parquet")):
            files = _quoted(self.folder.path / "errors" / "*.parquet")
            return f"select * from read_parquet({files}, union_by_name=true)"
        names = ("model", "dataset", "scene", "error", "detail")
        return f"select {', '.join(f'null::varchar as {n}' for n in names)} where false"

    def _trails(self) -> dict[str, dict[str, str]]:
        """What each subject's first part says about weights, device and libraries."""
        trails: dict[str, dict[str, str]] = {}
        for part in sorted((self.folder.path / "parts").glob("*.parquet")):
            raw = pq.read_schema(part).metadata or {}
            trail = {k.decode(): v.decode() for k, v in raw.items()}
            trails.setdefault(trail.pop("subject", "?"), trail)
            if len(trails) == len(self.plan.subjects):
                break
        return trails


def _curves(key: tuple[str, ...], rows: list[dict[str, Any]]) -> Curves:
    model, dataset, user, reading = key
    longest = max(len(row["curve"]) for row in rows)
    values = np.full((len(rows), longest), np.nan)
    for i, row in enumerate(rows):
        values[i, : len(row["curve"])] = row["curve"]
    keys = tuple((row["scene"], row["target"]) for row in rows)
    clusters = tuple(row["cluster"] or row["scene"] for row in rows)
    return Curves(model, dataset, user, cast(Reading, reading), keys, clusters, values)


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
