"""No statistic can leave its range, whatever lies in the rows of a run."""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from segmeter.cli._printing import _plain
from segmeter.core.benchmarks import Difference, SummaryRow
from segmeter.core.catalogue import Spec
from segmeter.core.errors import SegmeterError
from segmeter.core.plans import Job, Plan
from segmeter.core.rows import SESSION_ROWS, columns_of_measures
from segmeter.stats.intervals import Resampling, share_interval
from segmeter.store import Run, RunFolder

MEASURES, ROUNDS = ("iou", "boundary-iou"), 4
SCHEMA = SESSION_ROWS.plus(columns_of_measures(MEASURES))
PLAN = Plan(
    "noc",
    (Spec("a"), Spec("b")),
    (Spec("made"),),
    users=(Spec("centre-click"),),
    rounds=ROUNDS,
    protocols=("published", "corrected"),
    measures=MEASURES,
)
SHARES = st.floats(0, 1) | st.sampled_from([0.0, 0.8, 0.85, 0.9, 0.95, 1.0])
few = settings(
    max_examples=12,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


@st.composite
def jobs(draw: Any) -> Mapping[tuple[str, str], Sequence[dict[str, Any]]]:
    """Rows of two models on some scenes: targets of one id, sessions cut short, no prompts."""
    made: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for scene in range(draw(st.integers(1, 4))):
        targets = draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3))
        for model in "ab":
            rows = made.setdefault((model, f"s{scene}"), [])
            for target in targets:
                for protocol in PLAN.protocols:
                    curve = draw(st.lists(SHARES, min_size=1, max_size=ROUNDS))
                    said = draw(st.sampled_from(['{"click": [1, 1]}', '{"box": []}', None]))
                    rows += [_row(target, protocol, k, v, said) for k, v in enumerate(curve)]
    return made


def _row(target: str, protocol: str, k: int, value: float, said: str | None) -> dict[str, Any]:
    return {
        "target": target, "user": "centre-click", "protocol": protocol, "round": k + 1,
        "cluster": None, "shape": [8, 8], "outline_px": 9, "prompt": said,
        "seconds_encode": 0.1, "seconds_predict": 0.01, "seconds_user": 0.001,
        "iou": value, "boundary_iou": value / 2,
    }  # fmt: skip


def _told(
    made: Mapping[tuple[str, str], Sequence[dict[str, Any]]], folder: Path
) -> tuple[list[SummaryRow], list[Difference]]:
    """What a run of these rows says; nothing where every part is set aside."""
    with RunFolder.claimed(folder, PLAN) as held:
        for (model, scene), rows in made.items():
            job = Job(Spec(model), Spec("made"), scene)
            held.finish(job, [job.identity() | row for row in rows], {"segmenter": model}, SCHEMA)
    run = Run.open(folder)
    try:
        return run.summary(), run.differences()
    except SegmeterError as error:
        assert "no finished job" in str(error)
        return [], []


def _range(measure: str, targets: int) -> tuple[float, float]:
    """The lowest and the highest value that a statistic can have."""
    name = re.split("@|-to-", measure)[0]
    if name == "noc":
        return 1, ROUNDS
    if name in ("nof", "never"):
        return 0, targets
    if name in ("iou", "boundary-iou", "auc", "boundary-auc"):
        return 0, 100
    assert name in ("seconds", "waiting", "seconds-predict", "seconds-user", "seconds-encode")
    return 0, math.inf


def check_summary(rows: Sequence[SummaryRow]) -> None:
    for row in rows:
        low, high = _range(row.statistic, row.targets)
        slack = 1e-9 * max(1.0, abs(row.value))
        assert low - slack <= row.value <= high + slack, row
        if not math.isnan(row.low):  # one image gives no interval
            assert low - slack <= row.low <= row.high + slack <= high + 2 * slack, row
        if row.statistic.startswith(("nof@", "never@")):  # Wilson's holds its estimate
            assert row.low - slack <= row.value <= row.high + slack, row


def check_differences(found: Sequence[Difference]) -> None:
    for d in found:
        assert 0 < d.p <= d.p_holm <= 1, d
        assert math.isnan(d.low) or d.low <= d.high, d
        if d.statistic.startswith("noc@"):
            assert abs(d.value) <= ROUNDS - 1, d


@few
@given(jobs())
def test_no_statistic_of_a_run_leaves_its_range(made: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        summary, found = _told(made, Path(folder) / "run")
    check_summary(summary)
    check_differences(found)
    json.dumps(_plain([asdict(row) for row in summary]), allow_nan=False)  # NaN is not JSON


def test_two_objects_of_one_id_never_count_double(tmp_path: Path) -> None:
    """They once made forty clicks of twenty rounds."""
    double = [_row("x", "corrected", k, 0.1, None) for k in range(ROUNDS)] * 2
    single = double[:ROUNDS]
    made = {("a", "s0"): double, ("a", "s1"): single, ("b", "s1"): single}
    summary, _ = _told(made, tmp_path / "run")
    check_summary(summary)
    assert {row.targets for row in summary} == {1}
    run = Run.open(tmp_path / "run")
    assert run.sql("select count(*) as many from sessions").to_pylist() == [{"many": 2}]
    assert set(run.damaged.values()) == {"two rows have the same key"}


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 5)), min_size=1, max_size=30),
    st.lists(st.booleans(), min_size=30, max_size=30),
)
@settings(max_examples=60)
def test_intervals_stay_within_their_values(
    drawn: list[tuple[float, int]], flags: list[bool]
) -> None:
    values, clusters = (list(column) for column in zip(*drawn, strict=True))
    found = Resampling(clusters, resamples=200).interval(values)
    slack = 1e-9 * max(1.0, *map(abs, values))
    assert min(values) - slack <= found.value <= max(values) + slack
    if not math.isnan(found.low):
        assert min(values) - slack <= found.low <= found.high + slack <= max(values) + 2 * slack
    share = share_interval(flags[: len(values)], clusters)
    assert 0 <= share.low <= share.value + sys.float_info.epsilon
    assert share.value <= share.high + sys.float_info.epsilon <= 1 + 2 * sys.float_info.epsilon


@pytest.mark.parametrize("value", [math.nan, math.inf, -5.0, 7.0, 1e308])
@pytest.mark.parametrize("column", ["iou", "boundary_iou"])
def test_a_job_file_with_a_quality_outside_0_to_1_is_quarantined(
    column: str, value: float, tmp_path: Path
) -> None:
    good = [_row("x", "corrected", k, 0.5, None) for k in range(ROUNDS)]
    bad = [row | {column: value} for row in good]
    made = {("a", "s0"): bad, ("a", "s1"): good, ("b", "s0"): good, ("b", "s1"): good}
    check_summary(_told(made, tmp_path / "run")[0])
    run = Run.open(tmp_path / "run")
    assert run.sql("select count(*) as many from sessions").to_pylist() == [{"many": 3}]
    assert set(run.damaged.values()) == {f"a row's '{column}' is not between 0 and 1"}
