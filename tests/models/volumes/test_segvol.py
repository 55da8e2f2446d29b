"""SegVol: names and sizes of its checkpoint, blocks, and a small network with random weights."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.core.errors import BadInput, BadWeights  # noqa: E402
from segmeter.core.masks import Mask  # noqa: E402
from segmeter.core.models import Request  # noqa: E402
from segmeter.core.prompts import Box, Click, Text  # noqa: E402
from segmeter.core.scenes import SceneHeader, Volume  # noqa: E402
from segmeter.models.volumes._networks import SegVolNetwork, _Patches  # noqa: E402
from segmeter.models.volumes.segvol import (  # noqa: E402
    SegVol,
    SegVolEncodedScene,
    _grown,
    foreground_normalised,
    windows,
)

SIZE = (8, 16, 16)


class Bright(SegVolNetwork):
    """The network's frame around a rule: what is bright where a point or box says."""

    def __init__(self):
        super().__init__(SIZE, (4, 8, 8), 24, 1, 2)
        self.decoded = []

    def encode(self, block):
        return block

    def decode(self, cells, points, labels):
        self.decoded.append(labels.tolist())
        return (cells[0, 0] > 0.5).float() * 2 - 1


def volume(shape=(20, 30, 40)):
    voxels = np.full(shape, -1000, np.int16)
    voxels[2:18, 3:27, 4:36] = 0
    voxels[8:12, 10:16, 12:20] = 300
    return Volume("made", "1", voxels, (), header=SceneHeader("volume", shape, (1.0, 1.0, 1.0)))


def test_the_network_has_the_names_and_sizes_of_the_checkpoint():
    with torch.device("meta"):
        state = SegVolNetwork().state_dict()
    shapes = {k: tuple(v.shape) for k, v in state.items()}
    assert shapes["image_encoder.patch_embedding.position_embeddings"] == (1, 2048, 768)
    assert shapes["image_encoder.patch_embedding.patch_embeddings.1.weight"] == (768, 1024)
    assert shapes["image_encoder.blocks.11.attn.qkv.weight"] == (2304, 768)
    assert "image_encoder.blocks.0.attn.qkv.bias" not in shapes
    assert shapes["image_encoder.blocks.0.mlp.linear1.weight"] == (3072, 768)
    matrix = "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"
    assert shapes[matrix] == (3, 384)
    assert shapes["mask_decoder.output_upscaling.1.weight"] == (192, 16, 32, 32)
    assert shapes["mask_decoder.txt_align_upscaled_embedding.weight"] == (96, 768)


def test_patches_are_cut_voxel_by_voxel():
    patches = _Patches((2, 2, 2), (2, 3, 4), 24)
    patches.patch_embeddings[1].weight.data = torch.eye(24)
    patches.patch_embeddings[1].bias.data.zero_()
    block = torch.arange(4 * 6 * 8.0).reshape(1, 1, 4, 6, 8)
    tokens = patches(block)[0]
    assert torch.equal(tokens[0], block[0, 0, :2, :3, :4].flatten())
    assert torch.equal(tokens[5], block[0, 0, 2:, :3, 4:].flatten())


def test_random_weights_answer_points_and_boxes():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = SegVolNetwork((8, 32, 32), (4, 16, 16), 96, 2, 4).eval()
    cells = network.encode(torch.rand(1, 1, 8, 32, 32))
    point = network.decode(cells, torch.tensor([[3.0, 5, 6]]), torch.tensor([1]))
    corners = torch.tensor([[1.0, 2, 3], [5, 20, 20]])
    box = network.decode(cells, corners, torch.tensor([2, 3]))
    assert point.shape == box.shape == (8, 32, 32)
    assert not torch.allclose(point, box)


def test_small_objects_are_zoomed_in_on():
    network = Bright()
    encoded = SegVolEncodedScene(network, volume())
    (found,) = encoded.predict([Request((Click((10, 12, 15)),))])
    expected = Mask.box((20, 30, 40), (8, 10, 12), (12, 16, 20))
    assert found.mask() == expected
    assert network.decoded[0] == [1]
    assert [1, 2, 3] in network.decoded[1:]  # the point with the box of what was found
    (found,) = encoded.predict([Request((Box((8, 10, 12), (11, 15, 19)),))])
    assert found.mask() == expected
    assert not encoded.predict([Request(())])[0].mask()


def test_embedded_blocks_are_kept_while_there_are_few(monkeypatch):
    """A large CT has hundreds of blocks; the one that is asked about again stays."""
    monkeypatch.setattr("segmeter.models.volumes.segvol._KEPT_BLOCKS", 2)
    encoded = SegVolEncodedScene(Bright(), volume())
    expected = Mask.box((20, 30, 40), (8, 10, 12), (12, 16, 20))
    for _ in range(2):
        assert encoded.predict([Request((Click((10, 12, 15)),))])[0].mask() == expected
        assert encoded.embedded.cache_info().currsize <= 2


def test_a_volume_smaller_than_a_block_is_returned_in_its_frame():
    shape = (4, 10, 12)
    voxels = np.zeros(shape, np.float32)
    voxels[1:3, 4:7, 5:9] = 100
    small = Volume("made", "s", voxels, (), header=SceneHeader("volume", shape, (1.0, 1.0, 1.0)))
    (found,) = SegVolEncodedScene(Bright(), small).predict([Request((Click((1, 5, 6)),))])
    assert found.mask() == Mask.box(shape, (1, 4, 5), (3, 7, 9))


def test_blocks_cover_a_box_and_half_overlap():
    starts = windows((0, 0, 0), (20, 40, 40), SIZE)
    covered = np.zeros((20, 40, 40), bool)
    for z, y, x in starts:
        covered[z : z + 8, y : y + 16, x : x + 16] = True
    assert covered.all()
    low, high = _grown(Mask.box((20, 40, 40), (18, 1, 30), (20, 3, 31)), SIZE)
    assert [b - a for a, b in zip(low, high, strict=True)] == [8, 16, 16]
    assert min(low) >= 0
    assert high[0] == 20


def test_values_are_stretched_by_what_is_above_the_mean():
    values = np.r_[np.full(50, -1000.0), np.linspace(0, 100, 50)].astype(np.float32)
    found = foreground_normalised(values)
    assert (found.min(), found.max()) == (0, 1)
    assert not foreground_normalised(np.zeros(5, np.float32)).any()


def test_words_are_refused_and_other_weights_too(tmp_path):
    with pytest.raises(BadInput, match="clicks, strokes and boxes only"):
        SegVolEncodedScene(Bright(), volume()).predict([Request((Text("liver"),))])
    (tmp_path / "segvol").mkdir()
    torch.save({"model": {"module.x": torch.zeros(1)}}, tmp_path / "segvol" / "a.pth")
    with pytest.raises(BadWeights, match="another architecture"):
        _ = SegVol(str(tmp_path), "cpu").network
