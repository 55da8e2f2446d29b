"""The benchmark of proposals: ranking, recall by size and frequency, both protocols."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blobs import Blob, Blobs, position_image

import segmeter
from segmeter.analysis.breakdown import splits
from segmeter.analysis.report_parts import published_rows
from segmeter.benchmarks.zeroshot.proposals import PROPOSAL_ROWS, Proposals
from segmeter.benchmarks.zeroshot.proposals.work import groups_of, ranked, work
from segmeter.cli._printing import print_summary
from segmeter.core.catalogue import Spec
from segmeter.core.detection_ground_truth import Category, DetectionGroundTruth, TrueObject
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.plans import Plan
from segmeter.core.scenes import DatasetCard, Image
from segmeter.engine import run_plan
from segmeter.models.automatic.candidates import crop_candidates
from segmeter.models.automatic.options import Crop, Options
from segmeter.store import Run

PAPER = published_rows("zeroshot.proposals", "table6.csv")

SHAPE = (100, 130)
BOTH: tuple[ProtocolName, ...] = ("published", "corrected")
BLOBS = (
    Blob(40, 50, 22, 28, (40, 34, 20), (983, 899, 907)),
    Blob(95, 55, 18, 20, (30, 20, 50), (924, 987, 886)),
)
CLASSES = (Category(1, "cup", "f"), Category(2, "spoon", "r"), Category(3, "fork", "c"))


class OneImage(Image):
    """The two ellipses, one of a frequent and one of a rare class."""

    @property
    def detection_ground_truth(self) -> DetectionGroundTruth:
        return DetectionGroundTruth(7, SHAPE, CLASSES, objects(), federated=True, negative=(3,))


def objects() -> tuple[TrueObject, ...]:
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    found = []
    for category, blob in enumerate(BLOBS, start=1):
        mask = Mask.of(blob.distance(x, y) <= blob.whole)
        (top, left), (bottom, right) = mask.low, mask.high
        box = (float(left), float(top), float(right - left), float(bottom - top))
        found.append(TrueObject(category, mask, box, float(mask.area)))
    return tuple(found)


def scene() -> OneImage:
    return OneImage("blobs", "two", position_image(*SHAPE), ())


def blobs() -> Blobs:
    model = Blobs()
    model.blobs = BLOBS
    return model


def candidates() -> Any:
    options = Options(points=8, score=0.0, stability=0.0, box_nms=0.9, covers=2.0)
    return crop_candidates(blobs(), scene(), Crop(0, 0, SHAPE[1], SHAPE[0]), options)


def test_proposals_are_ranked_by_the_mean_of_score_and_stability() -> None:
    kept = candidates()
    for protocol in BOTH:
        best = kept.take(ranked(kept, 0.9, 1000, protocol))
        means = (best.scores.astype(np.float64) + best.stability) / 2
        known = means[~np.isnan(means)]
        assert (np.diff(known) <= 0).all()
        assert len(known) > 4
    assert len(ranked(kept, 0.9, 5)) == 5


def test_empty_masks_come_last_as_published_and_not_at_all_when_corrected() -> None:
    kept = candidates()
    published, corrected = (kept.take(ranked(kept, 0.9, 1000, r)).stability for r in BOTH)
    empty = np.isnan(published)
    assert empty.any()
    assert empty[-empty.sum() :].all()
    assert not np.isnan(corrected).any()


def test_rows_count_objects_by_size_and_by_frequency() -> None:
    image = scene()
    rows = work(blobs(), image, filled(points=8, most=50))
    PROPOSAL_ROWS.check(rows[0])
    keys = {(r["objects_of"], r["protocol"], r["number"]) for r in rows}
    assert len(keys) == len(rows) == 7 * 2 * 2
    counts = {r["objects_of"]: r["objects"] for r in rows}
    assert counts["all"] == counts["small"] + counts["medium"] == 2
    assert (counts["frequent"], counts["rare"], counts["common"]) == (1, 1, 0)
    whole = [r for r in rows if (r["objects_of"], r["number"]) == ("all", 50)]
    assert all(r["recall"] > 0.5 for r in whole)
    assert all(r["recall"] is None for r in rows if r["objects_of"] == "common")


def test_classes_that_were_not_searched_for_make_no_difference_to_recall() -> None:
    ground_truth, masks = scene().detection_ground_truth, [thing.mask for thing in objects()]
    for changed in (
        replace(ground_truth, negative=()),
        replace(ground_truth, not_exhaustive=(1, 2)),
    ):
        for name, found in groups_of(changed, masks, 1000).items():
            assert (found.matched == groups_of(ground_truth, masks, 1000)[name].matched).all()


def test_wrong_settings_and_data_are_refused() -> None:
    plan = Plan("proposals", (Spec("synthetic-blobs"),), (Spec("mine"),))
    for options, said in (
        ({"points": 0}, "from 1, not 0"),
        ({"nms": 2.0}, "from 0 to 1, not 2.0"),
        ({"point": 4}, "no option 'point'"),
    ):
        with pytest.raises(BadInput, match=said):
            Proposals().plan(replace(plan, options=options))
    with pytest.raises(BadInput, match="use --model"):
        Proposals().plan(replace(plan, kind="method"))
    filled = Proposals().plan(plan)
    plain = Image("drawn", "one", position_image(*SHAPE), ())
    with pytest.raises(BadInput, match="data in COCO's format"):
        Proposals().work(blobs(), plain, filled)


def test_the_first_sam_resizes_as_metas_predictor() -> None:
    plan = Plan("proposals", (Spec("mobile-sam"), Spec("disc")), (Spec("lvis"),))
    assert [str(s) for s in Proposals().plan(plan).segmenters] == [
        "mobile-sam?resize=pillow",
        "disc",
    ]


class Two:
    """A dataset of two drawn images."""

    card = DatasetCard("drawn-proposals", "two images with ellipses", "none", "none")

    def scenes(self) -> list[str]:
        return ["one", "two"]

    def load(self, name: str) -> Image:
        return scene()

    def fingerprint(self) -> str:
        return "same"


def test_a_run_gives_numbers_and_sections(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan(
        "proposals",
        (Spec("mine"), Spec("disc")),
        (Spec("two"),),
        protocols=BOTH,
        options={"points": 6},
    )
    tally = run_plan(plan, tmp_path / "run", workers=0, objects={"mine": blobs(), "two": Two()})
    assert tally.failed == 0
    run = Run.open(tmp_path / "run")
    rows = Proposals().summary(run)
    values = {(r.model, r.protocol, r.statistic): r.value for r in rows}
    assert values["mine", "corrected", "ar@1000"] > values["disc", "corrected", "ar@1000"]
    assert values["mine", "corrected", "ar@10"] <= values["mine", "corrected", "ar@1000"]
    assert values["mine", "published", "masks"] > values["mine", "corrected", "masks"]
    assert ("mine", "corrected", "ar@1000-common") not in values
    section, *_ = Proposals().sections(run)
    assert section.title.startswith("Results: ")
    print_summary(segmeter.open_run(tmp_path / "run"), as_json=False)
    assert "two, 2 images, " in capsys.readouterr().out
    file = tmp_path / "groups.csv"
    file.write_text("mask,place\none,indoors\ntwo,outdoors\n")
    (split,) = [
        s
        for s in splits(run.benchmark, run, "place", file)
        if (s.model, s.protocol) == ("mine", "corrected")
    ]
    assert [m.group for m in split.means] == ["indoors", "outdoors"]
    assert split.means[0].interval.value == pytest.approx(values["mine", "corrected", "ar@1000"])


def test_the_papers_table_is_shipped() -> None:
    sam = next(row for row in PAPER if row["method"] == "SAM")
    assert (sam["all"], sam["rare"]) == ("59.3", "65.8")


def test_the_papers_table_is_the_reference_folders(golden: Path) -> None:
    printed = (golden / "zeroshot" / "tables" / "table6_proposals_lvis_v1.csv").read_text()
    lines = [line.split(",")[1:] for line in printed.splitlines()[1:]]
    assert [list(row.values())[1:] for row in PAPER][: len(lines)] == lines


def test_a_single_output_is_suppressed_in_an_order_that_the_seed_draws() -> None:
    image, drawn = scene(), candidates()
    by_number = [np.random.default_rng(seed).random(len(drawn)) for seed in range(4)]
    orders = {tuple(sorted(ranked(drawn, 0.3, 1000, "corrected", own))) for own in by_number}
    assert len(orders) > 1
    single = replace(filled(points=6, output="single"), seed=3)
    one, again, three = (work(blobs(), image, plan) for plan in (single, single, filled(points=6)))
    assert [r["matched"] for r in one] == [r["matched"] for r in again]
    assert one[0]["proposals"] < three[0]["proposals"]


def test_a_plan_keeps_all_options() -> None:
    assert set(filled().options) == {"points", "nms", "most", "output"}
    assert filled(output="single").options["output"] == "single"
    with pytest.raises(BadInput, match="three or single"):
        filled(output="four")


def filled(**options: Any) -> Plan:
    plan = Plan("proposals", (Spec("synthetic-blobs"),), (Spec("mine"),), options=options)
    return Proposals().plan(plan)
