"""`segmeter study`: studies with real people, from a plan to results."""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from segmeter.cli import _study_options as options
from segmeter.cli._help import Group
from segmeter.cli._option_values import roots
from segmeter.cli._options import CostFile, Data, Weights
from segmeter.cli.app import Exit, app
from segmeter.core.errors import BadInput, NotFound

if TYPE_CHECKING:
    from segmeter.study.running import RunningStudy

__all__ = ["study_app"]

study_app = typer.Typer(
    name="study",
    cls=Group,
    help="Studies with real people: where they click, what they think of masks.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.add_typer(study_app, name="study")


@study_app.callback()
def _needs() -> None:
    for package in ("fastapi", "uvicorn", "sqlalchemy", "alembic"):
        if importlib.util.find_spec(package) is None:
            raise NotFound(
                f"studies need '{package}', which is not installed; pip install 'segmeter[study]'"
            )


@study_app.command()
def new(plan: options.PlanFile, kind: options.KindName = "clicks") -> int:
    """Write a plan with a comment at every line, ready to be changed.

    Example: `segmeter study new study.toml --kind clicks`
    """
    from segmeter.study.plan import KINDS

    if kind not in KINDS:
        raise BadInput(f"--kind is {', '.join(KINDS)}, not '{kind}'")
    if plan.exists():
        raise BadInput(f"'{plan}' is there already; take another name")
    text = (files("segmeter.study") / "plans" / f"{kind}.toml").read_text("utf-8")
    plan.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {plan}; next: segmeter study check {plan}")
    return Exit.DONE


@study_app.command()
def check(plan: options.PlanFile, out: options.PreviewPage = None, data: Data = None) -> int:
    """Check a plan and show what people will see, as a page of images.

    Example: `segmeter study check study.toml`
    """
    from segmeter.study.plan import read_plan
    from segmeter.study.preview import preview_page
    from segmeter.study.stimuli import Stimuli
    from segmeter.study.wording import read_words

    read = read_plan(plan)
    read_words(read)
    page = preview_page(read, Stimuli(read, roots(data, None)))
    path = out or plan.with_suffix(".html")
    path.write_text(page, encoding="utf-8")
    typer.echo(f"the plan is sound; what people will see lies at {path}")
    return Exit.DONE


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
) -> int:
    """Begin a study, or go on with it, until interrupted.

    Example: `segmeter study serve study.toml --port 8000`
    """
    import secrets

    from segmeter.study import serving

    study = _open(plan, db, data, weights)
    secret = password or secrets.token_urlsafe(12)
    typer.echo(f"people:    http://{host}:{port}{root_path}/")
    shown = "as you set it" if password else secret
    typer.echo(f"conductor: http://{host}:{port}{root_path}/conduct   password: {shown}")
    application = serving.study_app(study, secret, weights=weights)
    with suppress(KeyboardInterrupt):  # which is how it is ended
        serving.serve(application, host, port, root_path=root_path, behind=behind)
    typer.echo("stopped; the same command goes on with the study")
    return Exit.DONE


@study_app.command()
def invite(
    plan: options.PlanFile,
    count: options.Count = 1,
    role: options.Role = "person",
    address: options.PublicAddress = "http://127.0.0.1:8000",
    db: options.Db = None,
    data: Data = None,
) -> int:
    """Print single-use links, one per line.

    Example: `segmeter study invite study.toml -n 20 --address https://study.example.org`
    """
    if role not in ("person", "tester"):
        raise BadInput(f"--role is person or tester, not '{role}'")
    for token in _open(plan, db, data, None).invite(count, role):
        typer.echo(f"{address.rstrip('/')}/join/{token}")
    return Exit.DONE


@study_app.command()
def export(
    plan: options.PlanFile,
    out: options.ExportFolder = Path("export"),
    db: options.Db = None,
    data: Data = None,
) -> int:
    """Write the answers: clicks.csv (RClicks' columns), ratings.csv, trials.parquet.

    Example: `segmeter study export study.toml --out export`
    """
    from segmeter.study.exports import export as write

    study = _open(plan, db, data, None)
    with study.ledger.protocol() as connection:
        for path in write(connection, study.plan, study.stimuli, out):
            typer.echo(str(path))
    return Exit.DONE


@study_app.command()
def withdraw(
    plan: options.PlanFile,
    code: options.Code,
    db: options.Db = None,
    data: Data = None,
) -> int:
    """Delete everything about one person, in the database and in the log.

    Example: `segmeter study withdraw study.toml CODE`
    """
    if not _open(plan, db, data, None).withdraw(code):
        raise NotFound(f"nobody in this study has the code '{code}'")
    typer.echo("deleted")
    return Exit.DONE


