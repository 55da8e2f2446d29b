"""Prompts: clicks, boxes, scribbles, masks and text.

Coordinates are pixel centres in scene axes, `(y, x)` or `(z, y, x)`: the first pixel is
`(0, 0)`. Adapters convert them to the convention of their network; no other code does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask

if TYPE_CHECKING:
    from segmeter.core.scenes import Scene

Point = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Click:
    """One click at `(y, x)`: on the object if positive, on the background otherwise.

    >>> Click((40, 60), positive=False).point
    (40, 60)
    """

    point: Point
    positive: bool = True

    @property
    def pixel(self) -> tuple[int, ...]:
        """The pixel that was clicked."""
        return tuple(map(round, self.point))


@dataclass(frozen=True, slots=True)
class Box:
    """A box by its first and last pixel, both inside.

    >>> Box((10, 20), (29, 59)).high
    (29, 59)
    """

    low: Point
    high: Point

    @classmethod
    def around(cls, mask: Mask) -> Box:
        """From the mask's first to its last pixel on each axis."""
        return cls(mask.low, tuple(n - 1 for n in mask.high))


@dataclass(frozen=True, slots=True)
class Scribble:
    """A stroke through pixel centres, in drawing order.

    >>> len(Scribble(((10, 20), (10, 25), (12, 30))).points)
    3
    """

    points: tuple[Point, ...]
    positive: bool = True


@dataclass(frozen=True, slots=True)
class MaskHint:
    """A mask to start from.

    >>> MaskHint(Mask.box((40, 50), (10, 20), (30, 40))).mask.area
    400
    """

    mask: Mask


@dataclass(frozen=True, slots=True)
class Text:
    """A phrase that names the object.

    >>> Text("a striped cat").text
    'a striped cat'
    """

    text: str


Prompt = Click | Box | Scribble | MaskHint | Text
Prompts = Prompt | Sequence[Prompt] | None
"""Prompts of one round: one, several, or None when the user accepts the mask."""


def as_prompts(given: Prompts) -> tuple[Prompt, ...]:
    """Prompts of a round as a tuple; empty for None.

    >>> as_prompts(Click((1, 2)))
    (Click(point=(1, 2), positive=True),)
    """
    if given is None:
        return ()
    return tuple(given) if isinstance(given, Sequence) else (given,)


def moved(prompt: Prompt, there: Callable[[Point], Point]) -> Prompt:
    """A prompt with its points elsewhere; masks and text stay as they are.

    >>> moved(Click((3, 4)), lambda point: (7, *point))
    Click(point=(7, 3, 4), positive=True)
    """
    match prompt:
        case Click(point, positive):
            return Click(there(point), positive)
        case Box(low, high):
            return Box(there(low), there(high))
        case Scribble(points, positive):
            return Scribble(tuple(map(there, points)), positive)
    return prompt


def check_inside(prompts: Iterable[Prompt], scene: Scene) -> None:
    """Refuse objects that are not prompts, and prompts outside the scene.

    >>> from segmeter.models.conformance import drawn_scene
    >>> check_inside([Click((3, 4))], drawn_scene())
    """
    for prompt in prompts:
        if not isinstance(prompt, Prompt):
            raise BadInput(
                f"{scene.name}: a user gave {str(prompt)[:60]!r}, which is not a prompt; "
                "a click is Click((y, x), positive=True)"
            )
        if isinstance(prompt, MaskHint) and prompt.mask.shape != scene.shape:
            raise BadInput(
                f"{scene.name}: a mask of shape {prompt.mask.shape} was given as a hint "
                f"for a scene of shape {scene.shape}; it must have the scene's size"
            )
        if isinstance(prompt, Scribble) and not prompt.points:
            raise BadInput(f"{scene.name}: a scribble without points was given; give one at least")
        for point in points_of(prompt):
            _check_point(prompt, point, scene)
        # An interpolated box may hold no pixel along an axis: it ends just before its beginning.
        if isinstance(prompt, Box) and any(
            a > b + 1 for a, b in zip(prompt.low, prompt.high, strict=True)
        ):
            raise BadInput(
                f"{scene.name}: a box from {prompt.low} to {prompt.high} ends before it begins; "
                "give its first and its last pixel"
            )


