"""Results: a run as tables, by SQL over its parts.

Reading a run looks names up among what is installed; a file that the run names is never run.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import pyarrow as pa

from segmeter.core import catalogue
from segmeter.core.benchmarks import Benchmark, Curves, Difference, SummaryRow
from segmeter.core.curves import CURVES, curves_of
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.plans import Plan
from segmeter.core.received import check_data, received
from segmeter.core.rows import (
    ERROR_ROWS,
    JOB_KEY,
    SESSION_ROWS,
    Schema,
    columns_of_measures,
    measure_column,
)
from segmeter.core.scenes import Dataset, Scene
from segmeter.core.sections import Section
from segmeter.core.seeds import fingerprint
from segmeter.runtime.roots import Roots
from segmeter.store.folder import RunFolder
from segmeter.store.kept import kept_differences, kept_sessions, kept_summary
from segmeter.store.places import Address, Place
from segmeter.store.sessions import Gathered, has_sessions, read_sessions, untrue_jobs
from segmeter.store.views import Checked, check_parts, connect, quoted, wrong_rows

if TYPE_CHECKING:
    import duckdb

__all__ = ["Run"]

T = TypeVar("T")
View = Literal["sessions", "rows"]
_ROWS = re.compile(r"\brows\b")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_JOB_ROWS = Schema("rows", SESSION_ROWS.columns[: len(JOB_KEY)], JOB_KEY)


class _PartsChanged(Exception):
    """A part turned out to be damaged while something was computed from all of them."""


class Run:
    """A run to read from: plan, provenance, rows, errors."""

    def __init__(
        self,
        folder: RunFolder,
        roots: Roots | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        trust: bool = False,
    ) -> None:
        self.folder = folder
        self.roots = roots or Roots()
        self.settings: Mapping[str, Any] = settings or {}
        self.trust = trust
        self.plan: Plan = folder.plan
        self._connections: dict[View, duckdb.DuckDBPyConnection] = {}
        self._held: Gathered | None = None
        self._datasets: dict[str, Dataset] = {}
        self._checked: Checked | None = None
        self._steady = False

    @classmethod
    def open(
        cls,
        address: Address | Place,
        roots: Roots | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        trust: bool = False,
    ) -> Self:
        """A run folder, or a run at an address such as `s3://bucket/run`.

        `roots` say where its images lie, for those who want to show them; `settings` go to
        the benchmark's statistics, such as the path of a cost model. Only with `trust` may the
        run name a benchmark or a data set in a Python file, which is then run.
        """
        return cls(RunFolder.existing(address), roots, settings, trust=trust)

    @property
    def address(self) -> str:
        return self.folder.address

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Commands that worked on the run, and what each subject was made of."""
        return {"commands": self.commands, "segmenters": self._trails()}

    @property
    def commands(self) -> list[dict[str, Any]]:
        """Commands that worked on the run, the latest last."""
        return self.folder.provenance

    @property
    def damaged(self) -> Mapping[str, str]:
        """Parts that are left out, and why."""
        if self._held is None:
            return self._parts().damaged
        return {**self._held.damaged, **(self._checked.damaged if self._checked else {})}

    @cached_property
    def objects(self) -> View:
        """The smallest view in which every object of the run has a row."""
        return "sessions" if has_sessions(self.schema) else "rows"

    @cached_property
    def benchmark(self) -> Benchmark:
        """The benchmark that the run was made by, if it is installed or the run is trusted."""
        with self._protocol():
            made: Benchmark = catalogue.benchmarks.make(self.plan.benchmark)
        return made

    @cached_property
    def schema(self) -> Schema:
        """The columns that rows of this run have."""
        try:
            declared = declared_rows(self.benchmark)
        except NotFound:  # rows can be asked for without it
            declared = None
        if declared is None:
            return _JOB_ROWS
        named = [name for name in self.plan.measures if _COLUMN.fullmatch(measure_column(name))]
        return declared.plus(columns_of_measures(named))

    def summary(self) -> list[SummaryRow]:
        """The benchmark's own summary: every number with its interval; computed once."""
        benchmark = self.benchmark
        return self._steadily(lambda: kept_summary(self, lambda: benchmark.summary(self)))

    def differences(self) -> list[Difference]:
        """The benchmark's paired comparisons; computed once."""
        benchmark = self.benchmark
        return self._steadily(lambda: kept_differences(self, lambda: benchmark.differences(self)))

    def sections(self) -> Sequence[Section]:
        """What the benchmark has to say on a page."""
        benchmark = self.benchmark
        return self._steadily(lambda: benchmark.sections(self))

    def sql(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> pa.Table:
        """Run a query over the views `rows` and `errors`; `$name` or `?` stand for parameters.

        Where rows are rounds of sessions there is `sessions` too: one row for each, with lists
        over its rounds; it answers without reading the parts again.
        """
        try:
            return self._ask(query, parameters)
        except _failures() as error:
            if not self._look_again():
                raise self._unanswered(error) from error
        try:
            return self._ask(query, parameters)
        except _failures() as error:
            raise self._unanswered(error) from error

    def job_rows(self, model: str, dataset: str, scene: str) -> list[dict[str, Any]]:
        """All rows of one job, masks included, without a look at any other."""
        job = fingerprint(model, dataset, scene, size=10)
        only = check_parts(self.folder, "parts", self.schema, only=job)
        if not only.parts:
            return []
        connection = connect(self.folder, only, Checked(), self.schema)
        key = ", ".join(quoted(name) for name in self.schema.key)
        query = f"select * from rows where (model, dataset, scene) = ($1, $2, $3) order by {key}"
        try:
            found = connection.sql(query, params=[model, dataset, scene]).to_arrow_table()
        except _failures():
            self._look_again()  # leaves it out of what is asked next
            return []
        if wrong_rows(found, self.schema, [job]):
            return []
        rows: list[dict[str, Any]] = found.to_pylist(maps_as_pydicts="lossy")
        return rows

    def curves(self, measure: str) -> list[Curves]:
        """A measure of every target over the rounds, by model, data set, user and reading."""
        return curves_of(self.sql(CURVES.format(quoted(measure_column(measure)))))

    def scene(self, dataset: str, scene: str) -> Scene:
        """A scene of the run, to show; NotFound where the data is not at hand."""
        return self._guarded(lambda: self._dataset(dataset).load(scene))

    def scenes(self, dataset: str) -> list[str]:
        """All scenes the plan asks for; NotFound where the data is not at hand."""
        return self._guarded(lambda: list(self._dataset(dataset).scenes()[: self.plan.limit]))

    @contextmanager
    def _protocol(self) -> Iterator[None]:
        """While the run is read, names in files are not followed unless it is trusted."""
        with received(not self.trust):
            yield

    def _guarded(self, work: Callable[[], T]) -> T:
        with self._protocol():
            return work()

    def _steadily(self, work: Callable[[], T]) -> T:
        """Do something on one and the same set of parts: anew if one turns out to be damaged."""
        if self._steady:  # part of something larger, which begins anew as a whole
            return self._guarded(work)
        self._steady = True
        try:
            return self._guarded(work)
        except _PartsChanged:
            return self._guarded(work)
        finally:
            self._steady = False

    def _dataset(self, name: str) -> Dataset:
        if name not in self._datasets:
            spec = next((s for s in self.plan.datasets if str(s) == name), None)
            if spec is None:
                raise NotFound(f"'{self.address}' was not played on a data set '{name}'")
            made: Dataset = catalogue.datasets.make(spec, **self.roots.options())
            if spec.options or self.roots.noted:  # a folder that the run names, not the person
                check_data(self.plan, name, made, self.address)
            self._datasets[name] = made
        return self._datasets[name]

    def _unanswered(self, error: Exception) -> BadInput:
        said = str(error).split("\n")[0]
        return BadInput(f"'{self.address}' cannot answer: {said}")

    def _ask(self, query: str, parameters: Sequence[Any] | Mapping[str, Any]) -> pa.Table:
        view: View = "rows" if _ROWS.search(query) else self.objects
        if view not in self._connections:
            self._connections[view] = self._connected(view)
        given: Any = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
        return self._connections[view].sql(query, params=given or None).to_arrow_table()

    def _connected(self, view: View) -> duckdb.DuckDBPyConnection:
        """Views to ask; those of rows, for which every part is looked at, only if wanted."""
        tables = {"sessions": self._gathered().sessions} if self.objects == "sessions" else {}
        errors = check_parts(self.folder, "errors", ERROR_ROWS)
        if view == "sessions":
            return connect(self.folder, None, errors, self.schema, tables=tables)
        self._refuse_nothing()
        connection = connect(self.folder, self._parts(), errors, self.schema, tables=tables)
        if not tables and self._untrue(connection) and self._look_again():
            connection = connect(self.folder, self._parts(), errors, self.schema)
        return connection

    def _gathered(self) -> Gathered:
        """Sessions as they were kept, or from the parts."""
        if self._held is None:
            known_damage = self._checked is not None and bool(self._checked.damaged)
            gather = self._gather if known_damage else lambda: kept_sessions(self, self._gather)
            self._held = gather()
        return self._held

    def _gather(self) -> Gathered:
        self._refuse_nothing()
        sessions = self._true_sessions()
        return Gathered(sessions, self._trails(), dict(self._parts().damaged))

    def _refuse_nothing(self) -> None:
        checked = self._parts()
        if not checked.parts:
            why = next(iter(checked.damaged.items()), None)
            said = f"; {why[0]}: {why[1]}" if why else ""
            raise BadInput(f"'{self.address}' has no finished job yet{said}")

    def _true_sessions(self) -> pa.Table:
        """All sessions, of parts whose rows are those of the job that they are named by."""
        sessions, damaged = read_sessions(self.folder, self._parts(), self.schema)
        in_pack = any(name.startswith("parts/pack-") for name in damaged)
        if damaged:
            self._checked = self._parts().without(damaged)
        if in_pack or untrue_jobs(sessions, self._parts().job_ids()):
            self._look_again()
            self._refuse_nothing()
            sessions, _ = read_sessions(self.folder, self._parts(), self.schema)
        self._refuse_nothing()
        return sessions

    def _untrue(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Whether some rows are not those of the job that their part is named by."""
        inner = ", ".join(quoted(n) for n in self.schema.key if n not in JOB_KEY)
        apart = f"count(distinct ({inner}))" if inner else "count(*)"
        found = connection.sql(f"""
            select model, dataset, scene, count(*) as many, {apart} as apart
            from rows group by all
        """).fetchall()
        ids = {fingerprint(*job, size=10) for *job, many, apart in found if many == apart}
        return len(ids) != len(found) or ids != self._parts().job_ids()

    def _parts(self) -> Checked:
        if self._checked is None:
            self._checked = check_parts(self.folder, "parts", self.schema)
        return self._checked

    def _look_again(self) -> bool:
        """Read every part to its end, leave out what is damaged; whether that is news."""
        before = self._parts()
        self._checked = check_parts(self.folder, "parts", self.schema, thoroughly=True)
        self._connections.clear()
        self._held = None
        news = len(self._checked.damaged) > len(before.damaged)
        if news and self._steady:
            raise _PartsChanged
        return news

    def _trails(self) -> dict[str, dict[str, str]]:
        """What each subject's first part says about weights, device and libraries."""
        if self._held is not None:
            return {name: dict(trail) for name, trail in self._held.segmenters.items()}
        trails: dict[str, dict[str, str]] = {}
        for trail in self._parts().trails():
            trails.setdefault(trail.pop("segmenter", "?"), trail)
            if len(trails) == len(self.plan.segmenters):
                break
        return trails


def _failures() -> tuple[type[Exception], ...]:
    """What a query or a damaged file can raise, with a database or without."""
    if importlib.util.find_spec("duckdb") is None:
        return (pa.ArrowException, OSError)
    import duckdb

    return (duckdb.Error, pa.ArrowException, OSError)


def declared_rows(benchmark: object) -> Schema | None:
    """The schema that a benchmark declares, if it does."""
    schema = getattr(benchmark, "schema", None)
    return schema if isinstance(schema, Schema) else None
