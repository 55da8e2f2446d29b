"""Messages: what a browser may say, field by field; anything else is refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["ClickAnswer", "ContentAnswer", "DeviceChoice", "RatingAnswer", "ScreenTime", "StepAsk"]

Nonce = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$")]
Milliseconds = Annotated[float, Field(ge=0, le=86_400_000, allow_inf_nan=False)]
Side = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class DeviceChoice(_Message):
    """What the person works with, confirmed by them."""

    device: Literal["pc", "mobile"]


class ScreenTime(_Message):
    """How long a screen should have stood, and how long it did."""

    planned_ms: Milliseconds
    true_ms: Milliseconds


class ClickAnswer(_Message):
    """One click, in natural pixels of the shown image, and how it came about."""

    nonce: Nonce
    x: Annotated[float, Field(ge=-10_000, le=110_000, allow_inf_nan=False)]
    y: Annotated[float, Field(ge=-10_000, le=110_000, allow_inf_nan=False)]
    natural_width: Annotated[int, Field(ge=1, le=100_000)]
    natural_height: Annotated[int, Field(ge=1, le=100_000)]
    shown_width: Side
    shown_height: Side
    pixel_ratio: Annotated[float, Field(gt=0, le=32, allow_inf_nan=False)]
    pointer: Literal["mouse", "touch", "pen"]
    latency_ms: Milliseconds
    screens: Annotated[list[ScreenTime], Field(max_length=12)]
    focus_lost: bool
    blocked_clicks: Annotated[int, Field(ge=0, le=10_000)]


class RatingAnswer(_Message):
    """One score of one mask."""

    nonce: Nonce
    score: Annotated[int, Field(ge=1, le=10)]
    seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]


class StepAsk(_Message):
    """One click at a model in the loop."""

    number: Annotated[int, Field(ge=1, le=100)]
    x: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)]
    y: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)]
    positive: bool
    user_ms: Milliseconds
    pointer: Literal["mouse", "touch", "pen"]


class ContentAnswer(_Message):
    """The person is content with the mask, or gives up."""

    nonce: Nonce
    content: bool
    review_ms: Milliseconds
    screens: Annotated[list[ScreenTime], Field(max_length=12)]
    focus_lost: bool
