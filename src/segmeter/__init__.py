"""segmeter: how good is a segmenter in the hands of people?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segmeter.evaluation import Run, evaluate

__version__ = "0.2.0"
__all__ = ["Run", "__version__", "evaluate"]


def __getattr__(name: str) -> Any:
    """`evaluate` and `Run` are loaded when first used, so that importing stays cheap."""
    if name in ("Run", "evaluate"):
        from segmeter import evaluation

        return getattr(evaluation, name)
    raise AttributeError(f"module 'segmeter' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
