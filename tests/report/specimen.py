"""A page with every kind of block on it, and a hostile name wherever a name can stand."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from segmeter.core.masks import Mask
from segmeter.core.prompts import Box, Click, Scribble, Text
from segmeter.core.scenes import SceneHeader
from segmeter.core.sections import (
    Answer,
    Axis,
    Bars,
    Chart,
    Column,
    Frame,
    Gallery,
    Greys,
    Illustration,
    Label,
    Line,
    Multiples,
    Note,
    Outline,
    Part,
    Points,
    Replay,
    Section,
    Slices,
    Table,
    Value,
)
from segmeter.report.page import Page

HOSTILE = "<script>alert('x')</script>\"&'<b>"


def disc(radius: int, size: int = 96, y: int = 48, x: int = 48) -> Mask:
    rows, columns = np.mgrid[:size, :size]
    return Mask.of((rows - y) ** 2 + (columns - x) ** 2 <= radius**2)


def pixels(size: int = 96) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (size, size, 3), dtype=np.uint8)


def table() -> Table:
    return Table(
        "specimen",
        [
            Column("model"),
            Column("seconds", "s", 1, better="lower", plot=True),
            Column("share", "%", 1, percent=True, shade=True),
            Column("count", digits=0),
        ],
        [
            [Label(f"a {HOSTILE}", protocol="corrected"), Value(2.5, 1.0, 4.0), 0.25, 10],
            [Label("b", protocol="published"), Value(1.5, 1.2, 2.0), 0.5, 9],
            ["c", Value(None), None, 11],
        ],
        caption=f"A table {HOSTILE}",
    )


def replay(key: str, title: str) -> Replay:
    prompts = [Click((48, 48)), Click((20, 20), positive=False), Box((10, 10), (80, 80)), None]
    frames = [
        Frame(disc(r), (prompt,) if prompt else (), {"IoU": 0.3 * (k + 1)}, 0.1, HOSTILE)
        for k, (r, prompt) in enumerate(zip((10, 20, 25, 25), prompts, strict=True))
    ]
    return Replay(key, title, Illustration(pixels()), frames, disc(30), 0.9)


def ball(radius: int, middle: tuple[int, int, int] = (8, 20, 30)) -> Mask:
    z, y, x = np.mgrid[:16, :40, :50]
    return Mask.of(
        (z - middle[0]) ** 2 * 4 + (y - middle[1]) ** 2 + (x - middle[2]) ** 2 <= radius**2
    )


def slices(key: str) -> Slices:
    """A volume whose voxels tell their place: brighter to the head, the front, the right."""
    z, y, x = np.mgrid[:16, :40, :50]
    voxels = (4 * z + 2 * y + 2 * x).astype(np.uint8)
    steps = [
        Frame(ball(6), (Click((8, 20, 30)),), {"Dice": 0.4}, note=HOSTILE),
        Frame(ball(9), (Click((5, 10, 12), positive=False), Box((4, 8, 9), (9, 20, 30)))),
    ]
    # The file counts slices from the head, and its voxels stand for -1000 to 1400 HU.
    affine = ((0.0, 0.0, 1.0, -20.0), (0.0, 1.0, 0.0, 5.0), (2.0, 0.0, 0.0, -30.0), (0, 0, 0, 1.0))
    header = SceneHeader("volume", voxels.shape, (2.0, 1.0, 1.0), affine)
    greys = Greys((-1000.0, -160.0, 240.0, 1400.0), "HU", {"lung": (-1350.0, 150.0)})
    numbers = (("k", 15, -1), ("j", 0, 1), ("i", 0, 1))
    return Slices(
        key, HOSTILE, voxels, steps, ball(10), HOSTILE,
        header=header, greys=greys, numbers=numbers,
    )  # fmt: skip


def image_file(kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels()).save(file, kind)
    return file.getvalue()


def page() -> Page:
    rounds = np.arange(1, 6)
    curve = Line(HOSTILE, rounds, rounds / 6, rounds / 8, rounds / 5.5)
    other = Line("b", rounds, 0.9 - rounds / 20, role="step")
    guide = Line("F = 0.5", [0.34, 1.0], [1.0, 0.34], role="guide")
    dots = Points("people", [0.8], [0.7], [HOSTILE], [0.6], [0.8])
    chart = Chart(
        f"A chart {HOSTILE}",
        Axis("recall", 0, 1),
        Axis("precision", 0, 1),
        [guide, Line("c", [0.1, 0.5], [0.9, 0.4]), dots],
    )
    small = Chart("small", Axis("round"), Axis("IoU, %", percent=True), [curve, other])
    said = (Click((48, 48)), Scribble(((1, 1), (5, 9))), Text("cat"))
    shown = Illustration(
        pixels(),
        f"**{HOSTILE}**",
        close=True,
        prompts=said,
        link="replay-2",
        outlines=(Outline(disc(20), "ground_truth", HOSTILE), Outline(disc(5), "false_negatives")),
    )
    return Page(
        HOSTILE,
        "every kind of block",
        ["a fact", "", HOSTILE],
        [
            Section("Answer", HOSTILE, [Answer(f"**{HOSTILE}** wins", "Or `not`.")]),
            Section("Tables", blocks=[table(), Note(HOSTILE, "warning")]),
            Section("Charts", blocks=[chart, Multiples([small, small], HOSTILE)]),
            Section(
                "Bars",
                blocks=[
                    Bars(
                        "stacked", Axis("s"), ["a", HOSTILE], [Part("x", [1, 2]), Part("y", [2, 0])]
                    ),
                ],
            ),
            Section(
                "Images",
                blocks=[
                    Gallery(
                        [
                            shown,
                            Illustration(image_file("PNG")),
                            Illustration(image_file("JPEG")),
                        ]
                    )
                ],
            ),
            Section("Replays", blocks=[replay("replay-1", HOSTILE), replay("replay-2", "second")]),
            Section("Slices", blocks=[slices("slices-1"), slices("slices-2")]),
            Section("Trail", "Folded.", [Note("inside")], folded=True),
        ],
    )
