"""Reproducible arithmetic: settings that change the last digits are fixed at the start of a run."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from segmeter.kernels import set_threads, threads

_at_import: dict[str, Any] = {}  # torch's state right after the hook's import


@contextmanager
def caller_state_kept() -> Iterator[None]:
    """Leave threads, TF32 flags and torch's random state as they were before."""
    import cv2

    opencv_threads, kernel_threads = cv2.getNumThreads(), threads()
    torch = sys.modules.get("torch")
    before = None if torch is None else _torch_state(torch)
    try:
        yield
    finally:
        cv2.setNumThreads(opencv_threads)
        set_threads(kernel_threads)
        _remove_hook()
        torch = sys.modules.get("torch")
        if torch is not None:
            _restore(torch, before or _at_import)


def fix_arithmetic(threads: int) -> None:
    """Fix what changes digits: the number of threads, and a GPU's ten-bit float32.

    Torch is set up only if it is imported, since classical segmenters do not need it.
    """
    import cv2

    cv2.setNumThreads(threads)
    _remove_hook()
    if "torch" in sys.modules:
        _fix(sys.modules["torch"], threads)
    else:
        sys.meta_path.insert(0, _ImportHook(threads))


def _remove_hook() -> None:
    for earlier in [finder for finder in sys.meta_path if isinstance(finder, _ImportHook)]:
        sys.meta_path.remove(earlier)


def _torch_state(torch: Any) -> dict[str, Any]:
    on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
    return {
        "threads": torch.get_num_threads(),
        "cudnn": torch.backends.cudnn.allow_tf32,
        "matmul": torch.backends.cuda.matmul.allow_tf32,
        "random": torch.get_rng_state(),
        "random on GPUs": torch.cuda.get_rng_state_all() if on_gpu else None,
    }


def _restore(torch: Any, state: Mapping[str, Any]) -> None:
    if not state:
        return
    torch.set_num_threads(state["threads"])
    torch.backends.cudnn.allow_tf32 = state["cudnn"]
    torch.backends.cuda.matmul.allow_tf32 = state["matmul"]
    torch.set_rng_state(state["random"])
    if state["random on GPUs"] is not None:
        torch.cuda.set_rng_state_all(state["random on GPUs"])


def _fix(torch: Any, threads: int) -> None:
    torch.set_num_threads(threads)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


class _ImportHook(MetaPathFinder):
    """Sets torch up right after it is imported."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._finding = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch" or self._finding:
            return None
        self._finding = True  # let the other finders find it
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._finding = False
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            _at_import.update(_torch_state(module))
            _fix(module, self.threads)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # of this import alone
        return spec
