"""The machine: which libraries, models and datasets can be used here."""

from __future__ import annotations

import importlib.util
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import segmeter
from segmeter.api.listing import summaries
from segmeter.api.loading import roots_of
from segmeter.core import catalogue
from segmeter.core.errors import BadWeights, NotFound, NoWeights, SegmeterError
from segmeter.engine.provenance import version_of
from segmeter.models.weights import find
from segmeter.runtime.remote_files import Roots
from segmeter.runtime.workers_and_devices import gpu_names

State = Literal["ready", "no weights", "not here", "broken"]

LIBRARIES = {
    "torch": "networks; pip install 'segmeter[models]'",
    "transformers": "SAM, SAM-HQ, SAM 3 and EdgeTAM; pip install 'segmeter[models]'",
    "safetensors": "reading weights; pip install 'segmeter[models]'",
    "huggingface_hub": "fetching from the model hub; pip install 'segmeter[models]'",
    "timm": "EdgeTAM only",
    "nibabel": "volumes; pip install 'segmeter[volumes]'",
    "onnxruntime": "PicoDet and YOLOX; pip install 'segmeter[detectors]'",
    "h5py": "Hypersim's masks; pip install 'segmeter[hdf5]'",
    "fastapi": "studies with people; pip install 'segmeter[study]'",
    "ray": "runs on a cluster; pip install 'segmeter[ray]'",
    "s3fs": "runs and data at s3://; pip install 'segmeter[s3]'",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A model or a dataset, whether it can be used, and where it is or what is missing."""

    name: str
    state: State
    note: str


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts about this machine.

    Attributes
    ----------
    kernels
        `"compiled"`, or `"plain"` for the Python twins (same values, slower).
    device
        Where networks would run.
    libraries
        Versions of optional libraries; None if not installed.
    """

    segmeter: str
    python: str
    system: str
    kernels: str
    device: str
    libraries: dict[str, str | None]
    models: list[Finding]
    datasets: list[Finding]


def doctor(data: str | Path | None = None, weights: str | Path | None = None) -> Machine:
    """Check which libraries, models and datasets can be used on this machine.

    Examples
    --------
    >>> import segmeter
    >>> {finding.name: finding.state for finding in segmeter.doctor().datasets}["mini"]
    'ready'
    """
    from segmeter.kernels import compiled

    places = roots_of(data, weights)
    return Machine(
        segmeter.__version__,
        platform.python_version(),
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "compiled" if compiled is not None else "plain",
        _device(),
        {name: version_of(name) for name in LIBRARIES},
        [_found(catalogue.models, name, places) for name in summaries("models")],
        [_found(catalogue.datasets, name, places) for name in summaries("datasets")],
    )


def _device() -> str:
    if importlib.util.find_spec("torch") is None:
        return "none"
    if gpus := gpu_names():
        return f"cuda ({gpus[0]})"
    if platform.system() != "Darwin":
        return "cpu"
    import torch

    return "mps" if torch.backends.mps.is_available() else "cpu"


def _found(registry: catalogue.Registry[Any], name: str, places: Roots) -> Finding:
    """Make a model, which finds and checks its files but reads no network, or a dataset."""
    entry = registry.entry(name)
    if catalogue.required(entry):
        return Finding(name, "ready", entry.summary)  # it is made of what the user gives it
    try:
        made = registry.make(name, **places.options())
    except NotFound as error:
        state: State = "no weights" if isinstance(error, NoWeights) else "not here"
        return Finding(name, state, str(error))
    except (SegmeterError, ImportError) as error:
        return Finding(name, "broken", str(error))
    if registry is catalogue.datasets:
        about = filter(None, (made.card.summary, made.card.missing))
        return Finding(name, "ready", "; ".join(about))
    where = getattr(made, "weights_path", None)
    try:
        where = where or find(name, places.options().get("weights"))
    except (NotFound, BadWeights):
        return Finding(name, "ready", "needs no weights")
    if version_of("torch") is None:
        return Finding(name, "broken", f"{where}, but torch is not installed")
    return Finding(name, "ready", str(where))
