"""Groups of sessions: the cost model in use, and whether models share their objects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from segmeter.core.benchmarks import Group, Results
from segmeter.core.sections import Note
from segmeter.stats.effort import CostModel

__all__ = ["cost_of", "uneven"]


def cost_of(run: Results) -> CostModel:
    """The cost model that the caller chose, else the default."""
    path = run.settings.get("cost")
    return CostModel() if path is None else CostModel.read(Path(path))


def uneven(where: str, groups: Sequence[Group]) -> Note | None:
    """A warning where models were not scored on the same targets."""
    if len({frozenset(group.keys) for group in groups}) < 2:
        return None
    counts = ", ".join(f"{group.model} {len(group.keys)}" for group in groups)
    return Note(
        f"On {where} the models were not scored on the same objects ({counts}): their means are "
        "not comparable, their paired differences are.",
        "warning",
    )
