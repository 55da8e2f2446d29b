"""Challenges on interactive segmentation of volumes: CVPR 2025 and autoPET IV.

`run_case` does what the CVPR organisers' script does with a container: a step with boxes, then
five steps with one more click per class, all from one label map that the model returns.
`challenge_csv` writes the table of either challenge from a run of the benchmark.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.benchmarks import Results, Row
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.seeds import fingerprint, seeded
from segmeter.measures.challenges import GATE, area_over_steps, challenge_labels, step_scores
from segmeter.users.volumes.volume_clicks import challenge_box, middle_click

STEPS = 6
SECONDS_PER_CLASS = 90
"""Limit of the challenge for a whole case, per class."""

Labels = npt.NDArray[np.integer]
Predict = Callable[[Mapping[str, Any]], Labels | None]
_NUMBERS = range(1, STEPS + 1)

COLUMNS = (
    "CaseName", "TotalRunningTime", *(f"RunningTime_{k}" for k in _NUMBERS), "DSC_AUC",
    "NSD_AUC", "DSC_Final", "NSD_Final", *(f"DSC_{k}" for k in _NUMBERS),
    *(f"NSD_{k}" for k in _NUMBERS), "num_class", "runtime_upperbound",
)  # fmt: skip
"""Columns of the organisers' table, in their order."""


@dataclass(slots=True)
class CaseResult:
    """Clicks and scores of a case.

    Attributes
    ----------
    clicks, order
        Of each class its clicks `{"fg": [[z, y, x], ...], "bg": [...]}`, and the kind of each
        step's click, None where nothing was wrong.
    dsc, nsd, seconds
        Of each of the six steps; 0 for the first without boxes.
    predictions
        Label maps of the steps that were run.
    absent
        Whether the script leaves the case out of its table: nothing was ever predicted.
    """

    clicks: list[dict[str, list[list[int]]]]
    order: list[list[str | None]]
    dsc: list[float] = field(default_factory=list)
    nsd: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    predictions: list[Labels] = field(default_factory=list)
    absent: bool = False

    def row(self, name: str) -> dict[str, Any]:
        """The case as a line of the organisers' table; areas leave the box step out."""
        by_step = {
            f"{column}_{k}": values[k - 1]
            for column, values in (
                ("RunningTime", self.seconds), ("DSC", self.dsc), ("NSD", self.nsd)
            )
            for k in _NUMBERS
        }  # fmt: skip
        made = {
            "CaseName": name,
            "TotalRunningTime": sum(self.seconds),
            "DSC_AUC": area_over_steps(self.dsc[1:]),
            "NSD_AUC": area_over_steps(self.nsd[1:]),
            "DSC_Final": self.dsc[-1],
            "NSD_Final": self.nsd[-1],
            "num_class": len(self.clicks),
            "runtime_upperbound": SECONDS_PER_CLASS * len(self.clicks),
            **by_step,
        }
        return {column: made[column] for column in COLUMNS}


AUTOPET_COLUMNS = (
    "gt_name", "dice_auc", "fpv_auc", "fnv_auc", "dice_final", "fpv_final", "fnv_final",
)  # fmt: skip
AUTOPET_STEPS = 11


