"""Stimuli: the images that people are shown, made by the server and cut from real scenes.

Images larger than the plan allows are shrunk once, with their masks; every coordinate of
the study then refers to the shown size. File names of the data never leave the server.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import Image, Scene, Target
from segmeter.runtime.roots import Roots
from segmeter.study import drawing
from segmeter.study.mask_sources import MaskFolder, RunMasks, open_masks
from segmeter.study.plan import Plan
from segmeter.study.plan_tables import near

__all__ = ["Shown", "Stimuli"]

Made = TypeVar("Made")
_KEPT_BYTES = 256 << 20
_KEPT_SCENES = 32


@dataclass(frozen=True, slots=True)
class Shown:
    """A scene as it is shown: pixels `(H, W, 3)` and the masks of its targets, shrunk alike."""

    scene: Scene
    pixels: npt.NDArray[np.uint8]
    targets: dict[str, Target]

    @property
    def size(self) -> tuple[int, int]:
        return self.pixels.shape[0], self.pixels.shape[1]

    def fitted(self, mask: Mask) -> Mask:
        """A mask of the scene at the shown size."""
        return drawing.shrunk_mask(mask, self.size)


class Stimuli:
    """Scenes, targets and images of a plan; safe to use from several threads."""

    def __init__(self, plan: Plan, roots: Roots | None = None) -> None:
        self.plan = plan
        self.roots = roots or Roots()
        self.dataset = _open(plan, self.roots)
        self._shown = _Kept[Shown](_KEPT_SCENES)
        self._images = _Kept[bytes](4096, _KEPT_BYTES)
        self._checked: set[str] = set()

    @cached_property
    def sources(self) -> dict[str, RunMasks | MaskFolder]:
        found = [masks for masks in self.plan.masks if masks.source != "ground_truth"]
        return {masks.name: open_masks(masks, self.plan.folder) for masks in found}

    def targets(self) -> list[tuple[str, str]]:
        """Every target that the plan shows: scene and target."""
        known = self.dataset.scenes()
        for scene in self.plan.scenes:
            if scene not in known:
                hint = near(scene, known)
                raise BadInput(f"[data] scenes: the data set has no scene '{scene}'{hint}")
        found: dict[tuple[str, str], bool] = {}  # and whether words are missing for it
        names: set[str] = set()
        for scene in self.plan.scenes or known:
            loaded = self.dataset.load(scene)  # its pixels are not needed yet
            if not isinstance(loaded, Image):
                raise BadInput(f"'{loaded.name}' is a volume; people are shown images only")
            shrink = min(1.0, self.plan.largest_side / max(loaded.shape))
            for target in loaded.targets:
                names |= {target.id, f"{scene}/{target.id}"}
                if self._wanted(scene, target, shrink):
                    told = self._described(scene, target.id, "en") or target.label
                    found[scene, target.id] = not told
        self._check_named(names)
        self._check_references(known)
        self._check_described([key for key, bare in found.items() if bare])
        return list(found)

    def shown(self, scene: str) -> Shown:
        return self._shown.get(scene, lambda: self._show(scene))

    def label(self, scene: str, target: str, language: str) -> str:
        """The description of a target in words: the plan's, or the data's label."""
        return self._described(scene, target, language) or self.shown(scene).targets[target].label

    def mask(self, scene: str, target: str, part: str, source: str) -> Mask:
        """What a task is about, at the shown size."""
        shown = self.shown(scene)
        ground_truth = shown.targets[target].mask
        if part == "first":
            return ground_truth
        given = self.rated_mask(scene, target, source)
        if given is None:
            raise NotFound(f"'{source}' has no mask of '{scene}/{target}'")
        if part == "mask":
            return given
        return ground_truth - given if part == "fn" else given - ground_truth

    def rated_mask(self, scene: str, target: str, source: str) -> Mask | None:
        """The mask to be rated; None where its source has none."""
        shown = self.shown(scene)
        if source not in self.sources:
            return shown.targets[target].mask
        found = self.sources[source].mask(scene, target, shown.scene.shape)
        return None if found is None else shown.fitted(found)

    def errors_of(self, scene: str, target: str) -> list[tuple[str, str]]:
        """For a second round: of each kind of error the source whose mask is best, not too good.

        The mask of highest IoU not above `best_below` that has such an error (RClicks).
        """
        ground_truth = self.shown(scene).targets[target].mask
        best: dict[str, tuple[float, str]] = {}
        for masks in self.plan.masks:
            prediction = self.rated_mask(scene, target, masks.name)
            if prediction is None:
                continue
            score = _iou(ground_truth, prediction)
            for part, error in (
                ("fn", ground_truth - prediction),
                ("fp", prediction - ground_truth),
            ):
                if error and score <= self.plan.best_below:
                    best[part] = max(best.get(part, (-1.0, "")), (score, masks.name))
        return [(part, source) for part, (_, source) in best.items()]

    def image(self, scene: str, target: str, part: str, source: str, show: str) -> bytes:
        """One screen or view as a PNG or JPEG file."""
        key = (scene,) if show == "image" else (scene, target, part, source, show)
        return self._images.get(key, lambda: self._draw(scene, target, part, source, show))

    def prompt(self, scene: str, target: str) -> drawing.Prompted:
        """What every model was given: the target's most central point, or its box."""
        from segmeter.core.prompts import Box

        mask = self.shown(scene).targets[target].mask
        if self.plan.rating.prompt == "box":
            return Box(tuple(map(float, mask.low)), tuple(float(h - 1) for h in mask.high))
        return drawing.centre_of(mask)

    def _draw(self, scene: str, target: str, part: str, source: str, show: str) -> bytes:
        shown = self.shown(scene)
        if show == "image":
            return drawing.encoded(shown.pixels, image=True)
        mask = self.mask(scene, target, part, source)
        if show in drawing.SCREENS:
            return drawing.encoded(drawing.SCREENS[show](shown.pixels, mask))
        if show in drawing.VIEWS:
            prompt = self.prompt(scene, target)
            return drawing.encoded(drawing.VIEWS[show](shown.pixels, mask, prompt))
        raise NotFound(f"there is no image '{show}'")

    def _show(self, scene: str) -> Shown:
        loaded: Any = self.dataset.load(scene)
        if loaded.name not in self._checked:
            loaded.check()
            self._checked.add(loaded.name)
        pixels = drawing.shrunk(loaded.pixels, self.plan.largest_side)
        size = (pixels.shape[0], pixels.shape[1])
        targets = {}
        for target in loaded.targets:
            mask = drawing.shrunk_mask(target.mask, size)
            ignore = None if target.ignore is None else drawing.shrunk_mask(target.ignore, size)
            targets[target.id] = Target(target.id, mask, ignore, target.label, target.groups)
        return Shown(loaded, pixels, targets)

    def _described(self, scene: str, target: str, language: str) -> str:
        given = self.plan.descriptions.get(f"{scene}/{target}", {})
        return given.get(language) or given.get("") or next(iter(given.values()), "")

    def _wanted(self, scene: str, target: Target, shrink: float) -> bool:
        chosen, name = self.plan.targets, target.id
        if chosen and name not in chosen and f"{scene}/{name}" not in chosen:
            return False
        least = self.plan.rating.least_area if self.plan.kind == "rate" else 1
        return target.mask.area * shrink**2 >= least

    def _check_named(self, known: set[str]) -> None:
        """Refuse names of targets that the data lacks: what was misspelt would not be shown."""
        named = {"[data] targets": self.plan.targets, "[descriptions]": self.plan.descriptions}
        for where, names in named.items():
            for name in names:
                if name not in known:
                    hint = near(name, known)
                    raise BadInput(f"{where}: no scene that is shown has a target '{name}'{hint}")

    def _check_references(self, known: Sequence[str]) -> None:
        """Refuse masks with known answers whose target the data lacks."""
        for name, references in self.plan.rating.known.items():
            for each in references:
                targets = self.dataset.load(each.scene).targets if each.scene in known else ()
                if each.target not in [target.id for target in targets]:
                    where = f"'{each.scene}/{each.target}'"
                    raise BadInput(f"[[rating.{name}]]: the data set has no target {where}")

    def _check_described(self, bare: Sequence[tuple[str, str]]) -> None:
        """Refuse a plan with a mode that shows words where targets have none."""
        if not bare or not any(mode.told for mode in self.plan.modes):
            return
        scene, target = bare[0]
        more = f", nor have {len(bare) - 1} more" if len(bare) > 1 else ""
        raise BadInput(
            f"'{scene}/{target}' has no description, which a mode shows{more}; "
            "write them under [descriptions] or leave the targets out"
        )


