"""Names that mean something to a parser: numbers, JSON, markup; and run lengths that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from segmeter.core.masks import Mask
from segmeter.core.rle import pack

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One small image with a mask."""
    rng = np.random.default_rng(0)
    square = np.zeros((24, 32), np.uint8)
    square[6:18, 8:24] = 255
    for part, values in (("images", rng.integers(0, 255, (24, 32, 3))), ("masks", square)):
        (tmp_path / "data" / part).mkdir(parents=True)
        cv2.imwrite(str(tmp_path / "data" / part / "a.png"), values.astype(np.uint8))
    return tmp_path / "data"


@pytest.mark.parametrize("name", ["2024", "null", "x[/x]"])
def test_a_folder_with_an_unusual_name_is_run_and_reported(
    typed: Typed, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / name).parent.mkdir(exist_ok=True)
    folder.rename(folder.parent / name)
    monkeypatch.chdir(folder.parent)
    words = ("run", "noc", "-m", "disc?radius=5", "-d", name, "-o", "run", "--rounds", 2)
    code, out, err = typed(*words)
    assert code == 0, err
    assert Path(name).name in out
    code, out, err = typed("report", "run", "--json")
    assert code == 0, err
    assert json.loads(out)
    code, _, err = typed("report", "run")
    assert code == 0, err


def test_the_next_command_of_a_run_with_a_space_in_its_name_can_be_copied(
    typed: Typed, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    words = ("run", "noc", "-m", "disc", "-d", "data", "-o", "first try", "--rounds", 1)
    code, out, err = typed(*words)
    assert code == 0, err
    assert "rows in first try; next: segmeter report 'first try'" in out


@pytest.mark.parametrize("counts", [None, ["a"], [10**30], [0, 9.5], "\x00", {}, [[9]], [9, -1]])
def test_run_lengths_that_are_none_are_refused_in_a_sentence(
    typed: Typed, tmp_path: Path, counts: Any
) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps({"size": [3, 3], "counts": [0, 9]}))
    bad.write_text(json.dumps({"size": [3, 3], "counts": counts}))
    assert typed("measures", "compute", "--as", "object", good, good)[0] == 0
    code, out, err = typed("measures", "compute", "--as", "object", bad, good)
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert "bad.json" in err


def test_a_run_that_claims_giant_masks_is_reported_without_them(
    typed: Typed, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scene's size counts, not the rows': nothing of the claimed size is made."""
    out, giant = tmp_path / "run", [16384, 16384]
    words = ("run", "noc", "-m", "disc?radius=5", "-d", folder, "-o", out, "--rounds", 2)
    assert typed(*words, "--workers", 0)[0] == 0
    (part,) = sorted((out / "jobs").rglob("*.parquet"))
    table = pq.read_table(part)
    rows = table.to_pylist()
    for row in rows:
        row.update(shape=giant, mask=pack(np.array([0, 16384**2])).decode())
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), part)
    asked: list[tuple[int, ...]] = []
    decode = Mask.decoded
    monkeypatch.setattr(
        Mask, "decoded", lambda text, shape: (asked.append(tuple(shape)), decode(text, shape))[1]
    )
    code, _, err = typed("report", out, "--data", folder)
    assert code == 0, err
    assert set(asked) == {(24, 32)}
