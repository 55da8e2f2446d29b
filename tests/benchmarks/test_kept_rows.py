"""Rows stay as earlier versions wrote them, bit for bit.

`kept_rows/*.csv` hold rows of version 0.1.0 (commit 709e2b5): keys, clicks, scores and all
else that is no measured time; long texts and bytes as digests. They were made by

    segmeter run noc --model disc --dataset mini --limit 2 --rounds 4
    segmeter run rclicks --model disc --dataset mini --limit 1 --rounds 2 --samples 3
    segmeter run tetris --model disc --dataset mini --limit 1 --rounds 2 \
        --exhaustive 1 --stride 16
    segmeter run seism --method felzenszwalb --dataset bsds500 --limit 3

of which seism keeps the first image. Rows of videos are those of commit adfdae77, but
for the scribbles, whose ties are broken in another order since:

    segmeter run video --tracker "hand-over?model=disc" --dataset mini-video --rounds 2 \
        --user "first-frame?prompt=mask" --user worst-frame --user scribble-robot
"""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path
from typing import Any

import pytest

from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.engine import run_plan
from segmeter.runtime.remote_files import Roots
from segmeter.store import Run

KEPT = Path(__file__).parent / "kept_rows"
DISC, MINI = (Spec("disc"),), (Spec("mini"),)
PLANS = {
    "noc": Plan("noc", DISC, MINI, rounds=4, limit=2),
    "rclicks": Plan("rclicks", DISC, MINI, rounds=2, limit=1, options={"samples": 3}),
    "tetris": Plan(
        "tetris", DISC, MINI, rounds=2, limit=1, options={"exhaustive": 1.0, "stride": 16}
    ),
}
VIDEO_USERS = ("first-frame?prompt=mask", "worst-frame", "scribble-robot")
PLANS["video"] = Plan(
    "video", (Spec.parse("hand-over?model=disc"),), (Spec("mini-video"),), rounds=2,
    users=tuple(map(Spec.parse, VIDEO_USERS)),
)  # fmt: skip
SEISM = Plan("seism", (Spec("felzenszwalb"),), (Spec("bsds500"),), kind="method", limit=1)


@pytest.mark.parametrize("name", PLANS)
def test_rows_are_those_that_were_kept(name: str, tmp_path: Path) -> None:
    assert run_plan(PLANS[name], tmp_path / "run", workers=0).failed == 0
    columns, kept = kept_rows(name)
    assert rows_of(tmp_path / "run", columns) == kept


def test_rows_of_partitions_are_those_of_version_0_1(shared: Path, tmp_path: Path) -> None:
    roots = Roots(data=shared / "data")
    assert run_plan(SEISM, tmp_path / "run", roots=roots, workers=0).failed == 0
    columns, kept = kept_rows("seism")
    found = rows_of(tmp_path / "run", columns)
    assert len(found) == len(kept)
    # Logarithms differ in the last digit from processor to processor.
    for now, then in zip(found, kept, strict=True):
        assert [number(text) for text in now] == [
            value if isinstance(value, str) else pytest.approx(value, rel=1e-12, nan_ok=True)
            for value in map(number, then)
        ]


def number(text: str) -> float | str:
    """The number that a cell holds, or its text."""
    try:
        return float(text)
    except ValueError:
        return text


def kept_rows(name: str) -> tuple[list[str], list[list[str]]]:
    with (KEPT / f"{name}.csv").open(newline="") as file:
        columns, *rows = csv.reader(file)
    return columns, rows


def rows_of(run: Path, columns: list[str]) -> list[list[str]]:
    rows = Run.open(run).sql("select * from rows").to_pylist()
    return sorted([said(row[name]) for name in columns] for row in rows)


def said(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, bytes) else str(value).encode()
    if isinstance(value, bytes) or len(text) > 24:
        return hashlib.blake2b(text, digest_size=6).hexdigest()
    return text.decode()
