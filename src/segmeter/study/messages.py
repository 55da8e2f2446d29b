"""Messages: what a browser may send, field by field; anything else is refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Nonce = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$")]
Milliseconds = Annotated[float, Field(ge=0, le=86_400_000, allow_inf_nan=False)]
Side = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
Pointer = Literal["mouse", "touch", "pen", "keyboard"]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class DeviceChoice(_Message):
    """The participant's device, confirmed by them."""

    device: Literal["pc", "mobile"]


class ScreenTime(_Message):
    """Planned and measured duration of a screen, by the browser's clock."""

    planned_ms: Milliseconds
    true_ms: Milliseconds


class ClickAnswer(_Message):
    """One click, in pixels of the shown image, and how it was made."""

    nonce: Nonce
    x: Annotated[float, Field(ge=-10_000, le=110_000, allow_inf_nan=False)]
    y: Annotated[float, Field(ge=-10_000, le=110_000, allow_inf_nan=False)]
    natural_width: Annotated[int, Field(ge=1, le=100_000)]
    natural_height: Annotated[int, Field(ge=1, le=100_000)]
    shown_width: Side
    shown_height: Side
    pixel_ratio: Annotated[float, Field(gt=0, le=32, allow_inf_nan=False)]
    pointer: Pointer
    latency_ms: Milliseconds
    screens: Annotated[list[ScreenTime], Field(max_length=12)]
    focus_lost: bool
    blocked_clicks: Annotated[int, Field(ge=0, le=10_000)]


class RatingAnswer(_Message):
    """One score of one mask."""

    nonce: Nonce
    score: Annotated[int, Field(ge=1, le=10)]
    seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
    pointer: Pointer
    focus_lost: bool


class Step(_Message):
    """One click for the model in the loop, or taking back the last one (`undo`)."""

    number: Annotated[int, Field(ge=1, le=100)]
    undo: bool = False
    x: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)] = 0.0
    y: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)] = 0.0
    slice: Annotated[int, Field(ge=0, le=100_000)] = 0
    positive: bool = True
    user_ms: Milliseconds
    pointer: Pointer
    zoom: Annotated[float, Field(ge=0.1, le=64, allow_inf_nan=False)] = 1.0


class FinalAnswer(_Message):
    """The participant accepts the mask, or gives up."""

    nonce: Nonce
    accepted: bool
    review_ms: Milliseconds
    screens: Annotated[list[ScreenTime], Field(max_length=12)]
    focus_lost: bool


Answer = ClickAnswer | RatingAnswer | FinalAnswer
ANSWERS: dict[str, type[Answer]] = {
    "clicks": ClickAnswer,
    "clicks-round2": ClickAnswer,
    "rate": RatingAnswer,
    "interact": FinalAnswer,
}
