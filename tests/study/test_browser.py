"""A real browser takes part in studies, at the sizes of a desktop and a phone."""

from __future__ import annotations

import csv
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from segmeter.study import database as db
from segmeter.study.exports import click_rows, export, rating_rows, step_rows, trial_rows
from segmeter.study.interactions import interactions
from segmeter.study.plan import BUILT_IN
from segmeter.study.running import RunningStudy
from segmeter.study.server import study_app

pytestmark = pytest.mark.long

ASKING = """new Promise(answer => {
    const end = performance.now() + 500;
    const ask = () => {
        let value = null;
        try { value = %s; } catch { /* not there yet */ }
        if (value || performance.now() > end) answer(value || null);
        else setTimeout(ask, 5);
    };
    ask();
})"""


class Hands:
    """Somebody at a browser."""

    def __init__(self, tab: Any, touch: bool = False) -> None:
        self.tab, self.touch = tab, touch

    def go(self, url: str) -> None:
        self.tab.call("Network.clearBrowserCookies")
        self.tab.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def until(self, expression: str) -> Any:
        """Wait for the page to get somewhere; fails when it never does.

        The page asks itself and answers when it is there: asking from here keeps both busy.
        """
        for _ in range(120):
            try:
                value = self.tab.run(ASKING % expression)
            except RuntimeError:  # between two pages there is nothing to ask
                value = None
                time.sleep(0.02)
            if value:
                return value
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
        self.until("document.querySelector('.choice.suggested') !== null")
        self.tab.run(f"document.querySelector('[data-device={device}]').click()")
        self.until("document.getElementById('start') && !document.getElementById('start').disabled")

    def start(self) -> None:
        """Press Start: the batch is reserved and its images are loaded."""
        self.tab.run("document.getElementById('start').click()")
        self.until(
            "!document.getElementById('stage').hidden || "
            "(!document.getElementById('start').disabled &&"
            " document.getElementById('start').click())"
        )

    def play(self, points: list[tuple[int, int]]) -> None:
        """Click the middle of a pixel in each trial."""
        for number, (x, y) in enumerate(points, 1):
            self.until(
                "document.getElementById('place').classList.contains('open') &&"
                f" document.getElementById('count').textContent.startsWith('{number} ')"
            )
            self.press_pixel(x, y, self.tab.run(f"window.sizes[{number - 1}]"))
        self.until("!document.getElementById('after').hidden")

    def press_pixel(self, x: int, y: int, size: tuple[int, int]) -> None:
        """Press the middle of a pixel of the image, wherever the page shows it."""
        place = self.tab.run("""(() => {
            const box = document.getElementById('canvas').getBoundingClientRect();
            return [box.left, box.top, box.width, box.height];
        })()""")
        across, down = (x + 0.5) / size[0], (y + 0.5) / size[1]
        self.press(place[0] + across * place[2], place[1] + down * place[3])


