"""Options that several commands share: what each is called, what it means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from typer import Argument, Option


def names_of(kind: str) -> Callable[[str], list[str]]:
    """Completes names of one kind."""

    def complete(incomplete: str) -> list[str]:
        from segmeter.api.listing import summaries

        return [name for name in summaries(kind) if name.startswith(incomplete)]

    return complete


def _runs(incomplete: str) -> list[str]:
    """Completes run folders below `runs`, and folders as they are typed."""
    typed = Path(incomplete)
    base = typed if incomplete.endswith("/") else typed.parent
    places = [Path("runs"), base] if not incomplete else [base]
    found = [folder for place in places for folder in place.glob("*/")]
    return sorted({str(folder) for folder in found if str(folder).startswith(incomplete)})


# Where things are
RunAddress = Annotated[
    str, Argument(help="A run folder, or the address of a run.", autocompletion=_runs)
]
Runs = Annotated[
    list[str], Argument(help="Run folders or addresses, read as one.", autocompletion=_runs)
]
Data = Annotated[
    Path | None,
    Option("--data", envvar="SEGMETER_DATA", help="Folder or address of the data sets."),
]
Weights = Annotated[
    Path | None,
    Option("--weights", envvar="SEGMETER_WEIGHTS", help="Folder or address of the weights."),
]
MasksShown = Annotated[
    Path | None, Option("--previous", help="Folder of the masks that later rounds showed.")
]

# What is evaluated
OneModel = Annotated[
    str,
    Option(
        "--model", "-m", autocompletion=names_of("models"), help="Model by name, or file.py:name."
    ),
]
Models = Annotated[
    list[str] | None,
    Option(
        "--model",
        "-m",
        "--tracker",
        autocompletion=names_of("models"),
        help="Model or tracker by name, or file.py:name; may be given several times.",
    ),
]
OneDataset = Annotated[
    str,
    Option(
        "--dataset",
        "-d",
        autocompletion=names_of("datasets"),
        help="Data set by name, or a folder of your own.",
    ),
]
ImageSets = Annotated[
    list[str],
    Option(
        "--dataset",
        "-d",
        autocompletion=names_of("datasets"),
        help="Data set by name, or a folder of your own; may be given several times.",
    ),
]
Limit = Annotated[
    int | None, Option("--limit", min=1, help="Only the first scenes of each data set.")
]
Seed = Annotated[int, Option("--seed", help="Seed of every draw.")]

# How it is evaluated
OneProtocol = Annotated[
    str,
    Option(
        "--protocol",
        help="published: as the authors' code computes, flaws included; corrected: without them.",
    ),
]
ProtocolChoice = Annotated[
    str,
    Option(
        "--protocol",
        help="published: as the authors' code computes, flaws included; corrected: without "
        "them; or both.",
    ),
]
Cost = Annotated[
    Path | None, Option("--cost", help="Cost model (TOML): seconds of a click, a box, a failure.")
]
GoalChoice = Annotated[
    str | None,
    Option("--goal", help="Good enough: percent of IoU or a measure, as 85,90 or 'dice>=0.9'."),
]
By = Annotated[
    str | None, Option("--by", help="Split by class, size, shape, boundary or another group.")
]
GroupsFile = Annotated[
    Path | None, Option("--groups", help="Groups of your own: CSV of mask,group.")
]
Trust = Annotated[
    bool,
    Option(
        "--trust", help="Run the Python files that the run names; never for a run you were sent."
    ),
]

# What is written
AsJson = Annotated[bool, Option("--json", help="Print JSON for a program to read.")]
NewFolder = Annotated[Path, Option("--out", "-o", help="Folder for the files; made if missing.")]
CostFile = Annotated[Path, Option("--out", "-o", help="Cost model to write (TOML).")]
FigureFile = Annotated[
    Path | None, Option("--figure", help="Draw the curves here (.svg, .png or .pdf).")
]

# With how much
Threads = Annotated[int, Option("--threads", min=1, help="Threads; more pay on idle cores only.")]
Processes = Annotated[int, Option("--workers", min=1, help="Processes; results stay the same.")]
