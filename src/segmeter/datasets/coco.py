"""COCO and LVIS: images with objects in one JSON file."""

from __future__ import annotations

import re
from pathlib import Path

from segmeter.core import catalogue
from segmeter.core.errors import NotFound
from segmeter.core.scenes import DatasetCard
from segmeter.datasets.coco_json import CocoJson, Crowd
from segmeter.datasets.places import set_folder

__all__ = ["coco", "lvis"]

_COCO = DatasetCard(
    name="coco",
    summary="objects of COCO, from its JSON of instances",
    licence="annotations CC BY 4.0; each image under the licence its record names",
    citation="Lin et al. Microsoft COCO: common objects in context. ECCV 2014",
    homepage="https://cocodataset.org",
    notes="val2017.zip and annotations_trainval2017.zip of the project page unpack to "
    "coco/val2017 and coco/annotations. Sizes are COCO's: small below 32 x 32 pixels, large "
    "from 96 x 96.",
)

_LVIS = DatasetCard(
    name="lvis",
    summary="objects of LVIS, over a thousand classes on COCO's images",
    licence="annotations CC BY 4.0; each image under the licence its record names",
    citation="Gupta, Dollar, Girshick. LVIS: a dataset for large vocabulary instance "
    "segmentation. CVPR 2019",
    homepage="https://www.lvisdataset.org",
    notes="lvis_v1_val.json of the project page belongs in coco/annotations, COCO's "
    "images in coco/val2017. Not every object of an image is outlined.",
)


@catalogue.datasets.add("coco", summary=_COCO.summary)
def coco(
    data: str | Path | None = None,
    annotations: str | None = None,
    images: str | None = None,
    crowd: Crowd = "leave-out",
) -> CocoJson:
    """COCO from a root folder that holds `coco`, or from a file and a folder of your own."""
    return _open(_COCO, data, annotations, images, crowd, r"instances_val\d*.*\.json")


@catalogue.datasets.add("lvis", summary=_LVIS.summary)
def lvis(
    data: str | Path | None = None, annotations: str | None = None, images: str | None = None
) -> CocoJson:
    """LVIS from a root folder that holds `coco`, or from a file and a folder of your own."""
    return _open(_LVIS, data, annotations, images, "leave-out", r"lvis_v[\d.]+_val.*\.json")


def _open(
    card: DatasetCard,
    data: str | Path | None,
    annotations: str | None,
    images: str | None,
    crowd: Crowd,
    pattern: str,
) -> CocoJson:
    if annotations is not None:
        file = Path(annotations)
    else:
        folder = set_folder(card, data, ("coco",), ("annotations",)) / "annotations"
        named = [path for path in sorted(folder.iterdir()) if re.fullmatch(pattern, path.name)]
        if not named:
            raise NotFound(f"data set '{card.name}': no file like '{pattern}' in '{folder}'")
        file = named[0]
    if not file.is_file():
        raise NotFound(f"data set '{card.name}': no file '{file}'")
    return CocoJson(card, file, Path(images) if images else _beside(file), crowd)


def _beside(annotations: Path) -> Path:
    """The folder of images that usually comes with a file of annotations."""
    part = re.search(r"(train|val|test)(20\d\d)?", annotations.name)
    year = part and (part[2] or "2017")
    root = annotations.parent.parent
    predictions = [root / f"{part[1]}{year}", root / "images" / f"{part[1]}{year}"] if part else []
    predictions += [root / "images", annotations.parent / "images"]
    return next(
        (prediction for prediction in predictions if prediction.is_dir()), annotations.parent
    )
