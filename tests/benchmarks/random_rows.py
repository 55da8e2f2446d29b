"""A run of random rows, read as a finished one is: for properties of what pages say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from segmeter.benchmarks.noc import Noc
from segmeter.core.catalogue import Spec
from segmeter.core.errors import NotFound
from segmeter.core.plans import Plan
from segmeter.core.rows import SESSION_ROWS
from segmeter.core.scenes import Scene
from segmeter.store.job_files import ARROW_TYPES
from segmeter.store.validated_rows import database, sessions_of

Qualities = Mapping[str, np.ndarray]  # of each model, (targets, rounds)


class RandomRun:
    """Rows in memory; two targets share a scene, and no data is available."""

    def __init__(
        self,
        qualities: Qualities,
        seconds: Mapping[str, float] | None = None,
        settings: Mapping[str, Any] | None = None,
        extra: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.settings: Mapping[str, Any] = settings or {}
        rounds = max(q.shape[1] for q in qualities.values())
        self.plan = Plan(
            "noc",
            tuple(map(Spec, qualities)),
            (Spec("made"),),
            users=(Spec("centre-click"),),
            rounds=rounds,
            protocols=("corrected",),
            measures=("iou",),
        )
        self.provenance: Mapping[str, Any] = {"commands": [], "segmenters": {}}
        rows = [
            row
            for model, quality in qualities.items()
            for row in _rows(model, quality, (seconds or {}).get(model, 0.1), extra)
        ]
        held = pa.Table.from_pylist(rows)
        for column in SESSION_ROWS.columns:  # facts that were not made up
            if column.fact and column.name not in held.column_names:
                held = held.append_column(
                    column.name, pa.nulls(len(rows), ARROW_TYPES[column.kind])
                )
        self._table = held

    objects = "sessions"
    benchmark = Noc()

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        connection = database()
        connection.register("rows", self._table)
        named = [n for n in self._table.column_names if n not in ("height", "width")]
        connection.register("sessions", sessions_of(connection, "select * from rows", named))
        connection.execute(
            "create temp view errors as select null::varchar as model, null::varchar as dataset, "
            "null::varchar as scene, null::varchar as error where false"
        )
        return connection

    def sql(self, query: str) -> pa.Table:
        return self._database.sql(query).to_arrow_table()

    @property
    def whole(self) -> RandomRun:
        return self

    def columns(self, view: str = "") -> list[str]:
        names: list[str] = self.sql(f"select * from {view or self.objects} limit 0").column_names
        return names

    def cached(self, what: str, kind: type[Any], compute: Callable[[], list[Any]]) -> list[Any]:
        return compute()

    def scene(self, dataset: str, scene: str) -> Scene:
        raise NotFound("these rows were made up; there is no image")

    def scenes(self, dataset: str) -> list[str]:
        raise NotFound("these rows were made up; there is no scene")


def _rows(
    model: str, quality: np.ndarray, seconds: float, extra: Mapping[str, np.ndarray] | None
) -> list[dict[str, Any]]:
    return [
        {
            "model": model,
            "dataset": "made",
            "scene": f"s{target // 2}",
            "target": str(target),
            "user": "centre-click",
            "protocol": "corrected",
            "round": k + 1,
            "cluster": f"s{target // 2}",
            "kinds": "click",
            "prompt": '{"click": [1, 1], "positive": true}',
            "seconds_encode": seconds,
            "seconds_predict": seconds,
            "seconds_user": 0.01,
            "contour_px": 40,
            "mask": None,
            "height": 8,
            "width": 8,
            "iou": float(value),
            **{name: float(values[target, k]) for name, values in (extra or {}).items()},
        }
        for target, curve in enumerate(quality)
        for k, value in enumerate(curve)
    ]
