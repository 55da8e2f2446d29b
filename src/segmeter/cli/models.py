"""`segmeter models`: compare two models, or serve one over HTTP."""

from __future__ import annotations

import typer

from segmeter.cli._help import Group
from segmeter.cli._model_parity import parity
from segmeter.cli._model_service import serve
from segmeter.cli.app import app

__all__ = ["group"]

group = typer.Typer(
    cls=Group, no_args_is_help=True, help="Compare two models, or serve one over HTTP."
)
app.add_typer(group, name="models")
group.command("parity")(parity)
group.command("serve")(serve)