@study_app.command()
def rebuild(log: options.LogFile, db: options.NewDb) -> int:
    """Make the database again from the log of events.

    Example: `segmeter study rebuild study.events.jsonl --db sqlite:///again.db`
    """
    from segmeter.study.ledger import rebuild as again

    typer.echo(f"{again(log, db)} events")
    return Exit.DONE


@study_app.command()
def report(
    plan: options.PlanFile,
    out: options.ReportPage = None,
    run: options.RunFolder = None,
    db: options.Db = None,
    data: Data = None,
) -> int:
    """Write the study's results as a page: the papers' statistics and the sound ones.

    Example: `segmeter study report study.toml`
    """
    study = _open(plan, db, data, None)
    path = out or plan.with_suffix(".report.html")
    _write_page(study, path)
    typer.echo(f"the results lie at {path}")
    if run is not None:
        _write_run(study, run)
        typer.echo(f"the sessions lie at {run}; next: segmeter report {run}")
    return Exit.DONE


@study_app.command()
def costs(
    plan: options.PlanFile,
    out: CostFile = Path("costs.toml"),
    db: options.Db = None,
    data: Data = None,
) -> int:
    """Fit the cost model's seconds from people who segmented with a model in the loop.

    Example: `segmeter study costs study.toml --out costs.toml`
    """
    from segmeter.cli.costs import tell_costs
    from segmeter.study.interactions import fit_costs, interactions

    study = _open(plan, db, data, None)
    if study.plan.kind != "interact":
        raise BadInput("costs are fitted from studies of kind 'interact', where people segment")
    with study.ledger.protocol() as connection:
        found = fit_costs(interactions(connection))
    tell_costs(found, out)
    return Exit.DONE


@study_app.command()
def demo(
    out: options.DemoFolder = Path("study-demo"),
    per_cell: options.PerCell = 6,
    only: options.OnlyStudy = False,
    weights: Weights = None,
    open_page: options.OpenPage = True,
) -> int:
    """Run a whole study with simulated people, then everything that reads its clicks.

    People drawn from the click model go through a real server on built-in images; the
    export then goes to `similarity`, `calibrate` and `run rclicks`, with MobileSAM where its
    weights are at hand.

    Example: `segmeter study demo`
    """
    import sys
    import webbrowser

    from segmeter.study.demo import run_demo
    from segmeter.study.exports import export as write

    study = run_demo(out, per_cell, typer.echo)
    with study.ledger.protocol() as connection:
        write(connection, study.plan, study.stimuli, out / "export")
    page = out / "report.html"
    _write_page(study, page)
    typer.echo(f"clicks lie at {out / 'export'}, the results at {page}")
    if not only:
        _read_again(out, weights)
    if open_page and sys.stdout.isatty():
        webbrowser.open(page.resolve().as_uri())
    return Exit.DONE


def _read_again(out: Path, weights: Path | None) -> None:
    """What other commands make of the study's clicks."""
    from segmeter.cli.calibrate import calibrate
    from segmeter.cli.run import run
    from segmeter.cli.similarity import similarity

    clicks, dataset, model = out / "export" / "clicks.csv", ["mini"], _at_hand(weights)
    typer.echo("\nsegmeter similarity --compare modes")
    previews = out / "export" / "previews.csv"
    similarity(previews, dataset, compare="modes", protocol="corrected")
    typer.echo("\nsegmeter calibrate --clicks")
    calibrate(clicks=clicks, dataset=dataset, out=out / "calibration")
    typer.echo(f"\nsegmeter run rclicks --clicks, with '{model}'")
    run(
        "rclicks",
        model=[model],
        dataset=dataset,
        rounds=1,
        protocol="corrected",
        clicks=clicks,
        weights=weights,
        out=str(out / "rclicks"),
    )


def _at_hand(weights: Path | None) -> str:
    """MobileSAM where it and its weights are there, else a drawn model that needs none."""
    from segmeter.models.weights import find

    if importlib.util.find_spec("torch") is None:
        return "disc"
    try:
        find("mobile-sam", weights)
    except NotFound:
        return "disc"
    return "mobile-sam"


def _write_page(study: RunningStudy, path: Path) -> None:
    from segmeter.study.analyses import study_page

    with study.ledger.protocol() as connection:
        page = study_page(connection, study.plan, study.stimuli)
    path.write_text(page, encoding="utf-8")


def _write_run(study: RunningStudy, folder: Path) -> None:
    from segmeter.study.interactions import write_run

    if study.plan.kind != "interact":
        raise BadInput("--run is for studies of kind 'interact'")
    with study.ledger.protocol() as connection:
        write_run(connection, study.plan, study.stimuli, folder)


def _open(plan: Path, db: str | None, data: Path | None, weights: Path | None) -> RunningStudy:
    from segmeter.study.plan import read_plan
    from segmeter.study.serving import Place, open_study

    read = read_plan(plan)
    return open_study(read, Place.beside(plan, db), roots(data, weights))
