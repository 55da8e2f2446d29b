"""Volume prompters as users: whole sessions of fake models give the golden runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Bits, Case, Fake, cases, checksum, dice, fakes, slice_of, stacked

from segmeter.core import catalogue
from segmeter.core.action_counts import Effort
from segmeter.core.capabilities import CountsEffort
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import SimulatedSession, Trajectory, simulate
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, Prediction, Request
from segmeter.core.morphology import squared_depths
from segmeter.core.prompts import Box, Click
from segmeter.core.scenes import Image, SceneHeader, Target, Volume
from segmeter.core.sessions import Round
from segmeter.core.users import Observation, User
from segmeter.users.volumes.initial_prompts import foreground_slices

COUNTS = {"One": 1, "Two": 2, "Three": 3, "Five": 5, "Ten": 10}


def static_users() -> dict[str, str]:
    """The original's classes and the names of our users."""
    found = {
        "CenterPointPrompter": "centre-point-per-slice",
        "PointPropagationPrompter": "point-propagation",
        "BoxPropagationPrompter": "box-propagation",
        "BoxPer2DSlicePrompter": "box-per-slice",
        "BoxPer2dSliceFrom3DBoxPrompter": "boxes-from-3d-box",
        "CentroidPoint3DVolumePrompter": "centroid",
        "Box3DVolumePrompter": "box-3d",
        "ThreeBoxInterpolationPrompter_nonperfect3": "box-interpolation?n=3&shaken=3",
        "ThreeBoxInterpolationPrompter_nonperfect5": "box-interpolation?n=3&shaken=5",
    }
    for word, n in COUNTS.items():
        found |= {
            f"{word}FGPointsPer2DSlicePrompter": f"points-per-slice?n={n}",
            f"Alternating{n}PointsPer2DSlicePrompter": f"alternating-points-per-slice?n={n}",
            f"{word}PointInterpolationPrompter": f"point-interpolation?n={n}",
            f"{word}BoxInterpolationPrompter": f"box-interpolation?n={n}",
            f"{word}Points3DVolumePrompter": f"points-per-volume?n={n}",
            f"{word}PointsFromCenterCropped3DVolumePrompter": f"centre-points-per-volume?n={n}",
        }
    return found


def refined_users() -> dict[str, str]:
    found = {}
    for suffix, earlier in (("NoPrev", "forget"), ("WithPrev", "keep")):
        for name, user in {
            "twoD1PointUnrealisticInteractivePrompter": "point-per-slice-refinement?",
            "OnePointPer2DSliceInteractivePrompter": "scribble-refinement?start=points-per-slice&",
            "PointInterpolationInteractivePrompter": (
                "scribble-refinement?start=point-interpolation&n=5&"
            ),
            "BoxInterpolationInteractivePrompter": "scribble-refinement?start=box-interpolation&",
            "PointPropagationInteractivePrompter": "scribble-refinement?start=point-propagation&",
            "threeDCroppedInteractivePrompter": "point-per-volume-refinement?",
            "threeDCroppedFromCenterInteractivePrompter": (
                "point-per-volume-refinement?start=centre-points-per-volume&"
            ),
            "threeDCroppedFromCenterAnd2dAlgoInteractivePrompter": (
                "scribble-per-volume-refinement?"
            ),
        }.items():
            end = "Box" if name.startswith("BoxI") and earlier == "keep" else "Point"
            found[f"{name}{suffix}{end}"] = f"{user}earlier={earlier}"
    return found


STATIC, REFINED = static_users(), refined_users()


@dataclass
class SliceEncodedScene:
    """A fake model slice by slice; it remembers the mask and its last call's slices."""

    case: Case
    fake: Fake
    slices: int = 0

    def predict(self, requests: Sequence[Request]) -> list[Prediction]:
        return [self._one(request) for request in requests]

    def _one(self, request: Request) -> Prediction:
        before, hints = request.state or (None, {})
        found = self.fake.slices(self.case, request.prompts, hints)
        self.slices += len(found)
        whole = stacked(self.case.target.shape, found, before)
        return MaskPrediction(Mask.of(whole), state=(whole, found))


