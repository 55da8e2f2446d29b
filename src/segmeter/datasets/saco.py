"""SA-Co: images with phrases and the masks of all objects they name, by several annotators.

The folder holds one JSON file per annotator, with the same pairs under `images` (COCO's layout;
each entry is an image with a phrase in `text_input`), and the folder `images`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from segmeter.core import catalogue
from segmeter.core.capabilities import HasPhrases, PhraseObjects, capable
from segmeter.core.errors import NotFound
from segmeter.core.grouping import grouped
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Image, Scene, Target
from segmeter.datasets.coco_files import outline, read_json
from segmeter.datasets.data_roots import card_of, digest, known, lacking, set_folder, some_at_hand
from segmeter.datasets.image_files import image_size, named_errors, read_rgb

Entry = Mapping[str, Any]

_CARD = card_of("saco")


@capable(HasPhrases)
class PhraseImage(Image):
    """An image with its phrases."""

    def __init__(self, source: Saco, scene: str) -> None:
        path = source.image(scene)
        super().__init__(
            "saco", scene, lambda: read_rgb(path), lambda: source.targets(scene),
            file_name=path.name,
        )  # fmt: skip
        self._source = source

    @cached_property
    def phrases(self) -> Sequence[PhraseObjects]:
        """All phrases of the image, in the order of the first file."""
        return self._source.phrases(self.id)


@catalogue.datasets.add("saco", summary=_CARD.summary)
class Saco:
    """SA-Co's files: `data` holds `saco`, or is that folder itself."""

    def __init__(self, data: str | Path | None = None) -> None:
        self._folder = set_folder(_CARD, data, ("saco",), ("images",))
        self._files = sorted(self._folder.glob("*.json"))
        if not self._files:
            raise NotFound(f"dataset 'saco': no JSON file in '{self._folder}'")

    @cached_property
    def card(self) -> DatasetCard:
        gone = [name for name in self._pairs if name not in self._at_hand]
        lost = lacking("images", gone, len(self._pairs), self._folder / "images")
        many = sum(len(self.targets(scene)) for scene in self._at_hand)
        return replace(_CARD, targets=many, missing=lost)

    def scenes(self) -> Sequence[str]:
        """Available images, by file name without suffix, in the order of the first file."""
        return list(self._at_hand)

    def load(self, scene: str) -> Scene:
        known("saco", scene, self._pairs)
        if scene not in self._at_hand:
            raise NotFound(f"saco/{scene}: its image is not in '{self._folder / 'images'}'")
        return PhraseImage(self, scene)

    def fingerprint(self) -> str:
        return digest([*self._files, *self._at_hand.values()])

    def image(self, scene: str) -> Path:
        """The file of a scene's image."""
        return self._at_hand[scene]

    def targets(self, scene: str) -> list[Target]:
        """The objects of the first annotator, labelled by their phrases."""
        return [
            Target(f"{phrase}-{k}", mask, label=phrase)
            for phrase, _, annotators in self.phrases(scene)
            for k, mask in enumerate(annotators[0][0])
            if mask
        ]

    def phrases(self, scene: str) -> list[PhraseObjects]:
        """Phrase, whether all annotators were exhaustive, and objects and crowds of each."""
        size = image_size(self._at_hand[scene])
        found: list[PhraseObjects] = []
        for pair in self._pairs[scene]:
            exhaustive, annotators = True, []
            for file, things, entries in self._annotators:
                with named_errors(file, "is not in SA-Co's layout"):
                    entry = entries.get(pair["id"], {})
                    exhaustive &= bool(entry.get("is_instance_exhaustive", not entry))
                    drawn: tuple[list[Mask], list[Mask]] = ([], [])
                    for thing in things.get(pair["id"], ()):
                        mask = outline(thing["segmentation"], size, f"'{file}', {thing['id']}")
                        drawn[bool(thing.get("iscrowd"))].append(mask)
                    annotators.append(drawn)
            found.append((str(pair["text_input"]), exhaustive, annotators))
        return found

    @cached_property
    def _annotators(self) -> list[tuple[Path, dict[Any, list[Entry]], dict[Any, Entry]]]:
        """Per file: the objects and the entry of each pair."""
        found = []
        for file in self._files:
            content = read_json(file)
            with named_errors(file, "is not in SA-Co's layout"):
                classes = {category["id"] for category in content["categories"]}
                things = [t for t in content["annotations"] if t["category_id"] in classes]
                by_pair = grouped(things, lambda thing: thing["image_id"])
                found.append((file, by_pair, {entry["id"]: entry for entry in content["images"]}))
        return found

    @cached_property
    def _pairs(self) -> dict[str, list[Entry]]:
        """The pairs of every image, by the first file."""
        found: dict[str, list[Entry]] = {}
        file, _, entries = self._annotators[0]
        with named_errors(file, "is not in SA-Co's layout"):
            for entry in entries.values():
                name = PurePosixPath(str(entry["file_name"]))
                if ".." in name.parts or name.is_absolute() or "text_input" not in entry:
                    raise ValueError(f"pair {entry['id']} lacks a phrase or a file name")
                found.setdefault(str(name.with_suffix("")), []).append(entry)
        return found

    @cached_property
    def _at_hand(self) -> dict[str, Path]:
        folder = self._folder / "images"
        files = {name: folder / str(pairs[0]["file_name"]) for name, pairs in self._pairs.items()}
        found = {name: path for name, path in files.items() if path.is_file()}
        some_at_hand("saco", list(self._pairs), list(found), folder)
        return found
