"""Average recall of 1000 proposals and 100 ground truths an image: ours and pycocotools.

    python perf/detections.py [IMAGES]

Prints seconds of each and their ratio, after checking that the values are equal to 1e-9.
"""

from __future__ import annotations

import contextlib
import io
import sys
from time import perf_counter
from typing import Any

import numpy as np

from segmeter.core.masks import Mask
from segmeter.measures.detections import average_recall

SHAPE = (480, 640)
GROUND_TRUTHS, PROPOSALS = 100, 1000


def drawn(rng: np.random.Generator) -> Mask:
    """An ellipse anywhere, of any size up to a third of the image."""
    high, wide = rng.integers(6, 160, 2)
    top, left = rng.integers(0, SHAPE[0] - high), rng.integers(0, SHAPE[1] - wide)
    y, x = np.mgrid[:high, :wide]
    inside = ((y - high / 2) / (high / 2)) ** 2 + ((x - wide / 2) / (wide / 2)) ** 2 <= 1
    return Mask.of(inside, (int(top), int(left)), SHAPE)


def moved(mask: Mask, rng: np.random.Generator) -> Mask:
    shift = rng.integers(-12, 13, 2)
    bits = np.roll(mask.dense(), tuple(shift), axis=(0, 1))
    return Mask.of(bits)


def data(count: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    rng = np.random.default_rng(0)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for image in range(1, count + 1):
        images.append({"id": image, "height": SHAPE[0], "width": SHAPE[1]})
        masks = [drawn(rng) for _ in range(GROUND_TRUTHS)]
        for mask in masks:
            annotations.append({"id": len(annotations) + 1, "image_id": image, "category_id": 1,
                                "segmentation": mask.to_coco(), "area": mask.area, "iscrowd": 0,
                                "bbox": [0, 0, 1, 1]})  # fmt: skip
        for _ in range(PROPOSALS):
            prediction = moved(masks[rng.integers(GROUND_TRUTHS)], rng)
            found.append({"image_id": image, "category_id": 1, "score": float(rng.random()),
                          "segmentation": prediction.to_coco()})  # fmt: skip
    categories = [{"id": 1, "name": "thing"}]
    return {"images": images, "annotations": annotations, "categories": categories}, found


def by_pycocotools(ground_truth: dict[str, Any], found: list[dict[str, Any]]) -> dict[str, float]:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        library = COCO()
        library.dataset = ground_truth
        library.createIndex()
        evaluator = COCOeval(library, library.loadRes(found), "segm")
        evaluator.params.useCats = 0
        evaluator.params.maxDets = [1000]
        evaluator.evaluate()
        evaluator.accumulate()
    recall = evaluator.eval["recall"][:, 0, :, 0]
    return dict(zip(("all", "small", "medium", "large"), recall.mean(axis=0), strict=True))


def main() -> None:
    ground_truth, found = data(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    start = perf_counter()
    ours = average_recall(ground_truth, found)
    middle = perf_counter()
    theirs = by_pycocotools(ground_truth, [dict(record) for record in found])
    end = perf_counter()
    for name, value in ours.items():
        assert abs(value - theirs[name]) < 1e-9, (name, value, theirs[name])
    print(f"AR@1000 {ours['all']:.4f} on {len(ground_truth['images'])} images, equal to 1e-9")
    print(f"ours {middle - start:.2f} s, pycocotools {end - middle:.2f} s,"
          f" ratio {(end - middle) / (middle - start):.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
