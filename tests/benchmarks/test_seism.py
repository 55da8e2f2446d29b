"""The partition benchmark: from images or stored results to curves, and the meta-measures."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import pytest

from segmeter.api.measuring import write_figure
from segmeter.benchmarks.seism import Seism
from segmeter.benchmarks.seism.discrimination import (
    MethodSweeps,
    PairScores,
    density_charts,
    human_pairs,
    meta_rows,
    meta_sections,
    partners,
    sweep_method,
    turned,
)
from segmeter.benchmarks.seism.methods import ResultsFolder
from segmeter.benchmarks.seism.statistics import groups, human_points, sections
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.models import ModelCard, Segmentation
from segmeter.core.plans import Plan
from segmeter.core.scenes import Image, Scene
from segmeter.core.sections import Line, Multiples, Points, Table
from segmeter.datasets.bsds500 import Bsds500
from segmeter.engine import run_plan
from segmeter.measures.hierarchies import partition_at
from segmeter.measures.partitions import scores
from segmeter.measures.tables import regions
from segmeter.models.partitioners import Quadtree
from segmeter.report.writing import warned
from segmeter.runtime.remote_files import Roots
from segmeter.store import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, real_data: Path) -> Run:
    """Two images, two methods, and people."""
    plan = Plan(
        "seism",
        segmenters=(Spec("slic-hierarchy"), Spec("quadtree")),
        kind="method",
        datasets=(Spec("bsds500"),),
        limit=2,
    )
    out = tmp_path_factory.mktemp("seism") / "run"
    tally = run_plan(plan, out, roots=Roots(real_data), workers=0)
    assert (tally.done, tally.failed) == (6, 0)
    return Run.open(out)


def rows_of(method: Any, scene: Scene) -> list[dict[str, Any]]:
    return Seism().work(method, scene, Plan("seism", (), ()))


def test_a_run_holds_a_row_a_setting(run: Run, real_data: Path) -> None:
    data = Bsds500(real_data)
    people = sum(len(data.partitions(scene)) for scene in data.scenes()[:2])
    table = run.sql("select model, count(*) as n from rows group by model order by model")
    counts = {row["model"]: row["n"] for row in table.to_pylist()}
    assert counts == {"people": people, "quadtree": 2 * 17, "slic-hierarchy": 2 * 99}


def test_the_rows_are_the_measures_of_the_levels(run: Run, real_data: Path) -> None:
    scene = Bsds500(real_data).load("2018")
    levels = catalogue.methods.make("slic-hierarchy").segment(scene).levels
    labels = partition_at(levels, 0.5)
    wanted = scores(list(scene.partitions), labels)
    (row,) = run.sql(
        "select * from rows where model = 'slic-hierarchy' and scene = '2018' and setting = '0.50'"
    ).to_pylist()
    assert row["regions"] == regions(labels).count
    for name, value in wanted.items():
        assert row[name] == pytest.approx(value, abs=1e-12), name
    assert row["covered"] / row["coverable"] == pytest.approx(wanted["ssc"])


def test_looking_beats_not_looking_and_people_beat_both(run: Run) -> None:
    rows = {(r.model, r.protocol, r.statistic): r for r in Seism().summary(run)}
    people = human_points(run)["bsds500"]
    for measure in ("fb", "fop"):
        ods = [rows[m, "published", f"{measure}-ods"].value for m in ("quadtree", "slic-hierarchy")]
        assert ods[0] < ods[1] < people[measure].f
    for row in rows.values():
        assert row.targets == 2
        assert row.low <= row.high


def test_the_best_setting_per_image_is_never_worse_than_one_for_all(run: Run) -> None:
    rows = {(r.model, r.protocol, r.statistic): r.value for r in Seism().summary(run)}
    for model in ("quadtree", "slic-hierarchy"):
        for measure, sign in (("covering", 1), ("pri", 1), ("voi", -1)):
            ods, ois = (rows[model, "published", f"{measure}-{kind}"] for kind in ("ods", "ois"))
            corrected = rows[model, "corrected", f"{measure}-ods"]
            assert sign * ois >= sign * ods - 1e-12
            assert sign * corrected <= sign * ods + 1e-12
        assert rows[model, "published", "covering-best"] >= rows[model, "published", "covering-ois"]


def test_the_summary_is_the_curve_of_the_original_rule(run: Run) -> None:
    rows = {
        (r.model, r.statistic): r.value for r in Seism().summary(run) if r.protocol == "published"
    }
    for group in groups(run):
        assert rows[group.model, "fb-ods"] == pytest.approx(group.curve("fb").ods.f)
        assert rows[group.model, "fb-ois"] == pytest.approx(group.curve("fb").ois.f)
        assert rows[group.model, "fop-ods"] == pytest.approx(group.curve("fop").ods.f)
        assert rows[group.model, "fop-ois"] == pytest.approx(group.curve("fop").ois.f)


def test_the_report_draws_both_curves_with_people_on_them(run: Run) -> None:
    found = sections(run)
    charts = [c for b in found[0].blocks if isinstance(b, Multiples) for c in b.charts]
    assert len(charts) == 2
    for chart in charts:
        guides = [m.name for m in chart.marks if isinstance(m, Line) and m.role == "guide"]
        assert guides == [f"0.{tenth}" for tenth in range(1, 10)]
        (people,) = [m for m in chart.marks if isinstance(m, Points) and m.name == "people"]
        assert 0 < people.y[0] <= 1
    assert [d.statistic for d in Seism().differences(run)] == ["fb", "fop"]


def test_stored_results_give_the_numbers_of_the_method_itself(
    run: Run, real_data: Path, tmp_path: Path
) -> None:
    """The quadtree written to files, a folder a setting, judged again."""
    data = Bsds500(real_data)
    scene = data.load("2018")
    levels = Quadtree().segment(scene).levels
    for count, threshold in ((8, 1944), (32, 1904), (100, 0)):
        folder = tmp_path / "mine" / str(count)
        folder.mkdir(parents=True)
        cv2.imwrite(str(folder / "2018.png"), partition_at(levels, threshold).astype(np.uint16))
    rows = rows_of(ResultsFolder(tmp_path / "mine"), scene)
    assert [row["setting"] for row in rows] == ["8", "32", "100"]
    wanted = {
        row["regions"]: row
        for row in run.sql(
            "select * from rows where model = 'quadtree' and scene = '2018'"
        ).to_pylist()
    }
    for row in rows[:2]:
        for name in ("fb", "fop", "ssc", "matched_ground_truth"):
            assert row[name] == wanted[row["regions"]][name]


def test_a_folder_becomes_a_method_and_people_come_along(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    plan = Plan("seism", (Spec(str(tmp_path / "mine")),), (Spec("bsds500"),), kind="method")
    with pytest.raises(BadInput, match="holds no results"):
        Seism().plan(plan)
    np.save(tmp_path / "mine" / "2018.npy", np.zeros((321, 481), int))
    segmenters = Seism().plan(plan).segmenters
    assert [s.name for s in segmenters] == ["results", "people"]


def test_people_alone_are_no_test_and_a_run_of_them_has_a_report(tmp_path: Path) -> None:
    assert not Seism().plan(Plan("seism", (), (Spec("bsds500"),), kind="method")).segmenters
    plan = Plan("noc", (Spec("disc"),), (Spec("drawn"),), rounds=1, limit=1)
    run_plan(plan, tmp_path / "run", workers=0)
    (section,) = warned(Run.open(tmp_path / "run"), [])
    assert "no results" in section.text


def test_wrong_input_is_named(tmp_path: Path) -> None:
    scene = Image("drawn", "7", np.zeros((4, 4, 3), np.uint8), ())
    with pytest.raises(BadInput, match="no human partitions"):
        rows_of(Quadtree(), scene)
    with pytest.raises(BadInput, match="evaluates methods"):
        Seism().plan(Plan("seism", (Spec("sam"),), ()))
    np.save(tmp_path / "1.npy", np.zeros((2, 2), int))
    with pytest.raises(NotFound, match="no result for drawn/7"):
        ResultsFolder(tmp_path).sweep(scene)
    with pytest.raises(NotFound, match="no folder"):
        ResultsFolder(tmp_path / "absent")


def test_a_image_without_ground_truth_is_named(real_data: Path, tmp_path: Path) -> None:
    for part, suffix in (("images", "jpg"), ("groundTruth", "mat")):
        (tmp_path / "BSDS500" / part / "test").mkdir(parents=True)
        for number in ("2018", "6046"):
            file = Path("BSDS500") / part / "test" / f"{number}.{suffix}"
            (tmp_path / file).write_bytes((real_data / file).read_bytes())
    assert Bsds500(tmp_path).scenes() == ["2018", "6046"]
    (tmp_path / "BSDS500" / "groundTruth" / "test" / "6046.mat").unlink()
    with pytest.raises(NotFound, match=r"bsds500/6046: .* has no ground truth"):
        Bsds500(tmp_path).scenes()


def test_an_edge_map_is_judged_by_its_boundaries_alone() -> None:
    ground_truth = np.array([[1] * 10 + [2] * 10] * 12, dtype=np.int32)
    scene = Image(
        "drawn", "7", np.zeros((12, 20, 3), np.uint8), (), partitions=lambda: [ground_truth]
    )

    class Edges:
        card = ModelCard("edges", "one line", frozenset())

        def segment(self, scene: Scene) -> Segmentation:
            edges = np.zeros(scene.shape, np.float32)
            edges[:, 9] = 0.6
            return Segmentation(edges=edges)

    rows = rows_of(Edges(), scene)
    assert len(rows) == 99
    assert rows[30]["fb"] == 1
    assert rows[80]["fb"] == 0
    assert "fop" not in rows[0]


def test_a_folder_of_edge_maps_is_thinned_to_crests_and_swept(tmp_path: Path) -> None:
    ground_truth = np.array([[1] * 20 + [2] * 20] * 30, dtype=np.int32)
    scene = Image(
        "drawn", "7", np.zeros((30, 40, 3), np.uint8), (), partitions=lambda: [ground_truth]
    )
    broad = 200 - 40 * np.abs(np.arange(40) - 19)
    cv2.imwrite(str(tmp_path / "7.png"), np.tile(broad.clip(0), (30, 1)).astype(np.uint8))
    kept = rows_of(ResultsFolder(tmp_path, kind="edges"), scene)
    as_is = rows_of(ResultsFolder(tmp_path, kind="edges", suppressed=True), scene)
    assert len(kept) == len(as_is) == 99
    assert kept[50]["pb"] == 1
    assert kept[50]["rb"] == 22 / 30  # towards the rim the crest fades
    assert kept[0]["prediction_pixels"] <= 30 <= as_is[0]["ground_truth_pixels"]
    assert kept[77]["prediction_pixels"] > kept[78]["prediction_pixels"] == 0  # 200 of 255 is 0.784
    with pytest.raises(BadInput, match="regions or edges"):
        ResultsFolder(tmp_path, kind="lines")  # type: ignore[arg-type]


def test_partners_are_a_permutation_without_fixed_points() -> None:
    published = partners(["100007", "268048", "226022", "100039", "388067"])
    assert published["100007"] == "268048"
    assert published["100039"] == "226022"
    for images in (["a", "b"], ["a", "100007", "268048"], ["254033", "a", "b", "c"]):
        found = partners(images)
        assert sorted(found.values()) == sorted(images)
        assert all(image != other for image, other in found.items())
    with pytest.raises(BadInput, match="at least two"):
        partners(["a"])


def test_a_partner_is_turned_only_where_it_must_be() -> None:
    array = np.arange(6).reshape(2, 3)
    assert np.array_equal(turned(array, (2, 3)), array)
    assert np.array_equal(turned(array, (3, 2)), np.rot90(array))
    with pytest.raises(BadInput, match="cannot be swapped"):
        turned(array, (4, 4))


class WholeCycles(Bsds500):
    """The 14 images whose partners of the published permutation are among them."""

    def annotated(self) -> list[str]:
        first = ["156054", "365072", "100099"]  # of cycles of 2, 2 and 10 images
        other, chosen = partners(list(super().annotated())), []
        for image in first:
            chosen.append(image)
            while other[chosen[-1]] != image:
                chosen.append(other[chosen[-1]])
        return chosen


def stored_pairs(file: Path, measures: Sequence[str], images: Sequence[str] = ()) -> PairScores:
    """Golden scores of people's partitions, of all images or of these in their order."""
    with file.open() as opened:
        rows = [row for row in csv.DictReader(opened) if not images or row["image"] in images]
    if images:
        rows.sort(key=lambda row: images.index(row["image"]))
    pairs = [[row for row in rows if (row["pair"] == "same") is same] for same in (True, False)]
    same, different = ({m: np.array([float(r[m]) for r in p]) for m in measures} for p in pairs)
    return PairScores(tuple(row["image"] for row in pairs[0]), same, different)


