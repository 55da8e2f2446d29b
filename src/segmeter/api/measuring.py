"""Measuring results without a run: a partition, an object's mask, or proposals, from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, check_choice
from segmeter.core.sections import Axis, Chart, Line
from segmeter.core.wording import counted, joined
from segmeter.datasets import label_files
from segmeter.measures.boundaries import boundary_counts, morphological_f
from segmeter.measures.hierarchies import partition_at
from segmeter.measures.outlines import Grid
from segmeter.measures.partitions import scores
from segmeter.measures.proposals import ProposalCurve, curve, judge
from segmeter.report.figures import draw_charts

FIGURES = (".svg", ".png", ".pdf")
KINDS = ("partition", "object", "proposals")
_REGION = ("iou", "dice", "precision", "recall")
_BOUNDARY = ("boundary-iou", "fb-object", "fb-morphological")


@dataclass(frozen=True, slots=True)
class Measured:
    """Measures of one result: `values` by name, or `curves` of proposals by quality."""

    title: str
    values: Mapping[str, float]
    curves: Mapping[str, ProposalCurve]
    warning: str = ""

    def facts(self) -> dict[str, Any]:
        """The values as JSON can hold them: None for what is undefined."""
        if self.curves:
            return _proposal_values(self.curves)
        return {name: value if value - value == 0 else None for name, value in self.values.items()}


def measure_files(
    prediction: str | Path,
    ground_truths: Sequence[str | Path],
    kind: str = "partition",
    *,
    threshold: float | None = None,
    void: int | None = None,
    boundaries: bool = True,
    figure: str | Path | None = None,
) -> Measured:
    """Compare a partition, an object's mask or proposals with human annotations.

    Parameters
    ----------
    prediction, ground_truths
        Files: PNG, .npy, .mat or run-length JSON; of proposals also folders with a file per image.
    kind
        `"partition"`, `"object"` or `"proposals"`.
    threshold
        Where to cut a contour map (.mat, ucm2) into a partition.
    void
        Label of a mask's pixels that are not judged.
    boundaries
        Also measures of boundaries.
    figure
        Draw the curves of proposals here (.svg, .png or .pdf).

    Examples
    --------
    >>> import cv2
    >>> import numpy as np
    >>> import segmeter
    >>> file = str(getfixture("tmp_path") / "mask.png")
    >>> _ = cv2.imwrite(file, np.eye(16, dtype=np.uint8))
    >>> segmeter.measure_files(file, [file], "object").values["iou"]
    1.0
    """
    given, drawn = Path(prediction), [Path(file) for file in ground_truths]
    _check(kind, len(drawn), threshold, void, figure)
    if kind == "partition":
        values, title = _partition_values(given, drawn, threshold, boundaries)
        return Measured(title, values, {})
    if kind == "object":
        values, warning = _object_values(given, drawn[0], void, boundaries)
        return Measured("one object", values, {}, warning)
    curves = _proposal_curves(given, drawn[0], void, boundaries)
    if figure is not None:
        write_figure(_proposal_charts(curves), Path(figure))
    return Measured("proposals", {}, curves)


def _check(
    kind: str, drawn: int, threshold: float | None, void: int | None, figure: str | Path | None
) -> None:
    """Refuse options that do not apply to what is measured."""
    check_choice("--as", kind, KINDS)
    if kind != "partition" and drawn > 1:
        raise BadInput(f"--as {kind} takes one ground truth, but {drawn} are given")
    if kind != "partition" and threshold is not None:
        raise BadInput(f"--threshold cuts a partition's contour map; --as {kind} has none")
    if kind == "partition" and void is not None:
        raise BadInput("--void is for objects; in a partition every label is a region")
    if kind != "proposals" and figure is not None:
        raise BadInput(f"--figure draws the curves of proposals; --as {kind} has none")
    check_file("--figure", figure, *FIGURES)


def check_file(flag: str, path: str | Path | None, *endings: str) -> None:
    """Refuse a file that cannot be written, or has none of the endings, before any work."""
    if path is None:
        return
    if Path(path).suffix not in endings:
        raise BadInput(f"{flag} '{path}' must end in {joined(endings, 'or')}")
    if not Path(path).parent.is_dir():
        raise BadInput(f"{flag} '{path}': there is no folder '{Path(path).parent}'")


def write_figure(charts: Sequence[Chart], path: Path) -> None:
    """Draw charts, three in a row; refuses a file that cannot be written."""
    try:
        draw_charts(charts, path, columns=min(3, len(charts)))
    except OSError as error:
        raise BadInput(f"'{path}' cannot be written: {error.strerror}") from error


def _partition_values(
    prediction: Path, ground_truths: list[Path], threshold: float | None, boundaries: bool
) -> tuple[dict[str, float], str]:
    read = label_files.read_label_maps
    drawn = [(path, labels) for path in ground_truths for labels in read(path)]
    result = _result(prediction, threshold)
    for path, labels in drawn:
        _same_size(prediction, result.shape, path, labels.shape)
    truths = [labels for _, labels in drawn]
    values = scores(truths, result)
    grids: dict[str, Grid] = {"": "pixel", "-contour": "contour"} if boundaries else {}
    for end, grid in grids.items():
        counts = boundary_counts(truths, result, grid)
        values |= {
            f"fb{end}": counts.f, f"pb{end}": counts.precision, f"rb{end}": counts.recall,
            f"cntR{end}": counts.matched_ground_truth, f"sumR{end}": counts.ground_truth,
            f"cntP{end}": counts.matched_prediction, f"sumP{end}": counts.prediction,
        }  # fmt: skip
    return values, f"against {counted(len(drawn), 'ground truth')}"


def _result(path: Path, threshold: float | None) -> npt.NDArray[Any]:
    """A label map, or a contour map cut into one."""
    found = label_files.read_results(path)
    if len(found) != 1:
        raise BadInput(f"'{path}' holds {len(found)} label maps; PRED is one")
    (result,) = found.values()
    if result.labels is not None:
        return result.labels
    if result.levels is None or threshold is None:
        raise BadInput(f"'{path}' holds a contour map; give --threshold to cut it")
    return partition_at(result.levels, threshold)


def _object_values(
    prediction: Path, ground_truth: Path, void: int | None, boundaries: bool
) -> tuple[dict[str, float], str]:
    """All measures of one object's mask, by their ids, and a warning."""
    drawn, ignore = label_files.read_object(ground_truth, void)
    found, _ = label_files.read_object(prediction)
    _same_size(prediction, found.shape, ground_truth, drawn.shape)
    warning = ""
    if ignore and not drawn:
        # The commonest mask there is has its object at 255, which is a common void, too.
        warning = f"'{ground_truth}' has no label but {void}, which --void leaves out"
        warning += "; if that label is the object, leave out --void"
    names = (*_REGION, *_BOUNDARY) if boundaries else _REGION
    return {name: catalogue.measures.make(name)(drawn, found, ignore) for name in names}, warning


