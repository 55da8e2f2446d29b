"""Weights: finding and identifying them, and reading them without executing anything.

A model's files are looked for in the folder given (its sub-folder or file of the model's name,
or itself), then in segmeter's own cache and in the hub's cache. `SEGMETER_WEIGHTS` is the folder if
none is given. Nothing is downloaded here: `segmeter fetch NAME` does that.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pickle
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from segmeter.core import seeds
from segmeter.core.capabilities import OnDevice, WithWeights, capable
from segmeter.core.errors import BadInput, BadWeights, NotFound, NoWeights, check_choice, first_line
from segmeter.core.models import ModelCard
from segmeter.runtime.fingerprints import external_data
from segmeter.runtime.remote_files import cache_folder

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Sizes = dict[str, tuple[int, ...]]
Network = TypeVar("Network")

SUFFIXES = (".safetensors", ".pt", ".pth", ".onnx")
_FILES_ONLY = (".ckpt", ".bin", ".torch")  # in a folder these may be anything
_LARGE = 1 << 24  # bytes of weights from which on their digest is kept
# What torch raises for damaged checkpoints: its reader trusts that a file is whole.
DAMAGED = (RuntimeError, OSError, EOFError, ValueError, KeyError, IndexError, TypeError,
            AttributeError, AssertionError, OverflowError, MemoryError, struct.error,
            zipfile.BadZipFile)  # fmt: skip


ABSENT = Path("no weights")
"""Placeholder path of missing weights, while a model is only described."""

_describing: ContextVar[bool] = ContextVar("describing", default=False)


@contextmanager
def describing() -> Iterator[None]:
    """Models are made without their weights, so that their cards can be read; none can look."""
    token = _describing.set(True)
    try:
        yield
    finally:
        _describing.reset(token)


def home() -> Path:
    """Folder of `segmeter fetch`: one folder per model."""
    return cache_folder("weights")


def find(name: str, given: str | Path | None = None, hub: str = "", package: str = "torch") -> Path:
    """The folder or file with the weights of model `name`.

    Parameters
    ----------
    given
        A folder of many models, the model's own folder or file, or a hub id `owner/name`.
    hub
        The hub id the model is published under.
    package
        The package that runs the model; a minimal install does not have it.
    """
    if package and not _describing.get() and importlib.util.find_spec(package) is None:
        raise NotFound(f"'{name}' needs the package '{package}': pip install 'segmeter[models]'")
    named = given if given is not None else os.environ.get("SEGMETER_WEIGHTS") or None
    places = [home()] if named is None else [Path(named), home()]
    for place in places:
        for path in (place / name, *_called(name, place), place):
            if path.exists() and files(path):
                return path
    is_hub_id = str(given or "").count("/") == 1 and str(given)[0] not in "./~"
    if (cached := _from_hub_cache(str(given) if is_hub_id else hub)) is not None:
        return cached
    if _describing.get():
        return ABSENT
    tried = ", ".join(f"'{place}'" for place in places)
    raise NoWeights(
        f"no weights for '{name}' in {tried} or the hub's cache; "
        f"'segmeter fetch {name}' gets them, or give their folder with --weights"
    )


def _called(name: str, folder: Path) -> list[Path]:
    """The files of a model in a folder of several: `mobile_sam.pt` is that of `mobile-sam`."""
    held = sorted(p for p in folder.glob("*") if p.suffix in SUFFIXES)
    own = re.sub("[-_]", "", name).lower()
    return [p for p in held if len(held) > 1 and re.sub("[-_]", "", p.stem).lower() == own]


def files(path: Path) -> list[Path]:
    """The weight files at a place, safetensors before anything else."""
    if path.is_file():
        return [path] if path.suffix in (*SUFFIXES, *_FILES_ONLY) else []
    for suffix in SUFFIXES:
        found = sorted(p for p in path.glob(f"*{suffix}") if p.is_file())
        if found:
            return found
    return []


def fingerprint(path: Path) -> str:
    """A digest of the weight files' contents; nothing for weights that are not here.

    That of large files is cached while size, time, inode and device are unchanged.
    """
    return digest_of(files(path)) if path != ABSENT else ""


def digest_of(found: Sequence[Path]) -> str:
    """The digest of some files' contents, cached for large ones."""
    found = [part for file in found for part in (file, *external_data(file))]
    states = [file.stat() for file in found]
    if sum(state.st_size for state in states) < _LARGE:
        return _digest(found)
    marks = [(s.st_size, s.st_mtime_ns, s.st_ino, s.st_dev) for s in states]
    kept = cache_folder("fingerprints", seeds.fingerprint(marks))
    with suppress(OSError):
        digest = kept.read_text(encoding="ascii", errors="replace")
        if re.fullmatch("[0-9a-f]{32}", digest):
            return digest
    digest = _digest(found)
    with suppress(OSError):  # a cache that cannot be written is none
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_name(f"{kept.name}.{os.getpid()}")
        part.write_text(digest, "ascii")
        part.replace(kept)
    return digest