def _check_point(prompt: Prompt, point: Point, scene: Scene) -> None:
    kind, shape = type(prompt).__name__.lower(), scene.shape
    if len(point) != len(shape) or not all(isinstance(c, Real) and isfinite(c) for c in point):
        raise BadInput(
            f"{scene.name}: a {kind} at ({', '.join(map(str, point))[:60]}) is not a point of "
            f"a scene of shape {shape}; a point has one number per axis"
        )
    inside = all(-0.5 <= c <= n - 0.5 for c, n in zip(point, shape, strict=True))
    if not inside and not isinstance(prompt, Box):  # a box may reach past the edge
        place = ", ".join(f"{c:g}" for c in point)
        raise BadInput(
            f"{scene.name}: a {kind} at ({place}) lies outside "
            f"a scene of shape {shape}; points are pixel centres in scene axes"
        )


def points_of(prompt: Prompt) -> tuple[Point, ...]:
    """The points of a click or stroke, the corners of a box; none of a mask or text.

    >>> points_of(Box((1, 2), (3, 4)))
    ((1, 2), (3, 4))
    """
    match prompt:
        case Click(point):
            return (point,)
        case Scribble(points):
            return points
        case Box(low, high):
            return low, high
    return ()


def to_json(prompt: Prompt) -> str:
    """One line of JSON that `round_from_json` reads back.

    >>> to_json(Click((3, 4), positive=False))
    '{"click": [3, 4], "positive": false}'
    """
    match prompt:
        case Click(point, positive):
            return json.dumps({"click": _plain(point), "positive": positive})
        case Box(low, high):
            return json.dumps({"box": [_plain(low), _plain(high)]})
        case Scribble(points, positive):
            return json.dumps({"scribble": [_plain(p) for p in points], "positive": positive})
        case MaskHint(mask):
            return json.dumps({"mask": mask.to_coco()})
        case Text(text):
            return json.dumps({"text": text})


def _prompt(content: Any, text: str) -> Prompt:
    try:
        match content:
            case {"click": point, "positive": bool(positive)}:
                return Click(_point(point), positive)
            case {"box": [low, high]}:
                return Box(_point(low), _point(high))
            case {"scribble": points, "positive": bool(positive)}:
                return Scribble(tuple(_point(p) for p in points), positive)
            case {"mask": mask}:
                return MaskHint(Mask.from_coco(mask))
            case {"text": str(phrase)}:
                return Text(phrase)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadInput(f"prompt {text[:80]!r} cannot be read: {error}") from error
    raise BadInput(f"prompt {text[:80]!r} is none of click, box, scribble, mask, text")


def kind_of(prompt: Prompt) -> str:
    """The kind of a prompt, as rows and cost models name it.

    >>> kind_of(Click((3, 4))), kind_of(Text("a dog"))
    ('click', 'text')
    """
    return _KINDS[type(prompt)]


_KINDS: dict[type, str] = {
    Click: "click", Box: "box", Scribble: "scribble", MaskHint: "mask", Text: "text",
}  # fmt: skip


def round_to_json(prompts: Sequence[Prompt]) -> str | None:
    """The prompts of a round: one as `to_json` writes it, several as a list, none as None.

    >>> round_to_json([Click((3, 4)), Click((5, 6))])
    '[{"click": [3, 4], "positive": true}, {"click": [5, 6], "positive": true}]'
    """
    texts = [to_json(prompt) for prompt in prompts]
    if len(texts) > 1:
        return f"[{', '.join(texts)}]"
    return texts[0] if texts else None


def round_from_json(text: str | None) -> tuple[Prompt, ...]:
    """Read what `round_to_json` wrote.

    >>> round_from_json('{"click": [3, 4], "positive": true}')
    (Click(point=(3, 4), positive=True),)
    """
    if text is None:
        return ()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"prompt {text[:80]!r} cannot be read: {error}") from error
    listed = content if isinstance(content, list) and content else [content]
    return tuple(_prompt(one, text) for one in listed)


def _plain(point: Sequence[float]) -> list[float]:
    return [int(c) if float(c).is_integer() else float(c) for c in point]


def _point(values: Sequence[float]) -> Point:
    """A point's numbers; text, nested lists and NaN are refused."""
    if not isinstance(values, list) or not 2 <= len(values) <= 3:
        raise ValueError("a point is two or three numbers")
    if any(type(value) not in (int, float) or not isfinite(value) for value in values):
        raise ValueError("a point must have finite coordinates")
    return tuple(values)
