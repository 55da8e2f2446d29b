"""Checks of data: the contents of a dataset, and problems that would affect a benchmark."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from segmeter.core.errors import SegmeterError
from segmeter.core.scenes import Dataset, Image, Scene, Target, Volume, size_in_words
from segmeter.core.sections import (
    Block,
    Column,
    Gallery,
    Illustration,
    Note,
    Outline,
    Section,
    Table,
)
from segmeter.core.videos import FrameMasks, Video
from segmeter.core.wording import counted, some
from segmeter.datasets.volumes.cases import FileVolume
from segmeter.models.volumes.slices import prepared
from segmeter.report.page import Page, render
from segmeter.store.local import write_file

_TINY = 16  # pixels: less is a slip of the pen, or another scale
_COVERING = 0.98  # of the image
_SHOWN = 24
_ORGANS = 6
_OUTLINED = "Each image with the outlines of its objects, as a benchmark takes them."
_WINDOWED = "Networks see values from the darkest to the brightest shown; change it with window=."


@dataclass(frozen=True, slots=True)
class VolumeFacts:
    """Facts to check at a glance: size, spacing, modality, window, volumes of organs."""

    scene: str
    size: str
    spacing: str
    modality: str
    window: str
    organs_ml: dict[str, float]
    patient: str = ""
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, scene: Volume) -> VolumeFacts:
        """Size and spacing are along x, y, z, as files and viewers print them."""
        seen = prepared(scene, "sam", "corrected")
        low, high = seen.range
        spacing = scene.spacing_mm or (1.0, 1.0, 1.0)
        ml = math.prod(spacing) / 1000
        return cls(
            scene.id,
            " x ".join(str(n) for n in scene.shape[::-1]),
            " x ".join(f"{side:.3g}" for side in spacing[::-1]) + " mm",
            seen.modality,
            f"{low:g} to {high:g}" + (" HU" if seen.modality.startswith("CT") else ""),
            {t.id: t.mask.area * ml for t in scene.targets},
            next((t.groups.get("patient", "") for t in scene.targets), ""),
            tuple(_warnings(scene, seen.modality, low, high)),
        )

    def sentence(self) -> str:
        organs = some([f"{name} {ml:.1f} ml" for name, ml in self.organs_ml.items()], _ORGANS)
        seen = f"{self.modality or 'modality unknown'}, shown from {self.window}"
        of = f" of patient {self.patient}" if self.patient else ""
        return f"{self.scene}{of}: {self.size}, {self.spacing}; {seen}; {organs}"


def _warnings(scene: Volume, modality: str, low: float, high: float) -> Iterator[str]:
    """Warnings of a window that looks like level and width, and of DICOM without a frame."""
    if modality.startswith("CT") and low > 0:
        ends = f"{low - high / 2:g},{low + high / 2:g}"
        yield (
            f"the window hides everything below {low:g} HU; window= takes the lowest and highest"
            f" value (level {low:g}, width {high:g} is window={ends})"
        )
    if isinstance(scene, FileVolume) and not scene.has_frame_of_reference:
        yield "DICOM without FrameOfReferenceUID cannot be exported with --format dicom-seg"


@dataclass(frozen=True, slots=True)
class VideoFacts:
    """Facts to check at a glance: frames, size, and in how many frames each object is."""

    scene: str
    frames: int
    size: str
    objects: dict[str, str]

    @classmethod
    def of(cls, scene: Video) -> VideoFacts:
        for t in range(len(scene)):
            scene.frame(t)  # decoded, so that a broken one is found
        masks = {t.id: t.mask for t in scene.targets if isinstance(t.mask, FrameMasks)}
        seen = {k: f"in {len(m.present)} of {len(m.known)}" for k, m in masks.items()}
        return cls(scene.id, len(scene), size_in_words(scene.shape[1:]), seen)

    def sentence(self) -> str:
        objects = (f"; object {k} {where} annotated frames" for k, where in self.objects.items())
        return f"{self.scene}: {self.frames} frames of {self.size}{''.join(objects)}"


@dataclass
class Findings:
    """Findings in a dataset: counts, faults one sentence each, scenes to show."""

    name: str
    recognised: str
    scenes: int = 0
    targets: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, str]] = field(default_factory=list)
    shown: list[Scene] = field(default_factory=list)
    volumes: list[VolumeFacts] = field(default_factory=list)
    videos: list[VideoFacts] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """Patients of volumes, and warnings, each once."""
        if not self.volumes:
            return []
        known = [v.patient for v in self.volumes if v.patient]
        others = counted(len(self.volumes) - len(known), "scan")
        who = [
            f"{counted(len(known), 'scan')} of {counted(len(set(known)), 'patient')}",
            f"{others}, each counted as a patient: the data names none; ?patient=PATTERN finds "
            "them in the names of scans",
        ][not known : 1 + (len(known) < len(self.volumes))]
        numbers = [m[1] for name in self.classes if (m := re.fullmatch(r"label-(\d+)", name))]
        named = ",".join(f"{n}:NAME" for n in sorted(numbers, key=int)[:2])
        hint = f"labels have numbers only; name them with ?labels={named} or a dataset.json"
        warned = dict.fromkeys(f"warning: {w}" for v in self.volumes for w in v.warnings)
        return [*who, *([hint] if numbers else []), *warned]


def inspect_dataset(data: Dataset, limit: int | None = None) -> Findings:
    """Read every scene and list problems; no model is run."""
    found = Findings(data.card.name, getattr(data, "recognised", "") or "")
    if limit is None:
        found.faults += getattr(data, "unused", {}).items()
    seen: dict[str, str] = {}
    covered: list[float] = []  # by each target, of its scene
    for name in list(data.scenes())[:limit]:
        found.scenes += 1
        try:
            scene = data.load(name)
            covered += [t.mask.area / math.prod(scene.shape) for t in scene.targets]
            scene.check()
            faults = list(_faults(scene, seen))
            if isinstance(scene, Video):
                found.videos.append(VideoFacts.of(scene))
        except SegmeterError as error:
            found.faults.append((name, _without_name(str(error))))
            continue
        found.targets += len(scene.targets)
        found.classes.update(t.label for t in scene.targets if t.label)
        found.faults += [(name, fault) for fault in faults]
        if isinstance(scene, Volume):
            found.volumes.append(VolumeFacts.of(scene))
        if len(found.shown) < _SHOWN:
            found.shown.append(_flat(scene))
    for what, all_are in (("empty", max(covered, default=1) == 0),
                          ("full", min(covered, default=0) > _COVERING)):  # fmt: skip
        if all_are:
            advice = f"are {what}; check their values, or give kind= if they are read wrongly"
            found.faults.insert(0, ("all masks", advice))
    return found


def _flat(scene: Scene) -> Scene:
    """The image of a scene that a page shows: itself, or the frame or slice with most targets."""
    if isinstance(scene, Video):
        sizes = [sum(x.mask.slice(t).area for x in scene.targets) for t in range(len(scene))]
        t = int(np.argmax(sizes))
        pixels, where = scene.frame(t), f"{scene.id}, frame {t} of {len(scene)}"
        flat = [replace(x, mask=x.mask.slice(t)) for x in scene.targets]
    elif isinstance(scene, Volume):
        count = np.zeros(scene.shape[0])
        for x in scene.targets:
            count[x.mask.low[0] : x.mask.high[0]] += x.mask.bits.any(axis=(1, 2))
        z = int(np.flatnonzero(count == count.max()).mean())
        grey = prepared(scene, "sam", "corrected").slice(z)[::-1, ::-1].astype(np.uint8)
        pixels = np.repeat(grey[:, :, None], 3, axis=2)
        where = f"{scene.id}, axial slice {z + 1} of {scene.shape[0]} from the feet"
        flat = [replace(x, mask=x.mask.slice(z).turned(), ignore=None) for x in scene.targets]
    else:
        return scene
    return Image(scene.dataset, where, pixels, [x for x in flat if x.mask])


def _faults(scene: Scene, seen: dict[str, str]) -> Iterator[str]:
    """Faults of a scene's targets, and whether its image or volume was there before."""
    if not scene.targets:
        yield "has no target; there is nothing to segment"
    content = scene.frame(0) if isinstance(scene, Video) else scene.pixels
    digest = hashlib.sha256(content.tobytes()).hexdigest()
    if seen.setdefault(digest, scene.id) != scene.id:
        yield f"is identical to {scene.header.kind} {seen[digest]}"
    whole = math.prod(scene.shape)
    for target in scene.targets:
        area = target.mask.area
        if area == 0:
            yield f"target {target.id} is empty"
        elif area < _TINY:
            yield f"target {target.id} is tiny ({counted(area, _unit(target))})"
        elif area > _COVERING * whole:
            yield f"target {target.id} covers {100 * area / whole:.0f} % of the {scene.header.kind}"
    for one, other in combinations(scene.targets, 2):
        both = one.mask.overlap(other.mask)
        smaller, larger = sorted((one.mask.area, other.mask.area))
        if smaller and both == smaller == larger:
            yield f"targets {one.id} and {other.id} are the same mask"
        elif smaller and 0.1 * smaller < both < 0.98 * smaller:  # a part lies inside, rightly
            yield f"targets {one.id} and {other.id} overlap in {counted(both, _unit(one))}"


