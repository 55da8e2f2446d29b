"""`segmeter train`: train parts of a model with simulated annotators."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

import segmeter
from segmeter.cli._options import Data, OneDataset, OneModel, Seed, Weights, in_panel, out_option
from segmeter.cli._printing import progress_line
from segmeter.cli.app import command_group

group = command_group("train", "Train models with simulated annotators.")

_training, _testing = in_panel("Training"), in_panel("Validation and test")


Steps = Annotated[int, _training(min=1, help="Maximum number of steps.")]
Validation = Annotated[float, _testing(help="Share of images held out for validation.")]
Also = Annotated[list[str] | None, _testing(help="Also test on this dataset.")]


@group.command("decoder")
def decoder(
    model: OneModel,
    dataset: OneDataset,
    out: Annotated[Path, out_option("Folder for weights and state.")],
    user: Annotated[
        str, Option("--user", "-u", help="Simulated user to train with.")
    ] = "centre-click",
    data: Data = None,
    weights: Weights = None,
    steps: Steps = 400,
    batch: Annotated[int, _training(min=1, help="Objects per step.")] = 16,
    rounds: Annotated[int, _training(min=1, help="Prompts per object.")] = 6,
    learning_rate: Annotated[float, _training(help="Peak learning rate.")] = 1e-4,
    validation: Validation = 0.2,
    test_fraction: Annotated[float, _testing(help="Share of images held out for testing.")] = 0.0,
    test_user: Annotated[list[str] | None, _testing(help="Also test with this user.")] = None,
    also: Also = None,
    every: Annotated[int, _testing(min=1, help="Steps between validations.")] = 50,
    patience: Annotated[
        int, _testing(min=1, help="Stop after this many validations without improvement.")
    ] = 4,
    seed: Seed = 0,
) -> None:
    """Fine-tune the mask decoder of a SAM with a simulated annotator.

    The image encoder is frozen. Interrupt it at any time; the same command resumes it. Use the
    result as `--model mobile-sam?weights=OUT/model.safetensors`.

    Example: `segmeter train decoder -m mobile-sam -d FOLDER -o OUT --test-fraction 0.3`
    """
    made = segmeter.train_decoder(
        model, dataset, out=out, user=user, validation=validation, test=test_fraction,
        test_users=test_user or (), also=also or (), data=data, weights=weights, steps=steps,
        batch=batch, rounds=rounds, rate=learning_rate, seed=seed, validate_every=every,
        patience=patience, progress=_progress,
    )  # fmt: skip
    first, best = made.history[0], min(made.history, key=lambda row: row["noc"])
    typer.echo(
        f"validation NoC {first['noc']:.2f} before, {best['noc']:.2f} at step {made.best_step}"
    )
    for change in made.changes:
        low, high = change.difference.low, change.difference.high
        typer.echo(
            f"{change.dataset}, {change.user}: NoC {change.before:.2f} -> {change.after:.2f}, "
            f"difference {change.difference.value:+.2f} [{low:+.2f}, {high:+.2f}] "
            f"({change.objects} objects, {change.images} images)"
        )
    typer.echo(f"weights written to {made.weights}")


def _progress(progress: Any) -> None:
    """A line per validation, and every step on a terminal."""
    minutes, seconds = divmod(round(progress.seconds_left), 60)
    line = f"step {progress.step} of {progress.steps}, loss {progress.loss:.3f}"
    if progress.noc is not None:
        line += f", validation NoC {progress.noc:.2f} (best {progress.best:.2f})"
    line += f", at most {minutes} min {seconds:02d} s left"
    progress_line(line, lasting=progress.noc is not None)
