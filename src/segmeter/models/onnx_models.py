"""ONNX models: a SAM encoder and decoder, or a single click network, run by onnxruntime.

segmeter run noc --model exports/mobile-sam/ --dataset mini
segmeter run noc --model "onnx?encoder=enc.onnx&decoder=dec.onnx" --dataset mini
segmeter run noc --model "clicks.onnx?image=image&points=points&side=448" --dataset mini
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import OnDevice, capable
from segmeter.core.errors import BadWeights, NotFound, check_choice, first_line
from segmeter.core.masks import Mask
from segmeter.core.models import PROTOCOLS, MaskPrediction, ModelCard, ProtocolName, Request
from segmeter.core.prompts import Click
from segmeter.core.scenes import Scene
from segmeter.models import weights as weight_files
from segmeter.models.adapters import OneByOne, as_image, only_clicks
from segmeter.models.weights import DAMAGED

if TYPE_CHECKING:
    from segmeter.models.sam._onnx import OnnxEncodedScene, OnnxPair

Values = npt.NDArray[np.float32]
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


def onnx_files(path: Path) -> list[Path]:
    """The graphs that a path names: a folder's, a file, or `NAME.*.onnx` for `NAME.onnx`."""
    if path.is_dir():
        return sorted(path.glob("*.onnx"))
    if path.is_file():
        return [path] if path.suffix == ".onnx" else []
    if path.suffix != ".onnx":
        return []
    return sorted(p for p in path.parent.glob("*.onnx") if p.name.startswith(path.stem))


def open_onnx(path: Path, **options: Any) -> Any:
    """The model of a folder or file; a single graph with `image` and `points` clicks itself."""
    from segmeter.models.sam._onnx import recognised

    if "points" in options:
        return OnnxClicks(path, **options)
    files = onnx_files(path)
    if len(files) == 1:  # one half of a pair; the other is in the same folder
        files = sorted(path.parent.glob("*.onnx")) if path.is_file() else files
    kinds = [(recognised(file), file) for file in files]
    if sorted(kind for kind, _ in kinds) != ["decoder", "encoder"]:
        held = ", ".join(f"{file.name} ({kind})" for kind, file in kinds) or "no .onnx file"
        raise BadWeights(
            f"'{path}' holds {held}; give one encoder and one decoder, "
            "or 'onnx?encoder=FILE&decoder=FILE'"
        )
    pair = dict(kinds)
    made = OnnxSam(pair["encoder"], pair["decoder"], **options)
    made.name = path.name
    return made


@catalogue.models.add("onnx", "SAM as ONNX graphs: onnx?encoder=FILE&decoder=FILE")
@capable(OnDevice)
class OnnxSam:
    """A SAM encoder and decoder run by onnxruntime; opened at the first image.

    Parameters
    ----------
    masks, points
        As for the SAMs in PyTorch: which mask is shown, and where in a pixel a click is.
    """

    def __init__(
        self,
        encoder: str | Path,
        decoder: str | Path,
        device: str = "auto",
        masks: ProtocolName = "published",
        points: ProtocolName = "published",
    ) -> None:
        self.encoder, self.decoder = Path(encoder), Path(decoder)
        for file in (self.encoder, self.decoder):
            if not file.is_file():
                raise NotFound(f"no file '{file}' to open as an ONNX graph")
        self.name = self.decoder.stem
        self._device, self.masks, self.points = device, masks, points
        check_choice("masks", masks, PROTOCOLS)
        check_choice("points", points, PROTOCOLS)

    @cached_property
    def card(self) -> ModelCard:
        digest = weight_files.digest_of([self.encoder, self.decoder])
        about = f"ONNX graphs {self.encoder.name} and {self.decoder.name} ({digest[:12]})"
        takes = frozenset({"click", "box", "scribble", "mask"})
        return ModelCard(self.name, about, takes, family="onnx", fingerprint=digest)

    @cached_property
    def network(self) -> OnnxPair:
        from segmeter.models.sam._onnx import OnnxPair

        return OnnxPair.open(self.encoder, self.decoder, self._device)

    @property
    def device(self) -> str:
        return self.network.encoder.get_providers()[0] if "network" in vars(self) else self._device

    def encode(self, scene: Scene) -> OnnxEncodedScene:
        from segmeter.models.sam._onnx import OnnxEncodedScene
        from segmeter.models.sam._prompt_batches import Policy

        as_image(scene, self.name)
        height, width = scene.shape
        frame = self.network.frame((height, width))
        made = self.network.encode(scene.pixels)
        return OnnxEncodedScene(self.network, frame, made, Policy(self.masks, self.points))


