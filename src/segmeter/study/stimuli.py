"""Stimuli: the images that participants see, rendered by the server from scenes and masks.

Images larger than the plan allows are shrunk once, with their masks; all coordinates of a study
refer to the shown size. File names of the data never leave the server.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import KnowsItsScan
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import Scene, Target, Volume
from segmeter.datasets.image_files import image_size
from segmeter.datasets.mask_files import object_in, told_from
from segmeter.report.slices import mosaic
from segmeter.runtime.remote_files import Roots
from segmeter.study import drawing
from segmeter.study.plan import Masks, Plan, near

__all__ = ["Stimuli"]

_KEPT_BYTES = 256 << 20
_KEPT_SCENES = 32
_MOST_VOXELS = 1 << 27
_CT_WINDOW, _AIR = (-160.0, 240.0), -500


@dataclass(frozen=True, slots=True)
class Shown:
    """A scene as shown, and the masks of its targets, shrunk alike.

    Pixels are `(H, W, 3)`. Those of a volume are grey `(Z, H, W)`, axial slices as radiologists
    see them (front up, the patient's right on the left); a target's mask is then that of the slice
    with most of it, named in `slices`.
    """

    scene: Scene
    pixels: npt.NDArray[np.uint8]
    targets: dict[str, Target]
    slices: Mapping[str, int]

    @property
    def depth(self) -> int:
        """The number of slices; 0 for an image."""
        return self.scene.shape[0] if isinstance(self.scene, Volume) else 0

    @property
    def size(self) -> tuple[int, int]:
        height, width = self.pixels.shape[1:] if self.depth else self.pixels.shape[:2]
        return height, width

    @property
    def columns(self) -> int:
        """Slices in a row of the image that holds them all."""
        return max(1, math.isqrt(self.depth))

    def plane(self, target: str) -> npt.NDArray[np.uint8]:
        """The image that shows a target: the image itself, or a slice."""
        if not self.depth:
            return self.pixels
        return np.repeat(self.pixels[self.slices[target], :, :, None], 3, axis=2)

    def fitted(self, mask: Mask) -> dict[int, Mask]:
        """A mask of the scene at the shown size, slice by slice; an image is slice 0."""
        if not self.depth:
            return {0: drawing.shrunk_mask(mask, self.size)}
        low, high = (mask.low[0], mask.high[0]) if mask else (0, 0)
        return {z: drawing.upright(mask.slice(z)) for z in range(low, high) if mask.slice(z)}

    def scene_point(self, y: float, x: float, z: int = 0) -> tuple[float, ...]:
        """The scene's pixel or voxel under a point of the shown image or slice."""
        sides = self.scene.shape[-2:]
        scaled = (int(v * s / n) for v, s, n in zip((y, x), sides, self.size, strict=True))
        down, across = (min(v, s - 1) for v, s in zip(scaled, sides, strict=True))
        if not self.depth:
            return float(down), float(across)
        return float(z), float(sides[0] - 1 - down), float(sides[1] - 1 - across)


class Stimuli:
    """Scenes, targets and images of a plan; safe to use from several threads."""

    def __init__(self, plan: Plan, roots: Roots | None = None) -> None:
        self.plan = plan
        self.roots = roots or Roots()
        self.dataset = _open(plan, self.roots)
        self.shown = lru_cache(_KEPT_SCENES)(self._show)
        self._images = _KeptImages()
        self._checked: set[str] = set()

    @cached_property
    def sources(self) -> dict[str, RunMasks | MaskFolder]:
        found = [masks for masks in self.plan.masks if masks.source != "ground_truth"]
        return {masks.name: _open_masks(masks, self.plan.folder) for masks in found}

    @cached_property
    def volumes(self) -> bool:
        """Whether participants go through slices."""
        first = (*self.plan.data.scenes, *self.dataset.scenes())[0]
        return bool(self.dataset.load(first).header.kind == "volume")

    def targets(self) -> list[tuple[str, str]]:
        """All `(scene, target)` that the plan shows."""
        known = self.dataset.scenes()
        for scene in self.plan.data.scenes:
            if scene not in known:
                hint = near(scene, known)
                raise BadInput(f"[data] scenes: the data set has no scene '{scene}'{hint}")
        found: dict[tuple[str, str], bool] = {}  # and whether its description is missing
        names: set[str] = set()
        for scene in self.plan.data.scenes or known:
            loaded = self.dataset.load(scene)  # its pixels are not needed yet
            self._check_kind(loaded)
            shrink = min(1.0, self.plan.data.largest_side / max(loaded.shape))
            for target in loaded.targets:
                names |= {target.id, f"{scene}/{target.id}"}
                if self._wanted(scene, target, shrink):
                    text = self._described(scene, target.id, "en") or target.label
                    found[scene, target.id] = not text
        self._check_named(names)
        self._check_known(known)
        self._check_described([key for key, bare in found.items() if bare])
        return list(found)

    def label(self, scene: str, target: str, language: str) -> str:
        """The description of a target in words: the plan's, or the data's label."""
        return self._described(scene, target, language) or self.shown(scene).targets[target].label

    def mask(self, scene: str, target: str, part: str, source: str) -> Mask:
        """The object of a task, at the shown size."""
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
        return None if found is None else shown.fitted(found)[0]

    def errors_of(self, scene: str, target: str) -> list[tuple[str, str]]:
        """For a second round: `(part, source)` of the mask to show for each kind of error.

        It is the mask of highest IoU not above `best_below` that has such an error (RClicks).
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
                if error and score <= self.plan.design.best_below:
                    best[part] = max(best.get(part, (-1.0, "")), (score, masks.name))
        return [(part, source) for part, (_, source) in best.items()]

    def image(self, scene: str, target: str, part: str, source: str, show: str) -> bytes:
        """One screen or view as a PNG or JPEG file."""
        whole = show == "volume" or (show == "image" and not self.shown(scene).depth)
        key = (scene, show) if whole else (scene, target, part, source, show)
        return self._images.get(key, lambda: self._draw(scene, target, part, source, show))

    def prompt(self, scene: str, target: str) -> drawing.Prompted:
        """The prompt that every model was given: the target's most central point, or its box."""
        from segmeter.core.prompts import Box

        mask = self.shown(scene).targets[target].mask
        if self.plan.rating.prompt == "box":
            return Box(tuple(map(float, mask.low)), tuple(float(h - 1) for h in mask.high))
        return drawing.centre_of(mask)

    def _draw(self, scene: str, target: str, part: str, source: str, show: str) -> bytes:
        shown = self.shown(scene)
        if show == "volume":
            return mosaic(shown.pixels, shown.columns)
        plane = shown.plane(target)
        if show == "image":
            return drawing.encoded(plane, image=True)
        mask = self.mask(scene, target, part, source)
        if show in drawing.SCREENS:
            return drawing.encoded(drawing.SCREENS[show](plane, mask))
        if show in drawing.VIEWS:
            prompt = self.prompt(scene, target)
            return drawing.encoded(drawing.VIEWS[show](plane, mask, prompt))
        raise NotFound(f"there is no image '{show}'")

    def _show(self, scene: str) -> Shown:
        """The scene as participants see it; `shown` keeps the last ones."""
        loaded: Any = self.dataset.load(scene)
        if loaded.name not in self._checked:
            loaded.check()
            self._checked.add(loaded.name)
        if isinstance(loaded, Volume):
            return _shown_volume(loaded)
        pixels = drawing.shrunk(loaded.pixels, self.plan.data.largest_side)
        size = (pixels.shape[0], pixels.shape[1])
        targets = {}
        for target in loaded.targets:
            mask = drawing.shrunk_mask(target.mask, size)
            ignore = None if target.ignore is None else drawing.shrunk_mask(target.ignore, size)
            targets[target.id] = Target(target.id, mask, ignore, target.label, target.groups)
        return Shown(loaded, pixels, targets, {})

    def _check_kind(self, scene: Scene) -> None:
        """Refuse scenes that this kind of study cannot show."""
        kind = scene.header.kind
        if kind == "video" or (kind == "volume" and self.plan.kind != "interact"):
            raise BadInput(
                f"'{scene.name}' is a {kind}; studies show images, and those of kind 'interact' "
                "volumes, too"
            )
        if kind == "volume" and math.prod(scene.shape) > _MOST_VOXELS:
            raise BadInput(
                f"'{scene.name}' has more than {_MOST_VOXELS >> 20} million voxels, too many for a "
                "browser; crop it"
            )

    def _described(self, scene: str, target: str, language: str) -> str:
        given = self.plan.descriptions.get(f"{scene}/{target}", {})
        return given.get(language) or given.get("") or next(iter(given.values()), "")

    def _wanted(self, scene: str, target: Target, shrink: float) -> bool:
        chosen, name = self.plan.data.targets, target.id
        if chosen and name not in chosen and f"{scene}/{name}" not in chosen:
            return False
        least = self.plan.rating.least_area if self.plan.kind == "rate" else 1
        return target.mask.area * shrink**2 >= least

    def _check_named(self, known: set[str]) -> None:
        """Refuse names of targets that the data set lacks."""
        named = {"[data] targets": self.plan.data.targets, "[descriptions]": self.plan.descriptions}
        for where, names in named.items():
            for name in names:
                if name not in known:
                    hint = near(name, known)
                    raise BadInput(f"{where}: no scene that is shown has a target '{name}'{hint}")

    def _check_known(self, known: Sequence[str]) -> None:
        """Refuse practice and check trials whose target the data set lacks."""
        named = [
            (f"[[rating.{where}]]", each.scene, each.target)
            for where in ("training", "gold")
            for each in getattr(self.plan.rating, where)
        ]
        for where in ("practice", "checks"):
            for name in getattr(self.plan.design, where):
                scene, _, target = name.rpartition("/")
                named.append((f"design.{where}", scene, target))
        for where, scene, target in named:
            targets = self.dataset.load(scene).targets if scene in known else ()
            if target not in [each.id for each in targets]:
                raise BadInput(f"{where}: the data set has no target '{scene}/{target}'")

    def _check_described(self, bare: Sequence[tuple[str, str]]) -> None:
        """Refuse a mode that shows descriptions where targets have none."""
        if not bare or not any(mode.has_text for mode in self.plan.modes):
            return
        scene, target = bare[0]
        more = f" ({len(bare) - 1} more lack one too)" if len(bare) > 1 else ""
        raise BadInput(
            f"'{scene}/{target}' has no description, but a mode shows it{more}; "
            "write it under [descriptions] or leave the target out"
        )


class _KeptImages:
    """A cache of the most recently used images, limited in bytes."""

    def __init__(self) -> None:
        self._images: OrderedDict[tuple[str, ...], bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._bytes = 0

    def get(self, key: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
        with self._lock:
            if key in self._images:
                self._images.move_to_end(key)
                return self._images[key]
        made = make()  # outside the lock: two may make the same image, but none waits
        with self._lock:
            if key not in self._images:
                self._images[key] = made
                self._bytes += len(made)
            while self._bytes > _KEPT_BYTES and len(self._images) > 1:
                self._bytes -= len(self._images.popitem(last=False)[1])
        return made


def _shown_volume(volume: Volume) -> Shown:
    """Grey slices in the volume's window, and each target on its largest slice."""
    low, high = _window(volume)
    scale = 255 / max(high - low, 1e-9)
    grey = np.stack([((p - low) * scale).clip(0, 255).round() for p in volume.voxels])
    grey = grey.astype(np.uint8)
    targets, slices = {}, {}
    for target in volume.targets:
        mask = target.mask
        slices[target.id] = z = mask.low[0] + int(mask.bits.sum(axis=(1, 2)).argmax())
        flat = drawing.upright(mask.slice(z))
        targets[target.id] = Target(target.id, flat, None, target.label, target.groups)
    return Shown(volume, np.ascontiguousarray(grey[:, ::-1, ::-1]), targets, slices)


def _window(volume: Volume) -> tuple[float, float]:
    """Darkest and brightest value: the scan's own, soft tissue of CT, or body percentiles."""
    modality, own = (
        (volume.modality, volume.window) if isinstance(volume, KnowsItsScan) else ("", None)
    )
    if own is not None:
        return own
    voxels = volume.voxels
    if modality.startswith("CT") or (not modality and voxels.min() <= _AIR):
        return _CT_WINDOW
    inside = voxels[voxels > voxels.min()]
    low, high = np.percentile(inside if inside.size else voxels, (0.5, 99.5))
    return float(low), float(high)


def dataset_spec(plan: Plan) -> Spec:
    """The plan's data set as `segmeter run` names it; a folder next to the plan by its path."""
    spec = Spec.parse(plan.data.dataset)
    folder = plan.folder / spec.name
    if folder.is_dir():
        return Spec("folder", {"path": str(folder), **spec.options})
    return spec


def _open(plan: Plan, roots: Roots) -> Any:
    spec = dataset_spec(plan)
    given = {} if spec.name == "folder" else roots.options()
    return catalogue.datasets.make(spec.name, **{**given, **spec.options})


def _iou(ground_truth: Mask, prediction: Mask) -> float:
    union = (ground_truth | prediction).area
    return ground_truth.overlap(prediction) / union if union else 1.0


class RunMasks:
    """Masks that a model predicted in one round of a run.

    If several protocols or users took part, the first by name is used.
    """

    def __init__(self, run: Path, model: str, round: int) -> None:
        from segmeter.store import Run

        opened = Run.open(run)
        if "mask" not in opened.sql("select * from rows limit 0").column_names:
            raise BadInput(f"the run '{run}' has no masks; run it again with masks kept")
        table = opened.sql(
            """
            select scene, target, mask from rows
            where model = $model and round = $round and mask is not null
            order by protocol desc, "user" desc, scene, target, dataset desc
            """,
            {"model": model, "round": round},
        )
        self._masks = {(row["scene"], row["target"]): row["mask"] for row in table.to_pylist()}
        if not self._masks:
            raise BadInput(f"the run '{run}' has no masks of the model '{model}' in round {round}")

    def mask(self, scene: str, target: str, shape: tuple[int, ...]) -> Mask | None:
        """The mask of a target in a scene of this shape."""
        text = self._masks.get((scene, target))
        return None if text is None else Mask.decoded(text, shape)


class MaskFolder:
    """PNG files `SCENE_TARGET.png`, or `SCENE.png` for images with one target."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise NotFound(f"[[masks]]: there is no folder '{folder}'")
        self._folder = folder.resolve()

    def mask(self, scene: str, target: str, shape: tuple[int, ...]) -> Mask | None:
        """The mask in the file; its size must be that of the scene."""
        for name in (f"{scene}_{target}.png", f"{scene}.png"):
            path = (self._folder / name).resolve()
            if path.parent == self._folder and path.is_file():
                return _read_png(path, shape)
        return None


def _open_masks(masks: Masks, folder: Path) -> RunMasks | MaskFolder:
    """A source of masks; relative paths start at the plan's folder."""
    if masks.source == "run":
        return RunMasks(folder / masks.run, masks.model, masks.round)
    return MaskFolder(folder / masks.folder)


def _read_png(path: Path, shape: tuple[int, ...]) -> Mask:
    """The object in a file: all non-zero values are foreground."""
    size = image_size(path)
    if size != shape:
        found, wanted = (" x ".join(map(str, sides)) for sides in (size, shape))
        raise BadInput(f"'{path}' is {found} but its scene is {wanted}; give a mask of that size")
    kind = told_from([path])
    return object_in(path, kind if kind in ("soft", "alpha") else "binary", "mask").mask
