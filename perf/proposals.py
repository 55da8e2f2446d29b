"""Average recall of 1000 proposals and 100 objects per image: a library and ours.

    python perf/proposals.py [--images 3]

Class-agnostic AR@1000 by size. Time is CPU time of everything after the masks are there, as run
lengths for the library and as masks for ours; values must agree to 1e-9. Ends with status 1
where they do not, or where ours is less than 10 x faster than pycocotools.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from segmeter.core.masks import Mask
from segmeter.measures.detections import size_ranges
from segmeter.measures.proposals import average_recall_of, recalled

SHAPE, OBJECTS, PROPOSALS = (480, 640), 100, 1000
Scene = tuple[list[Mask], list[Mask]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=int, default=3)
    count = parser.parse_args().images
    rng = np.random.default_rng(3)
    scenes = [drawn(rng) for _ in range(count)]
    ground_truth, found = coco_layout(scenes)
    theirs, slow = timed(lambda: by_pycocotools(ground_truth, found))
    mine, fast = timed(lambda: ours(scenes))
    worst = max(abs(mine[k] - theirs[k]) for k in theirs)
    each = 1000 / count
    print(f"pycocotools {slow * each:8.1f} ms per image")
    print(f"ours        {fast * each:8.1f} ms, {slow / fast:6.1f} x, off by {worst:.1e}")
    return 0 if worst <= 1e-9 and slow >= 10 * fast else 1


def drawn(rng: np.random.Generator) -> Scene:
    """Ellipses, and proposals that are moved and grown copies of them, or lie anywhere."""
    ground_truths = [
        ellipse(rng.uniform((20, 20), (460, 620)), rng.uniform(6, 70, 2)) for _ in range(OBJECTS)
    ]
    proposals = []
    for k in range(PROPOSALS):
        if k % 3:
            near = ground_truths[int(rng.integers(OBJECTS))]
            centre = (np.array(near.low) + near.high) / 2 + rng.normal(0, 3, 2)
            half = np.array(near.bits.shape) / 2 * rng.uniform(0.8, 1.25, 2)
        else:
            centre, half = rng.uniform((20, 20), (460, 620)), rng.uniform(6, 90, 2)
        proposals.append(ellipse(centre, half))
    return ground_truths, proposals


def ellipse(centre: Any, half: Any) -> Mask:
    low = np.maximum(np.floor(centre - half), 0).astype(int)
    high = np.minimum(np.ceil(centre + half) + 1, SHAPE).astype(int)
    y, x = np.ogrid[low[0] : high[0], low[1] : high[1]]
    inside = ((y - centre[0]) / half[0]) ** 2 + ((x - centre[1]) / half[1]) ** 2 <= 1
    return Mask.of(inside, tuple(low), SHAPE)


def coco_layout(scenes: list[Scene]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    images = [{"id": k, "height": SHAPE[0], "width": SHAPE[1]} for k in range(len(scenes))]
    things: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for k, (ground_truths, proposals) in enumerate(scenes):
        for mask in ground_truths:
            box = [mask.low[1], mask.low[0], *mask.bits.shape[::-1]]
            record: dict[str, Any] = {
                "id": len(things) + 1,
                "image_id": k,
                "category_id": 1,
                "iscrowd": 0,
            }
            things.append(
                {**record, "segmentation": mask.to_coco(), "area": mask.area, "bbox": box}
            )
        for rank, mask in enumerate(proposals):
            record = {"image_id": k, "category_id": 1, "score": 1 - rank / 2000}
            found.append({**record, "segmentation": mask.to_coco()})
    categories = [{"id": 1, "name": "thing"}]
    return {"images": images, "annotations": things, "categories": categories}, found


def by_pycocotools(ground_truth: dict[str, Any], found: list[dict[str, Any]]) -> dict[str, float]:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        loaded = COCO()
        loaded.dataset = ground_truth | {"info": {}}
        loaded.createIndex()
        evaluator = COCOeval(loaded, loaded.loadRes([dict(d) for d in found]), "segm")
        evaluator.params.useCats = 0
        evaluator.params.maxDets = [PROPOSALS]
        evaluator.evaluate()
        evaluator.accumulate()
    recall = evaluator.eval["recall"][:, 0, :, 0]
    return {name: float(recall[:, k].mean()) for k, name in enumerate(size_ranges("published"))}


def ours(scenes: list[Scene]) -> dict[str, float]:
    sizes = size_ranges("published")
    matched = {name: np.zeros(10) for name in sizes}
    objects = dict.fromkeys(sizes, 0)
    for ground_truths, proposals in scenes:
        for name, one in recalled(
            ground_truths, proposals, numbers=(PROPOSALS,), sizes=sizes
        ).items():
            matched[name] += one.matched[0]
            objects[name] += one.objects
    return {n: float(average_recall_of(matched[n], np.array(objects[n]))) for n in sizes}


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    work()
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


if __name__ == "__main__":
    sys.exit(main())
