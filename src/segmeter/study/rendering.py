"""Rendering: page templates filled with a plan's words; everything shown is escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from segmeter.study.modes import Mode, Screen
from segmeter.study.plan import Plan
from segmeter.study.wording import read_words

__all__ = ["Pages"]

_FOR_SCRIPTS = (
    "look",
    "go_on",
    "try_again",
    "round_done",
    "round_done_text",
    "all_done",
    "all_done_text",
    "paused",
    "paused_text",
    "over",
    "over_text",
    "stale",
    "stale_text",
    "fault",
    "fault_text",
    "progress",
    "click_now_first",
    "click_now_fn",
    "click_now_fp",
    "training_passed",
    "training_failed",
    "interact_wait",
    "interact_correct",
)


class Pages:
    """Renders a plan's pages in the language that a person reads."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.words = read_words(plan)
        self._templates = Environment(
            loader=PackageLoader("segmeter.study", "pages"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def language(self, request: Request, chosen: str | None = None) -> str:
        """The language asked for now, or chosen before, or the browser's, or the plan's first."""
        asked = [request.query_params.get("language", ""), chosen or ""]
        accepted = request.headers.get("accept-language", "")[:200].split(",")
        asked += [part.split(";")[0].strip() for part in accepted]
        for name in asked:
            for known in (name, name.split("-")[0]):
                if known in self.words:
                    return known
        return self.plan.languages[0]

    def show(
        self, name: str, request: Request, language: str, status: int = 200, **more: Any
    ) -> HTMLResponse:
        """A page as a response."""
        words = self.words[language]
        filled = self._templates.get_template(name).render(
            plan=self.plan,
            language=language,
            languages={code: texts["language"] for code, texts in self.words.items()},
            w=words,
            script_words={key: words[key] for key in _FOR_SCRIPTS},
            base=request.scope["root_path"],
            text=lambda key: self.text(key, language),
            **more,
        )
        return HTMLResponse(filled, status)

    def text(self, name: str, language: str) -> str:
        """A text of the plan's own; the first version where the language has none."""
        versions = self.plan.texts.get(name, {})
        return versions.get(language) or versions.get("") or next(iter(versions.values()), "")

    def steps(self, modes: Sequence[Mode], language: str) -> list[str]:
        """What will happen in a trial, screen by screen; in short where modes are mixed."""
        words = self.words[language]
        if len(modes) > 1:
            return [words["step_mixed"], words["step_image_ask"]]
        told = [
            words[self._step(screen)].format(seconds=_seconds(screen.seconds or 0, words))
            for screen in modes[0].screens[:-1]
        ]
        return [*told, words["step_image_ask"]]

    def _step(self, screen: Screen) -> str:
        """The word for a screen; in a second round the mask that is shown is an error."""
        errors = self.plan.kind == "clicks-round2"
        shows_mask = screen.show not in ("image", "text")
        return "step_error" if errors and shows_mask else f"step_{screen.show}"

    def minutes(self, modes: Sequence[Mode]) -> int:
        """About how long a batch takes, two seconds for each click included."""
        longest = max(sum(s.seconds or 2.0 for s in mode.screens) for mode in modes)
        return max(1, math.ceil(longest * self.plan.batch / 60))


def _seconds(value: float, words: Mapping[str, str]) -> str:
    return f"{value:g}".replace(".", words["decimal_mark"])
