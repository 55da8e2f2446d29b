"""Tables of a plan: typed access to TOML, with the first fault said in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from segmeter.core.errors import BadInput, suggestion

__all__ = ["PlanTable", "near"]


def near(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the nearest known name, or nothing.

    >>> near("clikcs", ["clicks", "rate"]), near("zebra", ["clicks"])
    ("; did you mean 'clicks'?", '')
    """
    found = suggestion(name, known)
    return f";{found}" if found else ""


class PlanTable:
    """A table of the plan; every value is asked for once, and what nobody asked for is wrong."""

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        self.table = table
        self.where = where
        self._asked: set[str] = set()

    def part(self, name: str) -> PlanTable:
        return PlanTable(self._typed(name, {}, dict, "a table"), f"[{name}]")

    def tables(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._typed(name, [], list, "a list of tables")
        if not all(isinstance(each, dict) for each in found):
            raise BadInput(f"{self.where}: '{name}' is written as [[{name}]] tables")
        return found

    def words(self, name: str, default: str, longest: int) -> str:
        text: str = self._typed(name, default, str, "a text")
        if len(text) > longest or any(ord(c) < 32 and c not in "\n\t" for c in text):
            raise BadInput(f"{self.where}: '{name}' is a text of at most {longest} letters")
        return text

    def names(self, name: str) -> tuple[str, ...]:
        found = self._typed(name, [], list, "a list of texts")
        if not all(isinstance(each, str) and 0 < len(each) < 500 for each in found):
            raise BadInput(f"{self.where}: '{name}' is a list of texts")
        if len(set(found)) != len(found):
            raise BadInput(f"{self.where}: '{name}' names something twice")
        return tuple(found)

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        chosen = self._typed(name, default, str, f"one of {', '.join(choices)}")
        if chosen not in choices:
            hint = near(str(chosen), choices)
            raise BadInput(
                f"{self.where}: '{name}' is one of {', '.join(choices)}, not '{chosen}'{hint}"
            )
        return str(chosen)

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        value = self._typed(name, default, int, "a whole number")
        if isinstance(value, bool) or not low <= value <= high:
            raise BadInput(f"{self.where}: '{name}' is from {low} to {high}, not {value}")
        return int(value)

    def number(self, name: str, default: float, low: float, high: float) -> float:
        value = self._typed(name, default, (int, float), "a number")
        if isinstance(value, bool) or not low <= value <= high:
            raise BadInput(f"{self.where}: '{name}' is from {low:g} to {high:g}, not {value}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        return bool(self._typed(name, default, bool, "true or false"))

    def done(self) -> None:
        """Refuse what nobody asked for: a misspelt rule would silently not hold."""
        for name in self.table:
            if name not in self._asked:
                raise BadInput(
                    f"{self.where}: there is no '{name}';{suggestion(name, self._asked)} "
                    f"there are {', '.join(sorted(self._asked))}"
                )

    def _typed(self, name: str, default: Any, kind: Any, what: str) -> Any:
        self._asked.add(name)
        value = self.table.get(name, default)
        if value is None:
            raise BadInput(f"{self.where}: '{name}' is missing; it is {what}")
        if not isinstance(value, kind):
            raise BadInput(f"{self.where}: '{name}' is {what}, not {value!r}")
        return value
