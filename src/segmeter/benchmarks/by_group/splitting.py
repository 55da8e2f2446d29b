"""Groups of objects under a heading: from rows, from the data set, or from a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from segmeter.benchmarks.by_group.target_groups import DERIVED, groups_of_targets
from segmeter.core.benchmarks import Group, Results
from segmeter.core.errors import BadInput
from segmeter.datasets.groups import Groups, read_groups

__all__ = ["Key", "Said", "TargetGroups", "known_of_groups", "said_of_targets"]

Key = tuple[str, str, str]
"""Data set, scene and target; the target is empty where whole images are judged."""

Said = Mapping[Key, Mapping[str, str]]


class TargetGroups:
    """The group of every target of a run under one heading (`size`, `class`, ...)."""

    def __init__(self, said: Said, by: str, groups: Path | None = None) -> None:
        self.by, self._said = by, said
        self._file: Groups | None = None if groups is None else read_groups(groups)
        if self._file is not None:
            self._file.check({name for key in self._said for name in _aliases(key)})

    def of(self, keys: Sequence[Key]) -> list[str | None]:
        """The group of each target; None for one that has none."""
        if self._file is not None:
            return self._file.of([_aliases(key) for key in keys], self.by)
        return [self._said[key].get(self.by) or None for key in keys]

    def members(self) -> dict[str, set[Key]]:
        """The targets of each group, groups in the order of their names."""
        keys = list(self._said)
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
        elif not any(target for _, _, target in self._said):
            return BadInput(
                f"whole images are judged here, which have no '{self.by}'; name the group of "
                "each in a CSV of mask,group, an image's name as its mask, with --groups FILE"
            )
        else:
            names = {n for groups in self._said.values() for n, value in groups.items() if value}
            told = [*sorted(names), *(name for name in DERIVED if name not in names)]
            known = f"rows know {', '.join(told)}; --groups FILE brings your own"
        return BadInput(f"no mask has a group under '{self.by}'; {known}")


def known_of_groups(run: Results, groups: Sequence[Group], by: str) -> Said:
    """Facts about each object of the groups: from the groups themselves, or from rows."""
    own = [group for group in groups if group.breakdowns is not None]
    if own:
        return {(g.dataset, *key): known for g in own for key, known in _items(g)}
    if not any(target for group in groups for _, target in group.keys):
        return {(g.dataset, *key): {} for g in groups for key in g.keys}
    return said_of_targets(run, by)


def _items(group: Group) -> Iterable[tuple[tuple[str, str], Mapping[str, str]]]:
    return (group.breakdowns or {}).items()


def said_of_targets(run: Results, by: str) -> dict[Key, dict[str, str]]:
    """Class and groups of every target as the rows have them, and what follows from it."""
    there = run.sql("select * from rows limit 0").column_names
    if "target" not in there:
        return {}
    order = ", ".join(f'"{n}"' for n in ("model", "user", "protocol", "round") if n in there)
    label = "min(label)" if "label" in there else "null"
    groups = f"arg_min(groups, ({order}))" if "groups" in there else "null"
    table = run.sql(f"""
        select dataset, scene, target, {label} as label, {groups} as groups
        from rows group by dataset, scene, target order by dataset, scene, target
    """)
    found = {}
    for row in table.to_pylist():
        known = {"class": row["label"] or ""} | _mapping(row["groups"])
        found[row["dataset"], row["scene"], row["target"]] = known
    if by in DERIVED and not any(by in known for known in found.values()):
        derived = groups_of_targets(run, by)
        found = {key: {**known, by: derived.get(key, "")} for key, known in found.items()}
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
