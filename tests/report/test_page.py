"""The page holds everything, escapes everything, and addresses nothing outside."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from types import ModuleType

import pytest

from segmeter.core.sections import Column, Gallery, Illustration, Section, Table, Value
from segmeter.report.page import Page, render
from segmeter.report.tables import table_view


class Reader(HTMLParser):
    """Notes elements, addresses and whether every element is closed."""

    void = ("meta", "input", "br", "link", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        for name, value in attrs:
            if name in ("href", "src", "action"):
                self.addresses.append(value or "")
            if name == "id":
                self.ids.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.void:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def html(specimen: ModuleType) -> str:
    return render(specimen.page())


@pytest.fixture(scope="module")
def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


def test_every_element_is_closed(read: Reader) -> None:
    assert read.open == []


def test_hostile_names_stay_text(html: str, read: Reader, specimen: ModuleType) -> None:
    assert specimen.HOSTILE not in html
    assert read.seen.count("script") == 1
    assert "b" not in read.seen
    assert read.handlers == []


def test_nothing_outside_the_file_is_addressed(html: str, read: Reader) -> None:
    assert all(a.startswith(("#", "data:")) for a in read.addresses)
    assert not re.search(r"https?://|url\((?!#)|@import", html)
    assert "default-src 'none'" in html


def test_headings_tables_and_images_are_labelled_for_screen_readers(html: str) -> None:
    levels = [int(level) for level in re.findall(r"<h(\d)", html)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all("scope=" in cell for cell in re.findall(r"<th[ >][^>]*", html))
    assert all("alt=" in image for image in re.findall(r"<img[^>]*>", html))
    drawn = re.findall(r'<svg[^>]*role="img"[^>]*>(.{7})', html)
    assert drawn
    assert set(drawn) == {"<title>"}
    told = re.findall(r"<svg[^>]*>", html)
    assert all('role="img"' in svg or 'aria-hidden="true"' in svg for svg in told)


def test_every_inner_link_has_its_place(read: Reader) -> None:
    places = {a[1:] for a in read.addresses if a.startswith("#")}
    assert places <= set(read.ids)
    assert len(read.ids) == len(set(read.ids))


def test_a_image_shown_twice_is_stored_once(html: str) -> None:
    assert html.count("data:image/webp") == 3  # an image, a volume and its still
    assert html.count("data:image/png") == 1


def test_rows_of_the_table_carry_unit_interval_and_protocol(html: str) -> None:
    assert '<span class="v">2.5</span>' in html
    assert '<span class="ci" style="--room:7ch">1.0–4.0</span>' in html
    assert '<span class="tag">published</span>' in html
    assert '<span class="unit">s</span>' in html


def test_only_protocols_that_occur_are_explained(html: str) -> None:
    assert "flaws included" in html
    assert "as the paper" not in html


def test_the_same_page_is_written_the_same(html: str, specimen: ModuleType) -> None:
    assert render(specimen.page()) == html


def test_a_image_of_another_kind_is_refused() -> None:
    from segmeter.core.errors import BadInput

    page = Page(
        "t", "", [], [Section("s", blocks=[Gallery([Illustration(b"GIF89a", size=(4, 4))])])]
    )
    with pytest.raises(BadInput, match="PNG, JPEG and WebP"):
        render(page)


@pytest.mark.parametrize(("name", "dense"), [("sam", False), ("a-long-name" * 7, True)])
def test_a_table_too_wide_for_the_page_sets_intervals_beneath_its_numbers(
    name: str, dense: bool
) -> None:
    columns = [Column("model"), *(Column(f"quality {k}", "percent", 1) for k in range(5))]
    rows = [[name, *(Value(50.0, 40.0, 60.0) for _ in range(5))]]
    assert table_view(Table("wide", columns, rows)).dense is dense


def test_a_replay_opens_at_the_round_that_reaches_the_goal(specimen: ModuleType) -> None:
    """Sessions opened at the last of twenty clicks, long after the goal."""
    from segmeter.report.replays import _open_at

    replay = specimen.replay("replay-1", "a session")
    assert _open_at(replace(replay, goal=0.5)) == 2
    assert _open_at(replace(replay, goal=None)) == _open_at(replace(replay, goal=1.5)) == 4


def test_numbers_without_an_interval_next_to_some_with_one_are_explained() -> None:
    columns = [Column("model"), Column("clicks", digits=2)]
    bare, spread = ["a", Value(5.0, 5.0, 5.0)], ["b", Value(4.8, 4.3, 5.0)]
    told = "No interval: a single image, or the same number in every resample."
    mixed = render(Page("t", "s", [], [Section("x", blocks=[Table("t", columns, [bare, spread])])]))
    assert told in mixed
    even = render(Page("t", "s", [], [Section("x", blocks=[Table("t", columns, [spread])])]))
    assert told not in even
