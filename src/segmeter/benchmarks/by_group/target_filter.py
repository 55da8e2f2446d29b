"""A run of some targets alone: whatever is computed of a run can be computed of one group's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from segmeter.benchmarks.by_group.splitting import Key
from segmeter.core.benchmarks import Curves, Results, Row
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene

__all__ = ["OnlyTargets"]


class OnlyTargets:
    """A run as if only some of its targets had been played."""

    def __init__(self, run: Results, keys: Collection[Key]) -> None:
        self._run, self._keys = run, frozenset(keys)
        self._connection: Any = None

    @property
    def plan(self) -> Plan:
        return self._run.plan

    @property
    def provenance(self) -> Mapping[str, Any]:
        return self._run.provenance

    @property
    def settings(self) -> Mapping[str, Any]:
        return self._run.settings

    @property
    def damaged(self) -> Mapping[str, str]:
        return self._run.damaged

    @property
    def objects(self) -> Literal["sessions", "rows"]:
        return self._run.objects

    def sql(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """A query over the rows of these targets, masks left out."""
        if self._connection is None:
            self._connection = self._encoded_scenes()
        given: Any = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
        return self._connection.sql(query, params=given or None).to_arrow_table()

    def curves(self, measure: str) -> list[Curves]:
        return [c for curves in self._run.curves(measure) if (c := self._only(curves)).keys]

    def job_rows(self, model: str, dataset: str, scene: str) -> list[Row]:
        rows = self._run.job_rows(model, dataset, scene)
        return [row for row in rows if (dataset, scene, row["target"]) in self._keys]

    def scene(self, dataset: str, scene: str) -> Scene:
        return self._run.scene(dataset, scene)

    def scenes(self, dataset: str) -> list[str]:
        return self._run.scenes(dataset)

    def _only(self, curves: Curves) -> Curves:
        kept = [i for i, key in enumerate(curves.keys) if (curves.dataset, *key) in self._keys]
        return replace(
            curves,
            keys=tuple(curves.keys[i] for i in kept),
            clusters=tuple(curves.clusters[i] for i in kept),
            values=curves.values[np.array(kept, dtype=int)],
        )

    def _encoded_scenes(self) -> Any:
        import duckdb
        import pyarrow as pa

        connection = duckdb.connect(":memory:", config={"enable_external_access": "false"})
        names = ("dataset", "scene", "target")
        chosen = pa.table(dict(zip(names, zip(*sorted(self._keys), strict=True), strict=True)))
        known = self._run.sql("select * from rows limit 0").column_names
        kept = ", ".join(_quoted(name) for name in known if name != "mask")
        connection.register("chosen", chosen)
        connection.register("every_row", self._run.sql(f"select {kept} from rows"))
        connection.register("every_error", self._run.sql("select * from errors"))
        these = f"semi join chosen using ({', '.join(names)})"
        connection.execute(
            f"create view rows as select *, null::varchar as mask from every_row {these}"
        )
        if self.objects == "sessions":
            connection.register("every_session", self._run.sql("select * from sessions"))
            connection.execute(f"create view sessions as select * from every_session {these}")
        connection.execute("create view errors as select * from every_error")
        return connection


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
