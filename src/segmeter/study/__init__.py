"""Studies with real people: where they click, how they rate masks, how they segment."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segmeter.study import (
        analyses,
        database,
        exports,
        interactions,
        people,
        plan,
        power,
        preview,
        server,
        stimuli,
        wording,
    )

__all__ = ["analyses", "database", "exports", "interactions", "people", "plan", "power",
           "preview", "server", "stimuli", "wording"]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a module when it is first used, so that help texts need not wait for it."""
    if name in __all__:
        return importlib.import_module(f"segmeter.study.{name}")
    raise AttributeError(f"module 'segmeter.study' has no attribute '{name}'")
