"""`segmeter merge`: runs of one plan become one."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from segmeter.cli._options import AsJson
from segmeter.cli._words import printable
from segmeter.cli.app import Exit, app
from segmeter.core.wording import counted

__all__ = ["merge"]

Merged = Annotated[str, typer.Argument(help="Folder or address of the merged run.")]
Parts = Annotated[list[str], typer.Argument(help="Runs of one plan, two or more.")]


@app.command()
def merge(out: Merged, runs: Parts, as_json: AsJson = False) -> int:
    """Join runs of one plan that were played on several machines.

    Jobs that several runs have are taken once; if their rows differ, or weights do,
    the merge is refused. Damaged parts are left out and named, with exit code 1. A
    stranger's run is data: nothing that it names is run.

    Example: `segmeter merge runs/all runs/first runs/second`
    """
    from segmeter.core.errors import BadInput
    from segmeter.engine.provenance import command_entry
    from segmeter.store.merging import merge_runs

    if len(runs) < 2:
        raise BadInput(f"only one run was named to be merged into '{out}'; name two or more")

    def tell(sentence: str) -> None:
        typer.echo(printable(sentence), err=True)

    done = merge_runs(out, runs, command_entry(), tell)
    if as_json:
        facts = {"jobs": done.jobs, "taken": done.taken, "twice": done.twice}
        print(json.dumps(facts | {"left_out": done.left_out}, indent=1))
        return Exit.WITH_ERRORS if done.left_out else Exit.DONE
    for run, count in done.taken.items():
        typer.echo(printable(f"{counted(count, 'job')} from {run}"))
    again = f" ({done.twice} of them in several runs, with the same rows)" if done.twice else ""
    joined = f"{counted(done.jobs, 'job')} in {out}{again}"
    typer.echo(printable(f"{joined}; next: segmeter report {out}"))
    return Exit.WITH_ERRORS if done.left_out else Exit.DONE
