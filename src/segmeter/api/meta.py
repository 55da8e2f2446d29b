"""Meta-measures: how well measures distinguish good partitions from bad ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from segmeter import __version__
from segmeter.api.loading import dataset_spec, protocol_names, roots_of
from segmeter.api.measuring import FIGURES, check_file, write_figure
from segmeter.benchmarks.seism import discrimination, segmenter_spec
from segmeter.benchmarks.seism.discrimination import MethodSweeps, human_pairs, sweep_method
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.report.page import Page, render
from segmeter.runtime.remote_files import Roots
from segmeter.store.local import write_file


@dataclass(frozen=True, slots=True)
class MetaMeasures:
    """SIHD, SABD and SISD of each measure, and the images that they are computed on."""

    rows: list[discrimination.MetaRow]
    images: str

    def facts(self) -> dict[str, Any]:
        kinds = ("sihd", "sabd", "sisd")
        return {"rows": [
            {"measure": row.measure, "protocol": row.protocol, "global": row.overall}
            | {k: None if (found := getattr(row, k)) is None else asdict(found) for k in kinds}
            for row in self.rows
        ]}  # fmt: skip


def meta_measures(
    dataset: str = "bsds500",
    measures: Sequence[str] = (),
    methods: Sequence[str] = (),
    baselines: Sequence[str] = (),
    *,
    train: str | None = None,
    data: str | Path | None = None,
    protocols: str | Sequence[str] = "both",
    limit: int | None = None,
    workers: int = 1,
    figure: str | Path | None = None,
    page: str | Path | None = None,
) -> MetaMeasures:
    """Compute meta-measures of partition measures; SABD and SISD need methods.

    Parameters
    ----------
    dataset
        A dataset that people cut into regions.
    measures
        Measures to judge; all but those of boundaries by default.
    methods, baselines
        Segmenters or folders of results, and what they should beat (a quadtree by default).
    train
        Dataset on which the corrected settings are chosen.
    figure, page
        Draw the densities here; write the table and the curves as a page here.

    Examples
    --------
    >>> import segmeter
    >>> segmeter.meta_measures("mini")
    Traceback (most recent call last):
    segmeter.core.errors.BadInput: 'mini' has no human partitions; use bsds500
    """
    check_file("--figure", figure, *FIGURES)
    check_file("--report", page, ".html")
    known, places = _measures(measures), roots_of(data)
    given = _annotated(dataset, places)
    pairs = human_pairs(given, known, limit, workers)
    bases = (baselines or ["quadtree?turned=true"]) if methods else []
    other = None if train is None else _annotated(train, places)
    sweep = partial(sweep_method, measures=known, limit=limit, workers=workers)
    swept, against = (_sweeps(sweep, names, given, other, places) for names in (methods, bases))
    rows = discrimination.meta_rows(pairs, swept, against, known, protocol_names(protocols))
    more = f"; SABD and SISD on {len(swept[0].images)}" if swept else ""
    found = MetaMeasures(rows, f"SIHD on {len(set(pairs.images))} images{more}")
    if figure is not None:
        write_figure(discrimination.density_charts(pairs), Path(figure))
    if page is not None:
        about = [found.images, f"segmeter {__version__}"]
        judged = Page(f"Which measures tell good from bad on {dataset}",
                      "partition measures, judged by meta-measures", about,
                      discrimination.meta_sections(rows, pairs))  # fmt: skip
        write_file(Path(page), render(judged).encode())
    return found


def _sweeps(
    sweep: Callable[..., MethodSweeps], names: Sequence[str], data: Any, train: Any, places: Roots
) -> list[MethodSweeps]:
    """Every method on every image of a dataset, at all its settings; and of `train`."""
    specs = [segmenter_spec(Spec.parse(name)) for name in names]
    made = [catalogue.methods.make(spec, **places.options()) for spec in specs]
    swept = [sweep(method, data) for method in made]
    if train is None:
        return swept
    return [replace(s, training=sweep(m, train)) for s, m in zip(swept, made, strict=True)]


def _annotated(dataset: str, places: Roots) -> Any:
    """A dataset with people's partitions."""
    given = catalogue.datasets.make(dataset_spec(dataset), **places.options())
    if not hasattr(given, "partitions") or not hasattr(given, "annotated"):
        raise BadInput(f"'{dataset}' has no human partitions; use bsds500")
    return given


def _measures(asked: Sequence[str]) -> list[str]:
    known = discrimination.KNOWN_MEASURES
    for name in asked:
        if name not in known:
            hint = suggestion(name, known)
            raise NotFound(f"no partition measure '{name}';{hint} there are {', '.join(known)}")
    return list(dict.fromkeys(asked)) or [
        name for name in known if name not in discrimination.BOUNDARY
    ]