@dataclass
class WholeEncodedScene:
    """A fake model of the whole; with all prompts it gets no mask back, as in the original."""

    case: Case
    fake: Fake
    forgets: bool

    def predict(self, requests: Sequence[Request]) -> list[Prediction]:
        found = []
        for request in requests:
            hint: Bits | None = request.state if self.forgets else None
            mask = self.fake.volume(self.case, request.prompts, hint)
            found.append(MaskPrediction(Mask.of(mask), state=mask))
        return found


def played(
    case: Case, fake: Fake, user: User, rounds: int, protocol: Any = "published"
) -> Trajectory:
    header = SceneHeader("volume", case.target.shape, (1.5, 1.5, 1.5))
    target = Target("t", case.target)
    scene = Volume("golden", case.name, case.image.astype(np.int16), [target], header=header)
    whole = getattr(user, "whole", False)
    forgets = getattr(user, "forgets_prompts", False)
    encoded = WholeEncodedScene(case, fake, forgets) if whole else SliceEncodedScene(case, fake)
    (record,) = simulate(
        scene, encoded, [SimulatedSession(target, user, protocol)], rounds, lambda *_: {}
    )
    return record


@pytest.fixture(scope="module")
def volumes(golden: Path) -> Path:
    return golden / "volumes"


@pytest.mark.parametrize("case_name", ["blob", "gap", "pair", "multi3"])
def test_sessions_of_static_users_are_the_originals(volumes: Path, case_name: str) -> None:
    case, models = cases(volumes)[case_name], fakes(volumes)
    for key, wanted in json.loads((volumes / "static.json").read_text())[case_name].items():
        name, _, model = key.partition("@")
        record = played(case, models[model or "F1"], catalogue.users.make(STATIC[name]), 2)
        assert checksum(record.rounds[0].mask.dense()) == wanted["crc32"], key
        assert record.rounds[1].stopped


@pytest.mark.parametrize("case_name", ["blob", "gap", "ring", "speck", "multi1"])
def test_sessions_of_refining_users_are_the_originals(volumes: Path, case_name: str) -> None:
    case, models = cases(volumes)[case_name], fakes(volumes)
    for key, wanted in json.loads((volumes / "interactive.json").read_text())[case_name].items():
        name, _, model = key.partition("@")
        record = played(case, models[model or "F1"], catalogue.users.make(REFINED[name]), 6)
        for step, made in zip(wanted["steps"], record.rounds, strict=True):
            assert checksum(made.mask.dense()) == step["crc32"], (key, made.number)
            assert made.stopped == step.get("repeat_of_previous", False)


def csv_rows(volumes: Path) -> dict[str, dict[str, str]]:
    with (volumes / "effort.csv").open() as lines:
        return {row["prompter_class"]: row for row in csv.DictReader(lines)}


def test_nominal_interactions_and_labels_are_the_papers(volumes: Path) -> None:
    rows = csv_rows(volumes)
    assert len(rows) > 40
    for name, row in rows.items():
        user: Any = catalogue.users.make({**STATIC, **REFINED}[name])
        # One row misprints 1X as 1; another prints the box start's six as its label says.
        expected = row["interactions_published"]
        if name.startswith("OnePointPer2DSliceInteractive"):
            assert user.paper_interactions == "1X/3"
        else:
            assert user.paper_interactions == expected, name
        assert user.label.replace(" ", "") == _paper_label(row["paper_label"]), name


def _paper_label(label: str) -> str:
    return label.replace(" ", "").replace("PProp+", "5PProp+")


def test_m25_actual_interactions_follow_the_target(volumes: Path) -> None:
    every, fake = cases(volumes), fakes(volumes)["F1"]
    for name, row in csv_rows(volumes).items():
        if name not in STATIC or name.startswith("Alternating"):
            continue
        for case in (every["blob"], every["multi1"], every["pair"]):
            user: Any = catalogue.users.make(STATIC[name])
            record = played(case, fake, user, 1)
            found = user.effort(record.simulated.target, "published", 1, record.rounds[0].prompts)
            expected = _formula(row["interactions_formula"], found, case)
            # A short target has fewer places than were asked for.
            if case.name == "pair" or name.endswith("FromCenterCropped3DVolumePrompter"):
                assert found.interactions <= expected, name
            else:
                assert found.interactions == expected, (name, case.name)


