"""Every registered model keeps the rules that runs rely on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import NotFound
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard, Request
from segmeter.core.scenes import Scene
from segmeter.models.conformance import check, drawn_scene
from segmeter.models.synthetic import Disc
from segmeter.models.videos.frame_trackers import FunctionTracker

SHARED = Path(os.environ.get("SEGMETER_SHARED", Path(__file__).resolve().parents[3] / "shared"))


WHOLE = [entry.name for entry in catalogue.models if not catalogue.required(entry)]


@pytest.mark.long
@pytest.mark.parametrize("name", WHOLE)
def test_a_registered_model_conforms(name: str, request: pytest.FixtureRequest) -> None:
    scene = None
    if name in ("sam2-hiera-tiny", "litemedsam"):  # MobileSAM shows that SAMs encode alike
        request.getfixturevalue("encoded_once")
    if name == "sam2-hiera-tiny" and (SHARED / "data").is_dir():  # an image of other tests
        scene = catalogue.datasets.make("grabcut", data=SHARED / "data").load("llama")
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    try:
        model = catalogue.models.make(name, weights=str(SHARED / "weights"))
    except NotFound as missing:
        pytest.skip(str(missing))
    assert check(model, scene) == []


@dataclass
class _Faulty:
    """The disc model with one promise broken."""

    fault: str
    rounds: int = 0

    @property
    def card(self) -> ModelCard:
        abilities = {"click", "text"} if self.fault == "abilities" else {"click", "box"}
        return ModelCard("faulty", "", frozenset(abilities))

    def encode(self, scene: Scene) -> Any:
        if self.fault == "pixels":
            scene.pixels[0, 0] = 255 - scene.pixels[0, 0]
        return _FaultyEncodedScene(self, Disc(radius=5).encode(scene), scene.shape)


@dataclass
class _FaultyEncodedScene:
    model: _Faulty
    encoded: Any
    shape: tuple[int, ...]

    def predict(self, requests: Sequence[Request]) -> Sequence[MaskPrediction]:
        fault = self.model.fault
        self.model.rounds += 1
        if fault == "abilities" and any("Text" in repr(a.prompts) for a in requests):
            raise TypeError("what are words?")
        if fault == "leak":
            return (
                list(self.encoded.predict([Request(requests[0].prompts)] * len(requests)))
                if requests
                else []
            )
        predictions = self.encoded.predict(requests)
        if fault == "size":
            return [MaskPrediction(Mask.box((3, 3), (0, 0), (2, 2))) for _ in requests]
        if fault == "state":
            seen = Mask.box(self.shape, (0, 0), (self.model.rounds, 5))
            return [MaskPrediction(p.result | seen) for p in predictions]
        if fault == "score":
            return [MaskPrediction(p.result, np.nan) for p in predictions]
        if fault == "shown":
            return [MaskPrediction(p.result, shown=3) for p in predictions]
        return predictions[1:] if fault == "count" else predictions


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("abilities", "predict fails for a 'text' prompt, which its card or parameters name"),
        ("pixels", "changes the scene's pixels"),
        ("size", "a mask has size"),
        ("state", "do not always give the same prediction"),
        ("leak", "differ for box"),
        ("score", "not a finite number"),
        ("shown", "candidate 3 is shown"),
    ],
)
def test_a_broken_rule_is_reported(fault: str, sentence: str) -> None:
    found = check(_Faulty(fault), drawn_scene())
    assert any(sentence in text for text in found), found


def test_the_same_model_without_a_fault_passes() -> None:
    assert check(_Faulty(""), drawn_scene()) == []


def test_the_error_for_an_object_that_is_no_model_names_what_it_lacks() -> None:
    assert check(object()) == [  # type: ignore[arg-type]
        "the model has no card; give it a segmeter.ModelCard",
        "the model has no encode(scene)",
    ]


def test_a_view_without_answer_is_named() -> None:
    class Blind:
        card = ModelCard("blind", "", frozenset({"click"}))

        def encode(self, scene: Scene) -> object:
            return scene

    assert check(Blind()) == ["encode(scene) returns an object without predict(requests)"]  # type: ignore[arg-type]


def test_the_command_checks_a_custom_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from segmeter.cli.app import Exit
    from segmeter.cli.check import check as command

    assert command("disc?radius=5") == Exit.DONE
    assert "no problems found" in capsys.readouterr().out
    file = tmp_path / "mine.py"
    file.write_text(
        "from segmeter.core.masks import Mask\n"
        "from segmeter.core.models import MaskPrediction, ModelCard\n"
        "class Tiny:\n"
        "    card = ModelCard('tiny', '', frozenset({'click'}))\n"
        "    def encode(self, scene):\n"
        "        return self\n"
        "    def predict(self, requests):\n"
        "        return [MaskPrediction(Mask.empty((2, 2))) for _ in requests]\n"
    )
    assert command(f"{file}:Tiny") == Exit.WITH_ERRORS
    assert "a mask has size (2, 2) in a scene of size (96, 128)" in capsys.readouterr().out


def test_an_unknown_ability_is_named() -> None:
    model = Disc()
    odd = ModelCard("odd", "", frozenset({"telepathy"}))
    object.__setattr__(model, "card", odd)
    assert any("telepathy" in fault for fault in check(model))


def test_a_tracker_that_leaves_out_frames_is_named() -> None:
    def first_only(frames: Sequence[Any], prompts: object) -> list[Any]:
        return [np.zeros(frames[0].shape[:2], bool)]

    (fault,) = check(FunctionTracker(first_only))
    assert "frame" in fault
