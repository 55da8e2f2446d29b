"""The benchmark of edges: rows, both protocols, the numbers and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from blobs import Blob, Blobs, position_image
from PIL import Image as Picture

from segmeter.analysis.breakdown import splits
from segmeter.analysis.report_parts import published_rows
from segmeter.benchmarks.seism.statistics import COUNTS
from segmeter.benchmarks.zeroshot.edges import EDGE_ROWS, Edges
from segmeter.benchmarks.zeroshot.edges.methods import (
    AutomaticEdges,
    Canny,
    Sobel,
    thinned,
)
from segmeter.benchmarks.zeroshot.edges.statistics import MEASURES, EdgeTables
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.models import ProtocolName, Segmentation
from segmeter.core.plans import Plan
from segmeter.core.scenes import DatasetCard, Image, Scene
from segmeter.engine import run_plan
from segmeter.measures.curves import THRESHOLDS
from segmeter.store import Run

PAPER = published_rows("zeroshot.edges", "table5.csv")

SHAPE = (100, 130)
BOTH: tuple[ProtocolName, ...] = ("published", "corrected")
BLOBS = (
    Blob(40, 50, 22, 28, (40, 34, 20), (983, 899, 907)),
    Blob(95, 55, 18, 20, (30, 20, 50), (924, 987, 886)),
)


def scene() -> Scene:
    """Two ellipses that people cut out at the outline of the model's third maps."""
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    labels = np.ones(SHAPE, dtype=np.int32)
    for number, blob in enumerate(BLOBS, start=2):
        labels[blob.distance(x, y) <= blob.whole] = number
    return Image("blobs", "two", position_image(*SHAPE), (), partitions=lambda: [labels, labels])


def rows_of(method: Any, scene: Scene) -> list[dict[str, Any]]:
    return Edges().work(method, scene, Plan("edges", (), (), protocols=BOTH))


def blobs() -> Blobs:
    model = Blobs()
    model.blobs = BLOBS
    return model


def test_masks_become_edges_where_they_end() -> None:
    method = AutomaticEdges(blobs(), points=8)
    found = method.sweep(scene())
    assert set(found) == {"published", "corrected"}
    for result in found.values():
        assert result.edges is not None
        assert result.edges.shape == SHAPE
        assert 0 < result.edges.max() <= 1
    published, corrected = found["published"].edges, found["corrected"].edges
    assert published is not None
    assert corrected is not None
    # A mask of everything touches the frame, which is an edge as published only.
    assert published[0].max() > 0
    assert corrected[[0, -1]].max() == corrected[:, [0, -1]].max() == 0
    assert np.allclose(published * 255, np.round(published * 255), atol=1e-4)


def test_rows_count_every_protocol_and_threshold() -> None:
    rows = rows_of(AutomaticEdges(blobs(), points=8), scene())
    assert len(rows) == 2 * 99
    EDGE_ROWS.check(rows[0])
    assert {row["protocol"] for row in rows} == set(BOTH)
    best = {r: max(row["f"] for row in rows if row["protocol"] == r) for r in BOTH}
    assert min(best.values()) > 0.3
    assert best["corrected"] != best["published"]
    assert all(row["matched_ground_truth"] <= row["ground_truth_pixels"] for row in rows)


def test_published_suppresses_in_batches_first() -> None:
    method = AutomaticEdges(blobs(), points=16)
    from segmeter.models.automatic.candidates import crop_candidates
    from segmeter.models.automatic.options import Crop

    image = scene()
    kept = crop_candidates(method.model, image, Crop(0, 0, SHAPE[1], SHAPE[0]), method.options)
    assert len(kept) == 768
    assert len(kept.parts) == 4
    ours = {r: method.suppressed(kept, r) for r in BOTH}
    # All masks of nothing stay as published: their boxes have no area.
    empty = kept.boxes.max(axis=1) == 0
    assert empty[ours["published"]].sum() == empty.sum() > 0
    assert not empty[ours["corrected"]].any()


@pytest.mark.parametrize("method", [Canny(), Sobel()])
def test_classical_detectors_find_the_edge_of_a_square(method: Any) -> None:
    pixels = np.full((40, 40, 3), 50, dtype=np.uint8)
    pixels[10:30, 10:30, 1] = 200
    edges = method.segment(Image("drawn", "square", pixels, ())).edges
    assert edges.max() == 1
    assert edges[20, 8:12].max() > 0.5
    assert edges[18:22, 18:22].max() < 0.05


def test_an_empty_map_stays_empty_in_both_protocols() -> None:
    flat = np.zeros((9, 9), dtype=np.float32)
    for protocol in BOTH:
        assert (thinned(flat, flat, flat, protocol) == 0).all()


def test_partitions_and_images_without_people_are_refused() -> None:
    class Regions:
        card = Canny.card

        def segment(self, scene: Scene) -> Segmentation:
            return Segmentation(labels=np.ones(SHAPE, dtype=np.int32))

    with pytest.raises(BadInput, match="edges evaluates edge maps"):
        rows_of(Regions(), scene())
    with pytest.raises(BadInput, match="no human partitions"):
        rows_of(Canny(), Image("drawn", "none", position_image(*SHAPE), ()))