def test_people_have_the_scores_of_the_originals_with_the_same_and_another_image(
    golden: Path, real_data: Path
) -> None:
    """14 of 200 images, from the files."""
    folder = golden / "seism" / "meta"
    listed = json.loads((folder / "sihd_expected.json").read_text())["measures"]
    data = WholeCycles(real_data)
    assert len(data.annotated()) == 14
    found = human_pairs(data, [*listed, "voi"])
    wanted = stored_pairs(folder / "human_scores_test.csv", list(listed), data.annotated())
    assert found.images == wanted.images
    for mine, theirs in ((found.same, wanted.same), (found.different, wanted.different)):
        for measure in set(listed) - {"fb"}:
            np.testing.assert_allclose(mine[measure], theirs[measure], atol=2e-6, err_msg=measure)
    counts = ["cntR", "sumR", "cntP", "sumP"]
    exact = stored_pairs(folder / "human_fb_pixel_exact.csv", counts, data.annotated())
    for mine, by in ((found.same, exact.same), (found.different, exact.different)):
        recall, precision = by["cntR"] / by["sumR"], by["cntP"] / by["sumP"]
        f = 2 * precision * recall / (precision + recall)
        # The union over annotators depends on which of equal optima is taken.
        np.testing.assert_allclose(mine["fb"], f, atol=0.005)
    for row in meta_rows(found, [], [], ["voi"], ["published", "corrected"]):
        assert row.sihd is not None
        assert row.sihd.low <= row.sihd.value <= row.sihd.high


