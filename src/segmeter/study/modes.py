"""Display modes: the screens a participant sees before answering.

The five modes of the RClicks ablation (Antonov et al. 2024, appendix) and the overlay of TETRIS
are built in. A plan may define others as `[[mode]]` tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Show = Literal["image", "text", "cutout", "shifted", "silhouette", "highlight", "overlay"]
_Seconds = Annotated[float, Field(strict=True, ge=0.05, le=120, allow_inf_nan=False)]


class Screen(BaseModel):
    """One screen, shown for `seconds`; None: until the participant has answered."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    show: Show
    seconds: _Seconds | None = None


class Mode(BaseModel):
    """A display mode: its name and its screens; the last screen waits for the answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,60}$")]
    screens: Annotated[tuple[Screen, ...], Field(min_length=1, max_length=12)]

    @model_validator(mode="after")
    def _only_the_last_waits(self) -> Self:
        *before, last = self.screens
        if last.seconds is not None:
            raise ValueError("the last screen waits for the answer; leave out its seconds")
        if any(screen.seconds is None for screen in before):
            raise ValueError("only the last screen may have no seconds")
        return self

    @property
    def has_text(self) -> bool:
        """Whether the target is described in words, so that every target needs a description."""
        return any(screen.show == "text" for screen in self.screens)

    @property
    def seconds(self) -> float:
        """How long all timed screens take together."""
        return sum(screen.seconds or 0.0 for screen in self.screens)


def _mode(name: str, *middle: tuple[Show, float]) -> Mode:
    """Image for 1.5 s, the middle, image for 1.5 s without clicking, then the click."""
    timed: list[tuple[Show, float]] = [("image", 1.5), *middle, ("image", 1.5)]
    screens = [Screen(show=show, seconds=seconds) for show, seconds in timed]
    return Mode(name=name, screens=(*screens, Screen(show="image")))


BUILT_IN: Mapping[str, Mode] = {
    mode.name: mode
    for mode in (
        _mode("Text_Description", ("text", 2.5)),
        _mode("Object_CutOut", ("cutout", 2.0)),
        # The paper does not say how long the shifted cut-out is shown; we use half a second.
        _mode("Shifted_CutOut", ("cutout", 2.0), ("shifted", 0.5)),
        _mode("Silhouette_Mask", ("silhouette", 2.0)),
        _mode("Highlighted_Instance", ("highlight", 2.0)),
        Mode(
            name="Overlay",
            screens=(
                Screen(show="image", seconds=1.5),
                Screen(show="overlay", seconds=2.0),
                Screen(show="image"),
            ),
        ),
    )
}
