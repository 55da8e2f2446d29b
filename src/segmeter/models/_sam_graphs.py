"""SAM's decoder as captured CUDA graphs: one replay in place of some two hundred launches.

A round of a session asks for one to a few masks, and launching the decoder's kernels takes
longer than running them. A graph is captured for each batch size, number of tokens and kind of
dense prompt, and serves all scenes of a network: the scene's embedding is copied into the
graph's own buffers, 16 MB on the device, when another scene is asked about. The kernels are
those of the eager way on the same shapes, so answers are equal bit for bit
(tests/models/test_sam_graphs.py).
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from segmeter.models._sam_decoder import Embedding

if TYPE_CHECKING:
    from segmeter.models._sam_view import Network, SamView

__all__ = ["DecoderGraphs", "graphs_of"]

MOST_GRAPHS = 96
"""Kept at once, those used last; twenty rounds of one user need forty."""

MOST_TOGETHER = 16
"""Larger batches keep the device busy by themselves."""

Key = tuple[int, int, bool, float]


class _Captured:
    """One graph with its buffers."""

    def __init__(self, run: Callable[[], tuple[Tensor, Tensor]], pool: Any) -> None:
        # The first passes choose algorithms and make workspaces, which must not be captured.
        beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch has none
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(2):
                run()
        torch.cuda.current_stream().wait_stream(beside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.logits, self.scores = run()


class DecoderGraphs:
    """All graphs of one network on one device."""

    def __init__(self, network: Network) -> None:
        self._network = weakref.ref(network)
        self._graphs: OrderedDict[Key, tuple[_Captured, Tensor, Tensor, Tensor]] = OrderedDict()
        self._pool = torch.cuda.graph_pool_handle()
        self._image: Embedding | None = None
        self._position: Tensor | None = None
        self._scale: Tensor | None = None
        self._seen: set[Key] = set()
        self._shown: Callable[[], SamView | None] = lambda: None

    def decoded(
        self, view: SamView, points: Tensor, labels: Tensor, masks: Sequence[Tensor | None]
    ) -> tuple[Tensor, Tensor] | None:
        """Logits and scores; None where the eager way must do: seldom asked for, or mixed."""
        known = [mask for mask in masks if mask is not None]
        if len(masks) > MOST_TOGETHER or len(known) not in (0, len(masks)):
            return None
        offset = 0.5 if view.policy.points == "sound" else 0.0
        key = (len(masks), points.shape[1], bool(known), offset)
        if key not in self._graphs and key not in self._seen:
            self._seen.add(key)  # capturing pays from the second time on
            return None
        self._show(view)
        captured, place, kind, dense = self._graph(key)
        place.copy_(points, non_blocking=True)
        kind.copy_(labels, non_blocking=True)
        if known:
            torch.stack(known, out=dense)
        captured.graph.replay()
        # The next replay writes to the same place, and predictions outlive it.
        return captured.logits.clone(), captured.scores.clone()

    def _show(self, view: SamView) -> None:
        """Bring a view's embedding into the buffers that the graphs read."""
        if self._shown() is view:
            return
        if self._image is None or self._scale is None:
            fine = view.embedding.fine
            self._image = Embedding(
                view.embedding.cells.clone(),
                None if fine is None else (fine[0].clone(), fine[1].clone()),
            )
            self._position = view.position.clone()
            self._scale = torch.tensor(view.frame.scale, device=view.embedding.cells.device)
        else:
            self._image.cells.copy_(view.embedding.cells)
            for own, theirs in zip(self._image.fine or (), view.embedding.fine or (), strict=True):
                own.copy_(theirs)
            self._scale.copy_(torch.tensor(view.frame.scale))
        self._shown = weakref.ref(view)

    def _graph(self, key: Key) -> tuple[_Captured, Tensor, Tensor, Tensor]:
        if key in self._graphs:
            self._graphs.move_to_end(key)
            return self._graphs[key]
        network, image, scale = self._network(), self._image, self._scale
        assert network is not None  # the view that asks holds it
        assert image is not None
        assert scale is not None
        batch, tokens, with_masks, offset = key
        place = torch.zeros(batch, tokens, 2, device=network.device)
        kind = torch.zeros(batch, tokens, dtype=torch.long, device=network.device)
        low = 4 * network.prompts.grid_side
        dense = torch.zeros(batch, 1, low, low, device=network.device)

        def run() -> tuple[Tensor, Tensor]:
            places = (place + offset) * scale - offset
            sparse = network.prompts.points(places.flip(-1), kind)
            prompt = network.prompts.masks(dense) if with_masks else network.prompts.no_mask()
            logits, scores = network.decoder(image, self._position, sparse, prompt)
            return logits.float(), scores.float()

        while len(self._graphs) >= MOST_GRAPHS:
            self._graphs.popitem(last=False)
        self._graphs[key] = (_Captured(run, self._pool), place, kind, dense)
        return self._graphs[key]


_BY_NETWORK: weakref.WeakKeyDictionary[Any, DecoderGraphs] = weakref.WeakKeyDictionary()


def graphs_of(network: Network) -> DecoderGraphs | None:
    """The network's graphs; None where it does not compute on a CUDA device."""
    if network.device.type != "cuda":
        return None
    if network not in _BY_NETWORK:
        _BY_NETWORK[network] = DecoderGraphs(network)
    return _BY_NETWORK[network]
