"""A person goes through the page: mouse, keyboard, phone, paper and the dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from segmeter.report.page import render

pytestmark = pytest.mark.long


@pytest.fixture
def tab(running: Any, specimen: ModuleType, tmp_path: Path) -> Iterator[Any]:
    """The specimen page, freshly opened in a window of ordinary size."""
    file = tmp_path / "report.html"
    file.write_text(render(specimen.page()))
    running.complaints.clear()
    running.resize(1280, 900)
    running.emulate()
    running.open(file)
    yield running
    assert running.complaints == []


def shown_round(tab: Any, key: str) -> int:
    """The round a replay shows, as far as all its parts agree on it."""
    said: list[int] = tab.run(f"""(() => {{
        const replay = document.getElementById('{key}');
        const visible = e => getComputedStyle(e).display !== 'none';
        const frames = [...replay.querySelectorAll('.frame')].filter(visible);
        return [Number(replay.querySelector('input').value),
                ...frames.map(f => Number(f.dataset.round)),
                Number(replay.querySelector('.steps .on').dataset.round),
                Number(replay.querySelector('.beat.on').dataset.round)];
    }})()""")
    assert len(said) == 4, "exactly one frame is visible"
    assert len(set(said)) == 1
    return said[0]


def test_the_hostile_name_is_shown_as_it_is(tab: Any, specimen: ModuleType) -> None:
    assert tab.run("document.querySelector('h1').textContent") == specimen.HOSTILE
    assert tab.run("document.querySelectorAll('b').length") == 0


def test_a_replay_starts_at_its_end_and_steps_with_the_mouse(tab: Any) -> None:
    assert shown_round(tab, "replay-1") == 4
    tab.click("#replay-1 [data-step='-1']")
    assert shown_round(tab, "replay-1") == 3
    tab.click("#replay-1 [data-step='1']")
    tab.click("#replay-1 [data-step='1']")
    assert shown_round(tab, "replay-1") == 4
    tab.click("#replay-1 .steps [data-round='2']")
    assert shown_round(tab, "replay-1") == 2
    tab.click("#replay-1 .beat[data-round='1']")
    assert shown_round(tab, "replay-1") == 1


def test_a_replay_is_operable_by_keyboard_alone(tab: Any) -> None:
    tab.run("document.querySelector('#replay-1 input').focus()")
    tab.press("Home")
    assert shown_round(tab, "replay-1") == 1
    tab.press("ArrowRight")
    assert shown_round(tab, "replay-1") == 2
    tab.run("document.querySelector(\"#replay-1 [data-step='1']\").focus()")
    tab.press("Enter")
    assert shown_round(tab, "replay-1") == 3
    tab.press("End")
    assert shown_round(tab, "replay-1") == 4
    assert tab.run("document.querySelector('#replay-1 .now').textContent").startswith("Round 4 of")


def test_later_clicks_are_not_shown_yet(tab: Any) -> None:
    tab.run("document.querySelector('#replay-1 input').focus()")
    tab.press("Home")
    seen = tab.run("""[...document.querySelectorAll('#replay-1 .prompt')]
        .filter(e => getComputedStyle(e).display !== 'none').map(e => Number(e.dataset.round))""")
    assert seen == [1]


def test_playback_can_be_started_and_paused(tab: Any) -> None:
    state = "document.querySelector('#replay-1 [data-play]').getAttribute('aria-pressed')"
    tab.click("#replay-1 [data-play]")
    assert tab.run(state) == "true"
    assert shown_round(tab, "replay-1") == 1
    tab.click("#replay-1 [data-play]")
    assert tab.run(state) == "false"


def test_a_link_from_a_image_leads_to_its_replay(tab: Any) -> None:
    hidden = "document.getElementById('replay-2').hidden"
    assert tab.run(hidden) is True
    tab.click(".gallery a[href='#replay-2']")
    tab.run("new Promise(done => setTimeout(done, 0))")
    assert tab.run(hidden) is False
    assert tab.run("document.getElementById('replay-1').hidden") is True
    assert tab.run("document.querySelector('.chooser select').value") == "replay-2"
    assert tab.run("document.activeElement.closest('.replay').id") == "replay-2"


def test_a_heading_sorts_its_table_and_turns_the_order(tab: Any) -> None:
    column = """[...document.querySelectorAll('#table-specimen tbody tr')]
        .map(r => r.cells[1].dataset.order)"""
    tab.click("#table-specimen th:nth-child(2) .sort")
    assert tab.run(column) == ["1.5", "2.5", ""]
    tab.click("#table-specimen th:nth-child(2) .sort")
    assert tab.run(column) == ["2.5", "1.5", ""]
    state = "document.querySelector('#table-specimen th:nth-child(2)').ariaSort"
    assert tab.run(state) == "descending"


def test_arrows_walk_along_a_chart(tab: Any) -> None:
    tab.run("document.querySelector('.multiples .probe').focus()")
    tab.press("ArrowRight")
    place = "[...document.activeElement.parentElement.children].indexOf(document.activeElement)"
    assert tab.run(place) == 1
    shown = "getComputedStyle(document.activeElement.querySelector('.readout')).opacity"
    assert tab.run(shown) == "1"


def test_folded_sections_open_on_a_link(tab: Any) -> None:
    assert tab.run("document.querySelector('#trail details').open") is False
    tab.click(".contents a[href='#trail']")
    tab.run("new Promise(done => setTimeout(done, 0))")
    assert tab.run("document.querySelector('#trail details').open") is True


def test_a_phone_shows_all_of_it_without_scrolling_sideways(tab: Any) -> None:
    tab.resize(390, 844, mobile=True)
    assert tab.run("document.documentElement.scrollWidth") == 390
    assert tab.run("getComputedStyle(document.querySelector('.plot .wide')).display") == "none"
    small = tab.run("""[...document.querySelectorAll('.controls button')]
        .filter(b => b.offsetParent && b.getBoundingClientRect().height < 36).length""")
    assert small == 0


def test_a_phone_shows_the_rows_of_a_small_table_as_cards(tab: Any) -> None:
    tab.resize(390, 844, mobile=True)
    display = "getComputedStyle(document.querySelector('#table-specimen {}')).display"
    assert tab.run(display.format("thead")) == "none"
    assert tab.run(display.format("td")) == "grid"
    heads = tab.run("""[...document.querySelectorAll('#table-specimen tr:first-child td')]
        .map(cell => getComputedStyle(cell, '::before').content)""")
    assert heads == ['"seconds, s"', '"share, %"', '"count"']
    wide = tab.run("""document.querySelector('#table-specimen table').scrollWidth""")
    assert wide <= 390
    tab.emulate(media="print")
    assert tab.run(display.format("td")) == "table-cell"


def test_paper_holds_every_table(tab: Any) -> None:
    tab.resize(718, 1000)  # A4 less the margins that browsers leave
    tab.emulate(media="print")
    over = tab.run("""[...document.querySelectorAll('table')]
        .filter(t => t.getBoundingClientRect().right > innerWidth).length""")
    assert over == 0


def test_text_is_readable_in_the_light_and_in_the_dark(tab: Any) -> None:
    for scheme in ("light", "dark"):
        tab.emulate(scheme=scheme)
        ratios = tab.run(CONTRASTS)
        assert min(ratios.values()) >= 4.5, (scheme, ratios)


def test_paper_gets_patterns_and_no_controls(tab: Any) -> None:
    tab.emulate(media="print")
    display = "getComputedStyle(document.querySelector('{}')).display"
    assert tab.run(display.format(".controls")) == "none"
    assert tab.run(display.format(".contents")) == "none"
    assert tab.run("document.querySelectorAll('rect.hatch[fill=\"url(#hatch1)\"]').length") > 0
    dashes = tab.run("""[...document.querySelectorAll('.multiples path.curve')]
        .map(p => p.getAttribute('stroke-dasharray'))""")
    assert len(set(dashes)) == 2


def test_the_page_reads_without_its_script(tab: Any, tmp_path: Path) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.call("Page.navigate", url=(tmp_path / "report.html").as_uri() + "?plain")
        while tab.run("document.readyState") != "complete":
            pass
        assert tab.run("document.documentElement.classList.contains('js')") is False
        assert tab.run("document.querySelectorAll('.replays .replay:not([hidden])').length") == 2
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)


# Contrast of texts against the paper, by the rule of WCAG 2.
CONTRASTS = """(() => {
    const light = colour => {
        const parts = colour.match(/[0-9.]+/g).slice(0, 3).map(Number).map(v => v / 255)
            .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const paper = light(getComputedStyle(document.body).backgroundColor);
    const ratio = colour => {
        const own = light(colour);
        return (Math.max(own, paper) + 0.05) / (Math.min(own, paper) + 0.05);
    };
    const wanted = {body: ['body', 'color'], soft: ['.subtitle', 'color'], unit: ['.ci', 'color'],
        axis: ['.chart .tick', 'fill'], link: ['main a', 'color'], strip: ['.strip text', 'fill']};
    const found = Object.entries(wanted).map(([name, [selector, property]]) =>
        [name, ratio(getComputedStyle(document.querySelector(selector))[property])]);
    for (const k of [0, 1, 2, 3, 4, 5]) {
        const probe = document.createElement('i');
        probe.style.color = `var(--c${k})`;
        document.body.append(probe);
        found.push([`colour ${k}`, ratio(getComputedStyle(probe).color)]);
        probe.remove();
    }
    return Object.fromEntries(found);
})()"""


def slices_state(tab: Any, key: str = "slices-1") -> tuple[str, int, int]:
    """Plane, slice and step that a volume shows, once its voxels are there."""
    tab.run(f"""new Promise(done => {{
        const {{ dataset }} = document.getElementById('{key}');
        const wait = () => dataset.ready ? done() : setTimeout(wait, 5);
        wait();
    }})""")
    plane, at, step = tab.run(f"""(() => {{
        const {{ plane, slice, now }} = document.getElementById('{key}').dataset;
        return [plane, Number(slice), Number(now)];
    }})()""")
    return plane, at, step


def on_canvas(tab: Any, event: str) -> None:
    tab.run(f"document.querySelector('#slices-1 canvas').dispatchEvent({event}); 0")


def test_a_volume_opens_at_the_slice_with_most_ground_truth(tab: Any) -> None:
    assert slices_state(tab) == ("Axial", 8, 2)
    assert slices_state(tab, "slices-2") == ("Axial", 8, 2)
    said = tab.run("document.querySelector('#slices-1 .where').textContent")
    assert said == "Axial slice, k = 7 in the file, I 14.0 mm (9 of 16 shown)"


PIXEL = """new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {{
    const canvas = document.querySelector('#slices-1 canvas');
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const pen = copy.getContext('2d', {{ willReadFrequently: true }});
    pen.drawImage(canvas, 0, 0);
    done([...pen.getImageData({x} * canvas.width, {y} * canvas.height, 1, 1).data.slice(0, 3)]);
}})))"""


def test_window_and_level_change_what_is_bright(tab: Any) -> None:
    slices_state(tab)
    window = "document.getElementById('slices-1').dataset.window"
    before = tab.run(PIXEL.format(x=0.05, y=0.95))[0]
    assert tab.run(window) == "-160 240"
    tab.run(
        "(() => { const chosen = document.querySelector('#slices-1 [data-preset]');"
        " chosen.value = '-1350,150'; chosen.dispatchEvent(new Event('change')); })(); 0"
    )
    assert tab.run(window) == "-1350 150"
    assert tab.run(PIXEL.format(x=0.05, y=0.95))[0] > before + 40
    tab.run(
        "(() => { const level = document.querySelector('#slices-1 [data-level]');"
        " level.value = '1400'; level.dispatchEvent(new Event('input')); })(); 0"
    )
    assert tab.run(window).startswith("64")
    tab.run("HTMLCanvasElement.prototype.setPointerCapture = () => 0; 0")
    on_canvas(tab, "new PointerEvent('pointerdown', {clientX: 0, clientY: 0, shiftKey: true})")
    on_canvas(tab, "new PointerEvent('pointermove', {clientX: 300, clientY: 0, shiftKey: true})")
    on_canvas(tab, "new PointerEvent('pointerup', {})")
    low, high = map(float, tab.run(window).split())
    assert high - low == pytest.approx(3000, rel=0.01)
    assert slices_state(tab)[1] == 8  # the slice stays


def test_ground_truth_mask_and_prompts_are_switched_off_and_on(tab: Any) -> None:
    slices_state(tab)
    middle = PIXEL.format(x=0.41, y=0.54)  # inside mask and ground truth, off every outline
    red, _, blue = tab.run(middle)
    assert blue > red + 20
    tab.click("#slices-1 [data-layer='mask']")
    red, _, blue = tab.run(middle)
    assert blue == red
    for layer, key in (("ground_truth", "g"), ("mask", "m"), ("prompts", "p")):
        box = f"document.querySelector(\"#slices-1 [data-layer='{layer}']\").checked"
        shown = tab.run(box)
        on_canvas(tab, f"new KeyboardEvent('keydown', {{key: '{key}'}})")
        assert tab.run(box) is not shown


def test_the_pointer_names_the_file_s_voxel_its_place_and_its_value(tab: Any) -> None:
    slices_state(tab)
    tab.run("""(() => {
        const canvas = document.querySelector('#slices-1 canvas');
        const box = canvas.getBoundingClientRect();
        const event = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 };
        canvas.dispatchEvent(new PointerEvent('pointermove', event));
    })(); 0""")
    said = tab.run("document.querySelector('#slices-1 .spot').textContent")
    # z 8, y 19, x 24 of the scene: code 32 + 38 + 48 = 118
    assert said.startswith("i = 24, j = 19, k = 7; R 4.0, A 24.0, I 14.0 mm; about ")
    value, unit = said.rpartition("about ")[2].split()
    assert unit == "HU"
    assert float(value) == pytest.approx(15, abs=15)
    on_canvas(tab, "new WheelEvent('wheel', {deltaY: -5, cancelable: true})")
    moved = tab.run("document.querySelector('#slices-1 .spot').textContent")
    assert moved.startswith("i = 24, j = 19, k = 6; R 4.0, A 24.0, I 12.0 mm"), "the slice shown"
    on_canvas(tab, "new PointerEvent('pointerenter')")
    assert tab.run("document.activeElement === document.querySelector('#slices-1 canvas')")


def test_wheel_keys_and_fingers_go_through_the_slices(tab: Any) -> None:
    slices_state(tab)
    on_canvas(tab, "new WheelEvent('wheel', {deltaY: -5, cancelable: true})")
    assert slices_state(tab)[1] == 9
    on_canvas(tab, "new KeyboardEvent('keydown', {key: 'ArrowDown'})")
    on_canvas(tab, "new KeyboardEvent('keydown', {key: 'ArrowDown'})")
    assert slices_state(tab)[1] == 7
    on_canvas(tab, "new KeyboardEvent('keydown', {key: 'Home'})")
    assert slices_state(tab)[1] == 0
    tab.run("HTMLCanvasElement.prototype.setPointerCapture = () => 0; 0")
    on_canvas(tab, "new PointerEvent('pointerdown', {clientY: 100})")
    on_canvas(tab, "new PointerEvent('pointermove', {clientY: 70})")
    on_canvas(tab, "new PointerEvent('pointerup', {clientY: 70})")
    on_canvas(tab, "new PointerEvent('pointermove', {clientY: 10})")
    assert slices_state(tab)[1] == 5
    tab.click("#slices-1 [data-slice='1']")
    assert slices_state(tab)[1] == 6


def test_planes_and_steps_are_chosen_by_mouse_or_key(tab: Any) -> None:
    slices_state(tab)
    tab.click("#slices-1 [data-plane='1']")
    assert slices_state(tab)[:2] == ("Coronal", 20)
    on_canvas(tab, "new KeyboardEvent('keydown', {key: '3'})")
    assert slices_state(tab)[:2] == ("Sagittal", 30)
    on_canvas(tab, "new KeyboardEvent('keydown', {key: 'ArrowLeft'})")
    assert slices_state(tab)[2] == 1
    tab.click("#slices-1 .steps [data-round='2']")
    assert slices_state(tab)[2] == 2


def test_slices_are_cut_the_way_radiologists_view_them(tab: Any) -> None:
    """Voxels are brighter to the head, the front and the patient's right."""
    slices_state(tab)
    corners = """new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
        const canvas = document.querySelector('#slices-1 canvas'), {width: w, height: h} = canvas;
        const copy = new OffscreenCanvas(w, h);
        const pen = copy.getContext('2d', { willReadFrequently: true });
        pen.drawImage(canvas, 0, 0);
        const { data } = pen.getImageData(0, 0, w, h);
        const grey = (x, y) => data[4 * (y * w + x)];
        done([grey(3, 3), grey(w - 4, 3), grey(3, h - 4), w / h]);
    })))"""
    bright, left, down, ratio = tab.run(corners)
    assert bright > left + 40  # across: the patient's right is on the left
    assert bright > down + 40  # down: the front is up
    assert ratio == pytest.approx(50 / 40, rel=0.02)
    tab.click("#slices-1 [data-plane='1']")
    bright, left, down, ratio = tab.run(corners)
    assert bright > left + 40
    assert bright > down + 30  # the head is up
    assert ratio == pytest.approx(50 / 32, rel=0.02)  # slices are 2 mm apart


def test_paper_shows_a_still_of_a_volume(tab: Any) -> None:
    tab.emulate(media="print")
    shown = "getComputedStyle(document.querySelector('#slices-1 {}')).display"
    assert tab.run(shown.format(".still")) == "block"
    assert tab.run(shown.format(".live")) == "none"
