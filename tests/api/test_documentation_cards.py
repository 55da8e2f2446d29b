"""Cards: every question, facts from data and runs, kept answers, and metadata that hubs read."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import segmeter
from segmeter.api.documentation_cards import QUESTIONS, Card, _licence
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.models import ModelCard


def test_every_question_of_the_supplement_is_included(golden: Path) -> None:
    listed = json.loads((golden / "words" / "cards.json").read_text())
    kinds = {"Data set card": "dataset", "Annotation card": "annotation", "Model card": "model"}
    asked = [
        (kind, section, number)
        for kind, sections in QUESTIONS.items()
        for section, topics in sections.items()
        for number in range(1, len(topics) + 1)
    ]
    wanted = [(kinds[e["card"]], e["section"], e["number"]) for e in listed]
    assert sorted(asked) == sorted(wanted)
    for entry in listed:
        topic = QUESTIONS[kinds[entry["card"]]][entry["section"]][entry["number"] - 1]
        assert entry["topic"].endswith(topic)


def test_a_data_set_card_counts_what_is_there(tmp_path: Path) -> None:
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    import cv2

    labels = np.zeros((40, 60), np.uint8)
    labels[5:15, 5:25], labels[20:35, 30:50] = 1, 2
    cv2.imwrite(str(tmp_path / "images" / "a.png"), np.zeros((40, 60, 3), np.uint8))
    cv2.imwrite(str(tmp_path / "masks" / "a.png"), labels)
    card = segmeter.make_card("dataset", str(tmp_path))
    assert card.filled["Composition", 2].startswith("1 image and 2 masks (2.0 per image")
    assert "60 x 40" in card.filled["Composition", 2]
    assert card.filled["Composition", 8].startswith("0 masks repeat")
    assert "TODO(author)" in card.to_markdown()


def test_answers_of_people_are_kept_when_a_card_is_made_again(tmp_path: Path) -> None:
    card = segmeter.make_card("dataset", "mini")
    card.write(tmp_path)
    content = json.loads((tmp_path / "card.json").read_text())
    assert len(content["questions"]) == 55
    content["questions"][0]["answer"] = "To teach."
    (tmp_path / "card.json").write_text(json.dumps(content))
    again = segmeter.make_card("dataset", "mini", earlier=tmp_path / "card.json")
    again.write(tmp_path)
    assert again.open_questions == card.open_questions - 1
    assert "To teach." in (tmp_path / "README.md").read_text()
    assert json.loads((tmp_path / "card.json").read_text())["questions"][0]["answer"] == "To teach."
    with pytest.raises(BadInput, match="is a dataset card, not a model card"):
        segmeter.make_card("model", "disc", earlier=tmp_path / "card.json")
    (tmp_path / "card.json").write_text("{")
    with pytest.raises(BadInput, match="cannot be read as a card"):
        segmeter.make_card("dataset", "mini", earlier=tmp_path / "card.json")


@pytest.fixture(scope="module")
def model_card(tmp_path_factory: pytest.TempPathFactory) -> Card:
    out = tmp_path_factory.mktemp("card") / "run"
    segmeter.evaluate(["synthetic-oracle", "disc"], "mini", out=out, rounds=2, limit=2)
    return segmeter.make_card("model", "disc", runs=[out])


def test_a_model_card_reports_the_results_of_runs_with_intervals(model_card: Card) -> None:
    results: Any = model_card.metadata["model-index"][0]["results"]
    assert {entry["dataset"]["name"] for entry in results} == {"mini"}
    metric = results[0]["metrics"][0]
    assert metric["args"]["low"] <= metric["value"] <= metric["args"]["high"]
    assert "mini" in model_card.filled["Evaluation data", 1]
    assert "cores" in model_card.filled["Factors", 2]


def test_a_model_card_has_the_results_of_its_options_only(tmp_path: Path) -> None:
    models = ["disc", "disc?radius=40"]
    segmeter.evaluate(models, "mini", out=tmp_path / "run", rounds=2, limit=2)
    cards = [segmeter.make_card("model", m, runs=[tmp_path / "run"]).filled for m in models]
    assert cards[0]["Metrics", 1] != cards[1]["Metrics", 1]


def test_a_model_card_of_one_image_has_no_limits(tmp_path: Path) -> None:
    segmeter.evaluate("disc", "mini", out=tmp_path / "run", rounds=1, limit=1)
    card = segmeter.make_card("model", "disc", runs=[tmp_path / "run"])
    assert "nan" not in card.filled["Metrics", 1]
    assert "NaN" not in card.to_markdown()


def test_a_model_card_names_datasets_and_no_mean_over_them(tmp_path: Path) -> None:
    data = ["mini", "drawn"]
    segmeter.evaluate("disc", data, out=tmp_path / "run", benchmark="points", rounds=1, limit=1)
    card = segmeter.make_card("model", "disc", runs=[tmp_path / "run"])
    assert card.filled["Evaluation data", 1] == "mini, drawn"


def test_hugging_face_reads_the_model_index(model_card: Card) -> None:
    hub = pytest.importorskip("huggingface_hub")
    read = hub.ModelCard(model_card.to_markdown())
    found = read.data.eval_results
    assert found
    assert {result.dataset_name for result in found} == {"mini"}
    assert read.data.to_dict()["model-index"][0]["name"] == "disc"


def test_metadata_has_licences_known_to_hugging_face(model_card: Card) -> None:
    hub = pytest.importorskip("huggingface_hub")
    data = hub.DatasetCard(segmeter.make_card("dataset", "mini").to_markdown()).data
    assert data.license == "other"
    assert data.license_name
    assert _licence("CC BY 4.0") == {"license": "cc-by-4.0"}
    assert _licence("") == {"license": "unknown"}


def test_a_model_card_has_a_fairness_table(tmp_path: Path) -> None:
    segmeter.evaluate(
        ["synthetic-noisy", "synthetic-oracle"], "mini", out=tmp_path / "run", rounds=3
    )
    card = segmeter.make_card("model", "synthetic-noisy", runs=[tmp_path / "run"], by="class")
    text = card.filled["Factors", 1]
    assert text.startswith("NoC@")
    classes = {t.label for scene in segmeter.load_dataset("mini") for t in scene.targets}
    assert all(f"{name} " in text for name in classes)
    assert "significant" in text
    assert "nan" not in text
    with pytest.raises(BadInput, match="no run has results"):
        segmeter.make_card("model", "synthetic-noisy", by="class")


def test_a_card_of_trained_weights_has_data_time_and_energy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    notes = {"seconds": "1800.0", "device": "CPU", "data": "nuclei, 40 images",
             "annotator": "centre-click"}  # fmt: skip
    save_file({"a": np.zeros(1)}, path, {f"segmeter.{k}": v for k, v in notes.items()})
    model = SimpleNamespace(weights_path=path, card=ModelCard("small", "a test", frozenset()))
    monkeypatch.setattr("segmeter.api.documentation_cards.as_model", lambda *_: model)
    filled = segmeter.make_card("model", "small", watts=60).filled
    assert "nuclei, 40 images, annotator centre-click" in filled["Training data", 1]
    assert filled["Ethics", 2].startswith("0.50 hours on CPU for the decoder, 0.030 kWh at 60 W")


def test_an_annotation_card_is_filled_from_the_export_of_a_study(tmp_path: Path) -> None:
    (tmp_path / "participants.csv").write_text(
        "person,language,device,minutes,answers,counted,checks,checks_right,agreement,excluded\n"
        "p1,en,mouse,12.5,20,18,4,4,0.8,False\np2,de,touch,7.5,20,5,4,1,0.2,True\n"
    )
    (tmp_path / "trials.csv").write_text("person,scene\np1,a\np2,a\np2,b\n")
    card = segmeter.make_card("annotation", "mini", study=tmp_path)
    assert card.open_questions == 21 - 5
    people = card.filled["Selecting annotators", 4]
    assert people.startswith("2 participants, 1 of them excluded")
    assert "en 1, de 1" in people
    assert "40 answers on 2 images, median 10.0" in card.filled["Platform and infrastructure", 1]
    assert card.filled["Analysis and evaluation", 1].startswith("5 of 8 checks")
    assert "median 0.50" in card.filled["Analysis and evaluation", 2]
    (tmp_path / "ratings.csv").write_text("job,score\na,4\na,6\nb,7\n")
    rated = segmeter.make_card("annotation", "mini", study=tmp_path)
    assert "1.41 points, mean of 1 mask." in rated.filled["Analysis and evaluation", 2]
    with pytest.raises(NotFound, match="no file"):
        segmeter.make_card("annotation", "mini", study=tmp_path / "nothing")


def test_an_annotation_card_leaves_its_questions_to_people() -> None:
    card = segmeter.make_card("annotation", "mini")
    assert card.open_questions == 21
    with pytest.raises(BadInput, match="no card 'modle'"):
        segmeter.make_card("modle", "disc")  # type: ignore[arg-type]
