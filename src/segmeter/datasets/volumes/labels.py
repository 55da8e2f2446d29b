"""Label maps of volumes as targets: one per class, or one per instance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scenes import Target

__all__ = ["Kind", "Labelling", "components", "targets_in", "whole_numbers"]

Kind = Literal["organ", "instance"]
_REACH = {6: 1, 18: 2, 26: 3}
_MOST_TABLED = 1 << 12


@dataclass(frozen=True, slots=True)
class Labelling:
    """How the values of a label map become targets.

    Attributes
    ----------
    kind
        `organ`: one target per value, however many parts it has. `instance`: one class, and
        each value one thing of it.
    names
        Class names by value.
    components
        6, 18 or 26: cut each class into connected components, each a target; 0 does not.
        With `instance` only a map of a single value is cut, for others are cut already.
    smallest
        Components of fewer voxels are left out.
    bridged
        Components that touch after growing by one voxel are one, as Adrenal ACC has it.
    excluded
        Values that are no target.
    """

    kind: Kind = "organ"
    names: Mapping[int, str] = field(default_factory=dict)
    components: int = 0
    smallest: int = 0
    bridged: bool = False
    excluded: frozenset[int] = frozenset({0})

    def check(self, what: str) -> Labelling:
        """Refuse options that mean nothing."""
        if self.kind not in ("organ", "instance"):
            raise BadInput(f"{what}: kind={self.kind} is neither organ nor instance")
        if self.components not in (0, *_REACH):
            raise BadInput(f"{what}: components={self.components} is none of 6, 18 and 26")
        return self


def targets_in(labels: npt.NDArray[Any], rule: Labelling) -> list[Target]:
    """The targets of a label map `(Z, Y, X)` by ascending value, then first voxel.

    >>> labels = np.zeros((1, 2, 5), np.uint8); labels[0, 0] = [1, 0, 2, 0, 1]
    >>> [(t.id, t.mask.area) for t in targets_in(labels, Labelling(names={1: "liver"}))]
    [('liver', 2), ('label-2', 1)]
    """
    masks = {v: m for v, m in _by_value(labels).items() if v not in rule.excluded}
    if rule.kind == "instance":
        return list(_instances(masks, rule))
    targets: list[Target] = []
    for value, mask in masks.items():
        name = rule.names.get(value) or f"label-{value}"
        if not rule.components:
            targets.append(_target(name, mask, name))
            continue
        parts = components(mask, rule.components, rule.smallest, rule.bridged)
        targets += [_target(f"{name}-{i}", m, name) for i, m in enumerate(parts, 1)]
    return targets


def components(mask: Mask, neighbours: int, smallest: int = 0, bridged: bool = False) -> list[Mask]:
    """Connected components in raster order of their first voxel, inside the mask's own box."""
    from scipy import ndimage

    if not mask:
        return []
    bits = np.pad(mask.bits, 1)
    grown = ndimage.binary_dilation(bits) if bridged else bits
    reach = ndimage.generate_binary_structure(3, _REACH[neighbours])
    numbered, _ = ndimage.label(grown, reach)
    inside = np.where(bits, numbered, 0)[1:-1, 1:-1, 1:-1]
    parts = [
        Mask.of(inside[box] == i, _moved(mask.low, box), mask.shape)
        for i, box in enumerate(ndimage.find_objects(inside), 1)
        if box is not None
    ]
    return [part for part in parts if part.area >= smallest]


def whole_numbers(what: str, labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A label map as integers; refuses fractions, what is no number, and labels below 0.

    Tools of the field disagree on what a label below 0 is, background or not to be judged, and
    nnU-Net refuses it; most often an image was taken for its label map.
    """
    whole = labels
    if labels.dtype.kind not in "iub":
        with np.errstate(invalid="ignore"):
            whole = labels.astype(np.int32)
        if not np.array_equal(whole, labels):
            raise BadInput(f"{what}: its labels are not whole numbers; it is no label map")
    lowest = int(whole.min(initial=0)) if whole.dtype.kind == "i" else 0
    if lowest < 0:
        raise BadInput(
            f"{what} has labels down to {lowest}, and 0 is background: set what is no label"
            " to 0, unless an image was given for the label map"
        )
    return whole


def _instances(masks: Mapping[int, Mask], rule: Labelling) -> Iterator[Target]:
    """Each value one thing of the one class; a single value may be cut into components."""
    name = next(iter(rule.names.values()), "object")
    if rule.components and len(masks) == 1:
        (mask,) = masks.values()
        found = components(mask, rule.components, rule.smallest, rule.bridged)
        masks = dict(enumerate(found, 1))
    for value, mask in masks.items():
        yield _target(f"{name}-{value}", mask, name)


def _target(id: str, mask: Mask, name: str) -> Target:
    return Target(id.replace("/", "_"), mask, label=name, groups={"class": name})


def _by_value(labels: npt.NDArray[Any]) -> dict[int, Mask]:
    """A mask for each value but 0, looked for only inside the value's own box."""
    from scipy import ndimage

    names, labels = _tabled(labels)
    found: dict[int, Mask] = {}
    boxes = ndimage.find_objects(labels.astype(np.int32, copy=False))
    for index, box in enumerate(boxes, 1):
        if box is not None and names.get(index):
            low = tuple(b.start for b in box)
            found[names[index]] = Mask.of(labels[box] == index, low, labels.shape)
    return dict(sorted(found.items()))


def _tabled(labels: npt.NDArray[Any]) -> tuple[dict[int, int], npt.NDArray[Any]]:
    """Small positive numbers in the place of any values, and the value of each."""
    top = int(labels.max(initial=0))
    if top <= _MOST_TABLED:
        return {v: v for v in range(1, top + 1)}, labels
    values, places = np.unique(labels, return_inverse=True)
    return {i: int(v) for i, v in enumerate(values, 1)}, places.reshape(labels.shape) + 1


def _moved(low: tuple[int, ...], box: tuple[slice, ...]) -> tuple[int, ...]:
    return tuple(a + b.start for a, b in zip(low, box, strict=True))
