"""Prices fitted to logs of annotation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from segmeter.core.annotation_events import AnnotationEvent, Timing, timings
from segmeter.core.errors import BadInput, NotFound
from segmeter.datasets.annotation_logs import COLUMNS, read_log
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.cost_fitting import fit_costs


def worked(people: int = 8, objects: int = 40, seed: int = 3) -> list[AnnotationEvent]:
    """A log of skewed times with known means: locate 1.2, click 1.6, box 6, review 0.8 s."""
    rng = np.random.default_rng(seed)

    def takes(mean: float) -> float:
        return float(mean * rng.lognormal(-0.5 * 0.4**2, 0.4))

    log = []
    for person in range(people):
        at = 100.0 * person
        for number in range(objects):

            def note(kind: str, seconds: float, obj: str = f"o{number}", who: int = person) -> None:
                nonlocal at
                at += seconds
                log.append(AnnotationEvent(f"p{who}", f"pic{who}-{obj}", obj, kind, at))  # type: ignore[arg-type]

            note("start", 0.5)
            if number % 2:
                note("box", takes(1.2) + takes(6.0))
            else:
                note("click", takes(1.2) + takes(1.6))
            for _ in range(3):
                note("click", takes(1.6))
            if number % 5 == 0:
                at += 600.0  # coffee
            note("done", takes(0.8))
            if number % 10 == 0:
                note("start", 0.1, f"h{number}")
                note("by_hand", takes(50.0), f"h{number}")
    return log


def test_known_prices_come_back_within_their_intervals_despite_pauses() -> None:
    found = fit_costs(list(timings(worked())))
    known = {"locate": 1.2, "click": 1.6, "box": 6.0, "by_hand": 50.0, "review": 0.8}
    assert found.prices.keys() == known.keys()
    for name, ground_truth in known.items():
        price = found.prices[name]
        assert price.low < price.value < price.high
        assert price.value == pytest.approx(ground_truth, rel=0.15), name
    assert found.over == "annotators"
    assert found.left_out >= 8 * 8  # every coffee
    assert CostModel().review == 0  # and the model uses what was fitted
    assert found.model().per_object == pytest.approx(
        found.prices["locate"].value + found.prices["review"].value
    )


def test_a_pause_changes_nothing() -> None:
    steps = [Timing(who, "p", "click", False, 1.5 + 0.01 * k) for who in "abc" for k in range(10)]
    slow = [*steps, Timing("a", "p", "click", False, 5000.0), Timing("b", "p", "click", False, 0.0)]
    assert fit_costs(slow).prices == fit_costs(steps).prices
    assert fit_costs(slow).left_out == 2


def test_boxes_that_always_come_first_are_priced_with_the_default_locate() -> None:
    found = fit_costs([Timing(who, "p", "box", True, 8.0) for who in "abc"])
    assert {name: price.value for name, price in found.prices.items()} == {"box": 7.0}


def test_one_person_on_one_image_has_a_price_and_no_interval() -> None:
    found = fit_costs([Timing("a", "p", "click", False, 1.5)] * 3)
    assert np.isnan(found.prices["click"].low)
    assert "nan" not in found.toml()


def test_a_prompt_without_a_start_is_not_timed() -> None:
    events = [
        AnnotationEvent("a", "p", "1", "click", 1.0),
        AnnotationEvent("a", "p", "2", "click", 9.0),
        AnnotationEvent("a", "p", "2", "click", 11.0),
    ]
    assert [t.seconds for t in timings(events)] == [2.0]
    with pytest.raises(BadInput, match="no step is timed"):
        fit_costs(list(timings(events[:1])))


def written(path: Path, rows: list[list[object]]) -> Path:
    if path.suffix == ".csv":
        lines = [",".join(COLUMNS), *(",".join(map(str, row)) for row in rows)]
    else:
        lines = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl"])
def test_a_log_is_read_with_any_clock(tmp_path: Path, name: str) -> None:
    rows: list[list[object]] = [
        ["ann", "p", "1", "Open", "2024-05-02T09:00:00Z"],
        ["ann", "p", "1", "zoom", "2024-05-02T09:00:01Z"],
        ["ann", "p", "1", "point", "2024-05-02T09:00:02.5+00:00"],
        ["bob", "p", "1", "start", 1714640400000],
        ["bob", "p", "1", "click", 1714640402500],
    ]
    log = read_log(written(tmp_path / name, rows))
    assert log.unknown == {"zoom": 1}
    assert [(t.kind, t.seconds) for t in timings(log.events)] == [("click", 2.5)] * 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("annotator,image,object,event\na,p,1,click\n", "no column 'time'"),
        ("annotator,image,object,event,time\na,p,1,click,\n", "line 2 has no 'time'"),
        ("annotator,image,object,event,time\na,p,1,click,soon\n", "line 2 has the time 'soon'"),
        ("annotator,image,object,event,time\na,p,1,click,nan\n", "line 2 has the time 'nan'"),
        ("annotator,image,object,event,time\na,p,1,zoom,1\n", "no known event"),
        ('{"annotator": "a"\n', "line 1 is not JSON"),
        ('{"annotator": 1}\n[]\n', "line 1 has no 'image'"),
        ("", "no column"),
    ],
)
def test_a_wrong_log_is_refused_in_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "log").write_text(text)
    with pytest.raises(BadInput, match=said):
        read_log(tmp_path / "log")
    with pytest.raises(NotFound, match="no file"):
        read_log(tmp_path / "other")


def test_the_price_of_a_touch_up_is_seconds_per_corrected_over_drawn_pixel(
    tmp_path: Path,
) -> None:
    lines = ["annotator,image,object,event,time,length_px"]
    for person, pace in enumerate((1.0, 1.5, 2.0)):
        at = 0.0
        for number in range(4):
            drawn = 100 + 20 * number
            steps = (
                ("start", 1.0, ""),
                ("draw", 1.0 + 0.3 * pace * drawn, drawn),  # 1 s to find the object
                ("done", 1.0, ""),
                ("start", 1.0, ""),
                ("edit", 0.15 * pace * 40, 40),
                ("done", 1.0, ""),
            )
            for event, seconds, length in steps:
                at += seconds
                lines.append(f"p{person},i{number},o{number},{event},{at},{length}")
    (tmp_path / "log.csv").write_text("\n".join(lines))
    found = fit_costs(list(timings(read_log(tmp_path / "log.csv").events)))
    assert found.prices["touch_up"].value == pytest.approx(0.5)
    assert found.model().touch_up == pytest.approx(0.5)
    assert "touch_up = 0.500" in found.toml()
    (tmp_path / "log.csv").write_text("\n".join([lines[0], "p,i,o,draw,1,many"]))
    with pytest.raises(BadInput, match="length 'many'; it must be a number of pixels"):
        read_log(tmp_path / "log.csv")
