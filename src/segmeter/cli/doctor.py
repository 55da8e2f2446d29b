"""`segmeter doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import typer

from segmeter import __version__
from segmeter.cli._option_values import roots
from segmeter.cli._options import AsJson, Data, Weights
from segmeter.cli.app import Exit, app
from segmeter.core import catalogue
from segmeter.core.errors import BadWeights, NotFound, SegmeterError
from segmeter.runtime.processes import gpu_names
from segmeter.runtime.remote_files import Roots

__all__ = ["doctor"]

State = Literal["ready", "no weights", "not here", "broken"]

_LIBRARIES = {
    "torch": "networks; pip install 'segmeter[models]'",
    "transformers": "SAM, SAM-HQ, SAM 3 and EdgeTAM; pip install 'segmeter[models]'",
    "safetensors": "reading weights; pip install 'segmeter[models]'",
    "huggingface_hub": "fetching from the model hub; pip install 'segmeter[models]'",
    "timm": "EdgeTAM only",
    "nibabel": "volumes; pip install 'segmeter[volumes]'",
    "hotcoco": "average precision and recall; pip install 'segmeter[detectors]'",
    "onnxruntime": "PicoDet and YOLOX; pip install 'segmeter[detectors]'",
    "h5py": "Hypersim's masks; pip install 'segmeter[hdf5]'",
    "fastapi": "studies with people; pip install 'segmeter[study]'",
    "ray": "runs on a cluster; pip install 'segmeter[ray]'",
    "s3fs": "runs and data at s3://; pip install 'segmeter[s3]'",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A model or a data set, whether it can be used, and where it lies or what is missing."""

    name: str
    state: State
    note: str


@app.command()
def doctor(data: Data = None, weights: Weights = None, as_json: AsJson = False) -> int:
    """Check what works on this machine.

    Example: `segmeter doctor --data ~/data --weights ~/weights`
    """
    places = roots(data, weights)
    machine = _machine()
    libraries = {name: _version(name) for name in _LIBRARIES}
    models = [_model(entry.name, places) for entry in catalogue.models]
    datasets = [_dataset(entry.name, places) for entry in catalogue.datasets]
    if as_json:
        facts = {
            **machine,
            "libraries": libraries,
            "models": [asdict(finding) for finding in models],
            "datasets": [asdict(finding) for finding in datasets],
        }
        print(json.dumps(facts, indent=1))
        return Exit.DONE
    _say_machine(machine, libraries)
    _say_models(models)
    _say_datasets(datasets, data)
    return Exit.DONE


def _machine() -> dict[str, str]:
    from segmeter.kernels import compiled

    return {
        "segmeter": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "kernels": "compiled" if compiled is not None else "plain",
        "device": _device(),
    }


def _device() -> str:
    """Where networks would run."""
    if importlib.util.find_spec("torch") is None:
        return "none"
    if gpu_names():
        return f"cuda ({gpu_names()[0]})"
    return "mps" if _mps() else "cpu"


def _mps() -> bool:
    if platform.system() != "Darwin":
        return False
    import torch

    return torch.backends.mps.is_available()


def _version(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def _model(name: str, places: Roots) -> Finding:
    """Make the model, which finds and checks its files but reads no network."""
    entry = catalogue.models.entry(name)
    if catalogue.required(entry):
        return Finding(name, "ready", entry.summary)  # it is made of what the user gives it
    try:
        model = catalogue.models.make(name, **places.options())
    except NotFound as error:
        lacks_weights = str(error).startswith("no weights for")
        return Finding(name, "no weights" if lacks_weights else "not here", str(error))
    except (SegmeterError, ImportError) as error:
        return Finding(name, "broken", str(error))
    where = _weights_of(name, model, places)
    if where is None:
        return Finding(name, "ready", "needs no weights")
    if _version("torch") is None:
        return Finding(name, "broken", f"{where}, but torch is not installed")
    return Finding(name, "ready", str(where))


def _weights_of(name: str, model: Any, places: Roots) -> Path | None:
    from segmeter.models import weights

    own = getattr(model, "weights_path", None)
    if own is not None:
        return Path(own)
    try:
        return weights.find(name, places.options().get("weights"))
    except (NotFound, BadWeights):
        return None


def _dataset(name: str, places: Roots) -> Finding:
    entry = catalogue.datasets.entry(name)
    if catalogue.required(entry):
        return Finding(name, "ready", entry.summary)  # it is what the user points it at
    try:
        card = catalogue.datasets.make(name, **places.options()).card
    except NotFound as error:
        return Finding(name, "not here", str(error))
    except SegmeterError as error:
        return Finding(name, "broken", str(error))
    return Finding(name, "ready", "; ".join(filter(None, (card.summary, card.missing))))


def _say_machine(machine: dict[str, str], libraries: dict[str, str | None]) -> None:
    kernels = {
        "compiled": "compiled",
        "plain": "plain Python (same values, slower): install with a C++ compiler",
    }
    _line("segmeter", machine["segmeter"])
    _line("python", f"{machine['python']}, {machine['system']}")
    _line("kernels", kernels[machine["kernels"]])
    _line("device", machine["device"])
    for name, version in libraries.items():
        _line(name, version or f"not installed: {_LIBRARIES[name]}")


def _say_models(models: list[Finding]) -> None:
    _title("models that are ready")
    for finding in models:
        if finding.state == "ready":
            _line(finding.name, finding.note)
    for finding in models:
        if finding.state == "broken":
            _line(finding.name, f"broken: {finding.note}")
    _names("without weights; 'segmeter fetch NAME' gets them or says how", models, "no weights")
    _names("not available; 'segmeter run' says what is missing", models, "not here")


def _say_datasets(datasets: list[Finding], data: Path | None) -> None:
    _title("data sets that are here")
    for finding in datasets:
        if finding.state != "not here":
            _line(finding.name, finding.note)
    place = f"not in {data}" if data else "not found without --data"
    _names(f"{place}; 'segmeter fetch NAME' says where to get one", datasets, "not here")


def _names(title: str, findings: Iterable[Finding], state: State) -> None:
    names = ", ".join(finding.name for finding in findings if finding.state == state)
    if names:
        _title(title)
        for line in textwrap.wrap(names, 78, break_on_hyphens=False):
            typer.echo(f"  {line}")


def _title(text: str) -> None:
    typer.echo(f"\n{text}")


def _line(name: str, text: str) -> None:
    """A name and what is said of it, the text wrapped under itself."""
    wrapped = textwrap.wrap(text, 80 - 24, break_long_words=False, break_on_hyphens=False) or [""]
    typer.echo(f"  {name:<21} {wrapped[0]}")
    for more in wrapped[1:]:
        typer.echo(f"{'':24}{more}")
