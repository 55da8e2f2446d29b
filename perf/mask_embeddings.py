"""Do a SAM's image features group objects by class? A probe with numbers, as a table.

    python perf/mask_embeddings.py --data ../shared/data --weights ../shared/weights --device cuda

Embeds all objects of coco80 (`--dataset`, `--limit N` images) with MobileSAM and SAM 2 tiny and
prints retrieval within and across images, k-NN accuracy and pair AUROC next to chance, a colour
histogram and the shape of the mask, with intervals over images: the table of docs/embeddings.md.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

import segmeter
from retrieval import cosines, knn_accuracy, pair_auroc, retrieval
from segmeter.core.masks import Mask


def shape_vector(mask: Mask) -> npt.NDArray[np.float64]:
    """A control: log area, log aspect, share of the box, and the centre, relative to the image."""
    height, width = (b - a for a, b in zip(mask.low, mask.high, strict=True))
    y, x = np.argwhere(mask.bits).mean(axis=0) + mask.low
    rows, columns = mask.shape
    area = mask.area
    return np.array(
        [np.log(area), np.log(height / width), area / (height * width), y / rows, x / columns]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--weights", type=Path, default=Path("../shared/weights"))
    parser.add_argument("--dataset", default="coco", help="coco is read from DATA/coco80")
    parser.add_argument("--model", action="append")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--limit", type=int)
    asked = parser.parse_args()
    place = asked.data / "coco80" if asked.dataset == "coco" else asked.data
    data = segmeter.load_dataset(asked.dataset, place)
    rows = {}
    for name in [*(asked.model or ("mobile-sam", "sam2-hiera-tiny")), "colours"]:
        begun = time.perf_counter()
        full = name if name == "colours" else f"{name}?device={asked.device}"
        found, _ = segmeter.embed_masks(full, data, weights=asked.weights, limit=asked.limit)
        rows[name] = found.similarity()
        print(
            f"{name}: {len(found.scenes)} objects, {time.perf_counter() - begun:.0f} s", flush=True
        )
    shapes = np.array(
        [
            shape_vector(t.mask)
            for s in [data.load(n) for n in data.names[: asked.limit]]
            for t in s.targets
        ]
    )
    shapes = (shapes - shapes.mean(axis=0)) / shapes.std(axis=0)
    rows["shape"] = -np.linalg.norm(shapes[:, None] - shapes[None], axis=2)
    rng = np.random.default_rng(0)
    rows["random vectors"] = cosines(rng.normal(size=(len(shapes), 32)))
    names = sorted(set(found.labels))
    classes = [names.index(label) for label in found.labels]
    images = [sorted(set(found.scenes)).index(scene) for scene in found.scenes]
    table(rows, classes, images)


def table(rows: dict[str, np.ndarray], classes: list[int], images: list[int]) -> None:
    heads = ["mAP in image", "recall@1 in image", "mAP across", "recall@1 across", "pair AUROC",
             "1-NN (balanced)", "5-NN (balanced)", "mAP across minus colours"]  # fmt: skip
    print("\n| features | " + " | ".join(heads) + " |\n|---|" + "---|" * len(heads))
    colours = retrieval(rows["colours"], classes, images, same_image=False)
    for name, similar in rows.items():
        cells = []
        for same in (True, False):
            found = retrieval(similar, classes, images, same_image=same)
            for values in (found.precision, found.recall):
                i = found.interval(images, values)
                cells.append(f"{i.value:.3f} [{i.low:.3f}, {i.high:.3f}]")
        cells.append(f"{np.mean(pair_auroc(similar, classes, images)):.3f}")
        for k in (1, 5):
            plain, balanced, _ = knn_accuracy(similar, classes, images, k)
            cells.append(f"{plain:.3f} ({balanced:.3f})")
        gap = colours.interval(images, found.precision - colours.precision)
        cells.append(f"{gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]")
        print(f"| {name} | " + " | ".join(cells) + " |")
    for same in (True, False):
        found = retrieval(rows["colours"], classes, images, same_image=same)
        where = "in image" if same else "across images"
        print(f"chance {where}: {found.chance.mean():.3f} ({len(found.queries)} queries)")


if __name__ == "__main__":
    main()
