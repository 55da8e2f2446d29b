"""What is drawn lies where it should."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.core.masks import Mask
from segmeter.core.prompts import Click
from segmeter.core.sections import (
    Axis,
    Chart,
    Column,
    Illustration,
    Label,
    Line,
    Points,
    Table,
    Value,
)
from segmeter.report.charts import chart_svg
from segmeter.report.elements import amount
from segmeter.report.images import outline_path, window_of
from segmeter.report.plot_frames import Palette, fitted, round_ticks
from segmeter.report.tables import table_view


def polygons(path: str) -> list[np.ndarray]:
    """Closed routes of steps: a place, then how far each next one is from the one before."""
    pieces = [re.findall(r"-?\d*\.?\d+", piece) for piece in path.split("Z") if piece]
    return [np.cumsum(np.array(p, float).reshape(-1, 2), axis=0) for p in pieces]


def area(polygon: np.ndarray) -> float:
    x, y = polygon.T
    return abs(float(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))) / 2


def test_an_outline_encloses_its_box() -> None:
    (outline,) = polygons(outline_path(Mask.box((100, 200), (20, 50), (60, 150)), 2.0))
    assert outline.min(axis=0).tolist() == pytest.approx([50, 20], abs=0.6)
    assert outline.max(axis=0).tolist() == pytest.approx([150, 60], abs=0.6)
    assert area(outline) == pytest.approx(4000, rel=0.03)


def test_a_hole_is_a_part_of_the_outline() -> None:
    ring = np.ones((60, 60), bool)
    ring[20:40, 20:40] = False
    areas = sorted(area(p) for p in polygons(outline_path(Mask.of(ring), 2.0)))
    assert areas == pytest.approx([400, 3600], rel=0.1)


def test_an_empty_mask_has_no_outline() -> None:
    assert outline_path(Mask.empty((5, 5)), 1.0) == ""


def test_a_ragged_outline_is_drawn_coarser_rather_than_longer() -> None:
    noise = np.random.default_rng(0).random((400, 400)) > 0.5
    assert len(outline_path(Mask.of(noise), 1.6)) < 20_000
    ragged = np.kron(np.random.default_rng(0).random((60, 60)) > 0.7, np.ones((5, 5))) > 0
    assert len(outline_path(Mask.of(ragged), 1.6)) < 5_000


def test_a_close_image_shows_object_and_clicks_and_stays_inside() -> None:
    image = Illustration(np.zeros((1000, 2000, 3), np.uint8), close=True)
    window = window_of(image, [Mask.box((1000, 2000), (0, 1900), (50, 2000))], [Click((80, 1880))])
    assert window.top == 0
    assert window.left + window.width == 2000
    assert window.left <= 1880
    assert window.top + window.height > 80
    assert window.width < 400


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 9))
def test_ticks_are_even_and_inside(low: float, span: float, wanted: int) -> None:
    ticks = round_ticks(low, low + span, wanted)
    assert len(ticks) <= wanted + 2
    assert all(low - 1e-6 * span <= t <= low + span * (1 + 1e-6) for t in ticks)


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=20))
def test_a_scale_holds_all_its_values(values: list[float]) -> None:
    scale = fitted(Axis("x"), values, 10.0, 110.0)
    assert all(10 - 1e-6 <= scale(v) <= 110 + 1e-6 for v in values)


def test_names_at_the_ends_of_equal_curves_do_not_touch() -> None:
    lines = [Line(f"model {k}", [1, 2, 3], [0.5, 0.6, 0.7]) for k in range(5)]
    svg = chart_svg(Chart("t", Axis("x"), Axis("y"), lines), Palette(), 400, 300)
    places = re.findall(
        r'<text x="[\d.]+" y="([\d.]+)" class="name', svg.split('class="probes"')[0]
    )
    gaps = np.diff(sorted(float(p) for p in places))
    assert len(places) == 5
    assert gaps.min() >= 13.5


def test_a_name_keeps_its_colour_and_dash_in_every_chart() -> None:
    palette = Palette()
    first, second = palette["a"], palette["b"]
    assert palette["a"] == first
    assert first.colour != second.colour
    assert first.dash != second.dash


def test_names_of_dots_stay_on_the_paper_and_apart() -> None:
    x = np.array([0.97, 0.96, 0.98, 0.02])
    names = ["a rather long name", "another long name", "a third long name", "one at the left"]
    dots = Points("dots", x, np.array([0.5, 0.505, 0.49, 0.5]), names)
    chart = Chart("c", Axis("x", 0, 1), Axis("y", 0, 1), [dots])
    drawn = str(chart_svg(chart, Palette(), 380, 290))
    text = r'<text x="([-\d.]+)" y="([-\d.]+)" class="name( end)? c0">([^<]+)<'
    found = re.findall(text, drawn)
    assert len(found) >= 3
    starts = [(float(at) - (6 * len(name) if end else 0), line) for at, line, end, name in found]
    spans = [
        (low, low + 6 * len(name), float(line))
        for (low, line), (*_, name) in zip(starts, found, strict=True)
    ]
    assert all(low >= 0 and high <= 380 for low, high, _ in spans)
    for i, (low, high, line) in enumerate(spans):
        for start, end, other in spans[:i]:
            assert abs(line - other) >= 12 or low >= end or start >= high


def test_a_phone_stacks_tables_of_some_lines_but_no_matrix() -> None:
    def cards(rows: int, columns: int, shade: bool = False) -> bool:
        numbers = [Column(f"c{k}", "", 1, shade=shade) for k in range(columns)]
        values = [[f"r{i}", *(Value(i + k, i, i + 9) for k in range(columns))] for i in range(rows)]
        return table_view(Table("t", [Column("m"), *numbers], values)).cards

    assert cards(2, 12)
    assert cards(9, 5)
    assert not cards(25, 5)
    assert not cards(5, 5, shade=True)


def test_a_curve_with_gaps_is_drawn_where_it_is_known() -> None:
    line = Line("a", [1, 2, 3], [0.5, float("nan"), 0.7])
    svg = chart_svg(Chart("t", Axis("x"), Axis("y"), [line]), Palette(), 400, 300)
    assert "nan" not in svg


def test_the_best_number_is_set_strong_and_only_that() -> None:
    table = Table(
        "t",
        [
            Column("m"),
            Column("up", digits=1, better="higher"),
            Column("down", digits=1, better="lower"),
        ],
        [["a", Value(1.0), 2.0], ["b", Value(3.0), 1.0], ["c", Value(float("nan")), None]],
    )
    best = [[cell.best for cell in row] for row in table_view(table).rows]
    assert best == [[False, False, False], [False, True, True], [False, False, False]]


def test_only_rows_of_one_protocol_and_data_set_compete() -> None:
    rows = [
        [Label("a", protocol="published"), "d", 1.0],
        [Label("a", protocol="corrected"), "d", 2.0],
        [Label("b", protocol="corrected"), "d", 3.0],
        [Label("a", protocol="corrected"), "e", 5.0],
        [Label("b", protocol="corrected"), "e", 4.0],
    ]
    table = Table("t", [Column("m"), Column("data"), Column("up", "", 1, better="higher")], rows)
    best = [row[2].best for row in table_view(table).rows]
    assert best == [False, False, True, True, False]


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [(-0.04, 1, "0.0"), (1234.5, 0, "1234"), (float("inf"), 1, "∞"), (0.000123, None, "0.000123")],
)
def test_numbers_are_written_as_people_write_them(
    value: float, digits: int | None, said: str
) -> None:
    assert amount(value, digits) == said


def test_rows_named_as_curves_are_keyed_in_their_style() -> None:
    palette = Palette()
    for name in "ab":
        assert palette[name] is palette.known(name)
    columns = [Column("model"), Column("seconds", digits=1, plot=True)]
    table = Table(
        "t", columns, [[Label("b", protocol="corrected"), Value(2.0, 1.0, 3.0)], ["c", 1.0]]
    )
    keyed, plain = table_view(table, palette).rows
    assert palette["b"].colour in str(keyed[0].key)
    assert palette["b"].colour in str(keyed[1].strip)
    assert keyed[1].key is plain[0].key is None
    assert "ink" in str(plain[1].strip)


def test_each_statistic_is_drawn_on_its_own_scale_around_zero() -> None:
    """Differences of some clicks were dots without intervals on a scale of percent."""
    columns = [Column("statistic"), Column("difference", digits=1, plot=True)]
    rows = [["NoC@90", Value(-2.0, -4.0, -1.0)], ["IoU@1", Value(60.0, 40.0, 90.0)]]
    view = table_view(Table("t", columns, rows))
    assert view.heads[1][1] is None
    for row in view.rows:
        low, high = map(float, re.findall(r"M([\d.]+) 8H([\d.]+)", str(row[1].strip))[1])
        assert high - low > 50
        assert 'class="zero"' in str(row[1].strip)


def test_a_log_scale_begins_at_the_given_value() -> None:
    scale = fitted(Axis("x", low=1, scale="log"), [6.0, 100.0], 0.0, 100.0)
    assert scale(1.0) == 0
    assert scale(10.0) == pytest.approx(50)
    assert scale.ticks[0] == 1
    assert fitted(Axis("x", low=0, scale="log"), [0.0, 5.0, 50.0], 0.0, 100.0)(5.0) == 0


@pytest.mark.parametrize("values", [[0.0, 2e-313], [1e300, 1e300], [-0.0, 0.0], [5.0]])
def test_a_scale_of_equal_values_still_has_room(values: list[float]) -> None:
    scale = fitted(Axis("x"), values, 0.0, 100.0)
    assert all(0 <= scale(v) <= 100 for v in values)


def test_a_p_value_is_never_shown_as_zero() -> None:
    """20 000 sign patterns give p = 0.00005, which was shown as 0.000."""
    from segmeter.analysis.report_parts import P_VALUE
    from segmeter.report.elements import cell_text

    shown = [cell_text(p, P_VALUE) for p in (0.00005, 0.001, 0.0312, 1.0)]
    assert shown == ["<0.001", "0.001", "0.031", "1.000"]
