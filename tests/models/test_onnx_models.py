"""ONNX graphs as models: the pair predicts as its network, and strange graphs are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from segmeter.core import catalogue  # noqa: E402
from segmeter.core.errors import BadInput, BadWeights, NotFound  # noqa: E402
from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.models import Request  # noqa: E402
from segmeter.core.prompts import Box, Click  # noqa: E402
from segmeter.core.scenes import Image, Target  # noqa: E402
from segmeter.models.automatic.candidates import candidates_of  # noqa: E402
from segmeter.models.sam._decoder import Embedding  # noqa: E402
from segmeter.models.sam._encoded import SamEncodedScene  # noqa: E402
from segmeter.models.sam._loading import SamNetwork  # noqa: E402
from segmeter.models.sam._onnx import kind_of  # noqa: E402
from segmeter.models.sam._prompt_batches import Policy  # noqa: E402
from segmeter.models.sam._vit import TinyVit  # noqa: E402

from .sam.onnx_export import Stem, export_decoder, export_pair, export_variant  # noqa: E402

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def network(real_weights: Path) -> SamNetwork:
    """MobileSAM's weights for images of 256 pixels: its windows fit any side."""
    whole = catalogue.models.make("mobile-sam", weights=str(real_weights), device="cpu").network
    made = SamNetwork(TinyVit(), 256)
    made.parts.load_state_dict(whole.parts.state_dict())
    return made


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, network: SamNetwork) -> Path:
    """MobileSAM's weights as ONNX graphs."""
    return export_pair(network, tmp_path_factory.mktemp("onnx") / "mobile-sam.onnx")


def test_a_pair_predicts_as_the_network_it_was_exported_from(
    pair: Path, network: SamNetwork
) -> None:
    data = catalogue.datasets.make("mini")
    scene = data.load(data.scenes()[0])
    theirs = catalogue.models.make(str(pair))
    frame = network.frame(scene.shape)
    embedding = network.encode(frame.enter(scene.pixels, network.device))
    one, other = SamEncodedScene(network, frame, embedding, Policy()), theirs.encode(scene)
    clicks = (Click((100, 120), True), Click((10, 20), False))
    state = None
    for prompts in (clicks[:1], clicks, (Box((40, 50), (160, 200)),)):
        a, b = (e.predict([Request(prompts, state)])[0] for e in (one, other))
        assert a.shown == b.shown
        assert torch.allclose(a.logits, b.logits, atol=2e-3)
        assert np.allclose(a.scores, b.scores, atol=1e-4)
        assert np.count_nonzero(a.mask().dense() != b.mask().dense()) <= 3
        state = a.state if len(prompts) == 1 else None


def test_a_pair_is_found_by_folder_by_one_of_its_files_and_by_options(pair: Path) -> None:
    encoder, decoder = pair / "encoder.onnx", pair / "decoder.onnx"
    named = (str(pair), str(decoder), f"onnx?encoder={encoder}&decoder={decoder}")
    digests = {catalogue.models.make(name).card.fingerprint for name in named}
    assert len(digests) == 1
    with pytest.raises(NotFound, match=r"no file 'absent\.onnx'"):
        catalogue.models.make("onnx?encoder=absent.onnx&decoder=absent.onnx")
    with pytest.raises(BadInput, match="it is published or corrected"):
        catalogue.models.make(f"{pair}?masks=odd")


def test_halves_that_do_not_fit_are_refused(pair: Path, tmp_path: Path) -> None:
    other = export_decoder(SamNetwork(TinyVit(), 128), tmp_path)
    shutil.copy(pair / "encoder.onnx", tmp_path / "encoder.onnx")
    data = catalogue.datasets.make("mini")
    with pytest.raises(BadWeights, match="do not fit together: 'image_embeddings' is"):
        catalogue.models.make(str(other)).encode(data.load(data.scenes()[0]))
    (tmp_path / "decoder.onnx").unlink()
    with pytest.raises(BadWeights, match=r"encoder.onnx \(encoder\); give one encoder and one"):
        catalogue.models.make(str(other))
    (tmp_path / "decoder.onnx").write_bytes(b"no graph")
    with pytest.raises(BadWeights, match="cannot be opened as an ONNX graph"):
        catalogue.models.make(str(other))


