"""Stimuli: the images that participants see, rendered by the server from scenes and masks.

Images larger than the plan allows are shrunk once, with their masks; all coordinates of a study
refer to the shown size. File names of the data never leave the server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.analysis.report_cases import volume_slices
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.prompts import Box
from segmeter.core.scenes import Scene, Target, Volume
from segmeter.core.sections import Slices
from segmeter.datasets.image_files import image_size
from segmeter.datasets.mask_files import infer_kind, object_in
from segmeter.measures.objects import iou
from segmeter.report.replays import mosaic
from segmeter.runtime.remote_files import Roots
from segmeter.study import drawing
from segmeter.study.plan import Plan, in_language, near

MaskSource = Callable[[str, str, tuple[int, ...]], Mask | None]
"""Gives the mask of a target in a scene of a shape; None where there is none."""
_KEPT_IMAGES, _KEPT_VOLUMES, _KEPT_SCENES = 100, 8, 32
_MOST_VOXELS = 1 << 27


@dataclass(frozen=True, slots=True)
class Shown:
    """A scene as shown, and the masks of its targets at the same scale.

    Pixels are `(H, W, 3)`. A volume is shown by the viewer of reports; timed screens show the axial
    slice with most of the target as radiologists see it, named in `slices`, and a target's mask is
    that of this slice.
    """

    scene: Scene
    pixels: npt.NDArray[np.uint8]
    targets: dict[str, Target]
    volume: Slices | None = None
    slices: Mapping[str, int] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """The number of slices; 0 for an image."""
        return 0 if self.volume is None else len(self.pixels)

    @property
    def size(self) -> tuple[int, int]:
        height, width = self.pixels.shape[1:] if self.volume else self.pixels.shape[:2]
        return height, width

    def plane(self, target: str) -> npt.NDArray[np.uint8]:
        """The image that shows a target: the image itself, or a slice."""
        if self.volume is None:
            return self.pixels
        assert self.volume.greys is not None
        codes = self.pixels[self.slices[target], ::-1, ::-1, None]
        return np.repeat(self.volume.greys.windowed(codes), 3, axis=2)

    def fitted(self, mask: Mask) -> Mask:
        """A mask of the scene at the shown size; volumes are shown as they are."""
        return mask if self.depth else drawing.shrunk_mask(mask, self.size)

    def scene_point(self, y: float, x: float, z: int = 0) -> tuple[float, ...]:
        """The scene's pixel under a point of the shown image, or the voxel of a slice."""
        sides = self.scene.shape[-2:]
        scaled = (int(v * s / n) for v, s, n in zip((y, x), sides, self.size, strict=True))
        place = [float(min(v, s - 1)) for v, s in zip(scaled, sides, strict=True)]
        return (float(z), *place) if self.depth else tuple(place)

    def centre(self, target: str) -> tuple[float, ...]:
        """The voxel at the centre of the slice that shows a target."""
        y, x = drawing.centre_of(self.targets[target].mask.turned()).point
        return float(self.slices[target]), y, x


