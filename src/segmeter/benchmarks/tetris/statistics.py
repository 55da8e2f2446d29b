"""Groups of a TETRIS run: three curves, first clicks, extremes and people per target."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from segmeter.analysis.responses import STATISTICS as RESPONSES
from segmeter.analysis.responses import response_groups
from segmeter.core.benchmarks import Group, Results
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped
from segmeter.core.models import ProtocolName
from segmeter.core.scores_by_step import Tables
from segmeter.stats.goals import area_under
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import Better, Statistic, mean_of_known, share_of_known

_COLUMNS = {"iou": "iou", "biou": "boundary_iou"}
_FIRST = ("y", "x", "start_y", "start_x", "diagonal_px", "people")  # of the first click
_MOST_STEPS = 50  # of a gradient in one round; a search tries more clicks
WITHIN = 0.05
"""A first click within this IoU of the true extreme counts as having found it."""


@dataclass(frozen=True, slots=True)
class AttackedSessions(Group):
    """One model on one dataset in one protocol; the users are the roles.

    `curves` are `(objects, rounds)` by measure (`iou`, `biou`) and role (`base`, `min`,
    `max`); `values` are one number per object by the name of its statistic, in percent, NaN
    where it is not known.
    """

    curves: Mapping[tuple[str, str], Floats]
    values: dict[str, Floats] = field(default_factory=dict)

    def role(self, role: str, measure: str = "iou") -> Floats:
        return self.curves[measure, role]

    @property
    def complete(self) -> bool:
        """Whether both attacks were run; a model without a gradient has none in `published`."""
        return all(("iou", role) in self.curves for role in ("base", "min", "max"))

    def each(self, name: str) -> Floats:
        """One value per object, whose mean is the statistic of that name."""
        return self.values.get(name, np.full(len(self.keys), np.nan))


def roles_of(run: Results) -> dict[str, str]:
    """The user of each role; gradient users come before search users."""
    if run.plan.benchmark == "tetris-boxes":
        return {"tight-box": "base", "worst-box": "min", "best-box": "max"}
    planned = [spec.name for spec in run.plan.users]
    found = {"centre-click": "base"}
    for role, direction in (("min", "worst"), ("max", "best")):
        names = (f"{direction}-click", f"{direction}-click-search")
        found |= dict.fromkeys([n for n in names if n in planned][:1], role)
    return found


def groups(run: Results) -> list[Group]:
    """Attacked sessions, with the known first clicks, and responses to clicks."""
    return [*attacked_sessions(run), *response_groups(run, lambda user: "")]


def attacked_sessions(run: Results) -> list[AttackedSessions]:
    roles, attacks = roles_of(run), attacks_of(run)
    mixed = len(set(attacks.values())) > 1
    every = Tables.load(run, [*_COLUMNS.values(), *_FIRST])
    found = []
    for (model, dataset), held in grouped(every, lambda t: (t.model, t.dataset)).items():
        users = {(tables.user, tables.protocol): tables for tables in held}
        for protocol in dict.fromkeys(p for user, p in users if user in roles):
            there = {role: (user, protocol) for user, role in roles.items()}
            members = {role: users[who] for role, who in there.items() if who in users}
            base = members["base"]
            curves = {
                (kind, role): tables.table(column)
                for kind, column in _COLUMNS.items()
                for role, tables in members.items()
            }
            # Search finds worse clicks than a gradient: the two are never compared.
            user = attacks.get(model, "") if mixed and len(members) > 1 else ""
            who = (model, dataset, user, protocol)
            group = AttackedSessions(*who, base.keys, base.clusters, curves)
            group.values.update(from_curves(group))
            group.values.update(_singles(group, users, roles))
            found.append(group)
    return found


def attacks_of(run: Results) -> dict[str, str]:
    """Whether each model was attacked by gradient or by search."""
    if "trials" not in run.columns("rows"):
        return {}
    rows = run.sql("""
        select model, max(len(string_split(trials, '],['))) as tries
        from rows where protocol = 'corrected' and trials is not null
        group by model order by model
    """).to_pylist()
    return {r["model"]: "search" if r["tries"] > _MOST_STEPS else "gradient" for r in rows}


def from_curves(group: AttackedSessions) -> dict[str, Floats]:
    """Areas under the curves and the first click of each role; D where both attacks ran."""
    roles = ("min", "base", "max") if group.complete else ("base",)
    found = {f"first-{role}": 100 * group.role(role)[:, 0] for role in roles}
    for kind in _COLUMNS:
        areas = {role: area_under(group.role(role, kind)) for role in roles}
        if group.complete:
            areas["d"] = areas["max"] - areas["min"]
        found |= {f"{kind}-{role}": 100 * area for role, area in areas.items()}
    return found


def _singles(
    group: AttackedSessions,
    users: Mapping[tuple[str, ProtocolName], Tables],
    roles: Mapping[str, str],
) -> dict[str, Floats]:
    """Values of single targets that do not follow from the curves."""
    if not group.complete:
        return {}

    def first(user: str, name: str, protocol: ProtocolName = "corrected") -> list[Any]:
        """A column of a user's first clicks; None where it is not known."""
        tables = users.get((user, protocol))
        if tables is None:
            return [None] * group.size
        firsts = (values[0] for values in tables.lists(name).to_pylist())
        known = dict(zip(tables.keys, firsts, strict=True))
        return [known.get(key) for key in group.keys]

    def column(user: str, name: str, protocol: ProtocolName = "corrected") -> Floats:
        return np.array(first(user, name, protocol), dtype=float)

    names = {role: user for user, role in roles.items()}
    found = {"first-spread": group.each("first-max") - group.each("first-min")}
    for role in ("min", "max") if "centre-click" in roles else ():
        places = ("y", "x", "start_y", "start_x", "diagonal_px")
        y, x, y0, x0, diagonal = (column(names[role], name, group.protocol) for name in places)
        found[f"distance-{role}"] = 100 * np.hypot(y - y0, x - x0) / diagonal
    if group.protocol != "corrected":
        return found
    for role, direction in (("min", "worst"), ("max", "best")):
        sign = 1 if role == "min" else -1
        true, tried = (
            100 * column(f"{direction}-{of}", "iou") for of in ("of-all", "click-search")
        )
        attack = group.each(f"first-{role}")
        # Where the attack is a search already, that is the search.
        tried = np.where(np.isnan(tried), attack, tried)
        found[f"all-{role}"] = true
        for kind, reached in (("", attack), ("search-", tried)):
            gap = sign * (reached - true)
            found[f"{kind}gap-{role}"] = gap
            near = np.where(np.isnan(gap), np.nan, gap <= 100 * WITHIN + 1e-9)
            found[f"{kind}found-{role}"] = near
    people = {i: text for i, text in enumerate(first("people", "people")) if text is not None}
    centre = np.stack([column("centre-click", name) for name in ("y", "x")], axis=1)
    found |= _people(group, people, centre, column("people", "diagonal_px"))
    return {name: values for name, values in found.items() if not np.isnan(values).all()}


