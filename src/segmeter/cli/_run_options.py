"""Options of `segmeter run`: what each is called, what it means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Add",
    "Again",
    "BenchmarkName",
    "Clicks",
    "ClusterAddress",
    "Datasets",
    "DryRun",
    "Estimate",
    "ExecutorName",
    "Limit",
    "MaskRule",
    "Measures",
    "Methods",
    "Out",
    "PointRule",
    "Rounds",
    "Seed",
    "Settings",
    "Share",
    "Threads",
    "Until",
    "Users",
    "Workers",
]

BenchmarkName = Annotated[str, typer.Argument(help="Which benchmark; see 'segmeter list'.")]
Out = Annotated[
    str | None,
    typer.Option(
        "--out", "-o", help="Run folder or address; by default runs/BENCHMARK-N, printed."
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option("--method", help="Method, or a folder of its results (for seism)."),
]
Datasets = Annotated[
    list[str] | None,
    typer.Option("--dataset", "-d", help="Data set by name, or a folder of your own."),
]
Users = Annotated[
    list[str] | None, typer.Option("--user", "-u", help="Simulated user; several may play.")
]
Rounds = Annotated[
    int, typer.Option("--rounds", help="Rounds of a session; 0 takes the benchmark's own.")
]
Measures = Annotated[
    list[str] | None, typer.Option("--measure", help="Measure to take in every round.")
]
MaskRule = Annotated[
    str | None, typer.Option("--masks", help="Which of a SAM's masks: published or sound.")
]
PointRule = Annotated[
    str | None, typer.Option("--points", help="A SAM's point rule: published or sound.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--option", help="A setting of the benchmark's own, as name=value."),
]
Clicks = Annotated[
    Path | None, typer.Option("--clicks", help="People's clicks (for rclicks and tetris).")
]
Until = Annotated[
    str | None,
    typer.Option("--until", help="End a session at a goal, as 90 or 'iou>=0.9' (for noc)."),
]
Add = Annotated[bool, typer.Option("--add", help="Add these models, data sets or users to --out.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Play one scene of each, say how long all take.")
]
Estimate = Annotated[
    bool, typer.Option("--estimate", help="Play two scenes of each, say what all cost.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every draw.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="Only the first scenes of each set.")
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=0, help="Processes; changes speed, never results."),
]
Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads per worker.")]
ExecutorName = Annotated[
    str | None, typer.Option("--executor", help="Who does the work: inline, local or ray.")
]
ClusterAddress = Annotated[
    str | None, typer.Option("--address", help="Ray cluster: auto, HOST:PORT or ray://HOST.")
]
Share = Annotated[
    str,
    typer.Option("--share", help="Play one share of the jobs, as 1/4; 'merge' joins them."),
]
Again = Annotated[
    bool, typer.Option("--again", help="Play anew what other weights or sources played.")
]
