"""Studies with real people: where they click, what they think of masks, how they segment."""

import importlib
from typing import Any

_MODULES = (
    *("analyses", "database", "exports", "interactions", "people", "plan"),
    *("power", "preview", "server", "stimuli", "wording"),
)


def __getattr__(name: str) -> Any:
    """Import a module when it is first used, so that help texts need not wait for it."""
    if name in _MODULES:
        return importlib.import_module(f"segmeter.study.{name}")
    raise AttributeError(f"module 'segmeter.study' has no attribute '{name}'")
