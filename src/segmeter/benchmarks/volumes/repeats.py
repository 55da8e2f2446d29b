"""Repeats: several draws of a user that prompts at random, as one group of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from segmeter.benchmarks.volumes.fitting import one_name

if TYPE_CHECKING:
    from segmeter.benchmarks.volumes.statistics import VolumeSessions

__all__ = ["merged_repeats"]


def merged_repeats(groups: Sequence[VolumeSessions]) -> list[VolumeSessions]:
    """One group for all draws of a user; its tables are the means over the draws.

    A statistic is computed for each draw in `repeats` and averaged, so that an object counts
    once whatever the number of draws, and how much draws vary is part of its variance.
    """
    found: dict[tuple[str, ...], list[VolumeSessions]] = {}
    for group in groups:
        key = (group.model, group.dataset, one_name(group.user), group.protocol)
        found.setdefault(key, []).append(group)
    return [_merged(members) if len(members) > 1 else members[0] for members in found.values()]


def _merged(members: Sequence[VolumeSessions]) -> VolumeSessions:
    first = min(members, key=lambda group: (len(group.user), group.user))
    same = tuple(group for group in members if group.keys == first.keys)
    tables: dict[str, Any] = {
        f.name: np.mean([getattr(group, f.name) for group in same], axis=0)
        for f in fields(first)
        if isinstance(getattr(first, f.name), np.ndarray)
    }
    others = {
        name: np.mean([group.others[name] for group in same], axis=0) for name in first.others
    }
    return replace(first, **tables, others=others, repeats=same, user=one_name(first.user))
