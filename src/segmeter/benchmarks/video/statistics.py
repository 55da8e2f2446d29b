"""Statistics of videos (J&F after the last round, over rounds, against seconds) and their sections.

Every object counts once; intervals resample videos. Published seconds are SAM 2's (1 s to find
the object in a frame, 1.5 s per click, 0.1 s per frame watched), or in mode `davis` the seconds
that the tracker took, as the DAVIS package counts them. Corrected seconds are a person's, under
the cost model in use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.analysis import report_parts as parts
from segmeter.analysis.costs import cost_of
from segmeter.analysis.report_cases import Key, object_title, session_rows
from segmeter.benchmarks.video import COUNTS, NUMBERS
from segmeter.core import sections as page
from segmeter.core.benchmarks import Difference, Results, Row
from segmeter.core.errors import NotFound, SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.prompts import MaskHint, Prompt, Scribble, moved, round_from_json
from segmeter.core.scenes import Scene
from segmeter.core.scores_by_step import Tables
from segmeter.core.sections import Section
from segmeter.core.videos import FrameMasks, Video
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import Statistic, mean_of_known

DAVIS_SECONDS = 60.0
_TIMEOUT = 30.0
"""Seconds per object and interaction of the DAVIS challenge."""
_PUBLISHED = CostModel()
Values = Callable[[Tables], Floats]


def groups(run: Results) -> list[Tables]:
    """The run's sessions, a line per object and a column per round."""
    found = Tables.load(run, (*NUMBERS, *COUNTS, "seconds_predict", "seconds_encode"))
    return [replace(tables, unit="video") for tables in found]


def seconds_of(group: Tables, cost: CostModel) -> Floats:
    """Seconds by the end of each round, `(objects, rounds)`."""
    if group.protocol == "published":
        if "scribble" in group.user:
            spent = np.cumsum(np.nan_to_num(group.table("seconds_predict")), axis=1)
            return np.asarray(spent + group.table("seconds_encode"))
        cost = _PUBLISHED
    return np.asarray(
        cost.locate * group.table("frames_prompted")
        + cost.click * group.table("clicks")
        + cost.box * group.table("boxes")
        + cost.scribble * group.table("strokes")
        + cost.by_hand * group.table("masks_drawn")
        + cost.scroll * group.table("frames_watched")
    )


def at_seconds(quality: Floats, seconds: Floats, when: float = DAVIS_SECONDS) -> Floats:
    """Quality at a time, linear between rounds from 0 at the start, the last value held.

    >>> at_seconds(np.array([[0.5, 1.0]]), np.array([[30.0, 90.0]])).tolist()
    [0.75]
    """
    return np.array(
        [np.interp(when, [0.0, *s], [0.0, *q]) for q, s in zip(quality, seconds, strict=True)]
    )


def davis_area(quality: Floats, seconds: Floats, timeout: Floats) -> Floats:
    """Area under quality against seconds up to each object's timeout, divided by it.

    >>> davis_area(np.array([[0.5, 1.0]]), np.array([[2.0, 4.0]]), np.array([8.0])).tolist()
    [0.75]
    """
    found = []
    for q, s, end in zip(quality, seconds, timeout, strict=True):
        x = np.unique(np.clip([0.0, *s, end], 0, end))
        found.append(np.trapezoid(np.interp(x, [0.0, *s], [0.0, *q]), x) / end)
    return np.array(found)


def statistics(run: Results) -> list[Statistic]:
    cost = cost_of(run)

    def seconds(group: Tables) -> Floats:
        return seconds_of(group, cost)

    def area(group: Tables) -> Floats:
        quality = group.table("jf")
        if group.protocol == "published" and "scribble" in group.user:
            timeout = _TIMEOUT * quality.shape[1] * group.table("objects")[:, 0]
            return davis_area(quality, seconds(group), timeout)
        return np.asarray(quality.mean(axis=1))

    def share(name: str, title: str, values: Values | None = None, **more: Any) -> Statistic:
        values = values or _last(name.replace("-", "_"))
        more = {"better": "higher", **more}
        return Statistic(name, title, "%", 1, percent=True, values=values, of=Tables, **more)

    def spent(name: str, title: str, unit: str, digits: int, of: Values, **more: Any) -> Statistic:
        return Statistic(name, title, unit, digits, "lower", values=of, of=Tables, **more)

    return [
        share("jf", "J&F", tested="yes"),
        share("j", "J"),
        share("f", "F"),
        share("j-recall", "J recall"),
        share("j-decay", "J decay", better="lower"),
        share("f-recall", "F recall"),
        share("f-decay", "F decay", better="lower"),
        share("jf-mean", "mean J&F", lambda g: g.table("jf").mean(axis=1), tested="yes"),
        share("area", "area", area),
        share("jf@60s", "J&F at 60 s", lambda g: at_seconds(g.table("jf"), seconds(g))),
        *(share(f"jf@{n}", f"J&F, {n} prompted", _last("jf", n)) for n in (1, 2, 4, 8)),
        share("flicker", "flicker", better="lower"),
        share("obeyed", "clicks obeyed", interval=mean_of_known),
        spent("frames", "prompted", "frames", 2, _last("frames_prompted")),
        spent("clicks", "clicks", "", 1, _last("clicks"), effort="clicks"),
        spent("strokes", "strokes", "", 1, _last("strokes")),
        spent("seconds", "seconds", "s", 0, lambda g: seconds(g)[:, -1], effort="seconds"),
        spent("ms-frame", "tracker, per frame", "ms", 0, _per_frame, tested="no"),
    ]


