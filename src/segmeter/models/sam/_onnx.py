"""SAM as a pair of ONNX graphs: interfaces recognised by names, and predictions on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from segmeter.core.errors import BadInput, BadWeights
from segmeter.core.prompts import Point, Prompt
from segmeter.core.scenes import Pixels
from segmeter.models.onnx_graphs import open_graph, run_graph
from segmeter.models.sam._cuda_graphs import Decoded, Floats
from segmeter.models.sam._decoder import NOT_A_POINT, Embedding
from segmeter.models.sam._encoded import Labels, SamEncodedScene
from segmeter.models.sam._frames import Frame, Padded, Squeezed
from segmeter.models.sam._prompts import Policy, chosen_of, fed_back

Arrays = dict[str, npt.NDArray[Any]]
Signature = dict[str, tuple[Any, ...]]

_PIXELS = {"input_image", "x", "image", "input", "pixel_values"}
_FIRST = (
    {"image_embeddings"},
    {"image_embeddings", "interm_embeddings"},
    {"image_embeddings", "image_positional_embeddings"},
)
_SECOND = (
    {"high_res_feats_0", "high_res_feats_1", "image_embed"},
    {"image_embeddings", "high_res_features1", "high_res_features2"},
    {"image_embeddings.0", "image_embeddings.1", "image_embeddings.2"},
)
_PROMPTS = {
    "point_coords", "point_labels", "mask_input", "has_mask_input", "orig_im_size",
    "input_points", "input_labels", "input_boxes",
}  # fmt: skip
_PADDED_BY_CALLER = {"point_coords", "point_labels", "orig_im_size", "image_embeddings"}


@dataclass(frozen=True, slots=True)
class OnnxPair:
    """An encoder and a decoder that fit together.

    `second` is for SAM 2 and later: the image is squeezed into the square and the decoder
    appends its padding point itself.
    """

    encoder: Any
    decoder: Any
    second: bool
    side: int
    raw_pixels: bool

    @property
    def device(self) -> torch.device:
        """Device for preparing tensors; onnxruntime copies them to its own."""
        return torch.device("cpu")

    @classmethod
    def open(cls, encoder: Path, decoder: Path, device: str) -> OnnxPair:
        threads = torch.get_num_threads()
        first, second = (open_graph(file, device, threads) for file in (encoder, decoder))
        ins, outs = signature(first.get_inputs()), signature(first.get_outputs())
        given = signature(second.get_inputs())
        for name in set(given) - _PROMPTS:
            if name not in outs:
                raise BadWeights(
                    f"'{decoder}' takes '{name}', which '{encoder}' does not give; "
                    f"it gives {', '.join(outs)}"
                )
            if not _fit(given[name], outs[name]):
                raise BadWeights(
                    f"'{encoder}' and '{decoder}' are no pair: '{name}' is {outs[name]} in one "
                    f"and {given[name]} in the other"
                )
        (shape,) = ins.values()
        side = next((n for n in reversed(shape) if isinstance(n, int) and n > 3), 1024)
        later = any(set(outs) >= known for known in _SECOND)
        return cls(first, second, later, side, len(shape) == 3)

    def frame(self, shape: tuple[int, int]) -> Frame:
        if self.second and self.side == 1008:  # SAM 3's tracker
            half = (0.5, 0.5, 0.5)
            return Squeezed(shape, self.side, half, half)
        return Squeezed(shape, self.side) if self.second else Padded(shape, self.side)

    def encode(self, pixels: Pixels) -> Arrays:
        """The encoder's outputs by name."""
        frame = self.frame((pixels.shape[0], pixels.shape[1]))
        if self.raw_pixels and isinstance(frame, Padded):
            plain = Padded(frame.shape, frame.side, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
            high, wide = frame.inside
            entered = plain.enter(pixels, self.device)[0, :, :high, :wide].permute(1, 2, 0)
        else:
            entered = frame.enter(pixels, self.device)
        name = self.encoder.get_inputs()[0].name
        outputs = [entry.name for entry in self.encoder.get_outputs()]
        feeds = {name: entered.contiguous().numpy()}
        made = run_graph(self.encoder, outputs, feeds, "encoder")
        return dict(zip(outputs, made, strict=True))


def recognised(path: Path) -> str:
    """Whether a graph is an `encoder` or a `decoder` of a SAM; other graphs are refused."""
    graph = open_graph(path)
    ins, outs = set(signature(graph.get_inputs())), set(signature(graph.get_outputs()))
    kind = kind_of(ins, outs)
    if kind is not None:
        return kind
    raise BadWeights(
        f"'{path}' is no SAM encoder or decoder that is known here: it takes "
        f"{', '.join(sorted(ins))} and gives {', '.join(sorted(outs))}"
    )


def kind_of(inputs: set[str], outputs: set[str]) -> str | None:
    """`encoder` or `decoder` by the names of inputs and outputs.

    >>> kind_of({"input_image"}, {"image_embeddings"}), kind_of({"batched_images"}, {"masks"})
    ('encoder', None)
    """
    if len(inputs) == 1 and inputs <= _PIXELS and outputs in (*_FIRST, *_SECOND):
        return "encoder"
    prompts = ({"point_coords", "point_labels"}, {"input_points", "input_labels"})
    embeddings = {name for known in (*_FIRST, *_SECOND) for name in known}
    video = bool(outputs & {"mask_for_mem", "obj_ptr"})
    known = inputs <= _PROMPTS | embeddings and bool(inputs & embeddings)
    return "decoder" if known and any(p <= inputs for p in prompts) and not video else None


def signature(entries: Sequence[Any]) -> Signature:
    return {entry.name: tuple(entry.shape) for entry in entries}


def _fit(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two shapes agree where both are known."""
    pairs = zip(one, other, strict=True) if len(one) == len(other) else [(0, 1)]
    return all(a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in pairs)


class OnnxEncodedScene(SamEncodedScene):
    """Predictions by an ONNX decoder; the encoder has run once."""

    graphs = False

    def __init__(self, pair: OnnxPair, frame: Frame, made: Arrays, policy: Policy) -> None:
        nothing = Embedding(torch.zeros(1, 1, 1))
        super().__init__(pair, frame, nothing, policy, torch.zeros(()))  # type: ignore[arg-type]
        self._pair, self._made = pair, made
        graph = pair.decoder
        self._inputs = {entry.name: entry for entry in graph.get_inputs()}
        self._outputs = [entry.name for entry in graph.get_outputs()]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._made.values())

    def single_clicks(self, dtype: torch.dtype = torch.float32) -> None:
        """There is no faster way for thousands of clicks."""

    def tokens(self, prompts: Sequence[Prompt]) -> tuple[list[Point], list[int]]:
        """Without the padding point for graphs that append it themselves."""
        points, labels = super().tokens(prompts)
        if set(self._inputs) >= _PADDED_BY_CALLER and not self._pair.second:
            return points, labels
        kept = [i for i, label in enumerate(labels) if label != NOT_A_POINT]
        return [points[i] for i in kept], [labels[i] for i in kept]

    def groups(self, sizes: Sequence[int]) -> Iterator[list[int]]:
        """One by one: most exports fix the batch, and on a processor nothing is gained."""
        return iter([i] for i in range(len(sizes)))

    def decoded(
        self, points: Floats, labels: Labels, masks: Sequence[Tensor | None], first: Sequence[bool]
    ) -> Decoded:
        logits, scores = self._run(points, labels, masks[0])
        four, scored, several = _four(logits, scores)
        if several:
            shown = self.choose(four, scored, first)
            shown = shown if len(logits) == 4 else 1 + scored[:, 1:].argmax(dim=1)
        else:
            shown = torch.zeros(1, dtype=torch.int64)
        chosen = chosen_of(four, shown)
        return four, scored, shown, chosen, fed_back(self.policy, self._pair.second, chosen)

    def _run(self, points: Floats, labels: Labels, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Low-resolution logits `(k, low, low)` and scores `(k,)`."""
        feeds = {name: self._made[name] for name in self._inputs if name in self._made}
        feeds |= self._prompts(points, labels, mask)
        made = run_graph(self._pair.decoder, None, feeds, "decoder")
        found = dict(zip(self._outputs, made, strict=True))
        maps = [a for a in found.values() if a.ndim >= 4 and a.dtype == np.float32]
        named = found.get("low_res_masks")
        low = named if named is not None and named.ndim == 4 else maps[-1]
        score = next(found[n] for n in ("iou_predictions", "iou_scores", "scores") if n in found)
        logits = torch.from_numpy(low.reshape(-1, *low.shape[-2:]).copy())
        scores = torch.from_numpy(score.astype(np.float32).reshape(-1).copy())
        return logits, scores[: len(logits)] if len(scores) > len(logits) > 1 else scores

    def _prompts(self, points: Floats, labels: Labels, mask: Tensor | None) -> Arrays:
        """The prompts as the graph takes them, `(x, y)` in pixels of the square."""
        offset, scale = self.policy.offset, np.array(self.frame.scale, np.float32)
        places = ((points + offset) * scale - offset)[..., ::-1].astype(np.float32)
        low = 256 if mask is None else mask.shape[-1]
        given = np.zeros((1, 1, low, low), np.float32) if mask is None else mask.numpy()[None]
        boxed = labels[0] >= 2
        if boxed.any() and not {"point_coords", "input_boxes"} & set(self._inputs):
            raise BadInput("this ONNX decoder has no input for boxes; prompt it with clicks")
        feeds: Arrays = {
            "point_coords": places.copy(),
            "point_labels": labels.astype(np.float32),
            "mask_input": given.astype(np.float32),
            "has_mask_input": np.array([mask is not None], np.float32),
            "orig_im_size": np.array([256, 256], _dtype(self._inputs.get("orig_im_size"))),
            "input_points": places[:, None].copy(),
            "input_labels": labels[:, None].astype(np.int64),
        }
        if "input_boxes" in self._inputs:
            corners = places[0][boxed].reshape(1, -1, 4)
            feeds["input_boxes"] = corners
            feeds["input_points"] = places[:, ~boxed][:, None].copy()
            feeds["input_labels"] = labels[:, ~boxed][:, None].astype(np.int64)
        return {name: array for name, array in feeds.items() if name in self._inputs}


def _dtype(entry: Any) -> type[np.generic]:
    return np.int64 if entry is not None and "int64" in entry.type else np.float32


def _four(logits: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Masks and scores by token number, `(1, 4, ...)`; whether there are several masks.

    Three masks are tokens 1 to 3. Where token 0 is not exported it repeats the best of them.
    """
    if len(logits) == 4:
        return logits[None], scores[None], True
    if len(logits) == 3:
        best = int(scores.argmax())
        order = [best, 0, 1, 2]
        return logits[order][None], scores[order][None], True
    return logits[:1].repeat(4, 1, 1)[None], scores[:1].repeat(4)[None], False
