"""Videos: one pass for all protocols, users and modes, against one after the other.

    python perf/video.py --weights ../shared/weights --data ../shared/data/davis2016
        [--model sam2-hiera-tiny] [--sequence car-shadow] [--frames 12] [--rounds 8]
        [--modes semi,offline,online,davis] [--device auto]

`together` runs every user in both protocols on one encoded video: each frame is encoded once and
what follows from equal prompts is tracked once. `apart` encodes the video again for each user and
protocol, and tracks from the prompts of each round again, as separate evaluation scripts do. Both
give the same rows. On a processor CPU time counts, on a GPU the clock, with the share of time in
which the GPU was busy (torch's profiler).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from segmeter.benchmarks.video import VideoBenchmark
from segmeter.benchmarks.video.work import work as simulate_video
from segmeter.core import catalogue
from segmeter.core.benchmarks import Row
from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.core.scenes import SceneHeader, Target
from segmeter.core.videos import FrameMasks, Video
from segmeter.models.videos.frame_trackers import HandOver, HandOverVideo


class Forgetful(HandOverVideo):
    """Encodes and tracks again whenever a pass begins, as a plain script does."""

    def begin(self) -> Any:
        self.forget()
        self._answers = {}  # within a track they hold the state that the next prompts continue
        return super().begin()

    def forget(self) -> None:
        fresh = HandOverVideo(self.tracker, self.video)
        self.frames, self.flows, self._chains = fresh.frames, fresh.flows, {}


class Plain(HandOver):
    """Hand-over without anything shared: every pass over the video starts from nothing."""

    encodings = 0

    def encode(self, scene: Any) -> HandOverVideo:
        made = Forgetful(self, scene)
        carried, plain = made.carried, self

        def again(start: int, mask: Any, stop: int) -> Any:
            plain.encodings += made.frames.made
            made.forget()
            return carried(start, mask, stop)

        made.carried = again  # type: ignore[method-assign]
        return made


def shortened(video: Video, frames: int) -> Video:
    """The first frames of a video."""
    shape = (min(frames, len(video)), *video.shape[1:])
    targets = []
    for target in video.targets:
        assert isinstance(target.mask, FrameMasks)
        counts = {t: c for t, c in target.mask.counts.items() if t < shape[0]}
        targets.append(Target(target.id, FrameMasks(shape, counts)))
    return Video(video.dataset, video.id, video.frame, targets, header=SceneHeader("video", shape))


def timed(work: Callable[[], Any], on_gpu: bool) -> tuple[float, Any]:
    clock = time.perf_counter if on_gpu else time.process_time
    start = clock()
    found = work()
    return clock() - start, found


def plain_rows(rows: list[Row]) -> list[Row]:
    """Rows without measured seconds, in a fixed order."""
    kept = [{k: v for k, v in row.items() if not k.startswith("seconds")} for row in rows]
    return sorted(kept, key=lambda r: (r["user"], r["protocol"], r["target"], r["round"]))


def busy_share(work: Callable[[], Any]) -> float:
    """The share of time in which kernels ran on the GPU."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    start = time.perf_counter()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        work()
        torch.cuda.synchronize()
    spent = time.perf_counter() - start
    ran = sum(event.self_device_time_total for event in found.key_averages()) / 1e6
    return float(ran / spent)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--weights")
    options.add_argument("--data", default="")
    options.add_argument("--model", default="sam2-hiera-tiny")
    options.add_argument("--sequence", default="car-shadow")
    options.add_argument("--frames", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=8)
    options.add_argument("--modes", default="semi,offline,online,davis")
    options.add_argument("--device", default="auto")
    asked = options.parse_args()
    data = f"videos?path={asked.data}" if asked.data else "mini-video"
    dataset = catalogue.datasets.make(data)
    name = asked.sequence if asked.sequence in dataset.scenes() else dataset.scenes()[0]
    video = shortened(dataset.load(name), asked.frames)
    device = {} if asked.model in ("disc", "grabcut") else {"device": asked.device}
    inner = catalogue.models.make(asked.model, weights=asked.weights, **device)
    request = Plan("video", (Spec("hand-over"),), (Spec("mini-video"),), rounds=asked.rounds)
    plan = VideoBenchmark().plan(replace(request, options={"modes": asked.modes}))
    tracker = HandOver(inner, "box", memory_mb=1 << 16)
    on_gpu = not str(tracker.device).startswith("cpu")

    def together() -> list[Row]:
        return simulate_video(tracker, video, plan)

    def apart() -> list[Row]:
        rows: list[Row] = []
        for user in plan.users:
            for protocol in plan.protocols:
                one = replace(plan, users=(user,), protocols=(protocol,))
                rows += simulate_video(Plain(inner, "box", memory_mb=1 << 16), video, one)
        return rows

    simulate_video(tracker, shortened(video, 2), replace(plan, rounds=1))  # warm up
    ours, rows = timed(together, on_gpu)
    theirs, plain = timed(apart, on_gpu)
    what = "s by the clock" if on_gpu else "s of CPU"
    print(f"{video.name}, {len(video)} frames, {asked.model} on {tracker.device}")
    print(f"together {ours:.1f} {what}, apart {theirs:.1f}: {theirs / ours:.1f} x")
    print("rows equal:", plain_rows(rows) == plain_rows(plain))
    if on_gpu:
        print(f"GPU busy {100 * busy_share(together):.0f} % of the time (together)")


if __name__ == "__main__":
    main()
