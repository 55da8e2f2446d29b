"""One video for one tracker: all objects, users and protocols, one row per prompted frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from segmeter.benchmarks.sessions import target_columns, timed_encode
from segmeter.benchmarks.video.frame_quality import FrameJudge, FrameScores, judged_frames
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
from segmeter.core.videos import FrameMasks, Track, TracksObjects, Video, at_frame, by_frame
from segmeter.models.videos.frame_trackers import on_videos
from segmeter.users.videos.frame_users import VideoObservation, label_strokes

_COUNTED = {"click": "clicks", "box": "boxes", "scribble": "strokes", "mask": "masks_drawn"}


def simulate_video(segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
    """Encode once, then run every user in every protocol on every object."""
    if not isinstance(scene, Video):
        raise BadInput(f"{scene.name} is no video; benchmark 'video' needs videos")
    tracker = on_videos(segmenter)
    users = [catalogue.users.make(spec) for spec in plan.users]
    encoded, seconds_encode = timed_encode(tracker, scene)
    if not isinstance(encoded, TracksObjects):
        raise BadInput(f"model '{tracker.card.name}' does not track; use hand-over?model=...")
    targets = [(t, t.mask) for t in scene.targets if isinstance(t.mask, FrameMasks)]
    judges = [(target, FrameJudge(mask)) for target, mask in targets]
    rows: list[Row] = []
    for user in users:
        if not (prompts_given_by(user) or {"click"}) <= tracker.card.abilities:
            continue
        together = [judges] if user.mode == "davis" else [[one] for one in judges]
        for protocol in plan.protocols:
            for some in together:
                session = _Session(scene, encoded, some, user, protocol, plan)
                rows += [row | {"seconds_encode": seconds_encode} for row in session.run()]
    return rows


@dataclass(slots=True)
class _Object:
    """One object of a session: its track, masks so far and prompts `(t, y, x)`."""

    target: Target
    track: Track
    judge: FrameJudge
    shape: tuple[int, ...]
    counts: dict[int, str] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    prompts: list[Prompt] = field(default_factory=list)

    @property
    def masks(self) -> FrameMasks:
        return FrameMasks(self.shape, dict(sorted(self.counts.items())))

    def set(self, t: int, mask: Mask) -> None:
        self.seen.add(t)
        self.counts.pop(t, None)
        if mask:
            self.counts[t] = mask.encoded()

    def give(self, t: int, prompts: Sequence[Prompt]) -> None:
        """Prompt a frame, together with what was given there before."""
        shown = self.masks.slice(t) if t in self.seen else None
        self.prompts += [at_frame(t, p) for p in prompts]
        self.set(t, self.track.prompt(t, by_frame(self.prompts)[t], shown))


class _Session:
    """One user in one protocol on one object, or on all of them together in mode `davis`."""

    def __init__(
        self, scene: Video, encoded: Any, judges: Sequence[tuple[Target, FrameJudge]],
        user: Any, protocol: ProtocolName, plan: Plan,
    ) -> None:  # fmt: skip
        self.scene, self.user, self.plan, self.encoded = scene, user, plan, encoded
        self.protocol: ProtocolName = protocol
        self.objects = [_Object(t, encoded.begin(), j, scene.shape) for t, j in judges]
        self.prompted: list[int] = []
        self.scores = self._scored()
        self.counted = dict.fromkeys((*_COUNTED.values(), "frames_watched"), 0)

    def run(self) -> Iterator[Row]:
        """One row per round and object; a user who stops early keeps the last masks."""
        t: int | None = 0
        for number in range(1, 1 + (1 if self.user.mode == "semi" else self.plan.rounds)):
            given: list[tuple[Prompt, ...]] = [() for _ in self.objects]
            start, seconds_user = perf_counter(), 0.0
            if t is not None:
                t, given, seconds_user = self._prompt(number)
            if t is not None:
                self._continue(t)
                self._count(given[0])
            seconds = perf_counter() - start - seconds_user if t is not None else 0.0
            spent = {"seconds_predict": seconds, "seconds_user": seconds_user}
            for k in range(len(self.objects)):
                yield self._row(k, number, t, given[k]) | spent

    def _prompt(self, number: int) -> tuple[int | None, list[tuple[Prompt, ...]], float]:
        """Prompt one frame; the frame, each object's prompts, and the user's seconds."""
        if self.user.mode == "davis":
            return self._strokes()
        (one,), spent = self.objects, 0.0
        given: tuple[Prompt, ...] = ()
        while True:
            start = perf_counter()
            draws = generator(
                self.plan.seed, self.scene.dataset, self.scene.id, one.target.id, self.user.name,
                number, len(given),
            )  # fmt: skip
            prompts = as_prompts(self.user.next(self._observation(0, number, given), draws))
            spent += perf_counter() - start
            if not prompts:
                break
            check_inside([p for p in prompts if not isinstance(p, MaskHint)], self.scene)
            ((t, flat),) = by_frame(prompts).items()
            one.give(t, flat)
            given += prompts
        if not given:
            return None, [()], spent
        return next(iter(by_frame(given))), [given], spent

    def _strokes(self) -> tuple[int | None, list[tuple[Prompt, ...]], float]:
        """A person's or the robot's strokes of every label, positive for one object only."""
        start, scene = perf_counter(), self.scene
        sizes = [max(map(len, o.judge.truth.counts.values())) for o in self.objects]
        recorded = {} if self.prompted else self.user.recorded(scene.id, scene.shape)
        t, strokes = next(iter(recorded.items()), (None, {}))
        if t is None:
            t = self.user.frame(self._observation(int(np.argmax(sizes)), 1, ()))
            if t is None:
                return None, [() for _ in self.objects], perf_counter() - start
            strokes = label_strokes(self._labels(t, True), self._labels(t, False), self.user.kernel)
        spent, given = perf_counter() - start, []
        drawn = [(label, _thinned(s)) for label, some in strokes.items() for s in some]
        for k, one in enumerate(self.objects, 1):
            flat = [Scribble(stroke, label == k) for label, stroke in drawn]
            if flat:
                one.give(t, flat)
            given.append(tuple(at_frame(t, p) for p in flat))
        return t, given, spent

    def _labels(self, t: int, truth: bool) -> Any:
        """The label map of a frame; the first object keeps a pixel that several claim."""
        labels = np.zeros(self.scene.shape[1:], dtype=int)
        for k, one in reversed(list(enumerate(self.objects, 1))):
            masks = one.target.mask if truth else one.masks
            labels[masks.slice(t).dense()] = k
        return labels

    def _continue(self, t: int) -> None:
        """Propagate from the prompted frame, or over the whole video; then score."""
        for one in (o for o in self.objects if o.prompts):
            forward = self.user.forward_only
            found = one.track.propagate(t, len(self.scene)) if forward else one.track.segment()
            for k, mask in found:
                one.set(k, mask)
        if len(self.objects) > 1:
            self._part()
        self.prompted.append(t)
        self.scores = self._scored()

    def _part(self) -> None:
        """Objects of mode `davis` share no pixel: the first keeps it."""
        for t in range(len(self.scene)):
            taken = Mask.empty(self.scene.shape[1:])
            for one in self.objects:
                if t in one.counts:
                    own = Mask.decoded(one.counts[t], self.scene.shape[1:])
                    one.set(t, own - taken)
                    taken = taken | own

    def _scored(self) -> list[FrameScores]:
        return [one.judge.scores(one.masks) for one in self.objects]

    def _count(self, given: Sequence[Prompt]) -> None:
        """Add what a person did in a round: prompts of the first object, frames watched."""
        for prompt in given:
            self.counted[_COUNTED[kind_of(prompt)]] += 1
        passes = {"semi": 0, "online": 1}.get(self.user.mode, len(self.prompted))
        self.counted["frames_watched"] = passes * len(self.scene)

    def _observation(self, k: int, number: int, given: tuple[Prompt, ...]) -> VideoObservation:
        one = self.objects[k]
        together = np.mean([s.jf for s in self.scores], axis=0)
        quality = together if self.user.mode == "davis" else self.scores[k].j
        return VideoObservation(
            self.scene, one.target, one.masks, tuple(one.prompts), self.protocol,
            self.encoded, round=number, given=given, prompted=tuple(self.prompted),
            frames=self.scores[k].frames, quality=tuple(quality.tolist()),
        )  # fmt: skip

    def _row(self, k: int, number: int, t: int | None, given: tuple[Prompt, ...]) -> Row:
        one, scores = self.objects[k], self.scores[k]
        semi = self.prompted[0] if self.user.mode == "semi" and self.prompted else None
        judged = judged_frames(one.judge.truth, self.protocol, semi)
        return {
            "user": self.user.name,
            "protocol": self.protocol,
            "round": number,
            **target_columns(self.scene, one.target),
            "cluster": self.scene.id,
            "kinds": "+".join(kind_of(p) for p in given),
            "prompt": round_to_json([p for p in given if not isinstance(p, MaskHint)]),
            "stopped": t is None,
            "frame": t,
            "frames": len(self.scene),
            "objects": len(self.objects),
            "frames_prompted": len(self.prompted),
            **self.counted,
            **scores.at(judged).summary(),
            "obeyed": _obeyed(one.prompts, one.masks),
            "frames_known": list(scores.frames),
            "frame_j": " ".join(f"{v:.4f}" for v in scores.j),
            "frame_f": " ".join(f"{v:.4f}" for v in scores.f),
            "mask": one.masks.encoded() if self.plan.keep_masks else None,
        }


def _obeyed(prompts: Sequence[Prompt], masks: FrameMasks) -> float | None:
    """The share of clicks that lie in the mask if positive, and outside if not."""
    found = [
        masks.slice(t)[tuple(map(round, p.point))] == p.positive
        for t, some in by_frame(prompts).items()
        for p in some
        if isinstance(p, Click)
    ]
    return float(np.mean(found)) if found else None


def _thinned(stroke: Sequence[tuple[float, ...]]) -> tuple[tuple[float, ...], ...]:
    """A stroke of at most about 100 points, to a hundredth of a pixel."""
    step = max(1, len(stroke) // 100)
    kept = [*stroke[::step], stroke[-1]]
    return tuple((round(float(y), 2), round(float(x), 2)) for y, x in kept)
