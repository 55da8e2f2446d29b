"""`segmeter clicks`: where people click, measured, simulated, compared, fitted and learned."""

from __future__ import annotations

import typer

from segmeter.cli._click_comparison import similarity
from segmeter.cli._click_costs import costs
from segmeter.cli._click_fitting import calibrate
from segmeter.cli._click_map import clickmap
from segmeter.cli._click_simulation import lifelike
from segmeter.cli._click_training import clickability
from segmeter.cli._help import Group
from segmeter.cli.app import app

__all__ = ["group"]

group = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Maps of click quality, simulated clicks, models of where people click, what clicks cost.",
)
app.add_typer(group, name="clicks")
group.command("map")(clickmap)
group.command("simulate")(lifelike)
group.command("compare")(similarity)
group.command("fit")(calibrate)
group.command("train")(clickability)
group.command("costs")(costs)
