"""Recorded clicks: read whole, or refused with the row that is wrong."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segmeter.clickability.click_files import ClickTarget, write_simulated
from segmeter.core.errors import BadInput, NotFound, SegmeterError
from segmeter.core.masks import Mask
from segmeter.datasets.data_roots import read_list
from segmeter.datasets.recorded_clicks import (
    COLUMNS,
    Key,
    previous_mask,
    read_clicks,
)

HEADER = ",".join(COLUMNS)
FIRST = "GrabCut,banana1,,,first,banana1,pc,10,20,100,80"
LATER = "TETRIS,a b.c,255,mivos,fp,a b.c_______255_mivos_fp,mobile,101,-1,100,80"


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join((HEADER, *lines)) + "\n")
    return path


def row(**changes: object) -> str:
    fields = dict(zip(COLUMNS, FIRST.split(","), strict=True)) | {
        k: str(v) for k, v in changes.items()
    }
    return ",".join(fields[name] for name in COLUMNS)


def test_a_click_is_a_row_with_its_key_point_and_size(tmp_path: Path) -> None:
    clicks = read_clicks(written(tmp_path / "clicks.csv", FIRST, LATER, FIRST))
    assert len(clicks) == 3
    assert clicks.keys == (
        Key("GrabCut", "banana1", "banana1", "", "first"),
        Key("TETRIS", "a b.c_______255_mivos_fp", "a b.c", "255", "fp"),
    )
    assert clicks.key_of.tolist() == [0, 1, 0]
    # A click beside the image is moved to its border.
    assert clicks.points.tolist() == [[20, 10], [0, 99], [20, 10]]
    assert clicks.sizes.tolist() == [[80, 100]] * 3
    assert clicks.mobile.tolist() == [False, True, False]
    assert {k: v.tolist() for k, v in clicks.first_rounds().items()} == {
        ("GrabCut", "banana1", ""): [0, 2]
    }


def test_clicks_are_scaled_by_pixel_centres(tmp_path: Path) -> None:
    clicks = read_clicks(written(tmp_path / "clicks.csv", FIRST))
    assert clicks.scaled(np.array([0]), (160, 200)).tolist() == [[40.5, 20.5]]


WRONG: dict[str, Callable[[], str]] = {
    "the click at x 400, y 20 lies outside the image of w 100 x h 80": lambda: row(x=400),
    "the click at x 10, y 20 lies outside the image of w 5 x h 80": lambda: row(w=5),
    "an image of w 0 x h 80 has no pixel": lambda: row(w=0),
    "'click_type' is none of": lambda: row(click_type="second"),
    "'device' is none of": lambda: row(device="watch"),
}


@pytest.mark.parametrize("reason", WRONG)
def test_a_wrong_row_is_named(tmp_path: Path, reason: str) -> None:
    path = written(tmp_path / "clicks.csv", *[FIRST] * 40_000, WRONG[reason](), FIRST)
    with pytest.raises(BadInput, match=r"^clicks\.csv, row 40002: ") as caught:
        read_clicks(path)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mask_that_a_persons_click_made_is_named_after_it(tmp_path: Path) -> None:
    stems = ("b_sam_fn", "b_sam_fn_pc_8", "b_sam_fn_mobile_13")
    rows = [
        row(image_stem="b", click_type="fn", model_type="sam", full_stem=stem) for stem in stems
    ]
    clicks = read_clicks(written(tmp_path / "clicks.csv", *rows))
    assert [key.full_stem for key in clicks.keys] == list(stems)


def test_the_keys_of_the_published_tables_have_the_required_form(
    tmp_path: Path, golden: Path
) -> None:
    lines = set()
    for dataset in ("GrabCut", "Berkeley", "DAVIS", "COCO"):
        with (golden / "rclicks" / f"{dataset}_per_image.csv").open(newline="") as file:
            for each in csv.DictReader(file):
                stem, kind = each["full_stem"], each["click_type"]
                parts = re.fullmatch(rf"(.*)_([a-z]+)_{kind}(_(pc|mobile)_\d+)?", stem)
                image, model = (parts[1], parts[2]) if parts else (stem, "")
                lines.add(f"{dataset},{image},,{model},{kind},{stem},pc,10,20,100,80")
    assert len(read_clicks(written(tmp_path / "clicks.csv", *sorted(lines)))) == 3868


def test_many_different_words_in_a_row_are_distinguished(tmp_path: Path) -> None:
    lines = [f"d{i},a{i},b{i},m{i},fn,a{i}_______b{i}_m{i}_fn,pc,1,2,3,4" for i in range(30_000)]
    clicks = read_clicks(written(tmp_path / "clicks.csv", *lines, *lines))
    assert len(clicks.keys) == 30_000
    assert np.array_equal(clicks.key_of, np.tile(np.arange(30_000), 2))


@pytest.mark.parametrize(
    "line", [row(x="NaN"), row(y=""), row(y="1.5"), FIRST + ",1", FIRST.rpartition(",")[0], ""]
)
def test_a_row_that_is_no_click_is_named(tmp_path: Path, line: str) -> None:
    path = written(tmp_path / "clicks.csv", *[FIRST] * 40_000, line, FIRST)
    with pytest.raises(BadInput, match=r"^clicks\.csv cannot be read: .*#40002") as caught:
        read_clicks(path)
    assert f"begins with the row '{HEADER}'" in str(caught.value)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    names = ["other" if name == column else name for name in COLUMNS]
    path = tmp_path / "clicks.csv"
    path.write_text(f"{','.join(names)}\n{FIRST}\n")
    with pytest.raises(BadInput, match=rf"'{column}'.*; a clicks file is"):
        read_clicks(path)


@pytest.mark.parametrize("start", [HEADER.replace(",", ";"), "a" * 100_000, FIRST, ""])
def test_a_file_of_another_kind_is_refused_with_the_layout(tmp_path: Path, start: str) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text(f"{start}\n{FIRST}\n" if start else "")
    with pytest.raises(BadInput, match=f"begins with the row '{HEADER}'"):
        read_clicks(path)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_another_encoding_is_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "clicks.csv"
    path.write_bytes(f"{HEADER}\n{row(image_stem='bébé')}\n".encode(encoding))
    with pytest.raises(BadInput, match="cannot be read"):
        read_clicks(path)


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    path = written(tmp_path / "clicks.csv", FIRST)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_clicks(path)) == 1


def test_an_unknown_image_is_named_with_its_row(tmp_path: Path) -> None:
    path = written(tmp_path / "clicks.csv", FIRST, LATER)
    assert len(read_clicks(path, {"GrabCut": ["banana1"]})) == 2
    assert len(read_clicks(path, ["banana1", "a b.c"])) == 2
    with pytest.raises(BadInput, match=r"row 2: image 'banana1' is not in .* 'GrabCut'"):
        read_clicks(path, {"GrabCut": ["banana2"]})
    with pytest.raises(BadInput, match=r"row 3: image 'a b\.c'"):
        read_clicks(path, ["banana1"])


def test_a_file_without_clicks_or_without_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no click"):
        read_clicks(written(tmp_path / "clicks.csv"))
    with pytest.raises(NotFound, match="no clicks file"):
        read_clicks(tmp_path / "nothing.csv")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.sampled_from([0, 10, 13, 34, 44, 255, 45, 57, 78])),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 400),
)
def test_damaged_input_is_read_or_refused_in_one_sentence(
    tmp_path: Path, changes: list[tuple[int, int]], cut: int
) -> None:
    raw = bytearray("\n".join((HEADER, FIRST, LATER, FIRST, LATER)).encode())
    for place, byte in changes:
        raw[place % len(raw)] = byte
    path = tmp_path / "clicks.csv"
    path.write_bytes(bytes(raw[: len(raw) - cut // 4]))
    try:
        clicks = read_clicks(path)
    except SegmeterError as error:
        assert "\n" not in str(error)
        assert "clicks.csv" in str(error)
    else:
        assert (clicks.points >= 0).all()
        assert (clicks.points < clicks.sizes).all()


def test_previews_hold_display_modes_as_data_sets(tmp_path: Path) -> None:
    lines = [row(dataset=mode) for mode in ("Text_Description", "Object_CutOut")]
    clicks = read_clicks(written(tmp_path / "previews.csv", *lines))
    assert [key.dataset for key in clicks.keys] == ["Text_Description", "Object_CutOut"]


def test_a_previous_mask_is_found_by_its_key(tmp_path: Path) -> None:
    key = Key("GrabCut", "banana1_sam_fn", "banana1", "", "fn")
    cv2.imwrite(str(tmp_path / "banana1_sam_fn.png"), np.array([[0, 255], [51, 0]], np.uint8))
    assert previous_mask(tmp_path, key) == pytest.approx(np.array([[0, 1], [0.2, 0]]))
    with pytest.raises(NotFound, match="no previous mask"):
        previous_mask(tmp_path, Key("GrabCut", "../banana1_sam_fn", "banana1", "", "fn"))
    whole = (tmp_path / "banana1_sam_fn.png").read_bytes()
    for broken in (b"no image", whole[:-20]):
        (tmp_path / "broken.png").write_bytes(broken)
        with pytest.raises(BadInput, match="is not a whole image"):
            previous_mask(tmp_path, Key("GrabCut", "broken", "broken", "", "fn"))


def test_a_split_is_a_list_of_stems(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("a b.c\n\nd \n")
    assert set(read_list(path)) == {"a b.c", "d"}
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="is not text in UTF-8"):
        read_list(path)


def test_a_simulated_file_reads_back_and_clicks_are_on_errors(tmp_path: Path) -> None:
    mask = Mask.box((60, 80), (10, 20), (50, 60))
    path = tmp_path / "clicks.csv"
    rows = write_simulated(
        path, [ClickTarget("GrabCut", "a", mask), ClickTarget("TETRIS", "b", mask, "7")]
    )
    clicks = read_clicks(path)
    assert len(clicks) == rows
    kinds = [key.kind for key in clicks.keys]
    assert kinds.count("first") == 2
    assert {"fn", "fp"} <= set(kinds)
    assert clicks.keys[3].full_stem.startswith("b_______7")
    firsts = clicks.first_rounds()
    for key in (("GrabCut", "a", ""), ("TETRIS", "b", "7")):
        points = clicks.points[firsts[key]]
        assert len(points) == 48
        on = np.mean([mask[point] for point in points.tolist()])
        assert on > 0.8
    again = tmp_path / "again.csv"
    write_simulated(
        again, [ClickTarget("GrabCut", "a", mask), ClickTarget("TETRIS", "b", mask, "7")]
    )
    assert again.read_bytes() == path.read_bytes()


def test_lifelike_later_rounds_come_with_their_previous_masks(tmp_path: Path) -> None:
    mask = Mask.box((60, 80), (10, 20), (50, 60))
    path = tmp_path / "clicks.csv"
    write_simulated(path, [ClickTarget("GrabCut", "a", mask)], per_target=10, masks=tmp_path)
    clicks = read_clicks(path)
    for key, places in clicks.groups():
        if key.kind == "first":
            continue
        shown = previous_mask(tmp_path, key) > 0.5
        wrong = mask.dense() & ~shown if key.kind == "fn" else shown & ~mask.dense()
        y, x = clicks.points[places].T
        assert wrong[y, x].mean() > 0.5
