"""The paper's own tables, read from files, and what they say when read again."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rclicks_simulated_nulls import (
    NullModel,
    Profile,
    null_steps,
    null_trials,
    under_the_null,
)
from segmeter.core.errors import BadInput

__all__ = ["Cell", "Conclusion", "judge_cell", "noc_cells", "similarity_means"]

TARGETS = {"GrabCut": 50, "Berkeley": 100, "DAVIS": 345, "COCO-MVal": 800, "TETRIS": 2531}
EFFECTS = ("dsb", "dgr", "dhh")
_SIMILARITY = ("l1", "ks2d", "wasserstien", "nss", "pde")


@dataclass(frozen=True, slots=True)
class Cell:
    """One model on one dataset in Table 9: clicks and percent, as printed."""

    model: str
    dataset: str
    sample: float
    std: float
    base: float
    dsb: float
    dgr: float
    dhh: float
    failures: float = 0.0

    @property
    def ratio(self) -> float:
        """Relative increase over the robot by the means in the same row, %."""
        return 100 * (self.sample / self.base - 1)

    @property
    def profile(self) -> Profile:
        return Profile(TARGETS[self.dataset], self.sample, self.std, self.failures)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """An effect as printed, and the middle 95 % of what two distributions without effect give."""

    printed: float
    steps: tuple[float, float, float]
    trials: tuple[float, float, float]

    @property
    def nothing(self) -> bool:
        """No larger than the milder distribution's upper limit."""
        return self.printed <= self.steps[2]

    @property
    def doubtful(self) -> bool:
        """Larger than one distribution gives, not larger than the other."""
        return not self.nothing and self.printed <= max(self.steps[2], self.trials[2])


def noc_cells(folder: Path) -> list[Cell]:
    """Table 9 with the failures of Table 10 where they are known."""
    failures = {
        _who(row): float(row["base_nof"])
        for row in _rows(folder / "paper_table10_nof_partial.csv")
        if row["base_nof"]
    }
    return [
        Cell(
            " ".join(filter(None, _who(row)[:3])),
            row["dataset"],
            float(row["sample_noc"]),
            float(row["sample_std"]),
            float(row["base_noc"]),
            float(row["delta_sb_pct"]),
            float(row["delta_gr_pct"]),
            float(row["delta_hh_pct"]),
            failures.get(_who(row), 0.0),
        )
        for row in _rows(folder / "paper_table09_noc.csv")
    ]


def judge_cell(cell: Cell, repetitions: int = 100) -> dict[str, Conclusion]:
    """Each printed effect, and the one expected by chance at the printed mean and spread."""
    limits = [
        _limits(law(cell.profile), repetitions, (cell.model, cell.dataset))
        for law in (null_steps, null_trials)
    ]
    return {
        name: Conclusion(getattr(cell, name), limits[0][name], limits[1][name]) for name in EFFECTS
    }


def similarity_means(path: Path) -> dict[str, dict[str, float]]:
    """Click similarity by model: the mean over all keys of a `*_per_image.csv`, all three
    kinds of clicks together, as the paper's `*_mean.csv` has it."""
    found: dict[str, list[list[float]]] = {}
    for row in _rows(path):
        found.setdefault(row["model_name"], []).append([float(row[m]) for m in _SIMILARITY])
    return {
        model: dict(zip(_SIMILARITY, map(float, np.mean(values, axis=0)), strict=True))
        for model, values in found.items()
    }


def _limits(
    chance_draws: NullModel, repetitions: int, seed: object
) -> dict[str, tuple[float, float, float]]:
    """Lower limit, mean and upper limit of each effect in percent."""
    names = tuple(f"{name}-noc" for name in EFFECTS)
    values = under_the_null(
        chance_draws.draw, chance_draws.profile.targets, repetitions, seed, names
    )
    made = {}
    for name, several in values.items():
        low, high = np.quantile(several, [0.025, 0.975])
        made[name.removesuffix("-noc")] = (
            float(100 * low),
            float(100 * several.mean()),
            float(100 * high),
        )
    return made


def _who(row: dict[str, str]) -> tuple[str, ...]:
    return row["method"], row["backbone"], row["train_data"], row["dataset"]


def _rows(path: Path) -> Sequence[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise BadInput(f"table '{path}' cannot be read: {error.strerror}") from None
