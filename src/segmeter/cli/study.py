"""`segmeter study`: studies with real people, from a plan to an archive."""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import segmeter
from segmeter.api.loading import roots_of
from segmeter.cli import _options as options
from segmeter.cli._options import CostFile, Data, Weights
from segmeter.cli.app import command_group

if TYPE_CHECKING:
    from segmeter.study.running import RunningStudy

study_app = command_group(
    "study", "Studies with real people: where they click, how they rate masks, how they segment."
)


@study_app.callback()
def _needs() -> None:
    for package in ("fastapi", "pydantic", "uvicorn", "sqlalchemy"):
        if importlib.util.find_spec(package) is None:
            raise segmeter.NotFound(
                f"studies need '{package}', which is not installed; pip install 'segmeter[study]'"
            )


@study_app.command()
def new(plan: options.PlanFile, kind: options.KindName = "clicks") -> None:
    """Write a commented plan to edit.

    Example: `segmeter study new study.toml --kind clicks`
    """
    from segmeter.study.plan import KINDS

    if kind not in KINDS:
        raise segmeter.BadInput(f"--kind is {', '.join(KINDS)}, not '{kind}'")
    if plan.exists():
        raise segmeter.BadInput(f"'{plan}' exists already; choose another name")
    text = (files("segmeter.study") / "plans" / f"{kind}.toml").read_text("utf-8")
    plan.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {plan}; next: segmeter study check {plan}")


@study_app.command()
def check(plan: options.PlanFile, out: options.PreviewPage = None, data: Data = None) -> None:
    """Check a plan and write a page with the screens that participants will see.

    Example: `segmeter study check study.toml`
    """
    from segmeter.study.plan import read_plan
    from segmeter.study.preview import plan_warnings, preview_page
    from segmeter.study.stimuli import Stimuli
    from segmeter.study.wording import read_words

    read = read_plan(plan)
    read_words(read)
    page = preview_page(read, Stimuli(read, roots_of(data)))
    path = out or plan.with_suffix(".html")
    path.write_text(page, encoding="utf-8")
    for warning in plan_warnings(read):
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"the plan is valid; preview: {path}")


@study_app.command()
def preregister(plan: options.PlanFile, out: options.TextFile = None, data: Data = None) -> None:
    """Write a preregistration from the plan: design, sample size, exclusion rules, tests.

    Example: `segmeter study preregister study.toml`
    """
    from segmeter.study.plan import read_plan
    from segmeter.study.preview import preregistration
    from segmeter.study.stimuli import Stimuli

    read = read_plan(plan)
    path = out or plan.with_suffix(".preregistration.md")
    path.write_text(preregistration(read, Stimuli(read, roots_of(data))), encoding="utf-8")
    typer.echo(f"wrote {path}")


