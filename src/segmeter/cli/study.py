"""`segmeter study`: studies with real people, from a plan to an archive."""

from __future__ import annotations

import importlib.util
import secrets
import sys
import webbrowser
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

import segmeter
from segmeter import api
from segmeter import study as studies
from segmeter.api.demo import available_model
from segmeter.api.loading import roots_of
from segmeter.cli._options import CostFile, Data, Weights, out_option
from segmeter.cli.app import command_group

if TYPE_CHECKING:
    from segmeter.study.running import RunningStudy

study_app = command_group(
    "study", "Studies with real people: where they click, how they rate masks, how they segment."
)

_LOCAL = "http://127.0.0.1:8000"
PlanFile = Annotated[Path, Argument(help="The study's plan (TOML).", metavar="PLAN")]
Db = Annotated[
    str | None,
    Option(envvar="SEGMETER_STUDY_DB", help="Database; PLAN.db next to the plan by default."),
]
Identifiers = Annotated[
    bool, Option("--identifiers", help="Include IDs of the recruiting platform.")
]


@study_app.callback()
def _needs() -> None:
    for package in ("fastapi", "pydantic", "uvicorn", "sqlalchemy"):
        if importlib.util.find_spec(package) is None:
            raise segmeter.NotFound(
                f"studies need '{package}', which is not installed; pip install 'segmeter[study]'"
            )


@study_app.command()
def new(
    plan: PlanFile,
    kind: Annotated[str, Option(help="clicks, clicks-round2, rate or interact.")] = "clicks",
) -> None:
    """Write a commented plan to edit.

    Example: `segmeter study new study.toml --kind clicks`
    """
    if kind not in studies.plan.KINDS:
        raise segmeter.BadInput(f"--kind is {', '.join(studies.plan.KINDS)}, not '{kind}'")
    if plan.exists():
        raise segmeter.BadInput(f"'{plan}' exists already; choose another name")
    text = (files("segmeter.study") / "plans" / f"{kind}.toml").read_text("utf-8")
    api.write_file(plan, text.encode())
    typer.echo(f"wrote {plan}; next: segmeter study check {quote(str(plan))}")


@study_app.command()
def check(
    plan: PlanFile,
    out: Annotated[Path | None, out_option("Page; PLAN.html by default.")] = None,
    data: Data = None,
) -> None:
    """Check a plan and write a page with the screens that participants will see.

    Example: `segmeter study check study.toml`
    """
    read = studies.plan.read_plan(plan)
    studies.wording.read_words(read)
    page = studies.preview.preview_page(read, studies.stimuli.Stimuli(read, roots_of(data)))
    path = out or plan.with_suffix(".html")
    api.write_file(path, page.encode())
    for warning in studies.preview.plan_warnings(read):
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"the plan is valid; preview: {path}")


@study_app.command()
def preregister(
    plan: PlanFile,
    out: Annotated[Path | None, out_option("Markdown; PLAN.preregistration.md by default.")] = None,
    data: Data = None,
) -> None:
    """Write a preregistration from the plan: design, sample size, exclusion rules, tests.

    Example: `segmeter study preregister study.toml`
    """
    read = studies.plan.read_plan(plan)
    text = studies.preview.preregistration(read, studies.stimuli.Stimuli(read, roots_of(data)))
    path = out or plan.with_suffix(".preregistration.md")
    api.write_file(path, text.encode())
    typer.echo(f"wrote {path}")


