"""Groups of a TETRIS run: three curves, first clicks, extremes and people per target."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.benchmarks import Group, Results
from segmeter.core.errors import BadInput
from segmeter.core.models import ProtocolName
from segmeter.core.scores_by_step import Tables, load_tables
from segmeter.stats.goals import area_under
from segmeter.stats.statistics import (
    Better,
    Statistic,
    cards_by_name,
    mean_of_known,
    share_of_known,
)

Floats = npt.NDArray[np.float64]
Key = tuple[str, str]
Roles = Mapping[str, str]
_COLUMNS = {"iou": "iou", "biou": "boundary_iou"}
_MOST_STEPS = 50  # of a gradient in one round; a search tries more clicks
WITHIN = 0.05
"""How near to the true extreme a first click counts as having found it, in IoU."""


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
    """Which user has which role; the gradient's users come before those who search."""
    if run.plan.benchmark == "tetris-boxes":
        return {"tight-box": "base", "worst-box": "min", "best-box": "max"}
    names = [spec.name for spec in run.plan.users]
    found = {"centre-click": "base"}
    for role, direction in (("min", "worst"), ("max", "best")):
        for name in (f"{direction}-click", f"{direction}-click-search"):
            if name in names:
                found[name] = role
                break
    return found


def groups(run: Results) -> list[AttackedSessions]:
    """All groups of a run, with whatever is known about first clicks."""
    roles = roles_of(run)
    made: dict[tuple[str, str, ProtocolName], dict[str, Tables]] = {}
    for tables in load_tables(run, list(_COLUMNS.values())):
        if tables.user in roles:
            key = tables.model, tables.dataset, tables.protocol
            made.setdefault(key, {})[roles[tables.user]] = tables
    firsts, attacks = _first_rounds(run), attacks_of(run)
    mixed = len(set(attacks.values())) > 1
    found = []
    for (model, dataset, protocol), members in made.items():
        base = members["base"]
        curves = {
            (kind, role): tables.table(column)
            for kind, column in _COLUMNS.items()
            for role, tables in members.items()
        }
        # Search finds worse clicks than a gradient: the two are never compared.
        user = attacks.get(model, "") if mixed and len(members) > 1 else ""
        group = AttackedSessions(model, dataset, user, protocol, base.keys, base.clusters, curves)
        group.values.update(from_curves(group))
        group.values.update(_singles(group, firsts.get((model, dataset), {}), roles))
        found.append(group)
    return found


def attacks_of(run: Results) -> dict[str, str]:
    """Whether each model was attacked along a gradient or by search."""
    if "trials" not in run.sql("select * from rows limit 0").column_names:
        return {}
    table = run.sql("""
        select model, max(len(string_split(trials, '],['))) as tries
        from rows where protocol = 'corrected' and trials is not null
        group by model order by model
    """)
    return {
        row["model"]: "search" if row["tries"] > _MOST_STEPS else "gradient"
        for row in table.to_pylist()
    }


def from_curves(group: AttackedSessions) -> dict[str, Floats]:
    """Areas under the curves and the first click of each role; D where both attacks ran."""
    roles = ("min", "base", "max") if group.complete else ("base",)
    found = {
        f"{kind}-{role}": 100 * area_under(group.role(role, kind))
        for kind in _COLUMNS
        for role in roles
    }
    found |= {f"first-{role}": 100 * group.role(role)[:, 0] for role in roles}
    if group.complete:
        for kind in _COLUMNS:
            high, low = (area_under(group.role(role, kind)) for role in ("max", "min"))
            found[f"{kind}-d"] = 100 * (high - low)
    return found


def _first_rounds(run: Results) -> dict[tuple[str, str], dict[Any, dict[str, Any]]]:
    """Rows of the first round by model and dataset, then by user, protocol and target."""
    columns = {row["column_name"] for row in run.sql("describe rows").to_pylist()}
    people = "people" if "people" in columns else "null as people"
    table = run.sql(f"""
        select model, dataset, "user", protocol, scene, target, iou, y, x,
               start_y, start_x, diagonal_px, {people} from rows where round = 1
        order by model, dataset, "user", protocol desc, scene, target
    """)
    found: dict[tuple[str, str], dict[Any, dict[str, Any]]] = {}
    for row in table.to_pylist():
        place = row["user"], row["protocol"], row["scene"], row["target"]
        found.setdefault((row["model"], row["dataset"]), {})[place] = row
    return found