class _Kept(Generic[Made]):
    """The most recently used values, so many of them, or so many bytes."""

    def __init__(self, many: int, most_bytes: int = 0) -> None:
        self._many, self._most_bytes = many, most_bytes
        self._values: OrderedDict[Hashable, Made] = OrderedDict()
        self._lock = threading.Lock()
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        made = make()  # outside of the lock: two may make the same, none waits for another's
        with self._lock:
            if key not in self._values:
                self._values[key] = made
                self._bytes += self._size(made)
            while len(self._values) > self._many or self._too_heavy():
                _, dropped = self._values.popitem(last=False)
                self._bytes -= self._size(dropped)
        return made

    def _too_heavy(self) -> bool:
        return bool(self._most_bytes) and self._bytes > self._most_bytes and len(self._values) > 1

    @staticmethod
    def _size(value: object) -> int:
        return len(value) if isinstance(value, bytes) else 0


def _open(plan: Plan, roots: Roots) -> Any:
    spec = Spec.parse(plan.dataset)
    folder = plan.folder / spec.name
    if folder.is_dir():
        return catalogue.datasets.make("folder", path=str(folder), **spec.options)
    return catalogue.datasets.make(spec.name, **{**roots.options(), **spec.options})


def _iou(ground_truth: Mask, prediction: Mask) -> float:
    union = (ground_truth | prediction).area
    return ground_truth.overlap(prediction) / union if union else 1.0
