"""The benchmark of phrases: pairs with negatives, a run from end to end, its statistics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Picture

import segmeter
from segmeter.benchmarks.concepts.pairs import Pair, pairs_of
from segmeter.core.errors import BadInput, SegmeterError
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

    def __init__(self, always: bool = False, lost: int = 0) -> None:
        self.always, self.lost = always, lost
        self.card = ModelCard(f"reader-{always}-{lost}", "a test", frozenset({"text"}))

    def encode(self, scene: Any) -> Any:
        reader = self

        class Encoded:
            def predict(self, requests: Any) -> list[InstanceMasks]:
                made = []
                for request in requests:
                    phrase, _ = concept_of(request)
                    found = [t.mask for t in scene.targets if t.label == phrase][reader.lost :]
                    if reader.always and not found:
                        found = [scene.targets[0].mask]
                    scores = np.full(len(found), 0.9, np.float32)
                    made.append(InstanceMasks(found, scores, scene.shape))
                return made

        return Encoded()


def numbers(run: segmeter.Run, protocol: str, model: str = "") -> dict[str, float]:
    return {
        row.measure: row.value
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


def test_a_run_scores_perfect_and_careless_readers(data: Path, tmp_path: Path) -> None:
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
    assert "missed" in page


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


def test_models_and_data_without_text_or_classes_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(SegmeterError, match="takes no text"):
        segmeter.evaluate("disc", "coco", data=data, out=tmp_path / "a", benchmark="concepts")
    with pytest.raises(BadInput, match="no users"):
        segmeter.evaluate(
            Reader(), "coco", data=data, out=tmp_path / "b", benchmark="concepts", users="box"
        )
