"""One video for one tracker: all objects, users and protocols, one row per prompted frame.

J and F of frames, with recall and decay, are as DAVIS computes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np

from segmeter.core import catalogue
from segmeter.core.benchmarks import Row
from segmeter.core.capabilities import prompts_given_by
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Model, ProtocolName
from segmeter.core.plans import Plan
from segmeter.core.prompts import (
    Click,
    MaskHint,
    Prompt,
    Scribble,
    as_prompts,
    check_inside,
    kind_of,
    round_to_json,
)
from segmeter.core.scenes import Scene, Target
from segmeter.core.seeds import generator
from segmeter.core.videos import (
    FrameMasks,
    Track,
    TracksObjects,
    Video,
    at_frame,
    by_frame,
    label_map,
)
from segmeter.measures.boundaries import morphological_f
from segmeter.measures.objects import iou
from segmeter.models.videos.frame_trackers import as_video, on_videos
from segmeter.stats.intervals import Floats
from segmeter.users.simulation import target_columns, timed_encode
from segmeter.users.videos.frame_users import VideoObservation

_COUNTED = {"click": "clicks", "box": "boxes", "scribble": "strokes", "mask": "masks_drawn"}


def work(segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
    """Encode once, then run every user in every protocol on every object."""
    video, tracker = as_video(scene), on_videos(segmenter)
    encoded, seconds_encode = timed_encode(tracker, video)
    if not isinstance(encoded, TracksObjects):
        raise BadInput(f"model '{tracker.card.name}' does not track; use hand-over?model=...")
    judges = [(t, FrameJudge(t.mask)) for t in scene.targets if isinstance(t.mask, FrameMasks)]
    rows: list[Row] = []
    for user in users_of(tracker, map(catalogue.users.make, plan.users)):
        together = [judges] if user.mode == "davis" else [[one] for one in judges]
        for protocol in plan.protocols:
            for some in together:
                session = _Session(video, encoded, some, user, protocol, plan)
                rows += [row | {"seconds_encode": seconds_encode} for row in session.run()]
    return rows


def users_of(segmenter: Model, users: Iterable[Any]) -> list[Any]:
    """The users whose prompts a tracker takes."""
    abilities = on_videos(segmenter).card.abilities
    return [u for u in users if (prompts_given_by(u) or {"click"}) <= abilities]


@dataclass(slots=True)
class _Object:
    """One object of a session: its track, run lengths so far by frame, prompts `(t, y, x)`.

    `given` are the prompts of this round.
    """

    target: Target
    track: Track
    judge: FrameJudge
    counts: dict[int, str] = field(default_factory=dict)
    prompts: list[Prompt] = field(default_factory=list)
    given: tuple[Prompt, ...] = ()

    @property
    def masks(self) -> FrameMasks:
        counts = {t: text for t, text in sorted(self.counts.items()) if text}
        return FrameMasks(self.judge.truth.shape, counts)

    def set(self, t: int, mask: Mask) -> None:
        self.counts[t] = mask.encoded() if mask else ""

    def give(self, t: int, prompts: Sequence[Prompt]) -> None:
        """Prompt a frame, together with what was given there before."""
        shown = self.masks.slice(t) if t in self.counts else None
        self.given += tuple(at_frame(t, p) for p in prompts)
        self.prompts += self.given[-len(prompts) :]
        self.set(t, self.track.prompt(t, by_frame(self.prompts)[t], shown))


class _Session:
    """One user in one protocol on one object, or on all of them together in mode `davis`."""

    def __init__(
        self, scene: Video, encoded: Any, judges: Sequence[tuple[Target, FrameJudge]],
        user: Any, protocol: ProtocolName, plan: Plan,
    ) -> None:  # fmt: skip
        self.scene, self.user, self.plan, self.encoded = scene, user, plan, encoded
        self.protocol: ProtocolName = protocol
        self.objects = [_Object(target, encoded.begin(), judge) for target, judge in judges]
        self.prompted: list[int] = []
        self.scores = self._scored()
        self.counted = dict.fromkeys((*_COUNTED.values(), "frames_watched"), 0)
        self.seconds_user = 0.0

    def run(self) -> Iterator[Row]:
        """One row per round and object; a user who stops early keeps the last masks."""
        t: int | None = 0
        for number in range(1, 1 + (1 if self.user.mode == "semi" else self.plan.rounds)):
            for one in self.objects:
                one.given = ()
            start, self.seconds_user = perf_counter(), 0.0
            if t is not None:
                t = self._strokes() if self.user.mode == "davis" else self._prompts(number)
            if t is not None:
                self._continue(t)
            seconds = perf_counter() - start - self.seconds_user if t is not None else 0.0
            spent = {"seconds_predict": seconds, "seconds_user": self.seconds_user}
            for one, scores in zip(self.objects, self.scores, strict=True):
                yield self._row(one, scores, number, t) | spent

    def _prompts(self, number: int) -> int | None:
        """Prompt one frame of the only object."""
        (one,), t = self.objects, None
        names = (self.scene.dataset, self.scene.id, one.target.id, self.user.name)
        while True:
            start = perf_counter()
            draws = generator(self.plan.seed, *names, number, len(one.given))
            prompts = as_prompts(self.user.next(self._observation(number), draws))
            self.seconds_user += perf_counter() - start
            if not prompts:
                return t
            check_inside([p for p in prompts if not isinstance(p, MaskHint)], self.scene)
            ((t, flat),) = by_frame(prompts).items()
            one.give(t, flat)

    def _strokes(self) -> int | None:
        """A person's or the robot's strokes of every label, positive for one object only."""
        start = perf_counter()
        masks = ([one.target.mask for one in self.objects], [one.masks for one in self.objects])
        drawn: tuple[int, Any] | None = self.user.draw(self._observation(1), *masks)
        self.seconds_user = perf_counter() - start
        if drawn is None:
            return None
        for k, one in enumerate(self.objects, 1):
            flat = [Scribble(s, label == k) for label, some in drawn[1].items() for s in some]
            if flat:
                one.give(drawn[0], flat)
        return drawn[0]

    def _continue(self, t: int) -> None:
        """Propagate from the prompted frame, or over the whole video; then score."""
        for one in (o for o in self.objects if o.prompts):
            forward = self.user.mode in ("semi", "online")
            found = one.track.propagate(t, len(self.scene)) if forward else one.track.segment()
            for k, mask in found:
                one.set(k, mask)
        if len(self.objects) > 1:  # objects of mode `davis` share no pixel
            masks = [one.masks for one in self.objects]
            for k in range(len(self.scene)):
                labels = label_map(masks, k)
                for number, one in enumerate(self.objects, 1):
                    if k in one.counts:
                        one.set(k, Mask.of(labels == number))
        self.prompted.append(t)
        self.scores = self._scored()
        for prompt in self.objects[0].given:  # what a person did, frames watched included
            self.counted[_COUNTED[kind_of(prompt)]] += 1
        passes = {"semi": 0, "online": 1}.get(self.user.mode, len(self.prompted))
        self.counted["frames_watched"] = passes * len(self.scene)

    def _scored(self) -> list[Floats]:
        return [one.judge.scores(one.masks) for one in self.objects]

    def _observation(self, number: int) -> VideoObservation:
        one, quality = self.objects[0], dict[int, list[float]]()
        for each, scores in zip(self.objects, self.scores, strict=True):
            shown = scores.mean(axis=1) if self.user.mode == "davis" else scores[:, 0]
            for t, value in zip(each.judge.truth.known, shown.tolist(), strict=True):
                quality.setdefault(t, []).append(value)
        return VideoObservation(
            self.scene, one.target, one.masks, tuple(one.prompts), self.protocol,
            self.encoded, round=number, given=one.given, prompted=tuple(self.prompted),
            frames=tuple(sorted(quality)),
            quality=tuple(float(np.mean(some)) for _, some in sorted(quality.items())),
        )  # fmt: skip

    def _row(self, one: _Object, scores: Floats, number: int, t: int | None) -> Row:
        known = one.judge.truth.known
        semi = self.prompted[0] if self.user.mode == "semi" and self.prompted else None
        judged = judged_frames(one.judge.truth, self.protocol, semi)
        return {
            "user": self.user.name,
            "protocol": self.protocol,
            "round": number,
            **target_columns(self.scene, one.target),
            "cluster": self.scene.id,
            "kinds": "+".join(kind_of(p) for p in one.given),
            "prompt": round_to_json([p for p in one.given if not isinstance(p, MaskHint)]),
            "stopped": t is None,
            "frame": t,
            "frames": len(self.scene),
            "objects": len(self.objects),
            "frames_prompted": len(self.prompted),
            **self.counted,
            **summary(scores[np.isin(known, judged)]),
            "obeyed": _obeyed(one.prompts, one.masks),
            "frames_known": list(known),
            "frame_j": " ".join(f"{v:.4f}" for v in scores[:, 0]),
            "frame_f": " ".join(f"{v:.4f}" for v in scores[:, 1]),
            "mask": one.masks.encoded() if self.plan.keep_masks else None,
        }


def _obeyed(prompts: Sequence[Prompt], masks: FrameMasks) -> float | None:
    """The share of clicks that are in the mask if positive, and outside if not."""
    found = [
        masks.slice(t)[p.pixel] == p.positive
        for t, some in by_frame(prompts).items()
        for p in some
        if isinstance(p, Click)
    ]
    return float(np.mean(found)) if found else None


def summary(scores: Floats) -> dict[str, float]:
    """Mean, recall above 0.5 and decay of J and F, their mean, and the flicker of J."""
    found = {"jf": float(scores.mean(axis=1).mean())}
    for name, values in zip("jf", scores.T, strict=True):
        found[name] = float(values.mean())
        found[f"{name}_recall"] = float((values > 0.5).mean())
        found[f"{name}_decay"] = decay(values)
    found["flicker"] = float(np.abs(np.diff(scores[:, 0])).mean()) if len(scores) > 1 else 0.0
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


class FrameJudge:
    """Scores the frames of one object; a mask that was scored before is not scored again."""

    def __init__(self, truth: FrameMasks) -> None:
        self.truth, self._pair = truth, cache(self._scored)

    def scores(self, prediction: FrameMasks) -> Floats:
        """J and F of every annotated frame, `(frames, 2)`."""
        pairs = [self._pair(t, prediction.counts.get(t, "")) for t in self.truth.known]
        return np.array(pairs, dtype=float).reshape(-1, 2)

    def _scored(self, t: int, counts: str) -> tuple[float, float]:
        size, own = self.truth.shape[1:], self.truth.slice(t)
        mask = Mask.decoded(counts, size) if counts else Mask.empty(size)
        return iou(own, mask), morphological_f(own, mask)
