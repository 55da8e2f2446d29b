"""The application: collects the commands, and turns errors into one sentence."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from typing import Any, cast

import typer

import segmeter.cli
from segmeter.core.errors import SegmeterError

__all__ = ["Exit", "app", "run_app"]


class Exit:
    """Exit codes, the same for every command."""

    DONE = 0
    WITH_ERRORS = 1
    BAD_INPUT = 2
    INTERRUPTED = 130


app = typer.Typer(
    name="segmeter",
    help="How good is a segmenter in the hands of people?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# A wrong option or command: typer's own class, or that of the click it stands on.
_Misuse: type[Exception] = typer.BadParameter.__mro__[1]


@app.callback()
def _top(
    context: typer.Context,
    debug: bool = typer.Option(False, "--debug", help="Show the trace of an error."),
) -> None:
    """How good is a segmenter in the hands of people?"""
    context.obj = {"debug": debug}


def run_app() -> None:
    """Run the command that was typed; print errors as sentences, exit by the rules."""
    for module in pkgutil.iter_modules(segmeter.cli.__path__):
        if module.name != "app" and not module.name.startswith("_"):
            importlib.import_module(f"segmeter.cli.{module.name}")
    try:
        code: Any = app(standalone_mode=False)
    except SegmeterError as error:
        code = _complain(str(error))
    except _Misuse as error:
        cast(Any, error).show()
        code = Exit.BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        code = Exit.INTERRUPTED
    if code == Exit.INTERRUPTED:
        typer.echo("segmeter: interrupted; what was finished is kept", err=True)
    sys.exit(code if isinstance(code, int) else Exit.DONE)


def _complain(sentence: str) -> int:
    if "--debug" in sys.argv:
        traceback.print_exc()
    typer.echo(f"segmeter: {sentence}", err=True)
    return Exit.BAD_INPUT
