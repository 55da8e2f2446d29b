"""JSON files of run-length masks: one for a whole folder, or one next to each image.

A whole-folder file is `{image: masks}`; masks are one mask, a list, or `{name: mask}`. A
file of one image has its objects under `annotations`, as SA-1B does. A mask is COCO's
`{"size": [height, width], "counts": ...}` and may carry a `label`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from segmeter.core.scenes import DatasetCard, Target
from segmeter.datasets.coco_outlines import outline
from segmeter.datasets.image_files import image_size, named_errors
from segmeter.datasets.places import ImageSet, digest

Named = tuple[str, str, Any]


class RunLengthJson(ImageSet):
    """Images whose masks are given by name, label and run lengths."""

    def __init__(
        self,
        card: DatasetCard,
        images: Mapping[str, Path],
        masks: Callable[[str], Sequence[Named]],
        files: Sequence[Path],
    ) -> None:
        self.card, self.name = card, card.name
        self._given, self._masks, self._files = images, masks, files

    @cached_property
    def _images(self) -> Mapping[str, Path]:
        return self._given

    def fingerprint(self) -> str:
        return digest([*self._files, *self._images.values()])

    def _targets(self, scene: str) -> list[Target]:
        size = image_size(self._images[scene])
        return [
            Target(name, outline(mask, size, f"{self.name}/{scene}, '{name}'"), label=label)
            for name, label, mask in self._masks(scene)
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
