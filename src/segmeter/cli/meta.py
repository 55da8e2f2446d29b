"""`segmeter meta`: judge the measures themselves."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from segmeter.cli._figures import check_figure, write_figure
from segmeter.cli._option_values import dataset_spec, protocols, roots
from segmeter.cli._options import AsJson, Data, FigureFile, Processes, ProtocolChoice
from segmeter.cli.app import Exit, app
from segmeter.core.errors import BadInput, NotFound, suggestion

if TYPE_CHECKING:
    from segmeter.benchmarks.seism.discrimination import MetaRow, MethodSweeps
    from segmeter.benchmarks.seism.pairs import PairScores
    from segmeter.runtime.remote_files import Roots
    from segmeter.stats.intervals import Interval

__all__ = ["meta"]

OneDataset = Annotated[
    str, typer.Option("--dataset", "-d", help="Data set that people cut into regions.")
]
Measures = Annotated[
    list[str] | None,
    typer.Option("--measure", help="Measure to judge, by id; all but boundaries by default."),
]
Methods = Annotated[
    list[str] | None,
    typer.Option("--method", help="Segmenter, or folder of results, for SABD and SISD."),
]
Baselines = Annotated[
    list[str] | None,
    typer.Option("--baseline", help="What a segmenter should beat; a quadtree by default."),
]
TrainingSet = Annotated[
    str | None,
    typer.Option("--train", help="Where corrected settings are chosen: bsds500?split=train."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=2, help="Only the first images.")]
PageFile = Annotated[
    Path | None, typer.Option("--report", help="Write the table and the curves as a page here.")
]


@app.command()
def meta(
    dataset: OneDataset = "bsds500",
    measure: Measures = None,
    method: Methods = None,
    baseline: Baselines = None,
    train: TrainingSet = None,
    data: Data = None,
    protocol: ProtocolChoice = "both",
    limit: Limit = None,
    workers: Processes = 1,
    figure: FigureFile = None,
    report: PageFile = None,
    as_json: AsJson = False,
) -> int:
    """How well do measures tell good partitions from bad ones?

    SIHD needs people's partitions only; with `--method` also SABD and SISD are taken.

    Example: `segmeter meta --measure fop --measure ssc --dataset bsds500`
    """
    from segmeter.benchmarks.seism.discrimination import Training, densities_of, meta_rows
    from segmeter.benchmarks.seism.pairs import human_pairs
    from segmeter.cli._seism_figures import draw_densities

    _check_files(figure, report)
    sweeps = _Sweeps(_measures(measure), limit, workers, roots(data, None))
    given = _annotated(dataset, sweeps.places)
    pairs = human_pairs(given, sweeps.measures, limit, workers)
    bases = baseline or ["quadtree?turned=true"] if method else []
    training = None
    if train is not None:
        other = _annotated(train, sweeps.places)
        training = Training(sweeps.of(method or [], other), sweeps.of(bases, other))
    methods, baselines = sweeps.of(method or [], given), sweeps.of(bases, given)
    rows = meta_rows(pairs, methods, baselines, sweeps.measures, protocols(protocol), training)
    write_figure(draw_densities, densities_of(pairs), figure)
    if report is not None:
        _write_report(report, dataset, rows, pairs, methods)
    if as_json:
        print(json.dumps({"rows": [_plain(row) for row in rows]}, indent=1))
    else:
        _print(rows, _told(pairs, methods))
    return Exit.DONE


@dataclass(frozen=True, slots=True)
class _Sweeps:
    """How methods are swept over their settings."""

    measures: list[str]
    limit: int | None
    workers: int
    places: Roots

    def of(self, names: list[str], dataset: Any) -> list[MethodSweeps]:
        """Every method on every image of a data set, at all its settings."""
        from segmeter.benchmarks.seism import segmenter_spec
        from segmeter.benchmarks.seism.discrimination import sweep_method
        from segmeter.core import catalogue
        from segmeter.core.catalogue import Spec

        specs = [segmenter_spec(Spec.parse(name)) for name in names]
        made = [catalogue.methods.make(spec, **self.places.options()) for spec in specs]
        return [sweep_method(m, dataset, self.measures, self.limit, self.workers) for m in made]


def _annotated(dataset: str, places: Roots) -> Any:
    """A data set with people's partitions."""
    from segmeter.core import catalogue

    given = catalogue.datasets.make(dataset_spec(dataset), **places.options())
    if not hasattr(given, "partitions") or not hasattr(given, "annotated"):
        raise BadInput(f"'{dataset}' has no partitions drawn by people; take bsds500")
    return given


def _check_files(figure: Path | None, report: Path | None) -> None:
    """Refuse files that cannot be written before any work is done."""
    check_figure(figure)
    if report is not None and (report.suffix != ".html" or not report.parent.is_dir()):
        raise BadInput(f"--report '{report}' must be a .html file in a folder that is there")


def _measures(asked: list[str] | None) -> list[str]:
    from segmeter.benchmarks.seism.discrimination import known_measures
    from segmeter.benchmarks.seism.pairs import BOUNDARY

    known = known_measures()
    for name in asked or []:
        if name not in known:
            hint = suggestion(name, known)
            raise NotFound(f"no partition measure '{name}';{hint} there are {', '.join(known)}")
    return list(dict.fromkeys(asked or [])) or [name for name in known if name not in BOUNDARY]


def _write_report(
    path: Path,
    dataset: str,
    rows: list[MetaRow],
    pairs: PairScores,
    methods: list[MethodSweeps],
) -> None:
    from segmeter import __version__
    from segmeter.benchmarks.seism.discrimination import meta_sections
    from segmeter.report.page import Page, render
    from segmeter.store.local import write_file

    page = Page(
        title=f"Which measures tell good from bad on {dataset}",
        subtitle="partition measures, judged by meta-measures",
        facts=[_told(pairs, methods), f"segmeter {__version__}"],
        sections=meta_sections(rows, pairs),
    )
    write_file(path, render(page).encode())


def _plain(row: MetaRow) -> dict[str, Any]:
    return {
        "measure": row.measure,
        "protocol": row.protocol,
        **{
            name: None if found is None else asdict(found)
            for name, found in (("sihd", row.sihd), ("sabd", row.sabd), ("sisd", row.sisd))
        },
        "global": row.overall,
    }


def _told(pairs: PairScores, methods: list[MethodSweeps]) -> str:
    """How many images the numbers rest on; methods need the images too."""
    people = len(set(pairs.images))
    swept = f"; SABD and SISD on {len(methods[0].images)}" if methods else ""
    return f"SIHD on {people} images{swept}"


def _print(rows: list[MetaRow], images: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("measure", "protocol", title=f"percent; {images}", box=None)
    for name in ("SIHD", "SABD", "SISD", "Global"):
        table.add_column(name, justify="right")
    for row in rows:
        overall = "" if row.overall is None else f"{100 * row.overall:.1f}"
        cells = [_cell(found) for found in (row.sihd, row.sabd, row.sisd)]
        table.add_row(row.measure, row.protocol, *cells, overall)
    Console(markup=False).print(table)


def _cell(found: Interval | None) -> str:
    if found is None:
        return ""
    return f"{100 * found.value:.1f} ({100 * found.low:.1f}–{100 * found.high:.1f})"
