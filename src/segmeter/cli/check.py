"""`segmeter check`: does a model keep its promises, is a data set fit to be played?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from segmeter.cli._option_values import dataset_spec, is_own_data, roots
from segmeter.cli._options import AsJson, Data, Weights
from segmeter.cli._words import printable
from segmeter.cli.app import Exit, app
from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.wording import counted
from segmeter.runtime.remote_files import is_address

__all__ = ["check"]

_NAMED = 20
_SENSIBLE = 0.4
"""Mean IoU after five clicks that every trained model exceeds on the built-in images."""

Segmenter = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Model or data set by name, a folder of data or a run, or file.py:name.",
    ),
]
PageFile = Annotated[
    Path | None, typer.Option("--page", help="Write a page of overlays (for data).")
]
FirstScenes = Annotated[
    int | None, typer.Option("--limit", min=1, help="Only the first scenes (for data).")
]


@app.command()
def check(
    model: Segmenter,
    weights: Weights = None,
    data: Data = None,
    page: PageFile = None,
    limit: FirstScenes = None,
    as_json: AsJson = False,
) -> int:
    """Check a model, a data set or a run: one line per fault, exit code 1 if there is any.

    Of a run every file is read completely.

    Example: `segmeter check examples/own_model.py:Lookalike`, `segmeter check my/folder`
    """
    if _is_run(model):
        return _check_run(model, as_json)
    if _is_data(model):
        return _check_data(model, data, page, limit, as_json)
    if page is not None or limit is not None:
        raise BadInput(f"--page and --limit are for data, and '{model}' is a model; leave them out")
    from segmeter.models.conformance import check as broken_promises

    made = catalogue.models.make(model, **roots(None, weights).options())
    faults = broken_promises(made)
    about = _opened(model, made, faults)
    if as_json:
        print(json.dumps({"model": model, "broken": faults, "about": about}, indent=1))
    else:
        for line in (*about, *faults):
            typer.echo(line)
        typer.echo(f"{model}: {_conclusion(len(faults))}")
    return Exit.WITH_ERRORS if faults else Exit.DONE


def _opened(name: str, model: Any, faults: list[str]) -> list[str]:
    """Describe a checkpoint file and its predictions from clicks; adds to the faults."""
    from segmeter.models.opening import described

    about = described(name)
    if not about or faults or "click" not in model.card.abilities:
        return about
    from segmeter.model_parity import first_clicks

    reached = first_clicks(model)
    mean = sum(reached) / len(reached)
    about.append(f"mean IoU {mean:.2f} after at most 5 clicks on {len(reached)} built-in objects")
    if mean < _SENSIBLE:
        faults.append(f"mean IoU {mean:.2f} is that of random weights; is this the right file?")
    return about


def _is_run(name: str) -> bool:
    """Whether a folder, or an address, holds a run."""
    from segmeter.store import RunFolder

    return (Path(name).is_dir() or is_address(name)) and RunFolder(name).begun


def _check_run(name: str, as_json: bool) -> int:
    """Read every file of a run; what is wrong with it."""
    from segmeter.store import Run

    run = Run.open(name)
    wrong = run.verify()
    if as_json:
        print(json.dumps({"run": name, "damaged": wrong}, indent=1))
        return Exit.WITH_ERRORS if wrong else Exit.DONE
    for file, why in wrong.items():
        typer.echo(printable(f"{file}: {why}"))
    jobs = counted(len(run.folder.finished()), "job")
    files = counted(len(wrong), "damaged file")
    todo = "the same 'segmeter run' command runs their jobs again" if wrong else "nothing is wrong"
    typer.echo(printable(f"{name}: {jobs}, {files}; {todo}"))
    return Exit.WITH_ERRORS if wrong else Exit.DONE


def _is_model_path(name: str) -> bool:
    """A checkpoint, a folder of ONNX graphs or of Hugging Face, a service."""
    from segmeter.models.opening import entry_of_path

    return entry_of_path(name) is not None


def _is_data(name: str) -> bool:
    """A folder, or the name of a data set and of no model."""
    plain = name.partition("?")[0]
    if ".py:" in name or _is_model_path(plain):
        return False
    return is_own_data(plain) or (
        plain in catalogue.datasets.names() and plain not in catalogue.models.names()
    )


def _check_data(
    name: str, data: Path | None, page: Path | None, limit: int | None, as_json: bool
) -> int:
    from segmeter.cli._check_data import look_at, write_page

    found = look_at(
        catalogue.datasets.make(dataset_spec(name), **roots(data, None).options()), limit
    )
    faults = [f"{scene}: {fault}" for scene, fault in found.faults]
    if page is not None:
        write_page(found, page)
    if as_json:
        counts = {"scenes": found.scenes, "targets": found.targets, "classes": found.classes}
        counts |= {"volumes": [asdict(v) for v in found.volumes]} if found.volumes else {}
        print(json.dumps({"dataset": name, **counts, "faults": faults}, indent=1))
        return Exit.WITH_ERRORS if faults else Exit.DONE
    if found.recognised:
        typer.echo(found.recognised)
    for volume in found.volumes[:_NAMED]:
        typer.echo(volume.sentence())
    if len(found.volumes) > _NAMED:
        typer.echo(f"and {len(found.volumes) - _NAMED} more volumes; --page or --json has them all")
    for fault in faults[:_NAMED]:
        typer.echo(fault)
    if len(faults) > _NAMED:
        typer.echo(f"and {len(faults) - _NAMED} more; --page or --json has them all")
    held = f"{counted(found.scenes, 'scene')}, {counted(found.targets, 'target')}"
    classes = counted(len(found.classes), "class")
    typer.echo(f"{name}: {held}, {classes}; {_things(len(faults))}")
    if page is not None:
        typer.echo(f"page: {page}")
    return Exit.WITH_ERRORS if faults else Exit.DONE


def _things(count: int) -> str:
    if count == 0:
        return "nothing wrong was found"
    return "one thing is wrong" if count == 1 else f"{count} things are wrong"


def _conclusion(broken: int) -> str:
    if broken == 0:
        return "keeps every promise; it can be measured"
    return "one promise is broken" if broken == 1 else f"{broken} promises are broken"
