"""The training loop of the clickability network: progress, checkpoints, resuming in the same bits.

Everything random depends on (seed, step) or (seed, epoch, sample) alone, so that a training
that was cut off and started again ends with the weights of one that was not.

The recipes, the published one (with its faults) and the corrected one:

| | published | corrected |
|---|---|---|
| optimiser | Adam, one rate of 0.01 for all | AdamW, 0.002; a given backbone at a tenth |
| rate | two steps at zero, warm-up over a tenth, a cosine that is cut off | warm-up, full cosine |
| loss | divergence over frame and padding | divergence over the softened error region |
| shrinking | bilinear, which loses peaks | by area |
| variation | mirror | mirror, colour, scale |
| chosen by | SIM on the split that is reported | SIM on a tenth of the training images |
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from segmeter.clickability._segnext import SIZES, Clickability
from segmeter.clickability.network import COUNTERS, FRAME, save
from segmeter.clickability.training.samples import TrainingSample, TrainingSamples
from segmeter.core.errors import BadInput, RunConflict, check_choice
from segmeter.core.models import ProtocolName
from segmeter.core.seeds import fingerprint, generator
from segmeter.models.weights import load_into, named_tensors

_PREFIXES = ("module.", "encoder_decoder.", "backbone.")
_STATE, _WEIGHTS, _HISTORY = "state.pt", "clickability.safetensors", "history.csv"
_KEPT = ("step", "losses", "best", "history")
_SAVE_EVERY = 200
_TINY = 1e-9


def load_backbone(network: Clickability, path: Path) -> None:
    """Fill the backbone from a checkpoint of MSCAN, SegNeXt, or a clickability network.

    Prefixes are dropped, the original's doubled name of the inner convolution is accepted,
    and tensors of heads are ignored; every tensor of the backbone must be there.
    """
    backbone = cast(nn.Module, network.encoder_decoder.backbone)
    given = {}
    for name, value in named_tensors(path, "state_dict").items():
        for prefix in _PREFIXES:
            name = name.removeprefix(prefix)
        given[name.replace(".dwconv.dwconv.", ".dwconv.")] = value
    own = {name: given[name] for name in backbone.state_dict() if name in given}
    what = f"choose the network size that fits '{path}': the weights of its backbone"
    load_into(backbone, own, what, COUNTERS)


@dataclass(frozen=True, slots=True)
class Recipe:
    name: ProtocolName
    rate: float  # largest learning rate
    backbone_rate: float = 1.0  # factor on the rate of a backbone that was trained before
    decay: float = 0.0  # of weights
    clip: float = 0.0  # limit of the gradient's norm; 0 for none
    epochs: int = 20
    batch: int = 16
    warm_up: float = 0.1

    @property
    def corrected(self) -> bool:
        return self.name == "corrected"

    def factor(self, step: int, steps: int) -> float:
        """The rate at a step, as a share of the largest.

        >>> published = RECIPES["published"]
        >>> [published.factor(step, 100) for step in (0, 1, 2, 11)]
        [0.0, 0.0, 0.1, 1.0]
        >>> round(published.factor(100, 100), 4), RECIPES["corrected"].factor(100, 100)
        (0.0296, 0.0)
        """
        warm = max(1, round(self.warm_up * steps))
        if not self.corrected:
            # One call too many delays the schedule, and the cosine's period is all steps.
            late = max(0, step - 1)
            if late <= warm:
                return late / warm
            return 0.5 * (1 + math.cos(math.pi * (late - warm) / steps))
        if step < warm:
            return (step + 1) / (warm + 1)
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


RECIPES = {
    "published": Recipe("published", rate=0.01),
    "corrected": Recipe("corrected", rate=0.002, backbone_rate=0.1, decay=0.01, clip=1.0),
}


def recipe(name: str) -> Recipe:
    check_choice("recipe", name, RECIPES)
    return RECIPES[name]


@dataclass(frozen=True, slots=True)
class Course:
    """Settings of a training; `backbone` is a file of pretrained weights, `data` a digest of
    images and clicks."""

    recipe: Recipe
    size: str = "base"
    frame: int = FRAME
    seed: int = 0
    device: str = "cpu"
    workers: int = 0
    backbone: Path | None = None
    data: str = ""

    def __post_init__(self) -> None:
        check_choice("network size", self.size, SIZES)
        if self.frame < 64 or self.frame % 32:
            raise BadInput(f"the frame is a multiple of 32, at least 64, not {self.frame}")


@dataclass(frozen=True, slots=True)
class Step:
    """Progress after each step: its `loss`, and after an epoch the mean of the epoch's losses
    and the likeness, as in the history."""

    epoch: int
    step: int
    steps: int
    loss: float
    mean_loss: float | None = None
    likeness: float | None = None


@dataclass(slots=True)
class _State:
    network: Clickability
    optimiser: torch.optim.Optimizer
    step: int = 0
    losses: list[float] = field(default_factory=list)
    best: float = -math.inf
    history: list[list[float]] = field(default_factory=list)


def train(
    learn: Sequence[TrainingSample],
    choose: Sequence[TrainingSample],
    course: Course,
    out: Path,
    tell: Callable[[Step], None] = lambda _: None,
) -> Path:
    """Train on `learn`, keep the network that is best on `choose`; the path of its weights.

    The folder `out` holds the weights, a history, and the state to resume from; an interrupted
    training is resumed, one with other settings is refused.
    """
    out.mkdir(parents=True, exist_ok=True)
    identity = _identity(learn, choose, course)
    state = _begin(course)
    _resume(state, out, identity)
    protocol = course.recipe.name
    training_samples = TrainingSamples(learn, protocol, course.frame, course.seed, course.workers)
    judged = TrainingSamples(choose, protocol, course.frame)
    steps_per_epoch = math.ceil(len(learn) / course.recipe.batch)
    steps = course.recipe.epochs * steps_per_epoch
    try:
        for planes in _batches(training_samples, course, state.step):
            loss = _learn(state, course, planes.to(course.device), steps)
            ended = state.step % steps_per_epoch == 0
            found = _end_epoch(state, course, judged, out) if ended else (None, None)
            if ended or state.step % _SAVE_EVERY == 0:
                _save(state, out, identity)
            tell(Step((state.step - 1) // steps_per_epoch + 1, state.step, steps, loss, *found))
    except KeyboardInterrupt:
        _save(state, out, identity)
        raise
    return out / _WEIGHTS


def divergence(made: Tensor, planes: Tensor, recipe: Recipe) -> Tensor:
    """Kullback-Leibler divergence of goal from map, mean over the batch."""
    goal, map = _distributions(made, planes, recipe)
    return (goal * torch.log(_TINY + goal / (_TINY + map))).sum(dim=(1, 2)).mean()


def likeness(made: Tensor, planes: Tensor, recipe: Recipe) -> Tensor:
    """SIM of each sample: the mass that goal and map have in common."""
    goal, map = _distributions(made, planes, recipe)
    return torch.minimum(goal, map).sum(dim=(1, 2))


def _distributions(made: Tensor, planes: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Goal and map, each summing to one: over the frame, or over the softened error region."""
    map = made[:, 0] * planes[:, 5] if recipe.corrected else made[:, 0]
    goal = planes[:, 6]
    return tuple(m / (m.sum(dim=(1, 2), keepdim=True) + _TINY) for m in (goal, map))  # type: ignore[return-value]  # two of them


