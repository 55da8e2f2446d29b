"""What people reach for: own measures, goals, early stop, dry runs, adding, checking data."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import segmeter
from segmeter.core.catalogue import Spec
from segmeter.core.errors import RunConflict
from segmeter.core.plans import Plan
from segmeter.engine import run_plan, runner
from segmeter.engine.validation import wider_plan
from segmeter.store import Run

from .conftest import Typed


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(out: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(r["model"], r["protocol"], r["statistic"]): r for r in json.loads(out)["rows"]}


def test_a_measure_is_added_reported_compared_and_may_be_the_goal(typed: Typed, here: Path) -> None:
    code, _, err = typed("run", "noc", "-m", "synthetic-noisy", "-m", "disc", "-d", "drawn",
                         "--limit", 4, "--rounds", 3, "--measure", "dice",
                         "--workers", 0)  # fmt: skip
    assert code == 0
    assert "run folder: runs/noc-1" in err
    run = Run.open("runs/noc-1")
    assert run.plan.measures == ("iou", "boundary-iou", "redrawn-path", "dice")
    assert typed("score", "runs/noc-1", "--measure", "precision")[0] == 0
    told = rows(typed("report", "runs/noc-1", "--json")[1])
    (mean,) = run.sql("""select 100 * avg(dice) as dice, 100 * avg(precision) as precision
        from rows where model = 'synthetic-noisy' and protocol = 'corrected'
        and round = 1""").to_pylist()
    assert told["synthetic-noisy", "corrected", "dice@1"]["value"] == pytest.approx(mean["dice"])
    assert told["synthetic-noisy", "corrected", "precision@1"]["value"] == pytest.approx(
        mean["precision"]
    )
    compared = json.loads(typed("compare", "runs/noc-1", "--json")[1])["rows"]
    assert {"dice-auc", "precision-auc"} <= {r["statistic"] for r in compared}
    aimed = rows(typed("report", "runs/noc-1", "--json", "--goal", "dice>=0.7")[1])
    first = run.sql("""select avg(coalesce(f, 3)) as noc from (select min(case when dice >= 0.7
        then round end) as f from rows where model = 'disc' and protocol = 'corrected'
        group by scene, target)""").to_pylist()[0]["noc"]
    assert aimed["disc", "corrected", "noc@dice>=0.7"]["value"] == pytest.approx(first)
    assert typed("report", "runs/noc-1", "--goal", "dice>=0.7")[0] == 0
    assert "dice AuC" in Path("runs/noc-1/report.html").read_text()


@pytest.mark.parametrize("goal", ["dice", "200", "nothing>=0.5", "iou>=nan"])
def test_a_goal_that_makes_no_sense_gets_one_sentence(typed: Typed, here: Path, goal: str) -> None:
    typed(
        "run",
        "noc",
        "-m",
        "synthetic-oracle",
        "-d",
        "drawn",
        "--limit",
        1,
        "--rounds",
        1,
        "--workers",
        0,
    )
    code, _, err = typed("report", "runs/noc-1", "--goal", goal)
    assert code == 2
    assert len(err.strip().splitlines()) == 1


def test_sessions_end_at_the_goal_and_count_as_if_they_had_not(typed: Typed, here: Path) -> None:
    common = ("run", "noc", "-m", "synthetic-noisy", "-d", "drawn", "--limit", 4, "--rounds", 6,
              "--workers", 0, "--json")  # fmt: skip
    whole = rows(typed(*common, "--out", "whole")[1])
    early = rows(typed(*common, "--out", "early", "--until", "90")[1])
    for measure in ("noc@80", "noc@90", "nof@90", "never@90", "seconds-to-90"):
        for protocol in ("published", "corrected"):
            key = ("synthetic-noisy", protocol, measure)
            assert early[key]["value"] == pytest.approx(whole[key]["value"]), key
    assert (
        "synthetic-noisy",
        "corrected",
        "auc",
    ) not in early  # an area over rounds that nobody played
    played, all_rounds = (
        Run.open(n).sql("select * from rows").num_rows for n in ("early", "whole")
    )
    assert played < all_rounds
    assert typed("report", "early")[0] == 0


def test_an_estimate_runs_two_scenes_of_each_and_prints_the_cost(typed: Typed, here: Path) -> None:
    words = (
        "run",
        "noc",
        "-m",
        "disc",
        "-m",
        "synthetic-oracle",
        "-d",
        "drawn",
        "--rounds",
        2,
        "--limit",
        5,
    )
    code, out, _ = typed(*words, "--dry-run", "--workers", 2)
    assert code == 0
    assert "disc on drawn: 5 scenes; run here on cpu in " in out
    assert "10 jobs, " in out
    assert "with 2 workers like this machine" in out
    assert not list(here.iterdir())
    code, out, _ = typed(*words, "--dry-run", "--json", "--executor", "ray")
    told = json.loads(out)
    cost, rows = told["cost"], told["rows"]
    assert (cost["jobs"], cost["workers"]) == (10, 1)
    assert all(len(row["later"]) == 1 for row in rows)
    assert cost["predictions"] == round(sum(row["scenes"] * row["rows"] for row in rows))
    assert cost["bytes"] > 0
    loading = sum(row["loading"] for row in rows)
    spent = sum(row["scenes"] * row["each"] for row in rows)
    assert cost["seconds"] == pytest.approx(loading + spent)


def test_a_model_is_added_to_a_run_and_the_rest_is_kept(typed: Typed, here: Path) -> None:
    common = ("run", "noc", "-d", "drawn", "--limit", 2, "--rounds", 2, "--workers", 0)
    typed(*common, "-m", "synthetic-oracle", "--out", "r")
    before = Run.open("r").sql("select * from rows order by all").to_pylist()
    code, _, err = typed(*common, "-m", "synthetic-noisy", "--out", "r", "--add")
    assert code == 0, err
    after = Run.open("r")
    assert [s.name for s in after.plan.segmenters] == ["synthetic-oracle", "synthetic-noisy"]
    kept = after.sql("select * from rows where model = 'synthetic-oracle' order by all").to_pylist()
    assert kept == before
    code, _, err = typed("run", "noc", "-d", "drawn", "--limit", 2, "--rounds", 5, "-m", "disc",
                         "--out", "r", "--add")  # fmt: skip
    assert code == 2
    assert "run with rounds 2, not 5" in err


@pytest.fixture
def own_weights(here: Path) -> str:
    """A checkpoint file of the user's own, here of RITM's smallest network."""
    torch = pytest.importorskip("torch", reason="needs the extra 'models'")
    from segmeter.models.clicknets._networks import RitmNetwork
    from segmeter.models.clicknets.containers import RITM

    torch.save(RitmNetwork(RITM["ritm-h18s"]).state_dict(), here / "mine.pth")
    return "mine.pth"


def test_a_model_is_added_to_a_run_with_own_weights_without_trust(
    own_weights: str, typed: Typed, here: Path
) -> None:
    common = ("run", "noc", "--workers", 0, "-o", "r")
    first = (*common, "-m", own_weights, "-d", "drawn", "--limit", 1, "--rounds", 1)
    assert typed(*first)[0] == 0
    code, _, err = typed(*common, "-m", "disc", "--add")
    assert code == 0, err
    assert len(Run.open("r").sql("select distinct model from rows")) == 2


def test_a_refused_addition_leaves_the_run_as_it_was(
    own_weights: str, typed: Typed, here: Path
) -> None:
    common = ("run", "noc", "--workers", 0, "-o", "r")
    first = (*common, "-m", own_weights, "-d", "drawn", "--limit", 1, "--rounds", 1)
    assert typed(*first)[0] == 0
    before = {path: path.read_bytes() for path in Path("r").rglob("*") if path.is_file()}
    for more, sentence in (
        (("-m", "disc", "-d", "mini"), f"name it in this command too (--model {own_weights})"),
        (("-u", "random-click"), f"name it in this command too (--model {own_weights})"),
        (
            ("-m", "disc", "--executor", "inline", "--ray-address", "auto"),
            "leave --ray-address out",
        ),
    ):
        code, _, err = typed(*common, *more, "--add")
        assert code == 2
        assert sentence in " ".join(err.split())
        after = {path: path.read_bytes() for path in Path("r").rglob("*") if path.is_file()}
        assert after == before
    assert typed(*first)[0] == 0


def test_a_model_for_a_run_of_another_is_pointed_to_add(typed: Typed, here: Path) -> None:
    common = ("run", "noc", "-d", "drawn", "--limit", 1, "--rounds", 1, "--workers", 0, "-o", "r")
    assert typed(*common, "-m", "disc")[0] == 0
    code, _, err = typed(*common, "-m", "synthetic-noisy")
    assert code == 2
    assert "'r' holds a run with models or methods 'disc' (not 'synthetic-noisy'); --add " in err
    assert "--add adds 'synthetic-noisy' to it, or choose another --out" in err
    assert typed(*common, "-m", "synthetic-noisy", "--add")[0] == 0
    fewer = typed(*common, "-m", "disc")[2]
    assert (
        "models or methods 'disc', 'synthetic-noisy' (not 'disc'); it already has all of them"
        in fewer
    )
    assert "'segmeter report' shows it" in fewer


def test_runs_of_other_limits_are_read_together_on_other_data_only(
    typed: Typed, here: Path
) -> None:
    common = ("run", "noc", "-m", "disc", "--rounds", 1, "--workers", 0)
    for out, data, limit in (("a", "drawn", 1), ("b", "mini", 2), ("c", "drawn", 2)):
        assert typed(*common, "-d", data, "--limit", limit, "-o", out)[0] == 0
    code, out, err = typed("table", "a", "b", "--format", "md")
    assert code == 0, err
    assert "drawn" in out
    assert "mini" in out
    assert Run.open(["a", "b"]).scenes("mini") == Run.open("b").scenes("mini")
    assert len(Run.open(["a", "b"]).scenes("mini")) == 2
    code, _, err = typed("table", "a", "b", "c")
    assert code == 2
    assert "runs of different limits on 'drawn' (1 and 2) cannot be compared" in err


def test_models_that_are_added_at_once_are_both_kept(
    typed: Typed, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slower of two commands read the plan before the quicker one had widened it."""
    plan = Plan("noc", (Spec("synthetic-oracle"),), (Spec("drawn"),), rounds=2, limit=2)
    run_plan(plan, "r", workers=0)
    refused = []

    def quicker(*given: Any, **options: Any) -> Any:
        monkeypatch.setattr(runner, "wider_plan", wider_plan)
        widened = wider_plan(*given, **options)
        try:
            run_plan(replace(plan, segmenters=(Spec("disc"),)), "r", workers=0, add=True)
        except RunConflict as error:
            refused.append(str(error))
        return widened

    monkeypatch.setattr(runner, "wider_plan", quicker)
    run_plan(replace(plan, segmenters=(Spec("synthetic-noisy"),)), "r", workers=0, add=True)
    assert "another command is writing to 'r'; wait for it" in refused[0]
    run_plan(replace(plan, segmenters=(Spec("disc"),)), "r", workers=0, add=True)
    assert [s.name for s in Run.open("r").plan.segmenters] == [
        "synthetic-oracle",
        "synthetic-noisy",
        "disc",
    ]
    assert len(Run.open("r").sql("select distinct model from rows")) == 3