class Stimuli:
    """Scenes, targets and images of a plan; safe to use from several threads."""

    def __init__(self, plan: Plan, roots: Roots | None = None) -> None:
        self.plan = plan
        self.roots = roots or Roots()
        spec = dataset_spec(plan)
        given = {} if spec.name == "folder" else self.roots.options()
        self.dataset = catalogue.datasets.make(spec, **given)
        self.shown = lru_cache(_KEPT_SCENES)(self._show)
        self._drawn = lru_cache(_KEPT_IMAGES)(self._draw)
        self._mosaic = lru_cache(_KEPT_VOLUMES)(lambda scene: mosaic(self.shown(scene).pixels))

    @cached_property
    def sources(self) -> dict[str, MaskSource]:
        """Sources of masks; relative paths start at the plan's folder."""
        root, found = self.plan.folder, {}
        for masks in self.plan.masks:
            if masks.source == "run":
                found[masks.name] = masks_of_run(root / masks.run, masks.model, masks.round)
            elif masks.source == "folder":
                found[masks.name] = masks_in_folder(root / masks.folder)
        return found

    @cached_property
    def volumes(self) -> bool:
        """Whether participants scroll through slices."""
        first = (*self.plan.data.scenes, *self.dataset.scenes())[0]
        return bool(self.dataset.load(first).header.kind == "volume")

    def targets(self) -> list[tuple[str, str]]:
        """All `(scene, target)` that the plan shows."""
        known = self.dataset.scenes()
        for scene in self.plan.data.scenes:
            if scene not in known:
                hint = near(scene, known)
                raise BadInput(f"[data] scenes: the dataset has no scene '{scene}'{hint}")
        found: dict[tuple[str, str], bool] = {}  # and whether its description is missing
        names: set[str] = set()
        least = self.plan.rating.least_area if self.plan.kind == "rate" else 1
        for scene in self.plan.data.scenes or known:
            loaded = self.dataset.load(scene)  # its pixels are not needed yet
            self._check_kind(loaded)
            shrink = min(1.0, self.plan.data.largest_side / max(loaded.shape))
            for target in loaded.targets:
                own = {target.id, f"{scene}/{target.id}"}
                names |= own
                chosen = not self.plan.data.targets or not own.isdisjoint(self.plan.data.targets)
                if chosen and target.mask.area * shrink**2 >= least:
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
        found = self.sources[source](scene, target, shown.scene.shape)
        return None if found is None else shown.fitted(found)

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
            score = iou(ground_truth, prediction)
            for part, error in (
                ("fn", ground_truth - prediction),
                ("fp", prediction - ground_truth),
            ):
                if error and score <= self.plan.design.best_below:
                    best[part] = max(best.get(part, (-1.0, "")), (score, masks.name))
        return [(part, source) for part, (_, source) in best.items()]

    def image(self, scene: str, target: str, part: str, source: str, show: str) -> bytes:
        """One screen or view as a PNG or JPEG file."""
        if show == "volume":
            return self._mosaic(scene)
        if show == "image" and not self.shown(scene).depth:
            return self._drawn(scene, "", "", "", show)
        return self._drawn(scene, target, part, source, show)

    def prompt(self, scene: str, target: str) -> drawing.Prompted:
        """The prompt that every model was given: the target's most central point, or its box."""
        mask = self.shown(scene).targets[target].mask
        if self.plan.rating.prompt == "box":
            return Box.around(mask)
        return drawing.centre_of(mask)

    def _draw(self, scene: str, target: str, part: str, source: str, show: str) -> bytes:
        plane = self.shown(scene).plane(target)
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
        loaded.check()
        if isinstance(loaded, Volume):
            return _shown_volume(loaded)
        pixels = drawing.shrunk(loaded.pixels, self.plan.data.largest_side)
        size = (pixels.shape[0], pixels.shape[1])
        targets = {}
        for target in loaded.targets:
            mask = drawing.shrunk_mask(target.mask, size)
            ignore = None if target.ignore is None else drawing.shrunk_mask(target.ignore, size)
            targets[target.id] = replace(target, mask=mask, ignore=ignore)
        return Shown(loaded, pixels, targets)

    def _check_kind(self, scene: Scene) -> None:
        """Refuse scenes that this kind of study cannot show."""
        kind = scene.header.kind
        if kind == "video" or (kind == "volume" and self.plan.kind != "interact"):
            raise BadInput(
                f"'{scene.name}' is a {kind}; studies of kind 'interact' show images and volumes, "
                "the other kinds images only: export the slices to be judged as images"
            )
        if kind == "volume" and math.prod(scene.shape) > _MOST_VOXELS:
            raise BadInput(
                f"'{scene.name}' has more than {_MOST_VOXELS >> 20} million voxels, too many for a "
                "browser; crop it"
            )

    def _described(self, scene: str, target: str, language: str) -> str:
        return in_language(self.plan.descriptions.get(f"{scene}/{target}", {}), language)

    def _check_named(self, known: set[str]) -> None:
        """Refuse names of targets that the dataset lacks."""
        named = {"[data] targets": self.plan.data.targets, "[descriptions]": self.plan.descriptions}
        for where, names in named.items():
            for name in names:
                if name not in known:
                    hint = near(name, known)
                    raise BadInput(f"{where}: no scene that is shown has a target '{name}'{hint}")

    def _check_known(self, known: Sequence[str]) -> None:
        """Refuse practice and check trials whose target the dataset lacks."""
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
                raise BadInput(f"{where}: the dataset has no target '{scene}/{target}'")

    def _check_described(self, bare: Sequence[tuple[str, str]]) -> None:
        """Refuse a mode that shows descriptions where targets have none."""
        screens = [screen.show for mode in self.plan.modes for screen in mode.screens]
        if not bare or "text" not in screens:
            return
        scene, target = bare[0]
        more = f" ({len(bare) - 1} more lack one too)" if len(bare) > 1 else ""
        raise BadInput(
            f"'{scene}/{target}' has no description, but a mode shows it{more}; "
            "write it under [descriptions] or leave the target out"
        )