def test_a_folder_of_edge_maps_is_scored_as_a_method(tmp_path: Path) -> None:
    Picture.fromarray(np.zeros(SHAPE, np.uint8)).save(tmp_path / "two.png")
    asked = Plan("edges", (Spec(str(tmp_path), {"kind": "edges"}),), (Spec("x"),), kind="method")
    method, *baselines = Edges().plan(asked).segmenters
    assert (method.name, len(baselines)) == ("results", 2)
    rows = rows_of(catalogue.methods.make(method), scene())
    assert {row["prediction_pixels"] for row in rows} == {0}


def test_models_become_methods_and_baselines_join() -> None:
    plan = Plan("edges", (Spec("mobile-sam", {"device": "cpu"}),), (Spec("bsds500"),))
    filled = Edges().plan(plan)
    assert filled.kind == "method"
    assert [str(s) for s in filled.segmenters] == [
        "automatic-edges?device=cpu&model=mobile-sam",
        "canny-edges",
        "sobel-edges",
    ]
    alone = Edges().plan(replace(plan, options={"baselines": False}))
    assert len(alone.segmenters) == 1
    with pytest.raises(BadInput, match="no option 'baseline'"):
        Edges().plan(replace(plan, options={"baseline": False}))


def group(protocol: ProtocolName, images: int = 6) -> EdgeTables:
    rng = np.random.default_rng(5)
    share = 1 - THRESHOLDS
    ground_truth = np.full((images, 99), 100.0)
    prediction = np.round(150 * share * rng.uniform(0.8, 1, (images, 1))) + 1
    matched = np.floor(prediction * (1 - 0.6 * share) * rng.uniform(0.8, 1, (images, 1)))
    counts = (np.minimum(matched, ground_truth), ground_truth, matched, prediction)
    names = tuple(map(str, range(images)))
    keys = tuple((name, "") for name in names)
    columns = {name: list(table) for name, table in zip(COUNTS, counts, strict=True)}
    lines = pa.table({**columns, "threshold": [THRESHOLDS] * images})
    return EdgeTables("m", "d", "", protocol, keys, names, lines, {})


@pytest.mark.parametrize("protocol", BOTH)
def test_the_best_threshold_of_each_image_is_no_worse_than_one_for_all(protocol: str) -> None:
    ods, ois, ap, r50 = (group(protocol).estimates[name].value for name in MEASURES)
    assert 0 < ods <= ois + 0.01  # up to the interpolation between thresholds
    assert 0 < ap <= 1.01
    assert 0 <= r50 <= 1


def test_resampled_sets_surround_the_value() -> None:
    one = group("corrected")
    found = [one.estimates[name] for name in MEASURES]
    assert all(number.low <= number.value + 1e-9 for number in found)
    assert all(number.high >= number.value - 1e-9 for number in found)


def test_the_papers_table_is_shipped() -> None:
    sam = next(row for row in PAPER if row["method"] == "SAM")
    assert [sam[k] for k in ("ods", "ois", "ap", "r50")] == [".768", ".786", ".794", ".928"]


def test_the_papers_table_is_the_reference_folders(golden: Path) -> None:
    printed = (golden / "zeroshot" / "tables" / "table5_edges_bsds500.csv").read_text()
    lines = printed.replace("EDETR (misprint of EDTER)", "EDTER").splitlines()[1:]
    ours = [",".join(row.values()) for row in PAPER]
    assert ours[: len(lines)] == lines


class TwoImages:
    """A dataset of two drawn images."""

    card = DatasetCard("drawn-edges", "two images with ellipses", "none", "none")

    def scenes(self) -> list[str]:
        return ["one", "two"]

    def load(self, name: str) -> Scene:
        return scene()

    def fingerprint(self) -> str:
        return "same"


def test_a_run_gives_numbers_and_sections(tmp_path: Path) -> None:
    plan = Plan(
        "edges", (Spec("canny-edges"),), (Spec("mine"),), kind="method", protocols=BOTH, threads=1
    )
    tally = run_plan(plan, tmp_path / "run", workers=0, objects={"mine": TwoImages()})
    assert tally.failed == 0
    run = Run.open(tmp_path / "run")
    rows = Edges().summary(run)
    assert {row.statistic for row in rows} == {"ods", "ois", "ap", "r50", "f"}
    assert {row.protocol for row in rows} == set(BOTH)
    overview, comparison = Edges().sections(run)
    assert overview.title.startswith("Results: ")
    assert len(comparison.blocks) == 1
    file = tmp_path / "groups.csv"
    file.write_text("mask,place\none,indoors\ntwo,outdoors\n")
    found = splits(run.benchmark, run, "place", file)
    assert {m.group for split in found for m in split.means} == {"indoors", "outdoors"}
    with pytest.raises(BadInput, match="whole images are scored here, which have no 'class'"):
        splits(run.benchmark, run, "class")
