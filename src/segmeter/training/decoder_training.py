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
from dataclasses import asdict, dataclass
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
_KEPT = ("step", "best", "best_noc", "best_step", "seconds", "history")
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
    every = [(s, e, t) for s, e in learn for t in s.targets if t.mask]
    places = [p for p in every if p[2].mask.area <= MOST_SHARE * math.prod(p[0].shape)]
    if not places or not validate:
        raise BadInput("training needs at least one object to learn from and one to validate on")
    images = [[_content(scene) for scene, _ in part] for part in (learn, validate)]
    given = (model.card.fingerprint, json.dumps(asdict(settings)), repr(user), images)
    run = _Training(model, user, validate, settings, out, fingerprint(*given))
    out.mkdir(parents=True, exist_ok=True)
    if not run.resumed():
        run.measure(0.0)
    start, begun, spent = perf_counter(), run.step, run.seconds
    patience = settings.patience * settings.validate_every
    while run.step < settings.steps and run.step - run.best_step < patience:
        rng = generator(settings.seed, "objects", run.step)
        chosen = [places[k] for k in rng.integers(len(places), size=settings.batch)]
        loss = run.learn([AnnotatedObject(s, t, e, settings.protocol) for s, e, t in chosen])
        run.seconds = spent + perf_counter() - start
        measured = run.step % settings.validate_every == 0 or run.step == settings.steps
        if measured:
            run.measure(loss)
        each = (perf_counter() - start) / (run.step - begun)
        noc = run.history[-1]["noc"] if measured else None
        left = each * (settings.steps - run.step)
        tell(Progress(run.step, settings.steps, loss, left, noc, run.best_noc))
    run.finish(f"{learn[0][0].dataset}, {counted(len(learn), 'image')}")
    return Trained(out / WEIGHTS, run.best_step, tuple(run.history))


def encoded_scenes(model: Sam, scenes: Sequence[Scene], cache: Path | None = None) -> Encoded:
    """Encode scenes once; embeddings are kept in the folder `cache` in half precision."""
    found = []
    for scene in scenes:
        if cache is None:
            made = model.encode(scene)
        else:
            key = fingerprint(model.card.fingerprint, model.resize, scene.pixels.tobytes())
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


