"""Several runs read as one: for comparisons, tables and leaderboards over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from segmeter.core.benchmarks import Benchmark, Curves, Difference, SummaryRow
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.models import Reading
from segmeter.core.plans import Plan, Roots
from segmeter.core.scenes import Scene
from segmeter.store import Run

__all__ = ["Several", "open_runs"]

_GROUP = 'model, dataset, "user", reading'


def open_runs(
    addresses: Sequence[str | Path],
    roots: Roots | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    trust: bool = False,
) -> Run | Several:
    """One run, or several of one benchmark as if they were one."""
    runs = [Run.open(address, roots, settings, trust=trust) for address in addresses]
    return runs[0] if len(runs) == 1 else Several(runs)


class Several:
    """Runs of one benchmark with the same rounds, on data that agrees, side by side.

    Where two hold the same model on the same data by the same user, the first one's rows are
    taken. Masks are left where they lie.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.settings = runs[0].settings
        self.plan = _joined([run.plan for run in runs])
        self._connection: Any = None

    @property
    def benchmark(self) -> Benchmark:
        return self.runs[0].benchmark

    def summary(self) -> list[SummaryRow]:
        """The benchmark's own summary over all runs."""
        return self.benchmark.summary(self)

    def differences(self) -> list[Difference]:
        """The benchmark's paired comparisons over all runs."""
        return self.benchmark.differences(self)

    @property
    def provenance(self) -> Mapping[str, Any]:
        entries = [run.provenance for run in self.runs]
        subjects: dict[str, Any] = {}
        for entry in entries:
            subjects = {**entry["subjects"], **subjects}
        return {"commands": [c for e in entries for c in e["commands"]], "subjects": subjects}

    def sql(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """A query over the rows of all runs."""
        import duckdb

        if self._connection is None:
            self._connection = self._views()
        try:
            return self._connection.sql(query, params=parameters or None).to_arrow_table()
        except duckdb.Error as error:
            raise BadInput(f"these runs cannot answer: {error}") from error

    def curves(self, measure: str) -> list[Curves]:
        """A measure of every target over the rounds, group by group."""
        column = measure.replace("-", "_").replace('"', '""')
        table = self.sql(f"""
            select {_GROUP}, scene, target, any_value(cluster) as cluster,
                   list("{column}" order by round) as curve
            from rows group by {_GROUP}, scene, target order by {_GROUP}, scene, target
        """)
        found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for row in table.to_pylist():
            key = (row["model"], row["dataset"], row["user"], row["reading"])
            found.setdefault(key, []).append(row)
        return [_curves(key, rows) for key, rows in found.items()]

    @property
    def damaged(self) -> Mapping[str, str]:
        """Parts that are left out, and why."""
        return {f"{r.address}/{k}": why for r in self.runs for k, why in r.damaged.items()}

    def job_rows(self, model: str, dataset: str, scene: str) -> list[dict[str, Any]]:
        """The rows of one job, with their masks, from the first run that has it."""
        for run in self.runs:
            if model in map(str, run.plan.subjects) and dataset in map(str, run.plan.datasets):
                return run.job_rows(model, dataset, scene)
        return []

    def scene(self, dataset: str, scene: str) -> Scene:
        for run in self.runs:
            if dataset in map(str, run.plan.datasets):
                return run.scene(dataset, scene)
        raise NotFound(f"no run has the data set '{dataset}'")

    def scenes(self, dataset: str) -> list[str]:
        for run in self.runs:
            if dataset in map(str, run.plan.datasets):
                return run.scenes(dataset)
        raise NotFound(f"no run has the data set '{dataset}'")

    def _views(self) -> Any:
        import duckdb

        connection = duckdb.connect(":memory:")
        names = []
        for k, run in enumerate(self.runs):
            known = run.sql("select * from rows limit 0").column_names
            kept = ", ".join(f'"{name}"' for name in known if name != "mask")
            connection.register(f"run{k}", run.sql(f"select {kept} from rows"))
            names.append(f"select *, {k} as run_ from run{k}")
        union = " union all by name ".join(names)
        connection.execute(
            f"create view rows as select * exclude (run_), null::varchar as mask from ({union}) "
            f"qualify run_ = min(run_) over (partition by {_GROUP})"
        )
        connection.register("errors_", self.runs[0].sql("select * from errors"))
        connection.execute("create view errors as select * from errors_")
        return connection


def _joined(plans: Sequence[Plan]) -> Plan:
    """One plan for all; like must stand beside like."""
    first = plans[0]
    for other in plans[1:]:
        for what in ("benchmark", "rounds", "limit"):
            one, two = getattr(first, what), getattr(other, what)
            if one != two:
                raise BadInput(
                    f"runs of different {what} ({one} and {two}) are not set side by side"
                )
        for name, digest in other.fingerprints.items():
            if first.fingerprints.get(name, digest) != digest:
                raise BadInput(f"the runs were played on different versions of '{name}'")
    return replace(
        first,
        subjects=_specs(spec for p in plans for spec in p.subjects),
        datasets=_specs(spec for p in plans for spec in p.datasets),
        users=_specs(spec for p in plans for spec in p.users),
        readings=cast(
            tuple[Reading, ...], tuple(dict.fromkeys(r for p in plans for r in p.readings))
        ),
        fingerprints={k: v for p in plans for k, v in p.fingerprints.items()},
    )


def _specs(specs: Any) -> tuple[Spec, ...]:
    return tuple({str(spec): spec for spec in specs}.values())


def _curves(key: tuple[str, ...], rows: Sequence[dict[str, Any]]) -> Curves:
    model, dataset, user, reading = key
    values = np.full((len(rows), max(len(r["curve"]) for r in rows)), np.nan)
    for i, row in enumerate(rows):
        values[i, : len(row["curve"])] = [np.nan if v is None else v for v in row["curve"]]
    keys = tuple((row["scene"], row["target"]) for row in rows)
    clusters = tuple(row["cluster"] or row["scene"] for row in rows)
    return Curves(model, dataset, user, cast(Reading, reading), keys, clusters, values)