def _begin(course: Course) -> _State:
    torch.manual_seed(_seed(course, "weights"))
    network = Clickability(SIZES[course.size], course.frame, course.recipe.corrected)
    if course.backbone is not None:
        load_backbone(network, course.backbone)
    network.to(course.device).train()
    recipe = course.recipe
    if not recipe.corrected:
        return _State(network, torch.optim.Adam(network.parameters(), lr=recipe.rate))
    backbone = cast(nn.Module, network.encoder_decoder.backbone)
    known = {id(p) for p in backbone.parameters()}
    slow = recipe.backbone_rate if course.backbone is not None else 1.0
    groups: list[dict[str, Any]] = [
        {"params": list(backbone.parameters()), "share": slow},
        {"params": [p for p in network.parameters() if id(p) not in known], "share": 1.0},
    ]
    adam = torch.optim.AdamW(groups, lr=recipe.rate, weight_decay=recipe.decay)
    return _State(network, adam)


def _batches(training_samples: TrainingSamples, course: Course, done: int) -> Iterator[Tensor]:
    """The batches still to come, in the order that the seed gives each epoch."""
    size, plan = course.recipe.batch, []
    for epoch in range(course.recipe.epochs):
        order = generator(course.seed, "order", epoch).permutation(len(training_samples)).tolist()
        plan += [[(epoch, i) for i in order[k : k + size]] for k in range(0, len(order), size)]
    return iter(DataLoader(training_samples, batch_sampler=plan[done:], num_workers=course.workers))  # type: ignore[arg-type]  # lists of lists serve


