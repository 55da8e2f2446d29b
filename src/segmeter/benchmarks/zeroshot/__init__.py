"""Segment Anything's zero-shot evaluation: points, boxes, edges and proposals."""

from __future__ import annotations

from collections.abc import Sequence

from segmeter.core.catalogue import Spec
from segmeter.core.detection_ground_truth import DetectionGroundTruth, WithDetectionGroundTruth
from segmeter.core.errors import BadInput
from segmeter.core.scenes import Scene

NOT_REPRODUCIBLE = (
    "Not reproducible from what was published: faces were blurred in all images, the parts "
    "of large datasets that were used, the skin tones, the text model and ViTDet's boxes "
    "are not public, and the weights that made SA-1B's masks were never released."
)

RULES = {"masks": "zeroshot"}
"""Segment Anything's own rules: of three masks for one point the one of the highest score, then the
single mask; its logits are fed back every round."""
OWN_RULES = (
    "SAM models choose masks by Segment Anything's own rules (`masks=zeroshot`) unless another "
    "option is given; tables leave this option out of their names."
)


def annotations_of(scene: Scene) -> DetectionGroundTruth:
    """All objects of an image with their classes, on which boxes and proposals are scored."""
    if not isinstance(scene, WithDetectionGroundTruth):
        raise BadInput(
            f"{scene.name}: boxes and proposals are scored on data in COCO's format; use coco, "
            "lvis, or your own file as coco?annotations=FILE&images=FOLDER"
        )
    return scene.detection_ground_truth


def short_name(model: str) -> str:
    """A model's name in tables.

    >>> short_name("mobile-sam?device=cpu&masks=zeroshot")
    'mobile-sam?device=cpu'
    """
    spec = Spec.parse(model)
    options = {k: v for k, v in spec.options.items() if (k, v) != ("masks", "zeroshot")}
    return str(Spec(spec.name, options))


def named(asked: str, segmenters: Sequence[Spec]) -> Spec | None:
    """The requested model, by its name alone or with its options; the first of several.

    >>> str(named("disc?radius=9", [Spec("disc", {"radius": 5}), Spec("disc", {"radius": 9})]))
    'disc?radius=9'
    """
    short_names = {short_name(str(spec)): spec for spec in reversed(segmenters)}
    by_name = {spec.name: spec for spec in reversed(segmenters)}
    return short_names.get(str(Spec.parse(asked))) or by_name.get(asked)
