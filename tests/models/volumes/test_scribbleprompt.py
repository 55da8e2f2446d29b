"""ScribblePrompt-UNet: what is drawn beside the slice, and what goes back in."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.core.errors import BadInput, BadWeights  # noqa: E402
from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.models import Request  # noqa: E402
from segmeter.core.prompts import Box, Click, MaskHint, Scribble, Text  # noqa: E402
from segmeter.models.conformance import check  # noqa: E402
from segmeter.models.volumes._networks import ScribbleUNet  # noqa: E402
from segmeter.models.volumes.medical_sam import ScribbleEncodedScene, ScribblePrompt  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Random weights in the layout of the published checkpoint: a bare state dict."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("weights") / "scribbleprompt"
    place.mkdir()
    torch.save(ScribbleUNet().state_dict(), place / "ScribblePrompt_unet_v1_nf192_res128.pt")
    return place.parent


@pytest.fixture(scope="module")
def encoded():
    torch.manual_seed(0)
    small = ScribbleUNet(width=8).eval().requires_grad_(False)
    values = np.random.default_rng(0).random((64, 96)).astype(np.float32)
    return ScribbleEncodedScene(small, values)


def test_the_network_has_the_names_and_sizes_of_the_checkpoint():
    with torch.device("meta"):
        state = ScribbleUNet().state_dict()
    shapes = {k: tuple(v.shape) for k, v in state.items()}
    assert shapes["downs.0.conv.0.weight"] == (192, 5, 3, 3)
    assert shapes["downs.3.conv.1.weight"] == (1,)
    assert shapes["ups.1.conv.0.weight"] == (192, 384, 3, 3)
    assert shapes["ups.7.conv.0.weight"] == (192, 384, 3, 3)
    assert shapes["bottleneck.conv.0.bias"] == (192,)
    assert shapes["final_conv.conv.0.weight"] == (1, 192, 1, 1)
    assert len(shapes) == 9 * 3 + 2


def test_prompts_are_drawn_in_their_channels(encoded):
    prompts = (Box((16, 24), (31, 47)), Click((20, 30)), Click((5, 5), positive=False))
    drawn = encoded._channels(Request(prompts))
    assert drawn[1].sum() == 32 * 32
    assert drawn[1, 32:64, 32:64].all()
    assert np.argwhere(drawn[2]).tolist() == [[41, 40]]  # corrected: the pixel's centre
    assert np.argwhere(drawn[3]).tolist() == [[11, 7]]
    published = encoded.with_policy("published")._channels(Request(prompts))
    assert np.argwhere(published[2]).tolist() == [[40, 40]]
    stroke = encoded._channels(Request((Scribble(((1, 1), (2, 1), (3, 1))),)))
    assert stroke[2].sum() == 3


def test_the_state_is_the_sigmoid_of_a_probability_only_in_published(encoded):
    request = [Request((Click((20, 30)),))]
    corrected = encoded.predict(request)[0]
    with torch.no_grad():
        logits = encoded.network(torch.from_numpy(encoded._channels(request[0]))[None])
    assert np.array_equal(corrected.state, logits[0, 0].numpy())
    published = encoded.with_policy("published").predict(request)[0]
    assert published.state.min() >= 0.5
    again = encoded.predict([Request(request[0].prompts, corrected.state)])[0]
    assert not np.array_equal(again.state, corrected.state)


def test_masks_come_at_the_slices_size(encoded):
    hint = Mask.box((64, 96), (10, 10), (30, 40))
    (found,) = encoded.predict([Request((MaskHint(hint),))])
    assert found.mask().shape == (64, 96)
    with pytest.raises(BadInput, match="takes no text"):
        encoded.predict([Request((Text("heart"),))])


def test_a_model_from_a_checkpoint_conforms(folder, encoded):
    model = ScribblePrompt(str(folder), "cpu")
    assert sum(p.numel() for p in model.network.parameters()) > 3.9e6
    vars(model)["network"] = encoded.network  # narrower, for the time it takes
    assert check(model) == []


def test_a_checkpoint_of_another_width_is_refused(tmp_path):
    place = tmp_path / "scribbleprompt"
    place.mkdir()
    torch.save(ScribbleUNet(width=8).state_dict(), place / "a.pt")
    with pytest.raises(BadWeights, match="another architecture"):
        _ = ScribblePrompt(str(tmp_path), "cpu").network
