"""Training the clickability network: it learns, resumes to the same weights, and refuses."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

torch = pytest.importorskip("torch")

from segmeter.clickability._segnext import SIZES, Clickability  # noqa: E402
from segmeter.clickability.map_sources import (  # noqa: E402
    scores_by_key,
    source,
)
from segmeter.clickability.network import (  # noqa: E402
    Letterbox,
    load,
    network_source,
)
from segmeter.clickability.training.samples import (  # noqa: E402
    TrainingSample,
    TrainingSamples,
    framed,
    samples_of,
    split,
    varied,
)
from segmeter.clickability.training.training_loop import (  # noqa: E402
    RECIPES,
    Course,
    Step,
    divergence,
    likeness,
    load_backbone,
    recipe,
    train,
)
from segmeter.core import catalogue  # noqa: E402
from segmeter.core.errors import BadInput, BadWeights, NotFound, RunConflict  # noqa: E402
from segmeter.datasets.recorded_clicks import Clicks, Key  # noqa: E402

Array = npt.NDArray[Any]
QUICK = replace(RECIPES["corrected"], epochs=2, batch=4, rate=0.004)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def _sample(number: int, bright: bool = True) -> TrainingSample:
    """A box on a dark image, clicked on its brighter half."""
    rng = np.random.default_rng(number)
    image = rng.integers(0, 60, (60, 80, 3)).astype(np.uint8)
    target = np.zeros((60, 80), dtype=bool)
    y, x = int(rng.integers(5, 25)), int(rng.integers(5, 35))
    target[y : y + 30, x : x + 40] = True
    left = bool(rng.random() < 0.5)
    start = x if left else x + 20
    image[y : y + 30, start : start + 20] += 150
    points = np.stack([rng.integers(y + 8, y + 22, 12), rng.integers(start, start + 20, 12)], 1)
    sizes = np.tile([60, 80], (12, 1))
    return TrainingSample(
        f"drawn/{number}/first",
        f"drawn/{number}",
        points,
        sizes,
        lambda: (image, target, target.astype(np.float32)),
    )


def _course(**changes: Any) -> Course:
    return replace(Course(QUICK, "tiny", 64, seed=3), **changes)


def _weights(path: Path) -> dict[str, Any]:
    return dict(load(path).state_dict())


def test_an_interrupted_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    parts = [_sample(i) for i in range(4)], [_sample(9)]
    course = _course(recipe=replace(QUICK, batch=2))
    whole = train(*parts, course, tmp_path / "whole")

    def cut(step: Step) -> None:
        if step.step == 3:  # in the middle of the second epoch
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(*parts, course, tmp_path / "cut", cut)
    seen: list[int] = []
    again = train(*parts, course, tmp_path / "cut", lambda step: seen.append(step.step))
    assert seen == [4]
    resumed = _weights(again)
    for name, value in _weights(whole).items():
        assert torch.equal(value, resumed[name]), name
    assert (tmp_path / "cut/history.csv").read_text() == (
        tmp_path / "whole/history.csv"
    ).read_text()


def test_the_progress_after_an_epoch_equals_the_history(tmp_path: Path) -> None:
    told: list[Step] = []
    train([_sample(i) for i in range(8)], [_sample(9)], _course(), tmp_path, told.append)
    an_epoch = len(told) // QUICK.epochs
    assert an_epoch > 1
    with (tmp_path / "history.csv").open(newline="") as file:
        history = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    ends = [step for step in told if step.mean_loss is not None]
    assert [(s.step, s.mean_loss, s.likeness) for s in ends] == [
        (row["step"], row["mean_loss"], row["likeness"]) for row in history
    ]
    losses = np.array([step.loss for step in told]).reshape(-1, an_epoch)
    assert losses.mean(axis=1) == pytest.approx([row["mean_loss"] for row in history])


def test_workers_change_nothing(tmp_path: Path) -> None:
    parts = [_sample(i) for i in range(4)], [_sample(9)]
    one = replace(QUICK, epochs=1)
    alone = train(*parts, _course(recipe=one), tmp_path / "alone")
    helped = train(*parts, _course(recipe=one, workers=1), tmp_path / "helped")
    found = _weights(helped)
    assert all(torch.equal(v, found[k]) for k, v in _weights(alone).items())


@pytest.mark.parametrize("name", ["published", "corrected"])
def test_a_step_moves_the_network_unless_the_rate_is_zero(name: str, tmp_path: Path) -> None:
    """The published schedule starts with two steps at rate zero."""
    training_samples = [_sample(i) for i in range(2)]
    course = _course(recipe=replace(RECIPES[name], epochs=40, batch=2))
    torch.manual_seed(0)
    seen: list[float] = []

    def stop(step: Step) -> None:
        state = tmp_path / "out/state.pt"
        seen.append(float(torch.load(state, weights_only=True)["network"][_SCALE]))
        if step.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(training_samples, training_samples[:1], course, tmp_path / "out", stop)
    assert (seen[0] == seen[1] == pytest.approx(0.05)) is (name == "published")
    assert seen[2] != seen[1]


_SCALE = "maps_transform.5.scale"


def test_other_settings_do_not_resume(tmp_path: Path) -> None:
    parts = [_sample(i) for i in range(4)], [_sample(9)]
    one = replace(QUICK, epochs=1)
    train(*parts, _course(recipe=one), tmp_path)
    with pytest.raises(RunConflict, match="other settings"):
        train(*parts, _course(recipe=one, seed=4), tmp_path)
    with pytest.raises(RunConflict, match="other settings"):
        train(parts[0][:3], parts[1], _course(recipe=one), tmp_path)
    with pytest.raises(RunConflict, match="other settings, images or clicks"):
        train(*parts, _course(recipe=one, data="another file of clicks"), tmp_path)


def test_weights_that_were_there_before_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "clickability.safetensors").write_bytes(b"downloaded")
    with pytest.raises(RunConflict, match="holds the weights of a network; choose another --out"):
        train([_sample(0)], [_sample(9)], _course(), tmp_path)
    assert (tmp_path / "clickability.safetensors").read_bytes() == b"downloaded"


def test_a_network_learns_more_than_the_prior(tmp_path: Path) -> None:
    training_samples = [_sample(i) for i in range(40)]
    longer = replace(QUICK, epochs=6, batch=8, rate=0.01)
    path = train(training_samples[:32], training_samples[32:34], _course(recipe=longer), tmp_path)
    maps = [source(name).inner for name in ("uniform", "distance", "prior")]
    *baselines, ours = (
        np.mean([scores.pde for _, scores in scores_by_key(training_samples[34:], each, rows=2)])
        for each in (*maps, network_source(path))
    )
    assert ours > max(baselines)


def test_the_losses_are_those_of_the_definitions() -> None:
    rng = np.random.default_rng(1)
    planes = torch.from_numpy(rng.random((2, 7, 8, 8), dtype=np.float32))
    made = torch.from_numpy(rng.random((2, 1, 8, 8), dtype=np.float32))
    for name in ("published", "corrected"):
        cut = planes[:, 5].numpy() if name == "corrected" else 1.0
        p, t = made[:, 0].numpy() * cut, planes[:, 6].numpy()
        p, t = (m / m.sum(axis=(1, 2), keepdims=True) for m in (p, t))
        expected = (t * np.log(t / p)).sum(axis=(1, 2)).mean()
        assert float(divergence(made, planes, RECIPES[name])) == pytest.approx(expected, rel=1e-4)
        shared = np.minimum(p, t).sum(axis=(1, 2))
        assert likeness(made, planes, RECIPES[name]).numpy() == pytest.approx(shared, rel=1e-4)


def test_area_shrinking_keeps_what_bilinear_loses() -> None:
    """Single-pixel peaks of a large image fall between the samples of a small frame."""
    dots = np.zeros((640, 640), dtype=np.float32)
    dots[np.random.default_rng(0).integers(0, 640, (2, 60)).tolist()] = 1
    box = Letterbox((640, 640), 64)
    assert box.put(dots, smooth=True).sum() == pytest.approx(dots.sum() / 100, rel=0.01)
    assert abs(box.put(dots).sum() / (dots.sum() / 100) - 1) > 0.1


def test_variation_keeps_the_mistake_in_the_frame_and_the_goal_on_it() -> None:
    box, planes = framed(_sample(2), "corrected", 96)
    for seed in range(20):
        out = varied(planes, box, np.random.default_rng(seed))
        assert out.shape == planes.shape
        mass, inside = out[6].sum(), out[6][out[4] > 0.02].sum()
        assert inside > 0.8 * mass
        touched = out[4][0].max(), out[4][-1].max(), out[4][:, 0].max(), out[4][:, -1].max()
        assert max(touched) < 0.6
    mirrored = [varied(planes, box, np.random.default_rng(s), "published") for s in range(8)]
    kinds = [np.array_equal(m, planes) for m in mirrored]
    assert 0 < sum(kinds) < 8
    assert all(
        same or np.array_equal(m[..., ::-1], planes)
        for same, m in zip(kinds, mirrored, strict=True)
    )


def test_a_training_pass_does_not_depend_on_earlier_requests() -> None:
    training_samples = [_sample(1), _sample(2)]
    a, b = (
        TrainingSamples(training_samples, "corrected", 64),
        TrainingSamples(training_samples, "corrected", 64),
    )
    first = a[(3, 1)]
    _ = b[(0, 0)], b[(2, 1)]
    assert np.array_equal(first, b[(3, 1)])
    assert not np.array_equal(first, a[(4, 1)])


def test_validation_images_are_held_out_whole() -> None:
    training_samples = [replace(_sample(i), image=f"drawn/{i % 10}") for i in range(30)]
    learn, choose = split(training_samples, 5)
    assert {x.image for x in learn}.isdisjoint({x.image for x in choose})
    assert len(choose) == 3
    with pytest.raises(BadInput, match="one image is too few"):
        split(training_samples[:1], 5)


def _clicks(keys: Sequence[Key]) -> Clicks:
    count = len(keys)
    return Clicks(
        tuple(keys),
        np.arange(count),
        np.tile([100, 120], (count, 1)),
        np.tile([512, 512], (count, 1)),
        np.zeros(count, dtype=bool),
    )


def test_lessons_of_later_rounds_show_the_mistake_of_the_mask_before(tmp_path: Path) -> None:
    import cv2

    data = catalogue.datasets.make("mini")
    scene = data.load(data.scenes()[0])
    target = scene.targets[0]
    keys = [
        Key("mini", f"{scene.id}_ritm_{kind}", scene.id, target.id, kind)  # type: ignore[arg-type]  # of the three
        for kind in ("fn", "fp")
    ]
    before = np.zeros(scene.shape, dtype=np.uint8)
    before[:, : scene.shape[1] // 2] = 255
    for key in keys:
        cv2.imwrite(str(tmp_path / f"{key.full_stem}.png"), before)
    false_negatives, false_positives = (
        sample.show() for sample in samples_of(_clicks(keys), {"mini": data}, tmp_path)
    )
    object, seen = target.mask.dense(), before > 0
    assert np.array_equal(false_negatives[2] > 0, object & ~seen)
    assert np.array_equal(false_positives[2] > 0, ~object & seen)
    with pytest.raises(BadInput, match="no clicks on the given datasets"):
        samples_of(_clicks(keys), {"mini": data})


def test_clicks_on_unknown_images_and_objects_are_refused() -> None:
    data = catalogue.datasets.make("mini")
    with pytest.raises(NotFound, match="image 'nowhere'"):
        samples_of(_clicks([Key("mini", "nowhere", "nowhere", "", "first")]), {"mini": data})
    key = Key("mini", "x", data.scenes()[0], "no such thing", "first")
    (sample,) = samples_of(_clicks([key]), {"mini": data})
    with pytest.raises(NotFound, match="no object"):
        sample.show()


def test_a_backbone_of_either_naming_is_taken_and_others_are_refused(tmp_path: Path) -> None:
    given, empty = Clickability(SIZES["tiny"]), Clickability(SIZES["tiny"])
    state = given.encoder_decoder.backbone.state_dict()
    old = {f"backbone.{k.replace('.dwconv.', '.dwconv.dwconv.')}": v for k, v in state.items()}
    torch.save({"state_dict": {**old, "head.weight": torch.zeros(2)}}, tmp_path / "old.pth")
    load_backbone(empty, tmp_path / "old.pth")
    found = empty.encoder_decoder.backbone.state_dict()
    assert all(torch.equal(v, found[k]) for k, v in state.items())
    with pytest.raises(BadWeights, match="choose the network size"):
        load_backbone(Clickability(SIZES["small"]), tmp_path / "old.pth")
    torch.save({"other": torch.zeros(2)}, tmp_path / "other.pth")
    with pytest.raises(BadWeights, match="lacks"):
        load_backbone(empty, tmp_path / "other.pth")


def test_only_a_given_backbone_learns_slower(tmp_path: Path) -> None:
    from segmeter.clickability.training.training_loop import _begin

    torch.save(Clickability(SIZES["tiny"]).state_dict(), tmp_path / "whole.pth")
    shares = [
        [group["share"] for group in _begin(_course(backbone=given)).optimiser.param_groups]
        for given in (None, tmp_path / "whole.pth")
    ]
    assert shares == [[1.0, 1.0], [0.1, 1.0]]


def test_wrong_choices_are_named() -> None:
    with pytest.raises(BadInput, match="did you mean 'corrected'"):
        recipe("correctd")
    with pytest.raises(BadInput, match="no network size"):
        _course(size="huge")
    with pytest.raises(BadInput, match="multiple of 32"):
        _course(frame=100)