def test_additions_are_measured_as_the_run_was(typed: Typed, here: Path) -> None:
    common = ("run", "noc", "--workers", 0, "--out", "r")
    typed(*common, "-m", "synthetic-oracle", "-d", "drawn", "--limit", 1, "--rounds", 2,
          "--measure", "dice", "--until", 90)  # fmt: skip
    code, _, err = typed(*common, "-m", "disc", "--add")
    assert code == 0, err
    rows = Run.open("r").sql("select model, dice from rows order by model").to_pylist()
    assert {row["model"] for row in rows} == {"disc", "synthetic-oracle"}
    assert all(0 < row["dice"] <= 1 for row in rows)


def test_a_model_is_added_with_the_seed_threads_and_datasets_of_the_run(
    typed: Typed, here: Path
) -> None:
    code, _, err = typed("run", "noc", "-m", "disc", "-d", "drawn", "--limit", 1, "--rounds", 1,
                         "--seed", 5, "--threads", 2, "--workers", 0, "--out", "r")  # fmt: skip
    assert code == 0, err
    code, _, err = typed("run", "noc", "-m", "synthetic-oracle", "--add", "-o", "r",
                         "--workers", 0)  # fmt: skip
    assert code == 0, err
    plan = segmeter.evaluate("synthetic-noisy", out="r", add=True).plan
    assert (plan.seed, plan.threads, len(plan.segmenters)) == (5, 2, 3)
    assert plan.datasets == (Spec("drawn"),)


