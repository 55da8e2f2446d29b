"""J and F of the frames of a video, with recall and decay, as DAVIS computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.videos import FrameMasks
from segmeter.measures.boundaries import morphological_f
from segmeter.measures.objects import iou
from segmeter.stats.intervals import Floats


@dataclass(frozen=True, slots=True)
class FrameScores:
    """J and F of some frames of one object."""

    frames: tuple[int, ...]
    j: Floats
    f: Floats

    @property
    def jf(self) -> Floats:
        return (self.j + self.f) / 2

    def at(self, frames: Sequence[int]) -> FrameScores:
        """The scores of some of its frames."""
        keep = np.isin(self.frames, frames)
        return FrameScores(tuple(np.array(self.frames)[keep].tolist()), self.j[keep], self.f[keep])

    def summary(self) -> dict[str, float]:
        """Mean, recall above 0.5 and decay of J and F, their mean, and the flicker of J."""
        found = {"jf": float(self.jf.mean())}
        for name, values in (("j", self.j), ("f", self.f)):
            found[name] = float(values.mean())
            found[f"{name}_recall"] = float((values > 0.5).mean())
            found[f"{name}_decay"] = decay(values)
        found["flicker"] = float(np.abs(np.diff(self.j)).mean()) if len(self.j) > 1 else 0.0
        return found


def decay(values: Floats) -> float:
    """The mean of the first quarter of frames less that of the last, in DAVIS's quarters.

    >>> decay(np.array([1.0, 1.0, 1.0, 0.5, 0.5, 0.5]))
    0.5
    """
    ends = np.round(np.linspace(1, len(values), 5) + 1e-10).astype(int) - 1
    return float(values[: ends[1] + 1].mean() - values[ends[3] : ends[4] + 1].mean())


def judged_frames(target: FrameMasks, protocol: ProtocolName, given: int | None) -> list[int]:
    """The frames that count.

    `published` leaves out the first and the last annotated frame, as DAVIS does; `corrected`
    leaves out only the frame `given` in which a semi-supervised user prompted, and earlier ones.
    """
    frames = list(target.known)
    kept = [t for t in frames if given is None or t > given]
    return (frames[1:-1] if protocol == "published" else kept) or frames


@dataclass(slots=True)
class FrameJudge:
    """Scores the frames of one object; a mask that was scored before is not scored again."""

    truth: FrameMasks
    _known: dict[tuple[int, str], tuple[float, float]] = field(default_factory=dict)

    def scores(self, prediction: FrameMasks) -> FrameScores:
        """J and F of every annotated frame."""
        pairs = [self._pair(t, prediction.counts.get(t, "")) for t in self.truth.known]
        table = np.array(pairs, dtype=float).reshape(-1, 2)
        return FrameScores(self.truth.known, table[:, 0], table[:, 1])

    def _pair(self, t: int, counts: str) -> tuple[float, float]:
        if (t, counts) not in self._known:
            size, own = self.truth.shape[1:], self.truth.slice(t)
            mask = Mask.decoded(counts, size) if counts else Mask.empty(size)
            self._known[t, counts] = (iou(own, mask), morphological_f(own, mask))
        return self._known[t, counts]
