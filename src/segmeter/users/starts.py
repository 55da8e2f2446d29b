"""Starts: sessions that correct a mask instead of creating one, next to those from nothing.

`--start` names the masks: a folder of label maps (last year's annotation, nnU-Net's output), a
COCO results file, a method, or a model whose automatic masks are taken. Masks and objects are
paired one to one with the largest total IoU, within classes where both have them; an object
without a partner starts from nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segmeter.core import catalogue
from segmeter.core.benchmarks import RunOption
from segmeter.core.capabilities import WithWeights
from segmeter.core.catalogue import Registry, Spec
from segmeter.core.errors import BadInput, NotFound, NoWeights
from segmeter.core.lockstep import Start
from segmeter.core.masks import Mask
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene, Target, Volume

if TYPE_CHECKING:
    from segmeter.datasets.label_files import Predictions

OPTIONS = (
    RunOption("start", str, None, "Also start from masks: a folder of label maps, a COCO results "
              "file, a method, or a model (its automatic masks)."),
    RunOption("start_digest", str, None),
)  # fmt: skip
NO_START = RunOption(
    "start", str, None, refused="it measures first clicks, which do not depend on a starting mask; "
    "'segmeter run BENCHMARK --help' lists --start if a benchmark supports it",
)  # fmt: skip
_FOUND: OrderedDict[tuple[str, ...], list[Start]] = OrderedDict()
_MOST_SCENES = 256  # whose starting masks are remembered, for other models


def with_start(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a plan with a checked `start`: files with their digest, others by full name."""
    source = options.get("start")
    if source is None:
        return dict(options)
    path = Path(str(source))
    if path.exists():
        from segmeter.datasets.label_files import Predictions

        digest = Predictions(path).card.fingerprint
        return {**options, "start": str(path.resolve()), "start_digest": digest}
    name = Spec.parse(str(source)).name
    if name in catalogue.models.names():
        source = f"automatic?model={source}"
    elif name not in catalogue.methods.names():
        raise NotFound(f"--start '{source}' is not a folder, results file, method or model")
    catalogue.methods.check(str(source))
    return {**options, "start": str(source)}


def starts_of(scene: Scene, plan: Plan, model: object) -> list[list[Start | None]]:
    """How the sessions of each target start: from nothing, and from its mask where one is given."""
    source = plan.options.get("start")
    if source is None:
        return [[None] for _ in scene.targets]
    # By all digests: data or masks of one name may have changed within a process.
    key = (source, str(plan.options.get("start_digest")), str(plan.fingerprints), scene.name)
    if key not in _FOUND:
        _FOUND[key] = _starts(scene, *key[:2], folder_of(model))
        if len(_FOUND) > _MOST_SCENES:
            _FOUND.popitem(last=False)
    return [[None, start] for start in _FOUND[key]]


def _starts(scene: Scene, source: str, digest: str, near: str | None) -> list[Start]:
    classes: Sequence[str] = ()
    if Path(source).exists():
        name = Path(source).stem
        try:
            found = _predictions(source, digest).encode(scene)
            masks, classes = found.masks, found.classes
        except NotFound:  # this scene has no file: its objects have no partner
            masks = ()
    elif isinstance(scene, Volume):
        raise BadInput(f"{scene.name}: '{source}' segments images; start from a folder of masks")
    else:
        spec = Spec.parse(source)
        name = str(spec.options.get("model", spec.name)).partition("?")[0]
        segmented = made_near(catalogue.methods, source, near).segment(scene)
        masks, labels = segmented.proposals, segmented.labels
        if masks is None and labels is None:
            raise BadInput(f"--start '{source}' gives no masks; name a method that gives some")
        if masks is None:
            masks = tuple(Mask.of(labels == value) for value in np.unique(labels))
    return [Start(mask, name) for mask in paired(scene.targets, masks, classes)]


def paired(
    targets: Sequence[Target], masks: Sequence[Mask], classes: Sequence[str] = ()
) -> list[Mask]:
    """The mask of each target, one to one with the largest total IoU; empty without a partner.

    `classes` are those of the masks; a mask of another class is no partner.
    """
    from scipy.optimize import linear_sum_assignment

    from segmeter.measures.objects import iou

    named = classes or [""] * len(masks)
    found = np.array([
        [0.0 if c and t.label and c != t.label else iou(t.mask, m)
         for m, c in zip(masks, named, strict=True)]
        for t in targets
    ]).reshape(len(targets), len(masks))  # fmt: skip
    rows, columns = linear_sum_assignment(-found)
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    partner = {i: masks[k] for i, k in pairs if found[i, k] > 0}
    return [partner.get(i, Mask.empty(target.mask.shape)) for i, target in enumerate(targets)]


@lru_cache(maxsize=4)
def _predictions(source: str, digest: str) -> Predictions:
    from segmeter.datasets.label_files import Predictions

    return Predictions(source)


@lru_cache(maxsize=2)
def made_near(registry: Registry[Any], source: str, near: str | None) -> Any:
    """Make something named, with the weights of a folder if it finds none elsewhere."""
    try:
        return registry.make(source)
    except NoWeights:
        if near is None:
            raise
        return registry.make(source, weights=near)


def folder_of(model: object) -> str | None:
    """The folder of a model's weights, where those of others may be."""
    path = model.weights_path if isinstance(model, WithWeights) else None
    return str(Path(path).parent) if path else None