def targets_of(study: RunningStudy) -> list[dict[str, Any]]:
    """The open batch's trials with a pixel of each target, far from the middle."""
    with study.database.snapshot() as connection:
        asked = (
            sa.select(db.trials.c.place, db.tasks)
            .join(db.tasks, db.tasks.c.id == db.trials.c.task)
            .join(db.batches, db.batches.c.id == db.trials.c.batch)
            .where(db.batches.c.state == "open")
            .order_by(db.trials.c.place)
        )
        rows = connection.execute(asked).mappings().all()
    found = []
    for row in rows:
        mask = study.stimuli.mask(row["scene"], row["target"], row["part"], row["source"])
        y, x = next(zip(*mask.bits.nonzero(), strict=True))
        point = (int(x) + mask.low[1], int(y) + mask.low[0])
        size = study.stimuli.shown(row["scene"]).size
        named = {"scene": row["scene"], "target": row["target"]}
        found.append({**named, "point": point, "size": (size[1], size[0])})
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
    shown = ", ".join([*screens, '{ show = "image" }'])
    return f"""
        kind = "clicks"
        title = "Where do you click?"
        [design]
        batch = 2
        open_to_all = true
        modes = ["Quick"]
        [validity]
        least_latency_ms = 0
        exclude_people = []
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
        assert targets_of(study) == []  # nothing is reserved before Start
        hands.start()
        wanted = targets_of(study)
        assert len(wanted) == 2
        chromium.run(f"window.sizes = {json.dumps([each['size'] for each in wanted])}")
        hands.play([each["point"] for each in wanted])
    with study.database.snapshot() as connection:
        files = export(connection, study.plan, study.stimuli, tmp_path / "out")
        trials = list(trial_rows(connection, study.plan))
    assert [row["pointer"] for row in trials] == [pointer] * 2
    assert all(row["pixel_ratio"] == pytest.approx(ratio * zoom, abs=0.02) for row in trials)
    # Timings within 50 ms, or flagged and not counted.
    for row in trials:
        worst = max(abs(a - b) for a, b in zip(row["planned_ms"], row["true_ms"], strict=True))
        assert ("late" in row["flag_bad"]) == (worst > 50)
        assert set(row["flag_bad"]) <= {"late", "left_page"}
        assert row["counts"] == (not row["flag_bad"])
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


COMBINED = """
kind = "clicks"
title = "Every window"
[design]
open_to_all = true
modes = ["Quick"]
[[mode]]
name = "Quick"
screens = [{ show = "silhouette", seconds = 0.05 }, { show = "image" }]
[validity]
radius = 1.0
batch_minimum = 0
exclude = []
"""
ZOOMS, RATIOS = (0.5, 0.75, 1.0, 1.5, 2.0), (1.0, 1.5, 2.0, 3.0)


@pytest.mark.parametrize("pointer", ["mouse", "touch"])
def test_zoom_and_pixel_ratio_in_every_combination(
    begin: Callable[..., RunningStudy], listening: Callable[[Any], Any], chromium: Any, pointer: str
) -> None:
    """The window changes between two trials of a batch; corners and any other pixel are hit."""
    study = begin(COMBINED)
    hands = Hands(chromium, touch=pointer == "touch")
    screen = (390, 844) if hands.touch else (800, 600)
    rng, windows = np.random.default_rng(0), list(itertools.product(ZOOMS, RATIOS))
    clicked: list[tuple[int, int, float]] = []
    chromium.complaints.clear()
    with listening(study_app(study)) as address:
        for person in range(2):
            hands.size(*screen, 1.0, 1.0)
            hands.enter(f"{address}/", "mobile" if hands.touch else "pc")
            hands.start()
            sizes = [each["size"] for each in targets_of(study)]
            for number, (width, height) in enumerate(sizes, 1):
                hands.until(
                    "document.getElementById('place').classList.contains('open') &&"
                    f" document.getElementById('count').textContent.startsWith('{number} ')"
                )
                zoom, ratio = windows[10 * person + number - 1]
                hands.size(*screen, ratio, zoom)
                hands.until(f"Math.abs(devicePixelRatio - {ratio * zoom}) < 0.01")
                chromium.run("new Promise(done => requestAnimationFrame(() => done(1)))")
                corners = [(0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)]
                anywhere = (int(rng.integers(width)), int(rng.integers(height)))
                x, y = [*corners, anywhere][min(4, number % 8)]
                hands.press_pixel(x, y, (width, height))
                clicked.append((x, y, ratio * zoom))
            hands.until("!document.getElementById('after').hidden")
    with study.database.snapshot() as connection:
        rows = list(trial_rows(connection, study.plan))
        exported = list(click_rows(connection, study.plan, study.stimuli))
    assert len(exported) == len(windows) == 20
    assert [(row["x"], row["y"]) for row in exported] == [(x, y) for x, y, _ in clicked]
    assert [row["pixel_ratio"] for row in rows] == pytest.approx([r for *_, r in clicked], abs=0.02)
    assert {row["pointer"] for row in rows} == {pointer}
    assert chromium.complaints == []


RATE = """
kind = "rate"
title = "How good is the mask?"
[design]
open_to_all = true
batch = 5
[validity]
least_seconds = 0
[rating]
overlap = 0.0
[[masks]]
name = "ground_truth"
"""


def test_ten_ratings_by_button_and_key_with_undo(
    begin: Callable[..., RunningStudy], listening: Callable[[Any], Any], chromium: Any
) -> None:
    study = begin(RATE)
    hands = Hands(chromium)
    chromium.complaints.clear()
    given: list[int] = []
    with listening(study_app(study)) as address:
        hands.size(1280, 860, 1.0, 1.0)
        hands.enter(f"{address}/", "pc")
        for number in range(2):
            hands.start()
            for place in range(1, 6):
                hands.until(
                    f"document.getElementById('count').textContent.startsWith('{place} ') &&"
                    " !document.querySelector('[data-score]').disabled &&"
                    " [...document.querySelectorAll('.view img')].every(i => i.naturalWidth)"
                )
                score = 1 + (place * 7 + number) % 10
                if place % 2:
                    chromium.run(f"document.querySelector('[data-score=\"{score}\"]').click()")
                else:
                    key = "0" if score == 10 else str(score)
                    chromium.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
                    chromium.call("Input.dispatchKeyEvent", type="keyUp", key=key)
                given.append(score)
            hands.until("!document.getElementById('hand-in').hidden")
            if number == 0:  # the last one was a slip
                chromium.run("document.getElementById('back').click()")
                hands.until("!document.getElementById('stage').hidden")
                hands.until("!document.querySelector('[data-score]').disabled")
                chromium.run("document.querySelector('[data-score=\"3\"]').click()")
                given[-1] = 3
                hands.until("!document.getElementById('hand-in').hidden")
            chromium.run("document.getElementById('finish').click()")
            hands.until("!document.getElementById('after').hidden")
            chromium.run("document.getElementById('again').click()")
            hands.until("document.getElementById('after').hidden")
            hands.until("!document.getElementById('start').disabled")
    with study.database.snapshot() as connection:
        rows = list(rating_rows(connection, study.plan))
    assert [row["score"] for row in rows] == given
    assert [row["changes"] for row in rows] == [0] * 4 + [1] + [0] * 5
    assert chromium.complaints == []


INTERACT = """
kind = "interact"
title = "Segment"
[data]
scenes = ["coffee"]
[design]
models = ["disc"]
modes = ["Quick"]
batch = 1
open_to_all = true
[validity]
late_ms = 10000  # a busy machine draws late
[[mode]]
name = "Quick"
screens = [{ show = "cutout", seconds = 0.1 }, { show = "image" }]
"""


def steps_kept(study: RunningStudy) -> int:
    with study.database.snapshot() as connection:
        asked = sa.select(sa.func.count()).where(db.answers.c.kind == "step")
        return int(connection.execute(asked).scalar_one())


def test_a_person_segments_with_a_model_until_content(
    begin: Callable[..., RunningStudy], listening: Callable[[Any], Any], chromium: Any
) -> None:
    study = begin(INTERACT)
    hands = Hands(chromium)
    chromium.complaints.clear()
    with listening(study_app(study)) as address:
        hands.size(1000, 700, 2.0, 1.0)
        hands.enter(f"{address}/", "pc")
        hands.start()
        hands.until("document.getElementById('place').classList.contains('open')")
        place = "document.getElementById('canvas').getBoundingClientRect()"
        left, top, width, height = chromium.run(
            f"(() => {{ const b = {place}; return [b.left, b.top, b.width, b.height]; }})()"
        )
        hands.press(left + width / 2, top + height / 2)
        hands.until("!document.getElementById('done').disabled")
        chromium.run("document.getElementById('remove').click()")
        hands.until("document.getElementById('ask').className === 'now'")
        hands.press(left + width / 4, top + height / 4)
        while steps_kept(study) < 2:
            time.sleep(0.01)
        hands.until("document.getElementById('ask').className === 'now'")
        chromium.run("document.getElementById('done').click()")
        hands.until("!document.getElementById('after').hidden")
    with study.database.snapshot() as connection:
        (found,) = interactions(connection, study.plan)
    rows, columns = study.stimuli.shown("coffee").size
    places = [(*step["point"], step["positive"]) for step in found.steps]
    assert places == [
        (rows // 2, columns // 2, True),
        (rows // 4, columns // 4, False),
    ]
    assert found.accepted
    assert chromium.complaints == []


def test_without_a_connection_no_one_begins_and_nothing_is_lost(
    begin: Callable[..., RunningStudy], listening: Callable[[Any], Any], chromium: Any
) -> None:
    """Images, then an answer, do not come through; the page says so and sends them again."""
    study = begin(COMBINED.replace("open_to_all", "batch = 1\nopen_to_all"))
    hands = Hands(chromium)
    hands.size(800, 600, 1.0, 1.0)
    trouble = "!document.getElementById('trouble').hidden"
    ready = "!document.getElementById('start').disabled"
    chromium.call("Network.enable")
    with listening(study_app(study)) as address:
        hands.enter(f"{address}/", "pc")
        assert chromium.run("document.activeElement.id") == "start"
        chromium.call("Network.setBlockedURLs", urls=["*/images/*"])
        chromium.run("document.getElementById('start').click()")
        hands.until(trouble)
        assert not chromium.run(ready)
        chromium.call("Network.setBlockedURLs", urls=[])
        hands.until(f"!document.getElementById('stage').hidden || {ready}")
        if chromium.run(ready):  # loading took long, so the participant says when to begin
            chromium.run("document.getElementById('start').click()")
        hands.until("document.getElementById('place').classList.contains('open')")
        chromium.call("Network.setBlockedURLs", urls=["*/api/*"])
        hands.press_pixel(5, 5, targets_of(study)[0]["size"])
        hands.until(trouble)
        chromium.call("Network.setBlockedURLs", urls=[])
        hands.until("!document.getElementById('after').hidden")
    assert chromium.run("document.activeElement.id") == "after-title"
    with study.database.snapshot() as connection:
        assert len(list(click_rows(connection, study.plan, study.stimuli))) == 1
    chromium.complaints.clear()


def covered(tab: Any, buttons: str) -> list[str]:
    """Names of visible buttons that are covered at one of 81 points."""
    return list(
        tab.run(f"""(() => [...document.querySelectorAll('{buttons}')].filter((button) => {{
            if (!button.offsetParent) return false;
            const box = button.getBoundingClientRect();
            for (let i = 1; i < 10; i += 1) for (let j = 1; j < 10; j += 1) {{
                const x = box.left + box.width * i / 10, y = box.top + box.height * j / 10;
                if (document.elementFromPoint(x, y) !== button) return true;
            }}
            return false;
        }}).map((button) => button.textContent || button.id))()""")
    )


def test_score_buttons_are_never_covered_and_the_scale_is_visible(
    begin: Callable[..., RunningStudy], listening: Callable[[Any], Any], chromium: Any
) -> None:
    study = begin(RATE)
    with listening(study_app(study)) as address:
        for width, height in ((1280, 860), (412, 915), (390, 844), (844, 390)):
            hands = Hands(chromium, touch=width < 1000)
            hands.size(width, height, 1.0, 1.0)
            hands.enter(f"{address}/", "mobile" if hands.touch else "pc")
            hands.start()
            hands.until("!document.querySelector('[data-score]').disabled")
            for scroll in (0, 200, 100_000):
                chromium.run(f"(scrollTo(0, {scroll}), 1)")
                assert covered(chromium, "[data-score]") == [], (width, height)
            seen = "[...document.querySelectorAll('#ends, .scale')].some((e) => e.offsetHeight > 0)"
            assert chromium.run(seen), (width, height)
            assert chromium.run("document.documentElement.scrollWidth <= innerWidth")
    chromium.complaints.clear()


def test_the_canvas_fits_its_place_when_the_line_above_it_wraps(
    begin: Callable[..., RunningStudy], listening: Callable[[Any], Any], chromium: Any
) -> None:
    """A German phone: after the first tap the question takes two lines."""
    study = begin(INTERACT.replace("coffee", "rocket"))
    hands = Hands(chromium, touch=True)
    place = """(() => {
        const a = document.getElementById('canvas').getBoundingClientRect();
        const b = document.getElementById('place').getBoundingClientRect();
        return a.top >= b.top - 1 && a.bottom <= b.bottom + 1 && a.right <= innerWidth + 1;
    })()"""
    with listening(study_app(study)) as address:
        hands.size(320, 568, 1.0, 1.0)
        hands.enter(f"{address}/?language=de", "mobile")
        hands.start()
        hands.until("document.getElementById('place').classList.contains('open')")
        assert "Tippen" in chromium.run("document.getElementById('ask').textContent")
        before = chromium.run("document.querySelector('#stage header').offsetHeight")
        size = targets_of(study)[0]["size"]
        hands.press_pixel(size[0] // 2, size[1] // 2, size)
        hands.until("!document.getElementById('done').disabled")
        hands.until("document.getElementById('ask').className === 'now'")
        assert chromium.run("document.querySelector('#stage header').offsetHeight") > before
        hands.until(place)
        assert chromium.run("document.documentElement.scrollWidth <= innerWidth")
    chromium.complaints.clear()


def test_clicks_can_be_undone_and_made_while_zoomed_in(
    begin: Callable[..., RunningStudy], listening: Callable[[Any], Any], chromium: Any
) -> None:
    study = begin(INTERACT)
    hands = Hands(chromium)
    chromium.complaints.clear()
    ready = "document.getElementById('ask').className === 'now'"
    with listening(study_app(study)) as address:
        hands.size(1280, 860, 1.0, 1.0)
        hands.enter(f"{address}/", "pc")
        hands.start()
        hands.until(f"document.getElementById('place').classList.contains('open') && {ready}")
        size = targets_of(study)[0]["size"]
        hands.press_pixel(100, 120, size)
        hands.until(f"!document.getElementById('undo').disabled && {ready}")
        chromium.run("document.getElementById('undo').click()")
        hands.until(f"document.getElementById('undo').disabled && {ready}")
        chromium.run("(document.getElementById('outline').click(), 1)")
        box = chromium.run(
            "(() => { const b = document.getElementById('canvas').getBoundingClientRect();"
            " return [b.left, b.top, b.width, b.height]; })()"
        )
        # Twice as large around the left upper corner: a quarter of the place is an eighth.
        wheel = {"x": box[0] + 1, "y": box[1] + 1, "deltaX": 0, "deltaY": -300 * 0.6931471805599453}
        chromium.call("Input.dispatchMouseEvent", type="mouseWheel", **wheel)
        hands.press(box[0] + box[2] / 4, box[1] + box[3] / 4)
        hands.until(f"!document.getElementById('done').disabled && {ready}")
        chromium.run("document.getElementById('done').click()")
        hands.until("!document.getElementById('after').hidden")
    with study.database.snapshot() as connection:
        (found,) = interactions(connection, study.plan)
        steps = list(step_rows(connection, study.plan))
    (step,) = found.steps
    assert step["zoom"] == pytest.approx(2.0, abs=0.01)
    assert step["point"] == pytest.approx([size[1] / 8, size[0] / 8], abs=2)
    assert [row["undone"] for row in steps] == [True, False]
    assert chromium.complaints == []


@pytest.mark.parametrize(("width", "height"), [(1280, 860), (412, 915)])
def test_a_volume_is_segmented_slice_by_slice(
    begin: Callable[..., RunningStudy],
    listening: Callable[[Any], Any],
    chromium: Any,
    width: int,
    height: int,
) -> None:
    """The wheel or the slider changes the slice; the click is the voxel that was clicked."""
    text = INTERACT.replace('scenes = ["coffee"]', 'dataset = "mini-volumes"')
    study = begin(text)
    hands = Hands(chromium, touch=width < 1000)
    chromium.complaints.clear()
    ready = "document.getElementById('ask').className === 'now'"
    with listening(study_app(study)) as address:
        hands.size(width, height, 1.0, 1.0)
        hands.enter(f"{address}/", "mobile" if hands.touch else "pc")
        hands.start()
        hands.until(f"document.getElementById('place').classList.contains('open') && {ready}")
        hands.until("document.querySelector('.slices')?.dataset.ready === 'yes'")
        first = int(chromium.run("document.querySelector('.slices').dataset.slice"))
        shown = study.stimuli.shown(targets_of(study)[0]["scene"])
        assert first == shown.slices[targets_of(study)[0]["target"]]
        window = "document.querySelector('.slices').dataset.window"
        before = chromium.run(window)
        slide = (
            "(() => {{ const s = document.querySelector('[{}]'); s.value = Number(s.value) {};"
            " s.dispatchEvent(new Event('input')); return 1; }})()"
        )
        chromium.run(slide.format("data-width", "/ 2"))
        assert chromium.run(window) != before
        place = (
            "(() => { const c = document.querySelector('.live canvas');"
            " const b = c.getBoundingClientRect();"
            " const s = Math.min(b.width / c.width, b.height / c.height);"
            " return [b.left + b.width / 2, b.top + b.height / 2, s * c.width, s * c.height]; })()"
        )
        x, y, across, down = chromium.run(place)
        if hands.touch:
            chromium.run(slide.format("data-at", "+ 1"))
        else:
            wheel = {"x": x, "y": y, "deltaX": 0, "deltaY": -100}
            chromium.call("Input.dispatchMouseEvent", type="mouseWheel", **wheel)
            chromium.run("document.getElementById('zoom-in').click()")
            x, y, across, down = chromium.run(place)
        hands.until(f"document.querySelector('.slices').dataset.slice === '{first + 1}'")
        rows, columns = shown.size
        spot = columns // 3 + 0.5, rows // 4 + 0.5
        press = (x + (spot[0] / columns - 0.5) * across, y + (spot[1] / rows - 0.5) * down)
        hands.press(*press)
        hands.until(f"!document.getElementById('done').disabled && {ready}")
        assert chromium.run("document.documentElement.scrollWidth <= innerWidth")
        assert covered(chromium, "#tools button:enabled, .slices button, .slices input") == []
        chromium.run("document.getElementById('done').click()")
        hands.until("!document.getElementById('after').hidden")
    with study.database.snapshot() as connection:
        (found,) = interactions(connection, study.plan)
        (row,) = step_rows(connection, study.plan)
    (step,) = found.steps
    point = [first + 1, rows - 1 - rows // 4, columns - 1 - columns // 3]
    assert step["point"] == point
    assert step["zoom"] == (1.0 if hands.touch else 1.5)
    assert [row["z"], row["y"], row["x"]] == point
    assert 0 <= row["iou"] <= row["dice"] <= 1
    assert row["user_ms"] > 0
    assert chromium.complaints == []


SCALES = """
[[questions]]
name = "effort"
text = "How hard was it?"
kind = "scale"
steps = 21
low = "very low"
high = "very high"
[[questions]]
name = "skill"
text = "How skilled are you?"
kind = "likert"
"""


@pytest.mark.parametrize(("width", "height"), [(1280, 860), (412, 915), (390, 844)])
def test_every_step_of_a_scale_can_be_touched(
    begin: Callable[..., RunningStudy],
    listening: Callable[[Any], Any],
    chromium: Any,
    width: int,
    height: int,
) -> None:
    """On phones no button of the 21 steps of NASA-TLX is smaller than 40 px."""
    study = begin(f"{COMBINED}{SCALES}")
    hands = Hands(chromium, touch=width < 1000)
    with listening(study_app(study)) as address:
        hands.size(width, height, 1.0, 1.0)
        hands.go(f"{address}/")
        hands.until("document.querySelector('[name=agreed]') !== null")
        chromium.run("document.querySelector('[name=agreed]').click()")
        chromium.run("document.querySelector('form.consent').requestSubmit()")
        hands.until("document.querySelector('.questions') && document.readyState === 'complete'")
        boxes = chromium.run(
            "[...document.querySelectorAll('.likert label')].map(label => {"
            " const b = label.getBoundingClientRect();"
            " return [b.width, b.height, b.left + b.width / 2, b.top + b.height / 2]; })"
        )
        assert len(boxes) == 21 + 7
        assert min(down for _, down, _, _ in boxes) >= 40
        assert min(across for across, *_ in boxes) >= (40 if hands.touch else 24)
        assert chromium.run("document.documentElement.scrollWidth <= innerWidth")
        assert covered(chromium, ".likert input") == []
        hands.press(*boxes[20][2:])
        hands.until("document.querySelectorAll('[name=effort]')[20].checked")
        ends = chromium.run("document.querySelector('.ends').innerText")
        assert ends.split("\n") == ["1 very low", "21 very high"]


def test_while_all_places_are_taken_the_page_says_so_and_retries(
    begin: Callable[..., RunningStudy],
    listening: Callable[[Any], Any],
    chromium: Any,
    visit: Any,
) -> None:
    study = begin(COMBINED)
    while (batch := (holder := visit(study).join()).batch()) is not None:
        holder.answer(batch["trials"][0])  # at work, so that its places are taken for everybody
    assert holder.post("/api/offer").json() == {"state": "full"}
    hands = Hands(chromium)
    with listening(study_app(study)) as address:
        hands.size(1280, 860, 1.0, 1.0)
        hands.go(f"{address}/")
        hands.until("document.querySelector('[name=agreed]') !== null")
        chromium.run("document.querySelector('[name=agreed]').click()")
        chromium.run("document.querySelector('form.consent').requestSubmit()")
        hands.until("document.querySelector('.choice.suggested') !== null")
        chromium.run("document.querySelector('[data-device=pc]').click()")
        hands.until("document.getElementById('after') && !document.getElementById('after').hidden")
        title = chromium.run("document.getElementById('after-title').textContent")
        assert title == "No free place at the moment"
        assert chromium.run("document.getElementById('end').hidden")
    chromium.complaints.clear()
