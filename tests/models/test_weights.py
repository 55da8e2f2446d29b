"""Weights: found where they should be, refused with a sentence when they are not right."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

from segmeter.core import catalogue  # noqa: E402
from segmeter.core.errors import BadWeights, NotFound  # noqa: E402
from segmeter.core.scenes import Image  # noqa: E402
from segmeter.models import weights  # noqa: E402

SCENE = Image("drawn", "grey", np.full((32, 48, 3), 99, np.uint8), [])


@pytest.fixture(autouse=True)
def _nothing_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.delenv("SEGMETER_WEIGHTS", raising=False)


def test_files_of_several_models_in_one_folder_are_found_by_name(tmp_path: Path) -> None:
    from segmeter.models.weights import find

    for file in ("mobile_sam.pt", "litemedsam.safetensors"):
        (tmp_path / file).touch()
    assert find("mobile-sam", tmp_path).name == "mobile_sam.pt"
    assert find("litemedsam", tmp_path).name == "litemedsam.safetensors"


def test_the_error_for_missing_weights_names_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="'segmeter fetch sam-vit-b'"):
        catalogue.models.make("sam-vit-b", weights=str(tmp_path))


def test_a_folder_of_many_models_and_a_models_own_folder_are_both_understood(
    tmp_path: Path,
) -> None:
    own = tmp_path / "mobile-sam"
    own.mkdir()
    safetensors.save_file({"a": torch.zeros(1)}, own / "model.safetensors")
    assert weights.find("mobile-sam", tmp_path) == own
    assert weights.find("mobile-sam", own) == own
    assert weights.find("mobile-sam", own / "model.safetensors") == own / "model.safetensors"


def test_the_environment_and_the_cache_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (weights.home(), tmp_path / "named"):
        (place / "mobile-sam").mkdir(parents=True)
        safetensors.save_file({"a": torch.zeros(1)}, place / "mobile-sam" / "model.safetensors")
        if place != weights.home():
            monkeypatch.setenv("SEGMETER_WEIGHTS", str(place))
        assert weights.find("mobile-sam") == place / "mobile-sam"


def test_a_given_folder_takes_precedence_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, around = tmp_path / "given", tmp_path / "around"
    given.mkdir()
    (around / "mobile-sam").mkdir(parents=True)
    safetensors.save_file({"a": torch.zeros(1)}, around / "mobile-sam" / "model.safetensors")
    monkeypatch.setenv("SEGMETER_WEIGHTS", str(around))
    with pytest.raises(NotFound, match="given") as refused:
        weights.find("mobile-sam", given)
    assert str(around) not in str(refused.value)
    shutil.copytree(around / "mobile-sam", weights.home() / "mobile-sam")
    assert weights.find("mobile-sam", given) == weights.home() / "mobile-sam"


def test_a_fingerprint_changes_with_one_byte(tmp_path: Path) -> None:
    file = tmp_path / "a.pt"
    file.write_bytes(b"one")
    first = weights.fingerprint(tmp_path)
    file.write_bytes(b"two")
    assert weights.fingerprint(tmp_path) != first
    file.write_bytes(b"one")
    assert weights.fingerprint(tmp_path) == first


def test_weights_of_another_architecture_are_refused(tmp_path: Path) -> None:
    safetensors.save_file({"conv.weight": torch.zeros(3, 3)}, tmp_path / "model.safetensors")
    for name, said in (
        ("mobile-sam", "holds no known network"),
        ("ritm-h18", "another architecture"),
    ):
        with pytest.raises(BadWeights, match=said):
            catalogue.models.make(name, weights=str(tmp_path))


@pytest.mark.parametrize("other", ["sam2-hiera-tiny", "eiseg-hrnet18-ocr64", "u2netp"])
def test_a_folder_of_another_real_network_is_refused_by_its_headers(
    other: str, real_weights: Path
) -> None:
    with pytest.raises(
        BadWeights, match=r"holds no known network|holds weights of 'sam2-hiera-tiny', not"
    ):
        catalogue.models.make("mobile-sam", weights=str(real_weights / other))
    if other != "eiseg-hrnet18-ocr64":  # which is a HRNet-18 itself
        with pytest.raises(BadWeights, match="for 'ritm-h18' are of another"):
            catalogue.models.make("ritm-h18", weights=str(real_weights / other))


def test_a_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    from segmeter.models.sam._loading import SamNetwork
    from segmeter.models.sam._vit import TinyVit

    tensors = {k: v.clone() for k, v in SamNetwork(TinyVit()).parts.state_dict().items()}
    tensors["mask_decoder.iou_token.weight"] = torch.zeros(1, 128)
    safetensors.save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(BadWeights, match=r"iou_token.weight' is 1 x 128 where 1 x 256 is needed"):
        catalogue.models.make("mobile-sam", weights=str(tmp_path))


def test_truncated_safetensors_are_refused_before_anything_runs(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    safetensors.save_file({"a": torch.zeros(1000)}, file)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(BadWeights, match="damaged or cut short"):
        catalogue.models.make("mobile-sam", weights=str(tmp_path))


class _Trap:
    """Unpickling this would make a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_an_unsafe_pickle_is_not_opened(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    torch.save({"a": _Trap(sprung)}, tmp_path / "mobile_sam.pt")
    with pytest.raises(BadWeights, match="could run code"):
        catalogue.models.make("mobile-sam", weights=str(tmp_path / "mobile_sam.pt"))
    (tmp_path / "bare.pt").write_bytes(pickle.dumps(_Trap(sprung)))
    with pytest.raises(BadWeights):
        weights.read(tmp_path / "bare.pt")
    assert not sprung.exists()


def test_a_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mobile_sam.pt"
    torch.save({"a": torch.zeros(1000)}, file)
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(BadWeights):
        weights.read(file)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (None, "holds no known network"),
        ("{", "is not a model's config"),
        ('{"model_type": "bert"}', "a 'bert', not a 'sam2'"),
        (
            json.dumps(
                {
                    "model_type": "sam2",
                    "vision_config": {"backbone_config": {"blocks_per_stage": [2, 3, 16, 3]}},
                }
            ),
            "24 blocks, not 12",
        ),
    ],
)
def test_a_folder_of_another_model_is_refused(
    tmp_path: Path, config: str | None, sentence: str
) -> None:
    safetensors.save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors")
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(BadWeights, match=sentence):
        catalogue.models.make("sam2-hiera-tiny", weights=str(tmp_path))


