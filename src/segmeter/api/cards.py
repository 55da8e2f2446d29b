"""Cards: what a person should know of one model, data set, user or measure."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from typing import Any

from segmeter.core.catalogue import Entry, Registry, required
from segmeter.core.errors import SegmeterError
from segmeter.core.measures import Measure
from segmeter.core.references import cited
from segmeter.runtime.remote_files import Roots


def facts_of(registry: Registry[Any], name: str, places: Roots) -> dict[str, Any]:
    """Name, summary, options, and whatever its card says; what is not here says why.

    An option without a default has to be given; a thing that needs one is not made.
    """
    entry = registry.entry(name)
    facts: dict[str, Any] = {"name": name, "summary": entry.summary, "options": _options(entry)}
    if set(required(entry)) - places.options().keys():
        return facts
    try:
        thing = registry.make(name, **places.options())
    except SegmeterError as error:
        facts["not here"] = str(error)
        thing = _described(registry, name, places)
    return facts | {key: value for key, value in _card(thing).items() if key not in facts}


def _described(registry: Registry[Any], name: str, places: Roots) -> Any:
    """A thing made without its weights, for its card alone; None where that is not enough."""
    from segmeter.models.weights import describing

    try:
        with describing():
            return registry.make(name, **places.options())
    except SegmeterError:
        return None


def _options(entry: Entry[Any]) -> dict[str, dict[str, Any]]:
    """Options that may follow the name; of a benchmark, those of `segmeter run BENCHMARK`."""
    declared = getattr(entry.make, "options", None)
    if isinstance(declared, tuple):
        return {o.name: {"default": o.default if o.default != "" else None}
                for o in declared if o.help}  # fmt: skip
    return {
        name: {} if p.default is p.empty else {"default": p.default}
        for name, p in inspect.signature(entry.make).parameters.items()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and name != "name"
    }


def _card(thing: Any) -> dict[str, Any]:
    """The filled fields of a card; a measure is its own."""
    if isinstance(thing, Measure):
        names = ("range", "better", "both_empty", "one_empty", "cite")
        fields = {name: getattr(thing, name) for name in names}
    else:
        card = getattr(thing, "card", None)
        fields = {} if card is None else asdict(card)
    return {key: _plain(key, value) for key, value in fields.items() if value not in ("", None)}


def _plain(key: str, value: Any) -> Any:
    if key in ("citation", "cite"):
        return cited(value)
    return sorted(value) if isinstance(value, frozenset | set) else value
