"""One video for one tracker: all objects, users and protocols, one row per prompted frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from segmeter.users.videos.frame_users import (
    ReplayedScribbles,
    VideoObservation,
    label_strokes,
)

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
    targets = [t for t in scene.targets if isinstance(t.mask, FrameMasks)]
    judges = {t.id: FrameJudge(t.mask) for t in targets if isinstance(t.mask, FrameMasks)}
    rows: list[Row] = []
    for user in users:
        if not (prompts_given_by(user) or {"click"}) <= tracker.card.abilities:
            continue
        together = [targets] if user.mode == "davis" else [[t] for t in targets]
        for protocol in plan.protocols:
            for some in together:
                session = _Session(scene, encoded, some, user, protocol, judges, plan)
                rows += [row | {"seconds_encode": seconds_encode} for row in session.run()]
    return rows


@dataclass(slots=True)
class _Object:
    """One object of a session: its track, masks so far and prompts `(t, y, x)`."""

    target: Target
    track: Track
    counts: dict[int, str] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    prompts: list[Prompt] = field(default_factory=list)

    def masks(self, shape: Sequence[int]) -> FrameMasks:
        return FrameMasks(shape, dict(sorted(self.counts.items())))

    def set(self, t: int, mask: Mask) -> None:
        self.seen.add(t)
        self.counts.pop(t, None)
        if mask:
            self.counts[t] = mask.encoded()

    def give(self, t: int, prompts: Sequence[Prompt], shape: Sequence[int]) -> None:
        """Prompt a frame, together with what was given there before."""
        shown = self.masks(shape).slice(t) if t in self.seen else None
        self.prompts += [at_frame(t, p) for p in prompts]
        self.set(t, self.track.prompt(t, by_frame(self.prompts)[t], shown))


class _Session:
    """One user in one protocol on one object, or on all of them together in mode `davis`."""

    def __init__(
        self,
        scene: Video,
        encoded: TracksObjects,
        targets: Sequence[Target],
        user: Any,
        protocol: ProtocolName,
        judges: Mapping[str, FrameJudge],
        plan: Plan,
    ) -> None:
        self.scene, self.user, self.plan = scene, user, plan
        self.encoded: Any = encoded
        self.protocol: ProtocolName = protocol
        self.objects = [_Object(target, encoded.begin()) for target in targets]
        self.judges = [judges[target.id] for target in targets]
        self.prompted: list[int] = []
        self.scores = self._scored()
        self.counted = dict.fromkeys(_COUNTED.values(), 0)
        self.watched = 0

    def run(self) -> Iterator[Row]:
        """One row per round and object; a user who stops early keeps the last masks."""
        rounds = 1 if self.user.mode == "semi" else self.plan.rounds
        seconds_user = seconds = 0.0
        t: int | None = 0
        for number in range(1, rounds + 1):
            given: list[tuple[Prompt, ...]] = [() for _ in self.objects]
            start = perf_counter()
            if t is not None:
                t, given, seconds_user = self._prompt(number)
            if t is not None:
                self._continue(t)
            seconds = perf_counter() - start - seconds_user
            for k in range(len(self.objects)):
                yield self._row(k, number, t, given[k]) | {
                    "seconds_predict": seconds if t is not None else 0.0,
                    "seconds_user": seconds_user if t is not None else 0.0,
                }

    def _prompt(self, number: int) -> tuple[int | None, list[tuple[Prompt, ...]], float]:
        """Prompt one frame; the frame, each object's prompts, and the user's seconds."""
        if self.user.mode == "davis":
            return self._strokes()
        (one,), spent = self.objects, 0.0
        given: tuple[Prompt, ...] = ()
        shape = self.scene.shape
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
            one.give(t, flat, shape)
            given += prompts
        if not given:
            return None, [()], spent
        return next(iter(by_frame(given))), [given], spent

    def _strokes(self) -> tuple[int | None, list[tuple[Prompt, ...]], float]:
        """A person's or the robot's strokes of every label, positive for one object only."""
        start = perf_counter()
        sizes = [max(map(len, o.target.mask.counts.values())) for o in self.objects]  # type: ignore[attr-defined]
        t, strokes = self._recorded() if not self.prompted else (None, {})
        if t is None:
            t = self.user.frame(self._observation(int(np.argmax(sizes)), 1, ()))
            if t is None:
                return None, [() for _ in self.objects], perf_counter() - start
            strokes = label_strokes(self._labels(t, True), self._labels(t, False), self.user.kernel)
        spent = perf_counter() - start
        given = []
        for k, one in enumerate(self.objects, 1):
            flat = [
                Scribble(_thinned(s), label == k) for label, some in strokes.items() for s in some
            ]
            if flat:
                one.give(t, flat, self.scene.shape)
            given.append(tuple(at_frame(t, p) for p in flat))
        return t, given, spent

    def _recorded(self) -> tuple[int | None, dict[int, list[Any]]]:
        if not isinstance(self.user, ReplayedScribbles):
            return None, {}
        found = self.user.recorded(self.scene.id, self.scene.shape)
        return next(iter(found.items()), (None, {}))

    def _labels(self, t: int, truth: bool) -> Any:
        """The label map of a frame; the first object keeps a pixel that several claim."""
        labels = np.zeros(self.scene.shape[1:], dtype=int)
        for k, one in reversed(list(enumerate(self.objects, 1))):
            masks = one.target.mask if truth else one.masks(self.scene.shape)
            labels[masks.slice(t).dense()] = k
        return labels

    def _continue(self, t: int) -> None:
        """Propagate from the prompted frame, or over the whole video; then score."""
        for one in self.objects:
            if self.user.forward_only:
                for k, mask in one.track.propagate(t, len(self.scene)):
                    one.set(k, mask)
            elif one.prompts:
                for k, mask in one.track.segment():
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
        shape = self.scene.shape
        return [j.scores(o.masks(shape)) for j, o in zip(self.judges, self.objects, strict=True)]

    def _observation(self, k: int, number: int, given: tuple[Prompt, ...]) -> VideoObservation:
        one = self.objects[k]
        together = np.mean([s.jf for s in self.scores], axis=0)
        quality = together if self.user.mode == "davis" else self.scores[k].j
        return VideoObservation(
            self.scene, one.target, one.masks(self.scene.shape), tuple(one.prompts), self.protocol,
            self.encoded, round=number, given=given, prompted=tuple(self.prompted),
            frames=self.scores[k].frames, quality=tuple(quality.tolist()),
        )  # fmt: skip

    def _row(self, k: int, number: int, t: int | None, given: tuple[Prompt, ...]) -> Row:
        one, scores = self.objects[k], self.scores[k]
        if k == 0 and t is not None:
            for prompt in given:
                self.counted[_COUNTED[kind_of(prompt)]] += 1
            once = self.user.mode in ("online", "semi")
            self.watched = len(self.scene) if once else self.watched + len(self.scene)
            self.watched = 0 if self.user.mode == "semi" else self.watched
        masks = one.masks(self.scene.shape)
        semi = self.prompted[0] if self.user.mode == "semi" and self.prompted else None
        assert isinstance(one.target.mask, FrameMasks)
        judged = judged_frames(one.target.mask, self.protocol, semi)
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
            "frames_watched": self.watched,
            **self.counted,
            **scores.at(judged).summary(),
            "obeyed": _obeyed(one.prompts, masks),
            "frames_known": list(scores.frames),
            "frame_j": " ".join(f"{v:.4f}" for v in scores.j),
            "frame_f": " ".join(f"{v:.4f}" for v in scores.f),
            "frame_masks": masks.encoded() if self.plan.keep_masks else None,
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