def challenge_csv(run: Results, model: str, protocol: str) -> str:
    """The results of a model as the table of the challenge whose clicks the run's users gave.

    Classes are segmented one by one, not from one label map. RunningTime is measured prediction,
    in the first step with encoding. autoPET's step without clicks counts as an empty mask.
    """
    there = set(run.sql("select * from rows limit 0").column_names)
    nsd = "nsd" if "nsd" in there else "null::double"
    table = run.sql(f"""
        select model, protocol, "user", scene, "round",
            list_avg(list(dice order by target)) as dice,
            list_avg(list({nsd} order by target)) as nsd,
            list_sum(list(seconds_predict order by target))
                + case "round" when 1 then max(seconds_encode) else 0 end as s,
            count(*) as classes, list_sum(list(fpv_ml order by target)) as fpv,
            list_sum(list(fnv_ml order by target)) as fnv,
            list_sum(list(volume_ml order by target)) as ml
        from rows group by model, protocol, "user", scene, "round" order by scene, "round"
    """)
    cases: dict[tuple[str, str], list[Row]] = {}
    for row in table.to_pylist():
        if (row["model"], row["protocol"]) == (model, protocol):
            cases.setdefault((row["user"], row["scene"]), []).append(row)
    cvpr, autopet = [], []
    for (user, scene), rows in cases.items():
        given = Spec.parse(user)
        if given.name == "cvpr25-clicks":
            cvpr.append(_cvpr25_row(scene, rows, protocol, given.options.get("box", True)))
        elif given.name == "autopet-clicks":
            autopet.append(_autopet_row(scene, rows))
    if bool(cvpr) == bool(autopet):
        raise BadInput(
            f"the run has no cases of one challenge for '{model}' in '{protocol}'; run it with "
            "--user cvpr25-clicks --rounds 6, or --user autopet-clicks --rounds 10"
        )
    text = StringIO()
    writer = csv.DictWriter(text, COLUMNS if cvpr else AUTOPET_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(cvpr or autopet)
    return text.getvalue()


def _cvpr25_row(scene: str, rows: Sequence[Row], protocol: str, box: bool) -> dict[str, Any]:
    """A case; without a box the first step is 0, and clicks are steps 2 to 6."""
    before = 0 if box else 1
    if len(rows) < STEPS - before:
        raise BadInput(f"{scene} has {len(rows)} rounds; the challenge has {STEPS} steps: --rounds")
    dsc, nsd, seconds = ([0.0] * before + [r[c] for r in rows][: STEPS - before]
                         for c in ("dice", "nsd", "s"))  # fmt: skip
    if protocol == "published":
        nsd = [0.0 if d <= GATE else n for d, n in zip(dsc, nsd, strict=True)]
    classes = [
        {"fg": list[list[int]](), "bg": list[list[int]]()} for _ in range(rows[0]["classes"])
    ]
    return CaseResult(classes, [], dsc, nsd, seconds).row(f"{scene}.npz")


def _autopet_row(scene: str, rows: Sequence[Row]) -> dict[str, Any]:
    if len(rows) < AUTOPET_STEPS - 1:
        raise BadInput(f"{scene} has {len(rows)} rounds; autoPET has {AUTOPET_STEPS - 1}: --rounds")
    start = {"dice": 0.0, "fpv": 0.0, "fnv": rows[0]["ml"]}
    row: dict[str, Any] = {"gt_name": scene}
    for name, value in start.items():
        steps = [value, *(r[name] for r in rows[: AUTOPET_STEPS - 1])]
        row |= {f"{name}_auc": area_over_steps(steps), f"{name}_final": steps[-1]}
    return {column: row[column] for column in AUTOPET_COLUMNS}


def class_boxes(ground_truth: Labels, draws: np.random.RandomState) -> list[dict[str, int]]:
    """Boxes of all classes as the organisers' generator draws them, all limits inside.

    The box of the middle slice is widened by 0 to 5 pixels of an image of 256.
    """
    made = []
    _, rows, columns = ground_truth.shape
    for label in challenge_labels(ground_truth):
        tight = challenge_box(Mask.of(ground_truth == label))
        slices = np.flatnonzero((ground_truth == label).any(axis=(1, 2)))
        wider = int(draws.randint(0, 6))
        x, y = int(wider * columns / 256), int(wider * rows / 256)
        (z_min, y_min, x_min), (z_max, y_max, x_max) = tight.low, tight.high
        found = {
            "z_min": z_min,
            "z_max": z_max,
            "z_mid": slices[len(slices) // 2],
            "z_mid_x_min": max(0, x_min - x),
            "z_mid_y_min": max(0, y_min - y),
            "z_mid_x_max": min(columns - 1, x_max + x),
            "z_mid_y_max": min(rows - 1, y_max + y),
        }
        made.append({name: int(value) for name, value in found.items()})
    return made


def run_case(
    case: Mapping[str, Any],
    ground_truth: Labels,
    predict: Predict,
    protocol: ProtocolName = "published",
    name: str = "",
) -> CaseResult:
    """Run the six steps of a case.

    `case` holds `imgs`, `spacing` and maybe `boxes`; `predict` gets it with `clicks`,
    `clicks_order` and `prev_pred`, as a container gets its file, and returns a label map, or None
    if it failed. `published` scores a failed step by the last prediction, and clicks on
    predictions cast to 8 bits; `corrected` does neither.
    """
    from time import perf_counter

    published = protocol == "published"
    labels = challenge_labels(ground_truth, protocol)
    result = CaseResult([{"fg": [], "bg": []} for _ in labels], [[] for _ in labels])
    empty = np.zeros(ground_truth.shape, np.uint8 if published else ground_truth.dtype)
    shown: Labels | None = None
    for step in range(STEPS):
        if step == 0 and "boxes" not in case:
            for values in (result.dsc, result.nsd, result.seconds):
                values.append(0.0)
            continue
        given = dict(case)
        if step:
            seen = empty if shown is None else shown.astype(empty.dtype)
            _click(result, ground_truth, seen, labels, (name, step), protocol)
            given |= {"clicks": result.clicks, "clicks_order": result.order, "prev_pred": seen}
        start = perf_counter()
        made = predict(given)
        result.seconds.append(perf_counter() - start)
        if made is not None:
            shown = made
            result.predictions.append(made.astype(empty.dtype))
        elif not published:
            shown = empty
        elif shown is not None:
            result.predictions.append(result.predictions[-1])
        scored = empty if shown is None else shown
        dsc, nsd = step_scores(ground_truth, scored, case["spacing"], protocol)
        result.dsc.append(dsc)
        result.nsd.append(nsd)
    result.absent = published and shown is None
    return result


def _click(
    result: CaseResult,
    ground_truth: Labels,
    seen: Labels,
    labels: Sequence[int],
    place: tuple[str, int],
    protocol: ProtocolName,
) -> None:
    """One more click per class, all from the same prediction."""
    for number, label in enumerate(labels):
        target, found = Mask.of(ground_truth == label), Mask.of(seen == label)
        draws = None if protocol == "published" else seeded(fingerprint("cvpr25", *place, label))
        click = middle_click(target, found, draws)
        if click is None:
            result.order[number].append(None)
            continue
        kind = "fg" if click.click.positive else "bg"
        result.clicks[number][kind].append([int(c) for c in click.click.point])
        result.order[number].append(kind)
