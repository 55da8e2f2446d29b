"""The model nnInteractive through its own Python package, where that is installed.

The package keeps the state of one session; a view replays prompts into it, one prediction
per prompt, and goes on where it stands when an ask only adds to the last one. Its checkpoint
is opened here first, as tensors and plain values only: the package itself would unpickle it.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.models import Ask, MaskPrediction, ModelCard
from segmeter.core.prompts import Box, Click, MaskHint, Point, Prompt, Scribble
from segmeter.core.scenes import Scene, Volume
from segmeter.models import weights as weight_files

__all__ = ["NnInteractive", "NnInteractiveView", "PackageSession"]

_NAME = "nninteractive"
_SUMMARY = "nnInteractive through its package (needs nnInteractive)"


class PackageSession(Protocol):
    """What is used of the package's session; coordinates are indices of the array given."""

    def set_image(self, image: npt.NDArray[Any]) -> None: ...

    def set_target_buffer(self, target_buffer: Any) -> None: ...

    def reset_interactions(self) -> None: ...

    def add_point_interaction(self, coordinates: Any, include_interaction: bool) -> Any: ...

    def add_bbox_interaction(self, bbox_coords: Any, include_interaction: bool) -> Any: ...

    def add_lasso_interaction(self, lasso_image: Any, include_interaction: bool) -> Any: ...

    def add_scribble_interaction(self, scribble_image: Any, include_interaction: bool) -> Any: ...

    def add_initial_seg_interaction(self, initial_seg: Any) -> Any: ...


@catalogue.models.add(_NAME, _SUMMARY)
class NnInteractive:
    """nnInteractive; `weights` is a folder with `plans.json` and `fold_0`, or one above it."""

    def __init__(self, weights: str | None = None, device: str = "auto") -> None:
        if importlib.util.find_spec("nnInteractive") is None:
            raise NotFound(
                f"model '{_NAME}' is not here: missing is the package 'nnInteractive';"
                " pip install nnInteractive"
            )
        self._device = device
        self.folder = _folder(weights)
        for file in sorted(self.folder.glob("fold_*/checkpoint_final.pth")):
            weight_files.read(file)  # refuses what could run code

    @cached_property
    def card(self) -> ModelCard:
        files = sorted(self.folder.glob("fold_*/*.pth"))
        return ModelCard(
            name=_NAME,
            summary=_SUMMARY,
            abilities=frozenset({"click", "box", "scribble", "mask", "volume"}),
            licence="package Apache-2.0, official checkpoint CC BY-NC-SA 4.0",
            citation="Isensee et al. nnInteractive: redefining 3D promptable segmentation. 2025",
            family=_NAME,
            fingerprint="-".join(weight_files.fingerprint(f)[:16] for f in files),
        )

    @cached_property
    def session(self) -> PackageSession:
        """The package's session, with its network loaded."""
        from segmeter.models._sam_networks import pick_device

        package: Any = importlib.import_module("nnInteractive.inference.inference_session")
        device = pick_device(self._device)
        made = package.nnInteractiveInferenceSession(device=device, torch_n_threads=1)
        made.initialize_from_trained_model_folder(str(self.folder))
        session: PackageSession = made
        return session

    def look(self, scene: Scene) -> NnInteractiveView:
        if not isinstance(scene, Volume):
            raise BadInput(f"{scene.name} is a picture, and '{_NAME}' looks at volumes")
        return NnInteractiveView(self.session, scene)


class NnInteractiveView:
    """One volume in the package's session."""

    def __init__(self, session: PackageSession, volume: Volume) -> None:
        self.session, self.volume = session, volume
        self._shown: npt.NDArray[np.uint8] = np.zeros(volume.shape, np.uint8)
        session.set_image(np.asarray(volume.voxels, dtype=np.float32)[None])
        session.set_target_buffer(self._shown)
        self._played: tuple[Prompt, ...] = ()

    def answer(self, asks: Sequence[Ask]) -> list[MaskPrediction]:
        """Each ask by itself: what was said before is said again where it differs."""
        return [MaskPrediction(self._one(ask.prompts)) for ask in asks]

    def _one(self, prompts: tuple[Prompt, ...]) -> Mask:
        if not prompts:
            return Mask.empty(self.volume.shape)
        going_on = bool(self._played) and prompts[: len(self._played)] == self._played
        if not going_on:
            self.session.reset_interactions()
            self._shown[:] = 0
            self._played = ()
        for prompt in prompts[len(self._played) :]:
            self._say(prompt)
        self._played = prompts
        return Mask.of(self._shown)

    def _say(self, prompt: Prompt) -> None:
        match prompt:
            case Click(point, positive):
                self.session.add_point_interaction(tuple(round(c) for c in point), positive)
            case Box(low, high):
                ends = [[round(a), round(b) + 1] for a, b in zip(low, high, strict=True)]
                self.session.add_bbox_interaction(ends, True)
            case Scribble(points, positive) if _closed(points):
                self.session.add_lasso_interaction(_filled(points, self.volume.shape), positive)
            case Scribble(points, positive):
                drawn = np.zeros(self.volume.shape, np.uint8)
                for point in points:
                    drawn[tuple(round(c) for c in point)] = 1
                self.session.add_scribble_interaction(drawn, positive)
            case MaskHint(mask):
                self.session.add_initial_seg_interaction(mask.dense().astype(np.uint8))
            case _:
                raise BadInput(f"'{_NAME}' reads no words; ask by clicks, boxes or strokes")


def _closed(points: Sequence[Point]) -> bool:
    """Whether a stroke in one slice ends where it began: a lasso."""
    one_slice = len({round(point[0]) for point in points}) == 1
    return len(points) > 3 and one_slice and points[0] == points[-1]


def _filled(points: Sequence[Point], shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """A volume that holds what a lasso encloses, its line included."""
    import cv2

    whole = np.zeros(shape, np.uint8)
    line = np.array([[round(x), round(y)] for _, y, x in points], np.int32)
    flat = np.zeros(shape[1:], np.uint8)
    whole[round(points[0][0])] = cv2.fillPoly(flat, [line], (1.0,))
    return whole


def _folder(weights: str | None) -> Path:
    """The folder of a trained model: it holds `plans.json`."""
    places = [weights, os.environ.get("SEGMETER_WEIGHTS"), weight_files.home()]
    for place in (Path(p) for p in places if p):
        for folder in (place / _NAME, place, *sorted((place / _NAME).glob("*"))):
            if (folder / "plans.json").is_file():
                return folder
    raise NotFound(
        f"no weights for '{_NAME}': no folder with plans.json and fold_0 in"
        f" {', '.join(repr(str(p)) for p in places if p)}; say where they are with --weights"
    )
