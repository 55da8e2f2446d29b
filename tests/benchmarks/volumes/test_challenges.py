"""Challenges: every golden run, click, box and score of CVPR 2025 and autoPET IV."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from segmeter.benchmarks.volumes.cvpr25 import STEPS, case_row
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.morphology import largest_component
from segmeter.core.seeds import fingerprint, seeded
from segmeter.measures.challenges import (
    area_over_steps,
    challenge_labels,
    lesion_scores,
    step_scores,
    text_scores,
)
from segmeter.users.volumes.volume_clicks import (
    autopet_clicks,
    challenge_box,
    deepest_voxels,
    middle_click,
)

STEP_NUMBERS = range(1, STEPS + 1)
COLUMNS = (
    "CaseName", "TotalRunningTime", *(f"RunningTime_{k}" for k in STEP_NUMBERS), "DSC_AUC",
    "NSD_AUC", "DSC_Final", "NSD_Final", *(f"DSC_{k}" for k in STEP_NUMBERS),
    *(f"NSD_{k}" for k in STEP_NUMBERS), "num_class", "runtime_upperbound",
)  # fmt: skip
"""Columns of the organisers' table, in their order."""
Labels = npt.NDArray[np.integer]
Predict = Callable[[Mapping[str, Any]], Labels | None]


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
        return case_row(name, len(self.clicks), self.dsc, self.nsd, self.seconds)


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
    steps: int = STEPS,
) -> CaseResult:
    """Run the six steps of a case, or the first of them.

    `case` holds `imgs`, `spacing` and maybe `boxes`; `predict` gets it with `clicks`,
    `clicks_order` and `prev_pred`, as a container gets its file, and returns a label map, or None
    if it failed. `published` scores a failed step by the last prediction, and clicks on
    predictions cast to 8 bits; `corrected` does neither.
    """
    published = protocol == "published"
    labels = challenge_labels(ground_truth, protocol)
    result = CaseResult([{"fg": [], "bg": []} for _ in labels], [[] for _ in labels])
    empty = np.zeros(ground_truth.shape, np.uint8 if published else ground_truth.dtype)
    shown: Labels | None = None
    for step in range(steps):
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
        kind = "fg" if click.positive else "bg"
        result.clicks[number][kind].append([int(c) for c in click.point])
        result.order[number].append(kind)


