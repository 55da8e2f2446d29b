"""Masks from boxes: two steps, sources of boxes, AP beside quality, and what is refused."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from segmeter.analysis.breakdown import splits
from segmeter.benchmarks.zeroshot.boxes.statistics import Scored, groups
from segmeter.benchmarks.zeroshot.boxes.work import masks_of_boxes
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.detection_ground_truth import (
    Category,
    DetectionGroundTruth,
    TrueObject,
    coco_layout,
)
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard
from segmeter.core.plans import Plan
from segmeter.core.prompts import Box
from segmeter.core.scenes import Image
from segmeter.evaluation import evaluate
from segmeter.measures.objects import iou
from segmeter.report.writing import sections_of, write_sections

SHAPE = (50, 60)


class Filler:
    """Fills its box; asked again with its memory, one pixel less on every side."""

    card = ModelCard("filler", "", frozenset({"box"}))

    def __init__(self, remembers=True):
        self.remembers = remembers
        self.asked: list[int] = []

    def encode(self, scene):
        self.shape = scene.shape
        return self

    def predict(self, requests):
        self.asked.append(len(requests))
        return [self._prediction(request) for request in requests]

    def _prediction(self, request):
        (box,) = request.prompts
        inset = 0 if request.state is None else 1
        low = [max(0, round(a) + inset) for a in box.low]
        high = [min(n, round(b) - inset) for b, n in zip(box.high, self.shape, strict=True)]
        state = "logits" if self.remembers else None
        return MaskPrediction(Mask.box(self.shape, low, high), 0.7, state)


def image(shape=SHAPE):
    return Image("made", "p", np.zeros((*shape, 3), np.uint8), [])


def test_every_box_is_predicted_twice_in_one_batch():
    encoded = Filler().encode(image())
    first, second = masks_of_boxes(encoded, [Box((5, 5), (20, 30)), Box((1, 2), (9, 12))])
    assert encoded.asked == [2, 2]
    assert first.refined
    assert first.mask == Mask.box(SHAPE, (6, 6), (19, 29))
    assert second.score == pytest.approx(0.7)
    assert masks_of_boxes(encoded, []) == []


def test_a_model_without_memory_is_called_once():
    encoded = Filler(remembers=False).encode(image())
    (only,) = masks_of_boxes(encoded, [Box((5, 5), (20, 30))])
    assert encoded.asked == [1]
    assert not only.refined


@pytest.mark.long
@pytest.mark.usefixtures("encoded_once")
def test_masks_for_real_boxes_are_the_original_predictors(golden, real_data, real_weights):
    """MobileSAM on an image: box alone, best of three, then its logits and one mask."""
    pytest.importorskip("torch")
    real = golden / "zeroshot" / "real"
    found = json.loads((real / "picodet_coco80.json").read_text())
    masks = json.loads(gzip.decompress((real / "mobile-sam_boxes_coco80.json.gz").read_bytes()))
    data = catalogue.datasets.make("coco", data=real_data / "coco80")
    model = catalogue.models.make("mobile-sam?masks=zeroshot", weights=str(real_weights))
    scene = data.load("000000532481")
    places = [k for k, d in enumerate(found) if d["image_id"] == scene.detection_ground_truth.image]
    boxes = [found[k]["bbox"] for k in places]
    prompts = [Box((y, x), (y + high, x + wide)) for x, y, wide, high in boxes]
    made = masks_of_boxes(model.encode(scene), prompts)
    ground_truths = [Mask.from_coco(masks[k]["segmentation"]) for k in places]
    assert len(made) == 3
    assert min(iou(t, m.mask, None) for t, m in zip(ground_truths, made, strict=True)) >= 0.999


def test_ground_truth_survives_its_line_of_json():
    ground_truth = DetectionGroundTruth(
        7, SHAPE, (Category(3, "cat", "r"), Category(9, "dog")),
        (TrueObject(3, Mask.box(SHAPE, (2, 3), (9, 9)), (3.0, 2.0, 6.5, 7.0), 41.5, True),),
        True, (9,), (3,),
    )  # fmt: skip
    assert DetectionGroundTruth.from_json(ground_truth.to_json()) == ground_truth
    layout = coco_layout([ground_truth])
    assert layout["images"][0]["neg_category_ids"] == [9]
    assert layout["annotations"][0]["area"] == 41.5
    assert layout["categories"][0] == {"id": 3, "name": "cat", "frequency": "r"}
    with pytest.raises(BadInput, match="cannot be read"):
        DetectionGroundTruth.from_json("{}")


def test_areas_boxes_and_crowds_of_the_annotations_are_kept(real_data):
    file = real_data / "coco80" / "coco" / "annotations" / "instances_val2017.json"
    data = catalogue.datasets.make("coco", data=real_data / "coco80")
    stated = json.loads(file.read_text())
    ground_truths = [data.load(scene).detection_ground_truth for scene in data.scenes()[:20]]
    for ground_truth in ground_truths:
        mine = [a for a in stated["annotations"] if a["image_id"] == ground_truth.image]
        assert [o.area for o in ground_truth.objects] == [a["area"] for a in mine]
        assert [list(o.box) for o in ground_truth.objects] == [a["bbox"] for a in mine]
        assert [o.crowd for o in ground_truth.objects] == [bool(a["iscrowd"]) for a in mine]
    assert any(o.crowd for t in ground_truths for o in t.objects)
    lvis = catalogue.datasets.make("lvis", data=real_data)
    assert lvis.load(lvis.scenes()[0]).detection_ground_truth.federated


def run_boxes(real_data, out, boxes, models=("filler",), dataset="coco", limit=4):
    made = [Filler() if name == "filler" else _named(name) for name in models]
    root = real_data / "coco80" if dataset == "coco" else real_data
    data = catalogue.datasets.make(dataset, data=root)
    return evaluate(
        made, data, benchmark="boxes", out=out, limit=limit, workers=0,
        options={"boxes": str(boxes)}, data=root,
    )  # fmt: skip


def _named(name):
    model = Filler(remembers=False)
    model.card = ModelCard(name, "", frozenset({"box"}))
    return model


def test_true_boxes_are_all_found_and_masks_scored_in_addition(real_data, tmp_path):
    run = run_boxes(real_data, tmp_path / "r", "ground_truth", ("filler", "plain"), limit=3)
    rows = {(r.model, r.protocol, r.statistic): r for r in run.summary()}
    for protocol in ("published", "corrected"):
        assert rows["filler", protocol, "box-ap"].value == pytest.approx(100.0)
        assert rows["filler", protocol, "boxes-found"].value == pytest.approx(100.0)
    for measure in ("ap", "boundary-ap", "mask-iou", "mask-boundary-iou"):
        row = rows["plain", "corrected", measure]
        assert 0 < row.low <= row.value + 1e-9
        assert row.value <= row.high + 1e-9
        assert row.value < 100
    assert rows["plain", "corrected", "boundary-ap"].value < rows["plain", "corrected", "ap"].value
    assert {group.user for group in groups(run)} == {"ground_truth"}
    objects_are_split_by_size_class_and_file(run, rows["plain", "corrected", "mask-iou"], tmp_path)
    write_sections(run, sections_of(run), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for title in (
        "Results",
        "Average precision by size and class",
        "Significant differences",
    ):
        assert title in page


def objects_are_split_by_size_class_and_file(run, mean, folder):
    """With true boxes every object is found, so groups make up the mean mask IoU."""
    for by in ("size", "class"):
        (split,) = [
            s
            for s in splits(run.benchmark, run, by)
            if (s.model, s.protocol) == ("plain", "corrected")
        ]
        masks = sum(m.targets for m in split.means)
        assert masks == mean.targets
        whole = sum(m.interval.value * m.targets for m in split.means) / masks
        assert whole == pytest.approx(mean.value)
    scene = groups(run)[0].scenes[0]
    file = folder / "groups.csv"
    file.write_text(f"mask,side\n{scene}/1,left\n{scene}/2,right\n")
    (split,) = [
        s
        for s in splits(run.benchmark, run, "side", file)
        if (s.model, s.protocol) == ("plain", "corrected")
    ]
    assert [(m.group, m.targets) for m in split.means] == [("left", 1), ("right", 1)]
    file.write_text("mask,side\nnowhere/1,left\n")
    with pytest.raises(BadInput, match="no mask 'nowhere/1' here"):
        splits(run.benchmark, run, "side", file)


def test_a_detectors_file_gives_the_boxes_and_ap_is_that_of_the_file(real_data, golden, tmp_path):
    """On six images, what the run says equals what COCO's evaluator says of the file."""
    from segmeter.measures.detections import coco_scores

    source = golden / "zeroshot" / "real" / "picodet_coco80.json"
    run = run_boxes(real_data, tmp_path / "r", source, limit=6)
    data = catalogue.datasets.make("coco", data=real_data / "coco80")
    ground_truths = [data.load(scene).detection_ground_truth for scene in sorted(data.scenes()[:6])]
    ids = {t.image for t in ground_truths}
    found = [d for d in json.loads(source.read_text()) if d["image_id"] in ids]
    layout = coco_layout(ground_truths)
    wanted = coco_scores(layout, found, "bbox")
    rows = {(r.protocol, r.statistic): r.value for r in run.summary()}
    for name in ("ap", "ap50", "ap75"):
        assert rows["published", f"box-{name}"] == pytest.approx(100 * wanted[name], abs=1e-9)
    assert {group.user for group in groups(run)} == {"picodet_coco80"}


