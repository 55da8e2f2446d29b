"""`segmeter merge`: runs of one plan become one."""

from __future__ import annotations

from shlex import quote
from typing import Annotated

import typer
from typer import Argument

import segmeter
from segmeter.api import counted, printable
from segmeter.cli._options import AsJson
from segmeter.cli._printing import print_json, say
from segmeter.cli.app import Exit, app


@app.command()
def merge(
    out: Annotated[str, Argument(help="Folder or URL of the merged run.")],
    runs: Annotated[list[str], Argument(help="Two or more runs of one plan.")],
    as_json: AsJson = False,
) -> int:
    """Merge runs of one plan that were computed on several machines.

    Jobs present in several runs are counted once; if their rows or weights differ, the merge is
    rejected. Damaged files are left out and named, with exit code 1.

    Example: `segmeter merge runs/all runs/first runs/second`
    """
    done = segmeter.merge(out, runs, tell=say)
    code = Exit.WITH_ERRORS if done.left_out else Exit.DONE
    if as_json:
        facts = {"jobs": done.jobs, "taken": done.taken, "twice": done.twice}
        print_json(facts | {"left_out": done.left_out})
        return code
    for run, count in done.taken.items():
        typer.echo(printable(f"{counted(count, 'job')} from {run}"))
    again = f" ({done.twice} of them in several runs, with the same rows)" if done.twice else ""
    joined = f"{counted(done.jobs, 'job')} in {out}{again}"
    typer.echo(printable(f"{joined}; next: segmeter report {quote(str(out))}"))
    return code
