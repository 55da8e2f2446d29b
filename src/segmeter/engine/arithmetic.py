"""Arithmetic that is the same in every run: what changes digits is fixed before work begins."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["steady_arithmetic"]


def steady_arithmetic(threads: int) -> None:
    """Fix what changes digits: the number of threads, and a GPU's ten-bit float32.

    Torch is told when somebody imports it, since classical segmenters never do.
    """
    import cv2

    cv2.setNumThreads(threads)
    for earlier in [finder for finder in sys.meta_path if isinstance(finder, _AtImport)]:
        sys.meta_path.remove(earlier)
    if "torch" in sys.modules:
        _steady(sys.modules["torch"], threads)
    else:
        sys.meta_path.insert(0, _AtImport(threads))


def _steady(torch: Any, threads: int) -> None:
    torch.set_num_threads(threads)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


class _AtImport(MetaPathFinder):
    """Steadies torch as soon as its import is through."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._asking = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch" or self._asking:
            return None
        self._asking = True  # the others
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking = False
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            _steady(module, self.threads)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # of this import alone
        return spec
