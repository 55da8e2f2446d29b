"""What annotating costs: the sheet for a boss, waiting, groups, and the table of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import segmeter
from segmeter.analysis.costs import Way, cost_section, machines
from segmeter.core.benchmarks import Group
from segmeter.core.sections import Answer, Table
from segmeter.stats.intervals import Floats, Interval
from segmeter.stats.statistics import Statistic

IDLE: Any = SimpleNamespace(provenance={})
Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("costs") / "run"
    segmeter.evaluate(["synthetic-oracle", "disc"], "mini", out=out, rounds=3, limit=4,
                      until="85", protocols="corrected")  # fmt: skip
    return out


def way(name: str, seconds: float, waiting: float, images: int = 8, few: bool = False) -> Way:
    scenes = tuple(f"s{k}" for k in range(images))
    group = Group(name, "made", "", "corrected", tuple((s, "a") for s in scenes), scenes)
    spread = np.linspace(-0.5, 0.5, images)
    work, waited = seconds + spread, np.full(images, waiting)
    reach = np.nan if few else 0.5

    def interval(group: Group, values: Floats) -> Interval:
        mean = float(values.mean())
        return Interval(mean, mean - reach, mean + reach)

    card = Statistic("seconds", "seconds", interval=interval)
    return Way(name, group, card, work, waited, np.full(images, 80.0))


def test_waiting_decides_the_order_money_and_savings() -> None:
    ways = [way("slow", 20.0, 30.0), way("quick", 40.0, 5.0)]
    section = cost_section(IDLE, {"made": ways}, 3600, 10.0, "Goal: 85 %.")
    answer, table, _ = section.blocks
    assert isinstance(answer, Answer)
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["quick", "slow", "all by hand"]
    heads = [column.title for column in table.columns]
    quick = dict(zip(heads, table.rows[0], strict=True))
    assert (quick["time"].value, quick["waiting"].value) == (40.0, 5.0)  # type: ignore[union-attr]
    assert quick["with waiting"].value == 45.0  # type: ignore[union-attr]
    assert quick["money"].value == 450.0  # type: ignore[union-attr]
    saved: Any = quick["saved"]
    assert saved.value == pytest.approx(100 * 35 / 80)
    assert saved.low < saved.value < saved.high
    assert answer.text.startswith("**quick** takes the least time, 45.0 (44.5 to 45.5) hours")
    assert "**slow**, takes 5.0" in answer.text
    without = "without waiting, **slow** takes the least time, 20.0 instead of 40.0 hours"
    assert without in answer.text


def test_conclusions_about_several_ways_are_corrected_for_their_number() -> None:
    """Six images have p = 0.031 at least: enough for one way, not for two."""
    ways = [way("one", 20.0, 3.0, images=6), way("two", 40.0, 5.0, images=6)]
    for found, conclusion in ((ways[:1], "cheaper than by hand"), (ways, "no significant")):
        table = cost_section(IDLE, {"made": found}, 100, None, "").blocks[1]
        assert isinstance(table, Table)
        assert all(str(row[-1]).startswith(conclusion) for row in table.rows[:-1])


def test_savings_are_a_ratio_whatever_drawing_by_hand_costs() -> None:
    """The upper limit was 108 %: drawing all by hand varied, and the mean did not follow."""
    draws = np.random.default_rng(0)
    hand = draws.uniform(100, 2000, 8)
    made = way("one", 20.0, 0.0)
    always = replace(made, by_hand=hand, seconds=0.1 * hand)
    saved: Any = always.saved
    assert (saved.value, saved.low, saved.high) == pytest.approx((90, 90, 90))
    some: Any = replace(made, by_hand=hand, seconds=hand * draws.uniform(0.05, 0.2, 8)).saved
    assert 80 <= some.low < some.value < some.high <= 95
    usual: Any = made.saved
    assert usual.value == pytest.approx(75)
    gap: Any = made.less(made.by_hand)[0]
    assert usual.high - usual.low == pytest.approx(100 / 80 * (gap.high - gap.low))


def test_few_images_are_refused_with_the_number_needed() -> None:
    ways = [way("one", 20.0, 3.0, images=4, few=True), way("two", 40.0, 5.0, images=4, few=True)]
    ranked = {"made": "two has fewer clicks"}
    found = cost_section(IDLE, {"made": ways}, 100, None, "", ranked)
    answer, table, _ = found.blocks
    assert isinstance(table, Table)
    assert isinstance(answer, Answer)
    assert "takes 0.6 hours more (not tested: 4 images, 6 needed); two has fewer" in answer.text
    assert "71 % saved" in answer.text, "no interval where the way itself has none"
    assert table.rows[0][-1] == "not tested: 4 images, 6 needed"


def test_a_rate_without_a_number_of_objects_is_refused(run: Path, typed: Typed) -> None:
    for how in ((), ("--json",)):
        code, _, err = typed("report", run, "--hourly-rate", 30, *how)
        assert (code, err) == (
            2,
            "segmeter: --hourly-rate needs --objects, the number of objects\n",
        )


def test_the_sheet_has_goal_assumptions_conclusion_and_groups(
    run: Path, typed: Typed, tmp_path: Path
) -> None:
    page = tmp_path / "sheet.html"
    code, out, err = typed("report", run, "--objects", 5000, "--hourly-rate", 30, "--by", "size",
                           "--sheet", "--out", page)  # fmt: skip
    assert code == 0, err
    text = " ".join(page.read_text().replace("\xa0", " ").split())
    assert "Goal: 85 % IoU." in text
    assert "79 s per object, the time of a polygon in COCO (Lin et al. 2014)" in text
    assert "</strong> takes the least time" in text
    assert "Costs by size: 5000 objects" in text
    assert "Costs by size" in out
    assert "with\nwaiting" in out or "total" in out


def test_a_busy_machine_is_named_where_waiting_is(run: Path) -> None:
    opened = segmeter.open_run(run)
    (entry,) = opened.commands
    assert entry["machine"]["load"] >= 0
    busy = {"processor": "P", "cores": 2, "load": 15.4}
    idle = {"machine": {**busy, "load": 0.5}, "jobs_left": 4}
    commands = [idle, {"machine": busy}]
    loaded: Any = SimpleNamespace(provenance={"commands": commands, "segmenters": {}})
    assert "busy machine (load 15.4 on 2 cores when the run began)" in machines(loaded)
    commands[1]["jobs_left"] = 0  # a command that found all jobs done
    assert "busy" not in machines(loaded)
    busy["load"] = 1.5
    assert "busy" not in machines(loaded)
    assert entry["jobs_left"] == entry["jobs"] == 8


def test_a_winner_by_waiting_on_a_busy_machine_is_in_doubt() -> None:
    ways = [way("slow", 20.0, 30.0), way("quick", 40.0, 5.0)]
    given = ({"made": ways}, 3600, 10.0, "Goal: 85 %.")
    machine = {"machine": {"processor": "P", "cores": 2, "load": 15.4}}
    busy: Any = SimpleNamespace(provenance={"commands": [machine]})
    loaded = cost_section(busy, *given).blocks[0]
    idle = cost_section(IDLE, *given).blocks[0]
    assert isinstance(loaded, Answer)
    assert isinstance(idle, Answer)
    assert "at 10 per hour, it costs 450 (445 to 455) instead of 800" in idle.text
    assert "waiting was measured on a busy machine" in loaded.text
    assert "so measure it on an idle machine" in loaded.text
    assert "busy" not in idle.text
    ways[0] = way("slow", 60.0, 30.0)  # one winner either way
    sure = cost_section(busy, *given).blocks[0]
    assert isinstance(sure, Answer)
    assert "busy" not in sure.text


def test_a_page_with_costs_begins_with_them_and_is_not_replaced_silently(
    run: Path, typed: Typed
) -> None:
    code, out, err = typed("report", run, "--objects", "20 000", "--hourly-rate", "12.50")
    assert code == 0, err
    page = (run / "report.html").read_text()
    assert page.index("What 20 000 objects cost</h2>") < page.index(">Results</h2>")
    assert "at 12.5 per hour, same currency" in page
    assert "at 12.5 per hour, it costs" in " ".join(out.split())
    assert "needs the least annotation time" in out  # the benchmark's own answer as well
    code, out, err = typed("report", run)
    assert code == 0, err
    assert "the page had the costs of 20 000 objects, this one has none" in err
    assert "costs of" not in typed("report", run)[2]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--objects", "20k", "--objects is a number such as 20000 or '20 000', not '20k'"),
        ("--objects", "2,00", "not '2,00'"),
        ("--objects", "0", "not '0'"),
        ("--hourly-rate", "15eur", "--hourly-rate is a number such as 15 or 12.50"),
        ("--hourly-rate", "-1", "not '-1'"),
    ],
)
def test_amounts_are_refused_in_a_sentence(
    run: Path, typed: Typed, option: str, value: str, message: str
) -> None:
    code, _, err = typed("report", run, option, value)
    assert code == 2
    assert message in err


def test_costs_are_offered_only_where_a_report_has_them(typed: Typed, tmp_path: Path) -> None:
    """Runs of videos were told to use --objects, which then was refused."""
    code, told, err = typed("run", "video", "-m", "flow", "-d", "mini-video", "-u", "first-frame",
                            "--workers", 0, "--out", tmp_path / "run")  # fmt: skip
    assert code == 0, err
    assert "next: segmeter report" in told
    assert "--objects" not in told
    assert typed("report", tmp_path / "run", "--objects", 5)[0] == 2


def test_clicks_at_the_cap_are_called_so(typed: Typed, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, told, err = typed("run", "noc", "-m", "disc", "-d", "mini", "--limit", 1,
                            "--rounds", 2, "--workers", 0, "--out", out)  # fmt: skip
    assert code == 0, err
    assert "noc@90 of disc is the cap of 2 rounds: no object reached the goal earlier" in told
    assert "with --objects N --hourly-rate R: hours and money for N objects" in told
    _, told, _ = typed("run", "noc", "-m", "disc", "-m", "synthetic-oracle", "-d", "mini", "-d",
                       "drawn", "--limit", 1, "--rounds", 2, "--workers", 0,
                       "--out", tmp_path / "two")  # fmt: skip
    assert "\nnoc@90 of disc (mini), disc (drawn) is the cap of 2 rounds: no object reached" in told
    code, _, err = typed("report", out)
    assert code == 0, err
    assert "the NoC of disc consists mostly of such objects" in (out / "report.html").read_text()


def test_a_run_until_a_goal_ends_with_clicks_and_seconds_to_it(
    typed: Typed, tmp_path: Path
) -> None:
    """Its table had only IoU after the first click."""
    code, out, err = typed("run", "noc", "-m", "synthetic-oracle", "-d", "drawn", "--limit", 2,
                           "--rounds", 2, "--until", 85, "--workers", 0, "--out",
                           tmp_path / "run")  # fmt: skip
    assert code == 0, err
    assert "noc@85" in out
    assert "seconds-to-85" in out


def test_masks_scored_against_a_coco_folder_are_browsed_and_shown(
    typed: Typed, tmp_path: Path
) -> None:
    from .test_export import coco_folder

    coco_folder(tmp_path / "data")
    truth = tmp_path / "data" / "annotations" / "instances_default.json"
    made = json.loads(truth.read_text())
    made["annotations"] = made["annotations"][:2]  # the second image has no prediction
    results = [{k: a[k] for k in ("image_id", "category_id", "segmentation")} | {"score": 0.5}
               for a in made["annotations"]]  # fmt: skip
    (tmp_path / "results.json").write_text(json.dumps(results))
    for name, place in (("file", truth), ("folder", tmp_path / "data"), ("list", truth.parent)):
        out = tmp_path / name
        code, said, err = typed("score", tmp_path / "results.json", place, "--out", out)
        assert code == 0, err
        assert "touch-up 2.00 vertices, median" in said
        assert "added-path" not in said or "px, median" in said
    page = (tmp_path / "folder" / "report.html").read_text()
    assert "Worst masks" in page
    assert "They cannot be shown" not in page
    assert "as published, but without the known flaws" not in page
    again = segmeter.open_run(tmp_path / "folder")
    assert again.missing_images() == {}
    from segmeter.report.browsing import Sessions

    sessions = Sessions(again)
    many, rows = sessions.found({})
    assert many == 4
    shown = sessions.session({k: rows[-1][k] for k in ("model", "dataset", "scene", "target",
                                                       "user", "protocol")})  # fmt: skip
    assert "Prediction" in shown
    assert "cannot be shown" not in shown
