"""SAM as captured CUDA graphs: one replay in place of some hundreds of launches.

A round of a session asks for one to a few masks, and launching the decoder's kernels takes
longer than running them; so it is with the encoder and an image. A decoder's graph, from the
points to which mask is shown, is captured for each batch size, number of tokens and kind of
dense prompt, and serves all scenes of a network: the scene's embedding is copied into the
graph's own buffers, 16 MB on the device, when another scene is asked about. The kernels are
those of the eager way on the same shapes, so answers are equal bit for bit
(tests/models/sam/test_cuda_graphs.py).
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from segmeter.models.sam._decoder import Embedding
from segmeter.models.sam._prompt_batches import chosen_of, fed_back, shown_masks

if TYPE_CHECKING:
    from segmeter.models.sam._encoded import SamEncodedScene
    from segmeter.models.sam._loading import SamNetwork

MOST_GRAPHS = 96
"""Kept at once, those used last; twenty rounds of one user need forty."""

MOST_TOGETHER = 16
"""Larger batches keep the device busy by themselves."""

Key = tuple[int, int, bool, str, float]
Decoded = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
Floats = npt.NDArray[np.float32]


class _Switch:
    on = True


@contextmanager
def eagerly() -> Iterator[None]:
    """No graphs in here, as the networks' authors have none."""
    before, _Switch.on = _Switch.on, False
    try:
        yield
    finally:
        _Switch.on = before


class _Captured:
    """One graph and the tensors it writes to."""

    def __init__(self, run: Callable[[], tuple[Tensor, ...]], pool: Any) -> None:
        # The first passes choose algorithms and make workspaces, which must not be captured.
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch has none
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.made = run()

    def replayed(self) -> tuple[Tensor, ...]:
        """Outputs of a replay, copied so that the next replay does not overwrite them."""
        self.graph.replay()
        return tuple(tensor.clone() for tensor in self.made)


class EncoderGraph:
    """An encoder that is captured at the second image of a size.

    On an H200 2.9 times as fast for MobileSAM (perf/decoder_paths.py); SAM 2's, 1.04 times as
    fast, is not captured.
    """

    def __init__(self) -> None:
        self._seen: tuple[int, ...] = ()
        self._captured: _Captured | None = None
        self._pixels: Tensor | None = None

    def __call__(self, encode: Callable[[Tensor], Embedding], pixels: Tensor) -> Embedding:
        """The same as `encode(pixels)`."""
        if not (_Switch.on and pixels.is_cuda and len(pixels) == 1):
            return encode(pixels)
        if self._seen != pixels.shape:
            self._seen, self._captured = tuple(pixels.shape), None
            return encode(pixels)
        if self._captured is None or self._pixels is None:
            own = self._pixels = pixels.clone()
            self._captured = _Captured(lambda: (encode(own).cells,), None)
        self._pixels.copy_(pixels)
        return Embedding(self._captured.replayed()[0])


@dataclass(frozen=True, slots=True)
class _Decoder:
    """A decoder's graph with the buffers it reads, on the device and, pinned, on the host."""

    captured: _Captured
    asked: Tensor  # (batch, 3 tokens + 1): points, labels, whether ambiguous
    host: Tensor
    copied: torch.cuda.Event
    dense: Tensor

    def predict(
        self,
        points: Floats,
        labels: npt.NDArray[np.int64],
        first: Sequence[bool],
        masks: Sequence[Tensor],
    ) -> Decoded:
        self.copied.synchronize()  # the last question has left
        tokens = labels.shape[1]
        host = self.host.numpy()
        host[:, : 2 * tokens] = points.reshape(len(points), -1)
        host[:, 2 * tokens : -1] = labels
        host[:, -1] = first
        self.asked.copy_(self.host, non_blocking=True)
        self.copied.record()
        if masks:
            torch.stack(list(masks), out=self.dense)
        logits, scores, shown, chosen, mask_fed_back = self.captured.replayed()
        return logits, scores, shown, chosen, mask_fed_back


