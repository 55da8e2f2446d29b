"""Options of `segmeter study`: what each is called, what it means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

__all__ = [
    "Code",
    "Count",
    "Db",
    "DemoFolder",
    "ExportFolder",
    "Host",
    "KindName",
    "LogFile",
    "NewDb",
    "OnlyStudy",
    "OpenPage",
    "Password",
    "PerCell",
    "PlanFile",
    "Port",
    "PreviewPage",
    "Proxy",
    "PublicAddress",
    "ReportPage",
    "Role",
    "RootPath",
    "RunFolder",
]

PlanFile = Annotated[Path, Argument(help="The study's plan (TOML).", metavar="PLAN")]
Db = Annotated[
    str | None,
    Option(
        "--db", envvar="SEGMETER_STUDY_DB", help="Database; PLAN.db beside the plan by default."
    ),
]
KindName = Annotated[str, Option("--kind", help="clicks, clicks-round2, rate or interact.")]
PreviewPage = Annotated[Path | None, Option("--out", "-o", help="Page; PLAN.html by default.")]
Host = Annotated[str, Option("--host", help="Address to listen on.")]
Port = Annotated[int, Option("--port", min=1, max=65535, help="Port to listen on.")]
Password = Annotated[
    str | None,
    Option(
        "--password",
        envvar="SEGMETER_STUDY_PASSWORD",
        help="Opens the conductor's page; a new one is made and shown by default.",
    ),
]
RootPath = Annotated[str, Option("--root-path", help="Path under which a reverse proxy shows it.")]
Proxy = Annotated[
    str, Option("--behind", help="Address of a reverse proxy whose headers to trust.")
]
Count = Annotated[int, Option("--count", "-n", min=1, max=10_000, help="How many links.")]
Role = Annotated[str, Option("--role", help="person, or tester for spot checks.")]
PublicAddress = Annotated[str, Option("--address", help="Address of the study as people reach it.")]
ExportFolder = Annotated[Path, Option("--out", "-o", help="Folder for the files.")]
Code = Annotated[str, Argument(help="The person's code.")]
LogFile = Annotated[Path, Argument(help="The log of events, PLAN.events.jsonl.")]
NewDb = Annotated[str, Option("--db", help="A new, empty database.")]
ReportPage = Annotated[
    Path | None, Option("--out", "-o", help="Page; PLAN.report.html by default.")
]
RunFolder = Annotated[
    Path | None,
    Option("--run", help="For interact: write the sessions as a run of noc, too."),
]
DemoFolder = Annotated[Path, Option("--out", "-o", help="Folder for the study and its results.")]
PerCell = Annotated[
    int, Option("--per-cell", min=1, max=100, help="Clicks per target, device and mode.")
]
OnlyStudy = Annotated[
    bool, Option("--only", help="Only the study, not what reads its clicks afterwards.")
]
OpenPage = Annotated[bool, Option("--open/--no-open", help="Show the results in a browser.")]
