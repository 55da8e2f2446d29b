"""Embeddings of a dataset's masks: similar, unusual and duplicate objects, and what is next."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.api.loading import as_dataset, as_model
from segmeter.core.errors import BadInput
from segmeter.core.scenes import Scene
from segmeter.models.mask_embeddings import colour_histogram, embedding_crop, mask_embeddings
from segmeter.models.sam.model import Sam
from segmeter.report.mask_pages import embeddings_page
from segmeter.store.local import write_file

Floats = npt.NDArray[np.float64]
_NEIGHBOURS = 5


@dataclass(frozen=True, slots=True)
class MaskEmbeddings:
    """One vector of length 1 per object of a dataset.

    `vectors` is `(objects, channels)`; `scenes`, `targets` and `labels` name the objects.
    """

    model: str
    dataset: str
    vectors: Floats
    scenes: Sequence[str]
    targets: Sequence[str]
    labels: Sequence[str]

    def similarity(self) -> Floats:
        """Cosine of every pair of objects, rounded to 12 decimals so that equal vectors tie."""
        unit = self.vectors / np.linalg.norm(self.vectors, axis=1, keepdims=True)
        return np.asarray(np.round(unit @ unit.T, 12))

    def nearest(self, index: int, count: int = 5) -> list[tuple[int, float]]:
        """The most similar other objects of one, with their cosines."""
        similar = self.similarity()[index]
        similar[index] = -np.inf
        return [(int(i), float(similar[i])) for i in np.argsort(-similar, kind="stable")[:count]]

    def unusual(self, count: int = 10) -> list[tuple[int, float]]:
        """Objects least like their five nearest neighbours, with the mean cosine to these."""
        similar = self.similarity()
        np.fill_diagonal(similar, -np.inf)
        close = np.sort(similar, axis=1)[:, -min(_NEIGHBOURS, len(similar) - 1) :].mean(axis=1)
        return [(int(i), float(close[i])) for i in np.argsort(close, kind="stable")[:count]]

    def near_duplicates(self, least: float = 0.98) -> list[tuple[int, int, float]]:
        """Pairs of objects with at least this cosine, the most similar first."""
        similar = self.similarity()
        first, second = np.triu_indices(len(similar), 1)
        values = similar[first, second]
        order = np.argsort(-values, kind="stable")
        return [
            (int(first[k]), int(second[k]), float(values[k])) for k in order if values[k] >= least
        ]

    def annotate_next(self, count: int = 10, annotated: Sequence[int] = ()) -> list[int]:
        """Objects that cover the data best: each is the one least like all chosen before it.

        `annotated` are objects that are done. Without any the first is the most typical object.
        """
        similar = self.similarity()
        chosen = list(annotated) or [int(similar.mean(axis=1).argmax())]
        made = [] if annotated else chosen[:1]
        while len(made) < min(count, len(similar) - len(annotated)):
            nearest = similar[:, chosen].max(axis=1)
            nearest[chosen] = np.inf
            chosen.append(int(nearest.argmin()))
            made.append(chosen[-1])
        return made

    def save(self, path: str | Path) -> Path:
        """Write `.npz` (arrays) or `.parquet` (one row per object with a list column)."""
        place, held = Path(path), io.BytesIO()
        columns = {"scene": self.scenes, "target": self.targets, "label": self.labels}
        if place.suffix == ".npz":
            names: dict[str, Any] = {k: np.array(list(v)) for k, v in columns.items()}
            np.savez_compressed(held, vectors=self.vectors.astype(np.float32), **names)
        elif place.suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            vectors = pa.array(list(self.vectors.astype(np.float32)))
            table = pa.table({k: list(v) for k, v in columns.items()} | {"vector": vectors})
            notes = {"segmeter.model": self.model, "segmeter.dataset": self.dataset}
            pq.write_table(table.replace_schema_metadata(notes), held)
        else:
            raise BadInput(f"embeddings are written as .npz or .parquet, not '{place.name}'")
        write_file(place, held.getvalue())
        return place

    def page(self, out: str | Path, thumbnails: Sequence[npt.NDArray[np.uint8]]) -> Path:
        """Write a page with a query, its neighbours and a threshold; one thumbnail per object."""
        place = Path(out)
        write_file(place, embeddings_page(self, thumbnails).encode())
        return place


def embed_masks(
    model: Any,
    dataset: Any,
    *,
    data: str | Path | None = None,
    weights: str | Path | None = None,
    limit: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[MaskEmbeddings, list[npt.NDArray[np.uint8]]]:
    """Embed every object of a dataset with a SAM's image encoder; also a thumbnail of each.

    Parameters
    ----------
    model, dataset
        A name or an object; `"colours"` as model gives colour histograms, a baseline.
    data, weights
        Folders of datasets and of weights.
    limit
        Only the first so many images.
    progress
        Called after every image with the number of images done and in all.

    Examples
    --------
    >>> import segmeter
    >>> found, thumbnails = segmeter.embed_masks("colours", "mini", limit=1)
    >>> found.vectors.shape, len(thumbnails)
    ((5, 512), 5)
    """
    own = None if isinstance(model, str) and model == "colours" else as_model(model, weights)
    if own is not None and not isinstance(own, Sam):
        raise BadInput(f"'{own.card.name}' has no image features to embed masks with; use a SAM")
    source = as_dataset(dataset, data)
    names = list(source.scenes())[:limit]
    rows: list[tuple[str, str, str]] = []
    vectors: list[Floats] = []
    thumbnails = []
    for done, name in enumerate(names, start=1):
        scene = source.load(name)
        if scene.header.kind != "image":
            raise BadInput(f"{scene.name} is not an image; masks of images are embedded")
        masks = [target.mask for target in scene.targets]
        if own is None:
            vectors += [colour_histogram(scene, mask) for mask in masks]
        else:
            vectors += list(mask_embeddings(own, scene, masks))
        rows += [(scene.id, target.id, target.label) for target in scene.targets]
        thumbnails += [_thumbnail(scene, mask) for mask in masks]
        progress(done, len(names))
    if not vectors:
        raise BadInput(f"dataset '{source.card.name}' has no object to embed")
    scenes, targets, labels = (list(column) for column in zip(*rows, strict=True))
    made = MaskEmbeddings(str(model), source.card.name, np.array(vectors), scenes, targets, labels)
    return made, thumbnails


def _thumbnail(scene: Scene, mask: Any, side: int = 72) -> npt.NDArray[np.uint8]:
    """The object's crop in a square, the rest of the image darkened."""
    rows, columns = embedding_crop(mask)
    pixels, inside = scene.pixels[rows, columns], mask.dense()[rows, columns]
    shown = np.where(inside[..., None], pixels, pixels // 2)
    scale = side / max(shown.shape[:2])
    size = [max(1, round(n * scale)) for n in shown.shape[:2]]
    small = cv2.resize(shown, (size[1], size[0]), interpolation=cv2.INTER_AREA)
    square = np.zeros((side, side, 3), np.uint8)
    top, left = (side - size[0]) // 2, (side - size[1]) // 2
    square[top : top + size[0], left : left + size[1]] = small
    return square
