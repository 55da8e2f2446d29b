"""Networks in ONNX files, run by onnxruntime in one thread."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, BadWeights
from segmeter.models import weights as weight_files
from segmeter.models.onnx_graphs import open_graph, run_graph

__all__ = ["OnnxFile", "least_score"]

Array = npt.NDArray[np.float32]


class OnnxFile:
    """The network of a detector: found when made, opened at the first image."""

    def __init__(self, name: str, weights: str | None, inputs: frozenset[str]) -> None:
        self.name, self._inputs = name, inputs
        self.path = weight_files.find(name, weights)
        self._file = next((f for f in weight_files.files(self.path) if f.suffix == ".onnx"), None)
        if self._file is None and self.path != weight_files.ABSENT:
            raise BadWeights(f"'{self.path}' holds no .onnx file; '{name}' is read from one")

    @cached_property
    def fingerprint(self) -> str:
        return weight_files.fingerprint(self.path)

    def run(self, feeds: Mapping[str, Array]) -> Array:
        """The first output for the given inputs."""
        return run_graph(self._session, None, feeds, str(self._file))[0]

    @cached_property
    def _session(self) -> Any:
        # One thread: sums then do not depend on the machine, and jobs run side by side.
        session = open_graph(Path(str(self._file)))
        found = {entry.name for entry in session.get_inputs()}
        if found != self._inputs:
            raise BadWeights(
                f"'{self._file}' holds another network: it takes {', '.join(sorted(found))},"
                f" not {', '.join(sorted(self._inputs))}"
            )
        return session


def least_score(name: str, value: float) -> float:
    """A least score between 0 and 1, refused otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadInput(f"detector '{name}': 'least' is a score from 0 to 1, not {value!r}")
    return float(value)
