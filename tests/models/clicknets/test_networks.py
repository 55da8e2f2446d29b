"""The networks give the golden outputs for weights made by rule."""

from __future__ import annotations

import gzip
import json
import zlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.models.clicknets import containers  # noqa: E402
from segmeter.models.clicknets._networks import RitmNetwork, SimpleClickNetwork  # noqa: E402
from segmeter.models.clicknets._zoom import hard_discs  # noqa: E402
from segmeter.models.weights import unfilled  # noqa: E402

VARIANTS = {
    "h18s_itermask": "ritm-h18s",
    "h18_itermask": "ritm-h18",
    "h32_itermask": "ritm-h32",
    "h18_baseline": "ritm-h18-baseline",
    "xtiny448": "simpleclick-vit-xtiny",
    "base448": "simpleclick-vit-b",
    "large448": "simpleclick-vit-l",
    "huge448": "simpleclick-vit-h",
}
CASES = [
    ("ritm", "h18s_itermask", "abc"),
    ("ritm", "h18_baseline", "b"),
    ("ritm", "h32_itermask", "b"),
    ("simpleclick", "xtiny448", "abc"),
    ("simpleclick", "base448", "c"),
]


def build(variant):
    name = VARIANTS[variant]
    if name in containers.RITM:
        return RitmNetwork(containers.RITM[name])
    return SimpleClickNetwork(containers.SIMPLECLICK[name])


def keys(golden, family):
    packed = (golden / "networks" / family / "keys.json.gz").read_bytes()
    return json.loads(gzip.decompress(packed))


def run(network, rule, case):
    height, width, batch = case["H"], case["W"], case["B"]
    images = np.stack([rule.image(case["seed"] + b, height, width) for b in range(batch)])
    image = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    discs = hard_discs(torch.from_numpy(rule.points(height, width, batch)), (height, width))
    if network.with_previous:
        before = np.stack([rule.previous(height, width, b) for b in range(batch)])
        discs = torch.cat([torch.from_numpy(before)[:, None], discs], dim=1)
    with torch.inference_mode():
        return network(image, discs).numpy()


def agree(logits, expected, case):
    outputs = case["outputs"]["instances"]
    assert list(logits.shape) == outputs["shape"]
    np.testing.assert_allclose(logits.reshape(-1)[:: outputs["step"]], expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_key_list_is_the_published_one_in_order(golden, variant):
    family = "ritm" if variant.startswith("h18") or variant.startswith("h32") else "simpleclick"
    listed = keys(golden, family)[variant]
    with torch.device("meta"):
        state = build(variant).state_dict()
    assert [[k, list(v.shape)] for k, v in state.items()] == [row[:2] for row in listed]


def test_the_rule_makes_the_golden_tensors(golden, rule):
    listed = keys(golden, "ritm")["h18s_itermask"]
    for key, shape, dtype, crc in listed[::7]:
        tensor = rule.tensor(key, tuple(shape), dtype == "float32")
        assert f"{zlib.crc32(tensor.tobytes()):08x}" == crc, key


@pytest.mark.long
@pytest.mark.parametrize(("family", "variant", "cases"), CASES)
def test_golden_logits(golden, rule, family, variant, cases):
    folder = golden / "networks" / family
    meta = json.loads((folder / "net_meta.json").read_text())[variant]
    stored = np.load(folder / "net_outputs.npz")
    with unfilled():
        network = build(variant)
    rule.fill(network)
    for name in cases:
        expected = stored[f"{variant}__{name}__instances"]
        agree(run(network, rule, meta[name]), expected, meta[name])


@pytest.mark.parametrize(
    ("family", "variant"), [("ritm", "h18s_itermask"), ("simpleclick", "xtiny448")]
)
def test_the_normalisations_have_the_right_epsilon(golden, rule, family, variant):
    folder = golden / "networks" / family
    probe = json.loads((folder / "eps_probe.json").read_text())
    case = probe["outputs"]["instances"] | {"outputs": probe["outputs"]}
    logits = run(rule.fill(build(variant), probe["factors"]), rule, case)
    stored = np.load(folder / "eps_probe.npz")
    agree(logits, stored["instances"], case)
