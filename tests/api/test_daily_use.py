"""Daily use: gates, tables as an author wants them, costs, samples, suites, exports."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pytest

import segmeter
from segmeter.api import suites
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.sections import Line, Multiples
from segmeter.report.provenance import bibtex

from ..cli.conftest import type_here

Typed = Callable[..., tuple[int, str, str]]

NET = """
import numpy as np

def predict(image, clicks):
    mask = np.zeros(image.shape[:2], bool)
    y, x = np.ogrid[: mask.shape[0], : mask.shape[1]]
    for row, column, positive in clicks:
        mask[(y - row) ** 2 + (x - column) ** 2 < RADIUS**2] = positive
    return mask
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two versions of one model: the new one draws smaller discs."""
    folder = tmp_path_factory.mktemp("gate")
    file = folder / "net.py"
    for name, radius in (("old", 30), ("new", 12)):
        file.write_text(NET.replace("RADIUS", str(radius)))
        segmeter.evaluate(
            f"{file}:predict", "mini", out=folder / name, rounds=2, protocols="corrected"
        )
    return folder / "old", folder / "new"


def test_a_gate_fails_if_the_new_model_is_significantly_worse(runs: tuple[Path, Path]) -> None:
    old, new = runs
    gate = segmeter.open_run([old, new]).gate(["iou@1 worse"])
    assert not gate
    (line,) = gate.lines
    differences = segmeter.open_run([old, new]).compare()
    (same,) = [d for d in differences if d.statistic == "iou@1"]
    assert line.objects == same.targets
    assert line.value == pytest.approx(-same.value)  # new minus old
    assert line.p < 0.05
    assert "**worse**" in gate.markdown()
    assert segmeter.open_run([new, old]).gate(["iou@1 worse"])
    assert segmeter.open_run([new, new]).gate(["iou@1 worse"])  # the same model


def test_a_gate_has_a_margin_on_either_side_of_the_interval(runs: tuple[Path, Path]) -> None:
    run = segmeter.open_run(runs)
    (line,) = run.gate(["iou@1 worse"]).lines
    surely, possibly = -line.high, -line.low
    assert not run.gate([f"iou@1 worse by {surely - 0.1:.3f}"])
    assert run.gate([f"iou@1 worse by {surely + 0.1:.3f}"])
    assert not run.gate([f"iou@1 possibly worse by {possibly - 0.1:.3f}"])
    assert run.gate([f"iou@1 possibly worse by {possibly + 0.1:.3f}"])


def test_a_gate_lists_what_was_not_tested(tmp_path: Path) -> None:
    run = segmeter.evaluate(
        ["synthetic-oracle", "disc"], "drawn", out=tmp_path / "run", limit=2, rounds=2,
        progress=False,
    )  # fmt: skip
    (line,) = (gate := run.gate(["iou@1 worse"])).lines
    assert line.untested == "not tested: 2 images, 6 needed"
    assert "| not tested: 2 images, 6 needed |" in gate.markdown()
    (line,) = run.gate(["iou@1 worse by 1"]).lines
    assert not line.untested
    equal = replace(run.compare()[0], value=0.0, low=0.0, high=0.0).turned
    assert f"{equal.value} {equal.low} {equal.high}" == "0.0 0.0 0.0"


def test_objects_without_a_result_of_the_new_model_fail_the_gate(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    file = tmp_path / "net.py"
    crash = "    if len(image) != 512:\n        raise ValueError('too large')\n    mask"
    file.write_text(NET.replace("RADIUS", "40").replace("    mask", crash, 1))
    segmeter.evaluate(
        f"{file}:predict", "mini", out=tmp_path / "new", rounds=2, protocols="corrected",
        failures="keep",
    )  # fmt: skip
    gate = segmeter.open_run([runs[0], tmp_path / "new"]).gate(["iou@1 worse"])
    assert [line.missing > 0 for line in gate.lines] == [True]
    assert not gate


def test_a_data_set_without_any_result_of_the_new_model_fails_the_gate(
    tmp_path: Path, typed: Typed
) -> None:
    file = tmp_path / "net.py"  # of the same name, so that its versions are compared
    file.write_text(NET.replace("RADIUS", "30"))
    model = f"{file}:predict"
    for name, data in (("old", ["mini", "drawn"]), ("new", ["mini"])):
        out = tmp_path / f"{name}-net"
        segmeter.evaluate(model, data, out=out, limit=2, rounds=1, progress=False)
        file.write_text(NET.replace("RADIUS", "31"))
    runs = tmp_path / "old-net", tmp_path / "new-net"
    gate = segmeter.open_run(runs).gate(["iou@1 worse by 99"])
    lost = [(line.dataset, line.objects, line.failed) for line in gate.lines if not line.objects]
    assert lost == [("drawn", 0, True)]
    assert not gate
    assert "no result | " in gate.markdown()
    code, out, _ = typed("compare", *runs, "--fail-if", "iou@1 worse by 99")
    assert code == 1
    assert "no result; drawn, 0 objects, 3 objects missing" in out


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("iou@1 wrose", "is not understood; write 'noc@90 worse'"),
        ("uio@1 worse", "no statistic 'uio@1'; did you mean 'iou@1'"),
        ("iou@1 worse by much", "is not understood"),
        ("iou@1 worse by 0..2", "is not understood"),
    ],
)
def test_a_condition_that_is_none_is_refused(
    runs: tuple[Path, Path], condition: str, said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        segmeter.open_run(runs).gate([condition])


def test_the_command_gives_exit_codes_markdown_and_json(
    runs: tuple[Path, Path], typed: Typed
) -> None:
    code, out, _ = typed("compare", *runs, "--fail-if", "iou@1 worse", "--format", "md")
    assert code == 1
    assert out.startswith("**segmeter: failed (1 of 1 conditions)**")
    assert len(out.splitlines()) <= 8
    code, out, _ = typed("compare", *runs, "--fail-if", "iou@1 worse", "--json")
    facts = segmeter.open_run(runs).gate(["iou@1 worse"]).facts()
    assert (code, json.loads(out)) == (1, json.loads(json.dumps(facts)))
    code, out, _ = typed("compare", *reversed(runs), "--fail-if", "iou@1 worse")
    assert (code, out.splitlines()[-1]) == (0, "passed")


def test_a_table_has_the_columns_order_and_names_of_its_author(
    tmp_path: Path, typed: Typed
) -> None:
    out = tmp_path / "run"
    segmeter.evaluate(["disc", "synthetic-oracle"], ["mini", "drawn"], out=out, rounds=2, limit=1)
    words = ("table", out, "--format", "md", "--columns", "noc@85,noc@80", "-m", "synthetic-oracle",
             "-m", "disc", "-d", "drawn", "-d", "mini", "--name", "synthetic-oracle=Ours",
             "--name", "mini=Mini")  # fmt: skip
    code, text, err = typed(*words)
    assert code == 0, err
    head, _, first, second = text.splitlines()[:4]
    assert [part.strip() for part in head.strip("|").split("|")] == [
        "method", "drawn NoC@85", "drawn NoC@80", "Mini NoC@85", "Mini NoC@80"
    ]  # fmt: skip
    assert [line.split("|")[1].strip(" *") for line in (first, second)] == ["Ours", "disc"]
    run = segmeter.open_run(out)
    assert run.table().split("|")[2].startswith(" mini")  # the run's order
    with pytest.raises(NotFound, match=r"no dataset 'davis'; .*it has mini, drawn"):
        run.table(datasets=["davis"])
    with pytest.raises(NotFound, match="no statistic 'noc@9'"):
        run.table(columns=["noc@9"])


def test_the_conclusion_covers_every_data_set(tmp_path: Path) -> None:
    run = segmeter.evaluate(
        ["disc", "synthetic-oracle"], ["mini", "drawn"], out=tmp_path / "run", rounds=2, limit=2
    )
    assert [line.split(":")[0] for line in run.conclusion().splitlines()] == [
        "On mini",
        "On drawn",
    ]


def test_costs_are_the_seconds_of_the_report_times_objects(tmp_path: Path, typed: Typed) -> None:
    out = tmp_path / "run"
    run = segmeter.evaluate(
        "synthetic-oracle", "mini", out=out, rounds=2, limit=3, protocols="corrected"
    )
    seconds = {row.statistic: row for row in run.summary()}
    model, hand = run.cost(7200, 10)
    assert model["way"] == "synthetic-oracle"
    assert model["hours"]["value"] == pytest.approx(2 * seconds["seconds-to-90"].value)
    assert model["hours"]["low"] == pytest.approx(2 * seconds["seconds-to-90"].low)
    assert model["waiting_hours"]["value"] == pytest.approx(2 * seconds["waiting-to-90"].value)
    both = model["hours"]["value"] + model["waiting_hours"]["value"]
    assert model["total_hours"]["value"] == pytest.approx(both)
    assert model["money"]["value"] == pytest.approx(10 * both)
    assert (hand["way"], hand["conclusion"]) == ("all by hand", "baseline")
    code, text, _ = typed("report", out, "--objects", 7200, "--hourly-rate", 10, "--json")
    assert code == 0
    assert json.loads(text)["cost"] == json.loads(
        json.dumps(run.cost(7200, 10)).replace("NaN", "null")
    )
    code, text, _ = typed("report", out, "--objects", 7200, "--hourly-rate", 10, "--sheet")
    assert code == 0
    assert "all by hand" in text
    page = (out / "cost.html").read_text()
    assert page.count("<section") == 1
    assert not (out / "report.html").exists()


def test_a_sample_is_random_and_the_same_every_time(tmp_path: Path) -> None:
    names = segmeter.load_dataset("mini").names
    drawn = []
    for seed in (0, 0, 1, 2):
        out = tmp_path / str(len(drawn))
        run = segmeter.evaluate("disc", "mini", out=out, rounds=1, sample=3, seed=seed)
        drawn.append(sorted({row["scene"] for row in run.rows()}, key=names.index))
        assert run.scenes("mini") == drawn[-1]
    assert drawn[0] == drawn[1]
    assert [len(scenes) for scenes in drawn] == [3] * 4
    assert any(scenes != names[:3] for scenes in drawn)
    assert len({tuple(scenes) for scenes in drawn}) > 1


def test_an_export_to_cvat_has_the_masks_and_original_names(tmp_path: Path) -> None:
    from PIL import Image

    folder = tmp_path / "März & Söhne"
    for sub in ("images", "masks"):
        (folder / sub).mkdir(parents=True)
    mask = np.zeros((24, 30), np.uint8)
    mask[5:15, 8:20] = 255
    Image.fromarray(np.zeros((24, 30, 3), np.uint8)).save(folder / "images" / "Müller 12.png")
    Image.fromarray(mask).save(folder / "masks" / "Müller 12.png")
    run = segmeter.evaluate(
        "synthetic-oracle", folder, out=tmp_path / "run", rounds=1, protocols="corrected"
    )
    (file,) = run.export(tmp_path / "out", "cvat")
    image = ElementTree.parse(file.path).getroot().find("image")
    assert image is not None
    assert image.get("name") == "Müller 12.png"
    assert np.array_equal(decoded(image), mask > 0)


def decoded(image: Any) -> npt.NDArray[np.bool_]:
    """The mask of an image as CVAT reads it: run lengths in a box, zeros first."""
    shape = int(image.get("height")), int(image.get("width"))
    (drawn,) = image.findall("mask")
    left, top, width, height = (int(drawn.get(k)) for k in ("left", "top", "width", "height"))
    bits = np.concatenate([
        np.full(int(count), bool(k % 2)) for k, count in enumerate(drawn.get("rle").split(","))
    ])  # fmt: skip
    whole = np.zeros(shape, bool)
    whole[top : top + height, left : left + width] = bits.reshape(height, width)
    return whole


def test_the_zero_shot_suite_is_one_call(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suites, "ZERO_SHOT", {"points": ("mini", "lvis"), "boxes": ("coco",)})
    code, out, err = typed("run", "zero-shot", "-m", "disc", "-o", tmp_path / "suite",
                           "--limit", 1, "--workers", 0)  # fmt: skip
    assert code == 0, err
    assert "points: not found: lvis" in err
    assert "boxes: not found: coco" in err
    assert segmeter.open_run(tmp_path / "suite" / "points").plan.benchmark == "points"
    assert "mini" in out


def test_the_suite_prints_json_also_where_every_job_of_a_benchmark_failed(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suites, "ZERO_SHOT", {"points": ("mini",)})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("def broken(image, clicks):\n    raise OSError\n")
    code, out, err = typed("run", "zero-shot", "-m", "own.py:broken", "-o", "suite", "--limit", 1,
                           "--workers", 0, "--json")  # fmt: skip
    assert code == 1, err
    assert json.loads(out) == {"points": {"rows": []}}


def test_drawing_all_by_hand_is_reviewed_too(tmp_path: Path) -> None:
    (tmp_path / "cost.toml").write_text("locate = 2\nreview = 5\nby_hand = 40\n")
    segmeter.evaluate("disc", "mini", out=tmp_path / "run", rounds=1, limit=2)
    run = segmeter.open_run(tmp_path / "run", cost=tmp_path / "cost.toml")
    hand = next(row for row in run.cost(3600) if row["way"] == "all by hand")
    assert hand["hours"]["value"] == pytest.approx(2 + 5 + 40)


def test_a_share_has_one_interval_on_a_page(tmp_path: Path) -> None:
    """The curve of objects that reached the goal ends where the leaderboard's failures say."""
    run = segmeter.evaluate("synthetic-noisy", "mini", out=tmp_path / "run", rounds=4, limit=6)
    (never,) = (r for r in run.summary() if (r.statistic, r.protocol) == ("never@90", "corrected"))
    blocks = [block for section in run.sections() for block in section.blocks]
    charts = [c for b in blocks if isinstance(b, Multiples) for c in b.charts]
    (chart,) = (c for c in charts if c.title.startswith("Objects that have reached"))
    (line,) = (mark for mark in chart.marks if isinstance(mark, Line))
    assert line.low is not None
    assert line.high is not None
    ends = [float(v[-1]) * never.targets for v in (line.y, line.low, line.high)]
    failed = [never.targets - v for v in (never.value, never.high, never.low)]
    assert ends == pytest.approx(failed)


def test_data_sets_are_cited_with_the_year_of_their_paper() -> None:
    text = bibtex({"davis": "perazzi2016", "coco": "lin2014"})
    assert re.findall(r"year = \{(\d+)\}", text) == ["2016", "2014"]
    assert re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE) == ["perazzi2016", "lin2014"]


def test_a_model_file_may_import_its_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a_neighbour_of_it.py").write_text("LEVEL = 9\n")
    (tmp_path / "models" / "own.py").write_text(
        "from a_neighbour_of_it import LEVEL\n\n\n"
        "def predict(image, clicks):\n    return image[..., 0] > LEVEL\n"
    )
    monkeypatch.chdir(tmp_path)
    run = segmeter.evaluate("models/own.py:predict", "mini", out="run", rounds=1, limit=1)
    assert len(run.rows()) > 0


def test_compare_fits_60_columns(tmp_path: Path) -> None:
    out = tmp_path / "run"
    segmeter.evaluate(["disc", "synthetic-stubborn"], "mini", out=out, rounds=2, limit=2)
    text = type_here("compare", out, COLUMNS="60").stdout
    assert max(map(len, text.splitlines())) <= 60
    assert "synthetic-stubborn" in text
    assert text.count("noc@90") >= 1
