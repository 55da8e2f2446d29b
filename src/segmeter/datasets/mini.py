"""`mini`: objects on images that ship inside scikit-image and matplotlib.

The default data: nothing to download. The images are read from the installed packages;
the masks, in `mini.json` next to this file, are segmeter's own.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Image, Scene, Target
from segmeter.core.seeds import fingerprint
from segmeter.datasets.image_files import read_bytes, read_rgb
from segmeter.datasets.places import known

__all__ = ["Mini"]

_MASKS = Path(__file__).with_name("mini.json")
_SMALL, _LARGE = 0.01, 0.1

_CARD = DatasetCard(
    name="mini",
    summary="34 objects on 11 images that ship with scikit-image and matplotlib",
    licence="masks Apache-2.0, as segmeter itself; images as the two packages ship them: public "
    "domain, CC0 or without known restrictions, but moon and motorcycle, whose terms are not "
    "stated (the source of each is in mini.json)",
    citation="van der Walt et al. scikit-image: image processing in Python. PeerJ 2:e453, 2014; "
    "Hunter. Matplotlib: a 2D graphics environment. CiSE 9(3), 2007",
    targets=34,
    homepage="https://scikit-image.org",
    notes="Comes with segmeter; nothing to get. Most outlines began as answers of SAM 2 tiny to "
    "chosen prompts; all were looked at enlarged and corrected by hand, and straight or thin "
    "things were drawn by hand. Wheels and the lattice mast are outlined as wholes; what blur or "
    "glare hides is not judged. Scores of SAM 2 tiny here are a little flattered: use mini to "
    "see how things work, and a benchmark to claim something.",
)


@catalogue.datasets.add("mini", summary=_CARD.summary)
class Mini:
    """Big and small, thin, cut-up and plain objects, easy and hard.

    Targets carry the groups `size` (small below 1 % of the image, large from 10 %) and
    `shape` (compact, thin, cut up).
    """

    card = _CARD

    def scenes(self) -> Sequence[str]:
        return list(_images())

    def load(self, scene: str) -> Scene:
        known("mini", scene, _images())
        record = _images()[scene]
        return Image("mini", scene, lambda: _read(record), lambda: _targets(record))

    def fingerprint(self) -> str:
        return fingerprint("mini", _MASKS.read_bytes())


@cache
def _images() -> Mapping[str, Mapping[str, Any]]:
    content = json.loads(_MASKS.read_text(encoding="utf-8"))
    return {record["id"]: record for record in content["images"]}


def _targets(record: Mapping[str, Any]) -> list[Target]:
    return [_target(record, thing) for thing in record["objects"]]


def _target(record: Mapping[str, Any], thing: Mapping[str, str]) -> Target:
    size = record["size"]
    mask = Mask.from_coco({"size": size, "counts": thing["counts"]})
    ignore = (
        Mask.from_coco({"size": size, "counts": thing["ignore"]}) if "ignore" in thing else None
    )
    share = mask.area / (size[0] * size[1])
    extent = "small" if share < _SMALL else "large" if share >= _LARGE else "medium"
    groups = {"size": extent, "shape": thing["shape"]}
    return Target(thing["id"], mask, ignore, thing["label"], groups)


def _read(record: Mapping[str, Any]) -> npt.NDArray[np.uint8]:
    """The image, if it is still the one on which the masks were drawn.

    The same file is enough, whatever a decoder makes of a JPEG; so are the same pixels,
    however a PNG was packed.
    """
    path = _installed(record["package"]) / record["file"]
    pixels = read_rgb(path)
    same_file = fingerprint(read_bytes(path)) == record["file_digest"]
    if not same_file and fingerprint(*pixels.shape, pixels.tobytes()) != record["pixel_digest"]:
        raise BadInput(
            f"mini/{record['id']}: '{path}' is not the image the masks were drawn on; "
            f"install another version of {record['package']}"
        )
    return pixels


def _installed(package: str) -> Path:
    """A package's folder, found without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise NotFound(f"mini: the package '{package}', whose images it shows, is not installed")
    return Path(spec.origin).parent
