"""Report sections of videos: tables, curves, hardest moments, and sessions to play."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.costs import cost_of
from segmeter.benchmarks.video.statistics import seconds_of
from segmeter.core import sections as page
from segmeter.core.benchmarks import Difference, Results, Row, SummaryRow
from segmeter.core.errors import NotFound, SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.prompts import Prompt, Scribble, moved, round_from_json
from segmeter.core.scenes import Scene
from segmeter.core.scores_by_step import Tables
from segmeter.core.sections import Section
from segmeter.core.videos import FrameMasks, Video
from segmeter.stats.statistics import resampling

_SHOWN = ("jf", "j", "f", "jf-mean", "area", "jf@60s", "frames", "clicks", "strokes", "seconds")
_FRAME = ("j-recall", "j-decay", "f-recall", "f-decay", "flicker", "obeyed", "ms-frame")
_QUALITY = page.Axis("J&F, %", low=0.0, high=1.0, percent=True)
_MOST_PIXELS = 5 << 19
_MOST_FRAMES = 100


def sections(run: Results) -> list[Section]:
    found = parts.Findings(run)
    leading = found.groups(Tables, found.lead)
    apart = [d for d in found.differences if d.protocol == found.lead]
    sure = any(d.significant for d in apart)
    made = [
        _results(found, apart),
        _curves(run, leading),
        *found.difference_section(apart, users=_label, units="videos", folded=not sure),
        _moments(run, leading),
        _sessions(run, leading),
    ]
    return [section for section in made if section.blocks]


def _results(found: parts.Findings, apart: Sequence[Difference]) -> Section:
    plan = found.run.plan
    users = {str(user): place for place, user in enumerate(plan.users)}
    rows = sorted(found.rows, key=lambda r: users.get(r.user, 0))  # by mode
    by: parts.By = {page.Column("user"): lambda row: _label(row.user)}
    by = {**parts.DATA, **by} if len(plan.datasets) > 1 else by
    leading = [r for r in rows if (r.protocol, r.statistic) == (found.lead, "jf")]
    blocks: list[page.Block] = [_answer(leading, apart)] if leading else []
    note = "95 % intervals from resampling videos."
    for names, stem, caption in (
        (_SHOWN, "video", "J&F after the last round, and what it cost"),
        (_FRAME, "video-frames", "Frame by frame: recall, decay, flicker, clicks obeyed, time"),
    ):
        table = found.table(stem, rows, names, by=by, who="tracker", caption=caption, note=note)
        blocks.append(table)
    text = (
        "J is IoU, F the boundary F of DAVIS, J&F their mean over frames; mean J&F is that over "
        "one, two, ... prompted frames, as SAM 2 reports it. `published` leaves out the first and "
        "last frame and counts seconds as SAM 2 and DAVIS do; `corrected` judges all frames but "
        "the one a semi-supervised user prompts, and counts a person's seconds."
    )
    return Section("Results", text, [*blocks, *parts.lost_jobs(found.run)])


def _label(user: str) -> str:
    """A user's name in words that a narrow table can wrap.

    >>> _label("first-frame?prompt=mask"), _label("first-frame?clicks=3")
    ('first-frame, mask', 'first-frame, clicks: 3')
    """
    return user.replace("?prompt=", ", ").replace("?clicks=", ", clicks: ")


def _answer(rows: Sequence[SummaryRow], apart: Sequence[Difference]) -> page.Answer:
    """The best tracker of the first mode with several rounds, and whether that is significant."""
    user = next((r.user for r in rows if not r.user.startswith("first-frame")), rows[0].user)
    best = max((r for r in rows if r.user == user), key=lambda r: (r.value, r.model))
    same = [d for d in apart if (d.statistic, d.dataset, d.user) == ("jf", best.dataset, user)]
    pairs = [d for d in same if best.model in (d.first, d.second)]
    led = [d.second if d.first == best.model else d.first for d in pairs if d.significant]
    sure = " and ".join(led)
    ahead = f", significantly ahead of {sure}" if sure else ", but its lead is not significant"
    where = f"Highest J&F on {best.dataset} with {_label(user)}: **{best.model}**, "
    return page.Answer(page.phrase(where, parts.percent(best), f"{ahead if pairs else ''}."))


def _curves(run: Results, leading: Sequence[Tables]) -> Section:
    cost, charts = cost_of(run), []
    for dataset, user in dict.fromkeys((g.dataset, g.user) for g in leading if _stepped(g)):
        members = [g for g in leading if (g.dataset, g.user) == (dataset, user)]
        rounds = [parts.curve_with_band(g.model, g.table("jf"), resampling(g)) for g in members]
        spent = [seconds_of(g, cost).mean(0) for g in members]
        end = max(float(s[-1]) for s in spent)  # a tracker that is done keeps its last value
        timed = [
            page.Line(g.model, [*s, end], [*(y := g.table("jf").mean(0)), y[-1]], role="step")
            for g, s in zip(members, spent, strict=True)
        ]
        for axis, lines in (
            (parts.rounds_axis(run.plan.rounds, "prompted frames"), rounds),
            (page.Axis("seconds per object", low=0), timed),
        ):
            charts.append(page.Chart(f"{dataset}, {user}", axis, _QUALITY, lines))
    text = "J&F against prompted frames, with 95 % intervals, and against seconds."
    return Section("Quality against effort", text, [page.Multiples(charts)] if charts else [])


def _stepped(group: Tables) -> bool:
    """Whether users of the group prompt more than one frame."""
    return bool((group.table("frames_prompted") > 1).any())


@dataclass(frozen=True, slots=True)
class VideoCase:
    """A session with its video and the rounds in which a frame was prompted."""

    name: str
    scene: Video
    truth: FrameMasks
    rows: Sequence[Row]

    @classmethod
    def of(cls, name: str, scene: Scene, truth: Mask | None, rows: Sequence[Row]) -> VideoCase:
        """NotFound or BadInput where it cannot be shown."""
        given = [row for row in rows if not row["stopped"]]
        if not isinstance(scene, Video) or not isinstance(truth, FrameMasks) or not given:
            raise NotFound(f"{name}: its video or object is gone")
        if any(row["mask"] is None for row in given):
            raise NotFound(f"{name}: its masks were not kept")
        return cls(name, scene, truth, given)

    @classmethod
    def found(cls, run: Results, group: Tables, key: parts.Key) -> VideoCase:
        scene = run.scene(group.dataset, key[0])
        truth = next((t.mask for t in scene.targets if t.id == key[1]), None)
        name = f"{parts.title(*key)}: {group.model}, {_label(group.user)}"
        return cls.of(name, scene, truth, parts.session_rows(run, group, key, (group.user,)))

    def masks(self, row: Row) -> FrameMasks:
        return FrameMasks.decoded(row["mask"], self.scene.shape)

    def quality(self, row: Row) -> npt.NDArray[np.float64]:
        """J&F of each annotated frame."""
        j, f = (np.array(row[name].split(), float) for name in ("frame_j", "frame_f"))
        return np.asarray((j + f) / 2)


def _moments(run: Results, leading: Sequence[Tables]) -> Section:
    """The frame of lowest J&F of each video after the last round, over all trackers."""
    members = [g for g in leading if not g.user.startswith("first-frame")]
    worst: dict[parts.Key, Tables] = {}
    for _, group, key in _by_quality(members):
        worst.setdefault(key, group)
    images = []
    for key, group in [*worst.items()][:6]:
        try:
            case = VideoCase.found(run, group, key)
            values = case.quality(row := case.rows[-1])
            t = int(row["frames_known"][int(values.argmin())])
            outlines = [
                page.Outline(case.masks(row).slice(t), "prediction"),
                page.Outline(case.truth.slice(t), "ground_truth"),
            ]
            caption = f"**{case.name}**, frame {t}: J&F {100 * float(values.min()):.1f} %"
            image = page.Illustration(case.scene.frame(t), caption, caption, outlines=outlines)
        except (SegmeterError, ValueError):  # `_sessions` states the reason
            continue
        images.append(image)
    text = "The worst frame of each video after the last round; ground truth dashed."
    return Section("Hardest moments", text, [page.Gallery(images)] if images else [])


def _by_quality(groups: Sequence[Tables]) -> list[tuple[float, Tables, parts.Key]]:
    """All objects by J&F after the last round, the worst first."""
    pairs = ((g, zip(g.keys, g.table("jf")[:, -1].tolist(), strict=True)) for g in groups)
    found = [(value, group, key) for group, some in pairs for key, value in some]
    return sorted(found, key=lambda one: (one[0], one[1].key, one[2]))


def _sessions(run: Results, leading: Sequence[Tables]) -> Section:
    """The worst and the best video of each dataset, with the users who correct."""
    blocks: list[page.Block] = []
    for dataset in dict.fromkeys(g.dataset for g in leading):
        members = [g for g in leading if g.dataset == dataset]
        members = [g for g in members if _stepped(g)] or members
        pairs = _by_quality(members)
        for _, group, key in [pairs[0], pairs[-1]] if len(pairs) > 1 else pairs:
            try:
                case = VideoCase.found(run, group, key)
                blocks += [_strip(case), viewer(case, f"Protocol {group.protocol}.")]
            except (SegmeterError, ValueError) as error:
                blocks.append(page.Note(f"{error}.", "warning"))
    text = (
        "J&F of each frame after the first and the last round; numbered marks are prompted frames. "
        "Below, the video: wheel, arrow keys or a finger go through frames, left and right through "
        "rounds."
    )
    return Section("Sessions", text, blocks)


def _strip(case: VideoCase) -> page.Chart:
    """J&F per frame of the first and last round, with the prompted frames."""
    marks: list[page.Line | page.Points] = [
        page.Line(f"round {row['round']}", row["frames_known"], case.quality(row))
        for row in {row["round"]: row for row in (case.rows[0], case.rows[-1])}.values()
    ]
    frames = [int(row["frame"]) for row in case.rows]
    labels = [str(row["round"]) for row in case.rows]
    marks.append(page.Points("prompted", frames, [0.02] * len(frames), labels))
    axis = page.Axis("frame", low=0, high=len(case.scene) - 1)
    return page.Chart(case.name, axis, _QUALITY, marks)


def viewer(case: VideoCase, caption: str = "") -> page.Slices:
    """A session to play, the video thinned until it is small enough for a page."""
    import cv2

    length, height, width = case.scene.shape
    every = -(-length // _MOST_FRAMES)
    frames = range(0, length, every)
    step = int(np.ceil(np.sqrt(len(frames) * height * width / _MOST_PIXELS)))
    grey = [cv2.cvtColor(case.scene.frame(t), cv2.COLOR_RGB2GRAY)[::step, ::step] for t in frames]

    def thinned(masks: FrameMasks) -> Mask:
        kept = {k: Mask.of(masks.slice(t).dense()[::step, ::step]) for k, t in enumerate(frames)}
        return Mask.stack(kept, len(frames))

    def placed(prompt: Prompt) -> Prompt:
        if isinstance(prompt, Scribble):
            prompt = replace(prompt, points=prompt.points[::10])
        return moved(prompt, lambda p: (float(p[0] // every), p[1] / step, p[2] / step))

    shown = [
        page.Frame(
            thinned(case.masks(row)), [placed(p) for p in round_from_json(row["prompt"])],
            {"J&F": row["jf"]}, note=f"frame {row['frame']}",
        )
        for row in case.rows
    ]  # fmt: skip
    key = re.sub(r"\W+", "-", f"video-{case.scene.dataset}-{case.name}")
    return page.Slices(
        key, case.name, np.stack(grey).astype(np.uint8), shown, thinned(case.truth),
        caption=caption, every_frame=every,
    )  # fmt: skip