def test_a_config_that_does_not_fit_its_tensors_is_refused(
    tmp_path: Path, real_weights: Path
) -> None:
    shutil.copy(real_weights / "sam2-hiera-tiny" / "config.json", tmp_path)
    file = tmp_path / "model.safetensors"
    safetensors.save_file({"a": torch.zeros(1)}, file)
    with pytest.raises(BadWeights, match="holds no known network"):
        catalogue.models.make("sam2-hiera-tiny", weights=str(tmp_path))
    safetensors.save_file({"mask_decoder.iou_token.weight": torch.zeros(1, 256)}, file)
    with pytest.raises(BadWeights, match=r"no map 'image_encoder.pos_embed'"):
        catalogue.models.make("sam2-hiera-tiny", weights=str(tmp_path))


def test_the_official_checkpoint_and_safetensors_are_the_same_network(
    tmp_path: Path, real_weights: Path
) -> None:
    from segmeter.models.checkpoints import read_checkpoint
    from segmeter.models.sam._loading import SamNetwork

    tensors = weights.read(real_weights / "mobile-sam")
    # The official file also holds an unused classifier and counters.
    extra = {"image_encoder.head.bias": torch.zeros(1000)}
    counter = "image_encoder.patch_embed.seq.0.bn.num_batches_tracked"
    torch.save(tensors | extra | {counter: torch.tensor(3)}, tmp_path / "mobile_sam.pt")
    one, other = (
        SamNetwork.load(read_checkpoint(path), "cpu", "float32").parts.state_dict()
        for path in (tmp_path / "mobile_sam.pt", real_weights / "mobile-sam")
    )
    assert all(torch.equal(one[k], other[k]) for k in other)


def test_the_digest_of_large_files_is_kept_until_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "_LARGE", 10)
    file = tmp_path / "model.pt"
    file.write_bytes(b"a" * 20)
    first = weights.fingerprint(file)
    monkeypatch.setattr(weights, "_digest", lambda found: "f" * 32)
    assert weights.fingerprint(file) == first
    file.write_bytes(b"b" * 21)
    assert weights.fingerprint(file) == "f" * 32
    kept = max((tmp_path / "cache").glob("**/fingerprints/*"), key=Path.read_text)
    kept.write_text("no digest")
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert weights.fingerprint(file) not in (first, "no digest")


@pytest.mark.parametrize("content", [{0: torch.zeros(2)}, {"model": [torch.zeros(2)]}])
def test_a_checkpoint_without_names_is_refused_in_a_sentence(tmp_path: Path, content: Any) -> None:
    found = tmp_path / "a.pth"
    torch.save(content, found)
    with pytest.raises(BadWeights, match="holds no named tensors; use the original checkpoint"):
        weights.named_tensors(found, "model")
    inside = {"model": {"a": torch.ones(1)}, "epoch": 3}
    torch.save(inside, found)
    assert weights.named_tensors(found, "model") == inside["model"]


@pytest.mark.parametrize("layers", ["1e999", "[1]", '"many"'])
def test_a_config_with_an_impossible_number_of_blocks_is_refused(
    layers: str, tmp_path: Path
) -> None:
    folder = tmp_path / "sam-vit-b"
    folder.mkdir()
    text = f'{{"model_type": "sam", "vision_config": {{"num_hidden_layers": {layers}}}}}'
    (folder / "config.json").write_text(text)
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(BadWeights, match="is not a model's config"):
        catalogue.models.make("sam-vit-b", weights=str(tmp_path))


def test_weights_next_to_an_onnx_graph_count(tmp_path: Path) -> None:
    graph, data = tmp_path / "net.onnx", tmp_path / "anything.bin"
    graph.write_bytes(b"graph\n\x08location\x12\x0canything.bin\x12")
    digests = set()
    for content in (b"", b"old", b"new"):
        data.write_bytes(content)
        digests.add(weights.digest_of([graph]))
    assert len(digests) == 3