class DecoderGraphs:
    """All graphs of one network on one device."""

    def __init__(self, network: SamNetwork) -> None:
        self._network = weakref.ref(network)
        self._graphs: OrderedDict[Key, _Decoder] = OrderedDict()
        self._pool = torch.cuda.graph_pool_handle()
        self._image: Embedding | None = None
        self._position: Tensor | None = None
        self._scale: Tensor | None = None
        self._seen: set[Key] = set()
        self._shown: Callable[[], SamEncodedScene | None] = lambda: None

    def decoded(
        self,
        encoded: SamEncodedScene,
        points: Floats,
        labels: npt.NDArray[np.int64],
        masks: Sequence[Tensor | None],
        first: Sequence[bool],
    ) -> Decoded | None:
        """Logits, scores, which mask is shown, its logits and what is fed back, on the device.

        None where the eager way must do: seldom asked for, or mixed.
        """
        known = [mask for mask in masks if mask is not None]
        if len(masks) > MOST_TOGETHER or len(known) not in (0, len(masks)):
            return None
        policy = encoded.policy
        key = (len(masks), points.shape[1], bool(known), policy.masks, policy.offset)
        if key not in self._graphs and key not in self._seen:
            self._seen.add(key)  # capturing pays from the second time on
            return None
        self._show(encoded)
        return self._graph(key, encoded).predict(points, labels, first, known)

    def _show(self, encoded: SamEncodedScene) -> None:
        """Copy an embedding into the buffers that the graphs read."""
        if self._shown() is encoded:
            return
        if self._image is None or self._scale is None:
            fine = encoded.embedding.fine
            self._image = Embedding(
                encoded.embedding.cells.clone(),
                None if fine is None else (fine[0].clone(), fine[1].clone()),
            )
            self._position = encoded.position.clone()
            self._scale = torch.tensor(encoded.frame.scale, device=encoded.embedding.cells.device)
        else:
            self._image.cells.copy_(encoded.embedding.cells)
            for own, theirs in zip(
                self._image.fine or (), encoded.embedding.fine or (), strict=True
            ):
                own.copy_(theirs)
            self._scale.copy_(torch.tensor(encoded.frame.scale))
        self._shown = weakref.ref(encoded)

    def _graph(self, key: Key, encoded: SamEncodedScene) -> _Decoder:
        if key in self._graphs:
            self._graphs.move_to_end(key)
            return self._graphs[key]
        while len(self._graphs) >= MOST_GRAPHS:
            self._graphs.popitem(last=False)
        self._graphs[key] = self._capture(key, encoded)
        return self._graphs[key]

    def _capture(self, key: Key, encoded: SamEncodedScene) -> _Decoder:
        network, image, scale = self._network(), self._image, self._scale
        assert network is not None  # the encoded scene that calls holds it
        assert image is not None
        assert scale is not None
        batch, tokens, with_masks, _, offset = key
        asked = torch.zeros(batch, 3 * tokens + 1, device=network.device)
        low = 4 * network.prompts.grid_side
        dense = torch.zeros(batch, 1, low, low, device=network.device)
        # The graph belongs to all encoded scenes of this policy, and must not keep this one alive.
        second, policy = network.second, encoded.policy

        def run() -> Decoded:
            place = asked[:, : 2 * tokens].reshape(batch, tokens, 2)
            kind = asked[:, 2 * tokens : -1].long()
            places = (place + offset) * scale - offset
            sparse = network.prompts.points(places.flip(-1), kind)
            prompt = network.prompts.masks(dense) if with_masks else network.prompts.no_mask()
            logits, scores = network.decoder(image, self._position, sparse, prompt)
            logits, scores = logits.float(), scores.float()
            shown = shown_masks(policy, second, logits, scores, asked[:, -1] > 0)
            chosen = chosen_of(logits, shown)
            return logits, scores, shown, chosen, fed_back(policy, second, chosen)

        captured = _Captured(run, self._pool)
        host = torch.zeros(asked.shape, pin_memory=True)
        copied = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch has none
        return _Decoder(captured, asked, host, copied, dense)


_BY_NETWORK: weakref.WeakKeyDictionary[Any, DecoderGraphs] = weakref.WeakKeyDictionary()


def graphs_of(network: SamNetwork) -> DecoderGraphs | None:
    """The network's graphs; None where it does not compute on a CUDA device."""
    if network.device.type != "cuda" or not _Switch.on:
        return None
    if network not in _BY_NETWORK:
        _BY_NETWORK[network] = DecoderGraphs(network)
    return _BY_NETWORK[network]
