"""RClicks: does it matter where people click, and how sure are we?

Every target is prompted by the robot that clicks centres and by ten groups of people, from the
least to the most likely clicks, together in one batch (Antonov et al. 2024, RClicks). With a
file of recorded clicks, real first clicks are used too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from segmeter.benchmarks.declared import Declared
from segmeter.clickability.groups import GROUPS
from segmeter.core import catalogue
from segmeter.core.benchmarks import PaperLayout, RunOption
from segmeter.core.capabilities import ChecksData, capable
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.plans import Plan
from segmeter.core.rows import SESSION_ROWS
from segmeter.users.simulation import CONSISTENCY
from segmeter.users.starts import NO_START


@catalogue.benchmarks.add("rclicks", summary="quality with human instead of simulated clicks")
@capable(ChecksData)
class Rclicks(Declared):
    """The benchmark of real clicks: ten groups of people against the centre click."""

    name = "rclicks"
    schema = SESSION_ROWS
    pages = "sections"
    users = ("clicking-group",)
    rounds = 20
    measures = ("iou",)
    headline = (
        "base-noc", "sample-noc", "dsb-noc-ratio", "dgr-noc-ratio", "dgr-noc", "iou@1", "std@1",
        "nsr@1",
    )  # fmt: skip
    options = (
        RunOption(
            "draws", int, 2, "Draws per group in 'corrected'; two or more separate chance from "
            "groups ('published' draws once).", least=1,
        ),
        RunOption(
            "samples", int, 20, "First clicks drawn from the whole map if none are recorded.",
            least=2,
        ),
        RunOption("clicks", Path, "", "Recorded human clicks."),
        RunOption(
            "absent", str, "refuse", "What to do with clicks on images that the dataset lacks.",
            choices=("refuse", "skip"),
        ),
        CONSISTENCY,
        NO_START,
    )  # fmt: skip
    file_option = "clicks"
    cited = "antonov2024"
    layout = PaperLayout(
        {
            "sample-noc": "Sample NoC", "base-noc": "Base NoC", "dsb-noc": "dSB",
            "dgr-noc": "dGR", "dhh-noc": "dHH",
        },
        "Clicks under clicking groups, and the relative increases of the paper (%)",
    )  # fmt: skip

    def plan(self, plan: Plan) -> Plan:
        filled = super().plan(plan)
        clicks = filled.options["clicks"] and str(Path(filled.options["clicks"]).resolve())
        users = _simulated_sessions(filled.users, filled.options["draws"])
        return replace(filled, users=users, options={**filled.options, "clicks": clicks})


def _simulated_sessions(users: Sequence[Spec], draws: int) -> tuple[Spec, ...]:
    """The centre click, and each group the given number of times, all with the given map."""
    expanded = [user for user in users if user.name == "centre-click" or "group" in user.options]
    if len(expanded) == len(users):
        return tuple(users)  # a plan that was filled before
    if len(users) != 1 or users[0].name != "clicking-group":
        raise BadInput(
            "benchmark 'rclicks' runs clicking groups; --user may only choose their map, "
            "such as 'clicking-group?map=distance'"
        )
    template = users[0].options
    groups = [
        Spec("clicking-group", {**template, "group": group, **({"draw": draw} if draw > 1 else {})})
        for draw in range(1, draws + 1)
        for group in range(1, GROUPS + 1)
    ]
    return (Spec("centre-click"), *groups)
