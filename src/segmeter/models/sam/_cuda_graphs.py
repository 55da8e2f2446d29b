"""SAM's decoder as captured CUDA graphs: one replay in place of some hundreds of launches.

A round of a session needs one to a few masks, and launching the decoder's kernels takes
longer than running them. A graph, from the points to which mask is shown, is captured for each
batch size, number of tokens and kind of dense prompt, and serves all scenes of a network: the
scene's embedding is copied into the graph's own buffers, 16 MB on the device, when another scene is
requested. The kernels are those of the eager way on the same shapes, so answers are equal bit for
bit (tests/models/sam/test_cuda_graphs.py). On an H200 a round of one request is 3.5 times as fast;
the encoders, 1.5 to 1.8 times as fast at most, are not captured (perf/decoder_paths.py).
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from segmeter.models.sam._prompt_batches import Policy, fed_back, shown_masks

if TYPE_CHECKING:
    from segmeter.models.sam._encoded import SamEncodedScene
    from segmeter.models.sam._loading import SamNetwork

MOST_GRAPHS = 96
"""Kept at once, those used last; twenty rounds of one user need forty."""

MOST_TOGETHER = 16
"""Larger batches keep the device busy by themselves."""

Key = tuple[int, int, bool, Policy]
Decoded = tuple[Tensor, Tensor, Tensor, Tensor]
Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Graph:
    """A captured graph with what it writes, and the buffers it reads, also pinned on the host."""

    graph: torch.cuda.CUDAGraph
    made: Decoded
    asked: Tensor  # (batch, 3 tokens + 1): points, labels, whether ambiguous
    host: Tensor
    copied: torch.cuda.Event
    dense: Tensor

    def predict(
        self, points: Floats, labels: Labels, masks: Sequence[Tensor], first: Sequence[bool]
    ) -> Decoded:
        """Outputs of a replay, copied so that the next replay does not overwrite them."""
        self.copied.synchronize()  # the previous request has been copied
        tokens = labels.shape[1]
        host = self.host.numpy()
        host[:, : 2 * tokens] = points.reshape(len(points), -1)
        host[:, 2 * tokens : -1] = labels
        host[:, -1] = first
        self.asked.copy_(self.host, non_blocking=True)
        self.copied.record()
        if masks:
            torch.stack(list(masks), out=self.dense)
        self.graph.replay()
        logits, scores, shown, back = (tensor.clone() for tensor in self.made)
        return logits, scores, shown, back


def _captured(run: Callable[[], Decoded], pool: Any) -> tuple[torch.cuda.CUDAGraph, Decoded]:
    # The first passes choose algorithms and make workspaces, which must not be captured.
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch has none
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        made = run()
    return graph, made


class DecoderGraphs:
    """All graphs of one network on one device, and the embedding that they read."""

    def __init__(self, network: SamNetwork, like: SamEncodedScene) -> None:
        self._image, self._position = like.embedding.each(torch.clone), like.position.clone()
        self._scale = torch.zeros(2, device=network.device)
        self._network = weakref.ref(network)
        self._graphs: OrderedDict[Key, _Graph] = OrderedDict()
        self._pool = torch.cuda.graph_pool_handle()
        self._seen: set[Key] = set()
        self._shown: Callable[[], SamEncodedScene | None] = lambda: None

    def decoded(
        self,
        encoded: SamEncodedScene,
        points: Floats,
        labels: Labels,
        masks: Sequence[Tensor | None],
        first: Sequence[bool],
    ) -> Decoded | None:
        """Logits, scores, which mask is shown and what of it is fed back, on the device.

        None for the eager path: for rare or mixed shapes.
        """
        known = [mask for mask in masks if mask is not None]
        if len(masks) > MOST_TOGETHER or len(known) not in (0, len(masks)):
            return None
        key = (len(masks), points.shape[1], bool(known), encoded.policy)
        if key not in self._graphs and key not in self._seen:
            self._seen.add(key)  # capturing pays from the second time on
            return None
        self._show(encoded)
        if key not in self._graphs:
            while len(self._graphs) >= MOST_GRAPHS:
                self._graphs.popitem(last=False)
            self._graphs[key] = self._capture(*key)
        self._graphs.move_to_end(key)
        return self._graphs[key].predict(points, labels, known, first)

    def _show(self, encoded: SamEncodedScene) -> None:
        """Copy an embedding into the buffers that the graphs read."""
        if self._shown() is encoded:
            return
        theirs = encoded.embedding
        self._image.cells.copy_(theirs.cells)
        for own, fine in zip(self._image.fine or (), theirs.fine or (), strict=True):
            own.copy_(fine)
        self._scale.copy_(torch.tensor(encoded.frame.scale))
        self._shown = weakref.ref(encoded)

    def _capture(self, batch: int, tokens: int, with_masks: bool, policy: Policy) -> _Graph:
        network, image, scale = self._network(), self._image, self._scale
        assert network is not None  # the encoded scene that calls holds it
        asked = torch.zeros(batch, 3 * tokens + 1, device=network.device)
        low = 4 * network.prompts.grid_side
        dense = torch.zeros(batch, 1, low, low, device=network.device)
        second, offset = network.second, policy.offset

        def run() -> Decoded:
            place = asked[:, : 2 * tokens].reshape(batch, tokens, 2)
            kind = asked[:, 2 * tokens : -1].long()
            places = (place + offset) * scale - offset
            sparse = network.prompts.points(places.flip(-1), kind)
            prompt = network.prompts.masks(dense) if with_masks else network.prompts.no_mask()
            logits, scores = network.decoder(image, self._position, sparse, prompt)
            logits, scores = logits.float(), scores.float()
            shown = shown_masks(policy, second, logits, scores, asked[:, -1] > 0)
            return logits, scores, shown, fed_back(policy, second, logits, shown)

        graph, made = _captured(run, self._pool)
        host = torch.zeros(asked.shape, pin_memory=True)
        copied = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch has none
        return _Graph(graph, made, asked, host, copied, dense)


_BY_NETWORK: weakref.WeakKeyDictionary[Any, DecoderGraphs] = weakref.WeakKeyDictionary()


def graphs_of(encoded: SamEncodedScene) -> DecoderGraphs | None:
    """The graphs of a scene's network; None without a CUDA device, and for SAM-HQ."""
    network = encoded.network
    if not encoded.graphs or network.device.type != "cuda" or encoded.embedding.quality is not None:
        return None
    if network not in _BY_NETWORK:
        _BY_NETWORK[network] = DecoderGraphs(network, encoded)
    return _BY_NETWORK[network]
