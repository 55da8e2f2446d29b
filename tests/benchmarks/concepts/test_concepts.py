"""The benchmark of phrases: pairs with negatives, a run from end to end, its statistics."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Picture

import segmeter
from segmeter.benchmarks.concepts.pairs import Pair, pairs_of
from segmeter.benchmarks.concepts.statistics import ConceptPairs
from segmeter.cli._printing import print_summary
from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.models import ModelCard
from segmeter.models.text_prompts import InstanceMasks, concept_of

CLASSES = ("cat", "dog", "cup", "car", "bus", "kite")
# Classes by image: cat and dog occur together, as do cup and car.
THERE = (("cat", "dog"), ("cat", "dog", "cat"), ("cup", "car"), ("cat",), ("dog", "kite"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """COCO's layout with five small images."""
    folder = tmp_path / "data" / "coco"
    (folder / "val2017").mkdir(parents=True)
    (folder / "annotations").mkdir()
    images: list[Any] = []
    things: list[Any] = []
    for k, names in enumerate(THERE):
        file = f"{k}.png"
        Picture.fromarray(np.full((40, 60, 3), 30 * k, np.uint8)).save(folder / "val2017" / file)
        images.append({"id": k + 1, "file_name": file, "height": 40, "width": 60})
        for n, name in enumerate(names):
            x, y = 18.0 * n, 5.0
            corners = [x, y, x + 14, y, x + 14, y + 20, x, y + 20]
            things.append(
                {
                    "id": 10 * k + n + 1, "image_id": k + 1, "category_id": CLASSES.index(name) + 1,
                    "bbox": [x, y, 14, 20], "area": 280, "iscrowd": 0, "segmentation": [corners],
                }
            )  # fmt: skip
    categories = [{"id": n + 1, "name": name} for n, name in enumerate(CLASSES)]
    content = {"images": images, "annotations": things, "categories": categories}
    path = folder / "annotations" / "instances_val2017.json"
    path.write_text(json.dumps(content))
    return tmp_path / "data"


class Reader:
    """Answers with the scene's own objects; `always` also where there are none."""

    def __init__(self, always: bool = False, lost: int = 0, score: float = 0.9) -> None:
        self.always, self.lost = always, lost
        takes = frozenset({"text", "example"})
        self.card = ModelCard(f"reader-{always}-{lost}", "a test", takes)
        self.score, self.asked = score, list[segmeter.Request]()

    def encode(self, scene: Any) -> Any:
        reader = self

        class Encoded:
            def predict(self, requests: Any) -> list[InstanceMasks]:
                made = []
                reader.asked += requests
                for request in requests:
                    phrase, box = concept_of(request, reader.card.abilities)
                    if box is not None:
                        phrase = next(t.label for t in scene.targets if t.mask.low == box.low)
                    found = [t.mask for t in scene.targets if t.label == phrase][reader.lost :]
                    if reader.always and not found:
                        found = [scene.targets[0].mask]
                    scores = np.full(len(found), reader.score, np.float32)
                    made.append(InstanceMasks(found, scores, scene.shape))
                return made

        return Encoded()


def numbers(run: segmeter.Run, protocol: str, model: str = "") -> dict[str, float]:
    return {
        row.statistic: row.value
        for row in run.summary()
        if row.protocol == protocol and model in row.model
    }


def test_pairs_have_as_many_negatives_half_of_them_hard(data: Path) -> None:
    scenes = {s.id: s for s in segmeter.load_dataset("coco", data)}
    pairs = pairs_of(scenes["1"], "", 1.0, seed=0)
    assert [(p.phrase, p.kind) for p in pairs[:2]] == [("cat", "positive"), ("dog", "positive")]
    assert [len(p.annotators[0].masks) for p in pairs[:2]] == [2, 1]
    # Kite is the only absent class that occurs with cat or dog elsewhere.
    assert (pairs[2].phrase, pairs[2].kind) == ("kite", "hard negative")
    assert pairs[3].kind == "negative"
    assert pairs[3].phrase in ("cup", "car", "bus")
    assert pairs == pairs_of(scenes["1"], "", 1.0, seed=0)
    drawn = {pairs_of(scenes["1"], "", 1.0, seed=k)[3].phrase for k in range(20)}
    assert len(drawn) > 1
    again = Pair.from_json("cat", pairs[0].to_json(), scenes["1"].shape)
    assert again.annotators[0].masks == pairs[0].annotators[0].masks


