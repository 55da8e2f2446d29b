"""Settings of a benchmark's own: what `--option name=value` may say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from segmeter.core.errors import BadInput, suggestion

__all__ = ["offered", "settings_of"]

Settings = TypeVar("Settings")

_KINDS = {int: "a whole number", float: "a number", str: "text"}


def settings_of(
    kind: type[Settings],
    options: Mapping[str, Any],
    benchmark: str,
    not_offered: Sequence[str] = (),
) -> Settings:
    """The dataclass `kind` filled from options; a wrong name or value is refused in a sentence.

    Every field has a default, and a value is of its default's type. What is `not_offered` is
    written by the benchmark itself and read back from a plan.
    """
    defaults = offered(kind)
    values = {}
    for name, value in options.items():
        if name not in defaults:
            known = offered(kind, not_offered)
            hint, names = suggestion(name, known), ", ".join(known)
            raise BadInput(f"benchmark '{benchmark}' has no setting '{name}';{hint} it has {names}")
        values[name] = _typed(name, value, type(defaults[name]))
    return kind(**values)


def offered(kind: type[Any], not_offered: Sequence[str] = ()) -> dict[str, Any]:
    """The settings that a person may give, with their defaults."""
    return {f.name: f.default for f in fields(kind) if f.name not in not_offered}


def _typed(name: str, value: Any, kind: type) -> Any:
    if kind is str and not isinstance(value, str):
        return str(value)  # a file may be called 7
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise BadInput(f"setting '{name}' is {_KINDS[kind]}, not '{value}'")
    return value
