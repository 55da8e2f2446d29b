"""Label maps of volumes as targets: one per class, or one per instance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.core import morphology
from segmeter.core.errors import BadInput, check_choice
from segmeter.core.masks import Mask
from segmeter.core.scenes import Target
from segmeter.datasets.mask_files import masks_of_values

Kind = Literal["organ", "instance"]
_NOISE = 1e-3  # labels that were resampled are whole numbers up to this


@dataclass(frozen=True, slots=True)
class Labelling:
    """How the values of a label map become targets.

    `organ`: one target per value, however many parts it has. `instance`: one class, and each value
    is one object of it. `components` splits each class into connected components, each a target;
    with `instance` only a map of a single value is split, others are split already. `regions` are
    classes of several values, such as nnU-Net's `"whole": [1, 2, 3]`; the only targets where there
    are any.
    """

    kind: Kind = "organ"
    names: Mapping[int, str] = field(default_factory=dict)  # class names by value
    unnamed: str = "label-"  # stands before the value of a class without a name
    regions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ignore: frozenset[int] = frozenset()  # values not scored in any target, as nnU-Net's `ignore`
    classes: tuple[str, ...] = ()  # those to use; empty for all
    components: int = 0  # 6, 18, 26, or 0
    smallest: int = 0  # components of fewer voxels are left out
    bridged: bool = False  # components that touch after growing by a voxel are one (Adrenal ACC)
    excluded: frozenset[int] = frozenset({0})  # values that are not targets

    def check(self, what: str) -> Labelling:
        """Refuse unknown options, and classes that are none of those named."""
        check_choice("kind", self.kind, ("organ", "instance"))
        if self.components not in (0, 6, 18, 26):
            raise BadInput(f"{what}: components={self.components} is none of 6, 18 and 26")
        known = [name for v, name in self.names.items() if v not in self.excluded]
        known += self.regions
        for name in self.classes:
            if known and not any(chosen([name], one) for one in known):
                raise BadInput(f"{what} has no class '{name}'; it has {', '.join(known)}")
        return self


def named_values(what: str, text: str) -> dict[int, str]:
    """Names of values as an option gives them.

    >>> named_values("data", "1:spleen, 2:liver")
    {1: 'spleen', 2: 'liver'}
    """
    pairs = [part.partition(":") for part in text.split(",") if part.strip()]
    if not all(value.strip().isdecimal() and name.strip() for value, _, name in pairs):
        raise BadInput(f"{what}: labels={text} does not name values; write labels=1:spleen,2:liver")
    return {int(value): name.strip() for value, _, name in pairs}


def targets_in(labels: npt.NDArray[Any], rule: Labelling, what: str = "a map") -> list[Target]:
    """The targets of a label map `(Z, Y, X)` by ascending value, then first voxel.

    >>> labels = np.zeros((1, 2, 5), np.uint8); labels[0, 0] = [1, 0, 2, 0, 1]
    >>> [(t.id, t.mask.area) for t in targets_in(labels, Labelling(names={1: "liver"}))]
    [('liver', 2), ('label-2', 1)]
    """
    masks = dict(masks_of_values(labels, what))
    ignored = [masks.pop(value) for value in rule.ignore if value in masks]
    ignore = reduce(or_, ignored) if ignored else None
    masks = {v: m for v, m in masks.items() if v not in rule.excluded}
    if rule.kind == "instance":
        return [replace(t, ignore=ignore) for t in _instances(masks, rule)]
    targets: list[Target] = []
    for name, mask in _named(masks, rule):
        if not chosen(rule.classes, name):
            continue
        if not rule.components:
            targets.append(_target(name, mask, name))
            continue
        parts = components(mask, rule.components, rule.smallest, rule.bridged)
        targets += [_target(f"{name}-{i}", m, name) for i, m in enumerate(parts, 1)]
    named = any(not c.removeprefix("label-").isdecimal() for c in rule.classes)
    if masks and not targets and named and not rule.names and not rule.regions:
        held = ", ".join(f"{rule.unnamed}{value}" for value in masks)
        raise BadInput(
            f"{what} has no class '{','.join(rule.classes)}'; it has {held}: say which value is "
            "which organ, as labels=1:NAME,2:NAME or in a dataset.json at the top of the folder"
        )
    return [replace(target, ignore=ignore) for target in targets]


def chosen(classes: Sequence[str], name: str) -> bool:
    called = (name.casefold(), name.casefold().removeprefix("label-"))
    return not classes or any(one.casefold() in called for one in classes)


def _named(masks: Mapping[int, Mask], rule: Labelling) -> Iterator[tuple[str, Mask]]:
    """Each region, or each value by its name."""
    for name, values in rule.regions.items():
        held = [masks[value] for value in values if value in masks]
        if held:
            yield name, reduce(or_, held)
    if not rule.regions:
        yield from ((rule.names.get(v) or f"{rule.unnamed}{v}", mask) for v, mask in masks.items())


def components(mask: Mask, neighbours: Any, smallest: int = 0, bridged: bool = False) -> list[Mask]:
    """Connected components in raster order of their first voxel, inside the mask's own box."""
    from scipy import ndimage

    grown = mask
    if bridged and mask:
        low = tuple(max(0, a - 1) for a in mask.low)
        high = tuple(min(n, b + 1) for n, b in zip(mask.shape, mask.high, strict=True))
        grown = Mask.of(ndimage.binary_dilation(mask.crop(low, high)), low, mask.shape)
    found = [part & mask for part in morphology.parts(grown, neighbours)]
    return [part for part in found if part.area >= smallest]


def whole_numbers(what: str, labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A label map as integers; refuses fractions, NaN, and labels below 0.

    Tools of the field disagree on labels below 0 (background, or not scored), and nnU-Net
    refuses them; most often an image was given in place of its label map.
    """
    whole = labels
    if labels.dtype.kind not in "iub":
        with np.errstate(invalid="ignore"):
            whole = labels.round().astype(np.int32)
        if not np.allclose(whole, labels, rtol=0, atol=_NOISE):
            raise BadInput(f"{what}: its values are not whole numbers; it is not a label map")
    lowest = int(whole.min(initial=0)) if whole.dtype.kind == "i" else 0
    if lowest < 0:
        raise BadInput(
            f"{what} has labels down to {lowest}, and 0 is background: set other values to 0,"
            " unless an image was given in place of the label map"
        )
    return whole


def _instances(masks: Mapping[int, Mask], rule: Labelling) -> Iterator[Target]:
    """Each value is one object of the class; a single value may be split into components."""
    name = next((n for v, n in rule.names.items() if v not in rule.excluded), "object")
    if rule.components and len(masks) == 1:
        (mask,) = masks.values()
        found = components(mask, rule.components, rule.smallest, rule.bridged)
        masks = dict(enumerate(found, 1))
    for value, mask in masks.items():
        yield _target(f"{name}-{value}", mask, name)


def _target(id: str, mask: Mask, name: str) -> Target:
    return Target(id.replace("/", "_"), mask, label=name, groups={"class": name})
