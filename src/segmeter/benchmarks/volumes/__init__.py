"""Volumes: which model gives the best segmentation of a volume for the least effort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial

from segmeter.benchmarks.declared import Declared, elsewhere
from segmeter.core import catalogue
from segmeter.core.action_counts import Effort
from segmeter.core.benchmarks import Difference, PaperLayout, Results, RunOption
from segmeter.core.capabilities import (
    ChoosesUsers,
    RunsUsersIndependently,
    ShowsSessions,
    WritesChallengeTable,
    capable,
)
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped
from segmeter.core.plans import Plan
from segmeter.core.rows import SESSION_ROWS, Column
from segmeter.measures.judging import SURFACE_MEASURES, Surfaces
from segmeter.users.simulation import CONSISTENCY
from segmeter.users.starts import OPTIONS as STARTS

__all__ = ["MEASURES", "PROMPTERS", "VOLUME_ROWS", "Volumes"]

MEASURES = ("dice", "iou", "precision", "recall", *SURFACE_MEASURES, "added-path", "redrawn-path")
"""Measures of volumes."""

PROMPTERS = (
    "point-interpolation?n=3",
    "point-interpolation?n=5",
    "point-propagation",
    "points-per-slice?n=1",
    "points-per-slice?n=5",
    "box-propagation",
    "boxes-from-3d-box",
    "box-interpolation?n=3",
    "box-interpolation?n=5",
    "box-per-slice",
    "scribble-refinement?start=point-interpolation&n=5",
    "scribble-refinement?start=box-interpolation&n=3",
    "centre-points-per-volume?n=1",
    "box-3d",
    "point-per-volume-refinement?start=centre-points-per-volume",
)
"""Prompters for slices and for the whole; each model gets those that fit it."""

_fact = partial(Column, fact=True)
VOLUME_ROWS = SESSION_ROWS.plus(
    [
        Column("target_slices", "integer", "slices that hold the target"),
        Column("volume_ml", "number", "volume of the target"),
        Column("outline_mm", "number", "outlines of the target in its slices"),
        Column("predicted_ml", "number", "volume of the round's mask"),
        _fact("modality", "text", "CT, MR, PT, ... of the channel, where the data says so"),
        _fact("window_low", "number", "darkest value shown; null where each slice has its own"),
        _fact("window_high", "number", "brightest value shown"),
        _fact("prompter", "text", "the user without the number of its draw"),
        _fact("prompter_label", "text", "the paper's name of the prompter, or its own"),
        _fact("paper_table", "integer", "the paper's table of such prompters; 0 for none"),
        _fact("paper_interactions", "text", "interactions as the paper prints them"),
        Column("interactions", "number", "interactions by the end of the round"),
        Column("degrees_of_freedom", "number", "degrees of freedom fixed by then"),
        *(
            Column(f"effort_{f.name}", "number", f"{f.name} by the end of the round")
            for f in fields(Effort)
        ),
        Column("case_dice_published", "number", "Dice of the case, instances re-matched"),
        Column("fpv_ml", "number", "predicted components without a lesion voxel (autoPET)"),
        Column("fnv_ml", "number", "lesions without a predicted voxel (autoPET)"),
        Column(
            "prompts_outside_input", "integer", "prompts of the round that the network did not get"
        ),
        _fact("target_vanished", "flag", "nothing of the target is on the network's grid"),
    ]
)
"""One row for each round; measures have columns of their own."""


@catalogue.benchmarks.add(
    "volumes", summary="CT and MR volumes: Dice by annotation effort (IntRaBench)"
)
@capable(ChoosesUsers, RunsUsersIndependently, ShowsSessions, WritesChallengeTable)
class Volumes(Declared):
    """Prompters and refinements of IntRaBench on volumes, with what each costs a person."""

    name = "volumes"
    example = "--model grabcut --dataset mini-volumes"
    schema = VOLUME_ROWS
    pages = "sections"
    cost_section = elsewhere("sections:project_section")
    users = PROMPTERS
    rounds = 6
    measures = ("dice", "redrawn-path")
    options = (
        RunOption("draws", int, 5, "Draws of random users in 'corrected'.", least=1),
        RunOption("nsd_mm", str, "2", "Tolerance of NSD: 2, or by organ 2,spleen=1,liver=3."),
        RunOption(
            "convention", str, "surface", "How surfaces are measured: weighted by area, or "
            "by outermost voxels as in MONAI.", choices=("surface", "monai"),
        ),
        RunOption("until", str, None, refused="a refinement ends at a Dice of its own: --user "
                  "'scribble-refinement?until_dice=0.9'"),
        CONSISTENCY,
        *STARTS,
    )  # fmt: skip
    headline = ("dice", "nsd", "interactions", "dice@10", "area")
    split_by = ("dice-first", "dice")
    cited = "ulrich2024"
    layout = PaperLayout(
        {"dice": "Dice", "nsd": "NSD", "interactions": "Interactions", "dice@10": "Dice@10"},
        "Dice and NSD (%) of the last round, interactions per object, and Dice within ten "
        "interactions",
    )
    users_for = elsewhere("work:fitting")
    left_out = elsewhere("work:left_out")
    viewer = elsewhere("tables:session_slices")
    challenge_table = elsewhere("cvpr25:challenge_csv")

    def plan(self, plan: Plan) -> Plan:
        for name in plan.measures:
            if name not in MEASURES:
                catalogue.measures.entry(name)  # refuses an unknown name, with a suggestion
                raise BadInput(f"measure '{name}' does not score volumes; {', '.join(MEASURES)} do")
        filled = super().plan(replace(plan, measures=plan.measures or ("nsd", "hd95")))
        Surfaces.of(filled.options)
        return filled

    def differences(self, run: Results, names: Sequence[str] | None = None) -> list[Difference]:
        """Every pair of models; of one model alone, its best prompter against its others."""
        from segmeter.benchmarks.volumes.sections import against_best

        found = Declared.differences(self, run, names)
        if found or len(run.plan.segmenters) > 1:
            return found
        cards = [s for s in self.statistics(run) if s.tested == "yes" or s.name in (names or ())]
        sets = grouped(self.groups(run), lambda group: (group.dataset, group.protocol))
        return [d for groups in sets.values() for d in against_best(groups, cards)]
