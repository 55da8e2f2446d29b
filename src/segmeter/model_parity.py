"""`segmeter.parity`: are two models the same? Compares their masks prompt by prompt.

A simulated user prompts model A; model B receives every prompt that A received. The result has
the IoU of the two masks in every round, differences of logits (where both have them) and of
scores, the round at which masks first differ, and the effect on NoC and seconds per click, where
each model is prompted by the user on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.api import write_file
from segmeter.api.loading import as_dataset, as_model, as_user
from segmeter.api.runs import Run, open_run
from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.core.lockstep import SimulatedSession, simulate
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene
from segmeter.core.prompts import Click, Prompt, round_from_json
from segmeter.core.scenes import Scene, Target
from segmeter.core.scores_by_step import quoted
from segmeter.core.sections import (
    Column,
    Gallery,
    Illustration,
    Note,
    Outline,
    Section,
    Table,
    Value,
)
from segmeter.core.sessions import Judge, Round, Session
from segmeter.core.wording import signed
from segmeter.measures.objects import iou
from segmeter.stats.intervals import Interval, Resampling

GOAL = 0.9
"""IoU at which clicks are counted: NoC@90."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One round of one object: what A and B predicted from the same prompts."""

    scene: str
    target: str
    round: int
    iou: float
    score_difference: float
    logit_difference: float | None
    seconds_a: float
    seconds_b: float
    mask_a: Mask
    mask_b: Mask
    prompts: tuple[Prompt, ...]


@dataclass(frozen=True, slots=True)
class Parity:
    """How far two models agree on the same prompts."""

    a: str
    b: str
    prompts_from: str
    rounds: Sequence[Comparison]
    noc_difference: Interval | None
    seconds_difference: Interval
    scenes: Sequence[Scene]

    @property
    def mean_iou(self) -> float:
        """Mean IoU of A's and B's masks over all rounds."""
        return float(np.mean([r.iou for r in self.rounds]))

    @property
    def lowest(self) -> list[Comparison]:
        """All rounds, the least similar first."""
        return sorted(self.rounds, key=lambda r: (r.iou, r.scene, r.target, r.round))

    @property
    def first_difference(self) -> dict[tuple[str, str], int]:
        """For each object with differing masks, the round in which they differ first."""
        return {(r.scene, r.target): r.round for r in reversed(self.rounds) if r.iou < 1}

    def facts(self) -> dict[str, Any]:
        ious = np.array([r.iou for r in self.rounds])
        logits = [r.logit_difference for r in self.rounds if r.logit_difference is not None]
        worst, noc = self.lowest[0], self.noc_difference
        return {
            "a": self.a,
            "b": self.b,
            "prompts": self.prompts_from,
            "objects": len({(r.scene, r.target) for r in self.rounds}),
            "rounds": len(self.rounds),
            "iou": float(ious.mean()),
            "iou_lowest": float(ious.min()),
            "identical_masks": float((ious == 1).mean()),
            "objects_that_differ": len(self.first_difference),
            "largest_logit_difference": max(logits) if logits else None,
            "largest_score_difference": max(abs(r.score_difference) for r in self.rounds),
            "noc90_difference": None if noc is None else asdict(noc),
            "seconds_per_click_difference": asdict(self.seconds_difference),
            "worst": {"scene": worst.scene, "target": worst.target, "round": worst.round},
        }

    def lines(self) -> list[str]:
        facts, worst = self.facts(), self.lowest[0]
        sentences = [
            f"{self.a} and {self.b}: mean IoU {facts['iou']:.4f} of {facts['rounds']} masks "
            f"({facts['objects']} objects), {facts['identical_masks']:.0%} identical",
            f"lowest IoU {worst.iou:.4f}: {worst.scene}, {worst.target}, round {worst.round}",
            f"largest difference of scores {facts['largest_score_difference']:.2g}",
        ]
        logits, differ = facts["largest_logit_difference"], self.first_difference
        if logits is not None:
            sentences.append(f"largest difference of logits {logits:.2g}")
        if differ:
            of = f"{len(differ)} of {facts['objects']} objects"
            sentences.append(f"masks differ on {of}, first in round {min(differ.values())}")
        gaps = [("NoC@90 (clicks), B minus A: ", self.noc_difference, 2)]
        gaps.append(("seconds per click, B minus A: ", self.seconds_difference, 4))
        sentences += [
            f"{what}{signed(gap.value, digits)} {Value.of(gap).limits(digits)}".strip()
            for what, gap, digits in gaps
            if gap is not None
        ]
        return sentences

    def report(self, to: str | Path) -> Path:
        """Write an HTML page with the numbers and the worst cases."""
        from segmeter.report.page import Page, render

        path = Path(to)
        facts = [f"prompts: {self.prompts_from}", f"{len(self.rounds)} rounds"]
        title, about = f"Parity of {self.a} and {self.b}", "The same prompts given to both models"
        page = Page(title, about, facts, [self._numbers(), self._worst()])
        write_file(path, render(page).encode())
        return path

    def _numbers(self) -> Section:
        facts = self.facts()
        rows: list[list[Any]] = [
            ["mean IoU of A's and B's masks", Value(facts["iou"])],
            ["lowest IoU", Value(facts["iou_lowest"])],
            ["share of identical masks", Value(facts["identical_masks"])],
            ["largest difference of scores", Value(facts["largest_score_difference"])],
            ["largest difference of logits", Value(facts["largest_logit_difference"])],
            ["NoC@90, B minus A (clicks)", Value.of(self.noc_difference)],
            ["seconds per click, B minus A", Value.of(self.seconds_difference)],
        ]
        table = Table("parity", [Column("quantity"), Column("value", digits=4)], rows)
        note = Note(
            "Masks are compared on the same prompts. NoC and seconds are measured with each model "
            "prompted on its own; brackets are 95 % intervals resampled by scene."
        )
        return Section("Agreement", blocks=[table, note])

    def _worst(self) -> Section:
        scenes = {scene.name: scene for scene in self.scenes}
        shown = [
            Illustration(
                scenes[r.scene].pixels,
                f"{r.scene}, {r.target}, round {r.round}: IoU {r.iou:.3f}",
                size=scenes[r.scene].shape[:2],  # type: ignore[arg-type]  # images only
                outlines=[
                    Outline(r.mask_a, "ground_truth", self.a),
                    Outline(r.mask_b, name=self.b),
                ],
                prompts=r.prompts,
            )
            for r in [r for r in self.lowest if r.iou < 1][:12]
        ]
        text = f"Dashed: {self.a}. Solid: {self.b}." if shown else "All masks are identical."
        return Section("Least similar masks", text, [Gallery(shown)] if shown else [])