def read(golden: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((golden / "challenges" / f"{name}.json").read_text())
    return found


def ball(shape: tuple[int, ...], centre: Any, radii: Any) -> np.ndarray[Any, Any]:
    made = np.zeros(shape, bool)
    around = zip(shape, centre, radii, strict=True)
    window = tuple(slice(max(0, int(c - r)), min(n, int(c + r) + 2)) for n, c, r in around)
    grid = np.ogrid[window]
    made[window] = (
        sum(((g - c) / r) ** 2 for g, c, r in zip(grid, centre, radii, strict=True)) <= 1.0
    )
    return made


def drawn(shape: list[int], operations: list[dict[str, Any]], dtype: str = "uint8") -> Any:
    labels = np.zeros(shape, dtype)
    for one in operations:
        if one["op"] == "ellipsoid":
            labels[ball(tuple(shape), one["centre"], one["radii"])] = one["label"]
        elif one["op"] == "box":
            window = tuple(slice(a, b) for a, b in zip(one["low"], one["high"], strict=True))
            labels[window] = one["label"]
        else:
            for voxel in one["at"]:
                labels[tuple(voxel)] = one["label"]
    return labels


class Balls:
    """The synthetic model of the golden runs."""

    def __init__(self, case: dict[str, Any], labels: list[int], dtype: str) -> None:
        self.r_pos, self.r_neg, self.threshold = case["model"]
        self.failing, self.labels, self.dtype, self.step = case["fail_steps"], labels, dtype, 0
        self.step = 0 if "box_prompts" in case else 1

    def __call__(self, given: Mapping[str, Any]) -> Any:
        step, self.step = self.step, self.step + 1
        if step in self.failing:
            return None
        image = given["imgs"]
        ok = image >= self.threshold
        previous = given.get("prev_pred", np.zeros(image.shape, self.dtype))
        made = np.zeros(image.shape, self.dtype)
        for number, label in enumerate(self.labels):
            mask = previous == label
            if "boxes" in given:
                b = given["boxes"][number]
                inside = np.zeros(image.shape, bool)
                inside[b["z_min"] : b["z_max"] + 1, b["z_mid_y_min"] : b["z_mid_y_max"] + 1,
                       b["z_mid_x_min"] : b["z_mid_x_max"] + 1] = True  # fmt: skip
                mask |= inside & ok
            clicks = given["clicks"][number] if "clicks" in given else {"fg": [], "bg": []}
            for click in clicks["fg"]:
                mask |= ball(image.shape, click, (self.r_pos,) * 3) & ok
            for click in clicks["bg"]:
                mask &= ~ball(image.shape, click, (self.r_neg,) * 3)
            made[mask] = label
        return made


def image_of(labels: Any) -> Any:
    z, y, x = np.ogrid[tuple(slice(n) for n in labels.shape)]
    return 10 * (labels > 0).astype(np.uint8) + ((7 * z + 3 * y + 5 * x) % 11).astype(np.uint8)


def test_golden_runs_of_six_steps_agree(golden: Path) -> None:
    runs = [case for case in read(golden, "cvpr25_runs") if case["name"] != "large_loop"]
    assert len(runs) >= 20
    for case in runs:
        labels, found = run_golden(case)
        wanted, name = case["expected"], case["name"]
        assert found.clicks == wanted["clicks"], name
        assert found.order == wanted["clicks_order"], name
        assert found.absent is not wanted["in_csv"], name
        if found.absent:
            continue
        row = found.row(name)
        assert tuple(row) == COLUMNS
        assert found.dsc == pytest.approx(wanted["DSC"], abs=1e-9), name
        assert found.nsd == pytest.approx(wanted["NSD"], abs=1e-9), name
        for column in ("DSC_AUC", "NSD_AUC", "DSC_Final", "NSD_Final", "num_class",
                       "runtime_upperbound"):  # fmt: skip
            assert row[column] == pytest.approx(wanted[column], abs=1e-9), (name, column)
        assert len(found.predictions) == wanted["all_segs"], name
        assert checksums(found, labels) == wanted["crc32_per_step_and_class"], name


@pytest.mark.long
def test_the_first_steps_of_a_large_golden_run_agree(golden: Path) -> None:
    """Three of six steps of 22 million voxels."""
    (case,) = [case for case in read(golden, "cvpr25_runs") if case["name"] == "large_loop"]
    labels, found = run_golden(case, steps=3)
    wanted = case["expected"]
    for mine, theirs in zip(found.clicks, wanted["clicks"], strict=True):
        for kind, places in mine.items():
            assert places == theirs[kind][: len(places)]
    assert found.order == [kinds[: len(found.order[0])] for kinds in wanted["clicks_order"]]
    assert len(found.order[0]) == 2
    assert found.dsc == pytest.approx(wanted["DSC"][:3], abs=1e-9)
    assert found.nsd == pytest.approx(wanted["NSD"][:3], abs=1e-9)
    assert checksums(found, labels) == wanted["crc32_per_step_and_class"][:2]


def run_golden(case: dict[str, Any], steps: int = STEPS) -> tuple[Labels, CaseResult]:
    labels = drawn(case["shape"], case["ops"], case["dtype"])
    given = {"imgs": image_of(labels), "spacing": case["spacing"]}
    if "box_prompts" in case:
        given["boxes"] = case["box_prompts"]
    model = Balls(case, challenge_labels(labels), case["dtype"])
    return labels, run_case(given, labels, model, steps=steps)


def checksums(found: CaseResult, labels: Labels) -> list[list[int]]:
    classes = challenge_labels(labels)
    return [
        [zlib.crc32(np.packbits((p == label).ravel()).tobytes()) for label in classes]
        for p in found.predictions
    ]


@pytest.mark.parametrize("place", range(9))
def test_golden_clicks_in_large_parts_agree(golden: Path, place: int) -> None:
    case = read(golden, "cvpr25_large_clicks")[place]
    target, found = (Mask.of(drawn(case["shape"], case[k])) for k in ("gt", "prediction"))
    click = middle_click(target, found)
    assert click is not None
    assert list(click.point) == case["click"], case["name"]  # the tie that the script draws
    assert click.positive is case["positive"]
    if place not in (0, 1, 3):  # the click is found by the same two steps
        return
    part = largest_component((target - found) | (found - target))
    deepest, squared = deepest_voxels(part, exact=False)
    assert part.area == case["part_voxels"]
    assert len(deepest) == case["ties"]
    assert squared**0.5 == pytest.approx(case["deepest"])


def test_golden_boxes_agree(golden: Path) -> None:
    draws, seed, shown = np.random.RandomState(0), None, 0
    cases = read(golden, "cvpr25_boxes")
    for number, case in enumerate(cases):
        if case["seed"] != seed or number == len(cases) - 1:
            seed = case["seed"]
            draws = np.random.RandomState(seed)
        if case["case"].startswith("Microscopy"):
            continue
        found = class_boxes(drawn(case["shape"], case["ops"], "uint16"), draws)
        assert found == case["boxes"], case["case"]
        shown += 1
    assert shown >= 6


def test_golden_scores_of_the_text_track_agree(golden: Path) -> None:
    for case in read(golden, "cvpr25_text"):
        pair = [drawn(case["shape"], case[k], "uint16") for k in ("gt", "prediction")]
        found = text_scores(*pair, case["text_prompts"], case["spacing"])
        ours = {"DSC": found.dsc, "NSD": found.nsd, "F1": found.f1, "DSC_TP": found.dsc_tp}
        for name, value in ours.items():
            wanted = case["expected"][name]
            assert value == (None if wanted is None else pytest.approx(wanted, abs=1e-9)), case


def test_golden_clicks_and_scores_of_autopet_agree(golden: Path) -> None:
    for case in read(golden, "autopet4"):
        lesions = drawn(case["shape"], case["label"]).astype(bool)
        pet = np.random.RandomState(case["seed"]).random_sample(case["shape"])
        for hot in case["hot"]:
            pet[ball(tuple(case["shape"]), hot["centre"], hot["radii"])] += hot["height"]
        wanted, task_2 = case["expected"], case["name"].startswith("ct_")
        given = (lesions, None, 2) if task_2 else (lesions, pet, 10)
        for memory in ("array", "file"):
            told = wanted[f"clicks_{memory}"]
            if isinstance(told, str):
                with pytest.raises(BadInput, match="on a lesion"):
                    autopet_clicks(*given, memory=memory)  # type: ignore[arg-type]
                continue
            clicks = autopet_clicks(*given, memory=memory)  # type: ignore[arg-type]
            assert [list(v) for v in clicks.tumor] == told["tumor"], (case["name"], memory)
            assert [list(v) for v in clicks.background] == told["background"], case["name"]
        if "steps" in wanted:
            check_steps(case, lesions, pet)


def check_steps(case: dict[str, Any], lesions: Any, pet: Any) -> None:
    r_pos, r_neg, threshold = case["model"]
    clicks, shape = case["expected"]["clicks_file"], lesions.shape
    found: dict[str, list[float]] = {"dice": [], "fpv": [], "fnv": []}
    for k, wanted in enumerate(case["expected"]["steps"]):
        mask = pet > threshold
        for voxel in clicks["tumor"][:k]:
            mask = mask | ball(shape, voxel, (r_pos,) * 3)
        for voxel in clicks["background"][:k]:
            mask = mask & ~ball(shape, voxel, (r_neg,) * 3)
        scores = lesion_scores(lesions, mask, np.float32(case["zooms"]).tolist())
        assert mask.sum() == wanted["voxels"]
        for name, values in found.items():
            values.append(getattr(scores, name))
            expected = np.nan if wanted[name] is None else wanted[name]
            assert values[-1] == pytest.approx(expected, rel=1e-6, nan_ok=True)
    for name, values in found.items():
        for kind, value in (("auc", area_over_steps(values)), ("final", values[-1])):
            expected = case["expected"]["summary"][f"{name}_{kind}"]
            wanted = np.nan if expected is None else expected
            assert value == pytest.approx(wanted, rel=1e-6, nan_ok=True)


def test_corrected_scores_have_no_gate_and_read_spacing_in_its_order() -> None:
    truth, found = (np.zeros((10, 30, 30), np.uint8) for _ in range(2))
    truth[2:8, 5:25, 5:25], found[2:8, 5:25, 5:7] = 1, 1
    assert step_scores(truth, found, (1, 1, 5))[1] == 0
    assert step_scores(truth, found, (1, 1, 5), "corrected")[1] > 0
    truth[:], found[:] = 0, 0
    truth[2:8, 5:25, 5:25], found[2:6, 5:25, 5:25] = 1, 1
    thick = step_scores(truth, found, (1, 1, 5), "corrected")[1]
    assert thick < step_scores(truth, found, (1, 1, 5), "published")[1]


def test_a_run_gives_the_tables_of_both_challenges(tmp_path: Path) -> None:
    import csv

    import segmeter

    made = {}
    for user, rounds in (("cvpr25-clicks", 6), ("autopet-clicks", 10)):
        run = segmeter.evaluate(
            "disc", "mini-volumes", benchmark="volumes", users=[user], rounds=rounds, limit=2,
            protocols="corrected", out=tmp_path / user,
        )  # fmt: skip
        made[user] = list(csv.DictReader(run.table("challenge").splitlines()))
        case = run.sql(
            f'select scene, avg(dice) as dice from rows where "round" = {rounds} '
            "group by scene order by scene"
        ).to_pylist()
        final = "DSC_Final" if rounds == 6 else "dice_final"
        assert [float(r[final]) for r in made[user]] == pytest.approx([c["dice"] for c in case])
    assert tuple(made["cvpr25-clicks"][0]) == COLUMNS
    row = {name: value for name, value in made["cvpr25-clicks"][0].items() if name != "CaseName"}
    steps = [float(row[f"DSC_{k}"]) for k in range(2, 7)]
    assert float(row["DSC_AUC"]) == pytest.approx(area_over_steps(steps))
    assert tuple(made["autopet-clicks"][0]) == (
        "gt_name", "dice_auc", "fpv_auc", "fnv_auc", "dice_final", "fpv_final", "fnv_final"
    )  # fmt: skip
    with pytest.raises(BadInput, match="one model"):
        run.table("challenge", models=["other"])
