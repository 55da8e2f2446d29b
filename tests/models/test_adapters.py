"""A plain function and a predictor as models; wrong ones are told what is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.models import ModelCard, Request
from segmeter.core.prompts import Box, Click
from segmeter.core.scenes import Image
from segmeter.models.adapters import as_model, mask_from
from segmeter.models.conformance import check, drawn_scene

FILE = '''
import numpy as np


def predict(image, clicks):
    """Pixels as bright as the first click's."""
    y, x, positive = clicks[0]
    return abs(image[..., 0].astype(int) - int(image[int(y), int(x), 0])) < 30


def broken(image, clicks):
    return image[9999]
'''


class Predictor:
    """Two masks around the last point, the second with the higher score, and logits."""

    def set_image(self, image: Any) -> None:
        self.shape = image.shape[:2]

    def predict(self, point_coords: Any = None, point_labels: Any = None, box: Any = None,
                mask_input: Any = None) -> tuple[Any, Any, Any]:  # fmt: skip
        masks = np.zeros((2, *self.shape), dtype=bool)
        x, y = (box[:2] if point_coords is None else point_coords[-1]).astype(int)
        masks[1, y : y + 4, x : x + 7] = True
        return masks, np.array([0.2, 0.9]), np.zeros((2, 8, 8), dtype=np.float32)


def test_a_function_in_a_file_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    model = catalogue.models.make(f"{tmp_path}/mine.py:predict")
    assert model.card.summary == "Pixels as bright as the first click's."
    assert check(model) == []


def test_an_error_names_the_line_of_ones_own_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    (fault,) = check(catalogue.models.make(f"{tmp_path}/mine.py:broken"))
    assert "IndexError" in fault
    assert "(mine.py, line 12)" in fault


def test_a_predictor_answers_points_as_x_y_and_shows_its_best_mask() -> None:
    model = as_model(Predictor(), "mine")
    assert check(model) == []
    encoded = model.encode(drawn_scene())
    clicked, boxed = encoded.predict(
        [Request((Click((10, 20)),)), Request((Box((30, 40), (50, 60)),))]
    )
    assert (clicked.mask().low, clicked.mask().high) == ((10, 20), (14, 27))
    assert boxed.mask().low == (30, 40)
    assert clicked.state.shape == (1, 8, 8)


class OfItsImage(Predictor):
    """Finds what is as bright as the point clicked on, in the image that it was shown last."""

    def __init__(self) -> None:
        self.looks = 0

    def set_image(self, image: Any) -> None:
        self.image, self.looks = image[..., 0], self.looks + 1

    def predict(self, point_coords: Any, point_labels: Any, **_: Any) -> tuple[Any, Any]:
        x, y = point_coords[-1].astype(int)
        return (self.image == self.image[y, x])[None], np.ones(1)


def test_views_of_a_predictor_use_their_own_images() -> None:
    """Slices of a volume are looked at one after the other, and asked about again later."""
    predictor = OfItsImage()
    model = as_model(predictor, "mine")
    pixels = np.zeros((2, 20, 30, 3), np.uint8)
    pixels[0, 2:8, 3:9], pixels[1, 10:18, 12:25] = 200, 200
    encoded_scenes = [model.encode(Image("made", str(k), one, [])) for k, one in enumerate(pixels)]
    for encoded, point, area in (
        (encoded_scenes[0], (4, 5), 36),
        (encoded_scenes[1], (12, 15), 104),
    ) * 2:
        assert encoded.predict([Request((Click(point),))] * 2)[1].mask().area == area
    assert predictor.looks == 2 + 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "returned nothing"),
        (np.full((4, 5), -3.0), r"returned logits \(-3 to -3\); return mask > 0"),
        (np.full((4, 5), 0.3), "returned probabilities .* return mask > 0.5"),
        (np.full((4, 5), np.nan), "returned NaN"),
        (np.zeros((1, 4, 5)), "remove the axes of length 1"),
        (np.zeros((5, 4)), r"shape \(5, 4\); return one \(4, 5\)"),
        (np.full((4, 5), 255), "values other than 0 and 1"),
        ([[1], [1, 2]], "returned a list"),
        ("yes", "returned an array of shape ()"),
    ],
)
def test_an_answer_that_is_no_mask_is_named(given: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        mask_from(given, (4, 5))


def test_lists_and_tensors_of_zeros_and_ones_are_masks() -> None:
    torch = pytest.importorskip("torch")
    assert mask_from([[1, 0], [0, 0]], (2, 2)).area == 1
    assert mask_from(torch.ones(2, 2), (2, 2)).area == 4


class Wrong:
    """A model of one's own that answers with something else than predictions."""

    card = ModelCard("wrong", "", frozenset({"click"}))

    def __init__(self, gives: Any) -> None:
        self.gives = gives

    def encode(self, scene: Any) -> Wrong:
        return self

    def predict(self, requests: Any) -> Any:
        return self.gives(requests)


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        (lambda requests: None, "returns nothing"),
        (lambda requests: np.zeros((3, 4, 4)), "returns an array of float64"),
        (
            lambda requests: [np.full((4, 4), -1.0)] * len(requests),
            r"\(4, 4\) of logits; wrap each mask",
        ),
        (lambda requests: [np.full((4, 4), 0.5)] * len(requests), "of probabilities; wrap"),
        (lambda requests: [[1, 0]] * len(requests), "returns a list; wrap"),
        (lambda requests: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_check_names_a_wrong_answer_in_one_sentence(gives: Any, said: str) -> None:
    found = check(Wrong(gives))  # type: ignore[arg-type]
    assert len(found) == 1
    assert re.search(said, found[0]), found


def test_a_look_that_raises_is_one_sentence() -> None:
    class Blind(Wrong):
        def encode(self, scene: Any) -> Wrong:
            raise RuntimeError("no weights")

    (fault,) = check(Blind(None))  # type: ignore[arg-type]
    assert fault.startswith("encode(scene) raises RuntimeError: no weights")


class Plain:
    """Points only, and nothing to feed back: what many wrappers of SAM come down to."""

    def set_image(self, image: Any) -> None:
        self.grey = image[..., 0].astype(int)

    def predict(self, point_coords: Any, point_labels: Any) -> tuple[Any, Any, None]:
        x, y = point_coords[0].astype(int)
        return (abs(self.grey - self.grey[y, x]) < 30)[None], [1.0], None


def test_a_predictor_without_boxes_and_logits_is_a_model_of_clicks() -> None:
    model = as_model(Plain())
    assert model.card.abilities == {"click"}
    assert check(model) == []


def test_a_function_of_a_volume_and_prompts_is_a_model_for_whole_volumes(tmp_path):
    from pathlib import Path

    from segmeter.benchmarks.volumes import Volumes
    from segmeter.core import catalogue
    from segmeter.core.plans import Plan

    example = Path(__file__).parents[2] / "examples" / "own_volume_function.py"
    model = catalogue.models.make(f"{example}:predict")
    assert {"volume", "click", "box"} <= model.card.abilities
    users = (catalogue.Spec.parse("centre-points-per-volume?n=1"), catalogue.Spec("box-3d"))
    plan = Plan("volumes", (catalogue.Spec("mine"),), (catalogue.Spec("mini-volumes"),),
                users=users, rounds=1, protocols=("corrected",))  # fmt: skip
    benchmark = Volumes()
    scene = catalogue.datasets.make("mini-volumes").load("hippocampus_001")
    rows = benchmark.work(model, scene, benchmark.plan(plan))
    assert len(rows) == 4
    assert max(row["predicted_ml"] for row in rows) > 0


NETWORK = """
import torch


class MyNet(torch.nn.Module):
    def forward(self, x):
        return x[:, 3:4] - 0.5
"""


def test_a_torch_module_is_refused_with_lines_that_work(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra 'models'")
    (tmp_path / "net.py").write_text(NETWORK)
    with pytest.raises(BadInput, match="'MyNet' is a torch module") as refused:
        catalogue.models.make(f"{tmp_path}/net.py:MyNet")
    with pytest.raises(BadInput, match="is a torch module"):
        as_model(torch.nn.Conv2d(3, 1, 1))
    (tmp_path / "made.py").write_text(f"{NETWORK}\n\nnet = MyNet()\n")
    with pytest.raises(BadInput, match="'net' is a torch module"):
        catalogue.models.entry(f"{tmp_path}/made.py:net")
    lines = str(refused.value).partition("\n")[2]
    (tmp_path / "whole.py").write_text(NETWORK + lines)
    made = catalogue.models.make(f"{tmp_path}/whole.py:predict")
    assert check(made) == []
    mask = made.encode(drawn_scene()).predict([Request((Click((30, 20)),))])[0].mask(0)
    assert mask.area == 1
    assert mask[30, 20]


def test_the_error_for_a_class_without_encode_explains_models(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("class Thing:\n    pass\n")
    with pytest.raises(BadInput, match=r"give a function predict\(image, clicks\)"):
        catalogue.models.make(f"{tmp_path}/empty.py:Thing")