def parity(
    a: Any,
    b: Any,
    dataset: Any = "mini",
    *,
    run: str | Path | None = None,
    user: str = "centre-click",
    rounds: int = 10,
    limit: int | None = None,
    seed: int = 0,
    data: str | Path | None = None,
    weights: str | Path | None = None,
    trust: bool = False,
) -> Parity:
    """Compare two models on the same prompts.

    Parameters
    ----------
    a, b
        Names, paths, addresses or objects, as for `evaluate`.
    dataset, limit
        Images to prompt A on, or only the first of them; not used with `run`.
    run, trust
        A run whose recorded prompts both models receive; let it name Python files.
    user, rounds
        Who prompts, and at most how often per object.

    Examples
    --------
    >>> found = parity("disc?radius=5", "disc?radius=5", "drawn", limit=1, rounds=2)
    >>> found.mean_iou
    1.0
    """
    models = [as_model(thing, weights) for thing in (a, b)]
    given = zip((a, b), models, strict=True)
    names = [catalogue.short(x) if isinstance(x, str) else str(m.card.name) for x, m in given]
    opened = None if run is None else open_run(run, data=data, trust=trust)
    recorded = None if opened is None else _recorded(opened)
    compared: list[Comparison] = []
    clicks: list[tuple[str, float]] = []  # scenes and differences
    seen: list[Scene] = []
    for place, scene in _scenes(opened, dataset, data, limit):
        encoded = [model.encode(scene) for model in models]
        seen.append(scene)
        for target in scene.targets:
            if recorded is not None:
                prompts = recorded.get((*place, target.id), [])
            else:
                ours, theirs = (_rounds(scene, target, e, user, rounds, seed) for e in encoded)
                prompts = [made.prompts for made in ours]
                clicks.append((scene.name, _noc(theirs, rounds) - _noc(ours, rounds)))
            compared += _compare(scene, target, encoded, prompts)
    if not compared:
        raise BadInput("nothing was compared: the data or the run holds no prompts for an image")
    source = f"{user} prompting {names[0]}" if run is None else f"those recorded in {run}"
    seconds = _mean((r.scene, r.seconds_b - r.seconds_a) for r in compared)
    noc = _mean(clicks) if clicks else None
    return Parity(names[0], names[1], source, compared, noc, seconds, seen)


