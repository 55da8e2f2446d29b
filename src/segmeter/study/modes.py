"""Display modes: what a person sees before answering, as a list of screens.

The five modes are those of RClicks' ablation (Antonov et al. 2024, appendix) and the overlay
is that of TETRIS. A plan may write its own: a mode is data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from segmeter.core.errors import BadInput
from segmeter.study.plan_tables import near

__all__ = ["BUILT_IN", "SHOWS", "Mode", "Screen", "read_mode"]

SHOWS = ("image", "text", "cutout", "shifted", "silhouette", "highlight", "overlay")
_LONGEST_SECONDS = 120.0
_MOST_SCREENS = 12


@dataclass(frozen=True, slots=True)
class Screen:
    """One thing shown for so many seconds; the last one stays until the answer.

    `seconds` None: until the person has answered. Clicks on a blocked screen are only counted.
    """

    show: str
    seconds: float | None
    blocked: bool = True


@dataclass(frozen=True, slots=True)
class Mode:
    """A display mode: its name, and screens of which the last one asks."""

    name: str
    screens: tuple[Screen, ...]

    @property
    def told(self) -> bool:
        """Whether the target is described in words, so that targets need a label."""
        return any(screen.show == "text" for screen in self.screens)


def _mode(name: str, *middle: tuple[str, float]) -> Mode:
    """Image 1.5 s, the middle, image 1.5 s without clicking, then the click."""
    timed = [("image", 1.5), *middle, ("image", 1.5)]
    screens = [Screen(show, seconds) for show, seconds in timed]
    return Mode(name, (*screens, Screen("image", None, blocked=False)))


BUILT_IN: Mapping[str, Mode] = MappingProxyType(
    {
        mode.name: mode
        for mode in (
            _mode("Text_Description", ("text", 2.5)),
            _mode("Object_CutOut", ("cutout", 2.0)),
            # How long the moved cut-out stays is not given; half a second lets the eye follow.
            _mode("Shifted_CutOut", ("cutout", 2.0), ("shifted", 0.5)),
            _mode("Silhouette_Mask", ("silhouette", 2.0)),
            _mode("Highlighted_Instance", ("highlight", 2.0)),
            Mode(
                "Overlay",
                (Screen("image", 1.5), Screen("overlay", 2.0), Screen("image", None, False)),
            ),
        )
    }
)


def read_mode(table: Mapping[str, Any]) -> Mode:
    """A mode of the plan's own: `name` and `screens`, each with `show` and `seconds`."""
    name, screens = table.get("name"), table.get("screens")
    if not isinstance(name, str) or not name.replace("_", "a").replace("-", "a").isalnum():
        raise BadInput("[[mode]]: 'name' is a word of letters, digits, '_' and '-'")
    if not isinstance(screens, list) or not 0 < len(screens) <= _MOST_SCREENS:
        raise BadInput(f"[[mode]] {name}: 'screens' is a list of 1 to {_MOST_SCREENS} screens")
    read = tuple(_screen(name, screen, k) for k, screen in enumerate(screens, 1))
    _check_last(name, read)
    return Mode(name, read)


def _screen(mode: str, table: Any, number: int) -> Screen:
    where = f"[[mode]] {mode}, screen {number}"
    if not isinstance(table, Mapping):
        raise BadInput(f'{where}: a screen is {{ show = "image", seconds = 1.5 }}')
    for key in table:
        if key not in ("show", "seconds", "blocked"):
            raise BadInput(f"{where}: there is no '{key}'; a screen has show, seconds, blocked")
    show, seconds = table.get("show"), table.get("seconds")
    if show not in SHOWS:
        hint = near(str(show), SHOWS)
        raise BadInput(f"{where}: 'show' is one of {', '.join(SHOWS)}, not '{show}'{hint}")
    if seconds is not None and not _is_duration(seconds):
        raise BadInput(f"{where}: 'seconds' is from 0.05 to {_LONGEST_SECONDS:g}, not {seconds!r}")
    blocked = table.get("blocked", seconds is not None)
    if not isinstance(blocked, bool):
        raise BadInput(f"{where}: 'blocked' is true or false, not {blocked!r}")
    return Screen(show, None if seconds is None else float(seconds), blocked)


def _is_duration(seconds: object) -> bool:
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return number and 0.05 <= float(seconds) <= _LONGEST_SECONDS  # type: ignore[arg-type]  # a number, as was asked


def _check_last(name: str, screens: Sequence[Screen]) -> None:
    *before, last = screens
    if last.seconds is not None or last.blocked:
        raise BadInput(f"[[mode]] {name}: the last screen waits for the answer; leave out seconds")
    if any(screen.seconds is None for screen in before):
        raise BadInput(f"[[mode]] {name}: only the last screen may be without seconds")
