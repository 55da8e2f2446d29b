"""Fetching weights of models: from their project's page, the model hub, or your own disk."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import NoReturn

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.models import weights
from segmeter.models.fetching import Arrival, Offer, offers
from segmeter.models.fetching import fetch as bring
from segmeter.models.fetching.transfer import Progress


def fetch(
    name: str,
    out: str | Path | None = None,
    source: str | None = None,
    *,
    progress: Progress | None = None,
) -> Arrival:
    """Download a model's weights unless they exist; resumes an interrupted download.

    Parameters
    ----------
    name
        A model of `list_weights()`.
    out
        Folder for the weights, in a folder of the model's name; your cache by default. Nothing
        that is there already is overwritten or deleted.
    source
        `"hub"`, `"page"` or `"index"`, a file, folder or archive of yours, an address, or a hub id;
        by default the model's sources are tried in turn.
    progress
        Called with the file's name, bytes so far, and bytes in all (0 if not known).

    Returns
    -------
    Arrival
        `folder`, `source`, `digests` (sha256 of each file) and which of them are the published
        ones.

    Examples
    --------
    >>> import segmeter
    >>> segmeter.fetch("disc")
    Traceback (most recent call last):
    segmeter.core.errors.BadInput: model 'disc' needs no weights; there is nothing to fetch
    """
    known = offers()
    if name not in known:
        _explain(name, known)
    return bring(known[name], None if out is None else Path(out), source, progress)


def list_weights() -> dict[str, bool]:
    """Models whose weights can be fetched, and whether they are in your cache.

    Examples
    --------
    >>> import segmeter
    >>> "mobile-sam" in segmeter.list_weights()
    True
    """
    return {name: bool(weights.files(weights.home() / name)) for name in offers()}


def weight_sources() -> dict[str, dict[str, str]]:
    """Sources of each model's weights: kind (`hub`, `page`, `index`) and address."""
    return {name: {s.kind: str(s) for s in offer.sources} for name, offer in offers().items()}


def weights_home() -> Path:
    return weights.home()


def _explain(name: str, known: dict[str, Offer]) -> NoReturn:
    """Refuse a name that cannot be fetched: a dataset, a model without a source, or a typo."""
    datasets, models = catalogue.datasets, catalogue.models
    if name in datasets.names():
        try:
            if not catalogue.required(datasets.entry(name)):
                datasets.make(name)
        except NotFound as error:
            message = f"segmeter fetches weights, not data: {error}"
            raise NotFound(f"{message}; give the folder to 'segmeter run' with --data") from None
        raise BadInput(f"dataset '{name}' is already available; there is nothing to fetch")
    if name in models.names():
        entry = models.entry(name)
        if "weights" in inspect.signature(entry.make).parameters:
            raise NotFound(
                f"no known source of weights for '{name}'; put them in a folder '{name}' and "
                "give the folder that holds it with --weights"
            )
        if not catalogue.required(entry):
            models.make(name)  # one that is not available says what is missing
        raise BadInput(f"model '{name}' needs no weights; there is nothing to fetch")
    hint = suggestion(name, [*known, *models.names(), *datasets.names()])
    raise NotFound(f"no weights named '{name}';{hint} 'segmeter fetch --list' shows them all")
