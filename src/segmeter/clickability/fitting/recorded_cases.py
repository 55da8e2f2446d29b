"""Cases for the fit from a file of recorded clicks, where there are no published tables."""

from __future__ import annotations

from collections.abc import Mapping

from segmeter.clickability.fitting.expected_statistics import shape_of
from segmeter.clickability.fitting.first_clicks import Case, Seen
from segmeter.clickability.map_scores import scores_by_key
from segmeter.clickability.map_sources import source
from segmeter.clickability.training.samples import TrainingSample, samples_of
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scenes import Dataset
from segmeter.datasets.recorded_clicks import Clicks

__all__ = ["LEAST_CLICKS", "cases_of"]

# Fewer clicks say too little about one target.
LEAST_CLICKS = 4


def cases_of(clicks: Clicks, datasets: Mapping[str, Dataset]) -> list[Case]:
    """First-round targets with at least four clicks: what the published tables would hold.

    The statistics are those of the tables (reading `published`), so that a fit on a study's
    own clicks and one on the published tables mean the same.
    """
    found = [_case(sample) for sample in samples_of(clicks, datasets) if _enough(sample)]
    cases = [case for case in found if case is not None]
    if not cases:
        raise BadInput(f"no target has {LEAST_CLICKS} first clicks; collect more before fitting")
    return cases


def _enough(sample: TrainingSample) -> bool:
    return sample.name.endswith("/first") and len(sample.points) >= LEAST_CLICKS


def _case(sample: TrainingSample) -> Case | None:
    _, object, _ = sample.show()
    scores: list[float] = []
    for name in ("uniform", "distance"):
        found = scores_by_key([sample], source(name, None).inner, "published")
        if not found:
            return None
        scores += [found[0][1].nss, found[0][1].pde, found[0][1].pl1]
    mask = Mask.of(object)
    return Case(mask, shape_of(mask), Seen(sample.name, "first", *scores), len(sample.points))
