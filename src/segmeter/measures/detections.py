"""Detections scored as COCO and LVIS score them: average precision and average recall.

Ground truth and detections are plain data in COCO's layout, as their JSON files have them.
Numbers are counted by `hotcoco`, a library made for it; boundary numbers and intervals by
`matched_detections`, which gives the library's values for masks and boxes.

Areas: a ground truth's is its field `area`; a detection's is that of its mask, or of its box where
it has only that. `published` counts an object of 32 x 32 pixels as small *and* medium (and
one of 96 x 96 as medium and large), `corrected` as medium (large) only. A number of which there
is nothing to count is NaN.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, Literal

import numpy as np

from segmeter.core.errors import BadInput, NotFound, check_choice
from segmeter.core.models import PROTOCOLS, ProtocolName

__all__ = ["Kind", "check_detections", "coco_scores", "lvis_scores", "size_ranges"]

GroundTruth = Mapping[str, Any]
Detections = Sequence[Mapping[str, Any]]
Kind = Literal["bbox", "segm", "boundary"]

_SMALL, _LARGE, _ENDLESS = 32.0**2, 96.0**2, 1e10
_COCO_NAMES = (
    "ap", "ap50", "ap75", "ap-small", "ap-medium", "ap-large",
    "ar@1", "ar@10", "ar@100", "ar-small", "ar-medium", "ar-large",
)  # fmt: skip
_LVIS_NAMES = {
    "ap": "AP", "ap50": "AP50", "ap75": "AP75", "ap-small": "APs", "ap-medium": "APm",
    "ap-large": "APl", "ap-rare": "APr", "ap-common": "APc", "ap-frequent": "APf",
}  # fmt: skip


def one_object() -> dict[str, Any]:
    """The smallest ground truth, for trying things out: one cup of 4 x 4 pixels in one image.

    >>> [record['area'] for record in one_object()['annotations']]
    [16]
    """
    outline = [[0, 0, 4, 0, 4, 4, 0, 4]]
    box = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4], "area": 16}
    searched: dict[str, Any] = {"neg_category_ids": [], "not_exhaustive_category_ids": []}
    return {
        "images": [{"id": 1, "width": 8, "height": 8} | searched],
        "annotations": [box | {"id": 1, "iscrowd": 0, "segmentation": outline}],
        "categories": [{"id": 1, "name": "cup", "frequency": "f"}],
    }


def size_ranges(protocol: ProtocolName) -> dict[str, tuple[float, float]]:
    """Areas of each size, both ends in it.

    >>> size_ranges("published")["small"]
    (0.0, 1024.0)
    """
    check_choice("protocol", protocol, PROTOCOLS)
    under = (lambda x: math.nextafter(x, 0.0)) if protocol == "corrected" else float
    return {
        "all": (0.0, _ENDLESS),
        "small": (0.0, under(_SMALL)),
        "medium": (_SMALL, under(_LARGE)),
        "large": (_LARGE, _ENDLESS),
    }


def coco_scores(
    ground_truth: GroundTruth,
    found: Detections,
    kind: Literal["bbox", "segm"] = "segm",
    protocol: ProtocolName = "published",
) -> dict[str, float]:
    """COCO's twelve numbers: AP over ten thresholds, AP50, AP75, AP and AR by size.

    For masks a field `bbox` of a detection is left out: with it, evaluators take the box's
    area for the detection's (another AP by size).

    >>> ground_truth = one_object()
    >>> box = {'image_id': 1, 'category_id': 1, 'bbox': [0, 0, 4, 4]}
    >>> coco_scores(ground_truth, [box | {'score': 0.9}], 'bbox')['ap']
    0.9999999999999998
    """
    check_detections(ground_truth, found, kind)
    evaluator = _evaluator(ground_truth, _plain(found, kind), kind, protocol)
    _quietly(evaluator.evaluate, evaluator.accumulate, evaluator.summarize)
    return {n: _known(v) for n, v in zip(_COCO_NAMES, evaluator.stats, strict=True)}


def lvis_scores(
    ground_truth: GroundTruth,
    found: Detections,
    kind: Literal["bbox", "segm"] = "segm",
    protocol: ProtocolName = "published",
    most: int = 300,
) -> dict[str, float]:
    """LVIS's numbers: AP, by size and by how frequent a class is, and AR of `most` an image.

    >>> ground_truth = one_object()
    >>> lvis_scores(ground_truth, [], 'bbox')['ap']
    0.0
    """
    check_detections(ground_truth, found, kind)
    library, loaded = _library(), _loaded(ground_truth)
    results_of = library.LVISResults(loaded, _plain(found, kind), most)
    evaluator = library.LVISeval(loaded, results_of, kind)
    evaluator.params.area_rng = [list(limits) for limits in size_ranges(protocol).values()]
    _quietly(evaluator.run)
    results = evaluator.get_results()
    named = {name: _known(results[key]) for name, key in _LVIS_NAMES.items()}
    recalls = [value for key, value in results.items() if key.startswith("AR@")]
    return named | {f"ar@{most}": _known(recalls[0])}


def average_recall(
    ground_truth: GroundTruth,
    found: Detections,
    most: int = 1000,
    protocol: ProtocolName = "published",
) -> dict[str, float]:
    """Share of the objects that the best `most` masks of each image recall, whatever the class.

    The mean over ten thresholds, for `all`, `small`, `medium` and `large`. Crowd flags are
    not looked at, as LVIS has none.

    >>> ground_truth = one_object()
    >>> average_recall(ground_truth, [])['all']
    0.0
    """
    check_detections(ground_truth, found, "segm", classes=False)
    plain = {
        **ground_truth,
        "annotations": [{**a, "iscrowd": 0} for a in ground_truth["annotations"]],
    }
    evaluator = _evaluator(plain, _of_known_class(ground_truth, found), "segm", protocol)
    evaluator.params.use_cats = False
    evaluator.params.max_dets = [most]
    _quietly(evaluator.evaluate, evaluator.accumulate)
    recall = np.asarray(evaluator.eval["recall"])[:, 0, :, 0]
    return {
        name: float(recall[:, k].mean()) if (recall[:, k] > -1).all() else math.nan
        for k, name in enumerate(size_ranges(protocol))
    }


def of_frequency(ground_truth: GroundTruth, letter: Literal["f", "c", "r"]) -> dict[str, Any]:
    """The ground truth restricted to classes that are frequent, common or rare in LVIS.

    >>> ground_truth = one_object()
    >>> len(of_frequency(ground_truth, 'r')['annotations'])
    0
    """
    kept = {c["id"] for c in ground_truth["categories"] if c.get("frequency") == letter}
    return {
        **ground_truth,
        "annotations": [a for a in ground_truth["annotations"] if a["category_id"] in kept],
    }


def check_detections(
    ground_truth: GroundTruth, found: Detections, kind: Kind = "segm", *, classes: bool = True
) -> None:
    """Refuse detections of other images, of unknown classes, or that are no detections.

    >>> ground_truth = one_object()
    >>> box = {'image_id': 1, 'category_id': 1, 'bbox': [0, 0, 4, 4]}
    >>> check_detections(ground_truth, [box | {'score': 0.9}], 'bbox')
    """
    sizes = {image["id"]: (image["height"], image["width"]) for image in ground_truth["images"]}
    known = {category["id"] for category in ground_truth["categories"]}
    for number, record in enumerate(found, start=1):
        where = f"detection {number}"
        image = _number_of(record, "image_id", where)
        if image not in sizes:
            raise BadInput(
                f"{where} is of image {image}, which is none of the {len(sizes)} of the ground"
                " ground truth; give the detections of these images"
            )
        category = _number_of(record, "category_id", where) if classes else None
        if classes and category not in known:
            raise BadInput(
                f"{where} has the category {category}, which is none of the {len(known)} of the"
                " ground truth; use its category ids"
            )
        score = _field(record, "score", where)
        if not _is_finite(score):
            raise BadInput(f"{where} has the score {_short(score)}; scores are finite numbers")
        if kind == "bbox":
            _check_box(record, sizes[image], where)
        else:
            _field(record, "segmentation", where)


def _check_box(record: Mapping[str, Any], size: tuple[int, int], where: str) -> None:
    box = _field(record, "bbox", where)
    numbers = isinstance(box, Sequence) and len(box) == 4
    if not numbers or not all(map(_is_finite, box)):
        raise BadInput(f"{where} has the box {_short(box)}; a box is x, y, width, height")
    x, y, width, height = box
    if width < 0 or height < 0:
        raise BadInput(f"{where} has a box with sides {width:g} and {height:g}; none is negative")
    if x >= size[1] or y >= size[0] or x + width <= 0 or y + height <= 0:
        raise BadInput(
            f"{where} has a box at ({x:g}, {y:g}) of {width:g} x {height:g} that lies outside its"
            f" image of {size[1]} x {size[0]}; boxes are x, y, width, height in pixels"
        )


def _number_of(record: Mapping[str, Any], name: str, where: str) -> int | str:
    """The id of an image or a category; lists and objects are none."""
    found = _field(record, name, where)
    if isinstance(found, bool) or not isinstance(found, int | str):
        raise BadInput(f"{where} has the {name} {_short(found)}; ids are whole numbers")
    return found


def _is_finite(value: object) -> bool:
    """Whether a value is a number that a float can hold; whole numbers may be too large."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max  # type: ignore[arg-type]  # a number