def _formula(text: str, found: Effort, case: Case) -> int:
    slices = len(foreground_slices(case.target))
    if "distinct seed slices" in text:
        return 2 * found.boxes
    if "seed pixels" in text:
        return found.points + 2
    if text.startswith("min("):
        return min(int(text[4:].split(";")[0]), slices)
    if text == "2+2":
        return 4
    return int(text.removesuffix("*S")) * (slices if text.endswith("*S") else 1)


def test_degrees_of_freedom_are_those_of_the_paper() -> None:
    block = Target("t", Mask.box((20, 20, 20), (4, 4, 4), (12, 12, 12)))
    for name, dof in (
        ("point-interpolation?n=3", 9),
        ("box-3d", 6),
        ("boxes-from-3d-box", 6),
        ("box-propagation", 7),
        ("box-per-slice", 40),
    ):
        user: Any = catalogue.users.make(name)
        work = user.effort(block, "corrected", 1, [Box((5, 4, 4), (5, 11, 11))] * 8)
        assert work.degrees_of_freedom == dof, name


def test_m26_refinement_ends_at_a_dice_or_at_degrees_of_freedom(volumes: Path) -> None:
    case, fake = cases(volumes)["blob"], fakes(volumes)["F1"]
    plain = played(case, fake, catalogue.users.make("scribble-refinement"), 6, "corrected")
    assert not plain.rounds[-1].stopped
    scores = [dice(case.bits, r.mask.dense()) for r in plain.rounds]
    bound = f"scribble-refinement?until_dice={scores[2]:.4f}"
    stopped = played(case, fake, catalogue.users.make(bound), 6, "corrected")
    assert stopped.rounds[-1].stopped
    assert dice(case.bits, stopped.rounds[-1].mask.dense()) >= round(scores[2], 4)
    # 15 slices of 3, then 12 for each scribble: the second one would pass 60.
    few = catalogue.users.make("scribble-refinement?until_dof=57")
    assert [r.stopped for r in played(case, fake, few, 4, "corrected").rounds] == [
        False,
        False,
        True,
        True,
    ]


def test_a_user_of_volumes_states_its_effort() -> None:
    for entry in catalogue.users:
        if "volumes" in entry.source:
            assert isinstance(entry.make(), CountsEffort), entry.name


def test_names_distinguish_options_and_can_be_typed_again() -> None:
    for name in {*STATIC.values(), *REFINED.values()}:
        user = catalogue.users.make(name)
        again = catalogue.users.make(user.name)
        assert again == user, name
    assert len({catalogue.users.make(n).name for n in STATIC.values()}) == len(STATIC)


def test_corrected_sessions_are_the_same_whichever_others_run(volumes: Path) -> None:
    case, fake = cases(volumes)["ring"], fakes(volumes)["F1"]
    user = catalogue.users.make("scribble-refinement?start=point-interpolation&n=5")
    first, second = (played(case, fake, user, 4, "corrected") for _ in range(2))
    assert [r.prompts for r in first.rounds] == [r.prompts for r in second.rounds]


def test_a_stroke_is_one_prompt_on_request(volumes: Path) -> None:
    case, fake = cases(volumes)["blob"], fakes(volumes)["F1"]
    user: Any = catalogue.users.make("scribble-refinement?drawn=stroke")
    assert user.gives == {"scribble"}
    target = Target("t", case.target)
    scene = Volume(
        "golden",
        "blob",
        case.image.astype(np.int16),
        [target],
        header=SceneHeader("volume", case.target.shape, (1.5, 1.5, 1.5)),
    )
    mask = Mask.empty(case.target.shape)
    begun = (Click((11, 22, 19)),)
    made = Round(1, begun, mask, {})
    encoded = SliceEncodedScene(case, fake)
    seen = Observation(scene, target, mask, begun, "corrected", encoded, None, 2, (made,))
    (stroke,) = user.next(seen, np.random.default_rng(0))
    assert [int(z) for z, _, _ in stroke.points] == foreground_slices(case.target)
    assert user.effort(target, "corrected", 2, (stroke,)).interactions == 3


