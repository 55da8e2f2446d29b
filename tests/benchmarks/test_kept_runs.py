"""Numbers of small kept runs: every value, interval and p value of every benchmark."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest

from .kept_results import NUMBERS, RUNS, numbers_of

NAMES = ("model", "first", "second", "dataset", "user", "protocol", "statistic")
VALUES = ("value", "low", "high", "p", "p_holm", "targets")


def key(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(row.get(name) or "") for name in NAMES)


@pytest.mark.parametrize("run", RUNS)
def test_every_number_of_a_kept_run_stays_as_it_was(run: str) -> None:
    kept = [row for row in pq.read_table(NUMBERS).to_pylist() if row["run"] == run]
    known = {key(row): row for row in kept}
    found = {key(row): row for row in numbers_of(run)}
    assert found.keys() == known.keys()
    for name, row in found.items():
        now = [float("nan") if row.get(v) is None else row[v] for v in VALUES]
        then = [float("nan") if known[name][v] is None else known[name][v] for v in VALUES]
        assert now == pytest.approx(then, rel=1e-12, abs=1e-12, nan_ok=True), name
