"""The generator against the plain one on drawn blobs and settings: ties, crops, empties, grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from blobs import Blob, Blobs, position_image
from plain_generator import plain_generate

from segmeter.core.scenes import Image
from segmeter.models.automatic.generator import generate
from segmeter.models.automatic.options import Options


def drawn_blobs(rng: np.random.Generator, height: int, width: int) -> Blobs:
    model = Blobs()
    model.blobs = tuple(
        Blob(
            int(rng.integers(-5, width + 5)),
            int(rng.integers(-5, height + 5)),
            int(rng.integers(3, 30)),
            int(rng.integers(3, 30)),
            tuple(int(n) for n in rng.integers(2, 60, 3)),  # type: ignore[arg-type]
            tuple(int(n) for n in rng.integers(870, 1000, 3)),  # type: ignore[arg-type]
            int(rng.integers(0, 7)),
            int(rng.integers(0, 5)),
        )
        for _ in range(rng.integers(0, 8))
    )
    return model


def drawn_options(rng: np.random.Generator) -> Options:
    some: Any = {
        "points": int(rng.integers(1, 7)),
        "crops": int(rng.integers(0, 3)),
        "fewer": int(rng.integers(1, 3)),
        "overlap": float(rng.choice([0.0, 0.2, 512 / 1500, 0.6])),
        "score": float(rng.choice([-1.0, 0.0, 0.6, 0.88, 0.95])),
        "stability": float(rng.choice([0.0, 0.7, 0.95, 1.0])),
        "offset": float(rng.choice([0.0, 0.5, 1.0, 3.0])),
        "box_nms": float(rng.choice([0.0, 0.3, 0.6, 0.7, 0.8, 1.0])),
        "crop_nms": float(rng.choice([0.3, 0.7, 0.8, 1.0])),
        "smallest": int(rng.choice([0, 0, 1, 12, 60])),
        "batch": int(rng.integers(1, 60)),
    }
    some["points"] = max(some["points"], some["fewer"] ** some["crops"])
    if rng.random() < 0.3:
        some["grids"] = tuple(rng.random((rng.integers(1, 9), 2)) for _ in range(some["crops"] + 1))
    return Options(**some)


@pytest.mark.parametrize("seed", range(60))
def test_drawn_images_and_settings_give_the_plain_generators_records(seed: int) -> None:
    rng = np.random.default_rng([7, seed])
    height, width = (int(n) for n in rng.integers(30, 130, 2))
    model, options = drawn_blobs(rng, height, width), drawn_options(rng)
    wanted = plain_generate(model, height, width, options)
    found = generate(model, Image("blobs", "drawn", position_image(height, width), []), options)
    assert len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        assert np.array_equal(mine.mask.dense(), theirs["mask"])
        assert list(mine.box) == theirs["box"]
        assert np.float32(mine.score) == theirs["score"]
        assert np.array_equal(np.float32(mine.stability), theirs["stability"], equal_nan=True)
        assert mine.point[::-1] == pytest.approx(theirs["point"], abs=1e-9)
        crop = mine.crop
        assert (crop.left, crop.top, crop.shape[1], crop.shape[0]) == theirs["crop"]