def test_one_image_has_no_interval(real_data, tmp_path):
    run = run_boxes(real_data, tmp_path / "r", "ground_truth", limit=1)
    (row,) = (r for r in run.summary() if (r.statistic, r.protocol) == ("ap", "corrected"))
    assert np.isnan(row.low)
    assert row.value > 0


def test_lvis_is_scored_by_its_rules(real_data, tmp_path):
    run = run_boxes(real_data, tmp_path / "r", "ground_truth", dataset="lvis")
    measures = {r.statistic for r in run.summary()}
    assert "ap" in measures
    assert {"ap-rare", "ap-common", "ap-frequent"} & measures


def test_a_detector_of_cocos_classes_gives_boxes_on_coco_and_is_refused_on_lvis(
    real_data, real_weights, golden, tmp_path, monkeypatch
):
    monkeypatch.setenv("SEGMETER_WEIGHTS", str(real_weights))
    run = run_boxes(real_data, tmp_path / "coco", "picodet", limit=2)
    made = next(g.detections for g in groups(run) if isinstance(g, Scored))
    expected = json.loads((golden / "zeroshot" / "real" / "picodet_coco80.json").read_text())
    wanted = [d for d in expected if d["image_id"] in {t.image for t in made.ground_truths}]
    assert sorted(d["category_id"] for d in made.found) == sorted(d["category_id"] for d in wanted)
    lvis = catalogue.datasets.make("lvis", data=real_data)
    with pytest.raises(BadInput, match="knows COCO's classes, and 'lvis' numbers others; use --bo"):
        catalogue.benchmarks.make("boxes").check(run.plan, {"lvis": lvis})


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([{"image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2], "score": 0.5}], "of image 1,"),
        ([{"image_id": 532481, "category_id": 12, "bbox": [1, 1, 2, 2], "score": 0.5}],
         "category 12"),
        ([{"image_id": 532481, "category_id": 1, "bbox": [1, 1, -2, 2], "score": 0.5}],
         "negative"),
        ([{"image_id": 532481, "category_id": 1, "bbox": [9e3, 1, 2, 2], "score": 0.5}],
         "outside its image of 640 x 426"),
        ([{"image_id": 532481, "category_id": 1, "bbox": [1, 1, 2, 2], "score": float("nan")}],
         "score nan"),
        ({"images": []}, "not a list of detections"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_before_anything_is_written(records, sentence, real_data, tmp_path):
    file = tmp_path / "found.json"
    file.write_text(json.dumps(records))
    with pytest.raises(BadInput, match=sentence):
        run_boxes(real_data, tmp_path / "r", file)
    assert not (tmp_path / "r").exists()


def test_an_absent_file_a_wrong_detector_and_users_are_refused(real_data, tmp_path):
    with pytest.raises(NotFound, match="no file '"):
        run_boxes(real_data, tmp_path / "r", tmp_path / "gone.json")
    with pytest.raises(NotFound, match="no detector 'picodat'; did you mean 'picodet'"):
        run_boxes(real_data, tmp_path / "r", "picodat")
    benchmark = catalogue.benchmarks.make("boxes")
    with pytest.raises(BadInput, match="has no users"):
        benchmark.plan(Plan("boxes", (Spec("x"),), (), users=(Spec("box"),)))
    for name, model in (("boxes", Filler()), ("proposals", "disc")):  # before anything is written
        with pytest.raises(BadInput, match="data in COCO's format; use coco, lvis, or your own"):
            evaluate(model, "mini", benchmark=name, out=tmp_path / "r")
    clicks = Filler()
    clicks.card = ModelCard("clicks", "", frozenset({"click"}))
    with pytest.raises(BadInput, match="'clicks' takes no box prompts, which benchmark 'boxes' gi"):
        evaluate(clicks, "coco", data=real_data / "coco80", benchmark="boxes", out=tmp_path / "r")
    assert not (tmp_path / "r").exists()
