"""Boxes in the manner of TETRIS: sensitivity to the exact position of a box.

The worst and the best box within human-like jitter and the tight one, as Min, Base, Max
and D of IoU and Boundary IoU, and a map over shifts of the whole box.
"""

from __future__ import annotations

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.sessions import run_sessions, timed_encode
from segmeter.benchmarks.tetris.cases import fragile, shift_maps
from segmeter.benchmarks.tetris.click_response import shift_map
from segmeter.benchmarks.tetris.sections import Attacks, area_tables, out_of_order, span_sentence
from segmeter.benchmarks.tetris.work import attacked_rows
from segmeter.core import catalogue
from segmeter.core import sections as page
from segmeter.core.benchmarks import Results, Row
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import Bound, SimulatedSession
from segmeter.core.models import Model
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene


def work(model: Model, scene: Scene, plan: Plan) -> list[Row]:
    """Encode once; run the tight, the worst and the best box, then move the tight one."""
    if "box" not in model.card.abilities:
        raise BadInput(f"model '{model.card.name}' takes no boxes; leave it out")
    encoded, seconds = timed_encode(model, scene)
    tight, worst, best = (catalogue.users.make(spec) for spec in plan.users)
    sessions: list[SimulatedSession] = []
    for target in scene.targets:
        for protocol in plan.protocols:
            leader = len(sessions)  # the others may not end on the wrong side of the tight box
            sessions += [
                SimulatedSession(target, tight, protocol),
                SimulatedSession(target, worst, protocol, Bound(leader, "below")),
                SimulatedSession(target, best, protocol, Bound(leader, "above")),
            ]
    records = run_sessions(scene, encoded, sessions, plan)
    maps = {t.id: shift_map(encoded, t).iou.astype("<f4").tobytes() for t in scene.targets}

    def shifts(simulated: SimulatedSession, number: int) -> Row:
        return {"shifts": maps[simulated.target.id]}

    return attacked_rows(scene, records, seconds, plan, shifts)


def sections(run: Results) -> list[page.Section]:
    """All sections, in reading order."""
    found = Attacks(run)
    text = (
        "Each side of the tight box is moved by at most a tenth of the box, and never by more "
        "than 20 pixels: the reach of the noise that Segment Anything was trained with. Worst "
        "and best are found by trying, coarse to fine, from the tight box on."
    )
    answers: list[page.Block] = []
    cases: list[page.Block] = []
    shifts: list[page.Block] = []
    for _, members, _ in found.datasets(found.of(found.lead)):
        total, broken = out_of_order(members)
        kept = "does not hold" if broken else "holds"
        order = f"Min ≤ Base ≤ Max {kept} in all {total} cases, each object with each model."
        answers.append(page.Answer(span_sentence(found, members, "box"), order))
        cases.append(fragile(run, members, "box"))
        shifts += shift_maps(run, members)
    return [
        page.Section("Results", text, [*answers, *area_tables(found, "box")]),
        *parts.difference_section(found.tested, found.cards),
        page.Section("Hardest objects", "Objects with the widest span between boxes.", cases),
        page.Section(
            "Moving the whole box",
            "IoU when the tight box is moved as a whole, up to a tenth of its sides either way; "
            "the middle is no move.",
            shifts,
        ),
    ]
