"""`segmeter check`: problems of a model, a dataset or a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import segmeter
from segmeter.api import counted, printable
from segmeter.cli._options import AsJson, Data, Weights
from segmeter.cli._printing import print_json, say
from segmeter.cli.app import Exit, app

if TYPE_CHECKING:
    from segmeter.api.checking import Check
    from segmeter.api.data_checks import Findings

_NAMED = 20  # problems and volumes that are printed one by one


@app.command()
def check(
    model: Annotated[
        str,
        Argument(
            metavar="NAME",
            help="Model or dataset by name, a folder of data or a run, or file.py:name.",
        ),
    ],
    weights: Weights = None,
    data: Data = None,
    page: Annotated[Path | None, Option(help="Write a page of overlays (for data).")] = None,
    limit: Annotated[
        int | None, Option(min=1, help="Only the first N images or volumes (for data).")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check a model, a dataset or a run: one line per problem, exit code 1 if there is any.

    For a run, every file is read in full.

    Example: `segmeter check examples/own_model.py:Lookalike`, `segmeter check my/folder`
    """
    found = segmeter.check(model, data=data, weights=weights, limit=limit, page=page, tell=say)
    code = Exit.DONE if found else Exit.WITH_ERRORS
    if as_json:
        print_json(_facts(found))
    elif found.damaged is not None:
        jobs, files = counted(found.jobs, "job"), counted(len(found.faults), "damaged file")
        todo = "" if found else "; the same 'segmeter run' command runs their jobs again"
        for line in (*found.faults, f"{found.name}: {jobs}, {files}{todo}"):
            typer.echo(printable(line))
    elif found.findings is None:
        for line in (*found.about, *found.faults):
            typer.echo(line)
        typer.echo(f"{model}: {_problems(found.faults)}")
    else:
        _print_data(model, found.findings, found.faults, page)
    return code


def _facts(found: Check) -> dict[str, Any]:
    if found.damaged is not None:
        return {"run": found.name, "damaged": dict(found.damaged)}
    if found.findings is None:
        return {"model": found.name, "faults": found.faults, "about": found.about}
    data = found.findings
    counts = {"scenes": data.scenes, "targets": data.targets, "classes": data.classes}
    volumes = {"volumes": [asdict(v) for v in data.volumes]} if data.volumes else {}
    volumes |= {"videos": [asdict(v) for v in data.videos]} if data.videos else {}
    return {"dataset": found.name, **counts, **volumes, "faults": found.faults}


def _print_data(name: str, found: Findings, faults: Sequence[str], page: Path | None) -> None:
    """Print what was recognised in a dataset, and its problems."""
    if found.recognised:
        typer.echo(found.recognised)
    facts = [v.sentence() for v in found.volumes] + [v.sentence() for v in found.videos]
    for fact in facts[:_NAMED]:
        typer.echo(fact)
    if len(facts) > _NAMED:
        typer.echo(f"and {len(facts) - _NAMED} more scenes; --page or --json has them all")
    for line in (*found.notes, *faults[:_NAMED]):
        typer.echo(line)
    if len(faults) > _NAMED:
        typer.echo(f"and {len(faults) - _NAMED} more; --page or --json has them all")
    held = f"{counted(found.scenes, 'scene')}, {counted(found.targets, 'object')}"
    classes = f", {counted(len(found.classes), 'class')}" if found.classes else ""
    typer.echo(f"{name}: {held}{classes}; {_problems(faults)}")
    if page is not None:
        typer.echo(f"page: {page}")


def _problems(faults: Sequence[str]) -> str:
    return counted(len(faults), "problem") if faults else "no problems found"
