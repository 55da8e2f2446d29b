"""Report sections of videos: tables, curves, hardest moments, and sessions to play."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.report_parts import (
    DATA,
    By,
    Key,
    column_of,
    cost_of,
    curve_with_band,
    difference_section,
    session_rows,
    summary_table,
    title,
)
from segmeter.benchmarks.video import VideoBenchmark
from segmeter.benchmarks.video.statistics import seconds_of
from segmeter.core.benchmarks import Difference, Results, Row
from segmeter.core.errors import NotFound, SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.prompts import Box, Click, Prompt, Scribble, round_from_json
from segmeter.core.scenes import Scene
from segmeter.core.sections import (
    Answer,
    Axis,
    Block,
    Chart,
    Column,
    Frame,
    Gallery,
    Illustration,
    Line,
    Multiples,
    Note,
    Outline,
    Points,
    Quantity,
    Section,
    Slices,
    Value,
    phrase,
)
from segmeter.core.tables import Tables
from segmeter.core.videos import FrameMasks, Video
from segmeter.stats.statistics import cards_by_name, resampling

_SHOWN = ("jf", "j", "f", "jf-mean", "area", "jf@60s", "frames", "clicks", "strokes", "seconds")
_FRAME = ("j-recall", "j-decay", "f-recall", "f-decay", "flicker", "obeyed", "ms-frame")
_MOST_PIXELS = 5 << 19
_MOST_FRAMES = 100


def sections(run: Results) -> list[Section]:
    """All sections, in reading order."""
    benchmark, lead = VideoBenchmark(), run.plan.leading_protocol
    found = [g for g in benchmark.groups(run) if isinstance(g, Tables)]
    leading = [g for g in found if g.protocol == lead]
    cards = cards_by_name(benchmark.statistics(run))
    apart = [d for d in benchmark.differences(run) if d.protocol == lead]
    made = [
        _results(run),
        _curves(run, leading),
        *difference_section(apart, cards, users=_label, units="videos"),
        _moments(run, leading),
        _sessions(run, leading),
    ]
    return [section for section in made if section.blocks]


def _results(run: Results) -> Section:
    benchmark = VideoBenchmark()
    cards, users = cards_by_name(benchmark.statistics(run)), [str(u) for u in run.plan.users]
    rows = sorted(  # trackers of one mode next to each other
        benchmark.summary(run), key=lambda r: users.index(r.user) if r.user in users else 0
    )
    by: By = {Column("user"): lambda row: _label(row.user)}
    by = {**DATA, **by} if len(run.plan.datasets) > 1 else by
    note = "95 % intervals from resampling videos."
    blocks: list[Block] = [a for a in [_answer(run)] if a is not None]
    for names, stem, caption in (
        (_SHOWN, "video", "J&F after the last round, and what it cost"),
        (_FRAME, "video-frames", "Frame by frame: recall, decay, flicker, clicks obeyed, time"),
    ):
        columns = {n: column_of(cards[n]) for n in names}
        blocks.append(
            summary_table(stem, rows, columns, by=by, who="tracker", caption=caption, note=note)
        )
    lost = run.sql("select dataset, scene, model, error from errors order by all").to_pylist()
    if lost:
        first = f"{lost[0]['dataset']}/{lost[0]['scene']}: {lost[0]['error']}"
        blocks.append(Note(f"{len(lost)} jobs failed, the first: {first}", "warning"))
    text = (
        "J is IoU, F the boundary F of DAVIS, J&F their mean. `published` leaves out the first "
        "and last frame and counts seconds as SAM 2 and DAVIS do; `corrected` judges all frames "
        "but the one a semi-supervised user prompts, and counts a person's seconds."
    )
    return Section("Results", text, blocks)


def _label(user: str) -> str:
    """A user's name in words that a narrow table can wrap.

    >>> _label("first-frame?prompt=mask"), _label("first-frame?clicks=3")
    ('first-frame, mask', 'first-frame, clicks: 3')
    """
    return user.replace("?prompt=", ", ").replace("?clicks=", ", clicks: ")


def _answer(run: Results) -> Answer | None:
    """The best tracker of the first mode with several rounds, and whether that is significant."""
    benchmark, lead = VideoBenchmark(), run.plan.leading_protocol
    rows = [r for r in benchmark.summary(run) if r.measure == "jf" and r.protocol == lead]
    if not rows:
        return None
    user = next((r.user for r in rows if not r.user.startswith("first-frame")), rows[0].user)
    best = max((r for r in rows if r.user == user), key=lambda r: (r.value, r.model))
    limits = "" if np.isnan(best.low) else f"({best.low:.1f} to {best.high:.1f})"
    shown = Quantity(f"{best.value:.1f} %", Value.of(best), limits, "jf")
    pairs = [
        d
        for d in benchmark.differences(run)
        if (d.measure, d.protocol, d.dataset, d.user) == ("jf", lead, best.dataset, user)
        and best.model in (d.first, d.second)
    ]
    where = f"Highest J&F on {best.dataset} with {user}: **{best.model}**, "
    failed = run.sql("select count(distinct (dataset, scene)) as n from errors").to_pylist()[0]["n"]
    lost = f" {failed} videos failed and are in no number." if failed else ""
    return Answer(phrase(where, shown, f"{_lead(best.model, pairs)}.{lost}"))


def _lead(best: str, pairs: Sequence[Difference]) -> str:
    """Of which other trackers the best one is significantly ahead."""
    others = {d.second if d.first == best else d.first: d.significant for d in pairs}
    sure = [name for name, significant in others.items() if significant]
    if not sure:
        return ", but its lead is not significant" if others else ""
    all_of_them = len(sure) == len(others)
    return ", significantly ahead of " + (
        "every other" if all_of_them else f"{' and '.join(sure)} only"
    )


def _curves(run: Results, leading: Sequence[Tables]) -> Section:
    several, cost = [g for g in leading if _stepped(g)], cost_of(run)
    y, charts = Axis("J&F, %", low=0.0, high=1.0, percent=True), []
    for dataset, user in dict.fromkeys((g.dataset, g.user) for g in several):
        members = [g for g in several if (g.dataset, g.user) == (dataset, user)]
        rounds = [curve_with_band(g.model, g.table("jf"), resampling(g)) for g in members]
        charts.append(Chart(f"{dataset}, {user}", Axis("prompted frames", low=1), y, rounds))
        timed = [
            Line(g.model, seconds_of(g, cost).mean(0), g.table("jf").mean(0), role="step")
            for g in members
        ]
        charts.append(Chart(f"{dataset}, {user}", Axis("seconds per object", low=0), y, timed))
    text = "J&F against prompted frames, with 95 % intervals, and against seconds."
    return Section("Quality against effort", text, [Multiples(charts)] if charts else [])


def _stepped(group: Tables) -> bool:
    """Whether users of the group prompt more than one frame."""
    return bool((group.table("frames_prompted") > 1).any())


@dataclass(frozen=True, slots=True)
class _Case:
    """A session with its video and the rounds in which a frame was prompted."""

    name: str
    scene: Video
    truth: FrameMasks
    rows: Sequence[Row]

    def masks(self, row: Row) -> FrameMasks:
        return FrameMasks.decoded(row["mask"], self.scene.shape)

    def quality(self, row: Row) -> npt.NDArray[np.float64]:
        """J&F of each annotated frame."""
        j, f = (np.array(row[name].split(), float) for name in ("frame_j", "frame_f"))
        return np.asarray((j + f) / 2)


def _case(run: Results, group: Tables, key: Key) -> _Case | str:
    """A session to show, or the reason why it cannot be shown."""
    try:
        scene = run.scene(group.dataset, key[0])
        truth = next((t.mask for t in scene.targets if t.id == key[1]), None)
        rows = session_rows(run, group, key, (group.user,))
        name = f"{title(*key)}: {group.model}, {group.user}"
        return _checked(name, scene, truth, rows)
    except (SegmeterError, ValueError) as error:
        return f"{key[0]}: {error}"


def _checked(name: str, scene: Scene, truth: Mask | None, rows: Sequence[Row]) -> _Case:
    given = [row for row in rows if not row["stopped"]]
    if not isinstance(scene, Video) or not isinstance(truth, FrameMasks) or not given:
        raise NotFound("its video or object is gone")
    if any(row["mask"] is None for row in given):
        raise NotFound("its masks were not kept")
    case = _Case(name, scene, truth, given)
    for row in given:
        case.masks(row)
    return case


def _moments(run: Results, leading: Sequence[Tables]) -> Section:
    """The frame of lowest J&F of each video after the last round, over all trackers."""
    worst: dict[Key, tuple[float, Tables]] = {}
    for group in leading:
        if not group.user.startswith("first-frame"):
            for key, value in zip(group.keys, group.table("jf")[:, -1], strict=True):
                if key not in worst or value < worst[key][0]:
                    worst[key] = (float(value), group)
    images = []
    for key, (_, group) in sorted(worst.items(), key=lambda item: item[1][0])[:6]:
        case = _case(run, group, key)
        if isinstance(case, str):
            continue
        values = case.quality(row := case.rows[-1])
        t = int(row["frames_known"][int(values.argmin())])
        outlines = [
            Outline(case.masks(row).slice(t), "prediction"),
            Outline(case.truth.slice(t), "ground_truth"),
        ]
        caption = f"**{case.name}**, frame {t}: J&F {100 * float(values.min()):.1f} %"
        images.append(Illustration(case.scene.frame(t), caption, caption, outlines=outlines))
    text = "The worst frame of each video after the last round; ground truth dashed."
    return Section("Hardest moments", text, [Gallery(images)] if images else [])


def _sessions(run: Results, leading: Sequence[Tables]) -> Section:
    """The worst and the best video of each data set, with the users who correct."""
    blocks: list[Block] = []
    for dataset in dict.fromkeys(g.dataset for g in leading):
        members = [g for g in leading if g.dataset == dataset]
        members = [g for g in members if _stepped(g)] or members
        pairs = [(v, g, k) for g in members for k, v in zip(g.keys, g.table("jf")[:, -1])]  # noqa: B905
        pairs.sort(key=lambda p: (p[0], p[1].key, p[2]))
        for _, group, key in [pairs[0], pairs[-1]] if len(pairs) > 1 else pairs:
            case = _case(run, group, key)
            if isinstance(case, str):
                blocks.append(Note(f"{case}.", "warning"))
            else:
                blocks += [_strip(case), _viewer(case, f"Protocol {group.protocol}.")]
    text = (
        "J&F of each frame after the first and the last round; numbered marks are prompted frames. "
        "Below, the video: wheel, arrow keys or a finger go through frames, left and right through "
        "rounds."
    )
    return Section("Sessions", text, blocks)


def _strip(case: _Case) -> Chart:
    """J&F per frame of the first and last round, with the prompted frames."""
    marks: list[Line | Points] = [
        Line(f"round {row['round']}", row["frames_known"], case.quality(row))
        for row in {id(row): row for row in (case.rows[0], case.rows[-1])}.values()
    ]
    frames = [int(row["frame"]) for row in case.rows]
    labels = [str(row["round"]) for row in case.rows]
    marks.append(Points("prompted", frames, [0.02] * len(frames), labels))
    y = Axis("J&F, %", low=0.0, high=1.0, percent=True)
    return Chart(case.name, Axis("frame", low=0, high=len(case.scene) - 1), y, marks)


def session_viewer(scene: Scene, truth: Mask, rows: Sequence[Row]) -> Slices:
    """One session to play; NotFound where its masks were not kept."""
    return _viewer(_checked(scene.id, scene, truth, rows))


def _viewer(case: _Case, caption: str = "") -> Slices:
    """The video, thinned until it is small enough for a page."""
    import cv2

    length, height, width = case.scene.shape
    every, step = -(-length // _MOST_FRAMES), 1
    frames = range(0, length, every)
    while len(frames) * -(-height // step) * -(-width // step) > _MOST_PIXELS:
        step += 1
    grey = np.stack(
        [cv2.cvtColor(case.scene.frame(t), cv2.COLOR_RGB2GRAY)[::step, ::step] for t in frames]
    )

    def thinned(masks: FrameMasks) -> Mask:
        kept = {k: Mask.of(masks.slice(t).dense()[::step, ::step]) for k, t in enumerate(frames)}
        return Mask.stack(kept, len(frames))

    shown = [
        Frame(
            thinned(case.masks(row)),
            [_scaled(p, every, step) for p in round_from_json(row["prompt"])],
            {"J&F": row["jf"]},
            note=f"frame {row['frame']}",
        )
        for row in case.rows
    ]
    key = re.sub(r"\W+", "-", f"video-{case.scene.dataset}-{case.name}")
    truth = thinned(case.truth)
    return Slices(
        key, case.name, grey.astype(np.uint8), shown, truth, caption=caption, every_frame=every
    )


def _scaled(prompt: Prompt, every: int, step: int) -> Prompt:
    """A prompt `(t, y, x)` on the kept frames and pixels."""

    def there(point: Sequence[float]) -> tuple[float, ...]:
        return (float(point[0] // every), point[1] / step, point[2] / step)

    match prompt:
        case Click(point, positive):
            return Click(there(point), positive)
        case Box(low, high):
            return Box(there(low), there(high))
        case Scribble(points, positive):
            return Scribble(tuple(there(p) for p in points[::10]), positive)
    return prompt
