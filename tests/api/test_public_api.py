"""What `import segmeter` offers: every name documented, and what each returns."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import segmeter
from segmeter.core.errors import BadInput, NotFound

Typed = Callable[..., tuple[int, str, str]]
PUBLIC = [name for name in segmeter.__all__ if name != "__version__"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> segmeter.Run:
    out = tmp_path_factory.mktemp("api") / "run"
    return segmeter.evaluate(
        ["synthetic-oracle", "disc?radius=30"], "mini", out=out, rounds=3, limit=3
    )


def test_importing_segmeter_loads_nothing_heavy() -> None:
    script = "import sys, segmeter; print([m for m in sys.modules if m in ('numpy', 'typer')])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented(name: str) -> None:
    thing = getattr(segmeter, name)
    documented = inspect.getdoc(thing) or ""
    assert documented
    assert dir(segmeter) == sorted(segmeter.__all__)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_shows_an_example_and_is_in_the_reference(name: str) -> None:
    """Examples run as doctests with all others."""
    thing = getattr(segmeter, name)
    assert ">>>" in (inspect.getdoc(thing) or "")
    page = (Path(__file__).parents[2] / "docs/reference/api.md").read_text()
    assert re.search(rf"::: segmeter\.[\w.]*\b{name}\b|members:[^:]*\b{name}\b", page)


def test_a_data_set_is_a_sequence_of_scenes() -> None:
    mini = segmeter.load_dataset("mini")
    assert len(list(mini)) == len(mini) == 11
    assert mini["coffee"].id == mini[mini.names.index("coffee")].id
    assert [scene.id for scene in mini[:2]] == mini.names[:2]
    assert repr(mini) == "<dataset mini: 11 scenes>"
    with pytest.raises(NotFound, match="did you mean 'coffee'"):
        mini["cofee"]


def test_arrays_become_a_data_set_that_can_be_evaluated(tmp_path: Path) -> None:
    images = [np.full((40, 50, 3), 30, np.uint8), np.full((40, 50), 30, np.uint8)]
    labels = np.zeros((40, 50), int)
    labels[5:15, 5:15], labels[20:30, 20:40] = 1, 7
    own = segmeter.Dataset.from_arrays(images, [labels > 0, labels], names=["one", "two"])
    assert [target.id for target in own["two"].targets] == ["1", "7"]
    assert [target.mask.area for target in own["one"].targets] == [300]
    made = segmeter.evaluate("synthetic-oracle", own, out=tmp_path / "run", rounds=1)
    assert {row["target"] for row in made.rows()} == {"object", "1", "7"}
    other = segmeter.Dataset.from_arrays(images, [labels > 3, labels], names=["one", "two"])
    assert other.fingerprint() != own.fingerprint()
    with pytest.raises(BadInput, match="2 images have 1 masks"):
        segmeter.Dataset.from_arrays(images, [labels])


def test_the_next_click_is_that_of_the_benchmark() -> None:
    from segmeter.core import catalogue

    rng = np.random.default_rng(3)
    scene = segmeter.load_dataset("mini")[0]
    truth = scene.targets[0].mask.dense()
    shown = np.roll(truth, 9, axis=1) ^ (rng.random(truth.shape) < 0.001)
    user = catalogue.users.make("centre-click")
    clicks: list[segmeter.Click] = []
    for _ in range(4):
        seen = segmeter.Observation(
            scene, segmeter.Target("x", segmeter.Mask.of(truth)), segmeter.Mask.of(shown),
            tuple(clicks), "corrected", None,  # type: ignore[arg-type]  # not used by this user
        )  # fmt: skip
        click = segmeter.next_click(truth, shown, clicks)
        assert click == user.next(seen, rng)
        assert click is not None
        clicks.append(click)
    pairs = [(click.point, click.positive) for click in clicks]
    assert segmeter.next_click(truth, shown, pairs) == segmeter.next_click(truth, shown, clicks)
    assert segmeter.next_click(truth, truth) is None


def test_probabilities_are_no_masks_for_the_next_click() -> None:
    truth = np.eye(8, dtype=bool)
    for prediction in (np.full((8, 8), 0.2), np.full((8, 8), np.nan)):
        with pytest.raises(BadInput, match="compare it with a threshold first"):
            segmeter.next_click(truth, prediction)
        with pytest.raises(BadInput, match="compare it with a threshold first"):
            segmeter.simulate("disc", np.zeros((8, 8, 3), np.uint8), prediction)


def test_a_predictor_gives_what_a_session_gives() -> None:
    scene = segmeter.load_dataset("mini")[0]
    predictor = segmeter.Predictor("disc?radius=30")
    with pytest.raises(BadInput, match="call set_image"):
        predictor.predict(clicks=[(1, 2)])
    predictor.set_image(scene.pixels)
    first = predictor.predict(clicks=[(200, 250)])
    both = predictor.predict(clicks=[(300, 100), ((200, 250), False)])
    model = segmeter.load_model("disc?radius=30")
    session = segmeter.Session(scene, model.encode(scene))
    assert np.array_equal(first, session.step(segmeter.Click((200, 250))).mask.dense())
    given = [segmeter.Click((300, 100)), segmeter.Click((200, 250), False)]
    assert np.array_equal(both, session.step(given).mask.dense())
    predictor.reset()
    assert np.array_equal(predictor.predict(clicks=[(200, 250)]), first)
    box = predictor.predict(box=(100, 100, 200, 220))
    assert box.any()
    with pytest.raises(BadInput, match="a box is 4 numbers"):
        predictor.predict(box=(1, 2, 3))


SQUARE = np.zeros((20, 20), bool)
SQUARE[4:12, 5:14] = True


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda run: segmeter.next_click(1.5), "a mask must be an array of the size of its image"),
        (lambda run: segmeter.next_click(SQUARE, clicks="x"), "clicks are points such as"),
        (lambda run: segmeter.next_click(SQUARE, clicks=[(np.nan, 1)]), "clicks are points such"),
        (lambda run: predicted(clicks=[3]), r"clicks are points such as .*, not \[3\]"),
        (lambda run: predicted(box="left"), "a box is .*, not 'left'"),
        (lambda run: predicted(scribble=[]), "a scribble without points was given"),
        (lambda run: predicted(scribble="x"), "a scribble is a list of points"),
        (lambda run: simulated(protocol="publishd"), "no protocol 'publishd'; did you mean"),
        (lambda run: simulated(measures="uio"), "no measure 'uio'"),
        (lambda run: evaluated(failures="kep"), "no failures 'kep'; did you mean 'keep'"),
        (lambda run: evaluated(rounds="3"), "rounds is a whole number from 1, not '3'"),
        (lambda run: evaluated(seed=0.5), "seed is a whole number, not 0.5"),
        (lambda run: evaluated(benchmark=None), "a benchmark must be given as text, not None"),
        (lambda run: in_volume((0, 1, 1)), "spacing is 3 positive numbers of millimetres"),
        (lambda run: in_volume("x"), "spacing is 3 positive numbers of millimetres, not x"),
        (lambda run: run.sessions(goal=90), "the goal of sessions is an IoU from 0 to 1, not 90"),
        (
            lambda run: run.cost(float("nan")),
            "--objects must be a whole number of at least 1, not nan",
        ),
        (lambda run: run.cost(10, "15"), "--hourly-rate must be an amount per hour, not '15'"),
        (lambda run: run.gate("iou@1 wrose"), "--fail-if 'iou@1 wrose' is not understood"),
        (lambda run: run.figure("f.png", "x"), "the run has no measure 'x'"),
        (lambda run: list(run.masks("lats")), "last, best, all or a number from 1, not 'lats'"),
        (lambda run: run.export("masks", rounds=0), "last, best, all or a number from 1, not '0'"),
        (lambda run: run.table(columns="noc@9"), "the run has no statistic .noc@9."),
    ],
)
def test_arguments_of_a_wrong_type_or_value_are_refused_in_a_sentence(
    call: Callable[[segmeter.Run], Any], sentence: str, run: segmeter.Run
) -> None:
    with pytest.raises(segmeter.SegmeterError, match=sentence):
        call(run)


def predicted(**prompts: Any) -> Any:
    predictor = segmeter.Predictor("disc")
    predictor.set_image(np.zeros((20, 20, 3), np.uint8))
    return predictor.predict(**prompts)


def simulated(**settings: Any) -> Any:
    return segmeter.simulate("disc", np.zeros((20, 20, 3), np.uint8), SQUARE, **settings)


def evaluated(**settings: Any) -> Any:
    return segmeter.evaluate("disc", "mini", limit=1, **settings)


def in_volume(spacing: Any) -> None:
    segmeter.Predictor("disc").set_volume(np.zeros((3, 4, 5)), spacing)


def test_arrays_with_another_spacing_are_other_data() -> None:
    given = [np.zeros((4, 6, 6))], [np.ones((4, 6, 6), bool)]
    made = [segmeter.Dataset.from_arrays(*given, spacing_mm=(z, 1, 1)) for z in (1, 5)]
    assert made[0].fingerprint() != made[1].fingerprint()


def test_a_predictor_takes_volumes() -> None:
    volume, spacing = np.zeros((6, 20, 20), np.float32), (3.0, 1.0, 1.0)
    predictor = segmeter.Predictor("disc?radius=4")
    predictor.set_volume(volume, spacing)
    assert predictor.predict(clicks=[(3, 10, 10)]).shape == volume.shape


def test_a_simulation_is_the_session_of_the_benchmark(run: segmeter.Run) -> None:
    scene = segmeter.load_dataset("mini")[0]
    target = scene.targets[0]
    rounds = segmeter.simulate("disc?radius=30", scene.pixels, target.mask.dense(), rounds=3)
    rows = [
        row for row in run.rows()
        if row["model"] == "disc?radius=30" and row["scene"] == scene.id
        and row["target"] == target.id and row["protocol"] == "corrected"
    ]  # fmt: skip
    assert [r.scores["iou"] for r in rounds] == pytest.approx([row["iou"] for row in rows])


def test_a_dataset_takes_numpys_numbers_and_models_may_be_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = segmeter.load_dataset("mini")
    assert data[np.int64(1)].id == data[1].id
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text("def dark(image, clicks):\n    return image[..., 0] < 99\n")
    model = Path("own.py:dark")
    assert segmeter.load_model(model).card.name == "dark"
    assert segmeter.check(model).kind == "model"
    run = segmeter.evaluate(model, "mini", out="r", limit=1, rounds=1)
    assert [str(spec) for spec in run.plan.segmenters] == ["own.py:dark"]


def test_a_run_gives_masks_tables_figures_and_citations(run: segmeter.Run, tmp_path: Path) -> None:
    masks = list(run.masks())
    assert len(masks) == len(run.sessions())
    row, mask = masks[0]
    assert mask.shape == run.scene(row["dataset"], row["scene"]).shape
    assert run.figure(tmp_path / "iou.png").stat().st_size > 1000
    assert "synthetic-oracle" in run.leaderboard(tmp_path / "board.html").read_text()
    assert "@" in run.cite()
    assert {d.statistic for d in run.compare()}
    assert len(run.export(tmp_path / "masks")) == len(masks)


def test_sessions_of_volumes_have_their_dice(tmp_path: Path) -> None:
    made = segmeter.evaluate(
        "disc", "mini-volumes", benchmark="volumes", out=tmp_path / "run", limit=1, rounds=2
    )
    assert made.sessions()[0]["dice"] >= 0


def test_a_check_is_true_where_nothing_is_wrong(tmp_path: Path) -> None:
    assert segmeter.check("disc")
    assert not segmeter.check(lambda image, clicks: np.zeros((1, 1), bool))
    empty = segmeter.Dataset.from_arrays([np.zeros((9, 9, 3), np.uint8)], [np.zeros((9, 9), bool)])
    found = segmeter.check(empty)
    assert not found
    assert found.findings is not None
    assert found.findings.scenes == 1


def test_a_check_clicks_on_objects_and_finds_exchanged_coordinates() -> None:
    def square(image: Any, y: int, x: int) -> Any:
        mask = np.zeros(image.shape[:2], bool)
        mask[max(0, y - 20) : y + 21, max(0, x - 20) : x + 21] = True
        return mask

    said: list[str] = []
    good = segmeter.check(lambda image, clicks: square(image, *clicks[0][:2]), tell=said.append)
    assert good
    assert "the clicked pixel is in the mask after 11 of 11 first clicks" in good.about[0]
    assert len(said) == 12
    swapped = segmeter.check(lambda image, clicks: square(image, clicks[0][1], clicks[0][0]))
    assert "x and y seem to be exchanged" in swapped.faults[0]


@pytest.mark.parametrize(
    ("share", "fault"),
    [
        (0, "all masks are empty"),
        (1, "all masks are full"),
        (2, "masks do not depend on the click"),
    ],
)
def test_a_check_warns_of_constant_masks(share: int, fault: str) -> None:
    def predict(image: Any, clicks: Any) -> Any:
        mask = np.zeros(image.shape[:2], bool)
        mask[: len(mask) // share if share else 0] = True
        return mask

    found = segmeter.check(predict)
    assert fault in found.faults[0]
    assert len(found.faults) == 1


def test_metrics_take_batches_and_merge() -> None:
    rng = np.random.default_rng(0)
    preds, target = rng.random((2, 5, 1, 16, 16)) > 0.5
    metric, other = segmeter.metrics.Metric("iou"), segmeter.metrics.Metric("iou")
    first = metric(preds[:2], target[:2])
    other.update(preds[2:], target[2:])
    metric.merge_state(other)
    each = [segmeter.measures.iou(t[0], p[0]) for p, t in zip(preds, target, strict=True)]
    assert metric.compute() == pytest.approx(np.mean(each))
    assert first == pytest.approx(np.mean(each[:2]))
    torch = pytest.importorskip("torch")
    tensors = segmeter.metrics.MetricCollection(["iou", "dice"])
    tensors.update(torch.as_tensor(preds), torch.as_tensor(target))
    assert tensors.compute()["iou"] == pytest.approx(np.mean(each))
