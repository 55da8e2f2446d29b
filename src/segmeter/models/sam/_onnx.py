"""SAM as a pair of ONNX graphs: interfaces recognised by names, and predictions on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from segmeter.core.errors import BadInput, BadWeights
from segmeter.core.prompts import Point, Prompt
from segmeter.core.scenes import Pixels
from segmeter.models.onnx_models import open_graph, run_graph
from segmeter.models.sam._cuda_graphs import Decoded, Floats, Labels
from segmeter.models.sam._decoder import NOT_A_POINT, Embedding
from segmeter.models.sam._encoded import SamEncodedScene
from segmeter.models.sam._prompt_batches import Policy, chosen_of, fed_back, of_equal_size
from segmeter.models.sam._resizing import SAM3, Frame, Padded, Squeezed

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
_SCORES = ("iou_predictions", "iou_scores", "scores")
_PROMPTS = {
    "point_coords", "point_labels", "mask_input", "has_mask_input", "orig_im_size",
    "input_points", "input_labels", "input_boxes",
}  # fmt: skip


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

    @property
    def device(self) -> torch.device:
        """Device for preparing tensors; onnxruntime copies them to its own."""
        return torch.device("cpu")

    @classmethod
    def open(cls, encoder: Path, decoder: Path, device: str) -> OnnxPair:
        threads = torch.get_num_threads()
        first, second = (open_graph(file, device, threads) for file in (encoder, decoder))
        ins, outs = signature(first.get_inputs()), signature(first.get_outputs())
        given, made = signature(second.get_inputs()), signature(second.get_outputs())
        if len(ins) != 1:
            raise BadWeights(f"'{encoder}' takes {', '.join(ins)}; an encoder takes one image")
        if made.keys().isdisjoint(_SCORES) or not any(len(shape) >= 4 for shape in made.values()):
            raise BadWeights(
                f"'{decoder}' gives {', '.join(made)}; a decoder gives logits `(B, k, h, w)` and "
                f"{' or '.join(_SCORES)}"
            )
        for name in sorted(given.keys() - _PROMPTS):
            if name not in outs:
                raise BadWeights(
                    f"'{decoder}' takes '{name}', which '{encoder}' does not give; "
                    f"it gives {', '.join(outs)}"
                )
            pairs = zip(given[name], outs[name], strict=False)
            agree = all(a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in pairs)
            if len(given[name]) != len(outs[name]) or not agree:
                raise BadWeights(
                    f"'{encoder}' and '{decoder}' do not fit together: '{name}' is {outs[name]} in "
                    f"one and {given[name]} in the other"
                )
        (shape,) = ins.values()
        grid = next((s[-1] for n, s in given.items() if n.startswith("image_embed")), 64)
        given_by = [*reversed(shape), 16 * grid if isinstance(grid, int) else 1024]
        side = next(n for n in given_by if isinstance(n, int) and n > 3)
        later = any(set(outs) >= known for known in _SECOND)
        return cls(first, second, later, side)

    def frame(self, shape: tuple[int, int]) -> Padded | Squeezed:
        if not self.second:
            return Padded(shape, self.side)
        return Squeezed(shape, self.side, *(SAM3 if self.side == 1008 else ()))

    def encode(self, pixels: Pixels) -> Arrays:
        """The encoder's outputs by name.

        A graph whose channels come last, or that takes bytes, normalises and pads by itself.
        """
        (entry,) = self.encoder.get_inputs()
        frame, last = self.frame((pixels.shape[0], pixels.shape[1])), entry.shape[-1] == 3
        if last or "uint8" in entry.type:
            white = 1 / 255 if isinstance(frame, Squeezed) else 1.0
            frame = replace(frame, mean=(0.0,) * 3, deviation=(white,) * 3)
        entered = frame.enter(pixels, self.device)
        if isinstance(frame, Padded) and last and not isinstance(entry.shape[-2], int):
            entered = entered[..., : frame.inside[0], : frame.inside[1]]
        entered = entered.permute(0, 2, 3, 1) if last else entered
        entered = entered[0] if len(entry.shape) == 3 else entered
        outputs = [output.name for output in self.encoder.get_outputs()]
        feeds = {entry.name: _as_taken(entered.contiguous().numpy(), entry)}
        made = run_graph(self.encoder, outputs, feeds, "encoder")
        return dict(zip(outputs, made, strict=True))


def recognised(path: Path) -> str:
    """Whether a graph is an `encoder` or a `decoder` of a SAM; other graphs are refused."""
    graph = open_graph(path, optimised=False)
    ins, outs = set(signature(graph.get_inputs())), set(signature(graph.get_outputs()))
    kind = kind_of(ins, outs)
    if kind is not None:
        return kind
    raise BadWeights(
        f"'{path}' is not a SAM encoder or decoder that is known here: it takes "
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


class OnnxEncodedScene(SamEncodedScene):
    """Predictions by an ONNX decoder; the encoder has run once."""

    capabilities = frozenset({"KeepsState", "RendersTogether"})
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

    def tokens(self, prompts: Sequence[Prompt]) -> tuple[list[Point], list[int]]:
        """Without the padding point for graphs that append it themselves."""
        points, labels = super().tokens(prompts)
        meta = {"mask_input", "orig_im_size"} & set(self._inputs)  # of Meta's exporter
        if meta and not self._pair.second:
            return points, labels
        kept = [i for i, label in enumerate(labels) if label != NOT_A_POINT]
        return [points[i] for i in kept], [labels[i] for i in kept]

    def groups(self, sizes: Sequence[int]) -> Iterator[list[int]]:
        """Together on a GPU if the batch is free; on a processor nothing is gained."""
        graph = self._pair.decoder
        entry = self._inputs.get("point_coords") or self._inputs["input_points"]
        fixed = isinstance(entry.shape[0], int) or len(entry.shape) > 3
        return of_equal_size(sizes, 1 if fixed or "CUDA" not in graph.get_providers()[0] else 16)

    def decoded(
        self, points: Floats, labels: Labels, masks: Sequence[Tensor | None], first: Sequence[bool]
    ) -> Decoded:
        logits, scores = self._run(points, labels, masks)
        count = logits.shape[1]
        if count == 3:  # tokens 1 to 3; where token 0 is not exported it repeats the best of them
            best = scores.argmax(dim=1)
            logits = torch.cat([chosen_of(logits, best)[:, None], logits], 1)
            scores = torch.cat([scores.gather(1, best[:, None]), scores], 1)
            shown = 1 + best
        elif count == 4:
            shown = self.choose(logits, scores, first)
        else:
            logits, scores = logits[:, :1].repeat(1, 4, 1, 1), scores[:, :1].repeat(1, 4)
            shown = torch.zeros(len(logits), dtype=torch.int64)
        return logits, scores, shown, fed_back(self.policy, self._pair.second, logits, shown)

    def _run(
        self, points: Floats, labels: Labels, masks: Sequence[Tensor | None]
    ) -> tuple[Tensor, Tensor]:
        """Low-resolution logits `(B, k, low, low)` and scores `(B, k)`."""
        feeds = {name: self._made[name] for name in self._inputs if name in self._made}
        feeds |= self._prompts(points, labels, masks)
        feeds = {name: _as_taken(array, self._inputs[name]) for name, array in feeds.items()}
        made = run_graph(self._pair.decoder, None, feeds, "decoder")
        found = dict(zip(self._outputs, made, strict=True))
        maps = [a for a in found.values() if a.ndim >= 4 and a.dtype.kind == "f"]
        named = found.get("low_res_masks")
        low = named if named is not None and named.ndim == 4 else maps[-1]
        score = next(found[name] for name in _SCORES if name in found)
        logits = torch.from_numpy(low.reshape(len(points), -1, *low.shape[-2:]).astype(np.float32))
        scores = torch.from_numpy(score.reshape(len(points), -1).astype(np.float32))
        return logits, scores[:, : logits.shape[1]]

    def _prompts(self, points: Floats, labels: Labels, masks: Sequence[Tensor | None]) -> Arrays:
        """The prompts as the graph takes them, `(x, y)` in pixels of the square."""
        offset, scale = self.policy.offset, np.array(self.frame.scale, np.float32)
        places = ((points + offset) * scale - offset)[..., ::-1].astype(np.float32)
        boxed = labels[0] >= 2
        if boxed.any() and not {"point_coords", "input_boxes"} & set(self._inputs):
            raise BadInput("this ONNX decoder has no input for boxes; prompt it with clicks")
        feeds: Arrays = {"orig_im_size": np.array([256, 256])}
        if "input_boxes" in self._inputs:
            feeds["input_boxes"] = places[:, boxed].reshape(len(points), -1, 4)
            places, labels = places[:, ~boxed], labels[:, ~boxed]
        places, labels = self._padded(places, labels)
        feeds |= {"point_coords": places, "point_labels": labels}
        feeds |= {"input_points": places[:, None], "input_labels": labels[:, None]}
        if "mask_input" in self._inputs:
            low = self._inputs["mask_input"].shape[-1]
            low = low if isinstance(low, int) else self.frame.side // 4
            none = np.zeros((1, low, low), np.float32)
            feeds["mask_input"] = np.stack([none if m is None else m.numpy() for m in masks])
            feeds["has_mask_input"] = np.array([m is not None for m in masks])
        return {name: array for name, array in feeds.items() if name in self._inputs}

    def _padded(self, places: Floats, labels: Labels) -> tuple[Floats, Labels]:
        """With padding points for a graph whose number of points is fixed."""
        entry = self._inputs.get("point_labels") or self._inputs["input_labels"]
        count = entry.shape[-1]
        more = count - labels.shape[1] if isinstance(count, int) else 0
        if more < 0:
            raise BadInput(f"this ONNX decoder takes {count} points at most; ask for fewer rounds")
        wider = [(0, 0), (0, more)]
        padded = np.pad(labels, wider, constant_values=NOT_A_POINT)
        return np.pad(places, [*wider, (0, 0)]), padded


_KINDS = {"float": "f4", "float16": "f2", "double": "f8", "int64": "i8", "int32": "i4"}


def _as_taken(array: npt.NDArray[Any], entry: Any) -> npt.NDArray[Any]:
    kind = entry.type.removeprefix("tensor(").removesuffix(")")
    if kind == "uint8":
        return np.asarray(np.rint(array).clip(0, 255), dtype=np.uint8)
    return np.ascontiguousarray(array, dtype=_KINDS.get(kind, "f4"))
