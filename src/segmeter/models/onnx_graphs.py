"""ONNX graphs: opened and run by onnxruntime, with its errors in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from segmeter.core.errors import BadWeights, NotFound
from segmeter.models.weights import DAMAGED

Array = npt.NDArray[Any]


def open_graph(path: Path, device: str = "cpu", threads: int = 1) -> Any:
    """The graph of a file as onnxruntime's session."""
    try:
        import onnxruntime
    except ImportError as error:
        raise NotFound(
            f"'{path.name}' needs 'onnxruntime': pip install 'segmeter[detectors]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
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
            f"({_reason(error)})"
        ) from error


def run_graph(
    session: Any, outputs: Sequence[str] | None, feeds: Mapping[str, Array], name: str
) -> list[Array]:
    """The outputs of a graph for its inputs, all of them where none is named."""
    import onnxruntime

    try:
        made: list[Array] = session.run(outputs, dict(feeds))
    except _own_errors(onnxruntime) as error:
        raise BadWeights(f"the ONNX graph '{name}' cannot be run ({_reason(error)})") from error
    return made


def _own_errors(onnxruntime: Any) -> tuple[type[Exception], ...]:
    """The exceptions of onnxruntime, which have no class in common, and those of its fallback."""
    held = vars(onnxruntime.capi.onnxruntime_pybind11_state).values()
    own = [kind for kind in held if isinstance(kind, type) and issubclass(kind, Exception)]
    return (*own, ValueError)


def _reason(error: Exception) -> str:
    return str(error).split("\n")[0][:120]
