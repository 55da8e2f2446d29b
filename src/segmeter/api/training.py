"""Training a model's mask decoder with a simulated annotator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segmeter.api.loading import as_dataset, as_model, as_user
from segmeter.core.errors import BadInput
from segmeter.core.scenes import Scene
from segmeter.core.seeds import generator

if TYPE_CHECKING:
    from segmeter.training.decoder_training import DecoderSettings, NocChange, Progress


@dataclass(frozen=True, slots=True)
class DecoderTraining:
    """A trained decoder: its weights, NoC on the validation images by step, and test results.

    `changes` has NoC before and after training on the test images and on the other datasets,
    for every test user, with the interval of the paired difference.
    """

    weights: Path
    best_step: int
    history: Sequence[Any]
    changes: Sequence[NocChange]


def train_decoder(
    model: Any,
    dataset: Any,
    *,
    out: str | Path,
    user: Any = "centre-click",
    validation: float = 0.2,
    test: float = 0.0,
    test_users: Sequence[Any] = (),
    also: Sequence[Any] = (),
    data: str | Path | None = None,
    weights: str | Path | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    **settings: Any,
) -> DecoderTraining:
    """Train the mask decoder of a SAM with a simulated annotator in the loop.

    The encoder is frozen and every image is encoded once. The same call resumes an interrupted
    training. Open the result with `load_model("mobile-sam", weights=result.weights)`.

    Parameters
    ----------
    model, dataset, user
        A name or an object each; the dataset may be a folder of images and masks.
    out
        Folder for the weights (`model.safetensors`), embeddings and the state to resume from.
    validation, test
        Shares of the images that NoC is validated on during training, and that are left out to
        measure NoC before and after training. Images are never split.
    test_users
        Further annotators to test with; the one in training is always tested.
    also
        Further datasets to test on, which shows what the training costs elsewhere.
    progress
        Called after every step.
    **settings
        Fields of `segmeter.training.decoder_training.DecoderSettings`, such as `steps=400`,
        `batch=16`, `rounds=6`, `rate=1e-4`, `seed=0`.

    Examples
    --------
    >>> import segmeter
    >>> segmeter.train_decoder("disc", "mini", out="trained")
    Traceback (most recent call last):
    segmeter.core.errors.BadInput: 'disc' has no mask decoder to train; choose a SAM
    """
    made = as_model(model, weights)
    chosen, folder = _settings(made, settings), Path(out)
    users = [as_user(one) for one in (user, *test_users)]
    parts = split_scenes(_scenes(dataset, data), validation, test, chosen.seed)
    others = [(str(one), _scenes(one, data)) for one in also]
    return _trained(made, users, parts, others, chosen, folder, progress)


def _settings(model: Any, settings: Mapping[str, Any]) -> DecoderSettings:
    from segmeter.models.sam.model import Sam
    from segmeter.training.decoder_training import DecoderSettings

    if not isinstance(model, Sam):
        raise BadInput(f"'{model.card.name}' has no mask decoder to train; choose a SAM")
    unknown = settings.keys() - DecoderSettings.__dataclass_fields__.keys()
    if unknown:
        raise BadInput(f"no training setting '{min(unknown)}'; see DecoderSettings")
    return DecoderSettings(**settings)


def _trained(
    model: Any,
    users: Sequence[Any],
    parts: Sequence[Sequence[Scene]],
    others: Sequence[tuple[str, Sequence[Scene]]],
    settings: DecoderSettings,
    out: Path,
    progress: Callable[[Progress], None],
) -> DecoderTraining:
    """Train with the first user; NoC before and after with all users on all tests."""
    from segmeter.training.decoder_training import clicks_needed, encoded_scenes, noc_change, train

    learn, validate, held_out = (encoded_scenes(model, part, out / "embeddings") for part in parts)
    tests = [(f"{held_out[0][0].dataset} (test images)", held_out)] if held_out else []
    tests += [(name, encoded_scenes(model, scenes)) for name, scenes in others]
    cases = [(name, scenes, user) for name, scenes in tests for user in users]
    before = [clicks_needed(scenes, user, settings) for _, scenes, user in cases]
    done = train(model, users[0], learn, validate, settings, out, progress)
    changes = [
        noc_change(name, user.name, earlier, clicks_needed(scenes, user, settings))
        for (name, scenes, user), earlier in zip(cases, before, strict=True)
    ]
    return DecoderTraining(done.weights, done.best_step, done.history, changes)


def split_scenes(
    scenes: Sequence[Scene], validation: float, test: float, seed: int
) -> tuple[list[Scene], list[Scene], list[Scene]]:
    """Training, validation and test scenes, drawn by the seed; an image is in one part only."""
    for name, share in (("validation", validation), ("test", test)):
        if not 0 <= share < 1 or validation + test >= 1:
            raise BadInput(f"{name}={share}: shares must be at least 0 and sum to less than 1")
    order = generator(seed, "split").permutation(len(scenes))
    many = max(1, round(validation * len(scenes)))
    tested = max(1, round(test * len(scenes))) if test else 0
    if many + tested >= len(scenes):
        raise BadInput(f"{len(scenes)} images are too few to train, validate and test on")
    picked = [scenes[i] for i in order]
    return picked[many + tested :], picked[:many], picked[many : many + tested]


def _scenes(dataset: Any, data: str | Path | None) -> list[Scene]:
    found = as_dataset(dataset, data)
    scenes = [found.load(name) for name in found.scenes()]
    flat = [scene for scene in scenes if scene.header.kind == "image" and scene.targets]
    if not flat:
        raise BadInput(f"dataset '{found.card.name}' has no image with an object to train on")
    return flat