def test_a_run_scores_perfect_and_careless_readers(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [Reader(), Reader(always=True), Reader(lost=1)]
    run = segmeter.evaluate(models, "coco", data=data, out=tmp_path / "run", benchmark="concepts")
    perfect = numbers(run, "corrected", "reader-False-0")
    assert perfect["cgf1"] == perfect["recall@0.75"] == perfect["top-1"] == 100
    assert perfect["il-mcc"] == 1
    assert perfect["wrong-masks"] == 0
    assert numbers(run, "published", "reader-False-0")["cgf1"] == pytest.approx(100, abs=0.02)
    always = numbers(run, "corrected", "reader-True")
    assert "cgf1" not in always  # every pair was answered: undefined
    assert always["il-fpr"] == 100
    assert always["wrong-masks"] == 1
    assert always["pmf1"] == 100
    assert numbers(run, "published", "reader-True")["cgf1"] == 0
    lost = numbers(run, "corrected", "reader-False-1")
    assert lost["recall@0.5"] == pytest.approx(100 / 10)
    assert lost["top-1"] == 0
    page = run.report().read_text()
    assert "Phrases with most errors" in page
    counted = f"{run.summary()[0].targets} pairs"  # not objects
    assert f"{counted} in " in page
    print_summary(run, as_json=False)
    assert f"coco, {counted}, protocol corrected" in capsys.readouterr().out
    assert "missed" in page


def test_no_ranges_are_explained_where_only_hidden_columns_have_any(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Reader()
    model.card = replace(model.card, name="reader-of-phrases-with-a-long-name")
    run = segmeter.evaluate(
        model, "coco", data=data, out=tmp_path / "run", benchmark="concepts", limit=1
    )
    assert any(row.low < row.high for row in run.summary() if row.statistic == "top-1")
    print_summary(run, as_json=False)
    said = capsys.readouterr().out
    assert "left out to fit the terminal: top-1" in said
    assert "ranges: " not in said


def test_phrases_of_a_table_name_objects_or_nothing(data: Path, tmp_path: Path) -> None:
    table = tmp_path / "phrases.csv"
    table.write_text("image,phrase,objects\n0,cat,1\n0,the left animal,1\n0,unicorn,\n")
    run = segmeter.evaluate(
        Reader(), "coco", data=data, out=tmp_path / "run", benchmark="concepts",
        options={"phrases": str(table)},
    )  # fmt: skip
    found = numbers(run, "corrected")
    assert found["il-recall"] == 50  # the phrase is not a class name
    assert found["il-fpr"] == 0
    table.write_text("image,phrase\n0,cat\n0,cat\n")
    with pytest.raises(SegmeterError, match="a phrase twice"):
        pairs_of(segmeter.load_dataset("coco", data)[0], str(table), 1.0, 0)


def test_an_example_box_replaces_the_phrase_on_positive_pairs(data: Path, tmp_path: Path) -> None:
    for prompt, kinds in (("box", {segmeter.Box}), ("both", {segmeter.Text, segmeter.Box})):
        reader = Reader()
        run = segmeter.evaluate(
            reader, "coco", data=data, out=tmp_path / prompt, benchmark="concepts",
            options={"prompt": prompt}, workers=0,
        )  # fmt: skip
        found = numbers(run, "corrected")
        assert found["pmf1"] == found["recall@0.5"] == 100
        assert ("cgf1" in found) == (prompt == "both")  # with boxes alone there are no negatives
        assert {type(p) for request in reader.asked for p in request.prompts} == kinds
    scene = segmeter.load_dataset("coco", data)[1]
    pair = next(p for p in pairs_of(scene, "", 0, 0) if p.phrase == "dog")
    (dog,) = pair.annotators[0].masks
    assert pair.example == segmeter.Box(dog.low, tuple(n - 1 for n in dog.high))


def test_the_threshold_is_chosen_on_other_images_than_it_is_tested_on(
    data: Path, tmp_path: Path
) -> None:
    run = segmeter.evaluate(
        Reader(score=0.3), "coco", data=data, out=tmp_path / "run", benchmark="concepts"
    )
    found = numbers(run, "corrected")
    assert found["recall@0.5"] == 0  # no mask reaches 0.5
    assert found["cgf1-calibrated"] == 100
    (group,) = [g for g in run.benchmark.groups(run) if g.protocol == "corrected"]
    assert isinstance(group, ConceptPairs)
    assert group.thresholds is not None
    assert max(group.thresholds) <= 0.3
    # One half has wrong masks at 0.3, the other its right ones: each takes the other's threshold.
    wrong = Mask.box((40, 60), (0, 0), (4, 4))
    answers = [
        replace(a, scores=[0.3 if half else 0.8] * len(a.masks))
        if a.masks or half
        else replace(a, masks=[wrong], scores=[0.3])
        for a, half in zip(group.answers, group.half, strict=True)
    ]
    scored = [one.scored("corrected") for one in answers]
    split = replace(group, answers=tuple(answers), scored=tuple(filter(None, scored)))
    assert split.thresholds == (0.05, 0.35)
    assert 0 < split.calibrated["recall"][0] < 1
    assert "cgF1 by score threshold" in run.report().read_text()


def test_pairs_of_saco_have_several_annotators(tmp_path: Path) -> None:
    folder = tmp_path / "saco"
    (folder / "images").mkdir(parents=True)
    for name in ("a.png", "b.png"):
        Picture.fromarray(np.full((40, 60, 3), 90, np.uint8)).save(folder / "images" / name)
    left, right = Mask.box((40, 60), (5, 5), (25, 25)), Mask.box((40, 60), (5, 35), (25, 55))
    pairs = [(1, "a.png", "red cup", 1), (2, "a.png", "unicorn", 1), (3, "b.png", "cup", 1),
             (4, "b.png", "many cups", 0)]  # fmt: skip
    images = [
        {"id": i, "file_name": file, "height": 40, "width": 60, "text_input": text,
         "is_instance_exhaustive": whole} for i, file, text, whole in pairs
    ]  # fmt: skip
    for name, drawn in (("1.json", {1: [left]}), ("2.json", {1: [left, right], 3: [right]})):
        things = [
            {"id": 10 * pair + k, "image_id": pair, "category_id": 1, "iscrowd": 0,
             "segmentation": mask.to_coco()}
            for pair, masks in drawn.items() for k, mask in enumerate(masks)
        ]  # fmt: skip
        content = {"images": images, "annotations": things, "categories": [{"id": 1, "name": "x"}]}
        (folder / name).write_text(json.dumps(content))
    source = segmeter.load_dataset("saco", tmp_path)
    scenes = {s.id: s for s in source}
    assert [t.label for t in scenes["a"].targets] == ["red cup"]
    assert not scenes["b"].targets
    red, unicorn = pairs_of(scenes["a"], "", 1.0, 0)
    assert [len(one.masks) for one in red.annotators] == [1, 2]
    assert (red.kind, unicorn.kind) == ("positive", "negative")
    assert [p.exhaustive for p in pairs_of(scenes["b"], "", 1.0, 0)] == [True, False]
    # The reader answers as the first annotator: the oracle takes that one, and the negative of
    # 'cup' by the first annotator agrees with no answer.
    run = segmeter.evaluate(
        Reader(), "saco", data=tmp_path, out=tmp_path / "run", benchmark="concepts"
    )
    found = numbers(run, "published")
    assert found["cgf1"] == pytest.approx(100, abs=0.05)
    assert found["wrong-masks"] == 0
    (folder / "1.json").write_text('{"images": [{}], "annotations": [], "categories": []}')
    with pytest.raises(BadInput, match="not in SA-Co's layout"):
        segmeter.load_dataset("saco", tmp_path).scenes()


def test_models_and_data_without_text_or_classes_are_refused(data: Path, tmp_path: Path) -> None:
    words = r"'disc' takes no text prompts, which benchmark 'concepts' gives \(it takes box, click"
    with pytest.raises(SegmeterError, match=words):
        segmeter.evaluate("disc", "coco", data=data, out=tmp_path / "a", benchmark="concepts")
    assert not (tmp_path / "a").exists()
    (tmp_path / "own.py").write_text("def blank(image, prompts):\n    return image[..., 0] > 255\n")
    with pytest.raises(SegmeterError, match="takes no text prompts"):  # made only by its jobs
        segmeter.evaluate(
            f"{tmp_path}/own.py:blank", "coco", data=data, out=tmp_path / "c",
            benchmark="concepts", workers=0, limit=1,
        )  # fmt: skip
    with pytest.raises(BadInput, match="no users"):
        segmeter.evaluate(
            Reader(), "coco", data=data, out=tmp_path / "b", benchmark="concepts", users="box"
        )