def test_the_estimate_is_of_as_many_threads_as_the_run(
    typed: Typed, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed: list[int] = []
    monkeypatch.setattr("segmeter.engine.estimates.fix_arithmetic", fixed.append)
    code, _, err = typed("run", "noc", "-m", "disc", "-d", "drawn", "--dry-run", "--threads", 3)
    assert (code, fixed) == (0, [3]), err


def test_the_same_command_resumes_and_another_takes_the_next_number(
    typed: Typed, here: Path
) -> None:
    common = ("run", "noc", "-d", "drawn", "--limit", 1, "--rounds", 1, "--workers", 0)
    for model, folder in (
        ("synthetic-oracle", "noc-1"),
        ("synthetic-oracle", "noc-1"),
        ("disc", "noc-2"),
    ):
        assert f"runs/{folder}" in typed(*common, "-m", model)[2]


def test_mistakes_in_a_folder_are_reported(typed: Typed, here: Path) -> None:
    for name in ("a", "b", "c"):
        (here / "own/images").mkdir(parents=True, exist_ok=True)
        (here / "own/masks").mkdir(parents=True, exist_ok=True)
        side = 40 if name != "c" else 44
        image = np.full((side, side, 3), 90, np.uint8)
        mask = np.zeros((side, side), np.uint8)
        mask[10:20, 10 : (20 if name != "b" else 11)] = 255
        cv2.imwrite(str(here / f"own/images/{name}.png"), image)
        cv2.imwrite(str(here / f"own/masks/{name}.png"), mask)
    code, out, _ = typed("check", "own", "--page", "page.html")
    assert code == 1
    assert "b: is identical to image a" in out
    assert "tiny (10 pixels)" in out
    assert "2 problems" in out
    assert "is identical to image a" in (here / "page.html").read_text()


def test_a_check_counts_images_without_masks_and_masks_that_are_all_empty_or_full(
    typed: Typed, here: Path
) -> None:
    for folder in ("own/images", "own/masks"):
        (here / folder).mkdir(parents=True)
    for k, name in enumerate("abc"):
        cv2.imwrite(f"own/images/{name}.png", np.full((40, 40, 3), 90 + k, np.uint8))
    cv2.imwrite("own/masks/a.png", np.pad(np.full((20, 20), 255, np.uint8), 10))
    cv2.imwrite("own/masks/stray.png", np.full((40, 40), 255, np.uint8))
    code, out, _ = typed("check", "own")
    assert code == 1
    assert "b: image has no mask; add one or remove it\n" in out
    assert "stray.png: mask has no image of its name; rename it\n" in out
    assert out.endswith("own: 1 scene, 1 object; 3 problems\n")
    for value, what in ((0, "empty"), (255, "full")):
        for name in "abc":
            cv2.imwrite(f"own/masks/{name}.png", np.full((40, 40), value, np.uint8))
        assert f"all masks: are {what}; check their values" in typed("check", "own")[1]


def test_names_of_models_are_not_broken_and_statistics_that_do_not_fit_are_named(
    typed: Typed, here: Path
) -> None:
    long = f"disc?radius={'9' * 20}"
    words = ("run", "noc", "-m", "disc?radius=12345", "-m", long, "-d", "drawn", "--limit", 2)
    code, out, err = typed(*words, "--rounds", 2, "--workers", 0, "-o", "r")
    assert code == 0, err
    assert "disc?radius=12345 " in out
    assert f"{long} " in out
    assert max(map(len, out.splitlines())) <= 80
    assert "left out to fit the terminal: " in out
    words = ("run", "rclicks", "-m", "synthetic-noisy", "-d", "drawn", "--limit", 1, "--rounds", 2)
    code, out, err = typed(*words, "--workers", 0, "-o", "c")
    assert code == 0, err
    assert "…" not in out


def test_a_folder_of_runs_names_the_runs_in_it(typed: Typed, here: Path) -> None:
    for name in ("one", "two"):
        plan = Plan("noc", (Spec("synthetic-oracle"),), (Spec("drawn"),), rounds=1, limit=1)
        run_plan(plan, here / "runs" / name, workers=0)
    code, _, err = typed("report", "runs")
    assert code == 2
    assert "name one of the runs in it: 'one', 'two'" in err


def test_a_user_is_added_to_finished_scenes(typed: Typed, here: Path) -> None:
    common = ("run", "noc", "-m", "synthetic-noisy", "-d", "drawn", "--limit", 2, "--rounds", 3,
              "--workers", 0)  # fmt: skip
    key = '"user", scene, target, protocol, round'
    steady = f"{key}, prompt, iou, boundary_iou, mask, groups, shape"
    typed(*common, "--out", "r")
    before = Run.open("r").sql(f"select * from rows order by {key}").to_pylist()
    code, _, err = typed("run", "noc", "-u", "random-click", "-o", "r", "--add", "--workers", 0)
    assert code == 0, err
    wide = Run.open("r")
    assert [s.name for s in wide.plan.users] == ["centre-click", "random-click"]
    kept = wide.sql(f"select * from rows where \"user\" = 'centre-click' order by {key}")
    assert kept.to_pylist() == before
    typed(*common, "--user", "centre-click", "--user", "random-click", "--out", "at-once")
    together = Run.open("at-once").sql(f"select {steady} from rows order by {key}").to_pylist()
    assert wide.sql(f"select {steady} from rows order by {key}").to_pylist() == together
    parts = {p.name: p.stat().st_mtime_ns for p in Path("r/jobs").iterdir()}
    assert typed("run", "noc", "-u", "random-click", "-o", "r", "--add", "--workers", 0)[0] == 0
    assert {p.name: p.stat().st_mtime_ns for p in Path("r/jobs").iterdir()} == parts


def test_settings_that_cannot_be_added_are_named_with_both_values(typed: Typed, here: Path) -> None:
    first = ("run", "noc", "-m", "disc", "-d", "drawn", "--limit", 2, "--rounds", 1, "--workers", 0)
    assert typed(*first, "--protocol", "corrected", "-o", "r")[0] == 0
    more = ("run", "noc", "-m", "synthetic-noisy", "-o", "r", "--add", "--workers", 0)
    code, _, err = typed(*more, "--limit", 3)
    assert code == 2
    assert "'r' was run with limit 2, not 3" in " ".join(err.split())
    assert typed(*more)[0] == 0, "limit and protocol are those of the run"
    assert Run.open("r").plan.protocols == ("corrected",)


def test_users_who_share_a_team_are_not_added_one_by_one(typed: Typed, here: Path) -> None:
    common = ("run", "tetris", "-m", "disc", "-d", "drawn", "--limit", 1, "--rounds", 1)
    assert typed(*common, "--workers", 0, "--out", "r")[0] == 0
    code, _, err = typed(*common, "-u", "random-click", "--out", "r", "--add")
    assert code == 2
    assert "only models and datasets can be added to a run of 'tetris'" in err


def test_a_log_of_annotation_becomes_a_cost_model(typed: Typed, here: Path) -> None:
    lines = ["annotator,image,object,event,time"]
    for who in ("ann", "bob", "cem"):
        for k in range(4):
            at, name = 100 * k, f"{who},p{k},cat"
            lines += [f"{name},start,{at}", f"{name},click,{at + 3}", f"{name},click,{at + 5}",
                      f"{name},done,{at + 6}"]  # fmt: skip
    (here / "log.csv").write_text("\n".join(lines))
    code, out, err = typed("clicks", "costs", "log.csv")
    assert code == 0, err
    assert "click       2.00 s" in out
    assert "review      1.00 s" in out
    assert max(map(len, out.splitlines())) <= 80
    starts = {line.index(" from ") for line in out.splitlines() if " from " in line}
    assert len(starts) == 1, "the numbers of steps are below each other"
    typed(
        "run",
        "noc",
        "-m",
        "synthetic-oracle",
        "-d",
        "drawn",
        "--limit",
        2,
        "--workers",
        0,
        "-o",
        "r",
    )
    code, out, _ = typed("report", "r", "--cost", "costs.toml", "--json")
    assert rows(out)["synthetic-oracle", "corrected", "seconds-to-90"]["value"] == pytest.approx(
        4.0
    )
    told = json.loads(typed("clicks", "costs", "log.csv", "--json")[1])
    assert told["prices"]["locate"]["seconds"] == pytest.approx(1.0)
    assert typed("clicks", "costs", "r/plan.json")[0] == 2


def test_a_run_with_a_user_and_a_measure_of_ones_own_gets_another_measure(
    typed: Typed, here: Path
) -> None:
    """Neither is needed for that, so nothing in their files is executed."""
    examples = Path(__file__).parents[2] / "examples"
    words = ("run", "noc", "-m", "disc", "-d", "drawn", "--limit", 1, "--rounds", 1, "-o", "r")
    user = ("--user", f"{examples}/own_user.py:ShakyHand")
    measure = ("--measure", "iou", "--measure", f"{examples}/own_measure.py:missed_share")
    code, _, err = typed(*words, *user, *measure, "--workers", 0)
    assert code == 0, err
    assert typed("score", "r", "--measure", "dice")[:2] == (0, "dice: added to 1 job in r\n")


def test_costs_fit_the_terminal_with_the_conclusion_below(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    plan = Plan("noc", (Spec("disc"), Spec("synthetic-noisy")), (Spec("drawn"),), rounds=3, limit=8)
    run_plan(plan, tmp_path / "run", workers=0)
    code, out, err = typed("report", tmp_path / "run", "--objects", 20000, "--hourly-rate", 15)
    assert code == 0, err
    table = out[out.index("20000 objects; ") : out.index("report: ")].splitlines()
    assert max(map(len, table)) <= 80
    (disc,) = (k for k, line in enumerate(table) if line.startswith(" disc "))
    assert re.fullmatch(r"( +[0-9.]+–[0-9.]+)+ *", table[disc + 1])
    assert "disc: cheaper than by hand" in table


def test_the_terminal_gives_the_first_answer_of_a_page(typed: Typed, tmp_path: Path) -> None:
    plan = Plan("noc", (Spec("disc"), Spec("synthetic-noisy")), (Spec("drawn"),), rounds=1, limit=1)
    run_plan(plan, tmp_path / "run", workers=0)
    _, out, _ = typed("report", tmp_path / "run")
    *answer, written = out.splitlines()
    assert written.startswith("report: ")
    assert " ".join(answer).startswith("No model brings half of the objects to 90 % IoU")
    _, out, _ = typed("compare", tmp_path / "run")
    assert out.startswith("4 differences not tested: 1 image, 6 needed")


def test_a_report_without_its_images_states_it(typed: Typed, here: Path) -> None:
    (here / "own/images").mkdir(parents=True)
    (here / "own/masks").mkdir()
    mask = np.zeros((30, 30), np.uint8)
    mask[5:20, 5:20] = 255
    cv2.imwrite("own/images/a.png", np.full((30, 30, 3), 90, np.uint8))
    cv2.imwrite("own/masks/a.png", mask)
    typed(
        "run",
        "noc",
        "-m",
        "synthetic-oracle",
        "-d",
        "own",
        "--rounds",
        1,
        "--workers",
        0,
        "-o",
        "r",
    )
    assert "images" not in typed("report", "r")[2]
    (here / "own").rename(here / "elsewhere")
    code, out, err = typed("report", "r")
    assert code == 0
    assert "report: r/report.html" in out
    assert "images of own are not on the page" in err
    assert "--data" in err