def test_a_decoder_without_scores_and_an_encoder_of_two_images_are_refused(
    pair: Path, tmp_path: Path
) -> None:
    import onnx

    scene = Image("drawn", "grey", np.full((40, 60, 3), 99, np.uint8), [])
    graph = onnx.load(pair / "decoder.onnx")
    for output in graph.graph.output:
        output.name = f"{output.name}_odd"
    for node in graph.graph.node:
        node.output[:] = [f"{n}_odd" if f"{n}_odd" in _outputs(graph) else n for n in node.output]
        node.input[:] = [f"{n}_odd" if f"{n}_odd" in _outputs(graph) else n for n in node.input]
    onnx.save(graph, tmp_path / "decoder.onnx")
    odd = f"onnx?encoder={pair / 'encoder.onnx'}&decoder={tmp_path / 'decoder.onnx'}"
    with pytest.raises(BadWeights, match=r"a decoder gives logits .* iou_predictions or"):
        catalogue.models.make(odd).encode(scene)
    decoder = pair / "decoder.onnx"
    with pytest.raises(BadWeights, match="an encoder takes one image"):
        catalogue.models.make(f"onnx?encoder={decoder}&decoder={decoder}").encode(scene)


def _outputs(graph: Any) -> set[str]:
    return {output.name for output in graph.graph.output}


def test_a_decoder_of_one_mask_shows_it(pair: Path, network: SamNetwork, tmp_path: Path) -> None:
    folder = export_decoder(network, tmp_path, single=True)
    shutil.copy(pair / "encoder.onnx", tmp_path / "encoder.onnx")
    scene = Image("drawn", "grey", np.full((40, 60, 3), 99, np.uint8), [])
    found = (
        catalogue.models.make(str(folder)).encode(scene).predict([Request((Click((9, 9), True),))])
    )
    assert found[0].shown == 0
    assert found[0].mask().shape == (40, 60)


def test_interfaces_are_recognised_by_names(golden: Path) -> None:
    known = json.loads((golden / "checkpoints" / "onnx_interfaces.json").read_text())["run_here"]
    for case in known:
        ins, outs = ({entry[0] for entry in case[side]} for side in ("inputs", "outputs"))
        expected = "encoder" if "encoder" in case["id"] else "decoder"
        assert kind_of(ins, outs) == expected, case["id"]
    video = {"point_coords", "point_labels", "image_embed", "high_res_feats_0", "high_res_feats_1"}
    assert kind_of(video, {"obj_ptr", "mask_for_mem", "pred_mask"}) is None


FREE = {1: "num_points"}
ALL = {0: "num_labels", 1: "num_points"}
SQUARE = torch.zeros(1, 3, 256, 256)


def points(count: int = 2, free: Any = FREE) -> dict[str, Any]:
    labels = torch.tensor([[1.0, *[-1.0] * (count - 1)]])
    return {"point_coords": (torch.rand(1, count, 2) * 256, free), "point_labels": (labels, free)}


def masks(free: Any = None) -> dict[str, Any]:
    return {
        "mask_input": (torch.zeros(1, 1, 64, 64), free),
        "has_mask_input": (torch.ones(1), free),
    }


META = {**points(), **masks(), "orig_im_size": (torch.tensor([9.0, 9.0]), {})}
META_OUT = ("meta", ["masks", "iou_predictions", "low_res_masks"])
HUB = {
    "input_points": (torch.rand(1, 1, 2, 2) * 256, {2: "n"}),
    "input_labels": (torch.ones(1, 1, 2, dtype=torch.int64), {2: "n"}),
}
BOXED = {**HUB, "input_boxes": (torch.rand(1, 1, 4) * 256, {1: "boxes"})}
FINE = ["high_res_feats_0", "high_res_feats_1", "image_embed"]
RECT = ["high_res_features1", "high_res_features2", "image_embeddings"]
THREE = ("three", ["masks", "iou_predictions"])

