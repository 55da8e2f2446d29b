"""The application: collects the commands, and turns errors into one sentence."""

from __future__ import annotations

import errno
import importlib
import os
import pkgutil
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

import segmeter.cli
from segmeter.api import contacts_only, printable
from segmeter.cli._printing import VOLUME, speak_plainly

_PANELS = {
    "Start here": ("demo", "list", "doctor", "fetch", "check"),
    "Evaluate and compare": ("run", "report", "compare", "score", "browse", "leaderboard"),
    "For papers and projects": ("table", "figure", "cite", "export", "runs", "merge"),
    "People": ("study", "clicks", "fairness"),
    "Models, measures and data": ("models", "train", "measures", "card"),
}
_ORDER = [name for names in _PANELS.values() for name in names]


class Command(TyperCommand):
    """A command whose help shows no Python types."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plainly(super().get_params(ctx))


class Group(TyperGroup):
    """Several commands under one name, in the order of their file."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plainly(super().get_params(ctx))


class Application(Group):
    """All commands, in the order of the panels; those of no panel come last."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return [*(n for n in _ORDER if n in names), *(n for n in names if n not in _ORDER)]


def panel_of(command: str) -> str:
    """The panel of the help that lists a command.

    >>> panel_of("run"), panel_of("meta")
    ('Evaluate and compare', 'More tools')
    """
    found = (panel for panel, names in _PANELS.items() if command in names)
    return next(found, "More tools")


def _plainly(parameters: list[Any]) -> list[Any]:
    """Show no type for flags, that of one item for lists, and `<n>` for numbers with limits."""
    for parameter in parameters:
        if parameter.param_type_name != "option" or parameter.metavar is not None:
            continue
        if parameter.is_flag:
            parameter.metavar = ""
        elif parameter.multiple:
            parameter.metavar = "<str>"
        elif _has_range(parameter):
            parameter.metavar = "<n>"
    return parameters


def _has_range(parameter: Any) -> bool:
    """Whether a number has limits, which typer before 0.29 stores on the type of the option."""
    held = getattr(parameter, "type", parameter)
    return any(getattr(held, end, None) is not None for end in ("min", "max"))


# What others call the most clicks per object.
_ROUNDS = ("click", "max-clicks", "num-clicks", "n-clicks", "max-rounds", "interactions")
_RESUMABLE = (["run"], ["fetch"], ["merge"], ["train"], ["clicks", "train"])
_ANYWHERE = ("-q", "--quiet", "-v", "--verbose", "--debug")


class Exit:
    """Exit codes, the same for every command."""

    DONE = 0
    WITH_ERRORS = 1
    BAD_INPUT = 2
    FAULT = 70
    INTERRUPTED = 130


app = typer.Typer(
    name="segmeter",
    cls=Application,
    epilog="Exit codes: 0 done; 1 done, but a job failed or a check found a problem; 2 bad input "
    "or disk full; 70 internal error, with traceback; 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# A wrong option or command: typer's own class, or that of the click that it uses.
_Misuse: type[Exception] = typer.BadParameter.__mro__[1]


def command_group(name: str, help: str, cls: type[Group] = Group) -> typer.Typer:
    group = typer.Typer(name=name, cls=cls, help=help, no_args_is_help=True,
                        rich_markup_mode="markdown")  # fmt: skip
    app.add_typer(group, name=name)
    # Without a callback typer drops the name of a group with one command.
    group.callback()(lambda: None)
    return group


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"segmeter {segmeter.__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: bool = Option(
        False, "--version", "-V", callback=_print_version, is_eager=True, help="Print the version."
    ),
    quiet: bool = Option(False, "--quiet", "-q", help="Print results and errors only."),
    verbose: bool = Option(False, "--verbose", "-v", help="Print a line per scene."),
    debug: bool = Option(False, "--debug", help="Print the traceback of an error."),
) -> None:
    """Evaluate interactive segmentation models: clicks and annotation time per good mask.

    `segmeter demo` runs it on built-in images; `segmeter COMMAND --help` has an
    example of each command. `-q`, `-v` and `--debug` may be anywhere.
    """
    VOLUME.quiet, VOLUME.verbose = quiet, verbose


def run_app() -> None:
    """Run the command that was typed; print errors as sentences, exit by the rules."""
    speak_plainly()
    words = os.environ.get("COMP_WORDS", "").split() or sys.argv  # a shell asks how to complete
    commands([word for word in words[1:] if word not in _ANYWHERE][:1])
    interrupted = _on_first_interrupt()
    anywhere = [word for word in sys.argv[1:] if word in _ANYWHERE]
    typed = [word for word in sys.argv[1:] if word not in _ANYWHERE]
    try:
        with _only_what_was_typed(typed):
            code: Any = app([*anywhere, *typed], prog_name="segmeter", standalone_mode=False)
        sys.stdout.flush()
    except segmeter.SegmeterError as error:
        code = _complain(str(error))
    except _Misuse as error:
        code = _misused(cast(Any, error))
    except BrokenPipeError:
        code = _unread()
    except SystemExit as stop:  # typer's own way of ending, also on a closed pipe
        code = _unread() if isinstance(stop.__context__, BrokenPipeError) else stop.code
    except OSError as error:
        code = _complain(_unusable(error))
    except (KeyboardInterrupt, typer.Abort):
        code = Exit.INTERRUPTED
    except Exception:  # noqa: BLE001  Python's own exit code would read as 'done with errors'
        code = Exit.FAULT
        if not interrupted.is_set():  # an import that is interrupted may raise anything
            traceback.print_exc()
            typer.echo(
                "segmeter: internal error, or an error in your Python file: see above", err=True
            )
    if code == Exit.INTERRUPTED or (code == Exit.FAULT and interrupted.is_set()):
        code = Exit.INTERRUPTED
        typer.echo(f"segmeter: interrupted{_resumed_by(typed)}", err=True)
    sys.exit(code if isinstance(code, int) else Exit.DONE)


def _resumed_by(typed: Sequence[str]) -> str:
    """The state after an interrupt, and the command that resumes the work."""
    if "--dry-run" in typed:
        return "; nothing was written"
    if not any(list(typed[: len(words)]) == words for words in _RESUMABLE):
        return ""
    command = printable(shlex.join(["segmeter", *sys.argv[1:]]))
    return f"; nothing that was finished is lost. To resume: {command}"


def commands(typed: Sequence[str] = ()) -> typer.Typer:
    """The application with all its commands, one module each.

    Where the command is known that was typed, its module alone is imported.
    """
    modules = [module.name for module in pkgutil.iter_modules(segmeter.cli.__path__)]
    offered = [name for name in modules if name != "app" and not name.startswith("_")]
    for name in [word for word in typed if word in offered] or offered:
        importlib.import_module(f"segmeter.cli.{name}")
    groups: list[Any] = app.registered_groups
    for info in (*app.registered_commands, *groups):
        info.rich_help_panel = panel_of(str(info.name or info.callback.__name__))
    for one in (app, *(info.typer_instance for info in groups)):
        for command in one.registered_commands:
            command.cls = Command
    return app


def _only_what_was_typed(typed: Sequence[str]) -> AbstractContextManager[None]:
    """Run Python files and contact addresses only if they were typed, not if a run names them.

    The plan of a study is a file that its author wrote: it may name a model in a Python file.
    """
    if typed[:1] == ["study"]:
        return nullcontext()
    places = (os.environ.get(name, "") for name in ("SEGMETER_DATA", "SEGMETER_WEIGHTS"))
    return contacts_only([*typed, *places])


def _misused(error: Any) -> int:
    """A usage error: what is wrong, and the command that shows the usage."""
    message = error.format_message().strip().rstrip(".").replace("Value error, ", "")
    command = error.ctx.command_path if error.ctx is not None else "segmeter"
    if not message:  # no command at all: the help has been shown
        return Exit.BAD_INPUT
    typed = str(getattr(error, "option_name", "")).strip("-")
    if typed in _ROUNDS and any("--rounds" in p.opts for p in error.ctx.command.params):
        message += "; did you mean --rounds?"
    stop = "" if message.endswith("?") else ";"
    return _complain(f"{message[0].lower()}{message[1:]}{stop} '{command} --help' shows how")


def _unread() -> int:
    """The reader has closed the pipe, as in `segmeter list | head`: end quietly."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return Exit.DONE


def _unusable(error: OSError) -> str:
    """An error of the system's, with the file it is about where that is known."""
    if error.errno == errno.ENOSPC:
        return f"the disk is full ({error.filename or 'while writing'}); free some space"
    if error.filename is None:
        return f"system error: {error.strerror or error}"
    return f"'{error.filename}' cannot be used: {error.strerror or error}"


def _on_first_interrupt() -> threading.Event:
    """The first Ctrl-C stops the command and sets the event; further ones are ignored."""
    interrupted = threading.Event()

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        interrupted.set()
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, stop)
    return interrupted


def _complain(sentence: str) -> int:
    if "--debug" in sys.argv:
        traceback.print_exc()
    typer.echo(f"segmeter: {printable(sentence)}", err=True)
    return Exit.BAD_INPUT
