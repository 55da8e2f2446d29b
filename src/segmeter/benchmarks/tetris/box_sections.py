"""Report sections on boxes."""

from __future__ import annotations

from segmeter.benchmarks.difference_table import difference_section
from segmeter.benchmarks.tetris.cases import fragile, shift_maps
from segmeter.benchmarks.tetris.sections import span_sentence
from segmeter.benchmarks.tetris.statistics import CARDS
from segmeter.benchmarks.tetris.tables import Summary, area_table
from segmeter.core.benchmarks import Results
from segmeter.core.sections import Answer, Block, Section

__all__ = ["sections"]


def sections(run: Results) -> list[Section]:
    """All sections, in reading order."""
    summary, lead = Summary.of_run(run), run.plan.leading_protocol
    blocks: list[Block] = [
        _answer(summary, lead, dataset) for dataset in summary.datasets if summary.of(lead, dataset)
    ]
    blocks += [area_table(summary, "iou", "box"), area_table(summary, "biou", "box")]
    apart = difference_section([d for d in summary.differences if d.protocol == lead], CARDS)
    text = (
        "Each side of the tight box is moved by at most a tenth of the box, and never by more "
        "than 20 pixels: the reach of the noise that Segment Anything was trained with. Worst "
        "and best are found by trying, coarse to fine, from the tight box on."
    )
    cases: list[Block] = []
    shifts: list[Block] = []
    for dataset in summary.datasets:
        members = summary.of(lead, dataset)
        if members:
            cases.append(fragile(run, members, "box"))
            shifts += shift_maps(run, members)
    return [
        Section("Results", text, blocks),
        *apart,
        Section("Hardest objects", "Objects with the widest span between boxes.", cases),
        Section(
            "Moving the whole box",
            "IoU when the tight box is moved as a whole, up to a tenth of its sides either way; "
            "the middle is no move.",
            shifts,
        ),
    ]


def _answer(summary: Summary, lead: str, dataset: str) -> Answer:
    members = summary.of(lead, dataset)
    kept = all(
        bool((g.role("min") <= g.role("base")).all() and (g.role("base") <= g.role("max")).all())
        for g in members
    )
    cases = sum(len(g.keys) for g in members)
    return Answer(
        span_sentence(summary, members, "box"),
        f"Min ≤ Base ≤ Max {'holds' if kept else 'does not hold'} in all {cases} cases, each "
        "object with each model.",
    )
