"""Tables of challenges on interactive segmentation of volumes: CVPR 2025 and autoPET IV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from typing import Any

from segmeter.core.benchmarks import Results, Row
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped
from segmeter.measures.challenges import GATE, area_over_steps

STEPS = 6
SECONDS_PER_CLASS = 90
"""Limit of the challenge for a whole case, per class."""

AUTOPET_STEPS = 11


def case_row(
    name: str, classes: int, dsc: Sequence[float], nsd: Sequence[float], seconds: Sequence[float]
) -> dict[str, Any]:
    """A case as a line of the organisers' table, in the order of its columns, from its six steps;
    areas leave the box out."""

    def steps(column: str, values: Sequence[float]) -> dict[str, float]:
        return {f"{column}_{k}": value for k, value in enumerate(values, start=1)}

    return {
        "CaseName": name,
        "TotalRunningTime": sum(seconds),
        **steps("RunningTime", seconds),
        "DSC_AUC": area_over_steps(dsc[1:]),
        "NSD_AUC": area_over_steps(nsd[1:]),
        "DSC_Final": dsc[-1],
        "NSD_Final": nsd[-1],
        **steps("DSC", dsc),
        **steps("NSD", nsd),
        "num_class": classes,
        "runtime_upperbound": SECONDS_PER_CLASS * classes,
    }


def challenge_csv(run: Results, model: str, protocol: str) -> str:
    """The results of a model as the table of the challenge whose clicks the run's users gave.

    Classes are segmented one by one, not from one label map. RunningTime is measured prediction,
    in the first step with encoding. autoPET's step without clicks counts as an empty mask.
    """
    nsd = "nsd" if "nsd" in run.columns("rows") else "null::double"
    query = f"""
        select "user", scene, "round",
            list_avg(list(dice order by target)) as dice,
            list_avg(list({nsd} order by target)) as nsd,
            list_sum(list(seconds_predict order by target))
                + case "round" when 1 then max(seconds_encode) else 0 end as s,
            count(*) as classes, list_sum(list(fpv_ml order by target)) as fpv,
            list_sum(list(fnv_ml order by target)) as fnv,
            list_sum(list(volume_ml order by target)) as ml
        from rows where model = ? and protocol = ?
        group by "user", scene, "round" order by scene, "round"
    """
    found = run.sql(query, [model, protocol]).to_pylist()
    cvpr, autopet = [], []
    for (user, scene), rows in grouped(found, lambda r: (r["user"], r["scene"])).items():
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
    made = cvpr or autopet
    writer = csv.DictWriter(text, list(made[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(made)
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
    return case_row(f"{scene}.npz", rows[0]["classes"], dsc, nsd, seconds)


def _autopet_row(scene: str, rows: Sequence[Row]) -> dict[str, Any]:
    if len(rows) < AUTOPET_STEPS - 1:
        raise BadInput(f"{scene} has {len(rows)} rounds; autoPET has {AUTOPET_STEPS - 1}: --rounds")
    start = {"dice": 0.0, "fpv": 0.0, "fnv": rows[0]["ml"]}
    steps = {n: [v, *(r[n] for r in rows[: AUTOPET_STEPS - 1])] for n, v in start.items()}
    areas = {f"{name}_auc": area_over_steps(values) for name, values in steps.items()}
    return {"gt_name": scene, **areas, **{f"{n}_final": values[-1] for n, values in steps.items()}}