def test_the_centre_click_counts_millimetres_not_slices() -> None:
    # Thick slices: in voxels the flat slab is as deep as the block, in millimetres deeper.
    bits = np.zeros((30, 30, 30), bool)
    bits[2:5, 2:28, 2:16] = True
    bits[10:25, 10:15, 20:25] = True
    target = Target("t", Mask.of(bits))
    clicks = {}
    for spacing in ((1.0, 1.0, 1.0), (6.0, 1.0, 1.0)):
        scene = Volume(
            "drawn",
            "1",
            bits.astype(np.int16),
            [target],
            header=SceneHeader("volume", (30,) * 3, spacing),
        )
        user = catalogue.users.make("volume-centre-click")
        encoded = SliceEncodedScene(
            Case("drawn", target.mask, bits.astype(np.int64)), Fake(1, 1, 0)
        )
        (record,) = simulate(
            scene, encoded, [SimulatedSession(target, user, "corrected")], 1, lambda *_: {}
        )
        (click,) = record.rounds[0].prompts
        assert isinstance(click, Click)
        clicks[spacing] = click.point
    assert clicks[1.0, 1.0, 1.0][0] >= 10
    assert clicks[6.0, 1.0, 1.0][0] == 3


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("points-per-slice?n=0", "1 or more prompts"),
        ("point-interpolation?centre=middle", "no centre .middle.; it is box, mass or edt"),
        ("box-interpolation?shaken=-1", "0 or more pixels"),
        ("scribble-refinement?earlier=maybe", "no earlier .maybe.; it is keep or forget"),
        ("scribble-refinement?start=centre-click", "starts with a prompter of volumes"),
        ("scribble-refinement?drawn=dots", "no drawn .dots."),
        ("centre-points-per-volume?along=y", "no along .y.; it is z or x"),
    ],
)
def test_wrong_options_are_refused_in_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        catalogue.users.make(name)


def test_a_image_is_refused_in_one_sentence() -> None:
    target = Target("t", Mask.box((9, 9), (2, 2), (6, 6)))
    scene = Image("drawn", "1", np.zeros((9, 9, 3), np.uint8), [target])
    for name, sentence in (
        ("volume-centre-click", "need a volume"),
        ("volume-clicking-group", "need a volume"),
        ("box-per-slice", "target of a volume"),
    ):
        simulated = SimulatedSession(target, catalogue.users.make(name), "corrected")
        with pytest.raises(BadInput, match=sentence):
            simulate(scene, SliceEncodedScene, [simulated], 1, lambda *_: {})  # type: ignore[arg-type]


def test_likelier_groups_click_deeper_and_no_click_is_outside_the_error() -> None:
    ground_truth = Mask.box((14, 30, 30), (2, 5, 5), (12, 25, 25))
    target = Target("t", ground_truth)
    header = SceneHeader("volume", (14, 30, 30), (2.0, 1.0, 1.0))
    scene = Volume("drawn", "1", np.zeros((14, 30, 30), np.int16), [target], header=header)
    depth = np.zeros((14, 30, 30))
    depth[ground_truth.window] = squared_depths(ground_truth.bits, (2.0, 1.0, 1.0))
    means = []
    for group in (1, 10):
        user = catalogue.users.make(f"volume-clicking-group?group={group}")
        encoded = SliceEncodedScene(
            Case("drawn", ground_truth, np.zeros((14, 30, 30), np.int64)), Fake(1, 1, 0)
        )
        deep = []
        for seed in range(12):
            simulated = SimulatedSession(target, user, "corrected")
            (record,) = simulate(scene, encoded, [simulated], 1, lambda *_: {}, seed=seed)
            (click,) = record.rounds[0].prompts
            assert isinstance(click, Click)
            assert click.positive
            deep.append(depth[tuple(int(c) for c in click.point)])
        assert min(deep) > 0
        means.append(np.mean(deep))
    assert means[1] > 1.5 * means[0]


def test_propagation_encodes_each_slice_once(volumes: Path) -> None:
    case, fake = cases(volumes)["blob"], fakes(volumes)["F1"]
    record = played(case, fake, catalogue.users.make("point-propagation"), 1, "corrected")
    prompts = record.rounds[0].prompts
    own = foreground_slices(case.target)
    assert sorted({slice_of(p) for p in prompts}) == own
