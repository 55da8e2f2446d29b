"""The published generator written down plainly, from its description alone, for comparison.

Dense masks, single precision where the original has it, nothing left out to save time. It shares
no code with the generator but the model that answers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from blobs import Blobs, position_image
from scipy import ndimage

from segmeter.core.scenes import Image

ONE = np.float32(1)
EVERY_NEIGHBOUR = np.ones((3, 3), dtype=bool)


def plain_generate(model: Blobs, height: int, width: int, o: Any) -> list[dict[str, Any]]:
    crops = [(0, 0, width, height, 0), *inner_crops(height, width, o)]
    records: list[dict[str, Any]] = []
    for crop in crops:
        found = in_crop(model, height, width, crop, o)
        order = greedy([r["box"] for r in found], [r["score"] for r in found], o.box_nms)
        left, top = crop[:2]
        for i in order:
            x0, y0, x1, y1 = found[i]["box"]
            found[i]["box"] = [x0 + left, y0 + top, x1 + left, y1 + top]
            records.append(found[i])
    if len(crops) > 1:
        areas = [ONE / np.float32(r["crop"][2] * r["crop"][3]) for r in records]
        records = [records[i] for i in greedy([r["box"] for r in records], areas, o.crop_nms)]
    if o.smallest and records:
        for record in records:
            record["mask"], record["changed"] = without_small(record["mask"], o.smallest)
        boxes = [tight(r["mask"]) for r in records]
        scores = [np.float32(0 if r["changed"] else 1) for r in records]
        order = greedy(boxes, scores, max(o.box_nms, o.crop_nms))
        for i in order:
            if records[i]["changed"]:
                records[i]["box"] = boxes[i]
        records = [records[i] for i in order]
    return records


def inner_crops(height: int, width: int, o: Any) -> list[tuple[int, int, int, int, int]]:
    found = []
    for layer in range(1, o.crops + 1):
        side = 2**layer
        overlap = math.trunc(o.overlap * min(height, width) * 2 / side)
        wide = math.ceil((overlap * (side - 1) + width) / side)
        high = math.ceil((overlap * (side - 1) + height) / side)
        for a in range(side):
            for b in range(side):
                x, y = (wide - overlap) * a, (high - overlap) * b
                found.append((x, y, min(x + wide, width), min(y + high, height), layer))
    return found


def in_crop(model: Blobs, height: int, width: int, crop: Any, o: Any) -> list[dict[str, Any]]:
    left, top, right, bottom, layer = crop
    pixels = np.ascontiguousarray(position_image(height, width)[top:bottom, left:right])
    encoded = model.encode(Image("plain", "crop", pixels, []))
    found = []
    for x, y in points_of(o, layer):
        u, v = x * (right - left), y * (bottom - top)
        scores, maps = encoded._at(v, u)
        for score, logits in zip(scores, maps, strict=True):
            if o.score > 0 and not score > np.float32(o.score):
                continue
            strict = np.float32((logits > o.offset).sum())
            loose = np.float32((logits > -o.offset).sum())
            stability = strict / loose if loose else np.float32(np.nan)
            if o.stability > 0 and not stability >= np.float32(o.stability):
                continue
            mask = logits > 0
            box = tight(mask)
            if cut_off(box, crop, height, width):
                continue
            whole = np.zeros((height, width), dtype=bool)
            whole[top:bottom, left:right] = mask
            found.append(
                {
                    "mask": whole,
                    "box": box,
                    "score": score,
                    "stability": stability,
                    "point": (u + left, v + top),
                    "crop": (left, top, right - left, bottom - top),
                }
            )
    return found


def points_of(o: Any, layer: int) -> Any:
    if o.grids is not None:
        return o.grids[layer].tolist()
    n = math.trunc(o.points / o.fewer**layer)
    places = np.linspace(1 / (2 * n), 1 - 1 / (2 * n), n)
    return [(x, y) for y in places for x in places]


def tight(mask: Any) -> list[int]:
    if not mask.any():
        return [0, 0, 0, 0]
    y, x = np.nonzero(mask)
    return [int(x.min()), int(y.min()), int(x.max()), int(y.max())]


def cut_off(box: list[int], crop: Any, height: int, width: int) -> bool:
    moved = [box[0] + crop[0], box[1] + crop[1], box[2] + crop[0], box[3] + crop[1]]
    whole = (0, 0, width, height)
    return any(
        abs(m - c) <= 20 and not abs(m - w) <= 20
        for m, c, w in zip(moved, crop[:4], whole, strict=True)
    )


def greedy(boxes: list[list[int]], scores: list[Any], threshold: float) -> list[int]:
    left = sorted(range(len(boxes)), key=lambda i: (-np.float32(scores[i]), i))
    kept: list[int] = []
    for i in left:
        if not any(overlap(boxes[i], boxes[k]) > threshold for k in kept):
            kept.append(i)
    return kept


def overlap(a: list[int], b: list[int]) -> float:
    p, q = np.array(a, dtype=np.float32), np.array(b, dtype=np.float32)
    wide = max(min(p[2], q[2]) - max(p[0], q[0]), np.float32(0))
    high = max(min(p[3], q[3]) - max(p[1], q[1]), np.float32(0))
    shared = np.float32(wide * high)
    union = (p[2] - p[0]) * (p[3] - p[1]) + (q[2] - q[0]) * (q[3] - q[1]) - shared
    with np.errstate(invalid="ignore"):
        return float(np.float32(shared) / np.float32(union))


def without_small(mask: Any, smallest: int) -> tuple[Any, bool]:
    labels, count = ndimage.label(~mask, EVERY_NEIGHBOUR)
    small = [i for i in range(1, count + 1) if (labels == i).sum() < smallest]
    filled = mask | np.isin(labels, small)
    changed = bool(small)
    labels, count = ndimage.label(filled, EVERY_NEIGHBOUR)
    sizes = [int((labels == i).sum()) for i in range(1, count + 1)]
    if all(size >= smallest for size in sizes):
        return filled, changed
    stay = [i for i in range(1, count + 1) if sizes[i - 1] >= smallest]
    if not stay:
        largest = [i for i in range(1, count + 1) if sizes[i - 1] == max(sizes)]
        stay = [min(largest, key=lambda i: first_block(labels == i))]
    return np.isin(labels, stay), True


def first_block(region: Any) -> tuple[int, int]:
    y, x = np.nonzero(region)
    return min(zip((y // 2).tolist(), (x // 2).tolist(), strict=True))
