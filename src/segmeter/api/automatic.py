"""Automatic masks of image files: COCO JSON, overlays and pages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.api.loading import parsed_options, roots_of
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound, SegmeterError
from segmeter.core.scenes import Image
from segmeter.core.wording import counted
from segmeter.datasets.data_roots import images_in
from segmeter.datasets.image_files import image_size, read_rgb
from segmeter.engine.arithmetic import caller_state_kept, fix_arithmetic
from segmeter.models.automatic.generator import AutomaticMask
from segmeter.report.elements import distinct, filled
from segmeter.report.images import overlay
from segmeter.report.mask_pages import masks_page
from segmeter.store.local import write_file

Pixels = npt.NDArray[np.uint8]

_THUMBNAIL_PX = 320


def auto_masks(
    images: Sequence[str | Path],
    model: str,
    out: str | Path,
    *,
    points: int = 32,
    crops: int = 0,
    smallest: int = 0,
    protocol: str = "corrected",
    options: Sequence[str] = (),
    weights: str | Path | None = None,
    threads: int = 1,
    tell: Callable[[str, bool], None] = lambda sentence, failed: None,
) -> dict[str, Any]:
    """Find masks of everything in images: COCO JSON, an overlay and a page for each image.

    Parameters
    ----------
    images
        Image files, or folders of images.
    points, crops, smallest
        Points on a side of the grid; layers of crops; smallest hole or island that is kept.
    options
        Further settings as `name=value`: score, stability, box_nms and others.
    tell
        Called with a message per image, and whether it failed.

    Returns
    -------
    dict
        Counts of images and masks, seconds, sentences about failed images, files.

    Examples
    --------
    >>> import segmeter
    >>> out, image = getfixture("tmp_path"), segmeter.load_dataset("mini")["moon"].pixels
    >>> import cv2
    >>> _ = cv2.imwrite(f"{out}/moon.png", image[:96, :96])
    >>> segmeter.auto_masks([out / "moon.png"], "disc", out / "found", points=2)["images"]
    1
    """
    settings = {"points": points, "crops": crops, "smallest": smallest, "protocol": protocol}
    files, folder = _files([Path(image) for image in images]), Path(out)
    spec = Spec("automatic", {**settings, **parsed_options(options), "model": model})
    method = catalogue.methods.make(spec, **roots_of(None, weights).options())
    if any(file.resolve().parent == folder.resolve() for file in files):
        raise BadInput(f"--out '{out}' is the folder of the images; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    found = _Found(folder, model, protocol)
    with caller_state_kept():
        fix_arithmetic(threads)
        try:
            # The list of all images is called index.
            names = distinct(["index", *(file.stem for file in files)], "-")[1:]
            for file, name in zip(files, names, strict=True):
                _one(found, method, file, name, tell)
        finally:  # masks found so far stay, also after an interrupt
            found.finish()
    return found.facts()


@dataclass
class _Found:
    """Masks and pages written so far."""

    out: Path
    model: str
    protocol: str
    images: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    listed: list[dict[str, Any]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(
        self, file: Path, name: str, pixels: Pixels, masks: Sequence[AutomaticMask], seconds: float
    ) -> None:
        height, width = pixels.shape[:2]
        number = len(self.images) + 1
        self.images.append({"id": number, "file_name": file.name, "height": height, "width": width})
        for one in masks:
            record = one.record(self.protocol)  # type: ignore[arg-type]  # checked by the method
            if record["stability_score"] != record["stability_score"]:
                record["stability_score"] = None  # JSON has no NaN
            place = {"id": len(self.annotations) + 1, "image_id": number, "category_id": 1}
            self.annotations.append({**place, "iscrowd": 0, **record})
        drawn = overlay(pixels, [one.mask for one in masks])
        write_file(self.out / f"{name}.png", encoded_image(drawn, ".png"))
        facts = [("model", self.model), ("protocol", self.protocol),
                 *_facts_of(masks, (height, width)), ("time", f"{seconds:.1f} s")]  # fmt: skip
        coded = encoded_image(pixels, ".jpg")
        page = masks_page(file.name, coded, (height, width), masks, facts)
        write_file(self.out / f"{name}.html", page.encode())
        small = encoded_image(drawn, ".jpg", _THUMBNAIL_PX)
        self.listed.append({"name": file.name, "page": f"{name}.html", "thumbnail": small,
                            "masks": len(masks)})  # fmt: skip
        self.seconds += seconds

    def finish(self) -> None:
        info = {"description": f"automatic masks of {self.model}, protocol {self.protocol}"}
        coco = {"info": info, "images": self.images, "annotations": self.annotations,
                "categories": [{"id": 1, "name": "thing"}]}  # fmt: skip
        write_file(self.out / "masks.json", json.dumps(coco).encode())
        facts = [("model", self.model), ("images", str(len(self.images))),
                 ("masks", str(len(self.annotations))),
                 *(("not read", sentence) for sentence in self.failed)]  # fmt: skip
        listing = filled("mask_list.html", title="Automatic masks", facts=facts, images=self.listed)
        write_file(self.out / "index.html", listing.encode())

    def facts(self) -> dict[str, Any]:
        return {
            "model": self.model, "protocol": self.protocol, "images": len(self.images),
            "masks": len(self.annotations), "seconds": round(self.seconds, 3),
            "failed": self.failed, "files": ["masks.json", "index.html"],
        }  # fmt: skip


def _one(
    found: _Found, method: Any, file: Path, name: str, tell: Callable[[str, bool], None]
) -> None:
    """One image; one that cannot be decoded does not stop the others."""
    start = time.perf_counter()
    try:
        pixels = read_rgb(file)
        made = method.masks(Image("images", name, pixels, []))
    except SegmeterError as error:
        found.failed.append(str(error))
        tell(str(error), True)
        return
    seconds = time.perf_counter() - start
    found.add(file, name, pixels, made, seconds)
    tell(f"{file.name}: {counted(len(made), 'mask')} in {seconds:.1f} s", False)


def _files(images: Sequence[Path]) -> list[Path]:
    """All images that were named; refused before a model is loaded where one is damaged."""
    files: list[Path] = []
    for path in images:
        inside = images_in(path) if path.is_dir() else [path]
        if not inside:
            raise NotFound(f"folder '{path}' holds no images")
        files += inside
    for file in files:
        image_size(file)
    return files


def _facts_of(masks: Sequence[AutomaticMask], shape: tuple[int, int]) -> list[tuple[str, str]]:
    covered = np.zeros(shape, dtype=bool)
    for one in masks:
        covered[one.mask.window] |= one.mask.bits
    facts = [("size", f"{shape[1]} x {shape[0]} px"), ("masks", str(len(masks))),
             ("image covered", f"{100 * covered.mean():.1f} %")]  # fmt: skip
    if masks:
        facts.append(("median area", f"{np.median([m.mask.area for m in masks]):,.0f} px"))
    return facts


def encoded_image(pixels: Pixels, kind: str, longest_px: int | None = None) -> bytes:
    """An image as a file's bytes, shrunk to a longest side."""
    share = min(1.0, (longest_px or np.inf) / max(pixels.shape[:2]))
    if share < 1:
        size = [max(1, round(share * n)) for n in pixels.shape[1::-1]]
        pixels = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
    return bytes(cv2.imencode(kind, np.ascontiguousarray(pixels[..., ::-1]))[1].tobytes())
