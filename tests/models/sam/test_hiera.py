"""SAM 2 from a folder or a checkpoint: the maps of `transformers`, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.core.errors import BadWeights  # noqa: E402
from segmeter.core.models import Request  # noqa: E402
from segmeter.core.prompts import Click  # noqa: E402
from segmeter.models.checkpoints import read_checkpoint  # noqa: E402
from segmeter.models.sam._encoded import encoded_images  # noqa: E402
from segmeter.models.sam._hiera import Sam2Encoder  # noqa: E402
from segmeter.models.sam._loading import SamNetwork  # noqa: E402
from segmeter.models.sam._prompt_batches import Policy  # noqa: E402

from ...forking import Interpreter  # noqa: E402

BACKBONE = {
    "model_type": "sam2_hiera_det_model",
    "hidden_size": 16,
    "blocks_per_stage": [1, 2, 3, 1],
    "embed_dim_per_stage": [16, 32, 64, 128],
    "num_attention_heads_per_stage": [1, 1, 2, 4],
    "window_size_per_stage": [4, 4, 6, 3],
    "global_attention_blocks": [4],
    "window_positional_embedding_background_size": [5, 5],
    "mlp_ratio": 3.0,
}


@pytest.fixture(scope="module")
def hub() -> Any:
    """A small SAM 2 whose windows do not divide its maps, with weights of some size."""
    transformers = pytest.importorskip("transformers")
    vision = {
        "backbone_config": {"image_size": [128, 128], **BACKBONE},
        "backbone_channel_list": [128, 64, 32, 16],
        "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]],
    }
    config = transformers.Sam2Config(
        vision_config=vision, prompt_encoder_config={"image_size": 128, "patch_size": 16}
    )
    made = transformers.Sam2Model(config).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(1)
    for tensor in made.parameters():
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.2)
    return made


def test_a_folder_of_the_hub_loads_with_nothing_lost(hub: Any, tmp_path: Path) -> None:
    """Parts for videos are passed over; anything else that is strange or missing is refused."""
    from safetensors.torch import load_file, save_file

    hub.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = load_file(file)
    save_file({**whole, "memory_attention.layers.0.bias": torch.zeros(3)}, file)
    network = SamNetwork.load(read_checkpoint(tmp_path, "sam2-hiera-tiny"), "cpu", "float32")
    pixels = torch.randn(1, 3, 128, 128, generator=torch.Generator().manual_seed(3))
    coarse = hub.get_image_embeddings(pixels)[-1]
    assert torch.equal(network.encode(pixels).cells, coarse.flatten(2).transpose(1, 2))
    for other in ({**whole, "odd": torch.zeros(1)}, dict(list(whole.items())[1:])):
        save_file(other, file)
        with pytest.raises(BadWeights, match=r"unknown tensor 'odd'|lacks '"):
            SamNetwork.load(read_checkpoint(tmp_path, "sam2-hiera-tiny"), "cpu", "float32")


def test_an_activation_that_sam2_does_not_have_is_refused(hub: Any, tmp_path: Path) -> None:
    hub.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["vision_config"]["backbone_config"]["hidden_act"] = "relu"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadWeights, match="'relu', where SAM 2 has gelu"):
        SamNetwork.load(read_checkpoint(tmp_path, "sam2-hiera-tiny"), "cpu", "float32")


def test_loading_sam2_does_not_import_transformers(
    real_weights: Path, python: Interpreter, tmp_path: Path
) -> None:
    code = (
        "import sys, segmeter; "
        f"segmeter.load_model('sam2-hiera-tiny', weights={str(real_weights)!r}).network; "
        "sys.exit('transformers' in sys.modules)"
    )
    (tmp_path / "script.py").write_text(code)
    done = python.run(tmp_path / "script.py")
    assert done.returncode == 0, done.stderr


def test_real_weights_give_the_hubs_maps(real_weights: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = real_weights / "sam2-hiera-tiny"
    network = SamNetwork.load(read_checkpoint(folder, "sam2-hiera-tiny"), "cpu", "float32")
    model = transformers.Sam2Model.from_pretrained(folder, dtype=torch.float32).eval()
    model.backbone_feature_sizes = [[96, 96], [48, 48], [24, 24]]  # whole images take seconds
    pixels = torch.randn(1, 3, 384, 384, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        cells = network.encode(pixels).cells
        coarse = model.get_image_embeddings(pixels)[-1]
    assert torch.equal(cells, coarse.flatten(2).transpose(1, 2))


def test_hq_sam_2_predicts_without_fused_features() -> None:
    torch.manual_seed(0)
    network = SamNetwork(Sam2Encoder({"backbone_config": BACKBONE}), 128, 1, second=True)
    pixels = np.zeros((96, 128, 3), np.uint8)
    both = encoded_images(network, network.frame((96, 128)), [pixels, pixels + 90], Policy())
    found = [one.predict([Request((Click((40, 60)),))])[0] for one in both]
    assert [one.mask().shape for one in found] == [(96, 128)] * 2
    assert not torch.equal(found[0].logits, found[1].logits)
