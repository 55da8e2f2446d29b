"""Parameters: how large the networks of a model are, counted once they are loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["parameter_count"]

_DEPTH = 4


def parameter_count(subject: Any) -> int:
    """Parameters of every network that a model holds; 0 for those without, or not yet loaded.

    >>> parameter_count(object())
    0
    """
    torch = sys.modules.get("torch")  # a model that has networks has imported it
    if torch is None:
        return 0
    found = {id(p): p.numel() for m in _modules(subject, torch.nn.Module) for p in m.parameters()}
    return int(sum(found.values()))


def _modules(root: Any, kind: type) -> Iterator[Any]:
    """The outermost networks that are reached through attributes, lists and mappings."""
    waiting, seen = [(root, 0)], set()
    while waiting:
        thing, depth = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, kind):
            yield thing
        elif depth < _DEPTH:
            waiting += [(inner, depth + 1) for inner in _inside(thing)]


def _inside(thing: Any) -> list[Any]:
    if isinstance(thing, list | tuple):
        return list(thing)[:1000]
    if isinstance(thing, Mapping):
        return list(thing.values())[:1000]
    if isinstance(thing, type) or callable(thing):
        return list(getattr(thing, "__dict__", {}).values()) if not isinstance(thing, type) else []
    slots = [n for c in type(thing).__mro__ for n in getattr(c, "__slots__", ())]
    held = [getattr(thing, n, None) for n in slots if isinstance(n, str)]
    return held + list(getattr(thing, "__dict__", {}).values())
