"""A user: clicks the centre of the error region with a shaky hand."""

from dataclasses import dataclass, replace

import numpy as np

from segmeter.users.error_prompts import centre_click


@dataclass(frozen=True)
class ShakyHand:
    """Clicks the centre of the error region, a few pixels off."""

    shake_px: float = 3.0
    name: str = "shaky-hand"

    def next(self, observation, rng):
        click = centre_click(observation)
        if click is None:  # nothing is wrong: accept the mask
            return None
        last = np.array(observation.mask.shape) - 1
        point = np.clip(np.rint(click.point + rng.normal(0, self.shake_px, 2)), 0, last)
        return replace(click, point=tuple(int(c) for c in point))
