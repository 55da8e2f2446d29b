"""Sessions that start from a mask, next to those from nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import segmeter
from segmeter.analysis.start_section import start_sections
from segmeter.core import catalogue
from segmeter.core.benchmarks import Group
from segmeter.core.errors import BadInput, NotFound, NoWeights
from segmeter.core.lockstep import SimulatedSession, Start, simulate
from segmeter.core.masks import Mask
from segmeter.core.models import Request
from segmeter.core.prompts import Click, MaskHint
from segmeter.core.scenes import Target
from segmeter.measures.objects import iou
from segmeter.models.conformance import drawn_scene
from segmeter.stats.statistics import Statistic
from segmeter.users.starts import made_near, paired


def test_objects_and_masks_are_paired_one_to_one_within_classes() -> None:
    shape = (20, 20)
    left, right = Mask.box(shape, (2, 2), (12, 8)), Mask.box(shape, (2, 10), (12, 16))
    both = Mask.box(shape, (2, 2), (12, 16))
    targets = [Target("1", left, label="cat"), Target("2", right, label="dog")]
    assert paired(targets, [both, right]) == [both, right]
    assert paired(targets, [right]) == [Mask.empty(shape), right]
    assert paired(targets, [left, right], ["dog", "dog"]) == [Mask.empty(shape), right]
    assert paired(targets, []) == [Mask.empty(shape)] * 2


def test_a_session_starts_from_its_mask_and_the_user_sees_it() -> None:
    scene = drawn_scene()
    target, user = scene.targets[0], catalogue.users.make("centre-click")
    half = target.mask & Mask.box(scene.shape, (0, 0), (scene.shape[0], 60))
    encoded = catalogue.models.make("disc").encode(scene)
    sessions = [
        SimulatedSession(target, user, "corrected", start=start)
        for start in (None, Start(half, "mine"), Start(Mask.empty(scene.shape), "mine"))
    ]
    nothing, started, unpaired = simulate(scene, encoded, sessions, 2, lambda target, mask: {})
    assert started.simulated.name == "centre-click from mine"
    (click,) = started.rounds[0].prompts
    assert isinstance(click, Click)
    assert target.mask[click.point]
    assert not half[click.point]
    assert (half - started.rounds[0].mask).area == 0  # the disc is drawn on the mask
    assert [r.mask for r in unpaired.rounds] == [r.mask for r in nothing.rounds]


@pytest.fixture
def started(tmp_path: Path) -> segmeter.Run:
    """A run on `mini` from masks: perfect, shifted by two pixels, and none."""
    import cv2

    folder = tmp_path / "network"
    folder.mkdir()
    data = segmeter.load_dataset("mini")
    for number, name in enumerate(data.scenes()[:3]):
        labels = np.zeros(data[name].shape, np.uint8)
        for place, target in enumerate(data[name].targets, 1):
            labels[np.roll(target.mask.dense(), 2 * number, axis=1)] = place
        if number < 2:
            cv2.imwrite(str(folder / f"{name}.png"), labels)
    return segmeter.evaluate(
        "disc", "mini", benchmark="noc", rounds=3, protocols="corrected", limit=3,
        options={"start": str(folder)}, out=tmp_path / "run",
    )  # fmt: skip


def test_a_mask_that_reaches_the_goal_needs_no_click(started: segmeter.Run) -> None:
    rows = {(r.user, r.statistic): r for r in started.summary() if r.statistic.startswith("noc@90")}
    masked, nothing = rows["centre-click from network", "noc@90"], rows["centre-click", "noc@90"]
    curves = started.sql(
        'select scene, target, min(start_mask_iou) as start, list(iou order by "round") as iou '
        "from rows where \"user\" like '% from %' group by all"
    ).to_pylist()
    clicks = [
        0 if c["start"] >= 0.9 else next((k for k, u in enumerate(c["iou"], 1) if u >= 0.9), 3)
        for c in curves
    ]
    assert 0 in clicks
    assert masked.value == pytest.approx(np.mean(clicks))
    assert masked.value < nothing.value
    assert masked.targets == nothing.targets


def test_the_report_compares_starts_and_counts_objects_without_a_mask(
    started: segmeter.Run,
) -> None:
    page = Path(started.report()).read_text()
    assert "Correct existing masks" in page
    assert "without a mask" in page
    gone = started.sql(
        "select count(distinct (scene, target)) as n from rows where start_mask_iou = 0"
    ).to_pylist()
    assert gone[0]["n"] >= 1


def test_a_method_gives_the_masks_to_start_from(tmp_path: Path) -> None:
    run = segmeter.evaluate(
        "disc", "mini", benchmark="noc", rounds=1, protocols="corrected", limit=1,
        options={"start": "felzenszwalb"}, out=tmp_path / "run",
    )  # fmt: skip
    users = run.sql('select distinct "user" from rows order by all').to_pylist()
    assert [row["user"] for row in users] == ["centre-click", "centre-click from felzenszwalb"]


def test_a_model_without_a_mask_prompt_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'random-walker' takes no mask to start from"):
        segmeter.evaluate(
            "random-walker", "mini", benchmark="noc", limit=1,
            options={"start": "felzenszwalb"}, out=tmp_path / "run",
        )  # fmt: skip
    with pytest.raises(NotFound, match="not a folder, results file, method or model"):
        segmeter.evaluate(
            "disc", "mini", benchmark="noc", limit=1, options={"start": "nnunet"},
            out=tmp_path / "run",
        )  # fmt: skip


def test_a_user_called_from_is_distinct_from_a_start(started: segmeter.Run) -> None:
    users = started.sql('select distinct "user", start_from from rows order by all').to_pylist()
    told = [(row["user"], row["start_from"]) for row in users]
    assert told == [("centre-click", None), ("centre-click from network", "network")]
    group = Group("m", "d", "clicks from a log", "corrected", (("s", "t"),), ("s",))
    mask = replace(group, user="clicks from a log from network")
    size = Statistic("n", "n", values=lambda g: np.ones(1))
    groups = [(group, None), (mask, np.array([0.5]))]
    (section,) = start_sections(started, groups, [size], 0.9)
    assert section.blocks[0].rows[0][2] == "network"  # type: ignore[union-attr]


def test_weights_are_searched_next_to_those_of_the_model() -> None:
    made = []

    class Shelf:
        def make(self, source: str, **options: str) -> str:
            made.append(options)
            if not options:
                raise NoWeights("the sentence does not matter")
            return source

    assert made_near(Shelf(), "yolo", "folder") == "yolo"  # type: ignore[arg-type]
    assert made == [{}, {"weights": "folder"}]
    with pytest.raises(NoWeights):
        made_near(Shelf(), "yolo", None)  # type: ignore[arg-type]


def test_volumes_start_from_a_folder_of_label_maps(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    data = segmeter.load_dataset("mini-volumes")
    scene = data[data.scenes()[0]]
    labels = np.zeros(scene.shape, np.int16)
    for place, target in enumerate(scene.targets, 1):
        labels[np.roll(target.mask.dense(), 1, axis=2)] = place
    (tmp_path / "nnunet").mkdir()
    affine = np.diag([*reversed(scene.header.spacing_mm), 1.0])
    image = nibabel.Nifti1Image(labels.transpose(2, 1, 0), affine)
    nibabel.save(image, tmp_path / "nnunet" / f"{scene.id}.nii.gz")
    run = segmeter.evaluate(
        "disc", "mini-volumes", benchmark="volumes", users=["volume-centre-click"], rounds=2,
        protocols="corrected", limit=1, options={"start": str(tmp_path / "nnunet")},
        out=tmp_path / "run",
    )  # fmt: skip
    found = {r.user: r.value for r in run.summary() if r.statistic == "dice"}
    assert found["volume-centre-click from nnunet"] > found["volume-centre-click"]
    assert "Correct existing masks" in Path(run.report()).read_text()


@pytest.mark.usefixtures("encoded_once")
@pytest.mark.parametrize(("name", "step"), [("mobile-sam", 1), ("eiseg-hrnet18-ocr64", 2)])
def test_networks_take_a_mask_to_start_from(name: str, step: int, real_weights: Path) -> None:
    """On every pixel, or on every other: the click network sees images at their own size."""
    data = segmeter.load_dataset("mini")
    whole = data[data.scenes()[0]]
    target = Target("1", Mask.of(whole.targets[0].mask.dense()[::step, ::step]))
    scene = segmeter.Image("mini", whole.id, whole.pixels[::step, ::step].copy(), [target])
    model = catalogue.models.make(name, weights=str(real_weights), device="cpu")
    encoded = model.encode(scene)
    click = Click(tuple(int(c) for c in np.argwhere(target.mask.dense())[target.mask.area // 2]))
    masked, plain = encoded.predict([Request((MaskHint(target.mask), click)), Request((click,))])
    with_mask, without = (iou(target.mask, p.mask()) for p in (masked, plain))
    assert with_mask > 0.5
    assert masked.mask() != plain.mask()
    assert with_mask >= without - 0.05


def test_order_and_place_of_clicks_do_not_matter_to_an_oracle(tmp_path: Path) -> None:
    run = segmeter.evaluate(
        ["synthetic-oracle", "disc"], "mini", benchmark="noc", rounds=3,
        protocols="corrected", limit=3, options={"consistency": True}, out=tmp_path / "run",
    )  # fmt: skip
    found = {(r.model, r.statistic): r.value for r in run.summary()}
    assert 0 < found["disc", "order"] < 1  # later discs cover earlier ones
    assert 0 < found["disc", "jitter"] < 1
    assert found["synthetic-oracle", "jitter"] == pytest.approx(1.0)
    assert found["synthetic-oracle", "jitter-spread"] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("benchmark", "data", "user"),
    [("points", "mini", None), ("tetris", "mini", "centre-click"),
     ("volumes", "mini-volumes", "volume-centre-click")],
)  # fmt: skip
def test_every_benchmark_with_rounds_measures_the_order_of_clicks(
    benchmark: str, data: str, user: str | None, tmp_path: Path
) -> None:
    run = segmeter.evaluate(
        "disc", data, benchmark=benchmark, users=[user] if user else (), rounds=3, limit=1,
        protocols="corrected", options={"consistency": True}, out=tmp_path / "run",
    )  # fmt: skip
    found = {r.statistic: r.value for r in run.summary()}
    assert 0 < found["order"] <= 1
    assert {"obeyed", "kept", "hurt", "rice"} <= set(found)


def test_correcting_by_hand_is_in_the_headline(tmp_path: Path) -> None:
    run = segmeter.evaluate(
        "disc?radius=9", "mini", benchmark="noc", rounds=3, protocols="corrected", limit=2,
        out=tmp_path / "run",
    )  # fmt: skip
    cheap = {r.statistic: r.value for r in run.summary()}
    assert cheap["seconds-to-90"] < cheap["seconds-by-clicks-to-90"]
    assert 1 <= cheap["clicks-before-touch-up-to-90"] <= 3
    (tmp_path / "cost.toml").write_text("touch_up = inf\n")
    never = segmeter.open_run(tmp_path / "run", cost=tmp_path / "cost.toml").summary()
    dear = {r.statistic: r.value for r in never}
    assert dear["seconds-to-90"] == dear["seconds-by-clicks-to-90"]


def test_starts_follow_masks_and_data_that_change_within_a_process(tmp_path: Path) -> None:
    import json

    masks = [np.zeros((32, 32), np.uint8) for _ in range(2)]
    masks[0][2:10, 2:10] = masks[1][14:30, 14:30] = 1
    file = tmp_path / "000" / "000.json"
    file.parent.mkdir()

    def started(data: int, start: int) -> float:
        file.write_text(json.dumps(Mask.of(masks[start]).to_coco()))
        image = np.full((32, 32, 3), 9, np.uint8)
        run = segmeter.evaluate(
            "synthetic-oracle", segmeter.Dataset.from_arrays([image], [masks[data]]), rounds=1,
            protocols="corrected", options={"start": str(file.parent)},
            out=tmp_path / f"run{data}{start}",
        )  # fmt: skip
        query = "select start_mask_iou as iou from rows where start_from is not null"
        return float(run.sql(query)["iou"][0].as_py())

    assert [started(*pair) for pair in ((0, 0), (0, 1), (1, 1))] == [1.0, 0.0, 1.0]
