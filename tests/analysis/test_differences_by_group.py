"""Differences group by group: the same numbers on the group's targets, corrected over all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import segmeter
from segmeter.analysis.breakdown import (
    Key,
    differences_by_group,
    groups_of_targets,
    splits,
    stored_groups,
)
from segmeter.cli.compare import compare
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.plans import Plan
from segmeter.engine import run_plan
from segmeter.stats.comparisons import holm
from segmeter.store import Run

MODELS = (Spec("synthetic-noisy"), Spec("disc"))
PLAN = Plan("noc", MODELS, (Spec("mini"),), rounds=4, limit=3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("groups") / "run"
    run_plan(PLAN, out, workers=0)
    return Run.open(out)


def members_of(run: Run) -> dict[str | None, set[Key]]:
    named = groups_of_targets(stored_groups(run, "size"), "size")
    return {group: {key for key, own in named.items() if own == group} for group in named.values()}


def test_a_part_holds_its_targets_and_no_others(run: Run) -> None:
    members = members_of(run)
    assert set(members) == {"large", "medium", "small"}
    for group, keys in members.items():
        part = run.only(keys)
        found = part.sql("select distinct dataset, scene, target from rows").to_pylist()
        assert {tuple(row.values()) for row in found} == members[group]
        wholes = {whole.key: whole for whole in run.benchmark.load(run)}
        for some in run.benchmark.load(part):
            assert {(some.dataset, *key) for key in some.keys} == members[group]
            whole = wholes[some.key]
            place = [whole.keys.index(key) for key in some.keys]
            assert (whole.iou[place] == some.iou).all()


def test_pairs_of_a_measure_are_corrected_over_all_groups(run: Run) -> None:
    found = differences_by_group(run.benchmark, run, "size")
    alone = [
        d for keys in members_of(run).values() for d in run.benchmark.differences(run.only(keys))
    ]
    assert [(g.difference.value, g.difference.p) for g in found] == [(d.value, d.p) for d in alone]
    mine = [
        g for g in found if (g.difference.protocol, g.difference.statistic) == ("corrected", "auc")
    ]
    assert len(mine) == 3
    assert [g.difference.p_holm for g in mine] == holm([g.difference.p for g in mine])


def test_one_group_of_two_datasets_is_tested_as_the_whole_run(tmp_path: Path) -> None:
    run = segmeter.evaluate(
        ["disc", "synthetic-noisy"], ["drawn?count=6", "drawn?count=7&seed=1"],
        out=tmp_path / "run", rounds=2, protocols="corrected", progress=False,
    )  # fmt: skip
    file = tmp_path / "groups.csv"
    keys = run.sql("select distinct scene, target from rows").to_pylist()
    file.write_text("mask,group\n" + "".join(f"{k['scene']}/{k['target']},all\n" for k in keys))
    assert [g.difference for g in run.compare(groups=file)] == run.compare()


def test_one_group_of_all_targets_is_the_whole(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "groups.csv"
    keys = run.sql("select distinct scene, target from rows").to_pylist()
    file.write_text("mask,group\n" + "".join(f"{k['scene']}/{k['target']},all\n" for k in keys))
    found = [g.difference for g in differences_by_group(run.benchmark, run, "group", file)]
    assert found == run.benchmark.differences(run)


def test_a_corrected_pixel_costs_as_much_in_a_group_as_in_the_run(run: Run) -> None:
    """Seconds per pixel came from the mean contour of the group, unlike those of `report --by`."""
    shown = splits(run.benchmark, run, "size")
    means = {
        (split.model, split.protocol, mean.group): mean.interval.value
        for split in shown
        if split.statistic.name == "seconds-to-90"
        for mean in split.means
    }
    found = differences_by_group(run.benchmark, run, "size")
    compared = [g for g in found if g.difference.statistic == "seconds-to-90"]
    assert len(compared) == 6
    for g in compared:
        d = g.difference
        first, second = (means[model, d.protocol, g.group] for model in (d.first, d.second))
        assert d.value == pytest.approx(first - second)


def test_the_command_compares_by_group(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare([run.address], by="size") == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    tables = {
        text.split(",")[0]: text
        for text in out.split("mini, centre-click, protocol corrected, size ")[1:]
    }
    assert set(tables) == {"large", "medium", "small"}
    assert tables["small"].startswith("small, 2 objects\n")
    for group, table in tables.items():
        lines = table.splitlines()
        for g in differences_by_group(run.benchmark, run, "size"):
            d = g.difference
            if (g.group, d.protocol) == (group, "corrected"):
                (row,) = [k for k, line in enumerate(lines) if line.split()[:1] == [d.statistic]]
                assert f"{d.value:+.2f}" in lines[row]
                assert d.second in lines[row + 1]
                assert (f"{d.p_holm:.3f}" in lines[row]) == (d.cases >= 6)
                assert ("not tested" in lines[row]) == (d.cases < 6)
    assert compare([run.address], by="size", as_json=True) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["group"] for row in rows} == {"large", "medium", "small"}


def test_a_heading_that_no_target_has_is_refused(run: Run) -> None:
    with pytest.raises(BadInput, match="no mask has a group under 'colour'; available: class"):
        differences_by_group(run.benchmark, run, "colour")