def _last(column: str, rounds: int = 1 << 30) -> Values:
    """The value after so many rounds, or after the last one."""
    return lambda group: group.table(column)[:, :rounds][:, -1]


def _per_frame(group: Tables) -> Floats:
    spent: Floats = np.nan_to_num(group.table("seconds_predict")).sum(axis=1)
    passes = np.maximum(group.table("frames_prompted")[:, -1], 1)
    return np.asarray(1000 * spent / (passes * group.table("frames")[:, 0]))


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
    return [
        _results(found, apart),
        _curves(run, leading),
        *found.difference_section(apart, users=_label, folded=not sure),
        _moments(run, leading),
        _sessions(run, leading),
    ]


def _results(found: parts.Findings, apart: Sequence[Difference]) -> Section:
    plan = found.run.plan
    users = {str(user): place for place, user in enumerate(plan.users)}
    rows = sorted(found.rows, key=lambda r: users.get(r.user, 0))  # by mode
    by: parts.By = {page.Column("user"): lambda row: _label(row.user)}
    by = {**parts.DATA, **by} if len(plan.datasets) > 1 else by
    leading = [r for r in rows if (r.protocol, r.statistic) == (found.lead, "jf")]
    # The first mode with several rounds, if there is one.
    several = [r for r in leading if not r.user.startswith("first-frame")] or leading
    mine = [r for r in several if r.key[1:] == several[0].key[1:]]
    blocks = parts.best_answer(mine, ("jf",), found.cards, "", apart)
    note = "95 % intervals from resampling videos. " if any(r.low < r.high for r in rows) else ""
    shared = "Milliseconds exclude what an earlier user or protocol of the run had computed."
    for names, stem, caption in (
        (_SHOWN, "video", "J&F after the last round, and the effort"),
        (_FRAME, "video-frames", "Frame by frame: recall, decay, flicker, clicks obeyed, time"),
    ):
        more = note + shared * (names == _FRAME)
        table = found.table(stem, rows, names, by=by, who="tracker", caption=caption, note=more)
        blocks.append(table)
    text = (
        "J is IoU, F the boundary F of DAVIS, J&F their mean over frames; mean J&F is over one, "
        "two, ... prompted frames, as SAM 2 reports it. `published` leaves out the first and last "
        "frame and counts seconds as SAM 2 and DAVIS do; `corrected` scores all frames except "
        "the one a semi-supervised user prompts, and counts a person's seconds."
    )
    return Section("Results", text, blocks)


def _label(user: str) -> str:
    """A user's name in words that a narrow table can wrap.

    >>> _label("first-frame?prompt=mask"), _label("first-frame?clicks=3")
    ('first-frame, mask', 'first-frame, clicks: 3')
    """
    return user.replace("?prompt=", ", ").replace("?clicks=", ", clicks: ")


def _curves(run: Results, leading: Sequence[Tables]) -> Section:
    cost, charts = cost_of(run), []
    for dataset, user in dict.fromkeys((g.dataset, g.user) for g in leading if _stepped(g)):
        members = [g for g in leading if (g.dataset, g.user) == (dataset, user)]
        rounds = [parts.curve_with_band(g.model, g.table("jf"), g) for g in members]
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
    def found(cls, run: Results, group: Tables, key: Key) -> VideoCase:
        scene = run.scene(group.dataset, key[0])
        truth = next((t.mask for t in scene.targets if t.id == key[1]), None)
        name = f"{object_title(*key)}: {group.model}, {_label(group.user)}"
        return cls.of(name, scene, truth, session_rows(run, group, key, (group.user,)))

    def masks(self, row: Row) -> FrameMasks:
        return FrameMasks.decoded(row["mask"], self.scene.shape)

    def quality(self, row: Row) -> npt.NDArray[np.float64]:
        j, f = (np.array(row[name].split(), float) for name in ("frame_j", "frame_f"))
        return np.asarray((j + f) / 2)


def _moments(run: Results, leading: Sequence[Tables]) -> Section:
    """The frame of lowest J&F of each video after the last round, over all trackers."""
    members = [g for g in leading if not g.user.startswith("first-frame")]
    worst: dict[Key, Tables] = {}
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


def _by_quality(groups: Sequence[Tables]) -> list[tuple[float, Tables, Key]]:
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
                blocks += [_strip(case), _scrolled(case, f"Protocol {group.protocol}.")]
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


def viewer(scene: Scene, truth: Mask | None, rows: Sequence[Row]) -> page.Slices:
    return _scrolled(VideoCase.of(scene.id, scene, truth, rows))


def _scrolled(case: VideoCase, caption: str = "") -> page.Slices:
    """A session to replay, with every nth frame so that it fits on a page."""
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

    truth = thinned(case.truth)
    shown = [
        page.Frame(
            thinned(case.masks(row)),
            [MaskHint(truth)] * ("mask" in row["kinds"].split("+"))  # its pixels are not stored
            + [placed(p) for p in round_from_json(row["prompt"])],
            {"J&F": row["jf"]}, note=f"frame {row['frame']}",
        )
        for row in case.rows
    ]  # fmt: skip
    key = re.sub(r"\W+", "-", f"video-{case.scene.dataset}-{case.name}")
    return page.Slices(
        key, case.name, np.stack(grey).astype(np.uint8), shown, truth,
        caption=caption, every_frame=every,
    )  # fmt: skip
