"""Roots: the folders (or addresses) below which data sets and weights are looked up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from segmeter.runtime.remote_files import is_address, local_folder

__all__ = ["Roots"]


@dataclass(frozen=True, slots=True)
class Roots:
    """Folders or addresses of data and weights; they do not change what a plan is.

    `noted` marks a data folder that the run's provenance names: only data with the fingerprint
    that the plan notes is read from it.
    """

    data: Path | str | None = None
    weights: Path | str | None = None
    noted: bool = False

    def options(self) -> dict[str, Path]:
        """Arguments that the registry may pass to readers and adapters that declare them.

        Data at an address is copied to the machine that needs it.
        """
        given = {"data": self.data, "weights": self.weights}
        return {key: _folder(path) for key, path in given.items() if path is not None}


def _folder(path: Path | str) -> Path:
    return local_folder(str(path)) if is_address(path) else Path(path)
