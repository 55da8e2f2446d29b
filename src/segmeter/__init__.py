"""segmeter: how good is a segmenter in the hands of people?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segmeter.evaluation import evaluate

__version__ = "0.2.0"
__all__ = ["__version__", "evaluate"]


def __getattr__(name: str) -> Any:
    """`segmeter.evaluate` is loaded when first used, so that importing stays cheap."""
    if name == "evaluate":
        from segmeter.evaluation import evaluate

        return evaluate
    raise AttributeError(f"module 'segmeter' has no attribute '{name}'")
