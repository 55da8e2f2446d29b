"""Any benchmark's rows split by group, in the report and by hand."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from segmeter.analysis.breakdown import breakdown, splits
from segmeter.cli.report import report
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Image, Target
from segmeter.evaluation import evaluate
from segmeter.stats.fairness import normal_interval

SHAPE = (40, 50)


class Squares:
    """Twenty images with two squares each: small ones and large ones."""

    card = DatasetCard("squares", "", "", "", targets=40)

    def scenes(self):
        return [f"p{k:02}" for k in range(20)]

    def load(self, scene):
        move = int(scene[1:]) % 4
        small = Mask.box(SHAPE, (3 + move, 3), (9 + move, 9))
        large = Mask.box(SHAPE, (12, 15 + move), (36, 44 + move))
        return Image("squares", scene, np.zeros((*SHAPE, 3), np.uint8), [
            Target("s", small, label="mouse", groups={"size": "small"}),
            Target("l", large, label="house", groups={"size": "large"}),
        ])  # fmt: skip

    def fingerprint(self):
        return "squares of one kind"


@pytest.fixture(scope="module", params=["noc", "points"])
def run(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("split") / "run"
    return evaluate(
        "disc?radius=4", Squares(), benchmark=request.param, rounds=3, out=out, workers=0
    )


def table(section, name):
    return next(block for block in section.blocks if getattr(block, "name", "") == name)


def test_means_by_size_are_those_of_the_rows(run):
    rows = run.sql(
        "select iou, label from rows where round = 1 and protocol = 'corrected'"
    ).to_pylist()
    wanted = {
        label: 100 * np.mean([r["iou"] for r in rows if r["label"] == label])
        for label in ("mouse", "house")
    }
    by_class = {
        m.group: m.interval.value
        for s in splits(run.benchmark, run, "class")
        if (s.protocol, s.statistic.name) == ("corrected", "iou@1")
        for m in s.means
    }
    assert by_class == pytest.approx(wanted)
    by_size = next(
        s
        for s in splits(run.benchmark, run, "size")
        if (s.protocol, s.statistic.name) == ("corrected", "iou@1")
    )
    assert [m.group for m in by_size.means] == ["large", "small"]
    (pair,) = by_size.differences
    assert pair.significant
    assert pair.interval.value == pytest.approx(wanted["house"] - wanted["mouse"])


def test_the_published_interval_is_normal(run):
    split = next(
        s
        for s in splits(run.benchmark, run, "size")
        if (s.protocol, s.statistic.name) == ("published", "iou@1")
    )
    rows = run.sql("""select iou from rows where round = 1 and protocol = 'published'
                      and label = 'house'""").to_pylist()
    assert split.means[0].interval == normal_interval([100 * r["iou"] for r in rows])
    assert split.differences == ()


def test_a_groups_file_splits_by_its_columns(run, tmp_path):
    file = tmp_path / "groups.csv"
    lines = [[f"p{k:02}/l", "even" if k % 2 == 0 else "odd", ""] for k in range(19)]
    lines[0][0] = "squares/p00/l"
    with file.open("w") as stream:
        csv.writer(stream).writerows([["mask", "group", "tone"], *lines])
    split = next(s for s in splits(run.benchmark, run, "group", file) if s.protocol == "corrected")
    assert [(m.group, m.targets) for m in split.means] == [("even", 10), ("odd", 9)]
    with pytest.raises(BadInput, match="no mask has a group under 'tone'"):
        splits(run.benchmark, run, "tone", file)
    with pytest.raises(BadInput, match="no column 'age'; it has group, tone"):
        splits(run.benchmark, run, "age", file)
    file.write_text("mask,group\np00/l,x\np77/l,y\n")
    with pytest.raises(BadInput, match="line 3: no mask 'p77/l' here"):
        splits(run.benchmark, run, "group", file)


def test_the_error_for_an_unknown_group_lists_the_known_ones(run):
    with pytest.raises(BadInput, match="under 'age'; available: class, size"):
        breakdown(run.benchmark, run, "age")


def test_the_report_has_a_section_and_tables_for_it(run):
    folder = run.folder.path
    report(folder, by="size")
    page = (folder / "report.html").read_text()
    assert "Results by size" in page
    assert "Differences between groups of size" in page
    report(folder, kind="csv", by="size")
    written = {path.name for path in (folder / "tables").iterdir()}
    assert {"by-size.csv", "by-size-differences.csv"} <= written
