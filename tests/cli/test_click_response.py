"""The command `clicks response`: files, numbers, and what it refuses."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from segmeter.benchmarks.tetris.cases import enlarged, heat_image
from segmeter.benchmarks.tetris.click_response import click_response_map
from segmeter.core import catalogue
from segmeter.core.masks import Mask
from segmeter.core.models import Request
from segmeter.core.prompts import Click
from segmeter.measures.objects import iou
from segmeter.report.mask_pages import ShownMap, map_page
from segmeter.users.box_prompts import search_boxes

from .conftest import Done, type_here


def command(*arguments: str) -> Done:
    return type_here("clicks", "response", *arguments)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    out = tmp_path_factory.mktemp("maps") / "disc"
    done = command(
        "-m", "disc", "-d", "drawn", "--stride", "6", "--with-boxes", "--out", str(out), "--json"
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


def test_every_file_is_there_and_agrees(made: tuple[Path, dict[str, object]]) -> None:
    out, facts = made
    assert json.loads((out / "click-response.json").read_text()) == facts
    with np.load(out / "click-response.npz") as held:
        values = held["iou"]
        assert np.nanmin(values) == pytest.approx(facts["worst"], abs=1e-6)
        assert np.nanmean(values) == pytest.approx(facts["mean"], abs=1e-6)
        assert int(np.isfinite(values).sum()) == facts["clicks"]
        assert held["stride"] == 6
    image = cv2.imread(str(out / "click-response.png"))
    assert image is not None
    assert image.shape[2] == 3
    page = (out / "click-response.html").read_text()
    assert "http" not in page.replace("http-equiv", "")
    assert "%DATA%" not in page


def test_the_worst_box_is_no_better_and_the_best_no_worse_than_the_tight_one(
    made: tuple[Path, dict[str, object]],
) -> None:
    out, facts = made
    boxes = facts["boxes"]
    assert isinstance(boxes, dict)
    assert boxes["min"] <= boxes["base"] <= boxes["max"]
    assert boxes["d"] > 0
    assert "box: worst / tight / best" in (out / "click-response.html").read_text()
    with np.load(out / "boxshifts.npz") as held:
        middle = held["iou"].shape[0] // 2
        assert held["iou"][middle, middle] == pytest.approx(boxes["base"], abs=1e-6)


def test_the_shifts_are_shown_in_the_page_and_named(
    made: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    out, _ = made
    page = (out / "click-response.html").read_text()
    drawn = (out / "boxshifts.png").read_bytes()
    assert base64.b64encode(drawn).decode() in page
    assert "moved as a whole, down and across" in page
    assert cv2.imdecode(np.frombuffer(drawn, np.uint8), cv2.IMREAD_COLOR).std() > 10
    words = ("-m", "disc", "-d", "drawn", "--stride", "20", "--out", str(tmp_path / "out"))
    assert command(*words, "--with-boxes").stdout.strip().endswith(".json, boxshifts.npz, .png")
    plain = command(*words)
    assert plain.stdout.strip().endswith(".html, .json")
    assert "<figure>" not in (tmp_path / "out" / "click-response.html").read_text()


def test_the_search_reports_how_many_boxes_it_tried() -> None:
    data = catalogue.datasets.make("drawn")
    scene = data.load(data.scenes()[0])
    told: list[int] = []
    encoded = catalogue.models.make("disc").encode(scene)
    found = search_boxes(encoded, scene.targets[0], progress=told.append)
    assert told == sorted(told)
    assert told[-1] == found.tried
    assert len(told) > 3


def test_every_valid_click_is_what_the_model_answers_there() -> None:
    data = catalogue.datasets.make("drawn")
    scene = data.load(data.scenes()[0])
    target = scene.targets[0]
    encoded = catalogue.models.make("disc").encode(scene)
    found = click_response_map(encoded, target, 7)
    for row, column in np.argwhere(np.isfinite(found.iou))[::5]:
        point = (found.low[0] + 7 * int(row), found.low[1] + 7 * int(column))
        assert target.mask[point]
        mask = encoded.predict([Request((Click(point),))])[0].mask()
        assert found.iou[row, column] == iou(target.mask, mask, target.ignore)
    facts = found.statistics(0.2)
    values = found.iou[np.isfinite(found.iou)]
    assert facts["bad_share"] == pytest.approx((values < 0.2).mean())
    assert facts["worst"] == values.min()
    point, value = found.extreme()
    assert value == facts["worst"]
    assert target.mask[point]


def test_a_bad_centre_click_has_distance_zero() -> None:
    data = catalogue.datasets.make("drawn")
    scene = data.load(data.scenes()[0])
    encoded = catalogue.models.make("disc").encode(scene)
    found = click_response_map(encoded, scene.targets[0], 9)
    assert found.statistics(1.01)["nearest_bad_px"] == 0.0
    assert np.isnan(found.statistics(0.0)["nearest_bad_px"])


def test_a_map_fills_its_squares_and_nothing_else() -> None:
    values = np.array([[0.1, 0.2], [0.3, np.nan]])
    whole = enlarged(values, (1, 2), 4, (10, 12))
    assert whole[1, 2] == 0.1
    assert whole[2, 3] == 0.1
    assert whole[5, 2] == 0.3
    assert np.isnan(whole[9, 11])
    pixels = np.full((10, 12, 3), 200, np.uint8)
    heat = heat_image(pixels, values, (1, 2), 4, Mask.box((10, 12), (0, 0), (6, 6)))
    assert (heat[9, 11] == heat[9, 11, 0]).all()  # grey beside the map
    assert not (heat[1, 2] == heat[1, 2, 0]).all()


def test_names_in_a_page_are_escaped() -> None:
    shown = ShownMap(b"\x89PNG", (4, 4), {"IoU": np.zeros((1, 1))}, (0, 0), 1, (0, 0))
    page = map_page("<script>alert(1)</script>", shown, [("<b>", "&")])
    assert "<script>alert(1)" not in page
    assert "&lt;b&gt;" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-d", "drawn", "--scene", "nowhere"], "no scene 'nowhere'; the first is '000'"),
        (["-d", "drawn", "--target", "nobody"], "no object 'nobody'"),
        (["-d", "drawn", "--stride", "0"], "stride"),
        (["-d", "drawn", "--stride", "4000"], "at a stride of 4000 pixels; take a smaller one"),
        (["-d", "drawn", "--threshold", "nan"], "invalid value for '--threshold'"),
    ],
)
def test_missing_data_is_reported_and_nothing_written(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    done = command("-m", "disc", *arguments, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert said in line
    assert not (tmp_path / "out").exists()


def test_a_model_that_takes_no_boxes_is_refused_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from segmeter.core.models import ModelCard\n"
        "class Mine:\n"
        "    card = ModelCard('mine', 'clicks only', frozenset({'click'}))\n"
        "    def encode(self, scene):\n"
        "        raise NotImplementedError('not before its abilities were asked for')\n"
    )
    out = tmp_path / "out"
    done = command("-m", f"{file}:Mine", "-d", "drawn", "--with-boxes", "--out", str(out))
    assert done.returncode == 2
    assert done.stderr == f"segmeter: model '{file}:Mine' takes no boxes; leave out --with-boxes\n"
    assert not out.exists()
