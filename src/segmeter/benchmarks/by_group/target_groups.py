"""Groups of objects under a heading: from rows, the dataset, a file, or an object's shape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.core.benchmarks import Group, Results, Row
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scores_by_step import columns_in
from segmeter.datasets.groups import Groups, read_groups

_BANDS = {
    "size": {
        32**2: "small (below 32²)", 96**2: "medium (32² to 96²)", np.inf: "large (96² and more)"
    },
    "shape": {
        0.25: "thin (axes below 1:4)", 0.5: "long (1:4 to 1:2)", np.inf: "compact (1:2 and more)"
    },
    "boundary": {
        1.25: "smooth (below 1.25)", 2.0: "uneven (1.25 to 2)", np.inf: "ragged (2 and more)"
    },
}  # fmt: skip
"""Groups of attributes that are derived rather than stored in rows, by their upper bounds."""


def band(by: str, value: float) -> str:
    """The group of a value of an attribute.

    >>> band("size", 100), band("boundary", 100 / (4 * 100**0.5))
    ('small (below 32²)', 'ragged (2 and more)')
    """
    return next(name for bound, name in _BANDS[by].items() if value < bound)


def shape_group(mask: Mask) -> str:
    """How long a target is for its width.

    By the shorter over the longer axis of the ellipse with the target's second moments.

    >>> shape_group(Mask.box((20, 20), (0, 0), (2, 20)))
    'thin (axes below 1:4)'
    >>> shape_group(Mask.box((9, 9), (1, 1), (4, 7)))
    'compact (1:2 and more)'
    """
    places = np.argwhere(mask.bits).astype(float)
    spread = np.cov(places.T, bias=True) + np.eye(places.shape[1]) / 12  # a pixel has an extent
    axes = np.linalg.eigvalsh(np.atleast_2d(spread))
    return band("shape", float(np.sqrt(axes[0] / axes[-1])))


Key = tuple[str, str, str]
"""Dataset, scene and target; the target is empty where whole images are judged."""

GroupsOfTargets = Mapping[Key, Mapping[str, str]]


class TargetGroups:
    """The group of every target of a run under one heading (`size`, `class`, ...)."""

    def __init__(self, known_groups: GroupsOfTargets, by: str, groups: Path | None = None) -> None:
        self.by, self._groups_of = by, known_groups
        self._file: Groups | None = None if groups is None else read_groups(groups)
        if self._file is not None:
            self._file.check({name for key in self._groups_of for name in _aliases(key)})

    def of(self, keys: Sequence[Key]) -> list[str | None]:
        """The group of each target; None for one that has none."""
        if self._file is not None:
            return self._file.of([_aliases(key) for key in keys], self.by)
        return [self._groups_of[key].get(self.by) or None for key in keys]

    def members(self) -> dict[str, set[Key]]:
        """The targets of each group, groups in the order of their names."""
        keys = list(self._groups_of)
        found: dict[str, set[Key]] = {}
        for key, group in zip(keys, self.of(keys), strict=True):
            if group is not None:
                found.setdefault(group, set()).add(key)
        if not found:
            raise self.unknown()
        return dict(sorted(found.items()))

    def unknown(self) -> BadInput:
        """The sentence for a heading that no target has."""
        if self._file is not None:
            known = f"'{self._file.path}' has {', '.join(self._file.attributes)}"
        elif not any(target for _, _, target in self._groups_of):
            return BadInput(
                f"whole images are judged here, which have no '{self.by}'; name the group of "
                "each in a CSV of mask,group, an image's name as its mask, with --groups FILE"
            )
        else:
            names = {
                n for groups in self._groups_of.values() for n, value in groups.items() if value
            }
            offered = [*sorted(names), *(name for name in _BANDS if name not in names)]
            known = f"rows know {', '.join(offered)}; --groups FILE brings your own"
        return BadInput(f"no mask has a group under '{self.by}'; {known}")


def known_of_groups(run: Results, groups: Sequence[Group], by: str) -> GroupsOfTargets:
    """Facts about each object of the groups: from the groups themselves, or from rows."""
    own = [group for group in groups if group.breakdowns is not None]
    if own:
        return {(g.dataset, *k): known for g in own for k, known in (g.breakdowns or {}).items()}
    if not any(target for group in groups for _, target in group.keys):
        return {(g.dataset, *key): {} for g in groups for key in g.keys}
    return said_of_targets(run, by)


def said_of_targets(run: Results, by: str) -> dict[Key, dict[str, str]]:
    """Class and groups of every target as the rows have them, and what follows from it."""
    there = columns_in(run, "rows")
    if "target" not in there:
        return {}
    order = ", ".join(f'"{n}"' for n in ("model", "user", "protocol", "round") if n in there)
    asked = {"groups": f"arg_min(groups, ({order}))"}
    asked |= {name: f"min({name})" for name in ("label", "area", "outline_px")}
    chosen = [f"{how if name in there else 'null'} as {name}" for name, how in asked.items()]
    rows = run.sql(f"""
        select dataset, scene, target, {", ".join(chosen)}
        from rows group by dataset, scene, target order by dataset, scene, target
    """).to_pylist()
    found = {}
    for row in rows:
        known = {"class": row["label"] or ""} | _mapping(row["groups"])
        if by == "organ":  # what radiologists call a class
            known.setdefault("organ", known["class"])
        found[row["dataset"], row["scene"], row["target"]] = known
    if by in _BANDS and not any(by in known for known in found.values()):
        derived = _derived(run, rows, by)
        found = {key: {**known, by: derived.get(key, "")} for key, known in found.items()}
    return found


def _derived(run: Results, rows: Sequence[Row], by: str) -> dict[Key, str]:
    """The group of each target by `size`, `shape` or `boundary`, where it is known.

    Sizes are COCO's, in pixels. A boundary is its outline over that of a square of the same
    area. Shapes are read off the targets themselves, so the data has to be available.
    """
    if by == "shape":
        return {
            (dataset, scene, target.id): shape_group(target.mask)
            for dataset, scene in dict.fromkeys((row["dataset"], row["scene"]) for row in rows)
            for target in run.scene(dataset, scene).targets
            if target.mask
        }
    found = {}
    for row in rows:
        key = (row["dataset"], row["scene"], row["target"])
        if by == "size" and row["area"] is not None:
            found[key] = band(by, row["area"])
        elif by == "boundary" and row["outline_px"] and row["area"]:
            found[key] = band(by, row["outline_px"] / (4 * row["area"] ** 0.5))
    return found


def _mapping(stored: Any) -> dict[str, str]:
    """Groups as a map column or as JSON has them."""
    if not stored:
        return {}
    try:
        pairs = json.loads(stored) if isinstance(stored, str) else dict(stored)
        return {str(key): str(value) for key, value in pairs.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"column 'groups': {stored!r:.80} names no groups ({error})") from error


def _aliases(key: Key) -> tuple[str, str]:
    """Names of a mask in a groups file; a whole image has its own name."""
    dataset, *place = key
    name = "/".join(filter(None, place))
    return name, f"{dataset}/{name}"
