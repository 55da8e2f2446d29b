"""Options that several commands share, with their names and help texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option


def names_of(kind: str) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        from segmeter.api.listing import summaries

        return [name for name in summaries(kind) if name.startswith(incomplete)]

    return complete


def name_of(kind: str, *flags: str, help: str, **more: Any) -> Any:
    """An option that takes names of one kind, which a shell completes."""
    return Option(*flags, autocompletion=names_of(kind), help=help, **more)


def out_option(help: str) -> Any:
    return Option("--out", "-o", help=help)


def in_panel(panel: str) -> Callable[..., Any]:
    return partial(Option, rich_help_panel=panel)


def _runs(incomplete: str) -> list[str]:
    """Completes run folders below `runs`, and folders as they are typed."""
    typed = Path(incomplete)
    base = typed if incomplete.endswith("/") else typed.parent
    places = [Path("runs"), base] if not incomplete else [base]
    found = [folder for place in places for folder in place.glob("*/")]
    return sorted({str(folder) for folder in found if str(folder).startswith(incomplete)})


# Where things are
RunAddress = Annotated[str, Argument(help="Folder or URL of a run.", autocompletion=_runs)]
Runs = Annotated[
    list[str], Argument(help="Run folders or URLs, read as one.", autocompletion=_runs)
]
Data = Annotated[Path | None, Option(envvar="SEGMETER_DATA", help="Folder or URL of the datasets.")]
Weights = Annotated[
    Path | None, Option(envvar="SEGMETER_WEIGHTS", help="Folder or URL of the weights.")
]
MasksShown = Annotated[
    Path | None, Option(help="Folder of the masks that were shown in later rounds.")
]

# What is evaluated
OneModel = Annotated[
    str, name_of("models", "--model", "-m", help="Model by name, a checkpoint, or file.py:name.")
]
Models = Annotated[
    list[str] | None,
    name_of("models", "--model", "-m", "--tracker", help="Model or tracker by name, a checkpoint, "
            "ONNX folder or http address, or file.py:name; can be repeated."),
]  # fmt: skip
_DATASET = "Dataset by name, or your own folder"
OneDataset = Annotated[str, name_of("datasets", "--dataset", "-d", help=f"{_DATASET}.")]
ImageSets = Annotated[
    list[str], name_of("datasets", "--dataset", "-d", help=f"{_DATASET}; can be repeated.")
]
Limit = Annotated[
    int | None, Option(min=1, help="Only the first N images or volumes of each dataset.")
]
Seed = Annotated[int, Option(help="Random seed.")]

# How it is evaluated
_PROTOCOLS = "published: as in the authors' code, flaws included; corrected: without them"
OneProtocol = Annotated[str, Option(help=f"{_PROTOCOLS}.")]
ProtocolChoice = Annotated[str, Option(help=f"{_PROTOCOLS}; or both.")]
RunProtocol = Annotated[
    str | None,
    Option("--protocol", help=f"{_PROTOCOLS}; both by default, with --add those of the run."),
]
Cost = Annotated[
    Path | None, Option(help="Cost model (TOML): seconds per click, box, hand-drawn mask, ...")
]
GoalChoice = Annotated[
    str | None,
    Option(
        help="Target quality: IoU in percent, such as 85,90, or a measure, such as 'dice>=0.9'."
    ),
]
By = Annotated[str | None, Option(help="Split by class, size, shape, boundary or another group.")]
GroupsFile = Annotated[Path | None, Option(help="Your own groups: CSV with columns mask,group.")]
Trust = Annotated[
    bool,
    Option(
        "--trust",
        help="Execute Python files and open weights that the run names; only for your own runs.",
    ),
]

# What is written
AsJson = Annotated[bool, Option("--json", help="Print the results as JSON.")]
NewFolder = Annotated[Path, out_option("Folder for the files; created if missing.")]
CostFile = Annotated[Path, out_option("Cost model to write (TOML).")]
FigureFile = Annotated[
    Path | None, Option(help="Plot the curves to this file (.svg, .png or .pdf).")
]

# With how much
Threads = Annotated[int, Option(min=1, help="Threads; use more on an idle machine only.")]
Processes = Annotated[int, Option(min=1, help="Worker processes; results do not depend on them.")]
