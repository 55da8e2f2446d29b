"""Replays: a session round by round, on an image or through a volume or video.

Of an image all rounds are drawn and one is shown. A volume is cut by the page itself along each
axis, with masks as run lengths: its voxels travel as one image with all axial slices side by side,
stored once per page however many sessions show them; a still of the middle slice replaces it on
paper and without script.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from segmeter.core.masks import Mask, joint_box
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble, Text, points_of
from segmeter.core.rle import of_bits
from segmeter.core.sections import Frame, Illustration, Outline, Replay, Slices
from segmeter.core.seeds import fingerprint
from segmeter.core.wording import counted
from segmeter.report.elements import amount, data_address, drawn
from segmeter.report.images import Album, image_svg, outline_svg, prompt_svg, window_of

_WIDTH, _HEIGHT, _PAD = 420, 100, 10


def replay_view(replay: Replay, album: Album) -> dict[str, Any]:
    """A replay ready for the page: its drawing, its little curve, its list of rounds."""
    prompts = [(k, prompt) for k, f in enumerate(replay.frames, 1) for prompt in f.prompts]
    around = [m for m in (replay.ground_truth, *(f.mask for f in replay.frames[-3:])) if m]
    window = window_of(replay.image, around, [prompt for _, prompt in prompts])
    outlines = [outline_svg(Outline(f.mask), window, album) for f in replay.frames]
    truth = replay.ground_truth and Outline(replay.ground_truth, "ground_truth", "the ground truth")
    parts = [
        *(
            Markup('<g class="frame" data-round="{}">{}</g>').format(k, outline)
            for k, outline in enumerate(outlines, 1)
        ),
        outline_svg(truth, window, album) if truth else "",
        *(prompt_svg(prompt, k, window) for k, prompt in prompts),
    ]
    alt, key = f"{replay.title}: image with masks and clicks", album.add(replay.image, window)
    return {
        "of": replay,
        "scene": drawn("scene", key, window, alt, Markup("").join(parts)),
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
    return {"prompts": prompts, "scores": scores_text(frame), "seconds": waited, "note": frame.note}


def scores_text(frame: Frame) -> str:
    return "  ".join(f"{name} {amount(v, 1, percent=True)}" for name, v in frame.scores.items())


def _prompt_text(prompt: Prompt) -> str:
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
    goal = None
    if replay.goal is not None:
        level = _level(replay.goal)
        goal = {"level": level, "name": _goal_name(replay.goal, level, spot)}
    name = next(iter(replay.frames[0].scores), "score") if replay.frames else "score"
    alt = f"{name} over the rounds"
    return drawn("beats", _WIDTH, _HEIGHT, _PAD, _level(0.0), spot, goal, alt)


def _goal_name(
    goal: float, level: float, spot: Sequence[tuple[float, float]]
) -> tuple[str, float, float, str]:
    """The goal in words, at the end and on the side of its rule that the curve leaves free."""
    first, last = spot[0][1], spot[-1][1]
    left = abs(first - level) >= abs(last - level)
    near = first if left else last
    below = abs(near - level) < 14 and near <= level  # a curve above: stand below the rule
    x, side = (_PAD, "tick") if left else (_WIDTH - _PAD, "tick end")
    return f"goal {amount(goal, 0, percent=True)}", x, level + (11 if below else -3), side


def _level(score: float) -> float:
    known = score if score == score else 0.0
    return _HEIGHT - _PAD - (_HEIGHT - 2 * _PAD) * min(max(known, 0.0), 1.0)


_MARGIN = 24
_MOST_VOXELS = 3 << 20
_QUALITY = 80

Index = tuple[int, ...]


def slices_view(slices: Slices, album: Album) -> dict[str, Any]:
    """A volume ready for the page, which itself shows its slices."""
    shown = _Window.around(slices)
    voxels = np.ascontiguousarray(slices.voxels[shown.place])
    image = "v" + fingerprint(*voxels.shape, voxels.tobytes(), size=6)
    source = "" if image in album.volumes else data_address(mosaic(voxels))
    album.volumes.add(image)
    steps = [
        {"mask": shown.runs(f.mask), "prompts": [d for p in f.prompts for d in shown.drawn(p)]}
        for f in slices.frames
    ]
    truth = None if slices.ground_truth is None else shown.runs(slices.ground_truth)
    data = _data(slices, shown, voxels.shape) | {"ground_truth": truth, "steps": steps}
    return {
        "of": slices,
        "image": image,
        "source": source,
        "data": json.dumps(data, separators=(",", ":")),
        "still": _still(slices, shown, album),
        "steps": [_frame_texts(frame) for frame in slices.frames],
        "boxed": any(isinstance(p, Box) for f in slices.frames for p in f.prompts),
    }


def viewer_data(slices: Slices) -> dict[str, Any]:
    """A whole volume for the viewer's script, without masks; `mosaic` has its voxels."""
    shape = slices.voxels.shape
    everything = _Window((0, 0, 0), shape, (1, 1, 1))
    return _data(slices, everything, shape) | {"ground_truth": None, "steps": []}


