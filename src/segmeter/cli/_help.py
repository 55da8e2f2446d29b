"""Help texts: commands grouped by purpose, options without Python's types."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

_PANELS = {
    "Start here": ("demo", "list", "doctor", "fetch", "check"),
    "Evaluate and compare": ("run", "report", "compare", "score", "browse", "leaderboard"),
    "For papers and projects": ("table", "figure", "cite", "export", "runs", "merge"),
    "People": ("study", "clicks", "fairness"),
    "Models, measures and data": ("models", "train", "measures", "card"),
}
_ORDER = [name for names in _PANELS.values() for name in names]


class Command(TyperCommand):
    """A command whose help shows no Python types."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plainly(super().get_params(ctx))


class Group(TyperGroup):
    """Several commands under one name, in the order of their file."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plainly(super().get_params(ctx))


class Application(Group):
    """All commands, in the order of the panels; those of no panel come last."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return [*(n for n in _ORDER if n in names), *(n for n in names if n not in _ORDER)]


def panel_of(command: str) -> str:
    """The panel of the help that lists a command.

    >>> panel_of("run"), panel_of("meta")
    ('Evaluate and compare', 'More tools')
    """
    found = (panel for panel, names in _PANELS.items() if command in names)
    return next(found, "More tools")


def _plainly(parameters: list[Any]) -> list[Any]:
    """Show no type for flags, that of one item for lists, and `<n>` for numbers with limits."""
    for parameter in parameters:
        if parameter.param_type_name != "option" or parameter.metavar is not None:
            continue
        if parameter.is_flag:
            parameter.metavar = ""
        elif parameter.multiple:
            parameter.metavar = "<str>"
        elif _has_range(parameter):
            parameter.metavar = "<n>"
    return parameters


def _has_range(parameter: Any) -> bool:
    """Whether a number has limits, which typer before 0.29 keeps on the type of the option."""
    held = getattr(parameter, "type", parameter)
    return any(getattr(held, end, None) is not None for end in ("min", "max"))