def _shown_volume(volume: Volume) -> Shown:
    """The volume for the viewer, and each target on its largest slice."""
    targets, slices = {}, {}
    for target in volume.targets:
        mask = target.mask
        slices[target.id] = z = mask.low[0] + int(mask.bits.sum(axis=(1, 2)).argmax())
        targets[target.id] = replace(target, mask=mask.slice(z).turned(), ignore=None)
    viewed = volume_slices(volume, "", "")
    return Shown(volume, viewed.voxels, targets, viewed, slices)


def dataset_spec(plan: Plan) -> Spec:
    """The plan's dataset as `segmeter run` names it; a folder next to the plan by its path."""
    spec = Spec.parse(plan.data.dataset)
    folder = plan.folder / spec.name
    if folder.is_dir():
        return Spec("folder", {"path": str(folder), **spec.options})
    return spec


def masks_of_run(run: Path, model: str, round: int) -> MaskSource:
    """Masks that a model predicted in one round of a run.

    If several protocols or users took part, the first by name is used.
    """
    from segmeter.store import Run

    opened = Run.open(run)
    if "mask" not in opened.columns("rows"):
        raise BadInput(f"the run '{run}' has no masks; run it again with masks kept")
    table = opened.sql(
        """
        select scene, target, mask from rows
        where model = $model and round = $round and mask is not null
        order by protocol desc, "user" desc, scene, target, dataset desc
        """,
        {"model": model, "round": round},
    )
    masks = {(row["scene"], row["target"]): row["mask"] for row in table.to_pylist()}
    if not masks:
        raise BadInput(f"the run '{run}' has no masks of the model '{model}' in round {round}")

    def mask(scene: str, target: str, shape: tuple[int, ...]) -> Mask | None:
        text = masks.get((scene, target))
        return None if text is None else Mask.decoded(text, shape)

    return mask


def masks_in_folder(folder: Path) -> MaskSource:
    """PNG files `SCENE_TARGET.png`, or `SCENE.png` for images with one target.

    Scenes in folders, such as `zoo/cat`, have their masks in folders.
    """
    if not folder.is_dir():
        raise NotFound(f"[[masks]]: there is no folder '{folder}'")
    inside = folder.resolve()

    def mask(scene: str, target: str, shape: tuple[int, ...]) -> Mask | None:
        for name in (f"{scene}_{target}.png", f"{scene}.png"):
            path = (inside / name).resolve()
            if path.is_relative_to(inside) and path.is_file():
                size = image_size(path)
                if size != shape:
                    found, wanted = (" x ".join(map(str, sides)) for sides in (size, shape))
                    raise BadInput(
                        f"'{path}' is {found} but its scene is {wanted}; give a mask of that size"
                    )
                kind = infer_kind([path])
                return object_in(path, kind if kind in ("soft", "alpha") else "binary", "").mask
        return None

    return mask
