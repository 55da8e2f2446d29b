"""Video: interactive segmentation through time, in the modes of SAM 2 and DAVIS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from segmeter.benchmarks.declared import Declared
from segmeter.core import catalogue
from segmeter.core.benchmarks import Group, PaperLayout, Results, Row, RunOption
from segmeter.core.capabilities import (
    ChoosesUsers,
    RunsUsersIndependently,
    ShowsSessions,
    capable,
    prompts_given_by,
)
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, check_choice
from segmeter.core.masks import Mask
from segmeter.core.models import Model
from segmeter.core.plans import Plan
from segmeter.core.rows import SESSION_ROWS, Column, Schema
from segmeter.core.scenes import Scene
from segmeter.core.sections import Section, Slices
from segmeter.core.users import User
from segmeter.stats.statistics import Statistic

__all__ = ["MODES", "VideoBenchmark"]

_ROUNDS = 8
MODES: Mapping[str, tuple[str, ...]] = {
    "semi": (
        "first-frame?prompt=mask",
        "first-frame?prompt=box",
        "first-frame?clicks=1",
        "first-frame?clicks=3",
        "first-frame?clicks=5",
    ),
    "offline": ("worst-frame",),
    "online": ("first-bad-frame",),
    "davis": ("scribble-robot",),
}
"""Users of each mode."""

_NUMBERS = {
    "jf": "mean of J and F over the judged frames",
    "j": "mean IoU of the judged frames",
    "f": "mean boundary F of the judged frames",
    "j_recall": "share of frames with J above 0.5",
    "f_recall": "share of frames with F above 0.5",
    "j_decay": "J of the first quarter of frames less that of the last",
    "f_decay": "F of the first quarter of frames less that of the last",
    "flicker": "mean change of J from frame to frame",
    "obeyed": "share of all clicks so far that the masks obey; null without clicks",
}
_COUNTS = {
    "frame": "frame prompted in this round; null when the user stopped",
    "frames": "frames of the video",
    "objects": "objects of the video that were tracked together",
    "frames_prompted": "frames prompted so far",
    "frames_watched": "frames watched so far",
    "clicks": "clicks so far",
    "boxes": "boxes so far",
    "strokes": "strokes so far",
    "masks_drawn": "masks drawn by hand so far",
}


@catalogue.benchmarks.add("video", summary="videos: J&F against prompted frames (SAM 2, DAVIS)")
@dataclass(frozen=True, slots=True)
@capable(ChoosesUsers, RunsUsersIndependently, ShowsSessions)
class VideoBenchmark(Declared):
    """Four modes: semi-supervised, offline and online (SAM 2), and scribbles (DAVIS)."""

    name: str = "video"
    options: ClassVar[tuple[RunOption, ...]] = (
        RunOption("modes", str, ",".join(MODES), "Modes to run: semi, offline, online, davis."),
    )
    independent_users: ClassVar[bool] = True
    headline: ClassVar[tuple[str, ...]] = ("jf", "jf-mean", "jf@60s", "seconds")
    split_by: ClassVar[tuple[str, ...]] = ("jf", "jf-mean")
    citations: ClassVar[Mapping[str, str]] = {
        "modes offline and online": "ravi2024",
        "mode davis": "caelles2018",
        "J and F": "perazzi2016",
    }
    schema: ClassVar[Schema] = SESSION_ROWS.plus(
        [
            *(Column(name, "number", says) for name, says in _NUMBERS.items()),
            *(Column(name, "integer", says) for name, says in _COUNTS.items()),
            Column("frames_known", "integers", "annotated frames"),
            Column("frame_j", "text", "J of each annotated frame"),
            Column("frame_f", "text", "F of each annotated frame"),
        ]
    )

    def plan(self, plan: Plan) -> Plan:
        if plan.kind != "model":
            raise BadInput("benchmark 'video' tests trackers, not methods; use --tracker")
        if plan.measures:
            raise BadInput("benchmark 'video' scores J and F; it takes no --measure")
        modes = _modes(plan.options)
        users = plan.users or tuple(Spec.parse(u) for mode in modes for u in MODES[mode])
        return replace(
            plan,
            users=users,
            rounds=plan.rounds or _ROUNDS,
            protocols=plan.protocols or ("published", "corrected"),
            options={"modes": ",".join(modes)},
        )

    def users_for(self, segmenter: Model, users: Sequence[User]) -> list[User]:
        """The users whose prompts a tracker takes."""
        from segmeter.models.videos.frame_trackers import on_videos

        abilities = on_videos(segmenter).card.abilities
        return [u for u in users if (prompts_given_by(u) or {"click"}) <= abilities]

    def left_out(self, run: Results) -> list[str]:
        """Trackers take all prompts that they have a rule for; the report lists what ran."""
        return []

    def work(self, segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
        from segmeter.benchmarks.video.simulation import simulate_video

        return simulate_video(segmenter, scene, plan)

    def load(self, run: Results) -> Sequence[Group]:
        from segmeter.benchmarks.video.statistics import groups

        return groups(run)

    def statistics(self, run: Results) -> Sequence[Statistic]:
        from segmeter.benchmarks.video.statistics import statistics

        return statistics(run)

    def paper_table(self, run: Results) -> PaperLayout:
        return PaperLayout(
            {"jf": "J&F", "j": "J", "f": "F", "jf-mean": "mean over prompted frames"},
            "J&F after the last round, J, F, and the mean J&F over rounds (%)",
        )

    def viewer(self, scene: Scene, ground_truth: Mask, rows: Sequence[Row]) -> Slices:
        """One session as a video to play."""
        from segmeter.benchmarks.video.sections import session_viewer

        return session_viewer(scene, ground_truth, rows)

    def sections(self, run: Results) -> Sequence[Section]:
        from segmeter.benchmarks.video.sections import sections

        return sections(run)


def _modes(options: Mapping[str, Any]) -> list[str]:
    for name in options:
        check_choice("setting", name, ["modes"])
    asked = str(options.get("modes", ",".join(MODES)))
    modes = [mode.strip() for mode in asked.split(",") if mode.strip()]
    for mode in modes:
        check_choice("mode", mode, list(MODES))
    return modes
