"""Edge detectors (automatic masks, two classical ones), and their rows on an image."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.seism.work import human_partitions, pixel_counts
from segmeter.core import catalogue
from segmeter.core.benchmarks import Row
from segmeter.core.capabilities import SweepsProtocols, capable
from segmeter.core.errors import BadInput
from segmeter.core.models import PROTOCOLS, Method, Model, ModelCard, ProtocolName, Segmentation
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene
from segmeter.measures.boundaries import outlines
from segmeter.measures.curves import THRESHOLDS, contour_strengths, sweep_edge_map
from segmeter.measures.suppression import suppress, suppress_along_gradient
from segmeter.models.automatic.candidates import Kept, crop_candidates
from segmeter.models.automatic.generator import clicked_model
from segmeter.models.automatic.options import Crop, Options
from segmeter.models.automatic.regions import edge_map, stretched, suppress_boxes

AUTOMATIC_EDGES = "automatic-edges"
BASELINES = ("canny-edges", "sobel-edges")
_SUMMARY = "edges of automatic masks, as in Segment Anything's supplement"
_TOGETHER = 16
_EVERYTHING = 2.0  # a cover that no mask reaches

Single = npt.NDArray[np.float32]


@catalogue.methods.add(AUTOMATIC_EDGES, summary=_SUMMARY)
@capable(SweepsProtocols)
class AutomaticEdges:
    """Edges of the masks at a 16 x 16 grid, none filtered, boxes suppressed at 0.7.

    `sweep` gives both protocols from one look.

    Parameters
    ----------
    model
        Name in the catalogue, or a model that gives logits for a grid of clicks.
    points, box_nms
        The grid, and how much boxes may overlap.
    frame_px
        A band around the image that is set to zero in `published` ("boundary zero
        padding" of a later paper).
    """

    def __init__(
        self,
        model: str | Model,
        points: int = 16,
        box_nms: float = 0.7,
        frame_px: int = 0,
        device: str | None = None,
        dtype: str | None = None,
        weights: str | Path | None = None,
    ) -> None:
        # `published` suppresses batch by batch, so here the batch's size changes results.
        self.options = Options(
            points=points, score=0.0, stability=0.0, box_nms=box_nms, covers=_EVERYTHING, batch=64
        )
        self.frame_px = frame_px
        self.model = clicked_model(model, weights, device, dtype)

    @cached_property
    def card(self) -> ModelCard:
        under = self.model.card
        return replace(
            under,
            name=f"edges of {under.name}",
            summary=f"edges of automatic masks of {under.name}",
            abilities=frozenset({"automatic"}),
            citation="kirillov2023",
        )

    def segment(self, scene: Scene) -> Segmentation:
        return self.sweep(scene)["corrected"]

    def sweep(self, scene: Scene) -> Mapping[str, Segmentation]:
        """Edge maps by protocol.

        Clicks have the positions of `published`, so that each image is encoded once.
        """
        height, width = scene.shape
        kept = crop_candidates(self.model, scene, Crop(0, 0, width, height), self.options)
        return {r: Segmentation(edges=self.edges(kept, (height, width), r)) for r in PROTOCOLS}

    def edges(self, kept: Kept, shape: tuple[int, int], protocol: ProtocolName) -> Single:
        """The finished edge map of candidates, in 0..1."""
        left = kept.take(self.suppressed(kept, protocol))
        frame = self.frame_px if protocol == "published" else 0
        found = edge_map(_maps(left), shape, protocol, frame_px=frame)
        return thinned(found.strength, found.down, found.across, protocol)

    def suppressed(self, kept: Kept, protocol: ProtocolName) -> npt.NDArray[np.intp]:
        """Candidates after suppression: `published` suppresses in each batch, then again."""
        limit = self.options.box_nms
        if protocol == "corrected":
            filled = np.flatnonzero(kept.boxes[:, 2:].max(axis=1, initial=0) > 0)
            boxes, scores = kept.boxes[filled], kept.scores[filled]
            return filled[suppress_boxes(boxes, scores, limit, "corrected")]
        batches = (np.flatnonzero(kept.part == number) for number in range(len(kept.parts)))
        first = np.concatenate(
            [b[suppress_boxes(kept.boxes[b], kept.scores[b], limit)] for b in batches]
        )
        return first[suppress_boxes(kept.boxes[first], kept.scores[first], limit)]


def thinned(strength: Single, down: Single, across: Single, protocol: ProtocolName) -> Single:
    """A map in 0..1 with only the crests of its edges left.

    `published`: smoothed, the toolbox's suppression on the map alone, cut to 8 bits; a map
    without any edge is empty. `corrected`: Canny's suppression along the gradients.
    """
    if protocol == "corrected":
        return suppress_along_gradient(stretched(strength, "corrected"), down, across)
    whole = np.nan_to_num(stretched(strength, "published"), nan=0.0)
    crests = suppress(_smoothed(whole), reach=2, margin=0, slack=1.0)
    return np.asarray(np.floor(255 * crests) / 255, dtype=np.float32)


_CLASSICAL = ModelCard("", "", frozenset({"automatic"}), family="classical")
_CANNY = "Canny edges: gradient of the smoothed image, non-maximum suppression"
_SOBEL = "Sobel filters on the unsmoothed image"


@catalogue.methods.add("canny-edges", summary=_CANNY)
class Canny:
    """Colour gradient at scale `sigma` in pixels, the strongest channel's, thinned by Canny."""

    card = replace(_CLASSICAL, name="canny-edges", summary=_CANNY, citation="canny1986")

    def __init__(self, sigma: float = 2.0) -> None:
        self.sigma = sigma

    def segment(self, scene: Scene) -> Segmentation:
        from scipy.ndimage import gaussian_filter

        return _gradient(scene, lambda p, axis: gaussian_filter(p, self.sigma, order=_ORDER[axis]))


@catalogue.methods.add("sobel-edges", summary=_SOBEL)
class Sobel:
    """Sobel's 3 x 3 filters, the strongest channel's, thinned by Canny's suppression."""

    card = replace(_CLASSICAL, name="sobel-edges", summary=_SOBEL, citation="sobel1968")

    def segment(self, scene: Scene) -> Segmentation:
        from scipy.ndimage import sobel

        return _gradient(scene, sobel)


_ORDER = ((1, 0), (0, 1))  # derivatives down and across


def _gradient(scene: Scene, filtered: Callable[[Single, int], Single]) -> Segmentation:
    """Crests of the gradient of the channel where it is strongest."""
    planes = [scene.pixels[..., c].astype(np.float32) for c in range(3)]
    down, across = (np.stack([filtered(p, axis) for p in planes]) for axis in (0, 1))
    strength = np.hypot(down, across)
    best = strength.argmax(axis=0)[None]
    strongest, y, x = (np.take_along_axis(a, best, axis=0)[0] for a in (strength, down, across))
    return Segmentation(edges=thinned(strongest, y, x, "corrected"))


def _maps(kept: Kept) -> Iterator[Single]:
    """Each candidate's logits at full size, a few at a time, in order."""
    for start in range(0, len(kept), _TOGETHER):
        few = kept.take(np.arange(start, min(start + _TOGETHER, len(kept))))
        made: dict[int, Single] = {}
        for mine, part in few.groups():
            made |= zip(mine.tolist(), part.values(), strict=True)
        yield from (made[i] for i in range(len(few)))


def _smoothed(strength: Single) -> Single:
    """A 3 x 3 Gaussian; the border is mirrored without its outermost pixels."""
    from scipy.ndimage import correlate1d

    kernel = np.array([1, 2, 1], dtype=np.float32) / 4
    for axis in (0, 1):
        strength = correlate1d(strength, kernel, axis=axis, mode="mirror")
    return strength


def work(method: Method, scene: Scene, plan: Plan) -> list[Row]:
    """All rows of an image: one per protocol and threshold."""
    ground_truths = outlines(human_partitions(scene))
    started = time.perf_counter()
    if isinstance(method, SweepsProtocols):
        found = method.sweep(scene)
        results = {protocol: found[protocol] for protocol in plan.protocols}
    else:
        results = dict.fromkeys(plan.protocols, method.segment(scene))
    seconds = time.perf_counter() - started
    maps = {id(result): _edges(result, scene) for result in results.values()}
    counted = {  # protocols may share one map
        key: sweep_edge_map(ground_truths, edges, rule="edges", threads=plan.threads)
        for key, edges in maps.items()
    }
    return [
        {"protocol": protocol, "threshold": threshold, "f": counts.f, "cluster": scene.id}
        | pixel_counts(counts)
        | {"seconds_encode": seconds}
        for protocol, result in results.items()
        for threshold, counts in zip(THRESHOLDS.tolist(), counted[id(result)], strict=True)
    ]


def _edges(result: Segmentation, scene: Scene) -> Single:
    if result.edges is not None:
        edges = result.edges
    elif result.levels is not None:
        edges = contour_strengths(result.levels)
    else:
        raise BadInput("edges evaluates edge maps (FOLDER?kind=edges) and hierarchies only")
    if edges.shape != scene.partitions[0].shape:
        size = " x ".join(map(str, edges.shape[::-1]))
        raise BadInput(f"{scene.name}: the edge map is {size}, not the size of the image")
    return edges
