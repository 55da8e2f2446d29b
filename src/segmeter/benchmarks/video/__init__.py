"""Video: interactive segmentation through time, in the modes of SAM 2 and DAVIS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from segmeter.benchmarks.declared import Declared, elsewhere
from segmeter.core import catalogue
from segmeter.core.benchmarks import PaperLayout, Results, RunOption
from segmeter.core.capabilities import ChoosesUsers, RunsUsersIndependently, ShowsSessions, capable
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, check_choice
from segmeter.core.plans import Plan
from segmeter.core.rows import SESSION_ROWS, Column

_SEMI = ("prompt=mask", "prompt=box", "clicks=1", "clicks=3", "clicks=5")
MODES: Mapping[str, tuple[str, ...]] = {
    "semi": tuple(f"first-frame?{how}" for how in _SEMI),
    "offline": ("worst-frame",),
    "online": ("first-bad-frame",),
    "davis": ("scribble-robot",),
}
"""Users of each mode."""

NUMBERS = {
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
COUNTS = {
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


@catalogue.benchmarks.add("video", summary="videos: J&F by number of prompted frames (DAVIS)")
@capable(ChoosesUsers, RunsUsersIndependently, ShowsSessions)
class VideoBenchmark(Declared):
    """Four modes: semi-supervised, offline and online (SAM 2), and scribbles (DAVIS)."""

    name = "video"
    pages = "statistics"
    example = "--model hand-over?model=grabcut --dataset mini-video"
    options = (
        RunOption("modes", str, ",".join(MODES), "Modes to run: semi, offline, online, davis."),
    )
    users = tuple(user for some in MODES.values() for user in some)
    rounds = 8
    headline = ("jf", "jf-mean", "jf@60s", "seconds")
    split_by = ("jf", "jf-mean")
    citations: ClassVar[Mapping[str, str]] = {
        "modes offline and online": "ravi2024",
        "mode davis": "caelles2018",
        "J and F": "perazzi2016",
    }
    layout = PaperLayout(
        {"jf": "J&F", "j": "J", "f": "F", "jf-mean": "mean over prompted frames"},
        "J&F after the last round, J, F, and the mean J&F over rounds (%)",
    )
    users_for = elsewhere("work:users_of")
    viewer = elsewhere("statistics:viewer")
    schema = SESSION_ROWS.plus(
        [
            *(Column(name, "number", says) for name, says in NUMBERS.items()),
            *(Column(name, "integer", says) for name, says in COUNTS.items()),
            Column("frames_known", "integers", "annotated frames"),
            Column("frame_j", "text", "J of each annotated frame"),
            Column("frame_f", "text", "F of each annotated frame"),
        ]
    )

    def plan(self, plan: Plan) -> Plan:
        if plan.measures:
            raise BadInput("benchmark 'video' scores J and F; it takes no --measure")
        made = super().plan(plan)
        modes = [mode.strip() for mode in made.options["modes"].split(",") if mode.strip()]
        for mode in modes:
            check_choice("mode", mode, list(MODES))
        users = tuple(Spec.parse(user) for mode in modes for user in MODES[mode])
        return replace(made, users=plan.users or users)

    def left_out(self, run: Results) -> list[str]:
        """Trackers take all prompts that they have a rule for; the report lists what ran."""
        return []