def _singles(
    group: AttackedSessions, firsts: Mapping[Any, dict[str, Any]], roles: Roles
) -> dict[str, Floats]:
    """Values of single targets that do not follow from the curves."""
    if not group.complete:
        return {}
    users = {role: user for user, role in roles.items()}

    def row(user: str, key: Key, protocol: str = "corrected") -> dict[str, Any] | None:
        return firsts.get((user, protocol, *key))

    found = {"first-spread": group.each("first-max") - group.each("first-min")}
    for role in ("min", "max") if "centre-click" in roles else ():
        rows = [row(users[role], key, group.protocol) for key in group.keys]
        found[f"distance-{role}"] = np.array([_distance(r) for r in rows])
    if group.protocol != "corrected":
        return found
    for role, direction in (("min", "worst"), ("max", "best")):
        sign = 1 if role == "min" else -1
        true = _scores([row(f"{direction}-of-all", key) for key in group.keys])
        tried = _scores([row(f"{direction}-click-search", key) for key in group.keys])
        attack = group.each(f"first-{role}")
        # Where the attack is a search already, that is the search.
        tried = np.where(np.isnan(tried), attack, tried)
        found[f"all-{role}"] = true
        found[f"gap-{role}"] = sign * (attack - true)
        found[f"search-gap-{role}"] = sign * (tried - true)
        for kind in ("", "search-"):
            gap = found[f"{kind}gap-{role}"]
            near = np.where(np.isnan(gap), np.nan, gap <= 100 * WITHIN + 1e-9)
            found[f"{kind}found-{role}"] = near
    centres = [row("centre-click", key) for key in group.keys]
    found |= _people(group, [row("people", key) for key in group.keys], centres)
    return {name: values for name, values in found.items() if not np.isnan(values).all()}


def _distance(row: dict[str, Any] | None) -> float:
    """From the centre click to the click chosen, in percent of the object's diagonal."""
    if row is None or row["start_y"] is None or row["y"] is None:
        return float("nan")
    away = np.hypot(row["y"] - row["start_y"], row["x"] - row["start_x"])
    return float(100 * away / row["diagonal_px"])


def _scores(rows: list[dict[str, Any] | None]) -> Floats:
    return np.array([np.nan if row is None else 100 * row["iou"] for row in rows])


def _people(
    group: AttackedSessions, rows: list[dict[str, Any] | None], centres: list[dict[str, Any] | None]
) -> dict[str, Floats]:
    """How real people's first clicks fare: their range, and how much of it the attack spans."""
    names = ("people-min", "people-max", "people-spread", "people-distance", "coverage")
    found = {name: np.full(len(rows), np.nan) for name in names}
    low, high = group.each("first-min"), group.each("first-max")
    for i, (row, centre) in enumerate(zip(rows, centres, strict=True)):
        if row is None or centre is None:
            continue
        table = people_of(row["people"])
        scores = 100 * table[:, 2]
        found["people-min"][i], found["people-max"][i] = scores.min(), scores.max()
        found["people-spread"][i] = scores.max() - scores.min()
        # Tolerance for rounding in the file.
        inside = (scores >= low[i] - 1e-3) & (scores <= high[i] + 1e-3)
        found["coverage"][i] = 100 * inside.mean()
        away = np.hypot(table[:, 0] - centre["y"], table[:, 1] - centre["x"])
        found["people-distance"][i] = 100 * away.mean() / row["diagonal_px"]
    return found


def people_of(text: str) -> Floats:
    """People's first clicks: y, x, IoU, BIoU in each row."""
    try:
        table = np.array(json.loads(text), np.float64)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise BadInput(f"column 'people': {text!r:.80} cannot be read ({error})") from error
    if table.ndim != 2 or table.shape[1] < 3 or not len(table) or not np.isfinite(table).all():
        raise BadInput(f"column 'people': {text!r:.80} has no rows of y, x, IoU and BIoU")
    return table


_ROLES = {"min": "Min", "base": "Base", "max": "Max", "d": "D"}
_KINDS = {"iou": "", "biou": "BIoU "}
AREAS = tuple(f"{kind}-{role}" for kind in _KINDS for role in _ROLES)
_TESTED = ("iou-d", "iou-min", "iou-max", "iou-base")


def _mean(name: str, title: str, unit: str, digits: int = 1, better: Better = "") -> Statistic:
    tested: Literal["yes", "on request"] = "yes" if name in _TESTED else "on request"
    return Statistic(
        name, title, unit, digits, better, values=lambda g: g.each(name), interval=mean_of_known,
        of=AttackedSessions, tested=tested,
    )  # fmt: skip


def _share(name: str, title: str) -> Statistic:
    made = _mean(name, title, "% of objects", 0, "higher")
    return replace(made, percent=True, interval=share_of_known)


STATISTICS = [
    *(
        _mean(f"{kind}-{role}", before + title, "AuC, %", 2, "lower" if role == "d" else "higher")
        for kind, before in _KINDS.items()
        for role, title in _ROLES.items()
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
]
"""All statistics; a group has those of what was done on it."""
CARDS = cards_by_name(STATISTICS)
