"""Analysis of interacting with a model: clicks, final quality, seconds, next to simulated users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from segmeter.core.benchmarks import too_few
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.core.masks import Mask
from segmeter.core.prompts import Click
from segmeter.core.sections import (
    Answer,
    Cell,
    Column,
    Gallery,
    Illustration,
    Note,
    Outline,
    Section,
    Table,
    Value,
)
from segmeter.stats.comparisons import difference
from segmeter.stats.intervals import Resampling
from segmeter.study.analyses.rating import p_text
from segmeter.study.interactions import Interaction, Simulated, fit_costs
from segmeter.study.segmenting import click_of
from segmeter.study.stimuli import Shown, Stimuli

_AFTER, _TOLD = (1, 3, 5), 3
_SHOWN = 8


def interact_sections(
    found: Sequence[Interaction], simulated: Sequence[Simulated], stimuli: Stimuli
) -> list[Section]:
    """How many clicks participants made, how good the masks got, how long it took."""
    used = [each for each in found if each.steps]
    if not used:
        raise BadInput("no session counts yet: there is nothing to report")
    sections = [_summary(used)]
    if simulated:
        sections.append(_comparison(used, simulated))
    return [*sections, _images(used, simulated, stimuli)]


def _summary(found: Sequence[Interaction]) -> Section:
    columns = (
        Column("model"),
        Column("sessions", digits=0),
        Column("participants", digits=0),
        Column("clicks", "accepted masks", 2, better="lower", plot=True),
        Column("final IoU", digits=3, better="higher", plot=True),
        Column("IoU, resampling participants", "95 %", 3),
        Column("seconds", digits=1, better="lower", plot=True),
        Column("accepted", "%", 0, percent=True),
    )
    models = sorted({each.model for each in found})
    rows = [_row(name, [each for each in found if each.model == name]) for name in models]
    accepted = [len(each.steps) for each in found if each.accepted]
    costs = fit_costs(found)
    prices = {name: f"{price.value:.2f} s" for name, price in costs.prices.items()}
    locate = f", finding the object {prices['locate']} more" if "locate" in prices else ""
    locate = "" if prices.get("locate") == "0.00 s" else locate
    sentence = (
        f"Participants accepted a mask after **{np.mean(accepted):.1f}** clicks on average"
        f" ({len(accepted)} of {len(found)} sessions)."
        if accepted
        else f"All {len(found)} sessions ended with giving up."
    )
    note = Note(
        f"A click takes {prices['click']}{locate}, and accepting {prices.get('review', '0 s')} "
        f"(means of {costs.steps['click']} clicks of {costs.annotators} participants, pauses left "
        "out); `segmeter study costs` writes them as a cost model. Intervals resample images "
        "unless stated otherwise."
    )
    table = Table("interactions", columns, rows)
    return Section("Segmenting with a model", "", [Answer(sentence), table, note])


def _row(name: str, some: Sequence[Interaction]) -> tuple[Cell, ...]:
    def interval(some: Sequence[Interaction], values: list[float], by: str = "scene") -> Value:
        if not some:
            return Value(None)
        return Value.of(Resampling([getattr(e, by) for e in some], seed=name).interval(values))

    accepted = [each for each in some if each.accepted]
    final = [each.iou_after(len(each.steps)) for each in some]
    return (
        name,
        len(some),
        len({each.person for each in some}),
        interval(accepted, [float(len(each.steps)) for each in accepted]),
        interval(some, final),
        interval(some, final, "person"),
        interval(some, [each.seconds for each in some]),
        float(np.mean([each.accepted for each in some])),
    )


def paired_differences(
    found: Sequence[Interaction], simulated: Sequence[Simulated], user: str, clicks: int
) -> tuple[list[str], list[float], list[float]]:
    """Scene, participants' mean IoU and the simulated user's IoU of every shared object."""
    people = grouped_pairs((each.key, each.iou_after(clicks)) for each in found)
    robot = {each.key: each.iou_after(clicks) for each in simulated if each.user == user}
    common = sorted(people.keys() & robot.keys())
    means = [float(np.mean(people[key])) for key in common]
    return [key[1] for key in common], means, [robot[key] for key in common]


def _comparison(found: Sequence[Interaction], simulated: Sequence[Simulated]) -> Section:
    columns = (
        Column("simulated user"),
        Column("after clicks", digits=0),
        Column("objects", digits=0),
        Column("participants", "mean IoU", 3, plot=True),
        Column("simulated", "mean IoU", 3, plot=True),
        Column("difference", "95 %, paired by object", 3, plot=True),
        Column("p", "exchanged by image"),
    )
    rows: list[tuple[Cell, ...]] = []
    sentences = []
    for user in dict.fromkeys(each.user for each in simulated):
        for clicks in _AFTER:
            scenes, people, robot = paired_differences(found, simulated, user, clicks)
            drawn = Resampling(scenes, seed=(user, clicks))
            paired = difference(people, robot, scenes, seed=(user, clicks))
            gap = paired.interval
            cells = [Value.of(each) for each in (*map(drawn.interval, (people, robot)), gap)]
            untested = too_few(paired.scenes, "image")
            p = "–" if untested else p_text(paired.p)
            rows.append((user, clicks, len(scenes), *cells, p))
            if clicks == _TOLD:
                better = "above" if gap.value > 0 else "below"
                sure = "significantly" if paired.p < 0.05 else "but not significantly"
                sure = f"{sure} {Value.of(gap).limits(3, '95 % interval ')}".strip()
                sentences.append(
                    f"After {_TOLD} clicks the IoU of participants is **{abs(gap.value):.3f}** "
                    f"{better} that of {user} on the same objects, "
                    f"{untested or sure}."
                )
    note = Note(
        "Every object counts once: the mean over its participants against the simulated user's "
        "session with the same model. After a session has ended its last mask is carried forward. "
        "Intervals resample images; p exchanges participants and the simulated user within images."
    )
    return Section(
        "Participants and simulated users on the same objects",
        "",
        [Answer(" ".join(sentences)), Table("simulated-users", columns, rows), note],
    )


def _images(
    found: Sequence[Interaction], simulated: Sequence[Simulated], stimuli: Stimuli
) -> Section:
    """Final masks of participants and simulated users with their clicks."""
    images: list[Illustration] = []
    robots = {each.key: each for each in simulated}
    first = {each.key: each for each in reversed(found)}  # of each object
    for key in list(dict.fromkeys(each.key for each in found))[:_SHOWN]:
        each = first[key]
        scene = stimuli.shown(each.scene)
        mask = Mask.decoded(each.steps[-1]["mask"], scene.scene.shape)
        clicks = [click_of(step) for step in each.steps]
        iou = each.iou_after(len(each.steps))
        caption = f"**{each.target}** in {each.scene}: {each.person}, {each.model}, IoU {iou:.3f}"
        images.append(_illustration(scene, each.target, mask, clicks, caption))
        if key in robots:
            rounds = robots[key].record.rounds[: len(each.steps)]
            prompts = [p for made in rounds for p in made.prompts if isinstance(p, Click)]
            caption = f"the same: {robots[key].user}, IoU {rounds[-1].scores['iou']:.3f}"
            images.append(_illustration(scene, each.target, rounds[-1].mask, prompts, caption))
    legend = "Dashed line: the ground truth. Blue: the mask. + clicks add, − clicks remove."
    return Section("Final masks", "", [Note(legend), Gallery(images)])


def _illustration(
    shown: Shown, target: str, mask: Mask, clicks: Sequence[Click], caption: str
) -> Illustration:
    """The image, or the slice with most of the target and the clicks on that slice."""
    pixels = shown.scene.pixels
    ground_truth = next(t.mask for t in shown.scene.targets if t.id == target)
    if shown.depth:
        z, pixels = shown.slices[target], shown.plane(target)
        ground_truth, mask = shown.targets[target].mask, mask.slice(z).turned()
        height, width = shown.size
        clicks = [
            Click((height - 1 - c.point[1], width - 1 - c.point[2]), c.positive)
            for c in clicks
            if c.point[0] == z
        ]
        caption = f"{caption} (slice {z})"
    return Illustration(
        pixels,
        caption,
        size=pixels.shape[:2],
        outlines=[Outline(ground_truth, "ground_truth"), Outline(mask, "prediction")],
        prompts=list(clicks),
    )
