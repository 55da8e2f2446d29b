"""The click benchmark's numbers and pages, from real runs on drawn scenes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from segmeter.benchmarks.noc import Noc
from segmeter.benchmarks.noc.comparison import HARDEST
from segmeter.benchmarks.noc.statistics import clicks_to, seconds_until, sessions
from segmeter.core.benchmarks import SummaryRow
from segmeter.core.catalogue import Spec
from segmeter.core.errors import NotFound
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene
from segmeter.core.sections import Answer, Gallery, Note, Replay, Section, Table, Value
from segmeter.engine import run_plan
from segmeter.models.synthetic import Oracle
from segmeter.report.page import Page, render
from segmeter.report.provenance import missing, provenance
from segmeter.stats.goals import Goal
from segmeter.store import Run

PLAN = Plan(
    "noc",
    (Spec("synthetic-noisy"), Spec("synthetic-oracle")),
    (Spec("drawn"),),
    users=(Spec("centre-click"),),
    rounds=8,
    limit=8,
    protocols=("published", "corrected"),
)


def test_the_report_has_the_signs_of_the_differences_of_the_run(run: Run) -> None:
    """The page subtracted the winner from the others, `compare` the second from the first."""
    sections = Noc().sections(run)
    tables = [b for s in sections for b in s.blocks if isinstance(b, Table)]
    (table,) = (t for t in tables if t.name == "differences")
    shown = {
        (row[0], row[1], round(float(row[3].value or 0), 9))
        for row in table.rows
        if isinstance(row[3], Value)
    }
    found = {(d.first, d.second, round(d.value, 9)) for d in run.differences()}
    assert shown
    assert shown <= found


def test_many_users_share_a_sentence_and_a_table(tmp_path: Path) -> None:
    """A study of sixteen participants had a headline for each."""
    users = tuple(Spec("clicking-group", {"group": group}) for group in range(1, 7))
    run_plan(replace(PLAN, users=users, rounds=3, limit=2), tmp_path / "run", workers=0)
    run = Run.open(tmp_path / "run")
    (results, *_) = Noc().sections(run)
    said, table = results.blocks
    assert isinstance(said, Answer)
    assert isinstance(table, Table)
    spent = [
        row.value
        for row in run.summary()
        if (row.statistic, row.model, row.protocol)
        == ("seconds-to-90", "synthetic-noisy", "corrected")
    ]
    low, median, high = np.quantile(spent, (0, 0.5, 1))
    span = f"**synthetic-noisy** needs {median:.1f} s per object ({low:.1f} to {high:.1f})"
    assert span in str(said.text)
    assert "of 6 users" in str(said.text)
    assert len(table.rows) == 12  # two models


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("runs") / "noc"
    run_plan(PLAN, out, workers=0)
    return Run.open(out)


@pytest.fixture(scope="module")
def rows(run: Run) -> dict[tuple[str, str, str], SummaryRow]:
    return {(r.model, r.protocol, r.statistic): r for r in Noc().summary(run)}


@pytest.fixture(scope="module")
def sections(run: Run) -> list[Section]:
    return list(Noc().sections(run))


def blocks(sections: list[Section], kind: type) -> list[object]:
    return [b for s in sections for b in s.blocks if isinstance(b, kind)]


def test_the_page_has_the_percentiles_of_seconds_per_click(
    run: Run, sections: list[Section]
) -> None:
    (table,) = [t for t in blocks(sections, Table) if t.name == "latency"]  # type: ignore[attr-defined]
    heads = [column.title for column in table.columns]  # type: ignore[attr-defined]
    assert {"p50", "p95"} < set(heads)
    protocol = "corrected"
    for row in (dict(zip(heads, cells, strict=True)) for cells in table.rows):  # type: ignore[attr-defined]
        spent = run.sql(
            "select seconds_predict from rows where prompt is not null and model = $model "
            "and protocol = $protocol",
            {"model": str(row["model"]), "protocol": protocol},
        ).column(0)
        for head, share in (("p50", 0.5), ("p95", 0.95)):
            wanted = np.quantile(np.asarray(spent), share)
            assert row[head].value == pytest.approx(wanted)
            assert row[head].low <= row[head].value <= row[head].high


def test_an_oracle_needs_one_click_and_never_fails(
    rows: dict[tuple[str, str, str], SummaryRow],
) -> None:
    for protocol in ("published", "corrected"):
        assert rows["synthetic-oracle", protocol, "noc@90"].value == 1
        assert rows["synthetic-oracle", protocol, "nof@90"].value == 0
        assert rows["synthetic-oracle", protocol, "auc"].value == 100
        assert rows["synthetic-oracle", protocol, "iou@1"].value == 100


def test_no_observed_failure_does_not_mean_none_possible(
    rows: dict[tuple[str, str, str], SummaryRow],
) -> None:
    assert rows["synthetic-oracle", "corrected", "never@90"].high > 0.5


def test_the_summary_follows_from_the_rows_of_the_run(
    run: Run, rows: dict[tuple[str, str, str], SummaryRow]
) -> None:
    table = run.sql("""
        with firsts as (
            select scene, target, min(case when iou >= 0.9 then round end) as first
            from rows where model = 'synthetic-noisy' and protocol = 'corrected' group by all)
        select avg(coalesce(first, 8)) as noc, count(*) - count(first) as never from firsts
    """).to_pylist()[0]
    assert rows["synthetic-noisy", "corrected", "noc@90"].value == pytest.approx(table["noc"])
    assert rows["synthetic-noisy", "corrected", "never@90"].value == table["never"]


def test_a_persons_seconds_hold_finding_and_clicking_and_no_machine(
    rows: dict[tuple[str, str, str], SummaryRow],
) -> None:
    assert rows["synthetic-oracle", "corrected", "seconds-to-90"].value == 2.5
    assert rows["synthetic-oracle", "corrected", "waiting-to-90"].value > 0


def test_failures_are_drawn_by_hand_where_masks_are_not_corrected(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "cost.toml"
    file.write_text("touch_up = inf\n")
    own = Run.open(run.folder.path, settings={"cost": file})
    rows = {(r.model, r.protocol, r.statistic): r for r in Noc().summary(own)}
    clicks, never = (
        rows["synthetic-noisy", "corrected", "noc@95"],
        rows["synthetic-noisy", "corrected", "never@95"],
    )
    by_hand = 79 * never.value / never.targets
    assert never.value > 0
    spent = 1 + 1.5 * clicks.value + by_hand
    assert rows["synthetic-noisy", "corrected", "seconds-to-95"].value == pytest.approx(spent)


def test_a_custom_cost_model_changes_the_seconds(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "cost.toml"
    file.write_text("locate = 0\nclick = 10\n")
    own = Run.open(run.folder.path, settings={"cost": file})
    seconds = {r.model: r.value for r in Noc().summary(own) if r.statistic == "seconds-to-90"}
    assert seconds["synthetic-oracle"] == 10


def test_drawing_may_be_priced_by_the_length_of_the_outline(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "cost.toml"
    file.write_text("by_hand = 0\nby_hand_px = 0.25\ntouch_up = inf\n")
    own = Run.open(run.folder.path, settings={"cost": file, "goal": "95"})
    group = next(g for g in sessions(own) if g.key[0] == "synthetic-noisy")
    assert group.contour_px is not None
    never = group.iou.max(axis=1) < 0.95
    spent = seconds_until(Goal(0.95)).compared(group)
    clicks = clicks_to(Goal(0.95)).compared(group)
    assert spent == pytest.approx(1 + 1.5 * clicks + 0.25 * group.contour_px * never)


def test_the_better_model_is_significant_in_every_measure(run: Run) -> None:
    found = [d for d in Noc().differences(run) if d.protocol == "corrected"]
    assert {d.statistic for d in found} == {"seconds-to-90", "noc@90", "auc", "iou@1"}
    for d in found:
        assert (d.first, d.second) == ("synthetic-noisy", "synthetic-oracle")
        assert d.significant
        assert (d.value > 0) == (d.statistic in ("seconds-to-90", "noc@90"))


def test_groups_line_up_targets_and_times(run: Run) -> None:
    for group in sessions(run):
        targets, rounds = group.iou.shape
        assert group.answer.shape == group.spent.shape == (targets, rounds)
        assert group.encode.shape == (targets,)
        assert (np.diff(group.spent, axis=1) >= 0).all()


def test_the_answer_names_the_cheapest_model(sections: list[Section]) -> None:
    (answer,) = blocks(sections, Answer)
    assert isinstance(answer, Answer)
    assert answer.text.startswith(
        "**synthetic-oracle** needs the least annotation time: 2.5\N{NO-BREAK SPACE}s per object"
    )
    assert "with 1.00\N{NO-BREAK SPACE}clicks" in answer.text
    longer, more = answer.detail.split(". It needs")
    assert "**synthetic-noisy**, takes" in longer
    assert "longer per object; the difference is **significant**" in longer
    assert "more clicks (NoC@90); the difference is **significant**" in more


def test_conclusions_name_the_better_model_in_either_direction(sections: list[Section]) -> None:
    (table,) = next(s for s in sections if s.title.startswith("Significant")).blocks
    assert isinstance(table, Table)
    assert [row[-1] for row in table.rows] == ["significant: synthetic-oracle is better"] * 4
    gaps = [row[3].value for row in table.rows]  # type: ignore[union-attr]
    assert [g > 0 for g in gaps] == [True, False, False, True]


def test_one_image_establishes_nothing(tmp_path: Path) -> None:
    run_plan(replace(PLAN, limit=1), tmp_path / "run", workers=0)
    found = Noc().differences(Run.open(tmp_path / "run"))
    assert found
    assert not any(d.significant for d in found)


def test_a_user_who_draws_boxes_gives_prompts_not_clicks(tmp_path: Path) -> None:
    run_plan(replace(PLAN, users=(Spec("box"),), limit=3), tmp_path / "run", workers=0)
    made = list(Noc().sections(Run.open(tmp_path / "run")))
    (answer,) = blocks(made, Answer)
    assert isinstance(answer, Answer)
    assert "prompts" in answer.text
    assert "clicks" not in answer.text + answer.detail
    assert "not tested: 3 images, 6 needed" in answer.detail


def test_failures_lead_to_the_hardest_objects(sections: list[Section]) -> None:
    table = sections[0].blocks[1]
    assert isinstance(table, Table)
    links = {str(row[0]): row[3].link for row in table.rows}  # type: ignore[union-attr]
    assert links == {"synthetic-oracle": "", "synthetic-noisy": HARDEST}
    html = render(Page("t", "s", [], sections))
    assert f'<section id="{HARDEST}"' in html


def test_both_protocols_are_shown_next_to_their_numbers(sections: list[Section]) -> None:
    papers = next(s for s in sections if "protocol" in s.title)
    table = papers.blocks[0]
    assert isinstance(table, Table)
    assert {row[0].protocol for row in table.rows} == {"published", "corrected"}  # type: ignore[union-attr]


def test_images_lead_to_replays(sections: list[Section]) -> None:
    (gallery,) = blocks(sections, Gallery)
    keys = {r.key for r in blocks(sections, Replay) if isinstance(r, Replay)}
    assert isinstance(gallery, Gallery)
    linked = [p.link for p in gallery.images if p.link]
    assert linked
    assert set(linked) <= keys


def test_the_whole_page_is_small_and_holds_the_summary(run: Run, sections: list[Section]) -> None:
    html = render(Page("t", "s", [], [*sections, missing(run), provenance(run)]))
    assert len(html) < 3_000_000
    assert run.plan.id in html
    assert "None: every scene" in html


class Fussy(Oracle):
    """An oracle that cannot bear one scene."""

    def encode(self, scene: Scene):  # type: ignore[no-untyped-def]  # as its parent's
        if scene.id.endswith("2"):
            raise ValueError("I would rather not")
        return super().encode(scene)


def test_a_scene_without_result_is_named_and_means_are_warned_of(tmp_path: Path) -> None:
    plan = replace(PLAN, segmenters=(Spec("fussy"), Spec("synthetic-noisy")), rounds=2, limit=5)
    tally = run_plan(plan, tmp_path / "run", objects={"fussy": Fussy()})
    assert tally.failed == 1
    run = Run.open(tmp_path / "run")
    section = missing(run)
    (note, table) = section.blocks
    assert isinstance(note, Note)
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["fussy"]
    assert "I would rather not" in str(table.rows[0][2])
    warned = [n.text for n in blocks(list(Noc().sections(run)), Note) if isinstance(n, Note)]
    assert any("not scored on the same objects" in text for text in warned)


def test_scenes_that_are_not_begun_are_named_too(tmp_path: Path) -> None:
    run_plan(replace(PLAN, rounds=1), tmp_path / "run", workers=0)
    parts = sorted((tmp_path / "run" / "jobs").glob("*.parquet"))
    run = Run.open(tmp_path / "run")
    gone = run.sql("select distinct scene from rows order by scene limit 1").to_pylist()[0]["scene"]
    for part in parts:
        if pq.read_table(part, columns=["scene"]).column("scene")[0].as_py() == gone:
            part.unlink()
    section = missing(Run.open(tmp_path / "run"))
    note, table = section.blocks
    assert isinstance(note, Note)
    assert isinstance(table, Table)
    assert note.text.startswith("2 results are missing")
    assert [(row[0], row[1]) for row in table.rows] == [
        ("synthetic-noisy", f"drawn: {gone}"),
        ("synthetic-oracle", f"drawn: {gone}"),
    ]


def test_without_its_images_a_run_still_reports(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(dataset: str, scene: str) -> Scene:
        raise NotFound("drawn: there is no folder")

    monkeypatch.setattr(run, "scene", gone)
    said = [n.text for n in blocks(list(Noc().sections(run)), Note) if isinstance(n, Note)]
    assert "Images of drawn cannot be shown: drawn: there is no folder" in said


def test_one_model_one_round_one_protocol_one_scene_reports_too(tmp_path: Path) -> None:
    plan = replace(
        PLAN, segmenters=(Spec("synthetic-oracle"),), rounds=1, limit=1, protocols=("published",)
    )
    run_plan(plan, tmp_path / "run", workers=0)
    run = Run.open(tmp_path / "run")
    html = render(Page("t", "s", [], [*Noc().sections(run), missing(run), provenance(run)]))
    assert "<strong>synthetic-oracle</strong> needs 2.5" in html
    assert "Results in each protocol" not in html
    assert "<strong>published</strong>" in html
    assert "<strong>corrected</strong>" not in html
    assert json.dumps(Noc().differences(run)) == "[]"


def test_drawing_all_by_hand_includes_the_review(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "cost.toml"
    file.write_text("locate = 1\nreview = 5\nby_hand = 79\n")
    own = Run.open(run.folder.path, settings={"cost": file})
    section = Noc().cost_section(own, 3600, None)
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    hand = table.rows[-1][1]
    assert isinstance(hand, Value)
    assert hand.value == pytest.approx(85)
