"""Segmenting with a model in the loop: a person's clicks step sessions on the server."""

from __future__ import annotations

from typing import Any, Protocol

from segmeter.core.masks import Mask
from segmeter.core.prompts import Prompt
from segmeter.study.messages import StepAsk
from segmeter.study.running import Row, RunningStudy

__all__ = ["Segmenting", "Steps"]


class Steps(Protocol):
    """One session that can be stepped."""

    def step(self, prompt: Prompt) -> tuple[Mask, dict[str, float]]: ...


class Segmenting(Protocol):
    """Answers people's clicks with masks."""

    def step(
        self, study: RunningStudy, person: Row, trial: str, ask: StepAsk
    ) -> dict[str, Any]: ...