def _people(
    group: AttackedSessions, people: Mapping[int, str], centre: Floats, diagonal_px: Floats
) -> dict[str, Floats]:
    """First clicks of real people: the range of IoU, and how much of it the attack spans."""
    names = ("people-min", "people-max", "people-spread", "people-distance", "coverage")
    found = np.full((len(names), group.size), np.nan)
    low, high = group.each("first-min"), group.each("first-max")
    for i, text in people.items():
        table = people_of(text)
        scores = 100 * table[:, 2]
        # Tolerance for rounding in the file.
        inside = (scores >= low[i] - 1e-3) & (scores <= high[i] + 1e-3)
        away = np.hypot(*(table[:, :2] - centre[i]).T)
        found[:, i] = (
            scores.min(), scores.max(), np.ptp(scores), 100 * away.mean() / diagonal_px[i],
            100 * inside.mean(),
        )  # fmt: skip
    return dict(zip(names, found, strict=True))


def people_of(text: str) -> Floats:
    """People's first clicks: y, x, IoU, BIoU in each row."""
    try:
        table = np.array(json.loads(text), np.float64)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise BadInput(f"column 'people': {text!r:.80} cannot be read ({error})") from error
    if table.ndim != 2 or table.shape[1] < 3 or not len(table) or not np.isfinite(table).all():
        raise BadInput(f"column 'people': {text!r:.80} has no rows of y, x, IoU and BIoU")
    return table


ROLES = {"min": "Min", "base": "Base", "max": "Max", "d": "D"}
_KINDS = {"iou": "", "biou": "BIoU "}
AREAS = tuple(f"{kind}-{role}" for kind in _KINDS for role in ROLES)
_TESTED = ("iou-d", "iou-min", "iou-max", "iou-base")


def _mean(name: str, title: str, unit: str, digits: int = 1, better: Better = "") -> Statistic:
    return Statistic(
        name, title, unit, digits, better, values=lambda g: g.each(name), interval=mean_of_known,
        of=AttackedSessions, tested="yes" if name in _TESTED else "on request",
    )  # fmt: skip


def _share(name: str, title: str) -> Statistic:
    made = _mean(name, title, "% of objects", 0, "higher")
    return replace(made, percent=True, interval=share_of_known)


STATISTICS = [
    *(
        _mean(f"{kind}-{role}", before + title, "AuC, %", 2, "lower" if role == "d" else "higher")
        for kind, before in _KINDS.items()
        for role, title in ROLES.items()
    ),
    _mean("first-min", "first click, worst", "IoU, %", better="higher"),
    _mean("first-base", "first click, centre", "IoU, %", better="higher"),
    _mean("first-max", "first click, best", "IoU, %", better="higher"),
    _mean("first-spread", "first click, spread", "points", better="lower"),
    _mean("distance-min", "centre to worst click", "% of diagonal"),
    _mean("distance-max", "centre to best click", "% of diagonal"),
    *(
        statistic
        for role, word in (("min", "worst"), ("max", "best"))
        for statistic in (
            _mean(f"all-{role}", f"{word} of all clicks", "IoU, %"),
            _mean(f"gap-{role}", f"attack off the {word}", "points", 2, "lower"),
            _mean(f"search-gap-{role}", f"search off the {word}", "points", 2, "lower"),
            _share(f"found-{role}", f"attack finds the {word}"),
            _share(f"search-found-{role}", f"search finds the {word}"),
        )
    ),
    _mean("people-min", "worst person", "IoU, %"),
    _mean("people-max", "best person", "IoU, %"),
    _mean("people-spread", "spread of people", "points"),
    _mean("people-distance", "people to centre", "% of diagonal"),
    _mean("coverage", "people inside the attack's range", "% of clicks"),
    *RESPONSES,
]
"""All statistics; a group has those of what was done on it."""