def _proposal_curves(
    prediction: Path, ground_truth: Path, void: int | None, boundaries: bool
) -> dict[str, ProposalCurve]:
    """Quality against number of proposals, by J and by the boundary's F."""
    qualities = {"iou": None, **({"fb-morphological": morphological_f} if boundaries else {})}
    judged: dict[str, list[Any]] = {name: [] for name in qualities}
    for file, truth in label_files.paired_files(prediction, ground_truth):
        masks, classes, ignore = label_files.read_objects(truth, void)
        offered = label_files.read_proposals(file)
        if masks and offered:
            _same_size(file, offered[0].shape, truth, masks[0].shape)
        for name, quality in qualities.items():
            one = judge(masks, offered, classes=classes, ignore=ignore, quality=quality)
            judged[name].append(one)
    return {name: curve(images) for name, images in judged.items()}


def _proposal_values(curves: Mapping[str, ProposalCurve]) -> dict[str, Any]:
    """The curves as plain lists, one value a number of proposals."""
    first = next(iter(curves.values()))
    report: dict[str, Any] = {
        "numbers": list(first.numbers),
        "mean_number": first.mean_number.tolist(),
        "objects": len(first.best),
    }
    for name, found in curves.items():
        report[name] = {
            "instance": found.instance.tolist(),
            "median": found.median.tolist(),
            "recall": {str(level): share.tolist() for level, share in found.recall.items()},
            "average_recall": found.average_recall.tolist(),
        }
    report["iou"]["class"] = first.class_mean.tolist()
    report["iou"]["by_class"] = {name: values.tolist() for name, values in first.by_class.items()}
    return report


def _same_size(one: Path, shape: tuple[int, ...], other: Path, wanted: tuple[int, ...]) -> None:
    """Refuse files of different size, naming both."""
    if shape != wanted:
        sizes = [f"{each[1]} x {each[0]}" for each in (shape, wanted)]
        raise BadInput(f"'{one}' is {sizes[0]} but '{other}' is {sizes[1]}; sizes must agree")


def _proposal_charts(curves: Mapping[str, ProposalCurve]) -> list[Chart]:
    """A row of panels a quality: mean, median, and recall at three levels, against number."""
    charts = []
    for quality, found in curves.items():
        panels: dict[str, Mapping[str, Any]] = {
            f"mean of the best {quality}": {"": found.instance}, "median": {"": found.median},
            "recall": {f"above {level}": share for level, share in found.recall.items()},
        }  # fmt: skip
        for title, lines in panels.items():
            drawn = [Line(name, found.mean_number, values) for name, values in lines.items()]
            x, y = Axis("number of proposals", scale="log"), Axis("", 0.0, 1.0)
            charts.append(Chart(title, x, y, drawn))
    return charts
