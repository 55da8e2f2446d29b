"""Training a decoder: rounds with gradients, resuming, validation, and the weights written."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import segmeter
from segmeter.api.training import split_scenes
from segmeter.core.errors import BadInput, RunConflict
from segmeter.core.masks import Mask
from segmeter.core.scenes import Image, Target
from segmeter.core.users import Observation
from segmeter.models.conformance import drawn_scene
from segmeter.models.sam._loading import SamNetwork
from segmeter.models.sam.model import Kind, Sam
from segmeter.training.annotation_rounds import AnnotatedObject, round_losses, schedule
from segmeter.training.decoder_training import DecoderSettings, Progress, encoded_scenes, train
from segmeter.users.box_prompts import TrainingPrompts
from segmeter.users.error_prompts import CentreClick, training_point

SETTINGS = DecoderSettings(
    steps=4, batch=3, rounds=2, repeats=1, rate=1e-3, warmup=1, validate_every=2, most_clicks=2
)


class SmallEncoder(nn.Module):
    """Patches of 16 pixels as cells; its tensor has the name by which MobileSAM is recognised."""

    def __init__(self) -> None:
        super().__init__()
        patch = nn.Module()
        patch.seq = nn.ModuleList([nn.Module()])
        patch.seq[0].c = nn.Conv2d(3, 256, 16, 16)
        self.patch_embed = patch

    def forward(self, pixels: Tensor) -> Tensor:
        made: Tensor = self.patch_embed.seq[0].c(pixels)  # type: ignore[operator,union-attr]
        return made


@pytest.fixture
def small_sam(tmp_path: Path) -> Callable[[], Sam]:
    """A SAM of 128 pixels with random weights in a file; the same one at each call."""
    torch.manual_seed(0)
    network = SamNetwork(SmallEncoder(), side=128)  # type: ignore[arg-type]
    path = tmp_path / "small.safetensors"
    save_file(network.parts.state_dict(), path)

    class Small(Sam):
        def check(self) -> None:
            """The real check compares the file with MobileSAM's shapes."""

    def make() -> Sam:
        made = Small(Kind("mobile-sam", "mobile-sam", "", 0, "small"), str(path), device="cpu")
        fresh = SamNetwork(SmallEncoder(), side=128)  # type: ignore[arg-type]
        fresh.parts.load_state_dict(load_file(path))
        made.__dict__["network"] = fresh
        return made

    return make


def scenes(count: int = 4) -> list[Image]:
    found = []
    for k in range(count):
        pixels = np.full((48, 64, 3), 40, np.uint8)
        pixels[8 : 24 + k, 10:30] = 220
        mask = Mask.box((48, 64), (8, 10), (24 + k, 30))
        found.append(Image("drawn", str(k), pixels, [Target("a", mask)]))
    return found


def decoder_of(model: Sam) -> dict[str, Tensor]:
    return {k: v.clone() for k, v in model.network.decoder.state_dict().items()}


def trained(model: Sam, out: Path, settings: DecoderSettings = SETTINGS, **options: Any) -> Any:
    images = scenes()
    learn, validate = (encoded_scenes(model, p, out / "kept") for p in (images[1:], images[:1]))
    return train(model, CentreClick(), learn, validate, settings, out, **options)


def test_sessions_of_the_paper_have_eleven_iterations_and_nine_prompts() -> None:
    made = [schedule(9, 2, np.random.default_rng(k)) for k in range(4000)]
    assert all(len(one) == 11 and sum(one) == 9 and one[0] and not one[-1] for one in made)
    positions = [one.index(False) for one in made]
    counts = np.bincount(positions, minlength=9)[1:9]
    assert set(positions) == set(range(1, 9))
    assert np.abs(counts / 500 - 1).max() < 0.2
    assert schedule(3, 0, np.random.default_rng(0)) == [True, True, True]