def _data(slices: Slices, shown: _Window, shape: Index) -> dict[str, Any]:
    """Shape, position and grey values of the voxels shown."""
    spacing_mm = (slices.header and slices.header.spacing_mm) or (1.0, 1.0, 1.0)
    greys = slices.greys
    return {
        "shape": list(shape),
        "columns": _columns(shape[0]),
        "spacing": [s * n for s, n in zip(spacing_mm, shown.stride, strict=True)],
        "affine": slices.header.affine if slices.header else None,
        "numbers": slices.numbers,
        "greys": greys
        and {
            "codes": greys.CODES,
            "values": greys.knots,
            "unit": greys.unit,
            "presets": dict(greys.presets),
        },
        "first": list(shown.low),
        "stride": list(shown.stride),
        "every": slices.every_frame,
    }


@dataclass(frozen=True, slots=True)
class _Window:
    """The part of a volume that is shown: a box, of which every so many voxels are kept."""

    low: Index
    high: Index
    stride: Index

    @classmethod
    def around(cls, slices: Slices) -> _Window:
        """The neighbourhood of ground truth and masks, thinned out until it is small enough."""
        masks = [m for m in (slices.ground_truth, *(s.mask for s in slices.frames)) if m]
        shape = slices.voxels.shape
        first, last = joint_box(*masks) if masks else ((0, 0, 0), shape)
        low = tuple(max(0, a - _MARGIN) for a in first)
        high = tuple(min(n, b + _MARGIN) for b, n in zip(last, shape, strict=True))
        for step in count(1):
            # Slices are kept longer than pixels: there are fewer of them.
            found = cls(low, high, (max(1, step // 2), step, step))
            kept = (len(range(n)[part]) for n, part in zip(shape, found.place, strict=True))
            if math.prod(kept) <= _MOST_VOXELS:
                break
        return found

    @property
    def place(self) -> tuple[slice, ...]:
        return tuple(
            slice(a, b, s) for a, b, s in zip(self.low, self.high, self.stride, strict=True)
        )

    def runs(self, mask: Mask) -> Any:
        """Run lengths over the kept voxels, x fastest, zeros first."""
        kept = tuple(slice(None, None, s) for s in self.stride)
        return of_bits(mask.crop(self.low, self.high)[kept]).tolist()

    def drawn(self, prompt: Prompt) -> list[dict[str, Any]]:
        """A prompt in coordinates of the kept voxels."""
        match prompt:
            case Click(positive=positive) | Scribble(positive=positive):
                return [{"at": self._at(p), "positive": positive} for p in points_of(prompt)]
            case Box(low, high):
                return [{"low": self._at(low), "high": self._at(high)}]
            case MaskHint(mask):
                return [{"hint": self.runs(mask)}]
            case _:
                return []

    def _at(self, point: Sequence[float]) -> list[float]:
        axes = zip(point, self.low, self.stride, strict=True)
        return [round((p - a) / s, 2) for p, a, s in axes]


def _columns(depth: int) -> int:
    """Slices in a row of the mosaic."""
    return max(1, math.isqrt(depth))


def mosaic(voxels: npt.NDArray[np.uint8]) -> bytes:
    """All axial slices side by side as one WebP, or PNG where that would be too wide."""
    from PIL import Image

    depth, height, width = voxels.shape
    columns = _columns(depth)
    rows = -(-depth // columns)
    whole = np.zeros((rows * height, columns * width), np.uint8)
    for z, plane in enumerate(voxels):
        row, column = divmod(z, columns)
        whole[row * height : (row + 1) * height, column * width : (column + 1) * width] = plane
    file = io.BytesIO()
    wide = max(whole.shape) > 16000
    kind: Any = (
        ("PNG", {"optimize": True}) if wide else ("WEBP", {"quality": _QUALITY, "method": 4})
    )
    Image.fromarray(whole).save(file, kind[0], **kind[1])
    return file.getvalue()


def _still(slices: Slices, shown: _Window, album: Album) -> Markup:
    """The axial slice with most of the ground truth, upright, for paper."""
    last = slices.frames[-1].mask if slices.frames else None
    judged = slices.ground_truth or last
    z = (shown.low[0] + shown.high[0]) // 2
    if judged:
        z = judged.low[0] + int(judged.bits.sum(axis=(1, 2)).argmax())
    shown_masks: tuple[tuple[Mask | None, Literal["prediction", "ground_truth"]], ...] = (
        (last, "prediction"),
        (slices.ground_truth, "ground_truth"),
    )
    upright = not slices.every_frame
    outlines = []
    for mask, role in shown_masks:
        if mask:
            plane = mask.slice(z)
            # As radiologists see it: front up, the patient's right left.
            turned = Mask.of(np.ascontiguousarray(plane.dense()[::-1, ::-1])) if upright else plane
            outlines.append(Outline(turned, role))
    pixels, shown_as = slices.voxels[z], f"frame {z * slices.every_frame}"
    if upright:
        seen = pixels[::-1, ::-1]
        pixels = np.ascontiguousarray(slices.greys.windowed(seen) if slices.greys else seen)
        word, first, step = slices.numbers[0]
        shown_as = f"axial slice {word} {first + step * z}"
    alt = f"{slices.title}: {shown_as}"
    return image_svg(Illustration(pixels, alt=alt, outlines=outlines, close=True), album)


def _frame_texts(step: Frame) -> dict[str, str]:
    kinds = {Click: "point", Box: "box", Scribble: "scribble", MaskHint: "mask"}
    counts = {word: sum(isinstance(p, kind) for p in step.prompts) for kind, word in kinds.items()}
    prompts = ", ".join(counted(n, word) for word, n in counts.items() if n) or "no prompt"
    return {"prompts": prompts, "scores": scores_text(step), "note": step.note}
