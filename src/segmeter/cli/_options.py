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
    str,
    Option(
        "--model",
        "-m",
        autocompletion=names_of("models"),
        help="Model by name, a checkpoint, or file.py:name.",
    ),
]
Models = Annotated[
    list[str] | None,
    Option(
        "--model",
        "-m",
        "--tracker",
        autocompletion=names_of("models"),
        help="Model or tracker by name, a checkpoint, ONNX folder or http address, or "
        "file.py:name; can be repeated.",
    ),
]
OneDataset = Annotated[
    str,
    Option(
        "--dataset",
        "-d",
        autocompletion=names_of("datasets"),
        help="Dataset by name, or your own folder.",
    ),
]
ImageSets = Annotated[
    list[str],
    Option(
        "--dataset",
        "-d",
        autocompletion=names_of("datasets"),
        help="Dataset by name, or your own folder; can be repeated.",
    ),
]
Limit = Annotated[
    int | None, Option(min=1, help="Only the first N images or volumes of each dataset.")
]
Seed = Annotated[int, Option(help="Random seed.")]

# How it is evaluated
OneProtocol = Annotated[
    str, Option(help="published: as in the authors' code, flaws included; corrected: without them.")
]
ProtocolChoice = Annotated[
    str,
    Option(
        help="published: as in the authors' code, flaws included; corrected: without them; or both."
    ),
]
RunProtocol = Annotated[
    str | None,
    Option("--protocol", help="published: as in the authors' code, flaws included; corrected: "
           "without them; both by default, with --add those of the run."),
]  # fmt: skip
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
NewFolder = Annotated[Path, Option("--out", "-o", help="Folder for the files; created if missing.")]
CostFile = Annotated[Path, Option("--out", "-o", help="Cost model to write (TOML).")]
FigureFile = Annotated[
    Path | None, Option(help="Plot the curves to this file (.svg, .png or .pdf).")
]

# With how much
Threads = Annotated[int, Option(min=1, help="Threads; use more on an idle machine only.")]
Processes = Annotated[int, Option(min=1, help="Worker processes; results do not depend on them.")]