def test_training_starts_with_a_point_or_a_noisy_box_and_continues_on_the_error() -> None:
    scene = scenes(1)[0]
    target = scene.targets[0]
    empty = Mask.empty(scene.shape)
    rng = np.random.default_rng(0)

    def observation(mask: Mask, prompts: tuple[Any, ...]) -> Observation:
        return Observation(scene, target, mask, prompts, "corrected", None)  # type: ignore[arg-type]

    user = TrainingPrompts()
    first = [user.next(observation(empty, ()), rng) for _ in range(400)]
    boxes = [p for p in first if isinstance(p, segmeter.Box)]
    assert 160 < len(boxes) < 240
    deviation = np.std([b.low for b in boxes], axis=0)
    np.testing.assert_allclose(deviation, (1.6, 2.0), rtol=0.2)
    half = Mask.box(scene.shape, (8, 10), (16, 40))
    later = [user.next(observation(half, (first[0],)), rng) for _ in range(300)]
    for click in later:
        assert isinstance(click, segmeter.Click)
        inside = target.mask[tuple(map(int, click.point))]
        assert inside == click.positive
        assert inside != half[tuple(map(int, click.point))]
    negatives = sum(not p.positive for p in later if isinstance(p, segmeter.Click))
    assert abs(negatives / 300 - 80 / (80 + 160)) < 0.09
    assert not training_point(target, target.mask, rng).positive


def test_a_round_trains_the_decoder_only_and_shows_the_annotator_its_mask(
    small_sam: Callable[[], Sam],
) -> None:
    model = small_sam()
    network: Any = model.network
    network.decoder.requires_grad_(True)
    encoded = encoded_scenes(model, scenes(2))
    objects = [AnnotatedObject(s, s.targets[0], e, "corrected") for s, e in encoded]
    from contextlib import nullcontext

    for number in (1, 2):
        found = round_losses(objects, CentreClick(), True, (0, number), "sam", nullcontext())
        ((count, loss),) = found
        loss.backward()
        assert count == 2
    assert all(len(one.session.prompts) == 2 for one in objects)
    # In the second round the first round's logits are fed back.
    assert objects[0].session.request(()).state is not None
    moved = {k for k, p in network.parts.named_parameters() if p.grad is not None and p.grad.any()}
    assert moved
    assert all(name.startswith("mask_decoder.") for name in moved)


def test_training_lowers_the_loss_and_writes_weights_that_hold_the_best_decoder(
    small_sam: Callable[[], Sam], tmp_path: Path
) -> None:
    model, seen = small_sam(), []
    settings = DecoderSettings(
        steps=12, batch=3, rounds=2, rate=2e-3, warmup=1, validate_every=6, most_clicks=3
    )
    done = trained(model, tmp_path / "out", settings, tell=seen.append)
    losses = [progress.loss for progress in seen]
    assert np.mean(losses[-3:]) < 0.8 * losses[0]
    assert [row["step"] for row in done.history] == [0, 6, 12]
    assert done.best_step == min(done.history, key=lambda row: row["noc"])["step"]
    written = load_file(done.weights)
    original = load_file(small_sam().weights_path)
    assert written.keys() == original.keys()
    for name, value in decoder_of(model).items():
        assert torch.equal(written[f"mask_decoder.{name}"], value)
    frozen = [name for name in written if not name.startswith("mask_decoder.")]
    assert all(torch.equal(written[name], original[name]) for name in frozen)
    (tmp_path / "out" / "state.pt").unlink()
    with pytest.raises(RunConflict, match="holds the weights of a model"):
        trained(small_sam(), tmp_path / "out", settings)


def test_a_killed_training_ends_with_the_weights_of_one_that_was_not(
    small_sam: Callable[[], Sam], tmp_path: Path
) -> None:
    torch.set_num_threads(1)  # as the child that is killed; sums depend on it
    whole = trained(small_sam(), tmp_path / "whole")

    def kill(progress: Progress) -> None:
        if progress.step == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        try:
            torch.set_num_threads(1)
            trained(small_sam(), tmp_path / "cut", tell=kill)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    steps: list[int] = []
    resumed = trained(small_sam(), tmp_path / "cut", tell=lambda p: steps.append(p.step))
    assert steps == [3, 4]
    first, second = load_file(whole.weights), load_file(resumed.weights)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert whole.history == resumed.history
    with pytest.raises(RunConflict, match="other settings"):
        trained(small_sam(), tmp_path / "cut", DecoderSettings(steps=5))


