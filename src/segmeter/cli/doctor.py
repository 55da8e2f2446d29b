"""`segmeter doctor`: what works on this machine, and how to install what is missing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from shutil import get_terminal_size

import typer

import segmeter
from segmeter.api.machine import LIBRARIES, Finding
from segmeter.cli._options import AsJson, Data, Weights
from segmeter.cli._printing import print_json
from segmeter.cli.app import app

_KERNELS = {
    "compiled": "compiled",
    "plain": "plain Python (same values, slower): install with a C++ compiler",
}


@app.command()
def doctor(data: Data = None, weights: Weights = None, as_json: AsJson = False) -> None:
    """Check what works on this machine.

    Example: `segmeter doctor --data ~/data --weights ~/weights`
    """
    found = segmeter.doctor(data, weights)
    if as_json:
        print_json(asdict(found))
        return
    facts = {"segmeter": found.segmeter, "python": f"{found.python}, {found.system}"}
    facts |= {"kernels": _KERNELS[found.kernels], "device": found.device}
    facts |= {n: v or f"not installed: {LIBRARIES[n]}" for n, v in found.libraries.items()}
    for name, text in facts.items():
        _line(name, text)
    typer.echo("\nmodels ready to use")
    for state, word in (("ready", ""), ("broken", "broken: ")):
        for finding in found.models:
            if finding.state == state:
                _line(finding.name, word + finding.note)
    without = "without weights; 'segmeter fetch NAME' gets them or prints how"
    _names(without, found.models, "no weights")
    _names("not available; 'segmeter run' prints what is missing", found.models, "not here")
    typer.echo("\ndatasets found")
    for finding in found.datasets:
        if finding.state != "not here":
            _line(finding.name, finding.note)
    place = f"not in {data}" if data else "not found without --data"
    _names(f"{place}; 'segmeter fetch NAME' prints where to get one", found.datasets, "not here")


def _names(title: str, findings: Iterable[Finding], state: str) -> None:
    names = ", ".join(finding.name for finding in findings if finding.state == state)
    if names:
        typer.echo(f"\n{title}")
        for line in textwrap.wrap(names, _width() - 2, break_on_hyphens=False):
            typer.echo(f"  {line}")


def _line(name: str, text: str) -> None:
    """A name and its text, wrapped under itself."""
    wide = max(20, _width() - 24)
    wrapped = textwrap.wrap(text, wide, break_long_words=False, break_on_hyphens=False) or [""]
    typer.echo(f"  {name:<21} {wrapped[0]}")
    for more in wrapped[1:]:
        typer.echo(f"{'':24}{more}")


def _width() -> int:
    return min(80, get_terminal_size().columns)
