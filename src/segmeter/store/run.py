"""A stored run, or several of one benchmark read as one: queries, summaries, sessions.

Names in a run are looked up among the installed ones; a file that the run names is never executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from html import escape
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

import pyarrow as pa

from segmeter.core import catalogue
from segmeter.core.benchmarks import Benchmark, Difference, SummaryRow, once_per_run
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound, first_line
from segmeter.core.plans import Plan
from segmeter.core.received_runs import check_data, received
from segmeter.core.rows import JOB_KEY, Schema, columns_of_measures, measure_column
from segmeter.core.scenes import Dataset, Scene
from segmeter.core.scores_by_step import quoted
from segmeter.core.sections import Section
from segmeter.core.seeds import fingerprint
from segmeter.runtime.remote_files import Roots
from segmeter.store import validated_rows
from segmeter.store.folder import RunFolder
from segmeter.store.several_runs import Source, joined_plan, label_models
from segmeter.store.storage import Address, Place
from segmeter.store.summary_cache import cached_contents, cached_lines, state_of

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
ViewName = Literal["sessions", "rows"]
Target = tuple[str, str, str]
"""Dataset, scene and target."""

_VIEWS = re.compile(r"\b(?:rows|sessions|errors)\b", re.IGNORECASE)
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TRIES = 8  # while another process compacts the run
_TARGET = ("dataset", "scene", "target")


class Run:
    """A run to read from: plan, provenance, rows, errors, statistics.

    Several runs of one benchmark can be opened as one. Rows of a model that several of them hold
    are joined if it is the same model: by the fingerprint of its weights and source, and by the
    values of sessions that two runs hold, which are taken from the first. Otherwise models get
    labels with their run, as in `mobile-sam (runs/old)`.
    """

    def __init__(
        self,
        folders: RunFolder | Sequence[RunFolder],
        roots: Roots | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        trust: bool = False,
    ) -> None:
        given = [folders] if isinstance(folders, RunFolder) else list(folders)
        self.roots = roots or Roots()
        self.settings: Mapping[str, Any] = settings or {}
        self.trust = trust
        self._sources = [Source(folder, folder.plan) for folder in given]
        self._joined_plan = joined_plan([source.plan for source in self._sources])
        self._targets: frozenset[Target] | None = None
        self._whole: Run | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._columns: dict[str, list[str]] = {}  # of the views that the connection has
        self._datasets: dict[str, Dataset] = {}

    @classmethod
    def open(
        cls,
        address: Address | Place | Sequence[Address],
        roots: Roots | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        trust: bool = False,
    ) -> Self:
        """Open a run folder, an address such as `s3://bucket/run`, or a list of either.

        `roots` are the folders of its images, to show them; `settings` go to the benchmark's
        statistics, such as the path of a cost model. Only with `trust` may the run name a
        benchmark or a dataset in a Python file, which is then executed.
        """
        several = isinstance(address, Sequence) and not isinstance(address, str)
        addresses = list(cast(Sequence[Address], address)) if several else [address]
        folders = [RunFolder.existing(one) for one in cast(list[Any], addresses)]
        return cls(folders, roots, settings, trust=trust)

    def only(self, targets: Collection[Target]) -> Self:
        """The same run as if it had been run on some of its targets only."""
        part = type(self)([s.folder for s in self._sources], self.roots, self.settings,
                          trust=self.trust)  # fmt: skip
        part._sources, part._datasets = self._sources, self._datasets
        part._targets = frozenset(targets)
        part.__dict__ |= {"plan": self.plan, "_labelled": self._labelled}
        part._whole = self.whole
        return part

    @property
    def whole(self) -> Run:
        """The run that this is a part of, or itself."""
        return self if self._whole is None else self._whole

    def parts(self) -> list[tuple[Self, Mapping[str, str]]]:
        """Each of several runs by itself, with the labels that its models have here."""
        if not self._several:
            return [(self, {})]
        return [
            (type(self)(s.folder, self.roots, self.settings, trust=self.trust), s.labels)
            for s in self._labelled
        ]

    @property
    def folder(self) -> RunFolder:
        """The folder of a single run, or the first of several."""
        return self._sources[0].folder

    @property
    def address(self) -> str:
        return ", ".join(source.folder.address for source in self._sources)

    @cached_property
    def plan(self) -> Plan:
        """The plan; of several runs one that covers them all, with the labels of their models."""
        if not self._several:
            return self._sources[0].plan
        labels = [s.labels.get(str(m), str(m)) for s in self._labelled for m in s.plan.segmenters]
        named = {str(m): m for s in self._sources for m in s.plan.segmenters}
        segmenters = tuple(named.get(label, Spec(label)) for label in dict.fromkeys(labels))
        return replace(self._joined_plan, segmenters=segmenters)

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Commands that worked on the run, and what each model was made of."""
        models: dict[str, Mapping[str, str]] = {}
        for source in self._labelled:
            for name, facts in self._contents(source).models.items():
                models.setdefault(source.labels.get(name, name), dict(facts))
        return {"commands": self.commands, "segmenters": models}

    @property
    def commands(self) -> list[dict[str, Any]]:
        """Commands that worked on the run, the latest last."""
        return [entry for source in self._sources for entry in source.folder.provenance]

    @property
    def damaged(self) -> Mapping[str, str]:
        """Files that are left out, wholly or in part, and why."""
        return self._by_file(lambda source: self._contents(source).damaged)

    @cached_property
    def objects(self) -> ViewName:
        """The smallest view in which every object of the run has a row."""
        return "sessions" if validated_rows.has_sessions(self.schema) else "rows"

    @cached_property
    def benchmark(self) -> Benchmark:
        """The benchmark that the run was made by, if it is installed or the run is trusted."""
        name = self._sources[0].plan.benchmark
        return self._guarded(lambda: cast(Benchmark, catalogue.benchmarks.make(name)))

    @cached_property
    def schema(self) -> Schema:
        """The columns that rows of this run have."""
        return self._schema(self._sources[0])

    def headline(self) -> list[str]:
        """Names of the benchmark's headline statistics that this run has.

        Where the run has other goals (`--until`, `--goal`), effort to these comes first.
        """
        cards = {card.name: card for card in self.benchmark.statistics(self)}
        known = [name for name in self.benchmark.headline if name in cards]
        if len(known) == len(self.benchmark.headline) or any(cards[n].effort for n in known):
            return known
        return [*(name for name, card in cards.items() if card.effort), *known]

    def summary(self) -> list[SummaryRow]:
        """The benchmark's own summary: every number with its interval; computed once."""
        return self._guarded(lambda: self.benchmark.summary(self))

    def differences(self) -> list[Difference]:
        """The benchmark's paired comparisons; computed once."""
        return self._guarded(lambda: self.benchmark.differences(self))

    def sections(self) -> Sequence[Section]:
        """The benchmark's sections of the report; computed once."""
        return self._guarded(
            lambda: once_per_run(self, "sections", lambda: self.benchmark.sections(self))
        )

    def sql(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> pa.Table:
        """Run a query over the views `rows` and `errors`; `$name` or `?` stand for parameters.

        Where rows are rounds of sessions there is `sessions` too: one row for each, with lists
        over its rounds; it answers without reading the files again.
        """
        views = {name.lower() for name in _VIEWS.findall(query)}
        given: Any = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
        return self._steadily(
            lambda: self._connected(views).sql(query, params=given or None).to_arrow_table()
        )

    def columns(self, view: str = "") -> list[str]:
        """The columns of a view, by default of the smallest that has every object."""
        name = view or self.objects
        self._steadily(lambda: self._connected({name}))
        return list(self._columns[name])

    def cached(self, what: str, kind: type[T], compute: Callable[[], list[T]]) -> list[T]:
        """Lines of numbers that an earlier command computed, or that are computed now."""
        return cached_lines(self.state(), what, kind, compute)

    def job_rows(self, model: str, dataset: str, scene: str) -> list[dict[str, Any]]:
        """All rows of one job, masks included, without reading any other."""
        for source in self._labelled:
            lost = {job for jobs in self._contents(source).left_out.values() for job in jobs}
            for name in source.named(model):
                job = fingerprint(name, dataset, scene, size=10)
                if job in lost:
                    continue
                found = self._steadily(
                    lambda s=source, j=job: validated_rows.job_table(s.folder, j, self._schema(s))  # type: ignore[misc]  # mypy cannot type a default in a lambda
                )
                rows = [] if found is None else found.to_pylist(maps_as_pydicts="lossy")
                if rows:
                    keys = [(dataset, scene, row.get("target", "")) for row in rows]
                    kept = [self._targets is None or key in self._targets for key in keys]
                    return [row | {"model": model} for row in compress(rows, kept)]
        return []

    def scene(self, dataset: str, scene: str) -> Scene:
        """A scene of the run, to show; NotFound where the data is not available."""
        return self._guarded(lambda: self._dataset(dataset).load(scene))

    def scenes(self, dataset: str) -> list[str]:
        """All scenes of the plan; NotFound where the data is not available."""
        with_it = (s.plan for s in self._sources if dataset in map(str, s.plan.datasets))
        plan = next(with_it, self.plan)
        return self._guarded(lambda: plan.scenes_of(dataset, self._dataset(dataset).scenes()))

    def sessions(self, goal: float = 0.9) -> list[dict[str, Any]]:
        """One entry per session or object: its key, number of rounds, and every measure at the end.

        Where there is an IoU, `rounds_to_goal` is the first round that reaches `goal` (None if
        none does) and `best_iou` the highest of all rounds.
        """
        if not (isinstance(goal, int | float) and 0 <= goal <= 1):
            raise BadInput(f"the goal of sessions is an IoU from 0 to 1, not {goal!r}")
        known = self.columns("rows")
        key = ", ".join(quoted(name) for name in self.schema.key if name != "round")
        facts = ["min(label) as label"] if "label" in known else []
        if "round" in self.schema.key:
            columns = [c for c in map(measure_column, self.plan.measures) if c in known]
            facts += [f"list({quoted(c)} order by round)[-1] as {quoted(c)}" for c in columns]
            facts.append("max(round) as rounds")
            if "iou" in columns:
                facts.append(f"min(round) filter (iou >= {float(goal)}) as rounds_to_goal")
                facts.append("max(iou) as best_iou")
        chosen = ", ".join([key, *facts])
        query = f"select {chosen} from rows group by {key} order by {key}"
        return list(self.sql(query).to_pylist())

    def errors(self) -> list[dict[str, str]]:
        """The jobs that failed: model, dataset, scene and error."""
        query = "select model, dataset, scene, error from errors order by all"
        return list(self.sql(query).to_pylist())

    def to_pandas(self, what: Literal["summary", "sessions", "rows"] = "summary") -> Any:
        """Statistics, sessions or rows as a DataFrame; rows come without masks."""
        try:
            import pandas  # type: ignore[import-untyped]  # its stubs are another package
        except ModuleNotFoundError as error:
            raise NotFound("to_pandas needs pandas: pip install pandas") from error
        if what == "summary":
            return pandas.DataFrame([asdict(row) for row in self.summary()])
        if what == "sessions":
            return pandas.DataFrame(self.sessions())
        return self._all_rows().to_pandas()

    def rows(self) -> list[dict[str, Any]]:
        """All rows, one per round of a session, without their masks."""
        return list(self._all_rows().to_pylist())

    def _all_rows(self) -> pa.Table:
        known = self.columns("rows")
        columns = ", ".join(quoted(name) for name in known if name != "mask")
        key = ", ".join(map(quoted, self.schema.key))
        return self.sql(f"select {columns} from rows order by {key}")

    def verify(self) -> dict[str, str]:
        """Read every file of the run completely; the faults, by file."""
        return self._by_file(
            lambda source: validated_rows.verify_files(source.folder, self._schema(source))
        )

    def _by_file(self, found: Callable[[Source], Mapping[str, str]]) -> dict[str, str]:
        return {
            f"{source.folder.address}/{name}" if self._several else name: why
            for source in self._sources
            for name, why in found(source).items()
        }

    def __repr__(self) -> str:
        models, data = (", ".join(map(str, s)) for s in (self.plan.segmenters, self.plan.datasets))
        return f"<run of {self.plan.benchmark}: {models} on {data}, in {self.address}>"

    def _repr_html_(self) -> str:
        """The headline statistics as a small table, for notebooks."""
        rows = self.summary()
        known = list(dict.fromkeys(r.statistic for r in rows))
        shown = [m for m in self.headline() if m in known] or known[:5]
        values = {(r.key, r.statistic): f"{r.value:.2f}" for r in rows}
        keys = dict.fromkeys(r.key for r in rows)
        lines = [("model", "data", "user", "protocol", *shown)]
        lines += [(*key, *(values.get((key, m), "") for m in shown)) for key in keys]
        head, *body = (
            f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in line)}</tr>" for line in lines
        )
        heading = head.replace("td>", "th>")
        return f"<table><thead>{heading}</thead><tbody>{''.join(body)}</tbody></table>"

    def state(self) -> str:
        """A digest of all that numbers follow from: files, plans, settings, labels, version."""
        targets = [] if self._targets is None else sorted(self._targets)
        labels = [sorted(source.labels.items()) for source in self._labelled]
        folders = [source.folder for source in self._sources]
        return state_of(folders, self.settings, [targets, labels])

    @property
    def _several(self) -> bool:
        return len(self._sources) > 1

    def _guarded(self, work: Callable[[], T]) -> T:
        """Do something while names in files are not followed, unless the run is trusted."""
        with received(not self.trust):
            return work()

    def _steadily(self, work: Callable[[], T]) -> T:
        """Do something on the files of the run; again if another process compacted them."""
        validated_rows.check_database()
        import duckdb

        before: list[Any] = []
        for _ in range(_TRIES):
            try:
                return work()
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                listed = [source.folder.place.files("jobs") for source in self._sources]
                if listed == before:
                    why = first_line(error)
                    raise BadInput(f"'{self.address}' cannot be queried: {why}") from error
                before = listed
                self._connection = None
                self._columns.clear()
        raise BadInput(f"'{self.address}' keeps changing; wait until its run is finished")

    def _dataset(self, name: str) -> Dataset:
        if name not in self._datasets:
            found = ((s, d) for s in self._sources for d in s.plan.datasets if str(d) == name)
            source, spec = next(found, (None, None))
            if source is None or spec is None:
                raise NotFound(f"'{self.address}' was not run on a dataset '{name}'")
            made: Dataset = catalogue.datasets.make(spec, **self.roots.options())
            if spec.options or self.roots.noted:  # a folder that the run names, not the person
                check_data(source.plan, name, made, source.folder.address)
            self._datasets[name] = made
        return self._datasets[name]

    def _schema(self, source: Source) -> Schema:
        try:
            declared = self.benchmark.schema
        except NotFound:  # rows can be asked for without it
            return validated_rows.JOB_ROWS
        names = [n for n in source.plan.measures if _COLUMN.fullmatch(measure_column(n))]
        return declared.plus(columns_of_measures(names))

    def _contents(self, source: Source) -> validated_rows.Contents:
        """The verified contents of one folder; read once."""
        if source.contents is None:
            schema = self._schema(source)
            state = state_of([source.folder], {}, [schema.name])
            source.contents = self._steadily(
                lambda: cached_contents(
                    state, lambda: validated_rows.read_contents(source.folder, schema)
                )
            )
        return source.contents

    @cached_property
    def _labelled(self) -> Sequence[Source]:
        """The sources, with labels for models that would be mixed up."""
        if self._several:
            label_models(self._sources, [self._contents(source) for source in self._sources])
        return self._sources

    def _connected(self, views: Collection[str]) -> duckdb.DuckDBPyConnection:
        """The connection, with these views; files are listed only for requested ones."""
        if self._connection is None:
            self._connection = validated_rows.database()
            if self._targets is not None:
                rows = [dict(zip(_TARGET, key, strict=True)) for key in sorted(self._targets)]
                types = pa.schema([(name, pa.string()) for name in _TARGET])
                self._connection.register("targets_", pa.Table.from_pylist(rows, types))
            for number, source in enumerate(self._labelled if self._several else ()):
                labels = [{"model": name, "label_": text} for name, text in source.labels.items()]
                types = pa.schema([("model", pa.string()), ("label_", pa.string())])
                self._connection.register(f"labels{number}_", pa.Table.from_pylist(labels, types))
        wanted = {self.objects, *views} if "errors" in views else views
        for name in (n for n in ("sessions", "rows", "errors") if n in wanted):
            if name not in self._columns and (name != "sessions" or self.objects == name):
                query = self._view(self._connection, name)
                self._connection.execute(f"create or replace temp view {name} as {query}")
                self._columns[name] = self._connection.table(name).columns
        return self._connection

    def _view(self, connection: duckdb.DuckDBPyConnection, name: str) -> str:
        numbers = range(len(self._sources))
        if name != "errors":
            return self._joined([self._piece(connection, name, k) for k in numbers])
        for number, source in enumerate(self._sources):
            connection.register(f"errors{number}_", validated_rows.error_rows(source.folder))
        errors = self._labelled_rows([f"select * from errors{k}_" for k in numbers])
        key = ", ".join(JOB_KEY)
        finished = f"(select distinct {key} from {self.objects})"
        return f"select * exclude (run_) from ({errors}) anti join {finished} using ({key})"

    def _piece(self, connection: duckdb.DuckDBPyConnection, view: str, number: int) -> str:
        source, name = self._sources[number], f"{view}{number}_"
        contents = self._contents(source)
        rows = contents.sessions
        if view == "rows":
            rows = validated_rows.good_rows(source.folder, self._schema(source), contents.left_out)
        connection.register(name, rows)
        return f"select * from {name}"

    def _joined(self, pieces: Sequence[str]) -> str:
        """One query of all folders, each job from the first that has it, and of some targets."""
        whole = pieces[0]
        if self._several:
            names = [n for n in (*JOB_KEY, "user", "protocol") if n in self.schema.names]
            whole = (
                f"select * exclude (run_) from ({self._labelled_rows(pieces)}) "
                f"qualify run_ = min(run_) over (partition by {', '.join(map(quoted, names))})"
            )
        if self._targets is None:
            return whole
        return f"select * from ({whole}) semi join targets_ using ({', '.join(_TARGET)})"

    def _labelled_rows(self, pieces: Sequence[str]) -> str:
        """One query of all folders, with labels of models and the number of the folder."""
        if not self._several:
            return f"select *, 0 as run_ from ({pieces[0]})"
        return " union all by name ".join(
            f"select piece.* replace (coalesce(label_, piece.model) as model), {k} as run_ "
            f"from ({piece}) piece left join labels{k}_ on piece.model = labels{k}_.model"
            for k, piece in enumerate(pieces)
        )
