"""Replays: a session round by round, all rounds drawn, one of them shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from segmeter.core.prompts import Box, Click, Prompt, Scribble, Text
from segmeter.core.sections import Frame, Outline, Replay
from segmeter.report.elements import amount, drawing, element, number, route, words
from segmeter.report.images import Album, outline_svg, prompt_svg, scene_svg, window_of

_WIDTH, _HEIGHT, _PAD = 420.0, 100.0, 10.0


def replay_view(replay: Replay, album: Album) -> dict[str, Any]:
    """A replay ready for the page: its drawing, its little curve, its list of rounds."""
    prompts = [(k, prompt) for k, f in enumerate(replay.frames, 1) for prompt in f.prompts]
    around = [m for m in (replay.ground_truth, *(f.mask for f in replay.frames[-3:])) if m]
    window = window_of(replay.image, around, [prompt for _, prompt in prompts])
    key = album.add(replay.image, window)
    truth = replay.ground_truth
    inside = [
        [
            element("g", outline_svg(Outline(f.mask), window, album), class_="frame", data_round=k)
            for k, f in enumerate(replay.frames, 1)
        ],
        outline_svg(Outline(truth, "ground_truth", "the ground truth"), window, album)
        if truth
        else None,
        [prompt_svg(prompt, k, window) for k, prompt in prompts],
    ]
    return {
        "of": replay,
        "scene": scene_svg(key, window, inside, f"{replay.title}: image with masks and clicks"),
        "curve": _curve(replay),
        "steps": [_step(frame) for frame in replay.frames],
        "open_at": _open_at(replay),
    }


def _open_at(replay: Replay) -> int:
    """The round to show first: the one that reaches the goal, else the last."""
    scores = (next(iter(frame.scores.values()), 0.0) for frame in replay.frames)
    goal = 2.0 if replay.goal is None else replay.goal
    return next((k for k, score in enumerate(scores, 1) if score >= goal), len(replay.frames))


def _step(frame: Frame) -> dict[str, str]:
    waited = "" if frame.seconds is None else f"{amount(frame.seconds, 2)} s"
    prompts = ", ".join(map(_prompt_text, frame.prompts)) or "stopped"
    return {"said": prompts, "scores": scores_text(frame), "seconds": waited, "note": frame.note}


def scores_text(frame: Frame) -> str:
    """The scores of a round in one line."""
    return "  ".join(f"{name} {amount(v, 1, percent=True)}" for name, v in frame.scores.items())


def _prompt_text(prompt: Prompt) -> str:
    """A prompt in words."""
    match prompt:
        case Click(point, positive):
            sign = "+" if positive else "−"
            return f"{sign} x {amount(point[-1], 0)}, y {amount(point[-2], 0)}"
        case Box(low, high):
            return f"box {amount(high[-1] - low[-1] + 1, 0)} × {amount(high[-2] - low[-2] + 1, 0)}"
        case Scribble(points, positive):
            return f"{'+' if positive else '−'} stroke through {len(points)} points"
        case Text(text):
            return f"“{text}”"
        case _:
            return "mask"


def _curve(replay: Replay) -> Markup:
    """The first score over the rounds, with the goal as a rule."""
    scores = [next(iter(f.scores.values()), float("nan")) for f in replay.frames]
    many = max(len(scores) - 1, 1)
    spot = [(_PAD + (_WIDTH - 2 * _PAD) * k / many, _level(s)) for k, s in enumerate(scores)]
    parts = [element("path", d=f"M{_PAD} {_level(0.0)}H{_WIDTH - _PAD}", class_="base")]
    if replay.goal is not None:
        level = _level(replay.goal)
        parts.append(element("path", d=f"M{_PAD} {number(level)}H{_WIDTH - _PAD}", class_="goal"))
        parts.append(_goal_name(replay.goal, level, spot))
    parts.append(route(spot, "curve ink"))
    parts += [
        element("circle", cx=x, cy=y, r=3.0, class_="beat", data_round=k + 1)
        for k, (x, y) in enumerate(spot)
    ]
    name = next(iter(replay.frames[0].scores), "score") if replay.frames else "score"
    alt = f"{name} over the rounds"
    return drawing(_WIDTH, _HEIGHT, parts, alt=alt, class_="chart beats")


def _goal_name(goal: float, level: float, spot: Sequence[tuple[float, float]]) -> Markup:
    """The goal in words, at the end and on the side of its rule that the curve leaves free."""
    first, last = spot[0][1], spot[-1][1]
    left = abs(first - level) >= abs(last - level)
    near = first if left else last
    below = abs(near - level) < 14 and near <= level  # a curve above: stand below the rule
    x, side = (_PAD, "tick") if left else (_WIDTH - _PAD, "tick end")
    label = f"goal {amount(goal, 0, percent=True)}"
    return words(label, x, level + (11 if below else -3), side)


def _level(score: float) -> float:
    known = score if score == score else 0.0
    return _HEIGHT - _PAD - (_HEIGHT - 2 * _PAD) * min(max(known, 0.0), 1.0)
