"""Names of data sets: the full name used in a run, and the title shown to readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import PurePath
from typing import Any

from segmeter.core import sections
from segmeter.core.catalogue import Spec

__all__ = ["display_names", "with_titles"]


def display_names(specs: Sequence[Spec]) -> dict[str, str]:
    """Display name of each data set, by its full spec.

    A folder goes by the last part of its path, by more parts where two would share a name, and
    by its full spec where even that does not part them. All others keep their names.

    >>> display_names([Spec("folder", {"path": "data/mine"}), Spec("grabcut")])
    {'folder?path=data/mine': 'mine', 'grabcut': 'grabcut'}
    """
    names = {str(spec): spec.name for spec in specs if _parts(spec) == ()}
    for spec in specs:
        parts = _parts(spec)
        tails = ["/".join(parts[-many:]) for many in range(1, len(parts) + 1)]
        if parts:
            names[str(spec)] = next((t for t in tails if t not in names.values()), str(spec))
    return {str(spec): names[str(spec)] for spec in specs}


def with_titles(part: Any, titles: Mapping[str, str]) -> Any:
    """A part of a report with data sets under their titles in all of its texts.

    >>> with_titles(sections.Note("On folder?path=x: 3"), {"folder?path=x": "x"}).text
    'On x: 3'
    """
    if isinstance(part, str):
        for name in sorted(titles, key=len, reverse=True):
            part = part.replace(name, titles[name])
        return part
    if isinstance(part, list | tuple):
        return type(part)(with_titles(one, titles) for one in part)
    if type(part).__module__ != sections.__name__:
        return part
    return replace(
        part, **{f.name: with_titles(getattr(part, f.name), titles) for f in fields(part)}
    )


def _parts(spec: Spec) -> tuple[str, ...]:
    """The parts of a folder's path that name something; none for other data sets."""
    if spec.name != "folder":
        return ()
    path = PurePath(str(spec.options.get("path", "")))
    return tuple(p for p in path.parts if p not in ("..", path.anchor)) or ("folder",)
