"""SAM-Med3D: cubes, places, and a small network of its architecture with random weights.

The published checkpoint is not available; names follow it, shapes and arithmetic are checked
against formulas written out here.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.core import catalogue  # noqa: E402
from segmeter.core.errors import BadInput, BadWeights, NotFound  # noqa: E402
from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.models import Request  # noqa: E402
from segmeter.core.prompts import Box, Click  # noqa: E402
from segmeter.core.scenes import SceneHeader, Volume  # noqa: E402
from segmeter.models.sam._vit import VitAttention, VitBlock  # noqa: E402
from segmeter.models.volumes._networks import SamMed3dNetwork  # noqa: E402
from segmeter.models.volumes.sam_med3d import (  # noqa: E402
    SamMed3d,
    SamMed3dEncodedScene,
    cube_around,
    resampled,
)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    small = SamMed3dNetwork(width=24, depth=3, heads=2)
    return small.eval().requires_grad_(False)


def volume(shape=(30, 40, 50), spacing=(5.0, 1.5, 1.5)):
    voxels = np.random.default_rng(0).gamma(2, 50, shape).astype(np.float32)
    return Volume("made", "1", voxels, (), header=SceneHeader("volume", shape, spacing))


def test_cubes_are_the_originals(golden):
    for case in json.loads((golden / "volumes" / "crop_pad_128.json").read_text()):
        begin = cube_around(case["points"]).begin
        expected_crop, expected_pad = [], []
        for first, size in zip(begin, case["shape"], strict=True):
            expected_crop += [max(first, 0), max(size - first - 128, 0)]
            expected_pad += [max(-first, 0), max(first + 128 - size, 0)]
        assert expected_crop == case["crop"]
        assert expected_pad == case["pad"]


def test_a_cube_is_cut_and_pasted_at_its_place():
    values = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    cube = cube_around([(1, 1, 1)], side=4)
    assert cube.begin == (-1, -1, -1)
    whole = np.zeros_like(values)
    cube.paste(cube.cut(values), whole)
    assert np.array_equal(whole, np.where(np.indices(values.shape).max(0) < 3, values, 0))


def test_places_of_published_and_corrected_differ_as_specified(network):
    """30 slices of 5 mm: slice 28 is 94 in the published code and 94.5 by voxel centres."""
    made = volume()
    published = SamMed3dEncodedScene(network, made, "published")
    corrected = SamMed3dEncodedScene(network, made, "corrected")
    assert published.resampled.shape == (50, 40, 100)
    assert published.place((28, 0, 0))[2] == 94
    assert corrected.place((28, 0, 0))[2] == 94
    assert corrected.place((29, 0, 0))[2] == 98
    assert published.place((29, 0, 0))[2] == 97


def test_slices_far_apart_are_not_mixed():
    values = np.zeros((4, 4, 3), np.float32)
    values[:, :, 1] = 1
    found = resampled(values, (8, 8, 9), (1.0, 1.0, 6.0))
    assert np.array_equal(found[0, 0], [0, 0, 0, 1, 1, 1, 0, 0, 0])
    even = resampled(values, (8, 8, 9), (1.0, 1.0, 2.0))
    assert 0 < even[0, 0, 2] < 1


def test_the_network_has_the_names_and_sizes_of_the_checkpoint():
    with torch.device("meta"):
        whole = SamMed3dNetwork()
    state = whole.state_dict()
    assert tuple(state["image_encoder.pos_embed"].shape) == (1, 8, 8, 8, 768)
    assert tuple(state["image_encoder.blocks.0.attn.rel_pos_d"].shape) == (27, 64)
    assert tuple(state["image_encoder.blocks.2.attn.rel_pos_w"].shape) == (15, 64)
    assert tuple(state["image_encoder.neck.2.weight"].shape) == (384, 384, 3, 3, 3)
    matrix = "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"
    assert tuple(state[matrix].shape) == (3, 128)
    assert tuple(state["mask_decoder.output_upscaling.3.weight"].shape) == (96, 48, 2, 2, 2)
    assert tuple(state["mask_decoder.iou_prediction_head.layers.0.weight"].shape) == (256, 384)
    count = sum(v.numel() for v in state.values())
    assert 100e6 < count < 101.5e6


def test_attention_weighs_cells_by_their_distance_along_each_axis():
    torch.manual_seed(2)
    attention = VitAttention(8, 2, 3, "dhw").eval()
    for axis in "dhw":
        attention.get_parameter(f"rel_pos_{axis}").data.normal_()
    x = torch.randn(1, 3, 3, 3, 8)
    found = attention(x)
    qkv = attention.qkv(x).reshape(27, 3, 2, 4)
    places = np.argwhere(np.ones((3, 3, 3)))
    for head in range(2):
        q, k, v = (qkv[:, i, head] for i in range(3))
        scores = q @ k.T / 2.0
        for a, b in np.ndindex(27, 27):
            for axis, name in enumerate("dhw"):
                code = attention.get_parameter(f"rel_pos_{name}")
                scores[a, b] += q[a] @ code[places[a][axis] - places[b][axis] + 2]
        mixed = scores.softmax(-1) @ v
        if head == 0:
            first = mixed
    expected = attention.proj(torch.cat([first, mixed], dim=1)).reshape(x.shape)
    assert torch.allclose(found, expected, atol=1e-5)


def test_a_window_wider_than_the_cube_sees_zeros_beyond_it():
    torch.manual_seed(3)
    block = VitBlock(8, 2, 3, "dhw").eval()
    x = torch.randn(1, 2, 2, 2, 8)
    padded = torch.zeros(1, 3, 3, 3, 8)
    padded[:, :2, :2, :2] = block.norm1(x)
    after = x + block.attn(padded)[:, :2, :2, :2]
    assert torch.allclose(block(x, (3, 3, 3)), after + block.mlp(block.norm2(after)), atol=1e-6)


def test_a_session_keeps_its_cube_and_encodes_it_once(network):
    encoded = SamMed3dEncodedScene(network, volume())
    first = encoded.predict([Request((Click((14, 20, 25)),))])[0]
    assert first.mask().shape == (30, 40, 50)
    clicks = (Click((14, 20, 25)), Click((3, 5, 5), positive=False))
    second = encoded.predict([Request(clicks, first.state)])[0]
    assert second.state.cube == first.state.cube
    assert encoded.embedded.cache_info().misses == 1
    assert not np.array_equal(first.state.logits, second.state.logits)
    assert not encoded.predict([Request(())])[0].mask()


def test_published_passes_one_point_only_and_cuts_logits_at_a_half(network):
    """Mistakes 12 and 13 of IntRaBench."""
    made = volume()
    one, two = Click((14, 20, 25)), Click((10, 12, 30))
    logits = {}
    for protocol in ("published", "corrected"):
        encoded = SamMed3dEncodedScene(network, made, protocol)
        found = encoded.predict([Request((one, two))])[0]
        points, _ = encoded._passed(
            found.state.cube, [encoded.place(c.point) for c in (one, two)], [1, 1]
        )
        assert len(points) == (1 if protocol == "published" else 2)
        logits[protocol] = found
        low = encoded.rendered(found.state.cube, np.full((32, 32, 32), 0.3, np.float32))
        assert bool(low) == (protocol == "corrected")


def passed_points(encoded, monkeypatch):
    """Let a view tell which points, signs and masks reach its network."""
    told, decoded = [], encoded._decoded

    def listen(cube, points, labels, before):
        told.append((list(points), list(labels), before is not None))
        return decoded(cube, points, labels, before)

    monkeypatch.setattr(encoded, "_decoded", listen)
    return told


@pytest.mark.parametrize("protocol", ["published", "corrected"])
def test_earlier_prompts_that_are_forgotten_leave_the_new_point_and_the_mask(
    network, protocol, monkeypatch
):
    encoded = SamMed3dEncodedScene(network, volume(), protocol)
    told = passed_points(encoded, monkeypatch)
    one, two = Click((14, 20, 25)), Click((10, 12, 30), positive=False)
    first = encoded.predict([Request((one,))])[0]
    second = encoded.predict([Request((two,), first.state)])[0]
    assert told[1][0] != told[0][0]
    assert told[1][1:] == ([0], True)
    third = encoded.predict([Request((one,), second.state)])[0]
    assert told[2] == (told[0][0], [1], True)
    assert len({a.state.logits.tobytes() for a in (first, second, third)}) == 3


def test_earlier_prompts_that_are_kept_lose_the_mask_in_published_only(network, monkeypatch):
    """Mistake 11 of IntRaBench: and only the newest point is used, which is listed first."""
    one, two, three = Click((14, 20, 25)), Click((10, 12, 30), positive=False), Click((9, 9, 9))
    passed = {}
    for protocol in ("published", "corrected"):
        encoded = SamMed3dEncodedScene(network, volume(), protocol)
        told = passed[protocol] = passed_points(encoded, monkeypatch)
        state = None
        for count in (1, 2, 3):
            state = encoded.predict([Request((one, two, three)[:count], state)])[0].state
        heard = state.history.passed
        assert heard == ((three, two, one) if protocol == "published" else (one, two, three))
        assert len(told) == 3
    assert [(len(p), s, m) for p, s, m in passed["published"]] == [
        (1, [1], False),
        (1, [0], False),
        (1, [1], False),
    ]
    assert [(len(p), s, m) for p, s, m in passed["corrected"]] == [
        (1, [1], False),
        (2, [1, 0], True),
        (3, [1, 0, 1], True),
    ]


def test_prompts_outside_the_cube_and_targets_between_voxels_are_reported(network):
    long = volume((200, 12, 12), (1.5, 1.5, 1.5))
    near, far = Click((10, 5, 5)), Click((190, 5, 5))
    rounds = [(near,), (near, far), ()]
    assert SamMed3dEncodedScene(network, long).lost_prompts(rounds) == [0, 1, 0]
    assert SamMed3dEncodedScene(network, long, "published").lost_prompts([(near, near)]) == [1]

    fine = SamMed3dEncodedScene(network, volume((30, 40, 50), (0.5, 0.5, 0.5)))
    assert fine.vanishes(Mask.box((30, 40, 50), (9, 9, 9), (10, 10, 10)))
    assert not fine.vanishes(Mask.box((30, 40, 50), (9, 9, 9), (15, 15, 15)))
    assert not fine.vanishes(Mask.empty((30, 40, 50)))


def test_boxes_and_images_are_refused(network):
    with pytest.raises(BadInput, match="clicks and strokes only"):
        SamMed3dEncodedScene(network, volume()).predict([Request((Box((1, 1, 1), (2, 2, 2)),))])


def test_without_weights_the_error_names_where_to_put_them(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NotFound, match="no weights for 'sam-med3d-turbo'"):
        catalogue.models.make("sam-med3d-turbo", weights=str(tmp_path))


def test_weights_of_another_size_are_refused(network, tmp_path):
    (tmp_path / "sam-med3d").mkdir()
    torch.save({"model_state_dict": network.state_dict()}, tmp_path / "sam-med3d" / "a.pth")
    with pytest.raises(BadWeights, match="another architecture"):
        _ = SamMed3d("sam-med3d", str(tmp_path), "cpu").network
