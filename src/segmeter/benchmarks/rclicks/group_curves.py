"""Curves of one model on one data set: the centre click's and those of ten clicking groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from segmeter.clickability.groups import GROUPS
from segmeter.core.benchmarks import Curves, Group, Results
from segmeter.core.models import ProtocolName
from segmeter.core.tables import load_tables
from segmeter.stats.intervals import Floats
from segmeter.stats.rounds import area_under, failed, rounds_to
from segmeter.stats.statistics import resampling
from segmeter.stats.variance_components import Components, components

if TYPE_CHECKING:
    from segmeter.benchmarks.rclicks.estimates import EffectEstimate

__all__ = ["BASE", "GOAL", "GroupCurves", "group_curves", "group_name"]

GOAL = 0.9
BASE = "centre-click"
_GROUP = re.compile(r"clicking-group-(\d+)(?:-draw-(\d+))?")


@dataclass(frozen=True)
class GroupCurves(Group):
    """One model, data set and reading, all users on the same targets.

    Attributes
    ----------
    base
        IoU of the centre click, `(targets, rounds)`.
    groups
        IoU of the clicking groups, `(draws, groups, targets, rounds)`, the least likely tenth
        first.
    """

    base: Floats
    groups: Floats

    @property
    def draws(self) -> int:
        return len(self.groups)

    @cached_property
    def effects(self) -> dict[str, EffectEstimate]:
        """Every effect with its interval, its null and the excess over it."""
        from segmeter.benchmarks.rclicks.estimates import effects_of

        return effects_of(self)

    @cached_property
    def components(self) -> dict[str, Components]:
        """Variance between and within groups, of clicks and of quality."""
        drawn = resampling(self)
        found = {m: components(self.by_draw(m), drawn, self.dataset) for m in ("noc", "auc")}
        return {measure: parts for measure, parts in found.items() if parts is not None}

    def sampled(self, measure: str) -> Floats:
        """One value per object: the mean over all groups and draws."""
        found: Floats = self.clickers(measure)[:, 1:].mean(axis=1)
        return found

    def clickers(self, measure: str) -> Floats:
        """One number per player, `(targets, 1 + draws * groups)`: the centre click comes first.

        `noc` is clicks to 90 %, `auc` the mean IoU over the rounds in percent, `nof` 1 where
        90 % is a failure in the trial's reading.
        """
        flat = self.groups.reshape(-1, *self.base.shape)
        columns = [self._of(curves, measure) for curves in (self.base, *flat)]
        return np.stack(columns, axis=1)

    def by_draw(self, measure: str) -> Floats:
        """The groups' numbers, `(targets, draws, groups)`."""
        return self.clickers(measure)[:, 1:].reshape(len(self.keys), self.draws, GROUPS)

    def _of(self, curves: Floats, measure: str) -> Floats:
        match measure:
            case "noc":
                return rounds_to(curves, GOAL)
            case "auc":
                return 100 * area_under(curves)
            case "nof":
                return failed(curves, GOAL, self.protocol).astype(float)
        raise KeyError(measure)


def group_name(group: int, draw: int = 1) -> str:
    """The user's name in the rows of a run."""
    return f"clicking-group-{group}" + (f"-draw-{draw}" if draw > 1 else "")


def group_curves(run: Results) -> list[GroupCurves]:
    """Every model on every data set in every protocol; incomplete ones are left out."""
    found: dict[tuple[str, str, ProtocolName], dict[str, Curves]] = {}
    for tables in load_tables(run, ["iou"]):
        curves = Curves(*tables.key, tables.keys, tables.clusters, tables.table("iou"))
        key = (curves.model, curves.dataset, curves.protocol)
        found.setdefault(key, {})[curves.user] = curves
    made = (_trial(*key, users) for key, users in found.items())
    return [trial for trial in made if trial is not None]


def _trial(
    model: str, dataset: str, protocol: ProtocolName, users: Mapping[str, Curves]
) -> GroupCurves | None:
    draws = _draws(users)
    names = [[group_name(g, d) for g in range(1, GROUPS + 1)] for d in range(1, draws + 1)]
    wanted = [users.get(name) for name in (BASE, *(n for row in names for n in row))]
    present = [curves for curves in wanted if curves is not None]
    if not draws or len(present) < len(wanted):
        return None
    keys = _shared(present)
    if not keys:
        return None
    tables = [_rows(curves, keys) for curves in present]
    groups = np.stack(tables[1:]).reshape(draws, GROUPS, *tables[0].shape)
    cluster = dict(zip(present[0].keys, present[0].clusters, strict=True))
    clusters = tuple(cluster[key] for key in keys)
    return GroupCurves(model, dataset, "groups", protocol, tuple(keys), clusters, tables[0], groups)


def _draws(users: Iterable[str]) -> int:
    """How many draws every group has."""
    seen = [_GROUP.fullmatch(user) for user in users]
    counts = [0] * (GROUPS + 1)
    for match in seen:
        if match:
            counts[int(match[1])] += 1
    return min(counts[1:])


def _shared(curves: Sequence[Curves]) -> list[tuple[str, str]]:
    """Targets that every player has, in the first one's order."""
    known = set(curves[0].keys).intersection(*(c.keys for c in curves[1:]))
    return [key for key in curves[0].keys if key in known]


def _rows(curves: Curves, keys: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
    place = {key: i for i, key in enumerate(curves.keys)}
    return curves.values[[place[key] for key in keys]]
