"""Draws `images/tandem.png` of the page "Which measure should I use?".

    python docs/measures/tandem.py DATA [OUT.png]

DATA is the folder that holds BSDS500. Images are left out unless `--images` is
given: their owners let them be had for research and education, not handed on.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from PIL import Image

from segmeter.core import catalogue
from segmeter.datasets.bsds500 import Bsds500
from segmeter.measures.boundaries import boundary_counts
from segmeter.measures.hierarchies import partition_at
from segmeter.measures.matching import match
from segmeter.measures.objects_and_parts import RegionClass, region_classes
from segmeter.measures.outlines import outline
from segmeter.measures.partitions import scores
from segmeter.measures.tables import compare, regions

Labels = npt.NDArray[Any]
Colours = npt.NDArray[np.uint8]

BLUE, ORANGE, GREY = (0, 114, 178), (213, 94, 0), (200, 200, 200)
CLASSES = {
    RegionClass.object: (0, 114, 178),
    RegionClass.part: (86, 180, 233),
    RegionClass.fragmented: (240, 228, 66),
    RegionClass.noise: (235, 235, 235),
    RegionClass.small: (255, 255, 255),
}


@dataclass(frozen=True)
class Case:
    image: str
    method: str
    setting: str


CASES = (
    Case("384022", "felzenszwalb", "scale=600"),
    Case("384022", "slic-hierarchy", "0.91"),
    Case("64061", "felzenszwalb", "scale=300"),
    Case("64061", "watershed", "0.81"),
)


def partition(data: Bsds500, case: Case) -> Labels:
    method, scene = catalogue.methods.make(case.method), data.load(case.image)
    if hasattr(method, "sweep"):
        return np.asarray(method.sweep(scene)[case.setting].labels)
    return partition_at(method.segment(scene).levels, float(case.setting))


def boundary_panel(ground_truths: list[Labels], prediction: Labels) -> Colours:
    """Blue: true positives. Orange: false positives. Grey: false negatives."""
    mine, theirs = outline(prediction), [outline(t) for t in ground_truths]
    matched = [match(t, mine) for t in theirs]
    panel = np.full((*prediction.shape, 3), 255, dtype=np.uint8)
    for drawn, partners in zip(theirs, matched, strict=True):
        missed = np.setdiff1d(np.arange(len(drawn)), partners)
        panel.reshape(-1, 3)[drawn.places[missed]] = GREY
    found = np.logical_or.reduce([partners >= 0 for partners in matched])
    panel.reshape(-1, 3)[mine.places] = np.where(found[:, None], BLUE, ORANGE)
    return thicker(panel)


def thicker(panel: Colours) -> Colours:
    """Lines of two pixels, so that they survive shrinking."""
    for axis in (0, 1):
        panel = np.minimum(panel, np.roll(panel, 1, axis))
    return panel


def region_panel(ground_truths: list[Labels], prediction: Labels) -> Colours:
    classes, _ = region_classes(compare(ground_truths, prediction))
    colours = np.array([CLASSES[RegionClass(value)] for value in classes], dtype=np.uint8)
    panel = colours[regions(prediction).numbers].reshape(*prediction.shape, 3)
    panel.reshape(-1, 3)[outline(prediction).places] = 120
    return panel


def ground_truth_panel(ground_truths: list[Labels]) -> Colours:
    """All people's lines on top of each other: the darker, the more drew there."""
    drawn = np.sum([outline(t).bits() for t in ground_truths], axis=0) / len(ground_truths)
    grey = (255 * (1 - np.minimum(1, 0.25 + drawn) * (drawn > 0))).astype(np.uint8)
    return thicker(np.repeat(grey[..., None], 3, axis=2))


def draw(data: Bsds500, out: Path, images: bool) -> None:
    columns = 4 if images else 3
    figure = Figure(figsize=(3.1 * columns, 2.35 * len(CASES)), layout="constrained")
    panels = figure.subplots(len(CASES), columns)
    for row, case in zip(panels, CASES, strict=True):
        ground_truths, prediction = list(data.partitions(case.image)), partition(data, case)
        counts, found = (
            boundary_counts(ground_truths, prediction),
            scores(ground_truths, prediction),
        )
        row[0].set_title(f"{case.image}: {len(ground_truths)} people", fontsize=9)
        row[0].imshow(ground_truth_panel(ground_truths))
        row[1].set_title(f"{case.method} {case.setting}: F_b {counts.f:.2f}", fontsize=9)
        row[1].imshow(boundary_panel(ground_truths, prediction))
        row[2].set_title(
            f"{regions(prediction).count} regions: F_op {found['fop']:.2f}", fontsize=9
        )
        row[2].imshow(region_panel(ground_truths, prediction))
        if images:
            row[3].imshow(data.load(case.image).pixels)
        for panel in row:
            panel.set(xticks=[], yticks=[])
    figure.savefig(out, dpi=90)
    with Image.open(out) as drawn:  # few colours: a third of the bytes
        small = drawn.convert("RGB").quantize(128)
    small.save(out, optimize=True)


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    if not given:
        sys.exit("usage: python docs/measures/tandem.py DATA [OUT.png] [--images]")
    to = Path(given[1]) if len(given) > 1 else Path(__file__).parent / "images" / "tandem.png"
    to.parent.mkdir(exist_ok=True)
    draw(Bsds500(given[0]), to, "--images" in sys.argv)
