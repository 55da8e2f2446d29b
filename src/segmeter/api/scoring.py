"""Scoring: masks that exist against ground truth, as a run with intervals and a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segmeter.api.progress import Bar
    from segmeter.api.runs import Run


def score(
    predictions: str | Path | Sequence[str | Path] | Mapping[str, str | Path],
    ground_truth: str | Path,
    *,
    measures: Sequence[str] = (),
    instances: bool = False,
    out: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    progress: bool | Bar | None = None,
) -> Run:
    """Score predicted masks by file name against ground truth; nothing is prompted.

    Parameters
    ----------
    predictions
        A folder of masks or label maps (PNG, TIFF, `.npy`, NIfTI, NRRD, run lengths in JSON) or
        a COCO results or annotation file, several to compare, or a mapping from names to them.
    ground_truth
        A folder of files of the same names, in which all non-zero values are objects; or a COCO
        annotation file, or a folder with one (and its images, which the report then shows).
    measures
        By default Dice, IoU, boundaries or surfaces, and correction effort.
    instances
        Match objects one to one by overlap (largest total IoU) instead of by equal labels.
    out
        Run folder, `runs/masks-<n>` by default.
    options
        `nsd_mm` and `convention` of surfaces.

    Examples
    --------
    >>> import cv2, numpy as np, segmeter, tempfile
    >>> from pathlib import Path
    >>> place = Path(tempfile.mkdtemp())
    >>> for name, width in (("truth", 10), ("network", 5)):
    ...     (place / name).mkdir()
    ...     mask = np.zeros((20, 20), np.uint8); mask[5:15, 5 : 5 + width] = 255
    ...     _ = cv2.imwrite(str(place / name / "a.png"), mask)
    >>> run = segmeter.score(place / "network", place / "truth", out=place / "run")
    >>> {row.statistic: round(row.value, 1) for row in run.summary()}["iou"]
    50.0
    """
    from segmeter.datasets.label_files import Predictions, labels_for
    from segmeter.evaluation import evaluate

    if isinstance(predictions, Mapping):
        models = [Predictions(path, name) for name, path in predictions.items()]
    else:
        several = [predictions] if isinstance(predictions, str | Path) else list(predictions)
        ends = [Path(path).resolve().parts[-2:] for path in (*several, ground_truth)]
        used = Counter(end[-1] for end in ends)  # twice in pred/masks and truth/masks
        names = ["/".join(end) if used[end[-1]] > 1 else "" for end in ends]
        models = [Predictions(*pair) for pair in zip(several, names, strict=False)]
    return evaluate(
        models, labels_for(models, ground_truth), benchmark="masks", measures=measures, out=out,
        protocols="corrected", options={**(options or {}), "instances": instances},
        progress=progress,
    )  # fmt: skip