@pytest.mark.parametrize("changed", ["pixels", "mask"])
def test_images_that_have_changed_under_their_names_are_neither_resumed_nor_taken_from_the_cache(
    small_sam: Callable[[], Sam], tmp_path: Path, changed: str
) -> None:
    before, after = scenes(), scenes()
    target = after[2].targets[0]
    if changed == "pixels":
        after[2] = Image("drawn", "2", np.full((48, 64, 3), 99, np.uint8), [target])
    else:
        moved = replace(target, mask=Mask.box((48, 64), (20, 30), (40, 60)))
        after[2] = Image("drawn", "2", before[2].pixels, [moved])
    model, out = small_sam(), tmp_path / "out"

    def run(images: list[Image]) -> Any:
        made = encoded_scenes(model, images, out / "embeddings")
        done = train(model, CentreClick(), made[1:], made[:1], SETTINGS, out)
        return made[2][1].embedding.cells, done

    cells, _ = run(before)
    with pytest.raises(RunConflict, match="other settings, data or weights"):
        run(after)
    kept = encoded_scenes(model, after, out / "embeddings")[2][1].embedding.cells
    assert torch.equal(cells, kept) is (changed == "mask")


def test_training_stops_when_validation_no_longer_improves(
    small_sam: Callable[[], Sam], tmp_path: Path
) -> None:
    settings = DecoderSettings(
        steps=50, batch=1, rounds=1, rate=1e-12, validate_every=1, patience=2, most_clicks=1
    )
    done = trained(small_sam(), tmp_path / "out", settings)
    assert [row["step"] for row in done.history] == [0, 1, 2]
    assert done.best_step == 0


def test_images_are_split_into_parts_that_share_none() -> None:
    parts = split_scenes(scenes(10), 0.2, 0.3, seed=1)
    assert [len(part) for part in parts] == [5, 2, 3]
    assert len({scene.id for part in parts for scene in part}) == 10
    with pytest.raises(BadInput, match="too few"):
        split_scenes(scenes(2), 0.5, 0.4, 0)
    with pytest.raises(BadInput, match="sum to less than 1"):
        split_scenes(scenes(2), 0.5, 0.5, 0)


def test_the_public_function_trains_and_measures_the_change(
    small_sam: Callable[[], Sam], tmp_path: Path
) -> None:
    images = scenes(3)
    data = segmeter.Dataset.from_arrays(
        [s.pixels for s in images], [s.targets[0].mask.dense() for s in images]
    )
    made = segmeter.train_decoder(
        small_sam(), data, out=tmp_path / "out", test=0.3, steps=1, batch=1, rounds=1,
        validate_every=1, most_clicks=1, goal=0.999,
    )  # fmt: skip
    (change,) = made.changes
    assert (change.objects, change.user) == (1, "centre-click")
    assert made.weights.is_file()


@pytest.mark.long
@pytest.mark.usefixtures("encoded_once")
@pytest.mark.parametrize("name", ["mobile-sam", "sam2-hiera-tiny"])
def test_trained_weights_of_a_real_sam_are_opened_by_its_name(
    name: str, real_weights: Path, tmp_path: Path
) -> None:
    """The real networks at their own size, one step on the image of the conformance tests."""
    model = segmeter.load_model(name, real_weights)
    before = decoder_of(model)
    (one,) = encoded_scenes(model, [drawn_scene()])
    settings = DecoderSettings(
        steps=1, batch=1, rounds=1, rate=1e-3, warmup=1, validate_every=1, most_clicks=1, goal=1.0
    )
    done = train(model, CentreClick(), [one], [one], settings, tmp_path)
    # NoC did not fall in one step, so the first decoder was kept.
    opened = segmeter.load_model(f"{name}?weights={done.weights}")
    assert opened.weights_path == done.weights
    assert all(torch.equal(value, before[key]) for key, value in decoder_of(opened).items())
    with safe_open(done.weights, framework="pt") as file:
        notes = file.metadata()
    about = notes["segmeter.data"], notes["segmeter.annotator"]
    assert about == ("drawn, 1 image", "centre-click")
    assert float(notes["segmeter.seconds"]) > 0
