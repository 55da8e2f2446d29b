"""Single objects of a run, with their images, sessions and slices, as reports show them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.core import sections as page
from segmeter.core.benchmarks import Group, Results, Row, once_per_run
from segmeter.core.capabilities import HasScanInfo
from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.grouping import grouped_pairs
from segmeter.core.masks import Mask
from segmeter.core.prompts import round_from_json
from segmeter.core.scenes import Scene, Target, Volume
from segmeter.datasets.volumes.cases import WINDOWS
from segmeter.models.volumes.slices import prepared
from segmeter.stats.statistics import G
from segmeter.users.simulation import mask_of

Key = tuple[str, str]
"""Scene and target."""

NO_MASKS = page.Note("Masks were not kept in this run, so objects cannot be shown.", "warning")


@dataclass(frozen=True, slots=True)
class Case:
    """One target with its scene, whose image is available; `dataset` as the run names it."""

    dataset: str
    key: Key
    scene: Scene
    target: Target

    @property
    def title(self) -> str:
        return object_title(*self.key, self.target.label, several=len(self.scene.targets) > 1)

    def drawn(
        self,
        caption: str,
        alt: str = "",
        *,
        mask: Mask | None = None,
        name: str = "",
        pixels: npt.NDArray[np.uint8] | None = None,
        **more: Any,
    ) -> page.Illustration:
        """The object's neighbourhood with its ground truth, and a mask of that name.

        `more` are prompts and the link of the illustration.
        """
        outlines = [page.Outline(self.target.mask, "ground_truth", "the ground truth")]
        outlines += [] if mask is None else [page.Outline(mask, "prediction", name)]
        shown = self.scene.pixels if pixels is None else pixels
        return page.Illustration(shown, caption, alt, outlines=outlines, close=True, **more)

    def replay(
        self,
        key: str,
        subtitle: str,
        frames: Sequence[page.Frame],
        goal: float | None,
        caption: str,
    ) -> page.Replay:
        """A session on the object; `subtitle` follows its title."""
        image = page.Illustration(self.scene.pixels, close=True)
        name = f"{self.title}, {subtitle}"
        return page.Replay(key, name, image, frames, self.target.mask, goal, caption)


def painted(pixels: npt.NDArray[Any], values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """An image in grey under values 0 to 1 in colour, NaN where it shows through."""
    known = ~np.isnan(values)
    grey = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)
    base = np.repeat((grey.astype(np.float64) * 0.6 + 90)[..., None], 3, axis=2)
    base[known] = 0.15 * base[known] + 0.85 * colours(values)[known]
    return base.astype(np.uint8)


def colours(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Values 0 to 1 as cividis, dark for low: distinct in grey and for colour-blind readers."""
    levels = np.clip(np.nan_to_num(values) * 255, 0, 255).astype(np.uint8)
    return np.asarray(cv2.applyColorMap(levels, cv2.COLORMAP_CIVIDIS)[..., ::-1], dtype=np.uint8)


def object_title(scene: str, target: str, label: str = "", *, several: bool = False) -> str:
    """An object's name; its class is used in place of a number or a meaningless name.

    `several` is whether the scene has other objects, so that a number is needed.

    >>> object_title("beach", "1"), object_title("beach", "dog"), object_title("beach", "7", "kite")
    ('beach', 'beach, dog', 'beach, kite (7)')
    """
    if label and target.isdecimal():
        return f"{scene}, {label} ({target})"
    plain = ("", scene, "object") if several else ("", scene, "0", "1", "object")
    return scene if target in plain else f"{scene}, {target}"


def available_cases(run: Results, places: Iterable[tuple[str, Key]]) -> tuple[list[Case], str]:
    """Cases by dataset and key, their images read, or the reason why they cannot be shown."""
    made = []
    try:
        for dataset, key in places:
            scene = run.scene(dataset, key[0])
            if scene.header.kind != "image":
                why = "they are volumes; 'segmeter run volumes' has a page to scroll through"
                return [], why
            target = next((t for t in scene.targets if t.id == key[1]), None)
            if target is None:
                return [], "the dataset no longer holds the targets that were scored"
            scene.pixels  # noqa: B018  # read now: a missing image raises here
            made.append(Case(dataset, key, scene, target))
    except SegmeterError as error:
        return [], str(error)
    return made, ""


def values_by_key(
    groups: Iterable[G], values: Callable[[G], Iterable[float]]
) -> dict[Key, list[float]]:
    """The values of every object, one for each group that has it."""
    pairs = (zip(group.keys, values(group), strict=True) for group in groups)
    return grouped_pairs((key, float(value)) for own in pairs for key, value in own)


def session_rows(run: Results, group: Group, key: Key, users: Collection[str]) -> list[Row]:
    """The rows of some users on one target in the group's protocol, round by round."""
    scene, target = key
    job = (group.model, group.dataset, scene)
    return [
        row
        for row in once_per_run(run, f"rows of {job}", lambda: run.job_rows(*job))
        if (row["protocol"], row["target"]) == (group.protocol, target) and row["user"] in users
    ]


def session_frames(
    run: Results,
    group: Group,
    case: Case,
    users: Collection[str],
    note: Callable[[Row], str] = lambda row: "",
) -> list[page.Frame]:
    """The rounds of some users on a case; none where masks were not kept or are damaged."""
    rows, made = session_rows(run, group, case.key, users), []
    if any(row["mask"] is None for row in rows):
        return []
    for row in rows:
        named = {"IoU": row["iou"], "boundary": row.get("boundary_iou")}
        scores = {name: value for name, value in named.items() if value is not None}
        try:
            mask, prompts = mask_of(row, case.scene.shape), round_from_json(row["prompt"])
        except BadInput:  # a run that was damaged or made up
            return []
        seconds = row["seconds_predict"] if prompts else None
        made.append(page.Frame(mask, prompts, scores, seconds, note(row)))
    return made


def volume_slices(
    scene: Volume,
    key: str,
    title: str,
    frames: Sequence[page.Frame] = (),
    ground_truth: Mask | None = None,
    caption: str = "",
) -> page.Slices:
    """A volume to scroll through: voxels as codes of a wide range, modality and window named."""
    shown = prepared(scene, "sam", "corrected")
    low, high = shown.range
    knots = (min(low, float(scene.voxels.min())), low, high, max(high, float(scene.voxels.max())))
    ct = shown.modality.startswith("CT")
    greys = page.Greys(knots, "HU" if ct else "", WINDOWS if ct else {})
    modality = shown.modality or "Unknown modality"
    return page.Slices(
        key,
        title,
        np.stack([greys.codes(plane) for plane in scene.voxels]),
        frames,
        ground_truth,
        f"{caption} {modality}, shown to networks from {low:g} to {high:g}.",
        header=scene.header,
        greys=greys,
        numbers=scene.slice_numbers if isinstance(scene, HasScanInfo) else page.SCENE_NUMBERS,
    )
