"""The cards of the 23 sets, and what of a set is played."""

from __future__ import annotations

import csv
import inspect
import subprocess
import sys

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.zeroshot import mask_readers
from segmeter.datasets.zeroshot.suite import SUITE, sampled

ABBREVIATIONS = {"bbbc038": "bbbc038v1", "lvis-v0.5": "lvis"}


def test_all_23_sets_are_there_with_the_printed_counts_and_readers(golden):
    with (golden / "zeroshot" / "datasets.csv").open() as file:
        rows = {row["abbreviation"].lower(): row for row in csv.DictReader(file)}
    assert len(SUITE) == len(rows) == 23
    for kind in SUITE:
        row = rows[ABBREVIATIONS.get(kind.name, kind.name)]
        assert (kind.image_count, kind.masks) == (
            int(row["images_sampled"]), int(row["masks_sampled"])
        )  # fmt: skip
        assert kind.reader == row["reader"]
        assert kind.confidence == row["format_confidence"].replace("recalled (weak)", "weak")
        assert kind.sampled == (row["subsampled"] == "yes")
    assert sum(kind.image_count for kind in SUITE) == 40_188
    assert sum(kind.masks for kind in SUITE) == 172_653


def test_ten_readers_cover_them():
    made_here = {
        name
        for name, thing in vars(mask_readers).items()
        if inspect.isfunction(thing) and thing.__module__ == mask_readers.__name__
    }
    readers = {name for name in made_here if not name.startswith("_")}
    assert {kind.reader for kind in SUITE} == readers
    assert len(readers) == 10


@pytest.mark.parametrize("kind", SUITE, ids=lambda kind: kind.name)
def test_every_card_is_whole(kind):
    card = kind.card
    assert card.licence
    assert card.citation
    assert card.homepage.startswith("http")
    assert "were not published" in card.notes
    assert kind.name in {entry.name for entry in catalogue.datasets}


@pytest.fixture
def doors(tmp_path):
    """Six images with 1, 2, ... 6 masks of 4 pixels each, and one without."""
    for number in range(7):
        values = np.zeros((20, 30), np.uint8)
        for k in range(number):
            values[2:4, 3 * k : 3 * k + 2] = k + 1
        for folder, pixels in (("images", np.dstack([values] * 3)), ("masks", values)):
            path = tmp_path / "doors" / folder / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(cv2.imencode(".png", pixels)[1].tobytes())
    return tmp_path


def opened(options, root):
    return catalogue.datasets.make(f"doors?{options}", data=root)


def test_a_small_set_is_run_whole_except_images_without_masks(doors):
    data = opened("sample=1", doors)
    assert data.scenes() == ["1", "2", "3", "4", "5", "6"]
    assert "6 images with 21 masks are used" in data.card.notes
    assert len(opened("", doors).scenes()) == 7


def test_a_split_file_and_a_least_area_and_a_class_choose(doors):
    (doors / "part.txt").write_text("3\n1\n\n")
    data = opened(f"split={doors}/part.txt", doors)
    assert data.scenes() == ["3", "1"]
    assert opened("least_area=5", doors).load("3").targets == ()
    assert opened("category=cat", doors).load("3").targets == ()
    (doors / "part.txt").write_text("3\n99")
    with pytest.raises(NotFound, match="names the scene '99'"):
        opened(f"split={doors}/part.txt", doors)
    with pytest.raises(BadInput, match="whole number of pixels"):
        opened("least_area=-1", doors)
    (doors / "part.txt").write_bytes(b"\xe9")
    with pytest.raises(BadInput, match="not text in UTF-8"):
        opened(f"split={doors}/part.txt", doors)


def test_a_image_is_reduced_and_never_enlarged(doors):
    scene = opened("most_side=15", doors).load("6")
    assert scene.shape == (10, 15)
    assert [target.mask.shape for target in scene.targets] == [(10, 15)] * 6
    assert opened("most_side=400", doors).load("6").shape == (20, 30)


counts = st.dictionaries(st.text("abcdef", min_size=1, max_size=4), st.integers(0, 900), min_size=1)


@given(counts, st.integers(0, 99))
def test_a_sample_comes_as_near_to_the_goal_as_its_last_image_allows(masks, seed):
    total = sum(masks.values())
    chosen = sampled(masks, seed, large=1500, about=1000)
    assert all(masks[name] for name in chosen)
    if total <= 1500:
        assert chosen == {name for name, count in masks.items() if count}
        return
    found = sum(masks[name] for name in chosen)
    assert abs(found - 1000) <= max(masks.values()) / 2 or len(chosen) == 1
    assert chosen == sampled(dict(reversed(masks.items())), seed, large=1500, about=1000)


def test_other_seeds_draw_other_images():
    masks = {str(n): 10 for n in range(400)}
    first, second = (sampled(masks, seed, large=1500, about=1000) for seed in (0, 1))
    assert len(first) == len(second) == 100
    assert first != second


def test_a_name_in_a_table_imports_only_its_module():
    code = (
        "import sys; from segmeter.core import catalogue; catalogue.datasets.entry('cityscapes');"
        " print('segmeter.datasets.bsds500' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
