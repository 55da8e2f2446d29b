"""Checkpoints: published containers are read, anything that wants to run is refused."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")

from segmeter.core.errors import BadWeights  # noqa: E402
from segmeter.models.clicknets import containers  # noqa: E402
from segmeter.models.clicknets.containers import RITM, SIMPLECLICK  # noqa: E402


@pytest.mark.parametrize(
    ("file", "shape"),
    [
        ("ritm/container_h18s_itermask.pth", RITM["ritm-h18s"]),
        ("ritm/container_h18_baseline.pth", RITM["ritm-h18-baseline"]),
        ("simpleclick/container_xtiny448.pth", SIMPLECLICK["simpleclick-vit-xtiny"]),
    ],
)
def test_published_containers_state_their_shape(golden, file, shape):
    state, found = containers.read(golden / "networks" / file)
    assert found == shape
    assert len(state) == 2


class Command:
    """What an attacker would put into a checkpoint."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("old_format", [False, True])
def test_a_checkpoint_that_wants_to_run_code_is_refused(tmp_path, old_format):
    trap = tmp_path / "trap"
    file = tmp_path / "model.pth"
    content = {"state_dict": {"a": torch.zeros(1)}, "config": Command(trap)}
    torch.save(content, file, _use_new_zipfile_serialization=not old_format)
    with pytest.raises(BadWeights, match=r"it asks for 'posix.mkdir'"):
        containers.read(file)
    assert not trap.exists()


def save(path, kind="isegm.model.is_hrnet_model.HRNetModel", **params):
    given = {k: {"type": "builtin", "value": v, "specified": True} for k, v in params.items()}
    torch.save({"state_dict": {}, "config": {"class": kind, "params": given}}, path)
    return path


def test_an_unknown_class_is_named_and_not_imported(tmp_path):
    with pytest.raises(BadWeights, match=r"'os\.path\.Trap', which is not on the list"):
        containers.read(save(tmp_path / "a.pth", "os.path.Trap"))


@pytest.mark.parametrize("param", ["use_rgb_conv", "conv_extend", "something_new"])
def test_another_way_to_build_the_network_is_refused(tmp_path, param):
    with pytest.raises(BadWeights, match=param):
        containers.read(save(tmp_path / "a.pth", width=18, **{param: True}))


def test_weights_of_another_variant_name_the_right_one(tmp_path):
    file = save(
        tmp_path / "a.pth", width=32, ocr_width=128, with_prev_mask=True, use_leaky_relu=True
    )
    with pytest.raises(BadWeights, match="use model 'ritm-h32'"):
        containers.load(file, RITM["ritm-h18"], "ritm-h18")


@pytest.mark.parametrize("content", [b"", b"hello there", b"PK\x03\x04broken"])
def test_damaged_files_are_refused_in_one_sentence(tmp_path, content):
    file = tmp_path / "model.pth"
    file.write_bytes(content)
    with pytest.raises(BadWeights, match=r"damaged or cut short|not opened") as refusal:
        containers.read(file)
    assert "\n" not in str(refusal.value)


def test_a_saved_network_comes_back(tmp_path, rule):
    from segmeter.models.clicknets._networks import RitmNetwork

    network = rule.fill(RitmNetwork(RITM["ritm-h18s"]))
    torch.save(network.state_dict(), tmp_path / "a.pth")
    again = containers.load(tmp_path / "a.pth", RITM["ritm-h18s"], "ritm-h18s")
    pairs = zip(network.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    lost = network.state_dict()
    lost.pop("feature_extractor.cls_head.bias")
    torch.save(lost, tmp_path / "b.pth")
    with pytest.raises(BadWeights, match=r"lacks 'feature_extractor\.cls_head\.bias'"):
        containers.load(tmp_path / "b.pth", RITM["ritm-h18s"], "ritm-h18s")


@pytest.mark.parametrize("wrapped", [False, True])
def test_weights_of_another_network_are_refused_when_the_model_is_made(tmp_path, rule, wrapped):
    """Before a run starts, for pickles too: nothing is encoded here."""
    from segmeter.core import catalogue
    from segmeter.models.clicknets._networks import RitmNetwork

    state = rule.fill(RitmNetwork(RITM["ritm-h18s"])).state_dict()
    file = str(tmp_path / "a.pth")
    torch.save({"state_dict": state} if wrapped else state, file)
    assert catalogue.models.make("ritm-h18s", weights=file).card.family == "ritm"
    with pytest.raises(BadWeights, match=r"for 'ritm-h32' are of another"):
        catalogue.models.make("ritm-h32", weights=file)
    with pytest.raises(BadWeights, match=r"for 'simpleclick-vit-b' are of another"):
        catalogue.models.make("simpleclick-vit-b", weights=file)
    other = save(
        tmp_path / "b.pth", width=32, ocr_width=128, with_prev_mask=True, use_leaky_relu=True
    )
    with pytest.raises(BadWeights, match="use model 'ritm-h32'"):
        catalogue.models.make("ritm-h18s", weights=str(other))
