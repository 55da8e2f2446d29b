"""Parameters: how large the networks of a model are, counted once they are loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["parameter_count"]

_DEPTH = 4  # attributes of attributes that are looked into
_MOST_ITEMS = 1000


def parameter_count(segmenter: Any) -> int:
    """Parameters of every network that a model holds; 0 for those without, or not yet loaded.

    >>> parameter_count(object())
    0
    """
    torch = sys.modules.get("torch")  # a model that has networks has imported it
    if torch is None:
        return 0
    found = {id(p): p.numel() for m in _modules(segmenter, torch.nn.Module) for p in m.parameters()}
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
    """The items of a list or mapping, or the attributes of any other object."""
    if isinstance(thing, type):
        return []
    if isinstance(thing, list | tuple):
        return list(thing)[:_MOST_ITEMS]
    if isinstance(thing, Mapping):
        return list(thing.values())[:_MOST_ITEMS]
    attributes = list(getattr(thing, "__dict__", {}).values())
    if callable(thing):
        return attributes
    slots = [n for c in type(thing).__mro__ for n in getattr(c, "__slots__", ())]
    return [getattr(thing, n, None) for n in slots if isinstance(n, str)] + attributes