class _Training:
    """A training in progress, whose state is kept in the folder `out` to be resumed.

    `identity` is its key: weights, settings, annotator and images must be equal to resume it.
    """

    def __init__(
        self,
        model: Sam,
        user: User,
        validate: Encoded,
        settings: DecoderSettings,
        out: Path,
        identity: str,
    ) -> None:
        self.model, self.user, self.validate, self.settings = model, user, validate, settings
        self.out, self.identity = out, identity
        network = model.network
        if not hasattr(network, "parts") or hasattr(network.decoder, "hf_token"):
            raise BadInput(
                f"the decoder of '{model.card.name}' cannot be trained here; choose MobileSAM, or "
                "SAM or SAM 2 as a checkpoint file of its authors"
            )
        if model.dtype != "float32":
            raise BadInput(f"training needs float32 weights, not dtype={model.dtype}")
        self.decoder: torch.nn.Module = network.decoder.requires_grad_(True)
        own = self.decoder.parameters()
        self.optimiser = torch.optim.AdamW(own, settings.rate, weight_decay=settings.decay)
        self.step, self.best_step, self.best_noc, self.seconds = 0, 0, math.inf, 0.0
        self.best: dict[str, Tensor] = {}
        self.history: list[dict[str, float]] = []

    def learn(self, objects: Sequence[AnnotatedObject]) -> float:
        """One step of the optimiser over all rounds of a batch; the mean loss of all of them."""
        settings, step = self.settings, self.step
        self.decoder.train()
        for group in self.optimiser.param_groups:
            group["lr"] = settings.rate * settings.factor(step)
        self.optimiser.zero_grad(set_to_none=True)
        rng = generator(settings.seed, "repeats", step)
        made = schedule(settings.rounds, settings.repeats, rng)
        device, losses = self.model.network.device, []
        automatic = "bfloat16" if device.type == "cuda" else "float32"
        mixed = settings.precision.replace("auto", automatic) == "bfloat16"
        for number, prompted in enumerate(made):
            seed = (settings.seed, "prompts", step, number)
            precision = torch.autocast(device.type, torch.bfloat16) if mixed else nullcontext()
            kind = settings.score_loss
            for count, loss in round_losses(objects, self.user, prompted, seed, kind, precision):
                share = count / len(objects) / len(made)
                (share * loss).backward()  # type: ignore[no-untyped-call]  # torch has no type
                losses.append(share * loss.detach())
        self.step += 1
        if not losses:
            raise BadInput(f"annotator '{self.user.name}' gave no prompt in step {self.step}")
        torch.nn.utils.clip_grad_norm_(self.decoder.parameters(), 1.0)
        total = float(torch.stack(losses).sum())
        if not math.isfinite(total):
            raise BadInput(f"the loss is {total} in step {self.step}; choose a smaller rate")
        self.optimiser.step()
        return total

    def measure(self, loss: float) -> None:
        """Measure NoC on the validation images, keep the decoder if it is the best, and save.

        The state to resume from is written whole or not at all.
        """
        self.decoder.eval()
        counts = clicks_needed(self.validate, self.user, self.settings)
        noc = sum(counts.values()) / len(counts)
        self.history.append({"step": self.step, "loss": loss, "noc": noc})
        if noc < self.best_noc:
            self.best_noc, self.best_step = noc, self.step
            state = self.decoder.state_dict()
            self.best = {k: v.detach().cpu().clone() for k, v in state.items()}
        kept = {name: getattr(self, name) for name in ("identity", *_KEPT)}
        kept |= {name: getattr(self, name).state_dict() for name in ("decoder", "optimiser")}
        fresh = self.out / f"{_STATE}.partial"
        torch.save(kept, fresh)
        fresh.replace(self.out / _STATE)
        history = json.dumps(self.history, indent=1) + "\n"
        (self.out / _HISTORY).write_text(history, encoding="utf-8")

    def resumed(self) -> bool:
        path = self.out / _STATE
        if not path.is_file():
            if (self.out / WEIGHTS).exists():
                raise RunConflict(
                    f"'{self.out}' holds the weights of a model; choose another --out"
                )
            return False
        try:
            kept = torch.load(path, map_location="cpu", weights_only=True)
            if kept["identity"] != self.identity:
                raise RunConflict(
                    f"'{self.out}' holds a training with other settings, data or weights; "
                    "choose another folder"
                )
            self.decoder.load_state_dict(kept["decoder"])
            self.optimiser.load_state_dict(kept["optimiser"])
            vars(self).update({name: kept[name] for name in _KEPT})
        except DAMAGED as error:
            raise BadInput(
                f"'{path}' cannot be read ({error}); delete it to start again"
            ) from error
        return True

    def finish(self, data: str) -> None:
        """Write the checkpoint that was opened with the best decoder, in its own layout."""
        from safetensors.torch import save_file

        model, path = self.model, self.out / WEIGHTS
        self.decoder.load_state_dict(self.best)
        self.decoder.eval().requires_grad_(False)
        folder = (model.weights_path / "config.json").is_file()
        opened = read_checkpoint(model.weights_path, model.kind.name if folder else "")
        tensors = dict(opened.tensors)
        for name, value in self.best.items():
            own = f"mask_decoder.{name}"
            tensors[source_name(own, opened.layout, model.network.second)[0]] = value
        device = torch.cuda.get_device_name() if model.network.device.type == "cuda" else "CPU"
        noted = {"data": data, "annotator": self.user.name, "step": self.best_step}
        noted |= {"noc": f"{self.best_noc:.4f}", "device": device, "seconds": f"{self.seconds:.1f}"}
        notes = {f"segmeter.{name}": str(value) for name, value in noted.items()}
        fresh = path.with_suffix(".partial")
        save_file({opened.prefix + k: v.contiguous() for k, v in tensors.items()}, fresh, notes)
        fresh.replace(path)


def _content(scene: Scene) -> str:
    """A digest of an image and its objects, which changes when either does."""
    masks = [(t.id, t.mask.encoded(), t.ignore and t.ignore.encoded()) for t in scene.targets]
    return fingerprint(scene.name, scene.shape, scene.pixels.tobytes(), masks)


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
