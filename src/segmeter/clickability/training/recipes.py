"""Recipes for training the clickability network: the published one, faults included, and ours.

| | published | corrected |
|---|---|---|
| optimiser | Adam, one rate of 0.01 for all | AdamW, 0.002; a given backbone at a tenth |
| rate | two steps at zero, warm-up over a tenth, a cosine that is cut off | warm-up, full cosine |
| loss | divergence over frame and padding | divergence over the softened error region |
| shrinking | bilinear, which loses peaks | by area |
| variation | mirror | mirror, colour, scale |
| chosen by | SIM on the split that is reported | SIM on a tenth of the training images |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from segmeter.core.errors import NotFound, suggestion
from segmeter.core.models import ProtocolName

__all__ = ["RECIPES", "Recipe", "recipe"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the network is trained.

    Attributes
    ----------
    rate
        Largest learning rate.
    backbone_rate
        Factor on the rate of a backbone that was trained before.
    decay, clip
        Weight decay, and the limit of the gradient's norm (0: none).
    """

    name: ProtocolName
    rate: float
    backbone_rate: float = 1.0
    decay: float = 0.0
    clip: float = 0.0
    epochs: int = 20
    batch: int = 16
    warm_up: float = 0.1

    @property
    def corrected(self) -> bool:
        return self.name == "corrected"

    def factor(self, step: int, steps: int) -> float:
        """The rate at a step, as a share of the largest.

        >>> published = RECIPES["published"]
        >>> [published.factor(step, 100) for step in (0, 1, 2, 11)]
        [0.0, 0.0, 0.1, 1.0]
        >>> round(published.factor(100, 100), 4), RECIPES["corrected"].factor(100, 100)
        (0.0296, 0.0)
        """
        warm = max(1, round(self.warm_up * steps))
        if not self.corrected:
            # One call too many delays the schedule, and the cosine's period is all steps.
            late = max(0, step - 1)
            if late <= warm:
                return late / warm
            return 0.5 * (1 + math.cos(math.pi * (late - warm) / steps))
        if step < warm:
            return (step + 1) / (warm + 1)
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


RECIPES = {
    "published": Recipe("published", rate=0.01),
    "corrected": Recipe("corrected", rate=0.002, backbone_rate=0.1, decay=0.01, clip=1.0),
}


def recipe(name: str) -> Recipe:
    """A recipe by name."""
    if name not in RECIPES:
        hint = suggestion(name, RECIPES)
        raise NotFound(f"no recipe '{name}';{hint} there are {', '.join(RECIPES)}")
    return RECIPES[name]
