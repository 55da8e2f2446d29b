"""Report sections on people's clicks."""

from __future__ import annotations

from collections.abc import Sequence

from segmeter.benchmarks.rclicks import Rclicks
from segmeter.benchmarks.rclicks.click_effects import conclusions
from segmeter.benchmarks.rclicks.click_images import hard_targets, maps_and_groups
from segmeter.benchmarks.rclicks.estimates import Findings, findings
from segmeter.benchmarks.rclicks.figures import correlations, curves, scatter
from segmeter.benchmarks.rclicks.pairwise import pairwise_result
from segmeter.benchmarks.rclicks.tables import (
    components_table,
    null_table,
    paper_tables,
    ranking_table,
    short_table,
)
from segmeter.benchmarks.response_section import response_sections
from segmeter.core.benchmarks import Results
from segmeter.core.sections import Block, Note, Section

__all__ = ["sections"]


def sections(run: Results) -> list[Section]:
    """All sections, in reading order."""
    found = findings(run)
    lead = [f for f in found if f.trial.protocol == "corrected"] or found
    pairwise = pairwise_result(lead, Rclicks().differences(run))
    return [
        Section("Results", "", [*conclusions(lead), short_table(found)]),
        *([pairwise] if pairwise else []),
        _growth(lead),
        _worth(lead),
        Section("The paper's tables, both protocols", _PROTOCOLS, paper_tables(found)),
        _spread(lead),
        Section("Where people click", _maps_text(run), maps_and_groups(run, lead)),
        _hard(run, lead),
        *response_sections(run, Rclicks()),
        Section("Correlation of statistics", _SAME, [correlations(lead)], folded=True),
        Section(
            "Every statistic and its null", _NULL, [null_table(f, True) for f in found], folded=True
        ),
    ]


_PROTOCOLS = (
    "**published** repeats the authors' code: groups are cut by value, so that they overlap "
    "and hold more than a tenth; every image draws the same random numbers; relative "
    "differences are means of each object's ratio; standard deviations divide by n. **corrected** "
    "cuts exact tenths, draws independently for every object, group and round, takes ratios of "
    "means over all draws, merges halves for ΔHH, and divides by n - 1."
)
_SAME = "Two statistics that correlate strongly rank models, or objects, alike."
_NULL = "All statistics, each with its value where it does not matter who clicked."
_HARD = (
    "Noise against signal (NSR) of the first click: the spread of IoU over everybody who "
    "clicked, divided by its mean. Where it is high, one person's click succeeds and "
    "another's fails."
)


def _growth(lead: Sequence[Findings]) -> Section:
    text = "Mean IoU after each round, with clicks that many people would make and few would."
    return Section("Quality by number of clicks", text, [curves(lead)])


def _worth(lead: Sequence[Findings]) -> Section:
    """Each statistic against what shuffled labels give."""
    text = (
        "A number is worth what it exceeds the same number under the null by. Under the null: the "
        "clickers of an object change places at random (groups among themselves; the centre "
        "click with all of them), and the statistic is computed again, 500 to 2000 times. Means of "
        "ratios are above zero even then, because a small count below the line weighs more "
        "than a large one. p is two-sided: the share of shuffles that lie at least as far from "
        "their own mean as what was seen. It asks whether the labels matter on these "
        "images; the interval asks what other images would give: one may leave out "
        "zero while the other finds no difference from the null."
    )
    return Section("Effect sizes against the null", text, [null_table(f) for f in lead])


def _spread(lead: Sequence[Findings]) -> Section:
    """Mean against spread, and where the spread comes from."""
    blocks: list[Block] = []
    parts = components_table(lead)
    blocks.append(
        parts
        if parts is not None
        else Note("Each group played once: chance and groups cannot be told apart.", "warning")
    )
    chart = scatter(lead)
    if chart is not None:
        blocks.append(chart)
    text = "How far results lie apart on the same object, by the kind of click and by chance."
    return Section("Sensitivity to click position", text, blocks)


def _hard(run: Results, lead: Sequence[Findings]) -> Section:
    ranking = ranking_table(lead)
    blocks = hard_targets(run, lead) if ranking is None else [ranking, *hard_targets(run, lead)]
    return Section("Hardest objects", _HARD, blocks)


def _maps_text(run: Results) -> str:
    maps = {spec.options.get("map", "prior") for spec in run.plan.users if spec.options}
    names = ", ".join(sorted(map(str, maps)))
    return (
        f"The click map in use is **{names}**. Objects on which first clicks differ most, with "
        "the map of depth for comparison, the one in use, and its ten groups of equal mass."
    )