@study_app.command()
def power(
    plan: PlanFile,
    effect: Annotated[
        float, Option(help="Difference between two conditions, in units of the outcome.")
    ],
    people: Annotated[int, Option(min=4, max=10_000, help="Participants.")] = 40,
    targets: Annotated[
        int, Option(min=0, max=10_000, help="Number of objects; the plan's by default.")
    ] = 0,
    number: Annotated[
        int, Option("--studies", min=10, max=100_000, help="Number of simulated studies.")
    ] = 200,
    alpha: Annotated[float, Option(min=0.0001, max=0.5, help="Significance level.")] = 0.05,
    sd: Annotated[
        list[str] | None,
        Option(
            help="Standard deviation of person, target, person_condition, target_condition or "
            "rest, such as person=0.5; can be repeated."
        ),
    ] = None,
    pilot: Annotated[
        Path | None,
        Option(help="Plan of an earlier study, to estimate the standard deviations from."),
    ] = None,
    db: Db = None,
    data: Data = None,
) -> None:
    """Estimate the power of a design by simulating studies and analysing each.

    The effect is in units of the outcome: rating points (scale 1 to 10), click distance in units of
    the object's diagonal, or log seconds (`interact`). Standard deviations are built-in defaults,
    estimated from an earlier study (`--pilot`, with `--db` if its database is elsewhere), or set
    individually (`--sd`).

    Example: `segmeter study power study.toml --effect 0.5 --people 40`
    """
    read = studies.plan.read_plan(plan)
    spreads = studies.power.ASSUMED[read.kind]
    if pilot is not None:
        earlier = _open(pilot, db, data)
        if (kind := earlier.plan.kind) != read.kind:
            raise segmeter.BadInput(f"--pilot {pilot}: of kind '{kind}', not '{read.kind}'")
        with earlier.database.snapshot() as held:
            spreads = studies.power.measured_spread(held, earlier.plan, earlier.stimuli)
    spreads = spreads.with_values(sd or [])
    many = targets or len(studies.stimuli.Stimuli(read, roots_of(data)).targets())
    pairs = max(1, len(read.conditions) * (len(read.conditions) - 1) // 2)
    found = studies.power.power_of(
        read, people, many, effect, spreads, alpha=alpha, studies=number, comparisons=pairs
    )
    typer.echo(
        f"power {found.share:.2f} ({found.low:.2f} to {found.high:.2f}, {number} simulated "
        f"studies): {people} participants, {many} targets, {found.answers} answers, effect "
        f"{effect:g}, alpha {alpha:g}" + (f" divided by {pairs} comparisons" if pairs > 1 else "")
    )
    source, given = f"as in {pilot}" if pilot else "assumed", f", with {' '.join(sd)}" if sd else ""
    typer.echo(f"standard deviations ({source}{given}): {spreads}")
    if len(read.conditions) < 2:
        typer.echo("the plan has one condition; this is the power of a study that compares two")


@study_app.command()
def serve(
    plan: PlanFile,
    db: Db = None,
    host: Annotated[str, Option(help="IP address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    password: Annotated[
        str | None,
        Option(
            envvar="SEGMETER_STUDY_PASSWORD",
            help="Password of the conductor's page; a random one is printed by default.",
        ),
    ] = None,
    root_path: Annotated[str, Option(help="Path prefix that a reverse proxy strips.")] = "",
    behind: Annotated[str, Option(help="IP address of a trusted reverse proxy.")] = "",
    data: Data = None,
    weights: Weights = None,
) -> None:
    """Start or resume a study; runs until interrupted.

    Example: `segmeter study serve study.toml --port 8000`
    """
    study = _open(plan, db, data, weights)
    secret = password or secrets.token_urlsafe(12)
    application = studies.server.study_app(study, secret, weights=weights, behind=bool(behind))
    typer.echo(f"participants: http://{host}:{port}{root_path}/")
    shown = "as you set it" if password else secret
    typer.echo(f"conductor:    http://{host}:{port}{root_path}/conduct   password: {shown}")
    with suppress(KeyboardInterrupt):  # the usual way to stop it
        studies.server.serve(application, host, port, root_path=root_path, behind=behind)
    typer.echo("stopped; the same command continues the study")


@study_app.command()
def invite(
    plan: PlanFile,
    count: Annotated[int, Option("--count", "-n", min=1, max=10_000, help="Number of links.")] = 1,
    role: Annotated[str, Option(help="person, or tester for spot checks.")] = "person",
    label: Annotated[str, Option(help="Note to export with the participants.")] = "",
    url: Annotated[str, Option(help="Public URL of the study.")] = _LOCAL,
    db: Db = None,
    data: Data = None,
) -> None:
    """Print single-use links, one per line.

    Example: `segmeter study invite study.toml -n 20 --url https://study.example.org`
    """
    if role not in ("person", "tester"):
        raise segmeter.BadInput(f"--role is person or tester, not '{role}'")
    for token in _open(plan, db, data).invite(count, role, label):
        typer.echo(f"{url.rstrip('/')}/join/{token}")
    if url == _LOCAL:
        typer.echo("these links open on this machine only; --url is the study's address", err=True)


@study_app.command()
def participants(
    plan: PlanFile,
    out: Annotated[Path | None, out_option("CSV file; printed by default.")] = None,
    db: Db = None,
    data: Data = None,
) -> None:
    """List participants with status, duration, number of answers, flags, whether to pay them, and
    platform IDs.

    Example: `segmeter study participants study.toml --out participants.csv`
    """
    study = _open(plan, db, data)
    with study.database.snapshot() as connection:
        rows = studies.exports.participant_rows(connection, study.plan)
    text = studies.exports.csv_text(studies.exports.participant_columns(identifiers=True), rows)
    if out is None:
        typer.echo(text, nl=False)
    else:
        api.write_file(out, text.encode())
        typer.echo(f"wrote {out}: {len(rows)} participants")


@study_app.command()
def export(
    plan: PlanFile,
    out: Annotated[Path, out_option("Folder for the files.")] = Path("export"),
    identifiers: Identifiers = False,
    db: Db = None,
    data: Data = None,
) -> None:
    """Write all answers as CSV and parquet files with a codebook, even while the study is running.

    Example: `segmeter study export study.toml --out export`
    """
    for path in _export(_open(plan, db, data), out, identifiers):
        typer.echo(str(path))


@study_app.command()
def archive(
    plan: PlanFile,
    out: Annotated[Path | None, out_option("File; PLAN.zip by default.")] = None,
    identifiers: Identifiers = False,
    db: Db = None,
    data: Data = None,
) -> None:
    """Write one zip file to deposit: data, plans, codebook, preregistration, software versions.

    Example: `segmeter study archive study.toml --out study.zip`
    """
    path = out or plan.with_suffix(".zip")
    content = studies.exports.archive(_open(plan, db, data), identifiers=identifiers)
    api.write_file(path, content)
    typer.echo(f"wrote {path}")


@study_app.command()
def backup(
    plan: PlanFile,
    out: Annotated[Path | None, out_option("File; PLAN.backup.db by default.")] = None,
    db: Db = None,
) -> None:
    """Copy a consistent snapshot of the database into one file, even while the study is running.

    Example: `segmeter study backup study.toml --out monday.db`
    """
    path, source = out or plan.with_suffix(".backup.db"), db or studies.server.default_url(plan)
    name = source.removeprefix("sqlite:///")
    if name != source and not Path(name).is_file():
        raise segmeter.NotFound(f"no database '{name}'; the study has not begun, or give --db")
    many = studies.database.backup(studies.database.Database(source), path)
    typer.echo(f"wrote {path}: {many} answers and steps")


@study_app.command()
def restore(
    backup: Annotated[Path, Argument(help="A file written by `study backup`.", metavar="BACKUP")],
    db: Annotated[str, Option(help="A new, empty database.")],
) -> None:
    """Copy a backup into a new, empty database (SQLite or PostgreSQL).

    Example: `segmeter study restore monday.db --db sqlite:///study.db`
    """
    if not backup.is_file():
        raise segmeter.NotFound(f"no backup '{backup}'")
    source = studies.database.Database(f"sqlite:///{backup.resolve()}")
    many = studies.database.copy_study(source, studies.database.open_engine(db))
    typer.echo(f"restored {many} answers and steps")


@study_app.command(context_settings={"ignore_unknown_options": True})
def withdraw(
    plan: PlanFile,
    code: Annotated[str, Argument(help="The participant's code.")],
    db: Db = None,
    data: Data = None,
) -> None:
    """Delete everything about one participant.

    Example: `segmeter study withdraw study.toml 7KQ2-M4XR-9TBA`
    """
    if not _open(plan, db, data).withdraw(code):
        raise segmeter.NotFound(f"no participant has the code '{code}'")
    typer.echo("deleted; older exports and backups still hold the data")


@study_app.command()
def report(
    plan: PlanFile,
    out: Annotated[Path | None, out_option("Page; PLAN.report.html by default.")] = None,
    run: Annotated[
        Path | None, Option(help="For interact: also write the sessions as a run.")
    ] = None,
    simulate: Annotated[
        list[str] | None,
        Option(help="For interact: simulated user to compare with; can be repeated."),
    ] = None,
    db: Db = None,
    data: Data = None,
    weights: Weights = None,
) -> None:
    """Write a results page; for `interact` studies it compares participants with simulated users.

    Example: `segmeter study report study.toml`
    """
    study = _open(plan, db, data)
    path = out or plan.with_suffix(".report.html")
    _write_results(study, path, run, simulate or [], weights)
    typer.echo(f"report: {path}")
    if run is not None:
        typer.echo(f"run: {run}; next: segmeter report {quote(str(run))}")


@study_app.command()
def costs(
    plan: PlanFile, out: CostFile = Path("costs.toml"), db: Db = None, data: Data = None
) -> None:
    """Fit the cost model's seconds from participants who segmented with a model in the loop.

    Example: `segmeter study costs study.toml --out costs.toml`
    """
    study = _open(plan, db, data)
    if study.plan.kind != "interact":
        raise segmeter.BadInput("costs are fitted from studies of kind 'interact'")
    with study.database.snapshot() as connection:
        made = studies.interactions.interactions(connection, study.plan)
    found = studies.interactions.fit_costs(made)
    api.write_file(out, found.toml().encode())
    typer.echo("\n".join([*api.click_fitting.cost_lines(found), f"wrote {out}, for --cost"]))


@study_app.command()
def deploy(
    plan: PlanFile,
    domain: Annotated[str, Option(help="Domain name of the study.")],
    out: Annotated[Path, out_option("Folder for the files.")] = Path("deploy"),
) -> None:
    """Write files to run a study on a server: Dockerfile, compose with HTTPS, systemd unit.

    Example: `segmeter study deploy study.toml --domain study.example.org`
    """
    studies.plan.read_plan(plan)
    for path in studies.server.write_files(plan, domain, out):
        typer.echo(str(path))


@study_app.command()
def demo(
    out: Annotated[Path, out_option("Folder for the studies and results.")] = Path("study-demo"),
    per_cell: Annotated[
        int, Option(min=1, max=100, help="Clicks per object, device and display mode.")
    ] = 6,
    only: Annotated[
        bool,
        Option("--only", help="Run the studies only, not the commands that read their clicks."),
    ] = False,
    weights: Weights = None,
    open_page: Annotated[
        bool, Option("--open/--no-open", help="Open the report in a browser.")
    ] = True,
) -> None:
    """Run two studies with simulated participants, and the commands that read their answers.

    Simulated participants (clicks drawn from the click model) take part through a real server, on
    built-in images. Their clicks are passed to `clicks compare`, `clicks fit` and `run rclicks`;
    the report compares their sessions with a simulated user's. MobileSAM is used if its weights are
    found.

    Example: `segmeter study demo`
    """
    model, run_demo = available_model(weights), studies.people.run_demo
    if out.exists() and any(out.iterdir()):
        raise segmeter.BadInput(f"'{out}' is not empty; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    study = run_demo(out, "clicks", typer.echo, per_cell=per_cell)
    _export(study, out / "export")
    _write_results(study, out / "clicks.html", None, [], None)
    typer.echo(f"clicks: {out / 'export'}, report {out / 'clicks.html'}")
    if not only:
        _read_again(out, model, weights)
    fewer = max(1, per_cell // 2)
    sessions = run_demo(out, "interact", typer.echo, weights, models=[model], per_cell=fewer)
    page = out / "interact.html"
    _write_results(sessions, page, out / "people", ["centre-click"], weights)
    typer.echo(f"people and a simulated user on the same objects: {page}, run {out / 'people'}")
    if open_page and sys.stdout.isatty():
        webbrowser.open(page.resolve().as_uri())


def _read_again(out: Path, model: str, weights: Path | None) -> None:
    """Commands that read the study's clicks."""
    from segmeter.cli import clicks as click_commands
    from segmeter.cli.run import run

    clicks, dataset = out / "export" / "clicks.csv", ["mini"]
    typer.echo("\nsegmeter clicks compare --compare modes")
    previews = out / "export" / "previews.csv"
    click_commands.compare(previews, dataset, compare="modes", protocol="corrected")
    typer.echo("\nsegmeter clicks fit --clicks")
    click_commands.fit(clicks=clicks, dataset=dataset, out=out / "calibration")
    typer.echo(f"\nsegmeter run rclicks --clicks, with '{model}'")
    run("rclicks", model=[model], dataset=dataset, rounds=1, protocol="corrected", weights=weights,
        out=str(out / "rclicks"), clicks=clicks)  # fmt: skip


def _write_results(
    study: RunningStudy, page: Path, run: Path | None, users: list[str], weights: Path | None
) -> None:
    """The report, with simulated users on request, and a run of all sessions."""
    if (users or run) and study.plan.kind != "interact":
        raise segmeter.BadInput("--simulate and --run are for studies of kind 'interact'")
    plan, stimuli, people = study.plan, study.stimuli, studies.interactions
    with study.database.snapshot() as connection:
        found = people.interactions(connection, plan) if users or run else []
        others = people.simulate_users(found, plan, stimuli, users, weights)
        text = studies.analyses.study_page(connection, plan, stimuli, others)
    api.write_file(page, text.encode())
    if run is not None:
        people.write_run(found, others, plan, stimuli, run)


def _export(study: RunningStudy, folder: Path, identifiers: bool = False) -> list[Path]:
    with study.database.snapshot() as connection:
        written: list[Path] = studies.exports.export(
            connection, study.plan, study.stimuli, folder, identifiers=identifiers
        )
    return written


def _open(
    plan: Path, db: str | None, data: Path | None, weights: Path | None = None
) -> RunningStudy:
    url, read = db or studies.server.default_url(plan), studies.plan.read_plan(plan)
    study: RunningStudy = studies.server.open_study(read, url, roots_of(data, weights))
    return study
