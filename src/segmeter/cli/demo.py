"""`segmeter demo`: the main job on built-in images, nothing to download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from segmeter.api import demo as demos
from segmeter.cli._options import Weights, out_option
from segmeter.cli._printing import print_summary, progress_bar, say, say_answer
from segmeter.cli.app import Exit, app

What = Annotated[
    str, Argument(help="images, volumes or video; all are built in.", show_default=True)
]
Out = Annotated[Path | None, out_option("Run folder; runs/demo by default.")]


@app.command()
def demo(what: What = "images", out: Out = None, weights: Weights = None) -> int:
    """Run a benchmark on built-in images, volumes or a video, and write its report.

    Uses models whose weights are already here; otherwise downloads MobileSAM (40 MB). Without a
    connection, or with SEGMETER_OFFLINE=1, it uses classical methods.

    Examples: `segmeter demo`, `segmeter demo volumes`, `segmeter demo video`
    """
    run = demos.demo(what, out, weights, progress=progress_bar(), tell=say)
    print_summary(run, as_json=False, reported=True)
    page = run.report()
    say_answer(run.conclusion())
    typer.echo(f"report: {page.resolve()}")
    return Exit.WITH_ERRORS if run.tally is not None and run.tally.failed else Exit.DONE