@study_app.command()
def power(
    plan: options.PlanFile,
    effect: options.Effect,
    people: options.People = 40,
    targets: options.Targets = 0,
    studies: options.Studies = 200,
    alpha: options.Alpha = 0.05,
    spread: options.Spreads = None,
    like: options.Like = None,
    db: options.Db = None,
    data: Data = None,
) -> None:
    """Estimate the power of a design by simulating studies and analysing each.

    The effect is in units of the outcome: rating points (scale 1 to 10), click distance in units of
    the object's diagonal, or log seconds (`interact`). Standard deviations are built-in defaults,
    estimated from an earlier study (`--pilot`, with `--db` if its database is elsewhere), or set
    individually (`--sd`).

    Example: `segmeter study power study.toml --effect 0.5 --people 40`
    """
    from segmeter.study.plan import read_plan
    from segmeter.study.power import ASSUMED, measured_spread, power_of
    from segmeter.study.stimuli import Stimuli

    read = read_plan(plan)
    spreads, source = ASSUMED[read.kind], "assumed"
    if like is not None:
        earlier, source = _open(like, db, data), f"as in {like}"
        if earlier.plan.kind != read.kind:
            raise segmeter.BadInput(
                f"--pilot {like}: of kind '{earlier.plan.kind}', not '{read.kind}'"
            )
        with earlier.database.snapshot() as connection:
            spreads = measured_spread(connection, earlier.plan, earlier.stimuli)
    spreads = spreads.with_values(spread or [])
    many = targets or len(Stimuli(read, roots_of(data)).targets())
    pairs = max(1, len(read.conditions) * (len(read.conditions) - 1) // 2)
    found = power_of(
        read, people, many, effect, spreads, alpha=alpha, studies=studies, comparisons=pairs
    )
    typer.echo(
        f"power {found.share:.2f} ({found.low:.2f} to {found.high:.2f}, {studies} simulated "
        f"studies): {people} participants, {many} targets, {found.answers} answers, effect "
        f"{effect:g}, alpha {alpha:g}" + (f" divided by {pairs} comparisons" if pairs > 1 else "")
    )
    given = f", with {' '.join(spread)}" if spread else ""
    typer.echo(f"standard deviations ({source}{given}): {spreads}")


@study_app.command()
def serve(
    plan: options.PlanFile,
    db: options.Db = None,
    host: options.Host = "127.0.0.1",
    port: options.Port = 8000,
    password: options.Password = None,
    root_path: options.RootPath = "",
    behind: options.Proxy = "",
    data: Data = None,
    weights: Weights = None,
) -> None:
    """Start or resume a study; runs until interrupted.

    Example: `segmeter study serve study.toml --port 8000`
    """
    import secrets

    from segmeter.study import server

    study = _open(plan, db, data, weights)
    secret = password or secrets.token_urlsafe(12)
    application = server.study_app(study, secret, weights=weights, behind=bool(behind))
    typer.echo(f"participants: http://{host}:{port}{root_path}/")
    shown = "as you set it" if password else secret
    typer.echo(f"conductor:    http://{host}:{port}{root_path}/conduct   password: {shown}")
    with suppress(KeyboardInterrupt):  # the usual way to stop it
        server.serve(application, host, port, root_path=root_path, behind=behind)
    typer.echo("stopped; the same command continues the study")


@study_app.command()
def invite(
    plan: options.PlanFile,
    count: options.Count = 1,
    role: options.Role = "person",
    label: options.Label = "",
    address: options.PublicAddress = "http://127.0.0.1:8000",
    db: options.Db = None,
    data: Data = None,
) -> None:
    """Print single-use links, one per line.

    Example: `segmeter study invite study.toml -n 20 --url https://study.example.org`
    """
    if role not in ("person", "tester"):
        raise segmeter.BadInput(f"--role is person or tester, not '{role}'")
    for token in _open(plan, db, data).invite(count, role, label):
        typer.echo(f"{address.rstrip('/')}/join/{token}")


@study_app.command()
def participants(
    plan: options.PlanFile, out: options.CsvFile = None, db: options.Db = None, data: Data = None
) -> None:
    """List participants with status, duration, number of answers, flags, whether to pay them, and
    platform IDs.

    Example: `segmeter study participants study.toml --out participants.csv`
    """
    from segmeter.study.exports import csv_text, participant_columns, participant_rows

    study = _open(plan, db, data)
    with study.database.snapshot() as connection:
        rows = participant_rows(connection, study.plan)
    text = csv_text(participant_columns(identifiers=True), rows)
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8", newline="")
        typer.echo(f"wrote {out}: {len(rows)} participants")


@study_app.command()
def export(
    plan: options.PlanFile,
    out: options.ExportFolder = Path("export"),
    identifiers: options.Identifiers = False,
    db: options.Db = None,
    data: Data = None,
) -> None:
    """Write all answers as CSV and parquet files with a codebook, even while the study is running.

    Example: `segmeter study export study.toml --out export`
    """
    from segmeter.study.exports import export as write

    study = _open(plan, db, data)
    with study.database.snapshot() as connection:
        written = write(connection, study.plan, study.stimuli, out, identifiers=identifiers)
    for path in written:
        typer.echo(str(path))


@study_app.command()
def archive(
    plan: options.PlanFile,
    out: options.ArchiveFile = None,
    identifiers: options.Identifiers = False,
    db: options.Db = None,
    data: Data = None,
) -> None:
    """Write one zip file to deposit: data, plans, codebook, preregistration, software versions.

    Example: `segmeter study archive study.toml --out study.zip`
    """
    from segmeter.study.exports import archive as pack

    path = out or plan.with_suffix(".zip")
    path.write_bytes(pack(_open(plan, db, data), identifiers=identifiers))
    typer.echo(f"wrote {path}")


@study_app.command()
def backup(plan: options.PlanFile, out: options.BackupFile = None, db: options.Db = None) -> None:
    """Copy a consistent snapshot of the database into one file, even while the study is running.

    Example: `segmeter study backup study.toml --out monday.db`
    """
    from segmeter.study.database import Database
    from segmeter.study.database import backup as copy
    from segmeter.study.server import default_url

    path = out or plan.with_suffix(".backup.db")
    source = db or default_url(plan)
    _check_begun(source)
    many = copy(Database(source), path)
    typer.echo(f"wrote {path}: {many} answers and steps")


@study_app.command()
def restore(backup: options.BackupSource, db: options.NewDb) -> None:
    """Copy a backup into a new, empty database (SQLite or PostgreSQL).

    Example: `segmeter study restore monday.db --db sqlite:///study.db`
    """
    from segmeter.study.database import Database, copy_study, open_engine

    if not backup.is_file():
        raise segmeter.NotFound(f"no backup '{backup}'")
    many = copy_study(Database(f"sqlite:///{backup.resolve()}"), open_engine(db))
    typer.echo(f"restored {many} answers and steps")


@study_app.command(context_settings={"ignore_unknown_options": True})
def withdraw(
    plan: options.PlanFile, code: options.Code, db: options.Db = None, data: Data = None
) -> None:
    """Delete everything about one participant.

    Example: `segmeter study withdraw study.toml 7KQ2-M4XR-9TBA`
    """
    if not _open(plan, db, data).withdraw(code):
        raise segmeter.NotFound(f"no participant has the code '{code}'")
    typer.echo("deleted; older exports and backups still hold the data")


@study_app.command()
def report(
    plan: options.PlanFile,
    out: options.ReportPage = None,
    run: options.RunFolder = None,
    simulate: options.SimulatedUsers = None,
    db: options.Db = None,
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
        typer.echo(f"run: {run}; next: segmeter report {run}")


@study_app.command()
def costs(
    plan: options.PlanFile,
    out: CostFile = Path("costs.toml"),
    db: options.Db = None,
    data: Data = None,
) -> None:
    """Fit the cost model's seconds from participants who segmented with a model in the loop.

    Example: `segmeter study costs study.toml --out costs.toml`
    """
    from segmeter.api.click_fitting import cost_lines
    from segmeter.study.interactions import fit_costs, interactions

    study = _open(plan, db, data)
    if study.plan.kind != "interact":
        raise segmeter.BadInput("costs are fitted from studies of kind 'interact'")
    with study.database.snapshot() as connection:
        found = fit_costs(interactions(connection, study.plan))
    out.write_text(found.toml(), encoding="utf-8")
    for line in (*cost_lines(found), f"wrote {out}, for --cost"):
        typer.echo(line)


@study_app.command()
def deploy(
    plan: options.PlanFile, domain: options.Domain, out: options.DeployFolder = Path("deploy")
) -> None:
    """Write files to run a study on a server: Dockerfile, compose with HTTPS, systemd unit.

    Example: `segmeter study deploy study.toml --domain study.example.org`
    """
    from segmeter.study.plan import read_plan
    from segmeter.study.server import write_files

    read_plan(plan)
    for path in write_files(plan, domain, out):
        typer.echo(str(path))


@study_app.command()
def demo(
    out: options.DemoFolder = Path("study-demo"),
    per_cell: options.PerCell = 6,
    only: options.OnlyStudy = False,
    weights: Weights = None,
    open_page: options.OpenPage = True,
) -> None:
    """Run two studies with simulated participants, and the commands that read their answers.

    Simulated participants (clicks drawn from the click model) take part through a real server, on
    built-in images. Their clicks are passed to `clicks compare`, `clicks fit` and `run rclicks`;
    the report compares their sessions with a simulated user's. MobileSAM is used if its weights are
    found.

    Example: `segmeter study demo`
    """
    import sys
    import webbrowser

    from segmeter.api.demo import available_model
    from segmeter.study.exports import export as write
    from segmeter.study.people import run_demo

    model = available_model(weights)
    if out.exists() and any(out.iterdir()):
        raise segmeter.BadInput(f"'{out}' is not empty; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    study = run_demo(out, "clicks", typer.echo, per_cell=per_cell)
    with study.database.snapshot() as connection:
        write(connection, study.plan, study.stimuli, out / "export")
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
    """The report, with simulated users where asked for, and a run of all sessions."""
    from segmeter.study.analyses import study_page
    from segmeter.study.interactions import interactions, simulate_users, write_run

    if (users or run) and study.plan.kind != "interact":
        raise segmeter.BadInput("--simulate and --run are for studies of kind 'interact'")
    with study.database.snapshot() as connection:
        found = interactions(connection, study.plan) if users or run else []
        others = simulate_users(found, study.plan, study.stimuli, users, weights)
        text = study_page(connection, study.plan, study.stimuli, others)
    page.write_text(text, encoding="utf-8")
    if run is not None:
        write_run(found, others, study.plan, study.stimuli, run)


def _check_begun(url: str) -> None:
    name = url.removeprefix("sqlite:///")
    if name != url and not Path(name).is_file():
        raise segmeter.NotFound(f"no database '{name}'; the study has not begun, or give --db")


def _open(
    plan: Path, db: str | None, data: Path | None, weights: Path | None = None
) -> RunningStudy:
    from segmeter.study.plan import read_plan
    from segmeter.study.server import default_url, open_study

    return open_study(read_plan(plan), db or default_url(plan), roots_of(data, weights))
