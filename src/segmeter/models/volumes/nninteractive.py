"""The model nnInteractive through its own Python package, where that is installed.

The package keeps the state of one session; a view replays prompts into it, one prediction
per prompt, and continues from its state when a request only adds prompts. Its checkpoint
is opened here first, as tensors and plain values only, and its plans may name networks only:
the package itself would unpickle the former and import what the latter name.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, BadWeights, NotFound, NoWeights
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard, Request
from segmeter.core.prompts import Box, Click, MaskHint, Point, Prompt, Scribble
from segmeter.core.scenes import Scene, Volume
from segmeter.models import weights as weight_files
from segmeter.models.adapters import as_volume

_NAME = "nninteractive"
_SUMMARY = "nnInteractive through its package (needs nnInteractive)"
_DENSE_VOXELS = 1 << 27  # the package's own bound for prompts that are not compressed
_SETTINGS = ("inference_info.json", "inference_session_class.json")
_NETWORKS = ("dynamic_network_architectures.", "torch.nn.")


@catalogue.models.add(_NAME, _SUMMARY)
class NnInteractive:
    """nnInteractive; `weights` is a folder with `plans.json` and `fold_0`, or one above it."""

    alone = staticmethod(contextlib.nullcontext)  # no other process uses its session

    def __init__(self, weights: str | None = None, device: str = "auto") -> None:
        if importlib.util.find_spec("nnInteractive") is None:
            raise NotFound(
                f"model '{_NAME}' needs the package 'nnInteractive': pip install nnInteractive"
            )
        self._device = device
        self.holds: object = None  # the encoded scene whose volume the session has
        self.folder = _folder(weights)
        self._checkpoint = _checked(self.folder)

    @cached_property
    def card(self) -> ModelCard:
        takes = frozenset({"click", "box", "scribble", "mask", "volume"})
        licence = "package Apache-2.0, official checkpoint CC BY-NC-SA 4.0"
        digest = weight_files.fingerprint(self._checkpoint)[:16]
        return ModelCard(_NAME, _SUMMARY, takes, licence, "isensee2025", _NAME, digest)

    @cached_property
    def session(self) -> Any:
        device = weight_files.pick_device(self._device)
        with _alone():
            package: Any = importlib.import_module("nnInteractive.inference.inference_session")
            made = package.nnInteractiveInferenceSession(device=device, torch_n_threads=1)
            made.initialize_from_trained_model_folder(str(self.folder))
        return made

    def encode(self, scene: Scene) -> NnInteractiveEncodedScene:
        return NnInteractiveEncodedScene(self, as_volume(scene, _NAME))


class NnInteractiveEncodedScene:
    """One volume in the package's session, which is shown it again after another was.

    A box over several slices is given whole to a checkpoint that takes such boxes, and as the
    box of its middle slice to one that does not, as the first official checkpoint. `model` has the
    `session` that encoded scenes share, and uses it `alone`; it, or its `service`, `holds` the
    scene in that session.
    """

    def __init__(self, model: Any, volume: Volume) -> None:
        self.model, self.volume = model, volume
        self.service = getattr(model, "service", model)
        self._shown: npt.NDArray[np.uint8] = np.zeros(volume.shape, np.uint8)
        self._sent: tuple[Prompt, ...] = ()

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        with self.model.alone(), _alone():
            return [MaskPrediction(self._one(request.prompts)) for request in requests]

    def _one(self, prompts: tuple[Prompt, ...]) -> Mask:
        if not prompts:
            return Mask.empty(self.volume.shape)
        if self.service.holds is not self:
            session, voxels = self.model.session, np.asarray(self.volume.voxels, dtype=np.float32)
            session.interactions_storage = "tensor" if voxels.size <= _DENSE_VOXELS else "blosc2"
            session.set_image(voxels[None])
            session.set_target_buffer(self._shown)
            self._shown[:] = 0
            self._sent = ()
            self.service.holds = self
        elif prompts[: len(self._sent)] != self._sent:
            self.model.session.reset_interactions()
            self._shown[:] = 0
            self._sent = ()
        for prompt in prompts[len(self._sent) :]:
            self._send(prompt)
        self._sent = prompts
        return Mask.of(self._shown)

    def _send(self, prompt: Prompt) -> None:
        np.random.seed(0)  # noqa: NPY002  # the package draws patches from NumPy's shared stream
        session = self.model.session
        match prompt:
            case Click(point, positive):
                session.add_point_interaction(tuple(round(c) for c in point), positive)
            case Box(low, high):
                ends = [[round(a), round(b) + 1] for a, b in zip(low, high, strict=True)]
                if not session.supported_interactions.get("bbox3d", False):
                    middle = (sum(ends[0]) - 1) // 2  # the lower of two
                    ends[0] = [middle, middle + 1]
                session.add_bbox_interaction(ends, True)
            case Scribble(points, positive) if (
                len(points) > 3
                and points[0] == points[-1]
                and len({round(point[0]) for point in points}) == 1
            ):  # a lasso: a stroke in one slice that ends where it began
                session.add_lasso_interaction(_filled(points, self.volume.shape), positive)
            case Scribble(points, positive):
                stroke = drawn(points, self.volume.shape, session.preferred_scribble_thickness)
                session.add_scribble_interaction(stroke, positive)
            case MaskHint(mask):
                session.add_initial_seg_interaction(mask.dense().astype(np.uint8))
            case _:
                raise BadInput(f"'{_NAME}' takes no text; prompt it with clicks, boxes or strokes")


def drawn(
    points: Sequence[Point], shape: tuple[int, ...], thickness: Sequence[float]
) -> npt.NDArray[np.uint8]:
    """A volume that holds a stroke: straight from point to point, as thick as was trained with.

    The brush is flat in a slice, as on a screen; one of an even width reaches towards 0.
    """
    import cv2

    whole, last = np.zeros(shape, np.uint8), [n - 1 for n in shape]
    for start, end in zip(points, points[1:] or points, strict=False):
        steps = int(max(abs(b - a) for a, b in zip(start, end, strict=True))) + 1
        line = np.rint(np.linspace(start, end, steps + 1)).clip(0, last).astype(np.intp)
        whole[tuple(line.T)] = 1
    brush = np.ones([max(1, round(t)) for t in thickness[1:]], np.uint8)
    for z in np.flatnonzero(whole.any(axis=(1, 2))):
        whole[z] = cv2.dilate(whole[z], brush)
    return whole


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
    named = weights if weights is not None else os.environ.get("SEGMETER_WEIGHTS")
    places = [named, weight_files.home()]
    for place in (Path(p) for p in places if p):
        for folder in (place / _NAME, place, *sorted((place / _NAME).glob("*"))):
            if (folder / "plans.json").is_file():
                return folder
    raise NoWeights(
        f"no weights for '{_NAME}': no folder with plans.json and fold_0 in"
        f" {', '.join(repr(str(p)) for p in places if p)}; give their folder with --weights"
    )


def _checked(folder: Path) -> Path:
    """The checkpoint of a whole folder that can run no code."""
    for names in (_SETTINGS, ("dataset.json",)):
        if not any((folder / name).is_file() for name in names):
            raise BadWeights(f"'{folder}' lacks {names[0]}; use the folder as published")
    files = sorted(folder.glob("fold_*/checkpoint_final.pth"))
    if len(files) != 1:
        raise BadWeights(
            f"'{folder}' holds {len(files)} times fold_*/checkpoint_final.pth; keep just one"
        )
    _check_plans(folder / "plans.json")
    weight_files.read(files[0])  # refuses what could run code
    return files[0]


def _check_plans(file: Path) -> None:
    """Refuse plans whose networks would import something else."""
    try:
        plans = json.loads(file.read_text("utf-8"))
        configurations = plans["configurations"].values()
        for architecture in (c["architecture"] for c in configurations if "architecture" in c):
            named = [architecture["network_class_name"]]
            named += [architecture["arch_kwargs"][k] for k in architecture["_kw_requires_import"]]
            for name in named:
                if name is not None and not str(name).startswith(_NETWORKS):
                    raise BadWeights(f"'{file}' names '{name}', which is not a network's part")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadWeights(f"'{file}' is not a plan of a network ({error})") from error


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Send the package's output to stderr and restore NumPy's shared random state."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
