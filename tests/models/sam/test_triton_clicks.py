"""The decoder's fused steps give what their twins give: on a GPU, or interpreted by Triton."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("triton") is None:
    pytest.skip("no GPU, and no Triton to interpret its kernels", allow_module_level=True)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

from segmeter.models.sam import _triton_clicks as fused  # noqa: E402
from segmeter.models.sam._decoder import Embedding, from_cells  # noqa: E402
from segmeter.models.sam._encoded import SamEncodedScene  # noqa: E402
from segmeter.models.sam._point_grid import _table  # noqa: E402
from segmeter.models.sam._single_clicks import SingleClicks  # noqa: E402
from segmeter.models.sam._triton_clicks import FusedClicks  # noqa: E402

sys.path.insert(0, os.path.dirname(__file__))
from test_point_grid import POINTS, encode  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
F = torch.nn.functional


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, device=DEVICE)


def on_device(encoded: SamEncodedScene) -> SamEncodedScene:
    """A small network's view where the kernels run."""
    network: Any = encoded.network
    network.device = torch.device(DEVICE)
    network.prompts.to(DEVICE)
    network.decoder.to(DEVICE)
    own = encoded.embedding
    fine = None if own.fine is None else (own.fine[0].to(DEVICE), own.fine[1].to(DEVICE))
    return SamEncodedScene(
        network, encoded.frame, Embedding(own.cells.to(DEVICE), fine), encoded.policy
    )


@pytest.mark.parametrize("one_image", [True, False])
def test_cells_settle_as_by_add_and_layer_norm(one_image: bool) -> None:
    torch.manual_seed(1)
    told, bias, norm, shift = drawn(3, 20, 32), drawn(32), drawn(32), drawn(32)
    cells = drawn(20, 32) if one_image else drawn(3, 20, 32)
    position = drawn(20, 32)
    own, placed = fused.settled(told, cells, bias, norm, shift, position)
    plain = F.layer_norm(cells + told + bias, (32,), norm, shift)
    torch.testing.assert_close(own, plain, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(placed, plain + position, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("tokens", [7, 8])
def test_shares_are_a_softmax_over_tokens(tokens: int) -> None:
    torch.manual_seed(2)
    scores, offset = drawn(2, 8 * tokens, 30), drawn(2, 8 * tokens, 1)
    plain = (scores + offset).view(2, 8, tokens, 30).softmax(dim=2).flatten(1, 2)
    torch.testing.assert_close(fused.shared_out(scores, offset, tokens), plain)


@pytest.mark.parametrize("with_fine", [True, False])
def test_enlarging_is_norm_gelu_and_product(with_fine: bool) -> None:
    torch.manual_seed(3)
    x, bias, norm, shift = drawn(2, 16, 4, 64), drawn(64), drawn(64), drawn(64)
    fine = drawn(1, 16, 4, 64) if with_fine else None
    plain = F.gelu(F.layer_norm(x + bias + (0 if fine is None else fine), (64,), norm, shift, 1e-6))
    torch.testing.assert_close(
        fused.lifted(x, bias, fine, norm, shift, 1e-6), plain, atol=1e-5, rtol=1e-5
    )
    x, bias, heads = drawn(2, 256, 32), drawn(32), drawn(2, 32, 3)
    finer = drawn(1, 16, 16, 32) if with_fine else None
    added = x + bias + (0 if finer is None else finer.flatten(1, 2))
    maps = fused.enlarged_maps(x, bias, finer, heads, 4)
    torch.testing.assert_close(maps, from_cells(F.gelu(added) @ heads, 4, 2), atol=2e-5, rtol=1e-5)


def test_counts_and_boxes_are_those_of_whole_maps() -> None:
    torch.manual_seed(4)
    values = drawn(4, 37, 300) - 1
    values[1] = -9
    values[2] = 9
    assert torch.equal(fused.counted(values, -0.5, 0.0, 0.5).cpu(), _table(values.cpu(), 0.0, 0.5))
    assert fused.counted(values[:0], -0.5, 0.0, 0.5).shape == (0, 7)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("above", [0.0, 0.2])
def test_clicks_get_the_candidates_of_their_twin(second: bool, above: float) -> None:
    encoded = on_device(encode(second))
    points = torch.tensor(POINTS, dtype=torch.float32, device=DEVICE)
    plain, quick = SingleClicks(encoded), FusedClicks(encoded)
    with torch.no_grad():
        theirs = plain.candidates(plain.tokens(points), above)
        mine = quick.candidates(quick.tokens(points), above)
    assert torch.equal(mine[2], theirs[2])
    torch.testing.assert_close(mine[0], theirs[0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(mine[1], theirs[1], atol=1e-5, rtol=1e-5)
