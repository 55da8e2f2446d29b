"""Decoder training: a SAM's mask decoder learns from simulated annotators.

The image encoder and the prompt encoder stay as they are, and each image is encoded once; its
embedding is kept on disk in half precision. Every `validate_every` steps the clicks to the goal
(NoC) are measured on images that are not trained on; the best decoder is kept and training stops
when it has not improved for `patience` measurements. All draws depend on (seed, step) alone, so
an interrupted training, also by `kill -9`, ends with the weights of an uninterrupted one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Literal

import torch
from torch import Tensor

from segmeter.core.errors import BadInput, RunConflict
from segmeter.core.lockstep import SimulatedSession, simulate
from segmeter.core.models import ProtocolName
from segmeter.core.scenes import Scene
from segmeter.core.seeds import fingerprint, generator
from segmeter.core.users import User
from segmeter.core.wording import counted
from segmeter.measures.objects import iou
from segmeter.models.checkpoints import read_checkpoint, source_name
from segmeter.models.sam._decoder import Embedding
from segmeter.models.sam._encoded import SamEncodedScene
from segmeter.models.sam._prompt_batches import Policy
from segmeter.models.sam.model import Sam
from segmeter.models.weights import DAMAGED
from segmeter.stats.intervals import Interval, Resampling
from segmeter.training.annotation_rounds import (
    MOST_SHARE,
    AnnotatedObject,
    ScoreLoss,
    round_losses,
    schedule,
)

WEIGHTS, _STATE, _HISTORY = "model.safetensors", "state.pt", "history.json"
Encoded = list[tuple[Scene, SamEncodedScene]]
ClickCounts = Mapping[tuple[str, str], int]
"""Clicks per object, by scene and target."""


@dataclass(frozen=True, slots=True)
class DecoderSettings:
    """Settings of a training.

    Attributes
    ----------
    steps, batch
        Optimiser steps at most, and objects per step.
    rounds, repeats
        Prompts per object, and iterations without a new prompt; 9 and 2 in the paper.
    rate, warmup, decay
        Largest learning rate (AdamW), reached after `warmup` steps, falling to a twentieth by a
        cosine; weight decay.
    validate_every, patience
        Steps between measurements of NoC, and how many without improvement end the training.
    goal, most_clicks
        IoU at which clicks are counted, and the most that are given.
    score_loss
        Loss of the predicted IoU: `sam` or `sam2`.
    protocol
        Protocol of the sessions, as in the click benchmark.
    precision
        `auto` is bfloat16 mixed precision on a GPU and float32 elsewhere.
    """

    steps: int = 400
    batch: int = 16
    rounds: int = 6
    repeats: int = 0
    rate: float = 1e-4
    warmup: int = 20
    decay: float = 0.01
    validate_every: int = 50
    patience: int = 4
    goal: float = 0.9
    most_clicks: int = 20
    score_loss: ScoreLoss = "sam2"
    protocol: ProtocolName = "corrected"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "rounds", "validate_every", "patience", "most_clicks"):
            if getattr(self, name) < 1:
                raise BadInput(f"{name} is at least 1, not {getattr(self, name)}")
        if not (0 < self.goal <= 1 and math.isfinite(self.rate) and self.rate > 0):
            raise BadInput("the goal is an IoU in (0, 1], and the rate a positive number")

    def factor(self, step: int) -> float:
        """Share of the largest learning rate at a step."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