def _scenes(
    run: Run | None, dataset: Any, data: str | Path | None, limit: int | None
) -> Iterator[tuple[tuple[str, str], Scene]]:
    """Images of a dataset, or of a run (with the checks of a received one), with their names."""
    if run is None:
        made = as_dataset(dataset, data)
        found = ((("", name), made.load(name)) for name in list(made.scenes())[:limit])
    else:
        found = (
            ((of, name), run.scene(of, name))
            for of in map(str, run.plan.datasets)
            for name in run.scenes(of)[:limit]
        )
    for place, scene in found:
        if scene.header.kind != "image":
            raise BadInput(f"{scene.name} is a {scene.header.kind}; parity compares images")
        yield place, scene


def _recorded(run: Run) -> dict[tuple[str, str, str], list[tuple[Prompt, ...]]]:
    """The prompts of every object's first session in a run, round by round."""
    if not {"round", "prompt"} <= {column.name for column in run.schema.columns}:
        raise BadInput(
            f"'{run.address}' ({run.plan.benchmark}) records no prompts by round; "
            "name a run whose rows are rounds of sessions"
        )
    other = [quoted(n) for n in run.schema.key if n not in ("dataset", "scene", "target", "round")]
    rows = run.sql(f"""
        select dataset, scene, target, prompt from rows where prompt is not null
        qualify dense_rank() over (
            partition by dataset, scene, target order by {", ".join(other)}
        ) = 1 order by dataset, scene, target, round
    """)
    return grouped_pairs(
        ((row["dataset"], row["scene"], row["target"]), round_from_json(row["prompt"]))
        for row in rows.to_pylist()
    )


def _rounds(
    scene: Scene, target: Target, encoded: EncodedScene, user: str, rounds: int, seed: int
) -> list[Round]:
    """Rounds of a user with a model, to the goal at most."""
    judge: Judge = lambda t, mask: {"iou": iou(t.mask, mask, t.ignore)}  # noqa: E731
    wanted = [SimulatedSession(target, as_user(user), "corrected")]
    (record,) = simulate(
        scene, encoded, wanted, rounds, judge, seed=seed, until=lambda s: s["iou"] >= GOAL
    )
    return [made for made in record.rounds if made.prompts]


def _compare(
    scene: Scene, target: Target, encoded: Sequence[EncodedScene], rounds: Sequence[Any]
) -> Iterator[Comparison]:
    """Both models on the same prompts, each with its own state."""
    sessions = [Session(scene, own) for own in encoded]
    for number, new in enumerate(rounds, 1):
        a, b = (session.step(new) for session in sessions)
        yield Comparison(
            scene.name, target.id, number, iou(a.mask, b.mask), b.model_score - a.model_score,
            _logits(*(session.last for session in sessions)), a.seconds_predict,
            b.seconds_predict, a.mask, b.mask, sessions[0].prompts,
        )  # fmt: skip


def _logits(one: Any, other: Any) -> float | None:
    """The largest difference of the logits of the shown masks, where both have them."""
    if any(getattr(prediction, "logits", None) is None for prediction in (one, other)):
        return None
    a, b = (made.logits[made.shown].float().cpu() for made in (one, other))
    return float((a - b).abs().max()) if a.shape == b.shape else None


def _noc(made: Sequence[Round], rounds: int) -> int:
    """Clicks to the goal; all rounds where it is not reached."""
    return next((n for n, one in enumerate(made, 1) if one.scores["iou"] >= GOAL), rounds)


def _mean(differences: Iterable[tuple[str, float]]) -> Interval:
    """The mean of differences, each with its scene, over which is resampled."""
    scenes, values = zip(*differences, strict=True)
    return Resampling(scenes).interval(values)


@dataclass(frozen=True, slots=True)
class FirstClicks:
    """IoU after the first clicks on an object of a scene, and the mask after the first of them.

    `followed` is whether the clicked pixel is in the mask, `swapped` whether the pixel with x and
    y exchanged is; False where that is outside of the image.
    """

    scene: str
    mask: Mask
    iou: float
    followed: bool
    swapped: bool


def first_clicks(
    model: Any, dataset: str = "mini", clicks: int = 5, images: int = 3
) -> Iterator[FirstClicks]:
    """Click on each object of the first built-in images."""
    for _, scene in _scenes(None, dataset, None, images):
        encoded = model.encode(scene)
        for target in scene.targets:
            made = _rounds(scene, target, encoded, "centre-click", clicks, 0)
            given, mask = made[0].prompts, made[0].mask
            y, x = next(p.pixel for p in given if isinstance(p, Click))
            inside = x < scene.shape[0] and y < scene.shape[1]
            followed, swapped = bool(mask[y, x]), inside and bool(mask[x, y])
            yield FirstClicks(scene.id, mask, made[-1].scores["iou"], followed, swapped)
