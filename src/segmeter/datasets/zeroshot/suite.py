"""The 23 data sets by name: a card each, the folder it is looked for in, and its reader.

What each set is distributed as stands in its notes; of some it is known only from memory
(`known`, `recalled`, `weak`), so `images` and `annotations` may be given by hand. Counts are
of what Segment Anything's authors played; their own samples and their blurred faces were
never published, so their numbers cannot be reproduced to the digit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from segmeter.core import catalogue
from segmeter.core.errors import NotFound
from segmeter.core.scenes import DatasetCard
from segmeter.datasets.places import set_folder
from segmeter.datasets.zeroshot.id_images import (
    ade_png,
    folder_of_masks,
    hdf5_ids,
    id_png,
    label_png,
)
from segmeter.datasets.zeroshot.listed import Item, Listed, Selection
from segmeter.datasets.zeroshot.outline_files import (
    coco_json,
    polygon_json,
    via_json,
    visor_json,
    ytvis_json,
)

__all__ = ["READERS", "SUITE", "Kind"]

Reader = Literal[
    "coco_json", "label_png", "folder_of_masks", "ade_png", "id_png", "ytvis_json",
    "visor_json", "polygon_json", "via_json", "hdf5_ids",
]  # fmt: skip
Confidence = Literal["known", "recalled", "weak"]
Certainty = {
    "known": "its layout is documented by its authors",
    "recalled": "its layout is given from memory: check the first masks by eye",
    "weak": "its layout is a guess: give images and annotations, and check masks by eye",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """One data set of the suite.

    `images` and `annotations` are places under its folder; `pictures` and `masks` how many the
    authors played; `options` go to the reader.
    """

    name: str
    title: str
    about: str
    reader: Reader
    split: str
    pictures: int
    masks: int
    images: str
    annotations: str
    licence: str
    citation: str
    homepage: str
    confidence: Confidence = "recalled"
    sampled: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def card(self) -> DatasetCard:
        places = dict.fromkeys(p for p in (self.images, self.annotations) if p != ".")
        layout = " and ".join(f"'{self.name}/{place}'" for place in places) or f"'{self.name}'"
        part = f"a sample of {self.masks}" if self.sampled else str(self.masks)
        return DatasetCard(
            name=self.name,
            summary=f"{self.title}: {self.about}",
            licence=self.licence,
            citation=self.citation,
            targets=self.masks,
            homepage=self.homepage,
            notes=f"{self.split} belongs in {layout}. Segment Anything played {part} masks on"
            f" {self.pictures} pictures, faces blurred; its parts of large sets were not"
            f" published. Reader {self.reader}: {Certainty[self.confidence]}.",
        )


def _label_png(folder: Path, kind: Kind, images: str, masks: str) -> dict[str, Item]:
    return label_png(folder / images, folder / masks, **kind.options)


def _id_png(folder: Path, kind: Kind, images: str, masks: str) -> dict[str, Item]:
    return id_png(folder / images, folder / masks, **kind.options)


def _hdf5(folder: Path, kind: Kind, images: str, masks: str) -> dict[str, Item]:
    return hdf5_ids(folder, _hypersim_picture, "**/*.semantic_instance.hdf5")


def _hypersim_picture(file: Path) -> Path:
    """`scene_cam_00_geometry_hdf5/frame.0000.semantic_instance.hdf5` shows what
    `scene_cam_00_final_preview/frame.0000.tonemap.jpg` does."""
    camera = file.parent.name.removesuffix("_geometry_hdf5")
    frame = file.name.removesuffix(".semantic_instance.hdf5")
    return file.parent.parent / f"{camera}_final_preview" / f"{frame}.tonemap.jpg"


READERS: dict[Reader, Callable[[Path, Kind, str, str], dict[str, Item]]] = {
    "coco_json": lambda folder, _, images, file: coco_json(folder / file, folder / images),
    "label_png": _label_png,
    "folder_of_masks": lambda folder, _, images, __: folder_of_masks(folder / images),
    "ade_png": lambda folder, _, images, __: ade_png(folder / images),
    "id_png": _id_png,
    "ytvis_json": lambda folder, _, images, file: ytvis_json(folder / file, folder / images),
    "visor_json": lambda folder, _, images, file: visor_json(folder / file, folder / images),
    "polygon_json": lambda folder, _, images, file: polygon_json(folder / file, folder / images),
    "via_json": lambda folder, _, images, file: via_json(folder / file, folder / images),
    "hdf5_ids": _hdf5,
}

_STUFF = {
    7: "road", 8: "sidewalk", 11: "building", 12: "wall", 13: "fence", 17: "pole",
    19: "traffic light", 20: "traffic sign", 21: "vegetation", 22: "terrain", 23: "sky",
}  # fmt: skip
_THINGS = {
    24: "person", 25: "rider", 26: "car", 27: "truck", 28: "bus", 31: "train",
    32: "motorcycle", 33: "bicycle",
}  # fmt: skip
_EGO = {1: "left hand", 2: "right hand"}
_SEE = "see the project page"

SUITE: tuple[Kind, ...] = (
    Kind(
        "ppdls", "Plant Phenotyping leaf segmentation", "leaves of tobacco and arabidopsis",
        "label_png", "The leaf segmentation part", 182, 2347, "images", "labels", _SEE,
        "Minervini et al. Finely-grained annotated datasets for image-based plant phenotyping. "
        "Pattern Recognition Letters, 2016", "https://www.plant-phenotyping.org/datasets-home",
        options={"picture_end": "_rgb", "mask_end": "_label"},
    ),
    Kind(
        "bbbc038", "BBBC038v1", "cell nuclei under many microscopes", "folder_of_masks",
        "stage1_train of the 2018 Data Science Bowl", 227, 10506, "stage1_train", "stage1_train",
        "CC0", "Caicedo et al. Nucleus segmentation across imaging experiments: the 2018 Data "
        "Science Bowl. Nature Methods, 2019", "https://bbbc.broadinstitute.org/BBBC038",
        sampled=True,
    ),
    Kind(
        "doors", "DOORS", "single boulders on a rendered sphere", "label_png", "Part DS1", 10000,
        10000, "images", "masks", _SEE, "Pugliatti, Topputo. DOORS: dataset for boulders "
        "segmentation. Zenodo, 2022", "https://zenodo.org/record/7107409",
    ),
    Kind(
        "timberseg", "TimberSeg 1.0", "logs in piles of timber", "coco_json", "The whole set",
        220, 2487, "images", "annotations.json", _SEE, "Fortin et al. Instance segmentation for "
        "autonomous log grasping in forestry operations. IROS, 2022",
        "https://data.mendeley.com/datasets/y5npsm3gkj",
    ),
    Kind(
        "ndd20", "NDD20", "dolphins above and under water", "via_json", "The whole set", 4402,
        6100, "images", "annotations", _SEE, "Trotter et al. NDD20: a large-scale few-shot "
        "dolphin dataset for coarse and fine-grained categorisation. arXiv:2005.13359, 2020",
        "https://doi.org/10.25405/data.ncl.c.4982342",
    ),
    Kind(
        "lvis-v0.5", "LVIS v0.5", "over a thousand classes on COCO's photographs", "coco_json",
        "The validation part of version 0.5", 945, 9642, "val2017",
        "annotations/lvis_v0.5_val.json", "annotations CC BY 4.0", "Gupta, Dollar, Girshick. "
        "LVIS: a dataset for large vocabulary instance segmentation. CVPR, 2019",
        "https://www.lvisdataset.org", "known", True,
    ),
    Kind(
        "streets", "STREETS", "vehicles before traffic cameras", "polygon_json",
        "The annotated pictures", 819, 9854, "images", "annotations", _SEE, "Snyder, Do. "
        "STREETS: a novel camera network dataset for traffic flow. NeurIPS, 2019",
        "https://databank.illinois.edu/datasets/IDB-3671567", "weak",
    ),
    Kind(
        "zerowaste-f", "ZeroWaste-f", "deformed waste on a conveyor belt", "coco_json",
        "The training part", 2947, 6155, "train/data", "train/labels.json",
        "CC BY-NC 4.0 by the project's word", "Bashkirova et al. ZeroWaste dataset: towards "
        "deformable object segmentation in cluttered scenes. CVPR, 2022",
        "http://ai.bu.edu/zerowaste",
    ),
    Kind(
        "ishape", "iShape", "irregular shapes: antennas, logs, fences, hangers", "coco_json",
        "The validation parts joined into one file", 754, 9742, "images", "annotations.json",
        _SEE, "Yang et al. iShape: a first step towards irregular shape instance segmentation. "
        "arXiv:2109.15068, 2021", "https://ishape.github.io", sampled=True,
    ),
    Kind(
        "ade20k", "ADE20K", "objects and parts in scenes", "ade_png",
        "The validation part of the full release", 302, 10128, "images/validation",
        "images/validation", _SEE, "Zhou et al. Semantic understanding of scenes through the "
        "ADE20K dataset. IJCV, 2019", "https://groups.csail.mit.edu/vision/datasets/ADE20K",
        "known", True,
    ),
    Kind(
        "ovis", "OVIS", "occluded objects in videos", "ytvis_json", "The training part", 2044,
        10011, "train", "annotations_train.json", "CC BY-NC-SA 4.0 by the project's word",
        "Qi et al. Occluded video instance segmentation: a benchmark. IJCV, 2022",
        "https://songbai.site/ovis", "known", True,
    ),
    Kind(
        "hypersim", "Hypersim", "rendered indoor scenes", "hdf5_ids",
        "Evermotion archinteriors volumes 1-55 without 20, 25, 40, 49", 338, 9445, ".", ".",
        "CC BY-SA 3.0 by the project's word", "Roberts et al. Hypersim: a photorealistic "
        "synthetic dataset for holistic indoor scene understanding. ICCV, 2021",
        "https://github.com/apple/ml-hypersim", "known", True,
    ),
    Kind(
        "ndispark", "NDISPark", "cars in parking lots by day and night", "coco_json",
        "The training part", 111, 2577, "train/imgs", "train/train_coco_annotations.json", _SEE,
        "Ciampi et al. Domain adaptation for traffic density estimation. VISIGRAPP, 2021",
        "https://zenodo.org/record/6560823",
    ),
    Kind(
        "visor", "EPIC-KITCHENS VISOR", "hands and objects in kitchens", "visor_json",
        "The validation part of the sparse annotations", 1864, 10141, "rgb_frames/val",
        "annotations/val", "CC BY-NC 4.0 by the project's word", "Darkhalil et al. EPIC-KITCHENS "
        "VISOR benchmark: video segmentations and object relations. NeurIPS, 2022",
        "https://epic-kitchens.github.io/VISOR", "known", True,
    ),
    Kind(
        "plittersdorf", "Plittersdorf", "wildlife before a stereo camera trap", "coco_json",
        "Training, validation and test joined into one file", 187, 546, "images",
        "annotations.json", _SEE, "Haucke, Kuehl, Steinhage. SOCRATES: introducing depth in "
        "visual wildlife monitoring using stereo vision. Sensors, 2022",
        "https://github.com/timmh/socrates",
    ),
    Kind(
        "egohos", "EgoHOS", "hands and what they hold, seen by the wearer", "label_png",
        "The training pictures of Ego4D and THU-READ", 2940, 9961, "train/image", "train/label",
        _SEE, "Zhang et al. Fine-grained egocentric hand-object segmentation: dataset, model, "
        "and applications. ECCV, 2022", "https://github.com/owenzlz/EgoHOS", sampled=True,
        options={"labels": _EGO},
    ),
    Kind(
        "ibd", "InstanceBuilding 2D", "roofs seen by drones", "coco_json",
        "The training part of the 2D annotations", 467, 11953, "images", "annotations.json", _SEE,
        "Chen et al. 3D instance segmentation of MVS buildings. IEEE TGRS, 2022",
        "https://arxiv.org/abs/2112.09902", "weak",
    ),
    Kind(
        "woodscape", "WoodScape", "driving through fisheye lenses", "polygon_json",
        "Set 1 with its instance annotations", 107, 10266, "rgb_images", "instance_annotations",
        _SEE, "Yogamani et al. WoodScape: a multi-task, multi-camera fisheye dataset for "
        "autonomous driving. ICCV, 2019", "https://woodscape.valeo.com", sampled=True,
    ),
    Kind(
        "cityscapes", "Cityscapes", "street scenes, things and stuff", "id_png",
        "The validation part of gtFine", 293, 9973, "leftImg8bit/val", "gtFine/val", _SEE,
        "Cordts et al. The Cityscapes dataset for semantic urban scene understanding. CVPR, 2016",
        "https://www.cityscapes-dataset.com", "known", True,
        {"picture_end": "_leftImg8bit", "mask_end": "_gtFine_instanceIds", "stuff": _STUFF,
         "things": _THINGS},
    ),
    Kind(
        "pidray", "PIDray", "prohibited items in X-ray pictures of baggage", "coco_json",
        "The hard test part", 3733, 8892, "hard", "annotations/xray_test_hard.json", _SEE,
        "Wang et al. Towards real-world prohibited item detection: a large-scale X-ray "
        "benchmark. ICCV, 2021", "https://github.com/bywang2018/security-dataset",
    ),
    Kind(
        "dram", "DRAM", "classes in paintings", "label_png", "The test part", 718, 1179,
        "test", "labels", _SEE, "Cohen, Newman, Shamir. Semantic segmentation in art paintings. "
        "Computer Graphics Forum, 2022",
        "https://faculty.runi.ac.il/arik/site/artseg/Dram-Dataset.html",
        options={"ignore": (255,)},
    ),
    Kind(
        "trashcan", "TrashCan 1.0", "trash under water", "coco_json",
        "The training part of the instance task", 5936, 9540, "instance_version/train",
        "instance_version/instances_train_trashcan.json", "CC BY 4.0 by the repository's word",
        "Hong, Fulton, Sattar. TrashCan: a semantically-segmented dataset towards visual "
        "detection of marine debris. arXiv:2007.08097, 2020",
        "https://conservancy.umn.edu/handle/11299/214865", "known",
    ),
    Kind(
        "gtea", "GTEA", "hands in daily activities", "label_png",
        "The training part of the task of segmenting hands", 652, 1208, "images", "masks", _SEE,
        "Fathi, Ren, Rehg. Learning to recognize objects in egocentric activities. CVPR, 2011",
        "https://cbs.ic.gatech.edu/fpv", "weak",
    ),
)  # fmt: skip


def _open(
    kind: Kind,
    data: str | Path | None,
    images: str | None,
    annotations: str | None,
    selection: Selection,
) -> Listed:
    pictures, masks = images or kind.images, annotations or kind.annotations
    named = (kind.name, kind.title.replace(" ", "_"), *_ALIASES.get(kind.name, ()))
    parts = [part for part in dict.fromkeys((pictures, masks)) if part != "."]
    folder = set_folder(kind.card, data, named, parts or ["."])
    items = READERS[kind.reader](folder, kind, pictures, masks)
    if not items:
        raise NotFound(
            f"data set '{kind.name}': no picture with masks in '{folder}' ({kind.homepage})"
        )
    return Listed(kind.card, items, selection)


_ALIASES = {"bbbc038": ("BBBC038", "BBBC038v1"), "lvis-v0.5": ("coco",)}


def _maker(kind: Kind) -> Callable[..., Listed]:
    def make(
        data: str | Path | None = None,
        images: str | None = None,
        annotations: str | None = None,
        sample: int | None = None,
        least_area: int = 0,
        most_side: int = 0,
        split: str | None = None,
        category: str | None = None,
    ) -> Listed:
        selection = Selection(sample, least_area, most_side, split, category)
        return _open(kind, data, images, annotations, selection)

    return make


for _kind in SUITE:
    catalogue.datasets.add(_kind.name, summary=_kind.card.summary)(_maker(_kind))
