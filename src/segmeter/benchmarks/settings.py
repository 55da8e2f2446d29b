"""Settings of a benchmark's own: what `--option name=value` may say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from segmeter.core.errors import BadInput, suggestion

__all__ = ["settings_of"]

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
    defaults: dict[str, Any] = {field.name: field.default for field in fields(kind)}  # type: ignore[arg-type]
    offered = [name for name in defaults if name not in not_offered]
    values = {}
    for name, value in options.items():
        if name not in defaults:
            hint, names = suggestion(name, offered), ", ".join(offered)
            raise BadInput(f"benchmark '{benchmark}' has no setting '{name}';{hint} it has {names}")
        values[name] = _typed(name, value, type(defaults[name]))
    return kind(**values)


def _typed(name: str, value: Any, kind: type) -> Any:
    if kind is str and not isinstance(value, str):
        return str(value)  # a file may be called 7
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise BadInput(f"setting '{name}' is {_KINDS[kind]}, not '{value}'")
    return value
