"""Options of `segmeter study`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

PlanFile = Annotated[Path, Argument(help="The study's plan (TOML).", metavar="PLAN")]
Db = Annotated[
    str | None,
    Option(
        "--db", envvar="SEGMETER_STUDY_DB", help="Database; PLAN.db next to the plan by default."
    ),
]
KindName = Annotated[str, Option("--kind", help="clicks, clicks-round2, rate or interact.")]
PreviewPage = Annotated[Path | None, Option("--out", "-o", help="Page; PLAN.html by default.")]
TextFile = Annotated[
    Path | None, Option("--out", "-o", help="Markdown; PLAN.preregistration.md by default.")
]
Effect = Annotated[
    float, Option("--effect", help="Difference between two conditions, in units of the outcome.")
]
People = Annotated[int, Option("--people", min=4, max=10_000, help="Participants.")]
Targets = Annotated[
    int, Option("--targets", min=0, max=10_000, help="Number of objects; the plan's by default.")
]
Spreads = Annotated[
    list[str] | None,
    Option(
        "--sd",
        help="Standard deviation of person, target, person_condition, target_condition or rest, "
        "such as person=0.5; can be repeated.",
    ),
]
Like = Annotated[
    Path | None,
    Option("--pilot", help="Plan of an earlier study, to estimate the standard deviations from."),
]
Studies = Annotated[
    int, Option("--studies", min=10, max=100_000, help="Number of simulated studies.")
]
Alpha = Annotated[float, Option("--alpha", min=0.0001, max=0.5, help="Significance level.")]
Host = Annotated[str, Option("--host", help="IP address to listen on.")]
Port = Annotated[int, Option("--port", min=1, max=65535, help="Port to listen on.")]
Password = Annotated[
    str | None,
    Option(
        "--password",
        envvar="SEGMETER_STUDY_PASSWORD",
        help="Password of the conductor's page; a random one is printed by default.",
    ),
]
RootPath = Annotated[str, Option("--root-path", help="Path prefix that a reverse proxy strips.")]
Proxy = Annotated[str, Option("--behind", help="IP address of a trusted reverse proxy.")]
Count = Annotated[int, Option("--count", "-n", min=1, max=10_000, help="Number of links.")]
Role = Annotated[str, Option("--role", help="person, or tester for spot checks.")]
Label = Annotated[str, Option("--label", help="Note to export with the participants.")]
PublicAddress = Annotated[str, Option("--url", help="Public URL of the study.")]
CsvFile = Annotated[Path | None, Option("--out", "-o", help="CSV file; printed by default.")]
ExportFolder = Annotated[Path, Option("--out", "-o", help="Folder for the files.")]
Identifiers = Annotated[
    bool, Option("--identifiers", help="Include IDs of the recruiting platform.")
]
ArchiveFile = Annotated[Path | None, Option("--out", "-o", help="File; PLAN.zip by default.")]
BackupFile = Annotated[Path | None, Option("--out", "-o", help="File; PLAN.backup.db by default.")]
BackupSource = Annotated[Path, Argument(help="A file written by `study backup`.", metavar="BACKUP")]
NewDb = Annotated[str, Option("--db", help="A new, empty database.")]
Code = Annotated[str, Argument(help="The participant's code.")]
ReportPage = Annotated[
    Path | None, Option("--out", "-o", help="Page; PLAN.report.html by default.")
]
RunFolder = Annotated[
    Path | None, Option("--run", help="For interact: also write the sessions as a run.")
]
SimulatedUsers = Annotated[
    list[str] | None,
    Option("--simulate", help="For interact: simulated user to compare with; can be repeated."),
]
Domain = Annotated[str, Option("--domain", help="Domain name of the study.")]
DeployFolder = Annotated[Path, Option("--out", "-o", help="Folder for the files.")]
DemoFolder = Annotated[Path, Option("--out", "-o", help="Folder for the studies and results.")]
PerCell = Annotated[
    int, Option("--per-cell", min=1, max=100, help="Clicks per object, device and display mode.")
]
OnlyStudy = Annotated[
    bool, Option("--only", help="Run the studies only, not the commands that read their clicks.")
]
OpenPage = Annotated[bool, Option("--open/--no-open", help="Open the report in a browser.")]
