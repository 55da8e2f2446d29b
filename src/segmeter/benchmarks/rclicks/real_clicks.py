"""First clicks of real people, and of as many drawn from the click map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from segmeter.core.benchmarks import Group, Results
from segmeter.core.models import ProtocolName
from segmeter.stats.intervals import Floats

__all__ = ["FirstClicks", "Who", "first_clicks", "target_nsr"]

Who = Literal["people", "samples"]
Key = tuple[str, str]
_KINDS: dict[Who, str] = {"people": "replay-%", "samples": "map-sample-%"}


@dataclass(frozen=True, slots=True)
class FirstClicks(Group):
    """IoU after one click, of everybody who clicked; the group's user is `people` or `samples`."""

    scores: Mapping[Key, Floats]

    @property
    def ddof(self) -> int:
        """The paper divides by n, the corrected protocol by n - 1."""
        return 1 if self.protocol == "corrected" else 0

    def means(self) -> Floats:
        return np.array([s.mean() for s in self.scores.values()])

    def spreads(self) -> Floats:
        """Standard deviation on each target; zero where only one person clicked."""
        return np.array([_spread(s, self.ddof) for s in self.scores.values()])

    def noise(self) -> Floats:
        """Each target's noise-to-signal ratio, spread over mean."""
        return np.array([target_nsr(s, self.ddof) for s in self.scores.values()])


def target_nsr(scores: Floats, ddof: int = 0) -> float:
    """Spread over mean; the 1e-9 is the original's guard against a mean of zero."""
    return _spread(scores, ddof) / (float(scores.mean()) + 1e-9)


def first_clicks(run: Results, who: Who) -> list[FirstClicks]:
    """The first clicks of a run by model, data set and protocol; empty if there are none."""
    table = run.sql(f"""
        select model, dataset, protocol, scene, target, min(cluster) as cluster,
               list(iou order by "user") as scores
        from rows where round = 1 and "user" like '{_KINDS[who]}'
        group by model, dataset, protocol, scene, target
        order by model, dataset, protocol desc, scene, target
    """)
    found: dict[tuple[str, str, ProtocolName], dict[Key, tuple[Floats, str]]] = {}
    for row in table.to_pylist():
        place = (row["model"], row["dataset"], row["protocol"])
        key = (row["scene"], row["target"])
        scores = np.array(row["scores"], dtype=float)
        found.setdefault(place, {})[key] = (scores, row["cluster"] or row["scene"])
    return [
        FirstClicks(
            *place[:2],
            who,
            place[2],
            tuple(targets),
            tuple(cluster for _, cluster in targets.values()),
            {key: scores for key, (scores, _) in targets.items()},
        )
        for place, targets in found.items()
    ]


def _spread(scores: Floats, ddof: int) -> float:
    return float(scores.std(ddof=ddof)) if scores.size > ddof else 0.0
