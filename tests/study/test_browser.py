"""A real browser plays a study: what is exported is what was clicked."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from segmeter.study import tables as t
from segmeter.study.exports import export, trial_rows
from segmeter.study.modes import BUILT_IN
from segmeter.study.running import RunningStudy
from segmeter.study.serving import study_app


class Hands:
    """Somebody at a browser."""

    def __init__(self, tab: Any, touch: bool = False) -> None:
        self.tab, self.touch = tab, touch

    def go(self, url: str) -> None:
        self.tab.call("Network.clearBrowserCookies")
        self.tab.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def until(self, expression: str) -> Any:
        """Wait for the page to get somewhere; fails when it never does."""
        for _ in range(1500):
            try:
                value = self.tab.run(expression)
            except RuntimeError:  # between two pages there is nothing to ask
                value = None
            if value:
                return value
            time.sleep(0.01)
        raise AssertionError(f"never came: {expression}; {self.tab.run('document.body.innerText')}")

    def size(self, width: int, height: int, ratio: float, zoom: float) -> None:
        """A window; a browser's zoom makes CSS pixels larger and fewer."""
        self.tab.call(
            "Emulation.setDeviceMetricsOverride",
            width=round(width / zoom),
            height=round(height / zoom),
            deviceScaleFactor=ratio * zoom,
            mobile=self.touch,
        )
        self.tab.call("Emulation.setTouchEmulationEnabled", enabled=self.touch)

    def press(self, x: float, y: float) -> None:
        if self.touch:
            point = [{"x": x, "y": y}]
            self.tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=point)
            self.tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
            return
        at = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.tab.call("Input.dispatchMouseEvent", type="mousePressed", **at)
        self.tab.call("Input.dispatchMouseEvent", type="mouseReleased", **at)

    def enter(self, url: str, device: str) -> None:
        """Through consent and device to the instructions."""
        self.go(url)
        self.until("document.querySelector('[name=agreed]') !== null")
        self.tab.run("document.querySelector('[name=agreed]').click()")
        self.tab.run("document.querySelector('form.consent').requestSubmit()")
        self.until("document.querySelector('.choice.guess') !== null")
        self.tab.run(f"document.querySelector('[data-device={device}]').click()")
        self.until("document.getElementById('start') && !document.getElementById('start').disabled")

    def play(self, points: list[tuple[int, int]]) -> None:
        """Start, and click the middle of a pixel in each trial."""
        self.tab.run("document.getElementById('start').click()")
        for number, (x, y) in enumerate(points, 1):
            self.until(
                "document.getElementById('place').classList.contains('open') &&"
                f" document.getElementById('count').textContent.startsWith('{number} ')"
            )
            place = self.tab.run("""(() => {
                const box = document.getElementById('canvas').getBoundingClientRect();
                return [box.left, box.top, box.width, box.height];
            })()""")
            width, height = self.tab.run(f"window.sizes[{number - 1}]")
            across, down = (x + 0.5) / width, (y + 0.5) / height
            self.press(place[0] + across * place[2], place[1] + down * place[3])
        self.until("!document.getElementById('after').hidden")


def targets_of(study: RunningStudy) -> list[dict[str, Any]]:
    """The open batch's trials with a pixel of each target, far from the middle."""
    with study.ledger.reading() as connection:
        asked = (
            sa.select(t.trials.c.place, t.tasks)
            .join(t.tasks, t.tasks.c.id == t.trials.c.task)
            .join(t.batches, t.batches.c.id == t.trials.c.batch)
            .where(t.batches.c.state == "open")
            .order_by(t.trials.c.place)
        )
        rows = connection.execute(asked).mappings().all()
    found = []
    for row in rows:
        mask = study.stimuli.mask(row["scene"], row["target"], row["part"], row["source"])
        y, x = next(zip(*mask.bits.nonzero(), strict=True))
        point = (int(x) + mask.low[1], int(y) + mask.low[0])
        size = study.stimuli.shown(row["scene"]).size
        found.append({"scene": row["scene"], "point": point, "size": (size[1], size[0])})
    return found


# Each display mode in another window: pointer, zoom, device pixels per CSS pixel.
WINDOWS = [
    ("Text_Description", "mouse", 0.5, 1.0),
    ("Object_CutOut", "mouse", 1.0, 1.0),
    ("Shifted_CutOut", "mouse", 1.25, 2.0),
    ("Silhouette_Mask", "mouse", 2.0, 3.0),
    ("Highlighted_Instance", "touch", 1.0, 3.0),
]


def quicker(mode: str) -> str:
    """A plan with the built-in mode's screens, twenty times faster."""
    screens = [
        f'{{ show = "{screen.show}", seconds = {max(0.06, screen.seconds / 20):.3f} }}'
        for screen in BUILT_IN[mode].screens
        if screen.seconds
    ]
    shown = ", ".join([*screens, '{ show = "picture" }'])
    return f"""
        kind = "clicks"
        title = "Where do you click?"
        [design]
        open_to_all = true
        modes = ["Quick"]
        [[mode]]
        name = "Quick"
        screens = [{shown}]
    """


@pytest.mark.parametrize(("mode", "pointer", "zoom", "ratio"), WINDOWS)
def test_the_exported_click_is_the_pixel_that_was_clicked(
    begin: Callable[..., RunningStudy],
    listening: Callable[[Any], Any],
    chromium: Any,
    tmp_path: Path,
    mode: str,
    pointer: str,
    zoom: float,
    ratio: float,
) -> None:
    study = begin(quicker(mode))
    hands = Hands(chromium, touch=pointer == "touch")
    device = "mobile" if hands.touch else "pc"
    chromium.complaints.clear()
    with listening(study_app(study)) as address:
        width, height = (390, 844) if hands.touch else (1280, 860)
        hands.size(width, height, ratio, zoom)
        hands.enter(f"{address}/", device)
        wanted = targets_of(study)
        assert len(wanted) == 10
        chromium.run(f"window.sizes = {json.dumps([each['size'] for each in wanted])}")
        hands.play([each["point"] for each in wanted])
    with study.ledger.reading() as connection:
        files = export(connection, study.plan, study.stimuli, tmp_path / "out")
        trials = list(trial_rows(connection, study.plan))
    assert [row["pointer"] for row in trials] == [pointer] * 10
    assert all(row["pixel_ratio"] == pytest.approx(ratio * zoom, abs=0.02) for row in trials)
    # Timings within 50 ms, or flagged and not counted.
    for row in trials:
        worst = max(abs(a - b) for a, b in zip(row["planned_ms"], row["true_ms"], strict=True))
        assert row["flag_late"] == (worst > 50)
        assert row["counts"] == (not row["flag_late"] and not row["flag_unfocused"])
        assert row["flag_inside"]
    (clicks,) = [file for file in files if file.name == "clicks.csv"]
    with clicks.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(row["counts"] for row in trials)
    pixels = {each["scene"]: each["point"] for each in wanted}
    assert {row["image_stem"]: (int(row["x"]), int(row["y"])) for row in rows} == {
        row["scene"]: pixels[row["scene"]] for row in trials if row["counts"]
    }
    assert {row["device"] for row in rows} <= {device}
    assert chromium.complaints == []
