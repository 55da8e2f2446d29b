"""`segmeter measure`, `segmeter meta` and `segmeter run seism` as a person types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from segmeter.measures.hierarchies import partition_at
from segmeter.measures.partitions import scores
from segmeter.models.quadtree import quadtree_levels

Done = subprocess.CompletedProcess[str]
IDS = (
    "dhd",
    "sdhd",
    "vd",
    "sc",
    "ssc",
    "bgm",
    "bce",
    "gce",
    "lce",
    "voi",
    "nvoi",
    "pri",
    "fr",
    "fop",
)


def segmeter(*arguments: object) -> Done:
    return subprocess.run(
        [sys.executable, "-c", "import segmeter.cli; segmeter.cli.main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )


def sentence(done: Done) -> str:
    """What was said on bad input: one line, no trace, nothing printed."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    said = done.stderr.strip()
    assert "\n" not in said
    return said


def test_measure_prints_every_id(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    maps = [rng.integers(0, 4, (12, 15)) for _ in range(3)]
    paths = [tmp_path / f"{k}.npy" for k in range(3)]
    for path, labels in zip(paths, maps, strict=True):
        np.save(path, labels)
    done = segmeter("measure", *paths, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    wanted = scores(maps[1:], maps[0])
    for name in IDS:
        assert found[name] == pytest.approx(wanted[name], abs=1e-12), name
    assert {"fb", "pb", "rb", "fb-contour"} <= set(found)
    table = segmeter("measure", *paths, "--no-boundaries").stdout
    assert "against 2 ground truths" in table
    assert max(map(len, table.splitlines())) <= 80


def test_what_is_undefined_is_null(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    np.save(tmp_path / "b.npy", np.zeros((2, 3), int))
    found = json.loads(segmeter("measure", tmp_path / "a.npy", tmp_path / "b.npy", "--json").stdout)
    assert found["pr"] is None
    assert found["fr"] == 0


def test_a_contour_map_is_cut_where_it_is_said(tmp_path: Path) -> None:
    levels = quadtree_levels(40, 40) / 2000
    savemat(tmp_path / "a.mat", {"ucm2": levels})
    np.save(tmp_path / "b.npy", partition_at(levels.astype(np.float32), 0.9))
    done = segmeter("measure", tmp_path / "a.mat", tmp_path / "b.npy", "--threshold", 0.9, "--json")
    assert json.loads(done.stdout)["ssc"] == 1
    assert "--threshold" in sentence(segmeter("measure", tmp_path / "a.mat", tmp_path / "b.npy"))


def test_wrong_files_are_named_in_one_sentence(tmp_path: Path) -> None:
    np.save(tmp_path / "good.npy", np.zeros((2, 3), int))
    np.save(tmp_path / "wide.npy", np.zeros((3, 2), int))
    np.save(tmp_path / "float.npy", np.zeros((2, 3)))
    good = tmp_path / "good.npy"
    assert "3 x 2 but" in sentence(segmeter("measure", good, tmp_path / "wide.npy"))
    assert "whole numbers" in sentence(segmeter("measure", tmp_path / "float.npy", good))
    assert "no file" in sentence(segmeter("measure", good, good, tmp_path / "absent.png"))


def test_meta_prints_a_row_a_measure_and_reading(real_data: Path, tmp_path: Path) -> None:
    done = segmeter(
        "meta", "--data", real_data, "--limit", 3, "--measure", "ssc", "--measure", "fop",
        "--figure", tmp_path / "spread.svg", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [(row["measure"], row["reading"]) for row in rows] == [
        ("ssc", "published"), ("ssc", "sound"), ("fop", "published"), ("fop", "sound"),
    ]  # fmt: skip
    assert all(0 <= row["sihd"]["value"] <= 1 and row["sabd"] is None for row in rows)
    assert (tmp_path / "spread.svg").is_file()


def test_meta_says_what_it_does_not_know(real_data: Path) -> None:
    said = sentence(segmeter("meta", "--data", real_data, "--measure", "fopp"))
    assert "did you mean 'fop'?" in said
    assert "no partitions" in sentence(segmeter("meta", "--dataset", "drawn"))
    assert ".svg" in sentence(segmeter("meta", "--data", real_data, "--figure", "a.doc"))


def test_one_command_runs_a_method_and_one_writes_its_report(
    real_data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    done = segmeter(
        "run", "seism", "--method", "quadtree", "--dataset", "bsds500", "--data", real_data,
        "--limit", 2, "--workers", 0, "--out", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "fop-ods" in done.stdout
    assert segmeter("report", out).returncode == 0
    page = next(out.glob("*.html")).read_text()
    assert "people" in page
    assert "F_op" in page


def test_an_empty_folder_of_results_is_refused_before_anything_is_written(
    real_data: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    done = segmeter(
        "run", "seism", "--method", tmp_path / "mine", "--dataset", "bsds500", "--data", real_data,
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert "holds no results" in sentence(done)
    assert not (tmp_path / "run").exists()