def _unit(target: Target) -> str:
    volume = len(target.mask.shape) == 3 and not isinstance(target.mask, FrameMasks)
    return "voxel" if volume else "pixel"


def write_page(found: Findings, path: Path) -> None:
    """The page as one file: the layout that was recognised, faults, the first scenes."""
    faults: Block = Note("No problems found.")
    if found.faults:
        faults = Table("faults", [Column("scene"), Column("problem")], found.faults)
    colours = {name: place for place, name in enumerate(sorted(found.classes))}
    images = []
    for scene in found.shown:
        named = [(t.mask, t.label or t.id, colours.get(t.label)) for t in scene.targets]
        outlines = [Outline(mask, "group", name, colour) for mask, name, colour in named]
        caption = f"**{scene.id}**: {counted(len(named), 'object')}"
        alt = f"{scene.id} with its objects"
        images.append(Illustration(scene.pixels, caption, alt, outlines=outlines))
    sections = [
        Section("Problems", found.recognised, [faults, *map(Note, found.notes)]),
        Section("The first scenes", _OUTLINED, [Gallery(images)] if images else []),
    ]
    if found.volumes:
        columns = [Column(name) for name in ("case", "size", "spacing", "modality", "shown")]
        columns += [Column("organ"), Column("volume", "ml", digits=1)]
        rows = [
            (v.scene, v.size, v.spacing, v.modality or "unknown", v.window, organ, ml)
            for v in found.volumes
            for organ, ml in v.organs_ml.items()
        ]
        sections.insert(1, Section("Volumes", _WINDOWED, [Table("volumes", columns, rows)]))
    sizes = ((found.scenes, "scene"), (found.targets, "object"), (len(found.classes), "class"))
    facts = [counted(*size) for size in sizes]
    page = Page(f"Check of {found.name}", "what a benchmark would use", facts, sections)
    write_file(path, render(page).encode())


def _without_name(sentence: str) -> str:
    """Faults of a scene, without its name, which the caller prints first.

    >>> _without_name("own/f: target 'object' is empty")
    "target 'object' is empty"
    """
    return re.sub(r"^[^ :]+/[^ :]+: ", "", sentence)
