"""`segmeter measure --as object` and `--as proposals`: masks instead of partitions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from segmeter.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segmeter.measures.proposals import ProposalCurve

__all__ = ["object_values", "print_proposals", "proposal_curves", "proposal_values", "same_size"]

_REGION = ("iou", "dice", "precision", "recall")
_BOUNDARY = ("boundary-iou", "fb-object", "fb-morphological")
# How many proposals the table shows; the JSON has all numbers.
_SHOWN = (10, 50, 100, 500, 1000, 100_000)


def object_values(
    prediction: Path, ground_truth: Path, void: int | None, boundaries: bool
) -> dict[str, float]:
    """All measures of one object's mask, by their ids."""
    from segmeter.core import catalogue
    from segmeter.datasets.labelmaps import read_object

    drawn, ignore = read_object(ground_truth, void)
    found, _ = read_object(prediction)
    same_size(prediction, found.shape, ground_truth, drawn.shape)
    if ignore and not drawn:
        # The commonest mask there is has its object at 255, which is a common void, too.
        said = f"'{ground_truth}' holds no object beside label {void}, which --void leaves out"
        typer.echo(f"{said}; if that label is the object, say nothing of --void", err=True)
    names = (*_REGION, *_BOUNDARY) if boundaries else _REGION
    return {name: catalogue.measures.make(name)(drawn, found, ignore) for name in names}


def proposal_curves(
    prediction: Path, ground_truth: Path, void: int | None, boundaries: bool
) -> dict[str, ProposalCurve]:
    """Quality against number of proposals, by J and by the boundary's F."""
    from segmeter.datasets.labelmaps import paired_files, read_objects, read_proposals
    from segmeter.measures.boundaries import morphological_f
    from segmeter.measures.proposals import curve, judge

    judged: dict[str, list[Any]] = {"iou": [], **({"fb-morphological": []} if boundaries else {})}
    for prediction_file, ground_truth_file in paired_files(prediction, ground_truth):
        objects, offered = read_objects(ground_truth_file, void), read_proposals(prediction_file)
        if objects.masks and offered:
            same_size(prediction_file, offered[0].shape, ground_truth_file, objects.masks[0].shape)
        for name, images in judged.items():
            images.append(
                judge(
                    objects.masks,
                    offered,
                    classes=objects.classes,
                    ignore=objects.ignore,
                    quality=morphological_f if name == "fb-morphological" else None,
                )
            )
    return {name: curve(images) for name, images in judged.items()}


def proposal_values(curves: Mapping[str, ProposalCurve]) -> dict[str, Any]:
    """The curves as plain lists, one value a number of proposals."""
    first = next(iter(curves.values()))
    told: dict[str, Any] = {
        "numbers": list(first.numbers),
        "mean_number": first.mean_number.tolist(),
        "objects": len(first.best),
    }
    for name, found in curves.items():
        told[name] = {
            "instance": found.instance.tolist(),
            "median": found.median.tolist(),
            "recall": {str(level): share.tolist() for level, share in found.recall.items()},
            "average_recall": found.average_recall.tolist(),
        }
    told["iou"]["class"] = first.class_mean.tolist()
    told["iou"]["by_class"] = {name: values.tolist() for name, values in first.by_class.items()}
    return told


def print_proposals(curves: Mapping[str, ProposalCurve]) -> None:
    from rich.console import Console
    from rich.table import Table

    for name, found in curves.items():
        quality = "J" if name == "iou" else "F of the outline"
        columns = {"offered": found.mean_number, "mean": found.instance, "median": found.median}
        columns |= {f"above {level}": share for level, share in found.recall.items()}
        columns["AR"] = found.average_recall
        if name == "iou" and any(found.by_class):
            columns["J class"] = found.class_mean
        title = f"best {quality} among the first N, {len(found.best)} objects"
        table = Table("N", *columns, title=title, box=None)
        for place, number in enumerate(found.numbers):
            if number in _SHOWN:
                shown = "all" if number == _SHOWN[-1] else str(number)
                table.add_row(shown, *(f"{values[place]:.3f}" for values in columns.values()))
        Console(markup=False).print(table)


def same_size(
    prediction: Path,
    prediction_shape: tuple[int, ...],
    ground_truth: Path,
    ground_truth_shape: tuple[int, ...],
) -> None:
    """Refuse files of different size, naming both."""
    if prediction_shape != ground_truth_shape:
        sizes = [f"{shape[1]} x {shape[0]}" for shape in (prediction_shape, ground_truth_shape)]
        raise BadInput(
            f"'{prediction}' is {sizes[0]} but '{ground_truth}' is {sizes[1]}; sizes must agree"
        )