def _digest(found: Sequence[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for file in found:
        with file.open("rb") as stream:
            hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()


def sizes(path: Path) -> Sizes | None:
    """The tensors' names and shapes by the headers alone; None for files that have none."""
    from safetensors import SafetensorError, safe_open

    found: Sizes = {}
    for file in files(path):
        if file.suffix != ".safetensors":
            return None
        try:
            with safe_open(file, framework="numpy") as opened:
                found |= {k: tuple(opened.get_slice(k).get_shape()) for k in opened.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise _damaged(file, error) from error
    return found


def read(path: Path, *, lazily: bool = False) -> dict[str, Any]:
    """All tensors by name. Safetensors, or a checkpoint that holds tensors and plain values.

    A checkpoint's other values are returned unchanged. With `lazily` the tensors of a checkpoint
    are mapped from its file, so that names and shapes are read without them.
    """
    if not path.exists():
        raise NotFound(f"no checkpoint '{path}'")
    content: dict[str, Any] = {}
    for file in files(path):
        held = opened(file, lazily)
        if not isinstance(held, dict):
            raise BadWeights(f"'{file}' holds no named tensors; use the original checkpoint")
        content.update(held)
    return content


def named_tensors(path: Path, *under: str) -> dict[str, Any]:
    """The tensors of a checkpoint by name: at the top level, or under one of some keys."""
    content = read(path)
    found = next((content[name] for name in under if name in content), content)
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise BadWeights(f"'{path}' holds no named tensors; use the original checkpoint")
    return found


def pretrained(folder: Path, kind: str, what: str, **options: Any) -> Any:
    """The network of class `kind` in transformers from a folder of Hugging Face; `what` it is.

    Only safetensors are read, and weights that lack a tensor of the network are refused.
    """
    import transformers

    library: Any = transformers  # parts of it have no types
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    if (made := getattr(library, kind, None)) is None:
        raise NotFound(f"transformers {library.__version__} has no {kind}; install a newer one")
    try:
        network, report = made.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, output_loading_info=True, **options
        )
    except (ImportError, *DAMAGED) as error:
        raise BadWeights(f"'{folder}' holds no {what}: {first_line(error)}") from error
    lost = sorted(report["missing_keys"]) + sorted(map(str, report["mismatched_keys"]))
    if lost:
        raise BadWeights(
            f"'{folder}' holds no {what}: tensor '{lost[0]}' is missing or of another shape"
        )
    return network.eval().requires_grad_(False)


def load_into(network: Any, tensors: dict[str, Tensor], what: str, spare: tuple[str, ...]) -> None:
    """Fill a network; refuse tensors that are missing, left over or of another shape.

    `spare` are endings and beginnings of names that the network may leave unfilled or ignore.
    """
    own = network.state_dict()
    fits(sizes_of(own), sizes_of(tensors), what, spare)
    filled = {k: tensors[k] for k in own if not _spare(k, spare)}
    network.load_state_dict(filled, strict=False)


@contextmanager
def unfilled() -> Iterator[None]:
    """Modules made in here have shapes and no numbers of their own, at hardly any cost.

    Tensors without memory, torch's own way, make it import its compiler and sympy: seconds.
    """
    from torch.overrides import TorchFunctionMode

    class LeaveOut(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if getattr(func, "__module__", "") == "torch.nn.init":
                return kwargs["tensor"] if kwargs else args[0]
            return func(*args, **(kwargs or {}))

    with LeaveOut():
        yield


def fits(own: Sizes, given: Sizes, what: str, spare: tuple[str, ...] = ()) -> None:
    """Refuse tensors that are missing, unknown to a network or of another shape than its own."""
    odd = [k for k in own.keys() ^ given.keys() if not _spare(k, spare)]
    fault = ""
    if odd:
        first = min(odd, key=lambda name: (name in given, name))  # what is missing comes first
        fault = f"holds the unknown tensor '{first}'" if first in given else f"lacks '{first}'"
        fault += f" and differs in {len(odd) - 1} more" if len(odd) > 1 else ""
    for key in sorted(own.keys() & given.keys()):
        if not fault and not _spare(key, spare) and own[key] != given[key]:
            fault = f"'{key}' is {by(given[key])} where {by(own[key])} is needed"
    if fault:
        raise BadWeights(f"{what} are of another architecture: {fault}")


def by(shape: tuple[int, ...]) -> str:
    """A shape in words, such as `3 x 256`."""
    return " x ".join(map(str, shape)) or "a single number"


def sizes_of(tensors: Mapping[str, Any]) -> Sizes:
    """Shapes by name; other values than tensors have none and never fit."""
    return {name: tuple(getattr(value, "shape", ())) for name, value in tensors.items()}


def _spare(key: str, spare: tuple[str, ...]) -> bool:
    return key.startswith(spare) or key.endswith(spare) if spare else False


def opened(file: Path, lazily: bool, inert: Sequence[Any] = ()) -> Any:
    """The content of a file; of a pickle only tensors, plain values and what is `inert`."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        mapped = lazily and zipfile.is_zipfile(file)  # files before torch 1.6 cannot be mapped
        with torch.serialization.safe_globals([*_plain_numbers(), *inert]):
            return torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        named = re.search(r"(?:GLOBAL|global|class|function)\s+([\w.]+\.[\w.]+)", str(error))
        what = f"it asks for '{named[1]}'" if named else "it holds more than tensors"
        raise BadWeights(
            f"'{file}' is not opened: {what}, and such a file could run code; "
            "save the tensors alone (torch.save(model.state_dict(), FILE)) or as safetensors"
        ) from error
    except (SafetensorError, *DAMAGED) as error:
        raise _damaged(file, error) from error


def _plain_numbers() -> list[Any]:
    """NumPy's scalars and arrays, which trainers store with tensors, by both names of each."""
    import numpy as np

    scalar: Any = np.float64(0).__reduce__()[0]
    array: Any = np.zeros(1).__reduce__()[0]
    kinds = [type(np.dtype(kind)) for kind in ("f4", "f8", "i4", "i8", "?")]
    made = ((scalar, "scalar"), (array, "_reconstruct"))
    rooms = ("numpy.core.multiarray", "numpy._core.multiarray")
    return [np.dtype, np.ndarray, *kinds, *((make, f"{r}.{n}") for r in rooms for make, n in made)]


def _damaged(file: Path, error: Exception) -> BadWeights:
    return BadWeights(f"'{file}' is damaged or cut short ({first_line(error)}); fetch it again")


def _from_hub_cache(hub: str) -> Path | None:
    if not hub:
        return None
    try:
        from huggingface_hub.constants import HF_HUB_CACHE
    except ImportError:
        return None
    if not (Path(HF_HUB_CACHE) / f"models--{hub.replace('/', '--')}").is_dir():
        return None  # known without the rest of that package, half of what `doctor` imported
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        path = Path(snapshot_download(hub, local_files_only=True))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError):
        return None
    return path if files(path) else None


def pick_device(name: str) -> torch.device:
    """`auto` is the first CUDA device when there is one."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise BadInput(f"no device '{name}'; use auto, cpu, cuda or cuda:1") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BadInput(f"device '{name}' was requested but torch finds no CUDA device here")
    return device


def on_gpu(device: str) -> bool:
    """Whether a model's device, as it names it, is a GPU; `auto` is one where torch sees one.

    >>> on_gpu("cpu"), on_gpu("CPUExecutionProvider"), on_gpu("NVIDIA H200")
    (False, False, True)
    """
    name = pick_device(device).type if device == "auto" else device
    return not name.lower().startswith("cpu")


def pick_dtype(name: str) -> torch.dtype:
    import torch

    check_choice("dtype", name, ("float32", "float16", "bfloat16"))
    return getattr(torch, name)  # type: ignore[no-any-return]


@capable(OnDevice, WithWeights)
class CheckpointModel:
    """A model whose file is found and checked when it is made, and read when first used.

    A subclass has its loaded network as the cached property `network`.
    """

    def __init__(
        self,
        about: ModelCard,
        weights: str | Path | None = None,
        device: str = "auto",
        hub: str = "",
    ) -> None:
        """`about` is its card, but for what is known of the file that is found."""
        self.name, self._about, self._device = about.name, about, device
        self.weights_path = find(about.name, weights, hub)
        if self.weights_path != ABSENT and importlib.util.find_spec("torch") is not None:
            self.check()

    def check(self) -> None:
        """Refuse weights that are damaged or another network's, by headers where there are any."""
        sizes(self.weights_path)

    @cached_property
    def card(self) -> ModelCard:
        path, digest = self.weights_path, fingerprint(self.weights_path)
        file = f", weights from {path.name} ({digest[:12]})" if path.is_file() else ""
        return replace(self._about, summary=self._about.summary + file, fingerprint=digest)

    @property
    def device(self) -> str:
        """Name of the device; the requested one until the network is loaded."""
        network = self.__dict__.get("network")
        if network is None:
            return self._device
        import torch

        device = getattr(network, "device", None) or next(network.parameters()).device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)

    def filled(
        self, network: Network, tensors: dict[str, Any], spare: tuple[str, ...] = ()
    ) -> Network:
        """A network with the file's tensors, strictly but for `spare`, on its device."""
        made: Any = network
        load_into(made, tensors, f"the weights in '{self.weights_path}'", spare)
        ready: Network = made.eval().requires_grad_(False).to(pick_device(self._device))
        return ready