@dataclass(frozen=True, slots=True)
class Progress:
    """State after a step; `noc` is the mean of the validation clicks where they were measured."""

    step: int
    steps: int
    loss: float
    seconds_left: float
    noc: float | None = None
    best: float | None = None


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished training: where the weights are, and NoC on the validation images by step."""

    weights: Path
    best_step: int
    history: Sequence[Mapping[str, float]]


@dataclass(slots=True)
class _State:
    optimiser: torch.optim.Optimizer
    step: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)
    best_noc: float = math.inf
    best_step: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)


def train(
    model: Sam,
    user: User,
    learn: Encoded,
    validate: Encoded,
    settings: DecoderSettings,
    out: Path,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Trained:
    """Train the decoder of a model in place and write its best weights to the folder `out`.

    The model ends with the best decoder. The folder holds the weights, a history and the state to
    resume from; a folder with other settings, data or weights is refused.
    """
    decoder = _trainable(model)
    places = [
        (s, e, t)
        for s, e in learn
        for t in s.targets
        if 0 < t.mask.area <= MOST_SHARE * math.prod(s.shape)
    ]
    if not places or not validate:
        raise BadInput("training needs at least one object to learn from and one to validate on")
    out.mkdir(parents=True, exist_ok=True)
    names = [[scene.name for scene, _ in part] for part in (learn, validate)]
    chosen = json.dumps(asdict(settings))
    identity = fingerprint(model.card.fingerprint, chosen, repr(user), names)
    adam = torch.optim.AdamW(decoder.parameters(), settings.rate, weight_decay=settings.decay)
    state = _State(adam)
    if not _resumed(state, decoder, out, identity):
        _validate(state, decoder, user, validate, settings, 0.0)
        _save(state, decoder, out, identity)
    start, begun, spent = perf_counter(), state.step, state.seconds
    patience = settings.patience * settings.validate_every
    while state.step < settings.steps and state.step - state.best_step < patience:
        rng = generator(settings.seed, "objects", state.step)
        chosen = [places[k] for k in rng.integers(len(places), size=settings.batch)]
        objects = [AnnotatedObject(s, t, e, settings.protocol) for s, e, t in chosen]
        loss = _step(state, decoder, user, objects, settings)
        state.seconds = spent + perf_counter() - start
        measured = state.step % settings.validate_every == 0 or state.step == settings.steps
        if measured:
            _validate(state, decoder, user, validate, settings, loss)
            _save(state, decoder, out, identity)
        each = (perf_counter() - start) / (state.step - begun)
        noc = state.history[-1]["noc"] if measured else None
        left = each * (settings.steps - state.step)
        tell(Progress(state.step, settings.steps, loss, left, noc, state.best_noc))
    decoder.load_state_dict(state.best)
    decoder.eval().requires_grad_(False)
    data = f"{learn[0][0].dataset}, {counted(len(learn), 'image')}"
    _write_weights(model, out / WEIGHTS, state, {"data": data, "annotator": user.name})
    return Trained(out / WEIGHTS, state.best_step, tuple(state.history))


def encoded_scenes(model: Sam, scenes: Sequence[Scene], cache: Path | None = None) -> Encoded:
    """Encode scenes once; embeddings are kept in the folder `cache` in half precision."""
    found = []
    for scene in scenes:
        if cache is None:
            made = model.encode(scene)
        else:
            key = fingerprint(model.card.fingerprint, model.resize, scene.name)
            kept = cache / f"{key}.safetensors"
            if not kept.is_file():
                _write_embedding(model.encode(scene).embedding, kept)
            made = _with_embedding(model, scene, kept)
        made.graphs = False  # captured graphs are for weights that do not change
        found.append((scene, made))
    return found


def clicks_needed(scenes: Encoded, user: User, settings: DecoderSettings) -> ClickCounts:
    """Clicks until the IoU reaches the goal, for every object; the most where it never does."""
    counts, goal = {}, settings.goal
    for scene, encoded in scenes:
        made = simulate(
            scene,
            encoded,
            [SimulatedSession(target, user, settings.protocol) for target in scene.targets],
            settings.most_clicks,
            lambda target, mask: {"iou": iou(target.mask, mask, target.ignore)},
            seed=settings.seed,
            until=lambda scores: scores["iou"] >= goal,
        )
        for one in made:
            reached = (r.number for r in one.rounds if r.scores["iou"] >= goal)
            counts[scene.name, one.simulated.target.id] = next(reached, settings.most_clicks)
    return counts


def _step(
    state: _State,
    decoder: torch.nn.Module,
    user: User,
    objects: Sequence[AnnotatedObject],
    settings: DecoderSettings,
) -> float:
    """One step of the optimiser over all rounds of a batch; the mean loss per object and round."""
    decoder.train()
    rate = settings.rate * settings.factor(state.step)
    for group in state.optimiser.param_groups:
        group["lr"] = rate
    state.optimiser.zero_grad(set_to_none=True)
    rng = generator(settings.seed, "repeats", state.step)
    made = schedule(settings.rounds, settings.repeats, rng)
    losses = []
    device = objects[0].encoded.network.device
    automatic = "bfloat16" if device.type == "cuda" else "float32"
    mixed = settings.precision.replace("auto", automatic) == "bfloat16"
    for number, prompted in enumerate(made):
        seed = (settings.seed, "prompts", state.step, number)
        precision = torch.autocast(device.type, torch.bfloat16) if mixed else nullcontext()
        kind = settings.score_loss
        for count, loss in round_losses(objects, user, prompted, seed, kind, precision):
            share = count / len(objects) / len(made)
            (share * loss).backward()  # type: ignore[no-untyped-call]  # torch has no type
            losses.append(share * loss.detach())
    if not losses:
        raise BadInput(f"annotator '{user.name}' gave no prompt in step {state.step + 1}")
    torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
    total = float(torch.stack(losses).sum())
    if not math.isfinite(total):
        raise BadInput(f"the loss is {total} in step {state.step + 1}; choose a smaller rate")
    state.optimiser.step()
    state.step += 1
    return total


def _validate(
    state: _State,
    decoder: torch.nn.Module,
    user: User,
    scenes: Encoded,
    settings: DecoderSettings,
    loss: float,
) -> None:
    """Measure NoC on the validation images; keep the decoder if it is the best so far."""
    decoder.eval()
    counts = clicks_needed(scenes, user, settings)
    noc = sum(counts.values()) / len(counts)
    state.history.append({"step": state.step, "loss": loss, "noc": noc})
    if noc < state.best_noc:
        state.best_noc, state.best_step = noc, state.step
        state.best = {k: v.detach().cpu().clone() for k, v in decoder.state_dict().items()}


def _trainable(model: Sam) -> torch.nn.Module:
    network = model.network
    if not hasattr(network, "parts") or hasattr(network.decoder, "hf_token"):
        raise BadInput(
            f"the decoder of '{model.card.name}' cannot be trained here; choose MobileSAM, or "
            "SAM or SAM 2 as a checkpoint file of its authors"
        )
    if model.dtype != "float32":
        raise BadInput(f"training needs float32 weights, not dtype={model.dtype}")
    return network.decoder.requires_grad_(True)


def _write_embedding(embedding: Embedding, path: Path) -> None:
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {"cells": embedding.cells}
    if embedding.fine is not None:
        tensors |= {"fine0": embedding.fine[0], "fine1": embedding.fine[1]}
    fresh = path.with_suffix(".partial")
    save_file({k: v.half().cpu().contiguous() for k, v in tensors.items()}, fresh)
    fresh.replace(path)


def _with_embedding(model: Sam, scene: Scene, path: Path) -> SamEncodedScene:
    """A scene with its embedding read from the cache."""
    from safetensors.torch import load_file

    try:
        kept = {k: v.float().to(model.network.device) for k, v in load_file(path).items()}
    except DAMAGED as error:
        raise BadInput(f"embedding '{path}' cannot be read ({error}); delete the file") from error
    fine = (kept["fine0"], kept["fine1"]) if "fine0" in kept else None
    return SamEncodedScene(
        model.network,
        model.network.frame((scene.shape[0], scene.shape[1])),
        Embedding(kept["cells"], fine),
        Policy(model.masks, model.points),
    )


def _save(state: _State, decoder: torch.nn.Module, out: Path, identity: str) -> None:
    """The state to resume from, written whole or not at all."""
    kept = {
        "identity": identity,
        "decoder": decoder.state_dict(),
        "optimiser": state.optimiser.state_dict(),
        **{name: getattr(state, name) for name in _KEPT},
    }
    fresh = out / f"{_STATE}.partial"
    torch.save(kept, fresh)
    fresh.replace(out / _STATE)
    (out / _HISTORY).write_text(json.dumps(state.history, indent=1) + "\n", encoding="utf-8")


_KEPT = ("step", "best", "best_noc", "best_step", "seconds", "history")


def _resumed(state: _State, decoder: torch.nn.Module, out: Path, identity: str) -> bool:
    path = out / _STATE
    if not path.is_file():
        return False
    try:
        kept = torch.load(path, map_location="cpu", weights_only=True)
        if kept["identity"] != identity:
            raise RunConflict(
                f"'{out}' holds a training with other settings, data or weights; "
                "choose another folder"
            )
        decoder.load_state_dict(kept["decoder"])
        state.optimiser.load_state_dict(kept["optimiser"])
        for name in _KEPT:
            setattr(state, name, kept[name])
    except DAMAGED as error:
        raise BadInput(f"'{path}' cannot be read ({error}); delete it to start again") from error
    return True


def _write_weights(model: Sam, path: Path, state: _State, about: Mapping[str, str]) -> None:
    """The checkpoint that was opened with the decoder's tensors replaced, in its own layout."""
    from safetensors.torch import save_file

    folder = (model.weights_path / "config.json").is_file()
    opened = read_checkpoint(model.weights_path, model.kind.name if folder else "")
    tensors, layout, prefix = dict(opened.tensors), opened.layout, opened.prefix
    for name, value in state.best.items():
        source, _ = source_name(f"mask_decoder.{name}", layout, model.network.second)
        tensors[source] = value
    device = torch.cuda.get_device_name() if model.network.device.type == "cuda" else "CPU"
    noted = {**about, "step": state.best_step, "noc": f"{state.best_noc:.4f}", "device": device}
    noted["seconds"] = f"{state.seconds:.1f}"
    notes = {f"segmeter.{name}": str(value) for name, value in noted.items()}
    fresh = path.with_suffix(".partial")
    save_file({prefix + k: v.contiguous() for k, v in tensors.items()}, fresh, notes)
    fresh.replace(path)


@dataclass(frozen=True, slots=True)
class NocChange:
    """Mean clicks per object before and after training, and the paired difference.

    The interval is that of the difference after - before, bootstrapped over images.
    """

    dataset: str
    user: str
    images: int
    objects: int
    before: float
    after: float
    difference: Interval

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.difference.low > 0 or self.difference.high < 0


def noc_change(dataset: str, user: str, before: ClickCounts, after: ClickCounts) -> NocChange:
    """Compare two decoders object by object.

    >>> before = {("a/1", "x"): 4, ("a/1", "y"): 2, ("a/2", "x"): 6}
    >>> change = noc_change("a", "centre-click", before, {key: 1 for key in before})
    >>> change.before, change.after, change.difference.value
    (4.0, 1.0, -3.0)
    """
    keys = list(before)
    scenes = [scene for scene, _ in keys]
    differences = [after[key] - before[key] for key in keys]
    return NocChange(
        dataset,
        user,
        len(set(scenes)),
        len(keys),
        sum(before.values()) / len(keys),
        sum(after[key] for key in keys) / len(keys),
        Resampling(scenes, seed=dataset).interval(differences),
    )