class OnnxClicks:
    """A click network in one graph; options name its inputs and their preprocessing.

    Parameters
    ----------
    image, points
        Names of the inputs: pixels `(1, 3, H, W)`, and points. Without `labels` points are
        `(1, 2n, 3)` rows `(y, x, order)`, the positive first, -1 where there is none, as in
        RITM; with `labels` they are `(1, n, 2)` as `(x, y)`.
    labels, previous
        Names of the inputs for labels `(1, n)`, 1 positive, and for the previous mask.
    output
        Name of the output; else the first.
    side
        Side of the square that the image is resized to; 0 keeps its size.
    pixels
        `imagenet` (0 to 1, normalised), `0..1` or `0..255`.
    threshold
        Above which an output is foreground: 0 for logits, 0.5 for probabilities.
    """

    def __init__(
        self,
        path: Path,
        image: str = "image",
        points: str = "points",
        labels: str = "",
        previous: str = "",
        output: str = "",
        side: int = 0,
        pixels: Literal["imagenet", "0..1", "0..255"] = "imagenet",
        threshold: float = 0.0,
        device: str = "auto",
    ) -> None:
        self.path, self.side, self.threshold = path, side, threshold
        self.names = {"image": image, "points": points, "labels": labels, "previous": previous}
        self.output, self.pixels, self._device = output, pixels, device
        check_choice("pixels", pixels, ("imagenet", "0..1", "0..255"))

    @cached_property
    def card(self) -> ModelCard:
        digest = weight_files.digest_of([self.path])
        about, takes = f"ONNX click network {self.path.name} ({digest[:12]})", frozenset({"click"})
        return ModelCard(self.path.name, about, takes, family="onnx", fingerprint=digest)

    @cached_property
    def session(self) -> Any:
        import torch

        graph = open_graph(self.path, self._device, torch.get_num_threads())
        known = [entry.name for entry in graph.get_inputs()]
        wanted = [name for name in self.names.values() if name]
        if set(wanted) != set(known):
            raise BadWeights(
                f"'{self.path}' takes {', '.join(known)}, and the options name "
                f"{', '.join(wanted)}; set image=, points=, labels= and previous="
            )
        return graph

    def encode(self, scene: Scene) -> OneByOne:
        as_image(scene, self.path.name)
        return OneByOne(partial(self._one, scene, self._prepared(scene)))

    def _prepared(self, scene: Scene) -> Values:
        import cv2

        pixels = scene.pixels
        if self.side:
            pixels = cv2.resize(pixels, (self.side, self.side), interpolation=cv2.INTER_LINEAR)
        values: Values = pixels.astype(np.float32)
        if self.pixels != "0..255":
            values = values / np.float32(255)
        if self.pixels == "imagenet":
            values = (values - MEAN) / DEVIATION
        return np.ascontiguousarray(values.transpose(2, 0, 1)[None], np.float32)

    def _one(self, scene: Scene, image: Values, request: Request) -> MaskPrediction:
        import cv2

        names, clicks = self.names, only_clicks(request.prompts, self.path.name)
        (height, width), (high, wide) = scene.shape, image.shape[-2:]
        scaled = [(c.point[0] * high / height, c.point[1] * wide / width) for c in clicks]
        feeds = {names["image"]: image, **self._points(clicks, scaled)}
        if names["previous"]:
            blank = np.zeros((1, 1, *image.shape[-2:]), np.float32)
            feeds[names["previous"]] = blank if request.state is None else request.state
        outputs = [self.output] if self.output else None
        made = run_graph(self.session, outputs, feeds, self.path.name)[0]
        map_ = np.asarray(made, np.float32).reshape(-1, *made.shape[-2:])[0]
        full = cv2.resize(map_, (width, height), interpolation=cv2.INTER_LINEAR)
        state = map_[None, None] if names["previous"] else None
        return MaskPrediction(Mask.of(full > self.threshold), state=state)

    def _points(
        self, clicks: Sequence[Click], scaled: Sequence[tuple[float, float]]
    ) -> dict[str, Values]:
        names = self.names
        if names["labels"]:
            places = np.array([[(x, y) for y, x in scaled]], np.float32)
            signs = np.array([[c.positive for c in clicks]], np.float32)
            return {names["points"]: places, names["labels"]: signs}
        most = max(1, len(clicks))
        rows = np.full((1, 2 * most, 3), -1, np.float32)
        used = {True: 0, False: 0}
        for order, (click, (y, x)) in enumerate(zip(clicks, scaled, strict=True)):
            rows[0, used[click.positive] + (0 if click.positive else most)] = (y, x, order)
            used[click.positive] += 1
        return {names["points"]: rows}


def open_graph(path: Path, device: str = "cpu", threads: int = 1, *, optimised: bool = True) -> Any:
    """The graph of a file as onnxruntime's session; not `optimised` if only its names are read."""
    try:
        import onnxruntime
    except ImportError as error:
        raise NotFound(
            f"'{path.name}' needs 'onnxruntime': pip install 'segmeter[detectors]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    known = onnxruntime.get_available_providers()
    if device.startswith("cuda") and "CUDAExecutionProvider" not in known:
        raise NotFound(f"device '{device}' needs the package 'onnxruntime-gpu'")
    wanted = ("CUDAExecutionProvider", "CPUExecutionProvider")[device == "cpu" :]
    chosen = [provider for provider in wanted if provider in known]
    try:
        return onnxruntime.InferenceSession(str(path), options, chosen)
    except _own_errors(onnxruntime) + DAMAGED as error:
        raise BadWeights(
            f"'{path}' cannot be opened as an ONNX graph, it is damaged or cut short "
            f"({first_line(error)})"
        ) from error


def run_graph(
    session: Any, outputs: Sequence[str] | None, feeds: Mapping[str, npt.NDArray[Any]], name: str
) -> list[npt.NDArray[Any]]:
    import onnxruntime

    try:
        made: list[npt.NDArray[Any]] = session.run(outputs, dict(feeds))
    except _own_errors(onnxruntime) as error:
        raise BadWeights(f"the ONNX graph '{name}' cannot be run ({first_line(error)})") from error
    return made


def _own_errors(onnxruntime: Any) -> tuple[type[Exception], ...]:
    """The exceptions of onnxruntime, which have no class in common, and those of its fallback."""
    held = vars(onnxruntime.capi.onnxruntime_pybind11_state).values()
    own = [kind for kind in held if isinstance(kind, type) and issubclass(kind, Exception)]
    return (*own, ValueError)