def _learn(state: _State, course: Course, planes: Tensor, steps: int) -> float:
    recipe = course.recipe
    torch.manual_seed(_seed(course, "step", state.step))
    for group in state.optimiser.param_groups:
        group["lr"] = recipe.rate * recipe.factor(state.step, steps) * group.get("share", 1.0)
    loss = divergence(state.network(planes[:, :3], planes[:, 3:5]), planes, recipe)
    state.optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
    if recipe.clip:
        nn.utils.clip_grad_norm_(state.network.parameters(), recipe.clip)
    state.optimiser.step()
    state.step += 1
    value = float(loss.detach())
    if not math.isfinite(value):
        raise BadInput(f"training diverged at step {state.step}; use a smaller --learning-rate")
    state.losses.append(value)
    return value


def _end_epoch(
    state: _State, course: Course, judged: TrainingSamples, out: Path
) -> tuple[float, float]:
    """Judge the network, keep it if it is the best so far, and write the history.

    Returns the mean of the epoch's losses, and the mean likeness.
    """
    state.network.eval()
    found = []
    with torch.inference_mode():
        for i in range(len(judged)):
            planes = torch.from_numpy(judged[-1, i][None]).to(course.device)
            made = state.network(planes[:, :3], planes[:, 3:5])
            found.append(float(likeness(made, planes, course.recipe)[0]))
    state.network.train()
    mean = sum(found) / len(found)
    mean_loss = sum(state.losses) / len(state.losses)
    epoch = len(state.history) + 1
    state.history.append([epoch, state.step, mean_loss, mean])
    state.losses.clear()
    if mean > state.best:
        state.best = mean
        notes = {"segmeter.epoch": str(epoch), "segmeter.likeness": f"{mean:.6f}"}
        save(state.network, out / _WEIGHTS, notes)
    with (out / _HISTORY).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["epoch", "step", "mean_loss", "likeness"])
        writer.writerows(state.history)
    return mean_loss, mean


def _save(state: _State, out: Path, identity: str) -> None:
    """The state to resume from, written whole or not at all."""
    fresh = out / f"{_STATE}.partial"
    kept = {
        "identity": identity,
        "network": state.network.state_dict(),
        "optimiser": state.optimiser.state_dict(),
        **{name: getattr(state, name) for name in _KEPT},
    }
    torch.save(kept, fresh)
    fresh.replace(out / _STATE)


def _resume(state: _State, out: Path, identity: str) -> None:
    path = out / _STATE
    if not path.is_file():
        if (out / _WEIGHTS).exists():
            raise RunConflict(f"'{out}' holds the weights of a network; choose another --out")
        _save(state, out, identity)  # before the first weights, which are then known to be ours
        return
    kept = named_tensors(path)
    if kept.get("identity") != identity:
        raise RunConflict(
            f"'{out}' holds a training with other settings, images or clicks; choose another folder"
        )
    state.network.load_state_dict(kept["network"])
    state.optimiser.load_state_dict(kept["optimiser"])
    for name in _KEPT:
        setattr(state, name, kept[name])


def _identity(
    learn: Sequence[TrainingSample], choose: Sequence[TrainingSample], course: Course
) -> str:
    """Key of a training: settings, samples and their clicks must be equal to resume it."""
    names = [(sample.name, len(sample.points)) for sample in (*learn, *choose)]
    settings = {k: v for k, v in asdict(course).items() if k not in ("device", "workers")}
    return fingerprint(json.dumps(settings, sort_keys=True, default=str), names, len(learn))


def _seed(course: Course, *parts: object) -> int:
    return int(fingerprint(course.seed, *parts, size=6), 16)
