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
Effect = Annotated[float, Option("--effect", help="Difference between two conditions.")]
People = Annotated[int, Option("--people", min=4, max=10_000, help="Participants.")]
Targets = Annotated[
    int, Option("--targets", min=0, max=10_000, help="Targets; those of the plan by default.")
]
Spreads = Annotated[
    list[str] | None,
    Option(
        "--spread",
        help="Standard deviation of person, target, person_condition, target_condition or rest, "
        "such as person=0.5; can be repeated.",
    ),
]
Like = Annotated[
    Path | None,
    Option("--like", help="Plan of an earlier study of this kind to take the spreads from."),
]
Studies = Annotated[int, Option("--studies", min=10, max=100_000, help="Simulated studies.")]
Alpha = Annotated[float, Option("--alpha", min=0.0001, max=0.5, help="Level of significance.")]
Host = Annotated[str, Option("--host", help="Address to listen on.")]
Port = Annotated[int, Option("--port", min=1, max=65535, help="Port to listen on.")]
Password = Annotated[
    str | None,
    Option(
        "--password",
        envvar="SEGMETER_STUDY_PASSWORD",
        help="Password of the conductor's page; a random one is printed by default.",
    ),
]
RootPath = Annotated[
    str, Option("--root-path", help="Path of the study behind a proxy that strips it.")
]
Proxy = Annotated[
    str, Option("--behind", help="Address of a reverse proxy whose headers to trust.")
]
Count = Annotated[int, Option("--count", "-n", min=1, max=10_000, help="How many links.")]
Role = Annotated[str, Option("--role", help="person, or tester for spot checks.")]
Label = Annotated[str, Option("--label", help="Note that is exported with the participants.")]
PublicAddress = Annotated[str, Option("--address", help="Address of the study as people reach it.")]
CsvFile = Annotated[Path | None, Option("--out", "-o", help="CSV file; printed by default.")]
ExportFolder = Annotated[Path, Option("--out", "-o", help="Folder for the files.")]
Identifiers = Annotated[
    bool, Option("--identifiers", help="Include identifiers of the recruiting platform.")
]
ArchiveFile = Annotated[Path | None, Option("--out", "-o", help="File; PLAN.zip by default.")]
BackupFile = Annotated[Path | None, Option("--out", "-o", help="File; PLAN.backup.db by default.")]
BackupSource = Annotated[Path, Argument(help="A file that `study backup` wrote.", metavar="BACKUP")]
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
    Option("--simulate", help="For interact: a simulated user on the same objects; repeatable."),
]
Domain = Annotated[str, Option("--domain", help="Name under which the study is reached.")]
DeployFolder = Annotated[Path, Option("--out", "-o", help="Folder for the files.")]
DemoFolder = Annotated[Path, Option("--out", "-o", help="Folder for the studies and results.")]
PerCell = Annotated[
    int, Option("--per-cell", min=1, max=100, help="Clicks per target, device and mode.")
]
OnlyStudy = Annotated[
    bool, Option("--only", help="Only the studies, not the commands that read their clicks.")
]
OpenPage = Annotated[bool, Option("--open/--no-open", help="Open the report in a browser.")]