def test_sihd_of_the_published_table_comes_out_of_the_scores(golden: Path, tmp_path: Path) -> None:
    """All 1063 annotations of the test set, same image and another."""
    folder = golden / "seism" / "meta"
    expected = json.loads((folder / "sihd_expected.json").read_text())
    printed = {name: found["table2_sihd"] for name, found in expected["measures"].items()}
    pairs = stored_pairs(folder / "human_scores_test.csv", list(printed))
    assert len(pairs.images) == 1063
    rows = meta_rows(pairs, [], [], list(printed), ["published", "corrected"])
    for row in rows:
        assert row.sihd is not None
        assert row.sihd.low <= row.sihd.value <= row.sihd.high
        assert row.overall is None
        if row.protocol == "published":
            assert round(100 * row.sihd.value, 1) == printed[row.measure], row.measure
    assert len(rows) == 2 * len(printed) == 24
    write_figure(density_charts(pairs), tmp_path / "densities.svg")
    assert (tmp_path / "densities.svg").stat().st_size > 1000


def test_human_agreement_is_equal_on_both_grids(real_data: Path) -> None:
    pairs = human_pairs(Bsds500(real_data), ["fb", "fb-contour"], limit=4)
    for each in (pairs.same, pairs.different):
        assert each["fb-contour"] == pytest.approx(each["fb"], abs=0.12)


