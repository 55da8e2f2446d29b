"""Cache folders: what segmeter keeps for a person on a machine, outside of runs and data."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder(*names: str) -> Path:
    """A folder, or a file in it, under the person's cache.

    >>> cache_folder('weights').name
    'weights'
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "segmeter", *names)
