"""Names of data sets as readers know them: a folder of one's own by its last part."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import PurePath
from typing import Any

from segmeter.core import sections as blocks
from segmeter.core.catalogue import Spec
from segmeter.core.sections import Section

__all__ = ["display_names", "renamed"]


def display_names(specs: Sequence[Spec]) -> dict[str, str]:
    """What each data set is called on a page, by its full spec.

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


def renamed(sections: Sequence[Section], specs: Sequence[Spec]) -> list[Section]:
    """The sections with every folder called by its display name, wherever it is named."""
    shown = display_names(specs)
    names = {str(s): shown[str(s)] for s in specs if _parts(s) and shown[str(s)] != str(s)}
    if not names:
        return list(sections)
    longest_first = sorted(names, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return [_walked(section, lambda text: pattern.sub(lambda m: names[m[0]], text))
            for section in sections]  # fmt: skip


def _parts(spec: Spec) -> tuple[str, ...]:
    """The parts of a folder's path that name something; none for other data sets."""
    if spec.name != "folder":
        return ()
    path = PurePath(str(spec.options.get("path", "")))
    return tuple(p for p in path.parts if p not in ("..", path.anchor)) or ("folder",)


def _walked(thing: Any, said: Callable[[str], str]) -> Any:
    """A block with all its texts changed; numbers, masks and pixels stay as they are."""
    if isinstance(thing, str):
        return said(thing)
    if isinstance(thing, list | tuple):
        return type(thing)(_walked(part, said) for part in thing)
    if isinstance(thing, Mapping):
        return {_walked(key, said): _walked(value, said) for key, value in thing.items()}
    if is_dataclass(thing) and type(thing).__module__ == blocks.__name__:
        changed = {f.name: _walked(getattr(thing, f.name), said) for f in fields(thing)}
        return replace(thing, **changed)  # type: ignore[type-var]  # an instance, as it has fields
    return thing
