"""ONNX graphs as models: the pair predicts as its network, and strange graphs are refused."""

from __future__ import annotations

import json
import shutil
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
from segmeter.models.sam._networks import SamNetwork  # noqa: E402
from segmeter.models.sam._onnx import kind_of  # noqa: E402
from segmeter.models.sam._vit import TinyVit  # noqa: E402

from .sam.onnx_export import export_pair  # noqa: E402


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, real_weights: Path) -> Path:
    """MobileSAM's weights as ONNX graphs."""
    model = catalogue.models.make("mobile-sam", weights=str(real_weights), device="cpu")
    return export_pair(model.network, tmp_path_factory.mktemp("onnx") / "mobile-sam.onnx")


def test_a_pair_predicts_as_the_network_it_was_exported_from(
    pair: Path, real_weights: Path
) -> None:
    data = catalogue.datasets.make("mini")
    scene = data.load(data.scenes()[0])
    ours = catalogue.models.make("mobile-sam", weights=str(real_weights), device="cpu")
    theirs = catalogue.models.make(str(pair))
    one, other = ours.encode(scene), theirs.encode(scene)
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
    with pytest.raises(BadInput, match="neither published nor corrected"):
        catalogue.models.make(f"{pair}?masks=odd")


def test_halves_that_do_not_fit_are_refused(pair: Path, tmp_path: Path) -> None:
    other = export_pair(SamNetwork(TinyVit(), 512), tmp_path / "small")
    shutil.copy(pair / "encoder.onnx", tmp_path / "small" / "encoder.onnx")
    data = catalogue.datasets.make("mini")
    with pytest.raises(BadWeights, match="are no pair: 'image_embeddings' is"):
        catalogue.models.make(str(other)).encode(data.load(data.scenes()[0]))
    (tmp_path / "small" / "decoder.onnx").unlink()
    with pytest.raises(BadWeights, match=r"encoder.onnx \(encoder\); give one encoder and one"):
        catalogue.models.make(str(other))
    (tmp_path / "small" / "decoder.onnx").write_bytes(b"no graph")
    with pytest.raises(BadWeights, match="cannot be opened as an ONNX graph"):
        catalogue.models.make(str(other))


def test_a_decoder_of_one_mask_shows_it(tmp_path: Path) -> None:
    folder = export_pair(SamNetwork(TinyVit()), tmp_path / "single", single=True)
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
        if "extra-metrics" not in case["flags"]:
            assert kind_of(ins, outs) == expected, case["id"]
    video = {"point_coords", "point_labels", "image_embed", "high_res_feats_0", "high_res_feats_1"}
    assert kind_of(video, {"obj_ptr", "mask_for_mem", "pred_mask"}) is None


class Nearest(torch.nn.Module):
    """Foreground is what is nearer to a positive click than to a negative one."""

    def forward(self, image: Any, points: Any, labels: Any) -> Any:
        rows = torch.arange(32.0)[:, None, None]
        columns = torch.arange(32.0)[None, :, None]
        far = (rows - points[0, :, 1]) ** 2 + (columns - points[0, :, 0]) ** 2
        away = far + 1e6 * (1 - labels[0])
        return 100 - away.amin(-1)[None, None] + 0 * image.mean()


def test_a_click_network_in_one_graph_is_told_its_inputs(tmp_path: Path) -> None:
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
