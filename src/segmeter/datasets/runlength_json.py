"""JSON files of run-length masks: one for a whole folder, or one next to each image.

A whole-folder file is `{image: masks}`; masks are one mask, a list, or `{name: mask}`. A
file of one image has its objects under `annotations`, as SA-1B does. A mask is COCO's
`{"size": [height, width], "counts": ...}` and may carry a `label`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.scenes import DatasetCard, Image, Scene, Target
from segmeter.datasets.coco_outlines import outline
from segmeter.datasets.image_files import image_size, named_errors, read_rgb
from segmeter.datasets.places import digest, known

Named = tuple[str, str, Any]


class RunLengthJson:
    """Images whose masks are given by name, label and run lengths."""

    def __init__(
        self,
        card: DatasetCard,
        images: Mapping[str, Path],
        masks: Mapping[str, Sequence[Named]],
        files: Sequence[Path],
    ) -> None:
        self.card = card
        self._images = images
        self._masks = masks
        self._files = files

    def scenes(self) -> Sequence[str]:
        """Images in the order of their names; those without masks are left out."""
        return [name for name in self._images if name in self._masks]

    def load(self, scene: str) -> Scene:
        known(self.card.name, scene, self._masks)
        if scene not in self._images:
            raise NotFound(f"{self.card.name}/{scene}: there are masks but no image")
        image = self._images[scene]
        return Image(
            self.card.name,
            scene,
            lambda: read_rgb(image),
            lambda: self._targets(scene),
            file_name=image.name,
        )

    def fingerprint(self) -> str:
        return digest([*self._files, *(self._images[name] for name in self.scenes())])

    def _targets(self, scene: str) -> list[Target]:
        image = self._images[scene]
        return _targets(self._masks[scene], image, f"{self.card.name}/{scene}")


class JsonPerImage:
    """Images with a JSON file of run lengths each, read when it is needed."""

    def __init__(self, card: DatasetCard, pairs: Mapping[str, tuple[Path, Path]]) -> None:
        self.card = card
        self._pairs = pairs

    def scenes(self) -> Sequence[str]:
        """Images that have a file, in the order of their names."""
        return list(self._pairs)

    def load(self, scene: str) -> Scene:
        known(self.card.name, scene, self._pairs)
        image, _ = self._pairs[scene]
        return Image(
            self.card.name,
            scene,
            lambda: read_rgb(image),
            lambda: self._targets(scene),
            file_name=image.name,
        )

    def fingerprint(self) -> str:
        return digest(path for both in self._pairs.values() for path in both)

    def _targets(self, scene: str) -> list[Target]:
        image, file = self._pairs[scene]
        found = run_lengths_in({f"{scene}.png": read_json(file)})
        if found is None:
            raise BadInput(f"'{file}' holds no run-length mask; write one or move it away")
        return _targets(found[scene], image, f"{self.card.name}/{scene}")


def _targets(masks: Sequence[Named], image: Path, where: str) -> list[Target]:
    """Masks whose claimed size is the image's own; it is compared before they are unpacked."""
    size = image_size(image)
    return [
        Target(name, outline(mask, size, f"{where}, '{name}'"), label=label)
        for name, label, mask in masks
    ]


def read_json(path: Path) -> Any:
    """A JSON file's content."""
    with named_errors(path, "is not a JSON file"):
        return json.loads(path.read_bytes())


def run_lengths_in(content: Any) -> dict[str, list[Named]] | None:
    """Masks by image when the content is of this sort, else None."""
    if not isinstance(content, Mapping) or not content:
        return None
    found = {_without_suffix(name): list(_masks(value)) for name, value in content.items()}
    return found if all(found.values()) else None


def _masks(value: Any) -> Iterator[Named]:
    """`(name, label, run lengths)` of everything in a value that is a run-length mask."""
    if _is_mask(value):
        yield _named("object", value)
    elif isinstance(value, Mapping) and isinstance(value.get("annotations"), list):
        yield from _masks(value["annotations"])
    elif isinstance(value, Mapping) and all(map(_is_mask, value.values())):
        yield from (_named(str(name), mask) for name, mask in value.items())
    elif isinstance(value, list):
        for place, entry in enumerate(value, start=1):
            inner = entry.get("segmentation", entry) if isinstance(entry, Mapping) else None
            if _is_mask(inner):
                name = str(entry.get("id", entry.get("name", place)))
                yield name, str(entry.get("label", "")), inner


def _named(name: str, mask: Mapping[str, Any]) -> Named:
    return name, str(mask.get("label", "")), mask


def _is_mask(value: Any) -> bool:
    return isinstance(value, Mapping) and "size" in value and "counts" in value


def _without_suffix(name: str) -> str:
    """`cat.jpg` and `cat` are one image; a name with other dots keeps them."""
    path = Path(name)
    return path.stem if path.suffix.lower() in {".jpg", ".jpeg", ".png", ".bmp"} else path.name
