"""Differences between models, group by group: does the better one win on small objects too?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from segmeter.benchmarks.by_group.splitting import TargetGroups, said_of_targets
from segmeter.core.benchmarks import Benchmark, Difference, Results
from segmeter.core.errors import BadInput
from segmeter.core.wording import counted
from segmeter.stats.comparisons import holm

__all__ = ["GroupedDifference", "differences_by_group"]


@dataclass(frozen=True, slots=True)
class GroupedDifference:
    """A difference on the targets of one group; its p holds for all groups together.

    `comparisons` is how many p values were corrected together.
    """

    by: str
    group: str
    difference: Difference
    comparisons: int

    def sentence(self) -> str:
        """One sentence: which model has more in the group, by how much, and if it is significant.

        >>> d = Difference("a", "b", "x", "u", "corrected", "noc@90", -1.5, -2.0, -1, 0.01, 0.02, 9)
        >>> GroupedDifference("size", "small", d, 2).sentence()
        'size small, 9 objects: a has 1.50 less noc@90 than b (95 % interval 1.00 to 2.00 less), significant (p 0.020, Holm over 2 comparisons).'
        """  # noqa: E501  # one line of output
        d = self.difference
        objects = counted(d.targets, "object")
        sure = "significant" if d.significant else "not significant"
        over = f"p {d.p_holm:.3f}, Holm over {counted(self.comparisons, 'comparison')}"
        amount = f"has {_signed(d.value)} {d.measure} than {d.second}{_interval(d)}"
        if d.value == 0:
            amount = f"has as much {d.measure} as {d.second}{_interval(d)}"
        return f"{self.by} {self.group}, {objects}: {d.first} {amount}, {sure} ({over})."


def differences_by_group(
    benchmark: Benchmark, run: Results, by: str, groups: Path | None = None
) -> list[GroupedDifference]:
    """Every pair of models on the targets of each group.

    What a benchmark corrects together it corrects within one group; here the pairs of a
    measure are corrected over all groups (Holm).
    """
    if "target" not in run.sql("select * from rows limit 0").column_names:
        raise BadInput(
            f"rows of '{run.plan.benchmark}' are not of objects; models are compared by group in "
            "sessions with users, and 'segmeter report RUN --by' compares groups here"
        )
    members = TargetGroups(said_of_targets(run, by), by, groups).members()
    found = [
        (group, d) for group, keys in members.items() for d in benchmark.differences(run.only(keys))
    ]
    families: dict[tuple[str, ...], list[int]] = {}
    for i, (_, d) in enumerate(found):
        families.setdefault((d.dataset, d.user, d.protocol, d.measure), []).append(i)
    made: dict[int, GroupedDifference] = {}
    for places in families.values():
        adjusted = holm([found[i][1].p for i in places])
        for i, p in zip(places, adjusted, strict=True):
            group, d = found[i]
            made[i] = GroupedDifference(by, group, replace(d, p_holm=p), len(places))
    return [made[i] for i in range(len(found))]


def _signed(value: float) -> str:
    return f"{abs(value):.2f} {'more' if value > 0 else 'less'}"


def _interval(d: Difference) -> str:
    """In brackets, where images differ and so give one."""
    if math.isnan(d.low) or math.isnan(d.high) or d.low == d.high:
        return ""
    ends: Sequence[float] = (d.low, d.high)
    if d.high <= 0:
        return f" (95 % interval {abs(d.high):.2f} to {abs(d.low):.2f} less)"
    if d.low >= 0:
        return f" (95 % interval {d.low:.2f} to {d.high:.2f} more)"
    return f" (95 % interval {' to '.join(map(_signed, ends))})"
