"""segmeter: how good is a segmenter in the hands of people?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segmeter.evaluation import Run, evaluate
    from segmeter.model_parity import parity
    from segmeter.serving import serve

__version__ = "0.2.0"
__all__ = ["Run", "__version__", "evaluate", "parity", "serve"]


def __getattr__(name: str) -> Any:
    """Public names are loaded at first use, so that importing stays cheap."""
    if name in ("Run", "evaluate"):
        from segmeter import evaluation

        return getattr(evaluation, name)
    if name == "parity":
        from segmeter.model_parity import parity

        return parity
    if name == "serve":
        from segmeter.serving import serve

        return serve
    raise AttributeError(f"module 'segmeter' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
