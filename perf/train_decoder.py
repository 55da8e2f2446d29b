"""Fine-tuning MobileSAM's decoder with simulated annotators: NoC before and after, as tables.

    python perf/train_decoder.py --data ../shared/data --weights ../shared/weights --device cuda

Trains one decoder per annotator on BBBC038 nuclei (training, validation and test images are
different) and measures clicks to 90 % IoU on the test images and on data that was not trained on,
with every annotator: the cross table of docs/training.md. `--folds 3` repeats it with three
disjoint sets of test images, so that every image is tested once. Needs torch, safetensors,
OpenCV and scikit-image; no DuckDB.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import segmeter
from segmeter.core import catalogue
from segmeter.core.scenes import Scene
from segmeter.core.seeds import generator
from segmeter.training.decoder_training import (
    DecoderSettings,
    NocChange,
    Progress,
    clicks_needed,
    encoded_scenes,
    noc_change,
    train,
)

USERS = ("centre-click", "clicking-group?group=3")
NOTHING = "nothing"
Counts = dict[tuple[str, str], int]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--weights", type=Path, default=Path("../shared/weights"))
    parser.add_argument("--model", default="mobile-sam")
    parser.add_argument("--dataset", default="bbbc038")
    parser.add_argument("--also", action="append", help="other data to test on (grabcut)")
    parser.add_argument("--user", action="append", help="annotators to train and test with")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--every", type=int, default=25)
    parser.add_argument("--patience", type=int, default=4)
    parser.add_argument("--clicks", type=int, default=20, help="most clicks of a test")
    parser.add_argument("--limit", type=int, help="only so many images and objects of each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="keep weights and states here")
    asked = parser.parse_args()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        experiment(asked, asked.out or Path(place))
    print(f"{time.perf_counter() - begun:.0f} s in all")


def experiment(asked: argparse.Namespace, out: Path) -> None:
    users = [catalogue.users.make(name) for name in asked.user or USERS]
    scenes = opened(asked.dataset, asked)
    order = [scenes[i] for i in generator(asked.seed, "folds").permutation(len(scenes))]
    others = {name: opened(name, asked) for name in asked.also or ["grabcut"]}
    tested = max(1, len(order) // max(3, asked.folds))
    counts: dict[tuple[str, str, str], Counts] = {}
    for fold in range(asked.folds):
        test = order[fold * tested : (fold + 1) * tested]
        rest = [scene for scene in order if scene not in test]
        many = max(1, len(rest) // 4)
        print(
            f"fold {fold + 1}: {len(rest) - many} training, {many} validation and {len(test)} test "
            f"images ({sum(len(s.targets) for s in rest[many:])}, "
            f"{sum(len(s.targets) for s in rest[:many])} and {sum(len(s.targets) for s in test)} "
            "objects)",
            flush=True,
        )
        tests = {asked.dataset: test, **(others if fold == 0 else {})}
        for trained in (None, *users):
            model = made(asked)
            if trained is not None:
                fit(model, trained, rest[many:], rest[:many], asked, out / f"{fold}-{trained.name}")
            name = NOTHING if trained is None else trained.name
            for dataset, own in tests.items():
                encoded = encoded_scenes(model, own)
                for user in users:
                    settings = DecoderSettings(most_clicks=asked.clicks, seed=asked.seed)
                    found = clicks_needed(encoded, user, settings)
                    counts.setdefault((name, dataset, user.name), {}).update(found)
    table(counts, [NOTHING, *(user.name for user in users)])


def made(asked: argparse.Namespace) -> Any:
    return segmeter.load_model(asked.model, asked.weights, device=asked.device)


def opened(name: str, asked: argparse.Namespace) -> list[Scene]:
    found = segmeter.load_dataset(name, asked.data)
    scenes = [found.load(scene) for scene in found.scenes()][: asked.limit]
    if asked.limit is None:
        return scenes
    return [
        segmeter.Image(s.dataset, s.id, s.pixels, list(s.targets)[: asked.limit]) for s in scenes
    ]


def fit(
    model: Any,
    user: Any,
    learn: Sequence[Scene],
    validate: Sequence[Scene],
    asked: argparse.Namespace,
    out: Path,
) -> None:
    settings = DecoderSettings(
        steps=asked.steps,
        batch=asked.batch,
        rounds=asked.rounds,
        rate=asked.rate,
        validate_every=asked.every,
        patience=asked.patience,
        most_clicks=asked.clicks,
        seed=asked.seed,
    )

    def tell(progress: Progress) -> None:
        if progress.noc is not None:
            print(
                f"  {user.name}: step {progress.step}, loss {progress.loss:.3f}, validation NoC "
                f"{progress.noc:.2f} (best {progress.best:.2f})",
                flush=True,
            )

    begun = time.perf_counter()
    first, second = (encoded_scenes(model, p, out / "embeddings") for p in (learn, validate))
    done = train(model, user, first, second, settings, out, tell)
    before = done.history[0]["noc"]
    print(
        f"  {user.name}: validation NoC {before:.2f} before, best at step {done.best_step}, "
        f"{time.perf_counter() - begun:.0f} s",
        flush=True,
    )


def table(counts: dict[tuple[str, str, str], Counts], trained: Sequence[str]) -> None:
    """NoC@90 by training annotator (rows) and by dataset and test annotator (columns)."""
    columns = list(dict.fromkeys((dataset, user) for _, dataset, user in counts))
    changes: dict[tuple[str, tuple[str, str]], NocChange] = {
        (name, column): noc_change(*column, counts[NOTHING, *column], counts[name, *column])
        for name in trained
        for column in columns
    }
    first = {column: changes[NOTHING, column] for column in columns}
    heads = [f"{d}, {u} ({c.objects} objects, {c.images} images)" for (d, u), c in first.items()]
    print("\n| trained with | " + " | ".join(heads) + " |")
    print("|---|" + "---|" * len(heads))
    for name in trained:
        cells = []
        for column in columns:
            change = changes[name, column]
            far = change.difference
            paired = f" ({far.value:+.2f} [{far.low:+.2f}, {far.high:+.2f}])"
            cells.append(f"{change.after:.2f}" + ("" if name == NOTHING else paired))
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()


if __name__ == "__main__":
    main()
