"""The predictor gives the golden answers, click by click."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.models import Ask  # noqa: E402
from segmeter.core.prompts import Click  # noqa: E402
from segmeter.core.scenes import Picture  # noqa: E402
from segmeter.models.clicknets._ritm import RitmNetwork  # noqa: E402
from segmeter.models.clicknets._vit import SimpleClickNetwork  # noqa: E402
from segmeter.models.clicknets.architectures import RITM, SIMPLECLICK  # noqa: E402
from segmeter.models.clicknets.view import ClickNetView, Settings  # noqa: E402
from segmeter.models.clicknets.zoom import Zoom  # noqa: E402

RITM_CASES = ["default", "tetris", "davis", "fixed", "nozoom_noflip", "auto", "big_default"]


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


@pytest.mark.parametrize("name", RITM_CASES)
def test_ritm_gives_the_golden_answers(golden, rule, h18s, name):
    replay(golden / "networks/ritm", name, rule, h18s, "green")


def test_ritm_without_previous_mask_gives_the_golden_answers(golden, rule, baseline):
    replay(golden / "networks/ritm", "baseline_default", rule, baseline, "green")


@pytest.mark.parametrize("name", ["default", "davis", "auto", "big_default"])
def test_simpleclick_gives_the_golden_answers(golden, rule, xtiny, name):
    replay(golden / "networks/simpleclick", name, rule, xtiny, "white")


def replay(folder, name, rule, network, kind):
    case = json.loads((folder / "predictor.json").read_text())[name]
    stored = np.load(folder / "predictor.npz")
    scene = Picture("golden", name, rule.object_image(case["seed"], case["H"], case["W"], kind), ())
    view = ClickNetView(network, scene, settings(case["options"], network))
    memory, prompts = None, ()
    # The large inputs show all they can in three clicks.
    clicks = case["clicks"][:3] if name in ("davis", "fixed") else case["clicks"]
    for k, expected in enumerate(clicks):
        row, column, positive = expected["click"]
        prompts += (Click((row, column), bool(positive)),)
        prediction = view.answer([Ask(prompts, memory)])[0]
        memory = prediction.memory
        compare(memory, prediction.mask(), expected, stored, f"{name}__", k)


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


def compare(memory, mask, expected, stored, prefix, k):
    assert (list(memory.box) if memory.box else None) == expected["roi"]
    found = memory.probabilities.numpy()
    sampled = found.reshape(-1)[:: expected["prob_step"]]
    np.testing.assert_allclose(sampled, stored[f"{prefix}prob{k}"], atol=1e-4, rtol=0)
    bits = np.unpackbits(stored[f"{prefix}mask{k}"])[: found.size].reshape(found.shape)
    near = np.abs(found - 0.49) < 1e-3
    assert not ((mask.dense() != bits) & ~near).any()
    assert abs(mask.area - expected["area"]) <= max(2, expected["n_within_1e_3"])


def test_sessions_answered_together_are_answered_as_alone(rule, h18s):
    scene = Picture("golden", "pair", rule.object_image(11, 120, 160), ())
    view = ClickNetView(h18s, scene, Settings(Zoom()))
    first = [Ask((Click((50, 80)),)), Ask((Click((60, 90)),))]
    answers = view.answer(first)
    more = [
        Ask((*ask.prompts, Click(point, sign)), answer.memory)
        for ask, answer, point, sign in zip(
            first, answers, [(70, 100), (10, 20)], [True, False], strict=True
        )
    ]
    together = view.answer(more)
    for ask, prediction in zip(more, together, strict=True):
        alone = view.answer([ask])[0]
        assert alone.memory.box == prediction.memory.box
        torch.testing.assert_close(
            alone.memory.probabilities, prediction.memory.probabilities, atol=1e-5, rtol=0
        )
        assert isinstance(alone.mask(), Mask)
