"""Checking a model or a dataset before it is measured, or the files of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segmeter.api.data_checks import Findings, inspect_dataset, write_page
from segmeter.api.loading import Tell, as_model, dataset_spec, is_own_data, silent
from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound, error_text, suggestion
from segmeter.model_parity import first_clicks
from segmeter.models.conformance import check as problems_of
from segmeter.models.opening import described, entry_of_path
from segmeter.runtime.remote_files import Roots, is_address
from segmeter.store import Run, RunFolder

_SENSIBLE = 0.4  # mean IoU after five clicks; random weights stay below


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check: true if there are no problems.

    Attributes
    ----------
    name
        The model or dataset.
    kind
        `"model"`, `"dataset"` or `"run"`.
    faults
        One sentence per problem.
    findings
        Of a dataset: scenes, targets, classes, and the layout recognised in a folder.
    damaged, jobs
        Of a run: the fault of each damaged file, by name, and the number of finished jobs.
    about
        Of a checkpoint file: its content, one sentence each.
    """

    name: str
    kind: str
    faults: tuple[str, ...]
    findings: Findings | None = None
    damaged: Mapping[str, str] | None = None
    jobs: int = 0
    about: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.faults


def check(
    thing: Any,
    *,
    data: str | Path | None = None,
    weights: str | Path | None = None,
    limit: int | None = None,
    page: str | Path | None = None,
    tell: Tell = silent,
) -> Check:
    """Check a model, a dataset or a run; returns one sentence per problem.

    Parameters
    ----------
    thing
        A model or a dataset, by name or as an object, a folder of images and masks, or a run.
    data, weights
        Folders of datasets and of weights.
    limit
        Only the first scenes of a dataset.
    page
        Write a page of a dataset's images with the outlines of their masks.
    tell
        Receives progress of a model's check, which may take minutes.

    Returns
    -------
    Check
        True if nothing is wrong; `faults` has the sentences.

    Examples
    --------
    >>> import segmeter
    >>> bool(segmeter.check("disc")), segmeter.check("mini", limit=2).faults
    (True, ())
    """
    thing = str(thing) if isinstance(thing, Path) else thing
    placed = isinstance(thing, str) and (Path(thing).is_dir() or is_address(thing))
    if placed and not entry_of_path(thing) and RunFolder(thing).begun:
        run = Run.open(thing)
        wrong, jobs = run.verify(), len(run.folder.finished())
        faults = [f"{file}: {why}" for file, why in wrong.items()]
        return Check(thing, "run", tuple(faults), damaged=wrong, jobs=jobs)
    if _is_data(thing, for_data := page is not None or limit is not None):
        return _check_data(thing, data, limit, page)
    made = _model(thing, weights)
    if for_data:
        raise BadInput(f"--page and --limit are for data, and '{thing}' is a model; leave them out")
    name = thing if isinstance(thing, str) else made.card.name
    tell(f"{name}: checking the rules that every model must follow{_twin(name)}")
    faults = problems_of(made)
    about = described(name) if isinstance(thing, str) else []
    own = not isinstance(thing, str) or ".py:" in thing
    takes = frozenset() if faults else made.card.abilities
    if "click" in takes and (about or (own and not takes & {"volume", "video"})):
        try:
            about += _clicked(made, faults, tell, weights=bool(about))
        except Exception as error:  # noqa: BLE001  a user's model may raise anything
            faults.append(f"fails on a built-in image: {error_text(error)}")
    return Check(name, "model", tuple(faults), about=tuple(about))


def _clicked(model: Any, faults: list[str], tell: Tell, weights: bool) -> list[str]:
    """Click on built-in objects: how good the masks are; adds to the faults."""
    found: list[Any] = []
    for tried in first_clicks(model):
        found.append(tried)
        tell(f"built-in object {len(found)}: IoU {tried.iou:.2f} after at most 5 clicks")
    count, mean = len(found), sum(tried.iou for tried in found) / len(found)
    followed, swapped = sum(t.followed for t in found), sum(t.swapped for t in found)
    if weights and mean < _SENSIBLE:
        faults.append(f"mean IoU {mean:.2f} is that of random weights; is this the right file?")
    if followed < count / 2 and swapped > 0.8 * count:
        faults.append(
            f"x and y seem to be exchanged: after the first click {followed} of {count} masks "
            f"contain the clicked pixel (y, x) and {swapped} the pixel (x, y)"
        )
    masks, shown = [t.mask for t in found], f"after one click on each of {count} built-in objects"
    areas = {mask.area / math.prod(mask.shape) for mask in masks}
    if areas in ({0}, {1}):
        what = "full" if 1 in areas else "empty"
        faults.append(f"all masks are {what} {shown}; check the threshold of the mask")
    elif len(set(masks)) <= len({t.scene for t in found}) < count:
        faults.append(f"masks do not depend on the clicks: the same {shown} of an image")
    return [
        f"mean IoU {mean:.2f} after at most 5 clicks on {count} built-in objects; the clicked "
        f"pixel is in the mask after {followed} of {count} first clicks"
    ]


def _model(thing: Any, weights: str | Path | None) -> Any:
    """The model to check; a name that is neither a model nor anything else is not found."""
    try:
        return as_model(thing, weights)
    except NotFound as error:
        plain = str(thing).partition("?")[0]
        if (
            ".py:" in plain
            or Path(plain).is_file()
            or is_address(plain)
            or plain in catalogue.models.names()
        ):
            raise
        near = [p.name for p in Path(plain).parent.glob("*")] + catalogue.datasets.names()
        hint = suggestion(Path(plain).name, [*near, *catalogue.models.names()])
        raise NotFound(f"no file, folder, dataset or model '{thing}';{hint}".rstrip(";")) from error


def _twin(name: str) -> str:
    """A hint on checking the dataset of the same name, if there is one."""
    return "; --limit or --page check the dataset" * (name in catalogue.datasets.names())


def _is_data(thing: Any, preferred: bool) -> bool:
    """A dataset, a folder, or the name of a dataset, and of no model unless data is `preferred`."""
    if not isinstance(thing, str):
        return hasattr(thing, "scenes")
    plain = thing.partition("?")[0]
    if ".py:" in thing or entry_of_path(plain) is not None:
        return False
    return is_own_data(plain) or (
        plain in catalogue.datasets.names() and (preferred or plain not in catalogue.models.names())
    )


def _check_data(
    thing: Any, data: str | Path | None, limit: int | None, page: str | Path | None
) -> Check:
    made, named = thing, isinstance(thing, str)
    if named:
        made = catalogue.datasets.make(dataset_spec(thing), **Roots(data, None).options())
    found = inspect_dataset(made, limit)
    if page is not None:
        write_page(found, Path(page))
    faults = tuple(f"{scene}: {fault}" for scene, fault in found.faults)
    return Check(thing if named else found.name, "dataset", faults, found)
