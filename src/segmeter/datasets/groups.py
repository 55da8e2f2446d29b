"""Groups files: the group of each mask, and how to write such files.

A groups file is CSV. Its first column is `mask`, a target's name as runs have it
(`scene/target`, or `dataset/scene/target`); every further column is an attribute, such as
`group` or `age`, and an empty cell means that the mask belongs to no group of it.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from segmeter.core.errors import BadInput, suggestion
from segmeter.datasets.image_files import named_errors


@dataclass(frozen=True, slots=True)
class Groups:
    path: Path
    attributes: tuple[str, ...]
    masks: Mapping[str, Mapping[str, str]]

    def check(self, names: Collection[str]) -> None:
        """Refuse a file that names a mask which is none of these."""
        known = set(names)
        for number, mask in enumerate(self.masks, start=2):
            if mask not in known:
                hint = suggestion(mask, list(known)[:2000])
                raise BadInput(
                    f"groups file '{self.path}', line {number}: no mask '{mask}' here;{hint}"
                    f" masks are named scene/target, such as '{min(known, default='p1/1')}'"
                )

    def of(self, names: Iterable[Sequence[str]], attribute: str) -> list[str | None]:
        """The group of each mask; every mask comes with all the names it may go by."""
        if attribute not in self.attributes:
            raise BadInput(
                f"groups file '{self.path}' has no column '{attribute}';"
                f" it has {', '.join(self.attributes)}"
            )
        held = ([self.masks[n] for n in aliases if n in self.masks] for aliases in names)
        return [(lines[0].get(attribute) or None) if lines else None for lines in held]


def read_groups(path: Path) -> Groups:
    rows = read_table(path, "groups file", "mask")
    attributes = tuple(name for name in rows[0] if name != "mask") if rows else ()
    if not attributes:
        raise BadInput(f"groups file '{path}' has no groups; it needs lines of mask,group")
    masks: dict[str, Mapping[str, str]] = {}
    for number, row in enumerate(rows, start=2):
        mask = row["mask"]
        if mask in masks:
            raise BadInput(f"groups file '{path}', line {number}: mask '{mask}' is there twice")
        masks[mask] = {name: row[name] for name in attributes}
    return Groups(path, attributes, masks)


def read_table(path: Path, what: str, *columns: str) -> list[dict[str, str]]:
    """The lines of a CSV file with a header, stripped; `columns` must be there."""
    with (
        named_errors(path, f"is not a {what} in CSV and UTF-8"),
        path.open(encoding="utf-8-sig", newline="") as file,
    ):
        lines = iter(list(csv.reader(file)))
    header = [name.strip() for name in next(lines, [])]
    lost = [name for name in columns if name not in header]
    if lost or len(set(header)) != len(header):
        missing = f"no column '{lost[0]}'" if lost else "two columns of one name"
        raise BadInput(f"{what} '{path}' has {missing}; its first line names the columns")
    rows = []
    for number, line in enumerate(lines, start=2):
        if not any(cell.strip() for cell in line):
            continue
        if len(line) != len(header):
            raise BadInput(
                f"{what} '{path}', line {number} has {len(line)} cells, its header {len(header)}"
            )
        rows.append(dict(zip(header, (cell.strip() for cell in line), strict=True)))
    return rows


def write_groups(path: Path, groups: Mapping[str, Mapping[str, str]]) -> None:
    """Write a groups file that `read_groups` reads back."""
    attributes = list(dict.fromkeys(name for line in groups.values() for name in line))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["mask", *attributes])
        writer.writerows([mask, *(line.get(a, "") for a in attributes)]
                         for mask, line in groups.items())  # fmt: skip