def _short(value: object) -> str:
    """A value in a sentence; a large one is cut."""
    text = "a number too large" if isinstance(value, int) else str(value)
    return text if len(text) < 60 else f"{text[:60]}..."


def _field(record: Mapping[str, Any], name: str, where: str) -> Any:
    if not isinstance(record, Mapping) or name not in record:
        raise BadInput(f"{where} has no '{name}'; results need image_id, category_id, score")
    return record[name]


def _library() -> Any:
    try:
        import hotcoco
    except ImportError as error:
        raise NotFound(
            "average precision needs 'hotcoco': pip install 'segmeter[detectors]'"
        ) from error
    return hotcoco


def _loaded(ground_truth: GroundTruth) -> Any:
    annotations = [{"iscrowd": 0, **record} for record in ground_truth["annotations"]]
    return _library().COCO({**ground_truth, "annotations": annotations})


def _evaluator(
    ground_truth: GroundTruth, found: list[Any], kind: str, protocol: ProtocolName
) -> Any:
    library = _loaded(ground_truth)
    evaluator = _library().COCOeval(library, library.load_res(found), kind)
    evaluator.params.area_rng = [list(limits) for limits in size_ranges(protocol).values()]
    return evaluator


def _plain(found: Detections, kind: Kind) -> list[dict[str, Any]]:
    """Records without unscored geometry: a box next to a mask would set the detection's area."""
    left_out = "segmentation" if kind == "bbox" else "bbox"
    return [{k: v for k, v in record.items() if k not in (left_out, "area")} for record in found]


def _of_known_class(ground_truth: GroundTruth, found: Detections) -> list[dict[str, Any]]:
    """Proposals that have no class, or one of their own, go under the first one.

    With classes switched off evaluators still pass over classes that they do not know.
    """
    known = [category["id"] for category in ground_truth["categories"]]
    first, listed = min(known), set(known)
    return [
        {**d, "category_id": d["category_id"] if d.get("category_id") in listed else first}
        for d in _plain(found, "segm")
    ]


def _quietly(*steps: Any) -> None:
    """The library prints its tables and warns of other sizes; ours returns its numbers."""
    with redirect_stdout(StringIO()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "hotcoco: area range", UserWarning)
        for step in steps:
            step()


def _known(value: float) -> float:
    """The library says -1 where there is nothing to count."""
    return math.nan if value == -1 else float(value)
