"""What is said of a clicks file: clicks left out, clicks beside their object."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from segmeter.clickability import click_files as file_warnings
from segmeter.clickability.click_files import ClickTarget, write_simulated
from segmeter.core import catalogue
from segmeter.core.scenes import Dataset
from segmeter.datasets.recorded_clicks import COLUMNS, Clicks, read_clicks

FIRST = "GrabCut,a,,,first,a,pc,10,20,100,80"
LATER = "GrabCut,a,,sam,fn,a_sam_fn,mobile,10,20,100,80"
ELSEWHERE = "DAVIS,b,,,first,b,mobile,10,20,100,80"


def read(path: Path, rows: Sequence[str]) -> Clicks:
    path.write_text("\n".join((",".join(COLUMNS), *rows)) + "\n")
    return read_clicks(path)


def test_clicks_that_are_left_out_are_counted_with_the_reason(tmp_path: Path) -> None:
    clicks = read(tmp_path / "clicks.csv", [FIRST, LATER, LATER, ELSEWHERE])
    said = file_warnings.left_out(
        clicks, file_warnings.unasked(["GrabCut"]), file_warnings.without_masks
    )
    assert said == (
        "3 of 4 clicks are left out: 2 (1 key) of later rounds, which need the masks that people "
        "saw (--previous FOLDER); 1 (1 key) on 'DAVIS', which no --dataset names"
    )
    assert file_warnings.left_out(clicks, file_warnings.unasked(["GrabCut", "DAVIS"])) == ""
    played = file_warnings.outside_run({"GrabCut": ["other"], "DAVIS": ["b"]})
    said = file_warnings.left_out(clicks, *played)
    assert "1 (1 key) on images outside the run" in said
    assert "2 (1 key) of later rounds, made on other models' masks" in said


def test_a_comparison_lists_keys_with_too_few_clicks(tmp_path: Path) -> None:
    rows = [FIRST] * 3 + [FIRST.replace("pc", "mobile")] * 2 + [LATER] * 4
    clicks = read(tmp_path / "clicks.csv", rows)
    said = file_warnings.left_out(clicks, file_warnings.few_of_a_device(clicks, 2))
    assert said.endswith("4 (1 key) with fewer than 2 clicks of pc or of mobile")
    assert file_warnings.left_out(clicks, file_warnings.few_of_a_device(clicks, 3)).startswith(
        "9 of 9"
    )
    said = file_warnings.left_out(clicks, file_warnings.too_few(5))
    assert said.endswith(": 4 (1 key) with fewer than 5 a key")
    modes = read(tmp_path / "modes.csv", [FIRST, ELSEWHERE, FIRST.replace("GrabCut", "DAVIS")])
    said = file_warnings.left_out(modes, file_warnings.without_partner(modes, "GrabCut"))
    assert said == "1 of 3 clicks are left out: 1 (1 key) on objects without clicks in 'GrabCut'"


def test_a_file_of_a_thousand_data_sets_makes_one_short_line(tmp_path: Path) -> None:
    rows = [FIRST.replace("GrabCut", f"d{i}") for i in range(1000)]
    said = file_warnings.left_out(read(tmp_path / "clicks.csv", rows), file_warnings.unasked([]))
    assert said.startswith("1000 of 1000 clicks")
    assert said.endswith("; and more")
    assert len(said) < 600


@pytest.fixture(scope="module")
def mini() -> dict[str, Dataset]:
    return {"mini": catalogue.datasets.make("mini")}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory, mini: dict[str, Dataset]) -> Path:
    path = tmp_path_factory.mktemp("clicks") / "clicks.csv"
    data = mini["mini"]
    things = [
        ClickTarget("mini", name, target.mask, target.id)
        for name in data.scenes()[:2]
        for target in data.load(name).targets[:2]
    ]
    write_simulated(path, things, per_target=20, later=False)
    return path


def _said(path: Path, mini: dict[str, Dataset]) -> str:
    return file_warnings.astray(read_clicks(path), mini, {"mini": mini["mini"].scenes()})


def test_clicks_on_their_objects_are_no_cause_for_a_warning(
    good: Path, mini: dict[str, Dataset]
) -> None:
    assert _said(good, mini) == ""


def test_clicks_that_miss_their_objects_are_reported(
    good: Path, mini: dict[str, Dataset], tmp_path: Path
) -> None:
    rows = [line.split(",") for line in good.read_text().splitlines()]
    first = rows[1][:7]
    objects = len({tuple(row[:7]) for row in rows[1:] if row[6] == "pc"})

    def changed(wrong: Sequence[bool]) -> Path:
        moved = [
            [*row[:7], "0", "0", *row[9:]] if bad else row
            for row, bad in zip(rows[1:], wrong, strict=True)
        ]
        path = tmp_path / "clicks.csv"
        path.write_text("\n".join(map(",".join, [rows[0], *moved])) + "\n")
        return path

    everywhere = _said(changed([True] * (len(rows) - 1)), mini)
    assert f"on {objects} of {objects} objects checked" in everywhere
    own = np.array([row[1:3] == first[1:3] for row in rows[1:]])
    said = _said(changed(own.tolist()), mini)
    assert f"on 1 of {objects} objects checked, such as 'mini/{first[1]}/{first[2]}'" in said
    few = own & (np.cumsum(own) <= own.sum() // 3)
    assert _said(changed(few.tolist()), mini) == ""


def test_images_that_are_not_requested_are_not_read(good: Path, mini: dict[str, Dataset]) -> None:
    assert file_warnings.astray(read_clicks(good), mini, {"mini": ["nothing"]}) == ""
    assert file_warnings.astray(read_clicks(good), {}, {}) == ""
