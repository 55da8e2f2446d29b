"""The predictor gives the golden answers, click by click."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.models import Request  # noqa: E402
from segmeter.core.prompts import Click  # noqa: E402
from segmeter.core.scenes import Image  # noqa: E402
from segmeter.models.clicknets._encoded import ClickNetEncodedScene, Settings  # noqa: E402
from segmeter.models.clicknets._networks import RitmNetwork, SimpleClickNetwork  # noqa: E402
from segmeter.models.clicknets._zoom import Zoom  # noqa: E402
from segmeter.models.clicknets.containers import RITM, SIMPLECLICK  # noqa: E402

pytestmark = pytest.mark.long

# Clicks that are replayed: from the third on, zoom and network do the same again. The originals'
# "auto" are the settings of "default" with other clicks.
RITM_CASES = {
    "default": 3, "tetris": 2, "davis": 2, "fixed": 2, "nozoom_noflip": 2, "big_default": 2,
}  # fmt: skip
SIMPLECLICK_CASES = {"default": 3, "davis": 1, "big_default": 3}


@pytest.fixture(scope="module")
def h18s(rule):
    network = rule.fill(RitmNetwork(RITM["ritm-h18s"]))
    return compact(network.feature_extractor.cls_head, network, -40, -11.0)


@pytest.fixture(scope="module")
def baseline(rule):
    network = rule.fill(RitmNetwork(RITM["ritm-h18-baseline"]))
    return compact(network.feature_extractor.cls_head, network, -6, -16.0)


@pytest.fixture(scope="module")
def xtiny(rule):
    network = rule.fill(SimpleClickNetwork(SIMPLECLICK["simpleclick-vit-xtiny"]))
    return compact(network.head.conv_seg, network, -15, 0.2)


def compact(layer, network, factor, bias):
    """The change that makes the rule's masks compact."""
    with torch.no_grad():
        layer.weight.mul_(factor)
        layer.bias.fill_(bias)
    return network


@pytest.mark.parametrize(("name", "clicks"), RITM_CASES.items())
def test_ritm_gives_the_golden_answers(golden, rule, h18s, name, clicks):
    replay(golden / "networks/ritm", name, rule, h18s, "green", clicks)


def test_ritm_without_previous_mask_gives_the_golden_answers(golden, rule, baseline):
    replay(golden / "networks/ritm", "baseline_default", rule, baseline, "green", 2)


@pytest.mark.parametrize(("name", "clicks"), SIMPLECLICK_CASES.items())
def test_simpleclick_gives_the_golden_answers(golden, rule, xtiny, name, clicks):
    replay(golden / "networks/simpleclick", name, rule, xtiny, "white", clicks)


def replay(folder, name, rule, network, kind, clicks):
    case = json.loads((folder / "predictor.json").read_text())[name]
    stored = np.load(folder / "predictor.npz")
    scene = Image("golden", name, rule.object_image(case["seed"], case["H"], case["W"], kind), ())
    encoded = ClickNetEncodedScene(network, scene, settings(case["options"], network))
    state, prompts = None, ()
    for k, expected in enumerate(case["clicks"][:clicks]):
        row, column, positive = expected["click"]
        prompts += (Click((row, column), bool(positive)),)
        prediction = encoded.predict([Request(prompts, state)])[0]
        state = prediction.state
        compare(state, prediction.mask(), expected, stored, f"{name}__", k)


def settings(options, network):
    given = options.get("zp", {"skip_clicks": -1, "target_size": (448, 448)})
    if given is None:
        zoom = Zoom(target=None)
    else:
        simple = isinstance(network, SimpleClickNetwork)
        size = given.get("target_size", (448, 448) if simple else 400)
        size = tuple(size) if isinstance(size, list | tuple) else size
        zoom = Zoom(size, given.get("skip_clicks", -1 if simple else 1))
    return Settings(zoom, options.get("flip", True))


def compare(state, mask, expected, stored, prefix, k):
    assert (list(state.box) if state.box else None) == expected["roi"]
    found = state.probabilities.numpy()
    sampled = found.reshape(-1)[:: expected["prob_step"]]
    np.testing.assert_allclose(sampled, stored[f"{prefix}prob{k}"], atol=1e-4, rtol=0)
    bits = np.unpackbits(stored[f"{prefix}mask{k}"])[: found.size].reshape(found.shape)
    near = np.abs(found - 0.49) < 1e-3
    assert not ((mask.dense() != bits) & ~near).any()
    assert abs(mask.area - expected["area"]) <= max(2, expected["n_within_1e_3"])


def test_sessions_answered_together_are_answered_as_alone(rule, h18s):
    scene = Image("golden", "pair", rule.object_image(11, 120, 160), ())
    encoded = ClickNetEncodedScene(h18s, scene, Settings(Zoom()))
    first = [Request((Click((50, 80)),)), Request((Click((60, 90)),))]
    answers = encoded.predict(first)
    more = [
        Request((*request.prompts, Click(point, sign)), answer.state)
        for request, answer, point, sign in zip(
            first, answers, [(70, 100), (10, 20)], [True, False], strict=True
        )
    ]
    together = encoded.predict(more)
    for request, prediction in zip(more, together, strict=True):
        alone = encoded.predict([request])[0]
        assert alone.state.box == prediction.state.box
        torch.testing.assert_close(
            alone.state.probabilities, prediction.state.probabilities, atol=1e-5, rtol=0
        )
        assert isinstance(alone.mask(), Mask)
