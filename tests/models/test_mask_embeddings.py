"""Geometry of mask embeddings against golden values, and vectors of a real encoder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import segmeter
from segmeter.core.masks import Mask
from segmeter.models.mask_embeddings import cells_on, colour_histogram, embedding_crop, pooled


def drawn(case: Any) -> Mask:
    height, width = case["image"]
    y0, x0, y1, x1 = case["box"]
    bits = np.zeros((height, width), bool)
    if case["shape"] == "ellipse":
        yy, xx = np.mgrid[:height, :width] + 0.5
        down = (yy - (y0 + y1) / 2) / ((y1 - y0) / 2)
        right = (xx - (x0 + x1) / 2) / ((x1 - x0) / 2)
        bits = down**2 + right**2 <= 1
    else:
        bits[y0:y1, x0:x1] = True
    return Mask.of(bits)


def features(size: tuple[int, int], flipped: bool) -> Any:
    c, i, j = np.meshgrid(np.arange(8), np.arange(size[0]), np.arange(size[1]), indexing="ij")
    if flipped:
        return ((2 * c + 3) * i + (3 * c + 2) * j + 2 * c) % 13.0
    return ((3 * c + 1) * i + (2 * c + 5) * j + c) % 17.0


def test_crops_cells_and_vectors_are_the_golden_ones(golden: Path) -> None:
    cases = json.loads((golden / "words" / "mask_embedding.json").read_text())
    for case in cases:
        mask = drawn(case)
        rows, columns = embedding_crop(mask)
        assert [rows.start, columns.start, rows.stop, columns.stop] == case["crop"]
        bits = mask.dense()[rows, columns]
        scale = 1024 / max(bits.shape)
        resized = tuple(int(np.floor(n * scale + 0.5)) for n in bits.shape)
        assert list(resized) == case["resized"]
        vectors = []
        for own, name in ((bits, ""), (bits[:, ::-1], "_flipped")):
            on = cells_on(own, (resized[0], resized[1]))
            assert list(on.shape) == case["cells"]
            assert int(on.sum()) == case[f"cells_on{name}"]
            assert int(np.flatnonzero(on).sum()) == case[f"cells_sum{name}"]
            vectors.append(pooled(features(on.shape, bool(name)), on))
        np.testing.assert_allclose(np.mean(vectors, axis=0), case["embedding"], atol=1e-9)


def test_a_mask_smaller_than_a_cell_takes_the_cell_it_covers_most() -> None:
    bits = np.zeros((64, 64), bool)
    bits[33, 17] = True
    assert np.argwhere(cells_on(bits, (64, 64))).tolist() == [[2, 1]]


def test_histograms_compare_colours_and_ignore_place() -> None:
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:4] = 250
    scene = segmeter.Image("d", "1", pixels, [])
    light, dark = Mask.box((8, 8), (0, 0), (2, 2)), Mask.box((8, 8), (5, 5), (7, 7))
    other = Mask.box((8, 8), (1, 4), (3, 8))
    assert colour_histogram(scene, light) @ colour_histogram(scene, other) == pytest.approx(1)
    assert colour_histogram(scene, light) @ colour_histogram(scene, dark) == 0


def squares(*colours: int) -> segmeter.Dataset:
    """One image with a square of each colour."""
    pixels = np.full((64, 32 * len(colours), 3), 90, np.uint8)
    labels = np.zeros(pixels.shape[:2], int)
    for k, colour in enumerate(colours):
        inside = slice(20, 40), slice(32 * k + 6, 32 * k + 26)
        labels[inside], pixels[inside] = k + 1, colour
    return segmeter.Dataset.from_arrays([pixels], [labels])


@pytest.mark.long
@pytest.mark.usefixtures("encoded_once")
def test_equal_objects_have_near_vectors_of_a_real_encoder(real_weights: Path) -> None:
    """MobileSAM on two crops, each also flipped."""
    found, _ = segmeter.embed_masks("mobile-sam", squares(250, 250), weights=real_weights)
    assert found.vectors.shape == (2, 256)
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1)
    assert found.vectors[0] @ found.vectors[1] > 0.9


def test_neighbours_and_unusual_objects_are_found_kept_and_shown(tmp_path: Path) -> None:
    found, images = segmeter.embed_masks("colours", squares(250, 250, 10))
    assert found.nearest(0, 1)[0][0] == 1
    assert found.unusual(1)[0][0] == 2
    stored = np.load(found.save(tmp_path / "masks.npz"))
    np.testing.assert_allclose(stored["vectors"], found.vectors, atol=1e-6)
    assert found.save(tmp_path / "masks.parquet").stat().st_size > 1000
    page = found.page(tmp_path / "masks.html", images).read_text()
    assert "3 objects" in page
    assert "http" not in page.replace("http-equiv", "")


def test_annotate_next_covers_the_data_and_leaves_out_annotated_objects() -> None:
    found, _ = segmeter.embed_masks("colours", "mini", limit=3)
    chosen = found.annotate_next(5)
    assert len(set(chosen)) == 5
    assert not set(found.annotate_next(5, annotated=chosen)) & set(chosen)
    assert all(value >= 0.9 for _, _, value in found.near_duplicates(0.9))