VARIANTS: dict[str, tuple[Any, ...]] = {
    "x": (("x", SQUARE, {0: "batch"}), ["image_embeddings"], META, META_OUT),
    "free size": (
        ("input_image", torch.zeros(200, 256, 3), {0: "image_height", 1: "image_width"}),
        ["image_embeddings"], META, META_OUT, True,
    ),
    "bytes": (("image", SQUARE.byte(), {}), ["image_embeddings"], META, META_OUT),
    "extra metrics": (
        ("input_image", SQUARE, {}), ["image_embeddings"], META,
        ("metrics", ["masks", "iou_predictions", "low_res_masks", "areas", "masks.1"]),
    ),
    "five points": (
        ("input_image", SQUARE, {}), ["image_embeddings"], {**META, **points(5, {})}, META_OUT,
    ),
    "edge-sam": (
        ("image", SQUARE, {}), ["image_embeddings"], points(), ("scores", ["scores", "masks"]),
    ),
    "optimum": (
        ("pixel_values", SQUARE, {}), ["image_embeddings"], HUB,
        ("three", ["pred_masks", "iou_scores"]),
    ),
    "samexporter SAM 2": (
        ("image", SQUARE, {}), FINE, {**points(2, ALL), **masks({0: "num_labels"})}, THREE,
    ),
    "rectlabel": (
        ("input", SQUARE, {}), RECT,
        {**points(2, ALL), **masks({0: "num_labels"}), "orig_im_size": (torch.tensor([9, 9]), {})},
        ("scores", ["iou_predictions", "low_res_masks"]),
    ),
    "transformers.js": (
        ("pixel_values", SQUARE, {}), [f"image_embeddings.{i}" for i in range(3)], BOXED,
        ("three", ["pred_masks", "iou_scores"]),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def networks() -> dict[bool, Any]:
    torch.manual_seed(7)
    return {False: SamNetwork(TinyVit(), 256), True: SamNetwork(None, 256, second=True)}


@pytest.fixture(scope="module")
def variant(
    networks: dict[bool, Any], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Writes a pair once; pairs with the decoder of Meta's exporter share it."""
    made: dict[str, Path] = {}

    def write(name: str) -> Path:
        if name not in made:
            pixels, maps, taken, returned, *last = VARIANTS[name]
            alike = [n for n in made if taken is VARIANTS[n][2] and returned is VARIANTS[n][3]]
            made[name] = export_variant(
                networks[len(maps) > 1], tmp_path_factory.mktemp("pair"), pixels, maps, taken,
                returned, bool(last), made[alike[0]] / "decoder.onnx" if alike else None,
            )  # fmt: skip
        return made[name]

    return write


@pytest.mark.parametrize("name", VARIANTS)
def test_exports_in_each_documented_interface_predict_as_the_network(
    name: str, networks: dict[bool, Any], variant: Callable[[str], Path]
) -> None:
    _, maps, taken, *_ = VARIANTS[name]
    network, folder = networks[len(maps) > 1], variant(name)
    noise = np.random.default_rng(1).integers(0, 255, (100, 128, 3), dtype=np.uint8)
    scene = Image("drawn", "noise", noise, [])
    found = catalogue.models.make(str(folder)).encode(scene)
    frame = network.frame(scene.shape)
    entered = frame.enter(noise, torch.device("cpu"))
    if name == "bytes":  # the stem has no normalisation
        entered = replace(frame, mean=(0, 0, 0), deviation=(1, 1, 1)).enter(noise, network.device)
        entered = entered.round()
    with torch.no_grad():
        *fine, coarse = Stem(network.second)(entered)
    cells = (fine[1], fine[0]) if fine else None
    embedding = Embedding(coarse.flatten(2).transpose(1, 2).contiguous(), cells)
    direct = SamEncodedScene(network, frame, embedding, Policy())
    clicks = (Click((50, 60)), Click((10, 20), False))
    # The stand-in for EdgeSAM pads boxes, which the first SAM does not.
    box = [] if name in ("optimum", "edge-sam") else [(Box((20, 30), (80, 90)),)]
    state = None
    for prompts in (clicks[:1], clicks, *box):
        fed = state if "mask_input" in taken else None
        a, b = (e.predict([Request(prompts, fed)])[0] for e in (direct, found))
        if name != "five points":  # its padding is part of the prompt
            assert torch.allclose(a.logits[1:], b.logits[1:], atol=1e-3), prompts
            assert np.allclose(a.scores[1:], b.scores[1:], atol=1e-4)
        assert b.mask().shape == scene.shape
        state = a.state
    grid = np.array([[50.0, 60.0], [10.0, 20.0]])
    assert len(candidates_of(found, grid, 0.0).masks()) == 8
    if name == "five points":
        many = tuple(Click((y, 9)) for y in range(6))
        with pytest.raises(BadInput, match="takes 5 points at most; ask for fewer rounds"):
            found.predict([Request(many)])
    if name == "optimum":
        with pytest.raises(BadInput, match="has no input for boxes"):
            found.predict([Request((Box((20, 30), (80, 90)),))])


def test_a_free_batch_gives_the_predictions_of_single_requests(
    variant: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = variant("samexporter SAM 2")
    noise = np.random.default_rng(1).integers(0, 255, (100, 128, 3), dtype=np.uint8)
    encoded = catalogue.models.make(str(folder)).encode(Image("drawn", "noise", noise, []))
    first = encoded.predict([Request((Click((50, 60)),))])[0]
    requests = [
        Request((Click((y, 60)), Click((9, y))), s) for y, s in ((5, None), (40, first.state))
    ]
    alone = [encoded.predict([request])[0] for request in requests]
    monkeypatch.setattr(encoded, "groups", lambda sizes: iter([list(range(len(sizes)))]))
    for one, together in zip(alone, encoded.predict(requests), strict=True):
        assert torch.allclose(one.logits, together.logits, atol=1e-4)
        assert one.shown == together.shown


class Nearest(torch.nn.Module):
    """Foreground is what is nearer to a positive click than to a negative one."""

    def forward(self, image: Any, points: Any, labels: Any) -> Any:
        rows = torch.arange(32.0)[:, None, None]
        columns = torch.arange(32.0)[None, :, None]
        far = (rows - points[0, :, 1]) ** 2 + (columns - points[0, :, 0]) ** 2
        away = far + 1e6 * (1 - labels[0])
        return 100 - away.amin(-1)[None, None] + 0 * image.mean()


def test_the_inputs_of_a_click_network_in_one_graph_are_options(tmp_path: Path) -> None:
    file = tmp_path / "nearest.onnx"
    torch.onnx.export(
        Nearest(),
        (torch.zeros(1, 3, 32, 32), torch.zeros(1, 2, 2), torch.ones(1, 2)),
        str(file),
        input_names=["pixels", "places", "signs"],
        output_names=["logits"],
        dynamic_axes={"places": {1: "n"}, "signs": {1: "n"}},
        opset_version=17,
        dynamo=False,
    )
    target = Target("disc", Mask.box((64, 64), (20, 20), (40, 40)))
    scene = Image("drawn", "one", np.zeros((64, 64, 3), np.uint8), [target])
    model = catalogue.models.make(f"{file}?image=pixels&points=places&labels=signs&side=32")
    mask = model.encode(scene).predict([Request((Click((30, 32), True),))])[0].mask().dense()
    assert mask[30, 32]
    assert not mask[60, 2]
    assert 300 < mask.sum() * 1.0 < 2000
    wrong = catalogue.models.make(f"{file}?image=image&points=places")
    with pytest.raises(BadWeights, match="takes pixels, places, signs, and the options name image"):
        wrong.encode(scene).predict([Request((Click((30, 32), True),))])
