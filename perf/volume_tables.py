"""The tables of docs/benchmarks/volumes.md: runs of the benchmark `volumes` and their Dice.

    python perf/volume_tables.py --data MEDICAL --weights WEIGHTS --out OUT    # runs, then prints
    python perf/volume_tables.py --out OUT                                     # prints only

MEDICAL has one folder per dataset. Two runs are made in OUT, and made again from where they
stopped: `upright` with all users, and `rotated` with those that draw nothing at random, on copies
of the volumes whose headers are rotated by 180 degrees around the body axis, so that networks see
the back at the top. Prints Markdown: Dice of all users with 95 % intervals, and what the
rotation changes. Each run's `report --json` is left in OUT as well.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

USERS = (
    "points-per-slice?n=1",
    "points-per-slice?n=5",
    "point-interpolation?n=5",
    "point-propagation",
    "box-per-slice",
    "boxes-from-3d-box",
    "box-interpolation?n=3",
    "box-interpolation?n=5",
    "box-propagation",
    "scribble-refinement?n=5&start=point-interpolation",
    "scribble-refinement?n=3&start=box-interpolation",
)
EXACT = tuple(user for user in USERS if user.startswith("box"))
MODELS = ("litemedsam", "sam2-hiera-tiny", "mobile-sam")
TITLES = {
    "MSD_Hippocampus": "hippocampus",
    "MSD_Spleen_crop": "spleen crop",
    "MSD_Spleen": "spleen",
    "SCT_spinal_cord": "spinal cord",
    "TotalSegmentator_example": "TotalSeg. small",
    "TotalSegmentator_CT512": "TotalSeg. 512",
}
Found = dict[tuple[str, str, str, str], dict[str, Any]]


def rotate_headers(data: Path, out: Path) -> None:
    """Copies of all volumes whose x and y axes point the other way; voxels stay."""
    import nibabel
    import numpy as np

    for name in TITLES:
        for path in sorted((data / name).rglob("*.nii.gz")):
            target = out / path.relative_to(data)
            target.parent.mkdir(parents=True, exist_ok=True)
            image: Any = nibabel.load(path)
            affine = np.diag([-1.0, -1.0, 1.0, 1.0]) @ image.affine
            made = nibabel.Nifti1Image(np.asanyarray(image.dataobj), affine)
            made.to_filename(target)


def evaluate(
    data: Path, weights: Path, run: Path, users: Sequence[str], models: Sequence[str]
) -> None:
    """Run the benchmark on all datasets; the same call resumes it."""
    command = [sys.executable, "-m", "segmeter", "run", "volumes", "--protocol", "corrected"]
    command += ["--weights", str(weights), "--out", str(run)]
    command += [part for model in models for part in ("--model", model)]
    command += [part for name in TITLES for part in ("--dataset", str(data / name))]
    command += [part for user in users for part in ("--user", user)]
    subprocess.run(command, check=True)


def read(run: Path) -> Found:
    """Dice and interactions of a run by dataset, user, model and measure.

    Reports of other machines are read as well: `upright-2.json` next to `upright`.
    """
    if run.is_dir():
        command = [sys.executable, "-m", "segmeter", "report", str(run), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        run.with_suffix(".json").write_text(done.stdout)
    reports = sorted(run.parent.glob(f"{run.name}*.json"))
    return {
        (Path(row["dataset"]).name, plain(row["user"]), row["model"], row["statistic"]): row
        for report in reports
        for row in json.loads(report.read_text())["rows"]
        if row["statistic"] in ("dice", "interactions")
    }


def plain(user: str) -> str:
    """A user's name without the options that are its defaults, the others sorted."""
    name, _, options = user.partition("?")
    kept = sorted(o for o in options.split("&") if o and o not in ("earlier=keep", "centre=box"))
    return f"{name}?{'&'.join(kept)}" if kept else name


def cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    limits = "" if row["low"] is None else f" ({row['low']:.1f} to {row['high']:.1f})"
    return f"{row['value']:.1f}{limits}"


def label(user: str) -> str:
    name, _, options = user.partition("?")
    if name != "scribble-refinement":
        return f"`{user}`"
    given = dict(option.split("=") for option in options.split("&"))
    return f"`{given['start']}?n={given['n']}`, then five scribbles"


def table(upright: Found) -> Iterator[str]:
    first = next(iter(TITLES))
    yield f"| user | interactions ({TITLES[first]}) | model | {' | '.join(TITLES.values())} |"
    yield "|---|---:|---|" + "---:|" * len(TITLES)
    for user in USERS:
        for model in MODELS:
            cells = [cell(upright.get((name, plain(user), model, "dice"))) for name in TITLES]
            spent = upright.get((first, plain(user), model, "interactions"))
            if any(cells):
                count = f"{spent['value']:.0f}" if spent else ""
                yield f"| {label(user)} | {count} | {model} | {' | '.join(cells)} |"


def differences(upright: Found, rotated: Found) -> Iterator[str]:
    """Dice with the front at the top less Dice with the back at the top."""
    yield f"| user | model | {' | '.join(TITLES.values())} |"
    yield "|---|---|" + "---:|" * len(TITLES)
    for user in EXACT:
        for model in MODELS:
            keys = [(name, plain(user), model, "dice") for name in TITLES]
            pairs = [(upright.get(key), rotated.get(key)) for key in keys]
            cells = [f"{a['value'] - b['value']:+.1f}" if a and b else "" for a, b in pairs]
            yield f"| {label(user)} | {model} | {' | '.join(cells)} |"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    asked.add_argument("--data", type=Path)
    asked.add_argument("--weights", type=Path, default=Path("weights"))
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--model", action="append", choices=MODELS, dest="models")
    given = asked.parse_args()
    upright, rotated = given.out / "upright", given.out / "rotated"
    if given.data:
        rotate_headers(given.data, given.out / "rotated-data")
        models = given.models or MODELS
        evaluate(given.data, given.weights, upright, USERS, models)
        evaluate(given.out / "rotated-data", given.weights, rotated, EXACT, models)
    print("\n".join(table(read(upright))))
    print()
    print("\n".join(differences(read(upright), read(rotated))))


if __name__ == "__main__":
    main()