def test_human_boundary_scores_equal_the_exact_ones(golden: Path, real_data: Path) -> None:
    pairs = human_pairs(Bsds500(real_data), ["fb"], limit=4)
    with (golden / "seism" / "meta" / "human_fb_pixel_exact.csv").open() as file:
        exact = [row for row in csv.DictReader(file) if row["pair"] == "same"]
    wanted: dict[str, list[float]] = {}
    for row in exact:
        recall = int(row["cntR"]) / int(row["sumR"])
        precision = int(row["cntP"]) / int(row["sumP"])
        f = 2 * precision * recall / (precision + recall)
        wanted.setdefault(row["image"], []).append(f)
    mine: dict[str, list[float]] = {}
    for image, value in zip(pairs.images, pairs.same["fb"], strict=True):
        mine.setdefault(image, []).append(float(value))
    assert len(mine) == 4
    for image, values in mine.items():
        # The union over annotators depends on which of equal optima is taken.
        assert values == pytest.approx(wanted[image], abs=0.002)


def test_the_quadtree_scores_of_the_original_come_out(golden: Path, real_data: Path) -> None:
    """The published baseline was built for portraits and turned for landscapes."""
    stored = np.load(golden / "seism" / "meta" / "method_scores_micro.npz")
    place = {name: k for k, name in enumerate(stored["images"].tolist())}
    found = sweep_method(Quadtree(turned=True), Bsds500(real_data), ["ssc", "nvoi", "fop"], limit=4)
    order = np.argsort([-int(count) for count in stored["params__QuadTree"]])
    rows = [place[image] for image in found.images]
    for measure in ("ssc", "nvoi"):
        wanted = stored[f"{measure}__QuadTree"][rows][:, order] / 1e6
        np.testing.assert_allclose(found.own[measure], wanted, atol=6e-7)
    np.testing.assert_allclose(
        found.own["fop"], stored["fop__QuadTree"][rows][:, order, 0] / 1e6, atol=6e-7
    )


