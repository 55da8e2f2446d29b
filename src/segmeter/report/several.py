"""Several runs read as one: for comparisons, tables and leaderboards over them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from segmeter.core.benchmarks import Benchmark, Curves, Difference, SummaryRow
from segmeter.core.catalogue import Spec
from segmeter.core.curves import CURVES, curves_of
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.models import ProtocolName
from segmeter.core.plans import Plan
from segmeter.core.rows import measure_column
from segmeter.core.scenes import Scene
from segmeter.runtime.roots import Roots
from segmeter.store import Run
from segmeter.store.views import quoted

__all__ = ["Several", "open_runs"]

_GROUP = 'model, dataset, "user", protocol'
_ROWS = re.compile(r"\brows\b")


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
        self._viewed: set[str] = set()

    @property
    def benchmark(self) -> Benchmark:
        return self.runs[0].benchmark

    @property
    def commands(self) -> list[dict[str, Any]]:
        return [command for run in self.runs for command in run.commands]

    @property
    def objects(self) -> Literal["sessions", "rows"]:
        return self.runs[0].objects

    def summary(self) -> list[SummaryRow]:
        """The benchmark's own summary over all runs."""
        return self.benchmark.summary(self)

    def differences(self) -> list[Difference]:
        """The benchmark's paired comparisons over all runs."""
        return self.benchmark.differences(self)

    @property
    def provenance(self) -> Mapping[str, Any]:
        entries = [run.provenance for run in self.runs]
        segmenters: dict[str, Any] = {}
        for entry in entries:
            segmenters = {**entry["segmenters"], **segmenters}
        return {"commands": [c for e in entries for c in e["commands"]], "segmenters": segmenters}

    def sql(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """A query over the rows and sessions of all runs."""
        import duckdb

        connection = self._connected("rows" if _ROWS.search(query) else self.objects)
        given: Any = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
        try:
            return connection.sql(query, params=given or None).to_arrow_table()
        except duckdb.Error as error:
            raise BadInput(f"these runs cannot answer: {error}") from error

    def curves(self, measure: str) -> list[Curves]:
        """A measure of every target over the rounds, group by group."""
        return curves_of(self.sql(CURVES.format(quoted(measure_column(measure)))))

    @property
    def damaged(self) -> Mapping[str, str]:
        """Parts that are left out, and why."""
        return {f"{r.address}/{k}": why for r in self.runs for k, why in r.damaged.items()}

    def job_rows(self, model: str, dataset: str, scene: str) -> list[dict[str, Any]]:
        """The rows of one job, with their masks, from the first run that has it."""
        for run in self.runs:
            if model in map(str, run.plan.segmenters) and dataset in map(str, run.plan.datasets):
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

    def _connected(self, wanted: str) -> Any:
        """The views, once they are asked for: rows of large runs take long to put together."""
        if self._connection is None:
            import duckdb

            self._connection = duckdb.connect(
                ":memory:", config={"enable_external_access": "false"}
            )
            self._connection.register("errors", self.runs[0].sql("select * from errors"))
        if wanted not in self._viewed:
            self._view(wanted)
            self._viewed.add(wanted)
        return self._connection

    def _view(self, name: str) -> None:
        """Rows or sessions of all runs, those of the first run that has a group."""
        pieces = []
        for k, run in enumerate(self.runs):
            known = run.sql(f"select * from {name} limit 0").column_names
            kept = ", ".join(quoted(column) for column in known if column != "mask")
            self._connection.register(f"{name}{k}", run.sql(f"select {kept} from {name}"))
            pieces.append(f"select *, {k} as run_ from {name}{k}")
        masks = ", null::varchar as mask" if name == "rows" else ""
        self._connection.execute(
            f"create view {name} as select * exclude (run_){masks} "
            f"from ({' union all by name '.join(pieces)}) "
            f"qualify run_ = min(run_) over (partition by {_GROUP})"
        )


def _joined(plans: Sequence[Plan]) -> Plan:
    """One plan for all; like must stand beside like."""
    first = plans[0]
    for other in plans[1:]:
        for what, many in (("benchmark", "benchmarks"), ("rounds", "rounds"), ("limit", "limits")):
            one, two = getattr(first, what), getattr(other, what)
            if one != two:
                raise BadInput(
                    f"runs of different {many} ({one} and {two}) are not set side by side"
                )
        for name, digest in other.fingerprints.items():
            if first.fingerprints.get(name, digest) != digest:
                raise BadInput(f"the runs were played on different versions of '{name}'")
    return replace(
        first,
        segmenters=_specs(spec for p in plans for spec in p.segmenters),
        datasets=_specs(spec for p in plans for spec in p.datasets),
        users=_specs(spec for p in plans for spec in p.users),
        protocols=cast(
            tuple[ProtocolName, ...], tuple(dict.fromkeys(r for p in plans for r in p.protocols))
        ),
        fingerprints={k: v for p in plans for k, v in p.fingerprints.items()},
    )


def _specs(specs: Any) -> tuple[Spec, ...]:
    return tuple({str(spec): spec for spec in specs}.values())
