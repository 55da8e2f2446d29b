"""NoC changes by training: clicks to a goal of two decoders on the same objects, compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from segmeter.core.lockstep import SimulatedSession, simulate
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, ProtocolName
from segmeter.core.scenes import Scene, Target
from segmeter.core.sessions import Scores
from segmeter.core.users import User
from segmeter.measures.objects import iou
from segmeter.stats.intervals import Interval, Resampling

ClickCounts = Mapping[tuple[str, str], int]
"""Clicks per object, by scene and target."""


@dataclass(frozen=True, slots=True)
class NocChange:
    """Mean clicks per object before and after training, and the paired difference.

    The interval is that of the difference after - before, bootstrapped over images.
    """

    dataset: str
    user: str
    images: int
    objects: int
    before: float
    after: float
    difference: Interval

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.difference.low > 0 or self.difference.high < 0


def click_counts(
    encoded: Sequence[tuple[Scene, EncodedScene]],
    user: User,
    *,
    goal: float = 0.9,
    rounds: int = 20,
    protocol: ProtocolName = "corrected",
    seed: int = 0,
) -> dict[tuple[str, str], int]:
    """Clicks until the IoU reaches the goal, for every object; `rounds` where it never does."""
    counts = {}
    for scene, view in encoded:
        sessions = [SimulatedSession(target, user, protocol) for target in scene.targets]
        made = simulate(
            scene, view, sessions, rounds, _judge, seed=seed, until=lambda s: s["iou"] >= goal
        )
        for one in made:
            reached = (r.number for r in one.rounds if r.scores["iou"] >= goal)
            counts[scene.name, one.simulated.target.id] = next(reached, rounds)
    return counts


def noc_change(dataset: str, user: str, before: ClickCounts, after: ClickCounts) -> NocChange:
    """Compare two decoders object by object.

    >>> before = {("a/1", "x"): 4, ("a/1", "y"): 2, ("a/2", "x"): 6}
    >>> change = noc_change("a", "centre-click", before, {key: 1 for key in before})
    >>> change.before, change.after, change.difference.value
    (4.0, 1.0, -3.0)
    """
    keys = list(before)
    scenes = [scene for scene, _ in keys]
    differences = [after[key] - before[key] for key in keys]
    return NocChange(
        dataset,
        user,
        len(set(scenes)),
        len(keys),
        sum(before.values()) / len(keys),
        sum(after[key] for key in keys) / len(keys),
        Resampling(scenes, seed=dataset).interval(differences),
    )


def _judge(target: Target, mask: Mask) -> Scores:
    return {"iou": iou(target.mask, mask, target.ignore)}
