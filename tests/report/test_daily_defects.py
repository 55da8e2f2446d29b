"""Small things that were wrong on pages and in the terminal, each with its test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import segmeter
from segmeter.analysis.report_cases import object_title
from segmeter.api.runs import data_roots
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.plans import Plan
from segmeter.core.sections import (
    Axis,
    Chart,
    Column,
    Frame,
    Gallery,
    Illustration,
    Line,
    Points,
    Replay,
    Section,
    Table,
    Value,
)
from segmeter.engine import run_plan
from segmeter.report.mask_pages import ShownMap, map_page
from segmeter.report.page import Page, render
from segmeter.report.tables import table_view
from segmeter.report.writing import sections_of, write_sections
from segmeter.runtime.workers_and_devices import check_devices
from segmeter.store import Run, RunFolder


def page(*blocks: object) -> str:
    return render(Page("t", "s", [], [Section("s", blocks=blocks)]))  # type: ignore[arg-type]


def test_the_goal_label_of_a_replay_does_not_cover_the_curve() -> None:
    mask = Mask.box((20, 20), (2, 2), (9, 9))
    image = Illustration(np.zeros((20, 20, 3), np.uint8))
    frames = [Frame(mask, (), {"IoU": s}) for s in (0.2, 0.6, 0.92)]
    html = page(Replay("k", "t", image, frames, mask, 0.9))
    (label,) = re.findall(r'<text[^>]*class="tick[^"]*"[^>]*>goal 90</text>', html)
    assert "end" not in label  # the curve ends at the goal, so its name stands at the start


def test_dots_are_described_in_the_units_of_their_axes() -> None:
    percent = Axis("IoU, %", low=0, high=1, percent=True)
    html = page(Chart("c", percent, percent, [Points("p", [0.941], [0.5], ["124080"])]))
    assert "124080: 94.1 %, 50.0 %" in html
    assert "0.941" not in html


def test_captions_have_no_markup_for_screen_readers() -> None:
    html = page(Gallery([Illustration(np.zeros((8, 8, 3), np.uint8), "**124080** and clicks")]))
    assert "**" not in html


def test_names_of_guides_are_not_printed_over_each_other() -> None:
    guides = [Line(f"F {k}", [0.1, 0.9], [0.9, 0.05 + k / 1000], role="guide") for k in range(4)]
    html = page(Chart("c", Axis("x", 0, 1), Axis("y", 0, 1), guides))
    assert len(set(re.findall(r'class="guide-name">(F \d)', html))) == 1


def test_a_best_is_marked_only_where_intervals_do_not_overlap() -> None:
    def best(*values: Value) -> list[bool]:
        table = Table("t", [Column("v", digits=1, better="lower")], [[v] for v in values])
        return [row[0].best for row in table_view(table).rows]

    assert best(Value(1, 0.5, 1.5), Value(2, 1.8, 2.5)) == [True, False]
    assert best(Value(1, 0.5, 1.9), Value(2, 1.8, 2.5)) == [False, False]
    assert best(Value(-1, -1.5, -0.5, best=False), Value(2, 1.8, 2.5)) == [False, False]


def test_a_gpu_that_is_not_there_is_refused_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segmeter.runtime.workers_and_devices.gpu_names", lambda: ())
    with pytest.raises(BadInput, match="wants a CUDA device"):
        check_devices([Spec("mobile-sam", {"device": "cuda:0"})])


@pytest.fixture
def own(tmp_path: Path) -> Path:
    for folder in ("images", "masks"):
        (tmp_path / "own" / folder).mkdir(parents=True)
    mask = np.zeros((30, 30), np.uint8)
    mask[5:20, 5:20] = 255
    cv2.imwrite(str(tmp_path / "own/images/a.png"), np.full((30, 30, 3), 90, np.uint8))
    cv2.imwrite(str(tmp_path / "own/masks/a.png"), mask)
    return tmp_path / "own"


def test_one_image_is_one_image(own: Path) -> None:
    from segmeter.core import catalogue

    said = catalogue.datasets.make(Spec("folder", {"path": str(own)})).recognised  # type: ignore[attr-defined]
    assert said.startswith("1 image ")


def test_a_page_names_the_benchmark_and_its_size(own: Path, tmp_path: Path) -> None:
    data = Spec("folder", {"path": str(own)})
    run_plan(Plan("noc", (Spec("synthetic-oracle"),), (data,), rounds=2), tmp_path / "r", workers=0)
    write_sections(opened := Run.open(tmp_path / "r"), sections_of(opened))
    html = (tmp_path / "r/report.html").read_text()
    assert "<title>noc: synthetic-oracle on own" in html
    assert "1 object in 1 scene" in html
    assert "2 rounds" in html


def test_a_run_stores_the_place_of_its_data(own: Path, tmp_path: Path) -> None:
    plan = Plan("noc", (Spec("synthetic-oracle"),), (Spec("drawn"),))
    with RunFolder.claimed(tmp_path / "run", plan) as folder:
        folder.sign({"command": f"segmeter run noc --data '{own}' -m x"})
    run = Run.open(tmp_path / "run")
    assert data_roots(run, None).data == own
    assert data_roots(run, tmp_path).data == tmp_path


def test_fetch_does_not_point_to_an_option_it_lacks() -> None:
    from segmeter.api.fetching import _explain

    with pytest.raises(NotFound, match=r"fetches weights, not data: .*segmeter run"):
        _explain("grabcut", {})


def test_the_click_map_page_has_a_dark_mode() -> None:
    shown = ShownMap(b"\x89PNG", (4, 4), {"IoU": np.zeros((1, 1))}, (0, 0), 1, (0, 0))
    assert "prefers-color-scheme: dark" in map_page("a map", shown, [])


@pytest.mark.parametrize("name", ["sam-vit-b", "mobile-sam", "ritm-h18", "sam2-hiera-tiny"])
def test_a_model_without_its_weights_still_has_a_licence_and_a_citation(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from segmeter.api.listing import describe
    from segmeter.core import catalogue

    for variable in ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.delenv("SEGMETER_WEIGHTS", raising=False)
    facts = describe("models", name)
    assert "no weights for" in facts["not here"]
    assert facts["licence"]
    assert facts["citation"]
    with pytest.raises(NotFound):  # it is described, and not made
        catalogue.models.make(name)


@pytest.mark.parametrize(
    ("key", "label", "said"),
    [
        (("124080", "7"), "cat", "124080, cat (7)"),
        (("124080", "7"), "", "124080, 7"),
        (("bird", "bird"), "", "bird"),
        (("camera", "tower"), "mast", "camera, tower"),
    ],
)
def test_an_object_with_a_number_is_named_by_its_class(
    key: tuple[str, str], label: str, said: str
) -> None:
    assert object_title(*key, label) == said


def test_panels_of_a_figure_have_one_range_and_the_name_of_the_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = segmeter.evaluate(
        "disc", ["mini", "drawn"], out=tmp_path / "run", limit=2, rounds=3, protocols="corrected"
    )
    charts: list[Any] = []
    monkeypatch.setattr("segmeter.report.figures.draw_charts", lambda all_, _: charts.extend(all_))
    run.figure(tmp_path / "iou.svg")
    ranges = {(chart.y.title, chart.y.low, chart.y.high) for chart in charts}
    assert len(charts) == 2
    ((name, low, high),) = ranges
    assert name == "mean IoU"
    assert all(low < min(m.y) and max(m.y) < high for chart in charts for m in chart.marks)


def test_a_figure_keeps_the_last_value_of_sessions_that_ended_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = segmeter.evaluate("disc", "mini", out=tmp_path / "run", limit=2, rounds=5,
                            protocols="corrected", until="iou>=0.5")  # fmt: skip
    charts: list[Any] = []
    monkeypatch.setattr("segmeter.report.figures.draw_charts", lambda all_, _: charts.extend(all_))
    run.figure(tmp_path / "iou.svg")
    (line,) = charts[0].marks
    ends = [session["iou"] for session in run.sessions()]
    assert len({session["rounds"] for session in run.sessions()}) > 1
    assert line.y[-1] == pytest.approx(np.mean(ends))
    assert line.low is not None


def test_every_object_of_a_label_map_has_its_number() -> None:
    assert [object_title("bakery", n, several=True) for n in "12"] == ["bakery, 1", "bakery, 2"]
    assert object_title("bakery", "1") == "bakery"


def test_images_and_outlines_are_stored_once_however_many_models_and_sessions_show_them(
    tmp_path: Path,
) -> None:
    """A page of 40 images and three models has to stay below 5 MB."""
    models = ["disc", "synthetic-noisy", "synthetic-stubborn"]
    run = segmeter.evaluate(models, "mini", out=tmp_path / "run", rounds=4, limit=2)
    html = run.report().read_text()
    stored = re.findall(r'href="(data:image/[^"]+)"', html)
    outlines = re.findall(r'<path id="o\d+" class="o" d="([^"]+)"', html)
    shown = re.findall(r'<use href="#(\w+)"', html)
    assert len(stored) == len(set(stored))
    assert len(outlines) == len(set(outlines))
    assert len(shown) > 3 * (len(stored) + len(outlines))
    assert max(map(len, outlines)) < 10_000
    assert not re.search(r'<path[^>]* d="[^"]{10000}', html)
