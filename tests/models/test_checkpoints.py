"""Checkpoints as released and as fine-tuned: recognised, accounted for, refused by name."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

from segmeter import model_parity  # noqa: E402
from segmeter.api import checking  # noqa: E402
from segmeter.cli.app import Exit  # noqa: E402
from segmeter.cli.check import check  # noqa: E402
from segmeter.core import catalogue  # noqa: E402
from segmeter.core.errors import BadInput, BadWeights, NotFound  # noqa: E402
from segmeter.core.models import Request  # noqa: E402
from segmeter.core.prompts import Box, Click  # noqa: E402
from segmeter.core.received_runs import received  # noqa: E402
from segmeter.core.scenes import Image  # noqa: E402
from segmeter.models import checkpoints, weights  # noqa: E402
from segmeter.models.checkpoints import is_unused, source_name  # noqa: E402
from segmeter.models.sam._loading import SamNetwork  # noqa: E402
from segmeter.models.sam._vit import SamVit  # noqa: E402

from .weight_rule import rule_tensor  # noqa: E402

FILE = Path("a file")
BESIDE = {"optimizer": {"state": {}}, "epoch": 3, "scaler": {"scale": 1.0}}
CONTAINERS = {
    "bare": lambda t: t,
    "model": lambda t: {"model": t},
    "state_dict": lambda t: {"state_dict": t, "hyper_parameters": {"lr": 1e-4}},
    "model_state": lambda t: {"model_state": t},
    "training": lambda t: {"model": t, **BESIDE},
    "nested": lambda t: {"checkpoint": {"model": t}, "args": {"a": 1}},
}
PREFIXES = (
    "", "module.", "model.", "sam.", "net.", "_orig_mod.", "module._orig_mod.", "module.sam.",
    "model.model.", "model.sam.", "network.sam.model.",
)  # fmt: skip


def manifests(golden: Path) -> dict[str, dict[str, Any]]:
    """Name and shape of every tensor of the released layouts; MedSAM's are those of SAM b."""
    folder = golden / "checkpoints"
    found = {}
    for name in json.loads((folder / "index.json").read_text())["models"]:
        if name != "medsam_vit_b":
            found[name] = json.loads((folder / f"{name}.json").read_text())["tensors"]
    return found


def registry_name(manifest: str) -> str:
    """
    >>> registry_name("sam2.1_hiera_base_plus"), registry_name("sam_hq_vit_b")
    ('sam2.1-hiera-base-plus', 'sam-hq-vit-b')
    """
    return manifest.replace("_", "-")


