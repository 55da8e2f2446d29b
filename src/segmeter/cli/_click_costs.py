"""Click costs: fit the seconds of the cost model to a log of real annotation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segmeter.cli._options import AsJson, CostFile
from segmeter.cli.app import Exit
from segmeter.core.wording import counted

if TYPE_CHECKING:
    from segmeter.stats.costs import FittedCosts

__all__ = ["costs", "tell_costs"]

LogFile = Annotated[Path, typer.Argument(help="A log as CSV or JSON lines.")]


def costs(log: LogFile, out: CostFile = Path("costs.toml"), as_json: AsJson = False) -> int:
    """Fit what a click, a box or a drawing costs to a log of real annotation, with intervals.

    A line of the log has annotator, image, object, event and time; events are start, click,
    box, scribble, polygon, done. `segmeter study costs` does the same from a study.

    Example: `segmeter clicks costs log.csv`, then `segmeter report runs/mine --cost costs.toml`
    """
    from segmeter.core.annotation_events import timings
    from segmeter.datasets.annotation_logs import read_log
    from segmeter.stats.costs import fit_costs

    read = read_log(log)
    if read.unknown:
        kinds = ", ".join(sorted(read.unknown)[:5])
        typer.echo(f"{sum(read.unknown.values())} events have no price ({kinds})", err=True)
    tell_costs(fit_costs(list(timings(read.events))), out, as_json)
    return Exit.DONE


def tell_costs(found: FittedCosts, out: Path, as_json: bool = False) -> None:
    """Write the cost model and say what is in it."""
    from segmeter.store.local import write_file

    write_file(out, found.toml().encode())
    if as_json:
        print(json.dumps(_facts(found), indent=1))
        return
    for name, price in found.prices.items():
        limits = "" if price.low != price.low else f"  ({price.low:.2f} to {price.high:.2f})"
        typer.echo(f"{name:9} {price.value:6.2f} s{limits}  from {found.steps[name]} steps")
    people = counted(found.annotators, "annotator")
    typer.echo(
        f"{people}; intervals 95 % over {found.over}; {found.left_out} steps left out as pauses "
        f"or slips; wrote {out}, for --cost"
    )


def _facts(found: FittedCosts) -> dict[str, object]:
    prices = {
        name: {
            "seconds": price.value,
            "low": None if price.low != price.low else price.low,
            "high": None if price.high != price.high else price.high,
            "steps": found.steps[name],
        }
        for name, price in found.prices.items()
    }
    rest = {name: getattr(found, name) for name in ("annotators", "over", "left_out")}
    return {"prices": prices, **rest}
