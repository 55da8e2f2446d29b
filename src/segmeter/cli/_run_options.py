"""Options of `segmeter run`: what each is called, what it means, in which panel of the help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

__all__ = [
    "Add",
    "Again",
    "BenchmarkName",
    "Clicks",
    "ClusterAddress",
    "Datasets",
    "DryRun",
    "ExecutorName",
    "MaskRule",
    "Measures",
    "Methods",
    "Out",
    "PointRule",
    "Rounds",
    "Settings",
    "Shard",
    "Threads",
    "Until",
    "Users",
    "Workers",
]

_RULES = "Rules of the benchmark"
_AHEAD = "Before a long run"
_WORK = "Going on, sharing, speed"

BenchmarkName = Annotated[str, Argument(help="Which benchmark; see 'segmeter list benchmarks'.")]
Out = Annotated[
    str | None,
    Option("--out", "-o", help="Run folder or address; by default runs/BENCHMARK-N, printed."),
]
Methods = Annotated[
    list[str] | None,
    Option("--method", help="Method, or a folder of its results."),
]
Datasets = Annotated[
    list[str] | None,
    Option("--dataset", "-d", help="Data set by name, or a folder of your own."),
]
Users = Annotated[
    list[str] | None, Option("--user", "-u", help="Simulated user; several may play.")
]

Rounds = Annotated[
    int,
    Option(
        "--rounds",
        min=0,
        rich_help_panel=_RULES,
        help="Rounds of a session; 0 takes the benchmark's own.",
    ),
]
Measures = Annotated[
    list[str] | None,
    Option("--measure", rich_help_panel=_RULES, help="Measure to take in every round."),
]
MaskRule = Annotated[
    str | None,
    Option(
        "--masks", rich_help_panel=_RULES, help="Which of a SAM's masks: published or corrected."
    ),
]
PointRule = Annotated[
    str | None,
    Option("--points", rich_help_panel=_RULES, help="A SAM's point rule: published or corrected."),
]
Settings = Annotated[
    list[str] | None,
    Option(
        "--option", rich_help_panel=_RULES, help="A setting of the benchmark's own, as name=value."
    ),
]
Clicks = Annotated[
    Path | None,
    Option("--clicks", rich_help_panel=_RULES, help="People's recorded clicks."),
]
Until = Annotated[
    str | None,
    Option(
        "--until",
        rich_help_panel=_RULES,
        help="End a session at a goal, as 90 or 'iou>=0.9'.",
    ),
]

DryRun = Annotated[
    bool,
    Option(
        "--dry-run",
        rich_help_panel=_AHEAD,
        help="Run two scenes of each model, print the expected time and size; write nothing.",
    ),
]

Add = Annotated[
    bool,
    Option(
        "--add", rich_help_panel=_WORK, help="Add these models, data sets or users to the run OUT."
    ),
]
Again = Annotated[
    bool,
    Option(
        "--again", rich_help_panel=_WORK, help="Re-run jobs whose weights or code have changed."
    ),
]
Shard = Annotated[
    str,
    Option(
        "--shard",
        rich_help_panel=_WORK,
        help="Run one shard of the jobs, as 1/4; 'segmeter merge' joins them.",
    ),
]
Workers = Annotated[
    int | None,
    Option(
        "--workers",
        min=0,
        rich_help_panel=_WORK,
        help="Processes; change speed, never results. By default as many as fit.",
    ),
]
Threads = Annotated[
    int, Option("--threads", min=1, rich_help_panel=_WORK, help="Threads per worker.")
]
ExecutorName = Annotated[
    str | None,
    Option("--executor", rich_help_panel=_WORK, help="Who does the work: inline, local or ray."),
]
ClusterAddress = Annotated[
    str | None,
    Option("--address", rich_help_panel=_WORK, help="Ray cluster: auto, HOST:PORT or ray://HOST."),
]