def test_methods_and_baselines_fill_the_table(real_data: Path) -> None:
    data, measures = Bsds500(real_data), ["fop", "ssc", "voi"]
    method = sweep_method(catalogue.methods.make("slic-hierarchy"), data, measures, limit=2)
    baseline = sweep_method(Quadtree(turned=True), data, measures, limit=2)
    pairs = human_pairs(data, measures, limit=2)
    rows = meta_rows(pairs, [method], [baseline], measures, ["published", "corrected"])
    for row in rows:
        assert row.sabd is not None
        assert row.sisd is not None
        assert row.sisd.value > 0.6, row
        assert row.overall is not None
        assert 0 <= row.overall <= 1
    table, spread = meta_sections(rows, pairs)
    columns = [[c.title for c in b.columns] for b in table.blocks if isinstance(b, Table)]
    assert columns == [["measure", "SIHD", "SABD", "SISD", "Global"]] * 2
    (charts,) = [b.charts for b in spread.blocks if isinstance(b, Multiples)]
    assert len(charts) == len(measures)


def test_corrected_settings_are_those_of_the_training_set() -> None:
    """At setting 0 the method beats the quadtree, at 1 it does not; training says 1."""

    def sweeps(values: list[list[float]]) -> MethodSweeps:
        table = {"ssc": np.array(values)}
        return MethodSweeps(("a", "b"), table, {"ssc": np.zeros((2, len(values[0])))})

    method, baseline = sweeps([[0.9, 0.1], [0.9, 0.1]]), sweeps([[0.5], [0.5]])
    learned = replace(method, training=sweeps([[0.1, 0.9], [0.1, 0.9]]))
    bases = [replace(baseline, training=baseline)]
    protocols: list[Literal["published", "corrected"]] = ["published", "corrected"]
    rows = meta_rows(None, [learned], bases, ["ssc"], protocols)
    assert [row.sabd.value for row in rows if row.sabd] == [1, 0]
    assert [row.sisd.value for row in rows if row.sisd] == [1, 1]
    without = meta_rows(None, [method], [baseline], ["ssc"], ["corrected"])
    assert without[0].sabd is not None
    assert without[0].sabd.value == 1
    with pytest.raises(BadInput, match="2 settings on the test and 1 on the training"):
        replace(method, training=baseline)
