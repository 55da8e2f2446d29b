"""The fake models of the golden volumes: simple rules that answer as real models would."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask
from segmeter.core.prompts import Box, Click, Prompt

Bits = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Case:
    name: str
    target: Mask
    image: npt.NDArray[np.int64]

    @property
    def bits(self) -> Bits:
        return self.target.dense()


def cases(golden: Path) -> dict[str, Case]:
    """The drawn volumes, from their recipes."""
    recipes = json.loads((golden / "cases.json").read_text())["cases"]
    return {name: _case(name, recipe) for name, recipe in recipes.items()}


def _case(name: str, recipe: Mapping[str, Any]) -> Case:
    labels = np.zeros(recipe["shape"], dtype=np.int64)
    grid = np.indices(labels.shape).astype(float)
    for op in recipe["ops"]:
        if op["op"] == "voxels":
            for voxel in op["zyx"]:
                labels[tuple(voxel)] = op["label"]
        else:
            away = sum(((g - c) / r) ** 2 for g, c, r in zip(grid, op["c"], op["r"], strict=True))
            labels[away <= 1.0] = op["label"]
    z, y, x = np.indices(labels.shape)
    image = 10 * (labels > 0) + (7 * z + 3 * y + 5 * x) % 11
    return Case(name, Mask.of(labels == recipe["target"]), image)


@dataclass(frozen=True)
class Fake:
    r_pos: int
    r_neg: int
    threshold: int

    def slices(
        self, case: Case, prompts: Sequence[Prompt], hints: Mapping[int, Bits] | None = None
    ) -> dict[int, Bits]:
        """Answers of the slices that hold a prompt."""
        found = {}
        for z in sorted({slice_of(p) for p in prompts}):
            here = [p for p in prompts if slice_of(p) == z]
            found[z] = self._answer(case.image[z], here, (hints or {}).get(z), skip=1)
        return found

    def volume(self, case: Case, prompts: Sequence[Prompt], hint: Bits | None = None) -> Bits:
        return self._answer(case.image, prompts, hint, skip=0)

    def _answer(
        self,
        image: npt.NDArray[np.int64],
        prompts: Sequence[Prompt],
        hint: Bits | None,
        skip: int,
    ) -> Bits:
        ok = image >= self.threshold
        mask = np.zeros(image.shape, bool) if hint is None else hint.copy()
        for prompt in prompts:
            if isinstance(prompt, Click) and prompt.positive:
                mask |= ball(image.shape, prompt.point[skip:], self.r_pos) & ok
            elif isinstance(prompt, Box):
                inside = np.zeros(image.shape, bool)
                ends = zip(prompt.low[skip:], prompt.high[skip:], strict=True)
                inside[tuple(slice(int(a), int(b) + 1) for a, b in ends)] = True
                mask |= inside & ok
        for prompt in prompts:
            if isinstance(prompt, Click) and not prompt.positive:
                mask &= ~ball(image.shape, prompt.point[skip:], self.r_neg)
        return mask


def slice_of(prompt: Prompt) -> int:
    assert isinstance(prompt, Click | Box)
    return int(prompt.point[0] if isinstance(prompt, Click) else prompt.low[0])


def ball(shape: Sequence[int], centre: Sequence[float], radius: int) -> Bits:
    away = sum(
        (g - c) ** 2 for g, c in zip(np.ogrid[tuple(slice(n) for n in shape)], centre, strict=True)
    )
    return np.asarray(away <= radius**2)


def fakes(golden: Path) -> dict[str, Fake]:
    found = json.loads((golden / "cases.json").read_text())["fakes"]
    return {name: Fake(**parameters) for name, parameters in found.items()}


def stacked(shape: Sequence[int], slices: Mapping[int, Bits], before: Bits | None = None) -> Bits:
    whole = np.zeros(tuple(shape), bool) if before is None else before.copy()
    for z, bits in slices.items():
        whole[z] = bits
    return whole


def checksum(bits: Bits) -> int:
    return zlib.crc32(np.packbits(bits.ravel()).tobytes())


def dice(ground_truth: Bits, prediction: Bits) -> float:
    return float(2 * (ground_truth & prediction).sum() / (ground_truth.sum() + prediction.sum()))


def as_points(prompts: Iterable[Prompt]) -> list[list[int]]:
    return [[*(int(c) for c in p.point), int(p.positive)] for p in prompts if isinstance(p, Click)]


def as_boxes(prompts: Iterable[Prompt]) -> dict[str, list[int]]:
    """Boxes as the golden files have them, half open: `{z: [x0, y0, x1, y1]}`."""
    return {
        str(int(p.low[0])): [int(c) for c in (p.low[2], p.low[1], p.high[2] + 1, p.high[1] + 1)]
        for p in prompts
        if isinstance(p, Box)
    }