def empty(shapes: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Tensors of these shapes that take no memory."""
    zero = torch.zeros(())
    return {prefix + name: zero.expand(tuple(shape)) for name, shape in shapes.items()}


def own_names(checkpoint: checkpoints.Checkpoint) -> dict[str, Any]:
    with weights.unfilled():
        return SamNetwork.sized(checkpoint, "cpu", "float32").parts.state_dict()


def test_every_layout_is_recognised_in_every_container_under_every_prefix(golden: Path) -> None:
    """Every layout under every prefix, in containers by turns."""
    seen, containers = set(), list(CONTAINERS)
    for number, (name, shapes) in enumerate(manifests(golden).items()):
        for place, prefix in enumerate(PREFIXES):
            container = containers[(number + place) % len(containers)]
            wrapped = CONTAINERS[container](empty(shapes, prefix))
            _, stripped, found = checkpoints.unwrap(wrapped, FILE)
            assert stripped == prefix, (name, container)
            assert list(found) == list(shapes)
            seen |= {(name, prefix), (name, container), (prefix, container)}
        sizes = {k: tuple(v) for k, v in shapes.items()}
        assert checkpoints.recognise(sizes, FILE) == (registry_name(name), "original")
    assert len(seen) == 17 * 11 + 17 * 6 + 11 * 6


def test_every_tensor_of_every_layout_is_accounted_for(golden: Path) -> None:
    for name, shapes in manifests(golden).items():
        model, layout = checkpoints.recognise({k: tuple(v) for k, v in shapes.items()}, FILE)
        checkpoint = checkpoints.Checkpoint(FILE, model, layout, "", "", empty(shapes))
        sources = checkpoints.account(checkpoint, own_names(checkpoint))
        used = {source for source, _ in sources.values()}
        assert used | set(checkpoint.unused) == set(shapes), name
        assert not used & set(checkpoint.unused), name


def test_names_on_hugging_face_are_those_of_transformers(golden: Path) -> None:
    listed = json.loads(gzip.decompress((golden / "checkpoints/to_hf.json.gz").read_bytes()))
    shapes = manifests(golden)
    for name, renamed in listed["models"].items():
        if name not in shapes:
            continue
        sizes = {k: tuple(v) for k, v in shapes[name].items()}
        model, _ = checkpoints.recognise(sizes, FILE)
        checkpoint = checkpoints.Checkpoint(FILE, model, "original", "", "", empty(sizes))
        for own in own_names(checkpoint):
            original, _ = source_name(own, "original", checkpoint.second)
            hub, row = source_name(own, "hub", checkpoint.second)
            place = renamed[original]
            expected = str(place[0] if isinstance(place, list) else place).partition("[")[0]
            twice = expected.replace("prompt_encoder.shared_embedding", "shared_image_embedding")
            assert hub in (expected, twice), (name, original, row)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"model": "a", "model_ema": "a"}, "2 networks .*'model.mask_decoder.iou_token.weight'"),
        ({"student.": "b", "teacher.": "b"}, "2 networks .*'student.mask_decoder"),
        ({}, "holds no known network"),
    ],
)
def test_a_file_with_two_networks_or_none_is_refused(content: Any, sentence: str) -> None:
    one = {"mask_decoder.iou_token.weight": torch.zeros(1, 256)}
    given: dict[str, Any] = {}
    for key, how in content.items():
        given |= {key: one} if how == "a" else {f"{key}{k}": v for k, v in one.items()}
    with pytest.raises(BadWeights, match=sentence):
        checkpoints.unwrap(given, FILE)


_DECODER = {"mask_decoder.iou_token.weight": (1, 256)}
_LATER = {"sam_mask_decoder.iou_token.weight": (1, 256)}


@pytest.mark.parametrize(
    "sizes",
    [
        _DECODER | {"image_encoder.pos_embed": ()},
        _DECODER | {"image_encoder.patch_embed.seq.0.c.weight": ()},
        _LATER | {"image_encoder.trunk.pos_embed_window": (1,)},
    ],
)
def test_tensors_of_too_few_axes_are_no_encoder(sizes: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(BadWeights, match="no known encoder"):
        checkpoints.recognise(sizes, FILE)


@pytest.mark.parametrize(
    "odd",
    [
        {"x.rel_pos_h": (127, 64)},
        {"image_encoder.blocks.a.attn.rel_pos_h": (127, 64)},
        {"image_encoder.blocks.0.attn.rel_pos_h": (127, 0)},
    ],
)
def test_codes_of_distance_that_are_none_are_refused(odd: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(BadWeights, match="no encoder of a SAM"):
        SamVit.sized({"image_encoder.pos_embed": (1, 64, 64, 768)} | odd)


def test_tensors_outside_the_network_are_refused_by_name() -> None:
    one = {"model.mask_decoder.iou_token.weight": torch.zeros(1, 256)}
    with pytest.raises(BadWeights, match=r"outside 'model\.': 'loss\.weight'"):
        checkpoints.unwrap(one | {"loss.weight": torch.zeros(2)}, FILE)
    sam3 = {"tracker.sam_mask_decoder.iou_token.weight": torch.zeros(1, 256)}
    with pytest.raises(BadWeights, match="is SAM 3 in its authors' layout"):
        checkpoints.unwrap(sam3 | {"detector.backbone.x": torch.zeros(2)}, FILE)


def test_adapters_are_to_be_merged_first(golden: Path) -> None:
    shapes = manifests(golden)["sam_vit_b"]
    odd = {"image_encoder.blocks.0.attn.qkv.linear_a_q.weight": [4, 768]}
    with pytest.raises(BadWeights, match=r"adapter .*linear_a_q.*merge it"):
        checkpoints.recognise({k: tuple(v) for k, v in (shapes | odd).items()}, FILE)


@pytest.fixture(scope="module")
def mobile(real_weights: Path) -> dict[str, Any]:
    """MobileSAM's tensors in the layout of its authors."""
    return dict(weights.read(real_weights / "mobile-sam"))


@pytest.fixture(scope="module")
def tiny(golden: Path, real_weights: Path) -> dict[str, Any]:
    """SAM 2 tiny's tensors in the layout of its authors, rebuilt from the Hugging Face files."""
    hub = weights.read(real_weights / "sam2-hiera-tiny")
    file = golden / "checkpoints" / "sam2-hiera-tiny.tensors.json.gz"
    listed = json.loads(gzip.decompress(file.read_bytes()))["tensors"]
    shapes = {k: tuple(v) for k, v in manifests(golden)["sam2_hiera_tiny"].items()}
    checkpoint = checkpoints.Checkpoint(FILE, "sam2-hiera-tiny", "original", "", "", empty(shapes))
    made = {}
    for own in own_names(checkpoint):
        (original, _), (name, row) = (source_name(own, to, True) for to in ("original", "hub"))
        value = hub[name].float()
        made[original] = value if row is None else value[row : row + 1].clone()
    assert set(made) == {n for n in listed if not is_unused(n)}
    for name, tensor in made.items():
        assert hashlib.sha256(tensor.numpy().tobytes()).hexdigest() == listed[name]["sha256"]
    return made


def test_mobile_sam_in_any_wrapping_is_the_same_network(
    tmp_path: Path, mobile: dict[str, Any], real_weights: Path
) -> None:
    """Read from files; the other containers and prefixes are taken off in the test of layouts."""
    plain = catalogue.models.make("mobile-sam", weights=str(real_weights)).network
    wrappings = {"bare": "", "training": "module.", "nested": "model.sam.", "safetensors": "sam."}
    for container, prefix in wrappings.items():
        state = {prefix + name: tensor for name, tensor in mobile.items()}
        file = tmp_path / f"{container}.ckpt"
        if container == "safetensors":
            file = tmp_path / "mine.safetensors"
            safetensors.save_file(state, file)
        else:
            torch.save(CONTAINERS[container](state), file)
        model = catalogue.models.make(str(file), device="cpu")
        assert model.kind.name == "mobile-sam"
        assert model.card.fingerprint == weights.fingerprint(file)
        assert f"weights from {file.name}" in model.card.summary
        same_parameters(model.network, plain)


def same_parameters(one: Any, other: Any) -> None:
    theirs = other.parts.state_dict()
    for name, tensor in one.parts.state_dict().items():
        assert torch.equal(tensor, theirs[name]) or name.endswith("num_batches_tracked"), name


def test_sam_2_in_its_authors_layout_is_the_same_network(
    tmp_path: Path, tiny: dict[str, Any], real_weights: Path
) -> None:
    video = {"memory_encoder.out_proj.bias": torch.zeros(64), "no_obj_ptr": torch.zeros(1, 256)}
    torch.save({"model": tiny | video, **BESIDE}, tmp_path / "sam2_hiera_tiny.pt")
    model = catalogue.models.make(str(tmp_path / "sam2_hiera_tiny.pt"), device="cpu")
    plain = catalogue.models.make("sam2-hiera-tiny", weights=str(real_weights), device="cpu")
    same_parameters(model.network, plain.network)
    torch.save(tiny, tmp_path / "images_only.torch")  # fits both releases
    for name in ("sam2-hiera-tiny", "sam2.1-hiera-tiny"):
        assert catalogue.models.make(f"{name}?weights={tmp_path / 'images_only.torch'}").card
    with pytest.raises(BadWeights, match="holds weights of 'sam2-hiera-tiny', not of 'sam-vit-b'"):
        catalogue.models.make("sam-vit-b", weights=str(tmp_path / "images_only.torch"))


def broken(state: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    name = "mask_decoder.iou_prediction_head.layers.1.weight"
    rest = {k: v for k, v in state.items() if k != name}
    yield rest, f"lacks '{name}'"
    yield rest | {"mask_decoder.iou_head.weight": state[name]}, f"lacks '{name}'"
    yield state | {"extra.weight": torch.zeros(1)}, r"unknown tensor 'extra\.weight'"
    yield rest | {name: torch.zeros(3, 256)}, f"'{name}' is 3 x 256 where 256 x 256 is needed"


def test_one_tensor_missing_renamed_added_or_misshapen_is_named(
    tmp_path: Path, mobile: dict[str, Any]
) -> None:
    for number, (state, sentence) in enumerate(broken(mobile)):
        file = tmp_path / f"{number}.pth"
        torch.save({"model": state}, file)
        with pytest.raises(BadWeights, match=sentence):
            catalogue.models.make("mobile-sam", weights=str(file))


def test_the_path_of_a_file_that_is_not_there_or_weights_twice_are_refused(
    tmp_path: Path, mobile: dict[str, Any]
) -> None:
    with pytest.raises(NotFound, match=r"no file 'absent\.pth'"):
        catalogue.models.make("absent.pth")
    torch.save(mobile, tmp_path / "m.pth")
    with pytest.raises(BadInput, match="is already the weights"):
        catalogue.models.make(f"{tmp_path / 'm.pth'}?weights=other")
    with received(), pytest.raises(NotFound, match="reading a run does not open"):
        catalogue.models.make(str(tmp_path / "m.pth"))


def test_a_trainers_arrays_and_scalars_are_read_and_its_objects_refused(tmp_path: Path) -> None:
    import argparse

    beside = {"loss": np.float64(0.5), "curve": np.arange(3.0)}
    torch.save({"w": torch.ones(1), **beside}, tmp_path / "numbers.pth")
    assert weights.read(tmp_path / "numbers.pth")["loss"] == 0.5
    torch.save({"w": torch.ones(1), "args": argparse.Namespace(lr=1)}, tmp_path / "args.pth")
    with pytest.raises(BadWeights, match=r"asks for 'argparse\.Namespace'"):
        weights.read(tmp_path / "args.pth")


PROMPTED = ("point", "box", "points_mask")


@pytest.mark.long
@pytest.mark.parametrize("name", ["sam2.1_hiera_small", "sam_hq_vit_b"])
def test_weights_by_rule_give_the_outputs_of_the_authors_code(
    tmp_path: Path, golden: Path, real_data: Path, name: str
) -> None:
    compare_with_rule(tmp_path, golden, real_data, name)


def compare_with_rule(tmp_path: Path, golden: Path, real_data: Path, name: str) -> None:
    folder = golden / "checkpoints"
    expected = json.loads(gzip.decompress((folder / "rule_cases.json.gz").read_bytes()))
    shapes = manifests(golden)[name]
    state = {k: torch.from_numpy(rule_tensor(k, tuple(shape))) for k, shape in shapes.items()}
    file = tmp_path / f"{name}.pth"
    torch.save({"model": state} if "sam2" in name else state, file)
    del state
    model = catalogue.models.make(str(file), device="cpu")
    asked = json.loads((folder / "cases.json").read_text())["prompts"]
    cases = expected["models"][name]["inputs"]["float"]
    encoded, found = llama(model, real_data), {}
    for case in PROMPTED:
        found[case] = decoded(encoded, asked[case], found.get("point"))
        close(found[case], cases[case], asked[case]["multimask_output"], hq="hq" in name)


def llama(model: Any, real_data: Path) -> Any:
    scene = catalogue.datasets.make("grabcut", data=real_data).load("llama")
    return model.encode(Image("drawn", "llama", scene.pixels, []))


def decoded(encoded: Any, asked: Mapping[str, Any], before: Any) -> tuple[Any, Any, int]:
    """Low-resolution logits of the four masks, their scores, and the token of a single mask.

    SAM 2 falls back from its single mask to another where it is unstable.
    """
    prompts: list[Any] = [
        Click((y, x), bool(label))
        for (x, y), label in zip(asked.get("points_xy", ()), asked.get("labels", ()), strict=True)
    ]
    if "box_xyxy" in asked:
        x0, y0, x1, y1 = asked["box_xyxy"]
        prompts.append(Box((y0, x0), (y1, x1)))
    state = None
    if "mask_input" in asked:
        logits, scores, _ = before
        state = logits[1 + int(scores[1:].argmax())][None]
    prediction = encoded.predict([Request(tuple(prompts), state)])[0]
    single = prediction.shown if encoded.network.second else 0
    return prediction.logits, torch.from_numpy(prediction.scores), single


def close(found: tuple[Any, Any, int], case: Any, several: bool, hq: bool) -> None:
    logits, scores, single = found
    tokens = [1, 2, 3] if several else [single]
    if hq and several:
        tokens = [1 + int(scores[1:].argmax())]
    if isinstance(case, dict):
        pairs = list(zip(case["low_res"], case["predicted_iou"], strict=True))
    else:
        pairs = [(row["low_res"], row["predicted_iou"]) for row in case]
    for token, (low, score) in zip(tokens, pairs, strict=True):
        most = max(abs(low["min"]), abs(low["max"]))
        places = torch.arange(16, 256, 32)
        grid = logits[token][places][:, places]
        assert torch.allclose(grid, torch.tensor(low["grid"]), atol=1e-3 * most, rtol=0)
        assert float(scores[token]) == pytest.approx(score, abs=1e-3)


@pytest.mark.long
@pytest.mark.usefixtures("encoded_once")
def test_real_weights_give_the_masks_of_the_authors_code(
    golden: Path, real_data: Path, real_weights: Path
) -> None:
    cases = json.loads((golden / "checkpoints/cases.json").read_text())
    for name, key in (("sam2-hiera-tiny", "sam2_hiera_tiny"), ("mobile-sam", "mobile_sam")):
        model = catalogue.models.make(name, weights=str(real_weights), device="cpu")
        rows = cases[key]["masks"]
        rows = rows.get("float", rows)
        encoded, found = llama(model, real_data), {}
        for case in PROMPTED:
            asked = cases["prompts"][case]
            found[case] = decoded(encoded, asked, found.get("point"))
            close(found[case], rows[case], asked["multimask_output"], hq=False)
            packed = zlib.decompress(base64.b64decode(rows[case][0]["mask_packbits_zlib_base64"]))
            bits = np.unpackbits(np.frombuffer(packed, np.uint8))[: 371 * 513].reshape(371, 513)
            token = 1 if asked["multimask_output"] else found[case][2]
            mask = encoded.masks_of(found[case][0][token : token + 1])[0].dense()
            assert int((mask != bits).sum()) <= rows[case][0]["near_threshold"]


@pytest.mark.long
@pytest.mark.usefixtures("encoded_once")
def test_check_prints_what_a_file_is_and_whether_it_predicts_sensibly(
    tmp_path: Path,
    mobile: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On one image: MobileSAM keeps the rules of every model in another test."""
    one_image = partial(model_parity.first_clicks, images=1, clicks=2)
    monkeypatch.setattr(checking, "first_clicks", one_image)
    monkeypatch.setattr(checking, "problems_of", lambda model: [])
    tuned, noise = tmp_path / "tuned.pth", tmp_path / "noise.pth"
    torch.save({"model": {f"module.{k}": v for k, v in mobile.items()}, "epoch": 3}, tuned)
    generator = torch.Generator().manual_seed(1)
    lost = {k: torch.randn(v.shape, generator=generator) for k, v in mobile.items() if "mask" in k}
    torch.save({**mobile, **lost}, noise)
    assert check(str(tuned)) == Exit.DONE
    said = capsys.readouterr().out
    assert "tuned.pth" in said
    assert "mobile-sam" in said
    assert "tensors under 'model' with the prefix 'module.'" in said
    assert check(str(noise)) == Exit.WITH_ERRORS
    assert "is this the right file?" in capsys.readouterr().out
