"""Folders of one's own go by the names that their owners gave them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from segmeter.api.click_response import _title
from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan, display_names, with_titles
from segmeter.core.sections import Column, Label, Section, Table
from segmeter.engine import run_plan
from segmeter.report.exports import exported
from segmeter.report.page import Page, render
from segmeter.report.writing import sections_of, write_sections
from segmeter.store import Run


def folder(path: str) -> Spec:
    return Spec("folder", {"path": path})


@pytest.mark.parametrize(
    ("specs", "names"),
    [
        ([folder("mine")], ["mine"]),
        ([folder("data/of/mine/")], ["mine"]),
        ([folder("a/mine"), folder("b/mine")], ["mine", "b/mine"]),
        ([folder("grabcut"), Spec("grabcut")], ["folder?path=grabcut", "grabcut"]),
        ([folder("../..")], ["folder"]),
        ([Spec("drawn", {"scenes": 3})], ["drawn"]),
    ],
)
def test_a_folder_is_named_by_its_last_part(specs: list[Spec], names: list[str]) -> None:
    assert list(display_names(specs).values()) == names


def test_all_texts_of_a_section_show_titles() -> None:
    names = ["folder?path=data/mine", "folder?path=data/mine2"]
    table = Table("t", [Column("data"), Column("model")], [[name, Label("m")] for name in names])
    section = with_titles(
        Section(f"On {names[0]}", "", [table]), dict(zip(names, ("mine", "other"), strict=True))
    )
    assert section.title == "On mine"
    assert [row[0] for row in section.blocks[0].rows] == ["mine", "other"]
    assert "folder" not in render(Page("t", "", [], [section]))
    assert "folder" not in str(exported([section], ["csv", "md", "tex"]))


@pytest.mark.parametrize("benchmark", ["noc", "points", "rclicks", "tetris"])
def test_a_page_names_the_folder_and_its_provenance_the_whole_spec(
    benchmark: str, tmp_path: Path
) -> None:
    for kind in ("images", "masks"):
        (tmp_path / "mine" / kind).mkdir(parents=True)
        for i in range(2):
            pixels = np.zeros((24, 24, 3) if kind == "images" else (24, 24), np.uint8)
            pixels[6 + i : 18, 6:18] = 255
            Image.fromarray(pixels).save(tmp_path / "mine" / kind / f"{i}.png")
    spec = folder(str(tmp_path / "mine"))
    plan = Plan(benchmark, (Spec("disc", {"radius": 5}),), (spec,), rounds=2)
    assert run_plan(plan, tmp_path / "run", workers=0).failed == 0
    (path,) = write_sections(opened := Run.open(tmp_path / "run"), sections_of(opened))
    page = Path(path).read_text("utf-8")
    assert "on mine · segmeter</title>" in page
    told, _, provenance = page.partition('<section id="provenance"')
    assert str(spec) not in told
    assert str(spec) in provenance


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("object", "sam on bird"),
        ("7", "sam on bird, object 7"),
        ("object-2", "sam on bird, object-2"),
    ],
)
def test_a_title_has_the_word_object_once(target: str, said: str) -> None:
    assert _title({"model": "sam", "scene": "bird", "target": target}) == said
