"""The table of docs/benchmarks/volumes.md, from runs of the benchmark `volumes`.

    python perf/volume_tables.py hippocampus=RUN1 'spleen crop=RUN2' ... [--protocol corrected]

Each RUN is a run's folder, or a file with what `segmeter report RUN --json` prints of it. A
column is a run, a row a user with a model: Dice in percent, with its interval over patients
where the run has more than two objects. Interactions are those of the first run. Prints Markdown.
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
    "scribble-refinement?start=point-interpolation&n=5",
    "scribble-refinement?start=box-interpolation&n=3",
)
MODELS = ("litemedsam", "sam2-hiera-tiny", "mobile-sam")
Found = dict[tuple[str, str, str], dict[str, Any]]


def read(source: str, protocol: str) -> Found:
    """Dice and interactions of a run, by user, model and measure."""
    path = Path(source)
    if path.is_dir():
        command = [sys.executable, "-m", "segmeter", "report", source, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        told = json.loads(done.stdout)
    else:
        told = json.loads(path.read_text())
    return {
        (plain(row["user"]), row["model"], row["measure"]): row
        for row in told["rows"]
        if row["protocol"] == protocol and row["measure"] in ("dice", "interactions")
    }


def plain(user: str) -> str:
    """A user's name in a run as it is asked for: what is said anyway left out."""
    name, _, options = user.partition("?")
    kept = sorted(o for o in options.split("&") if o and o not in ("earlier=keep", "centre=box"))
    return f"{name}?{'&'.join(kept)}" if kept else name


def cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if row["low"] is None or row["targets"] <= 2:  # two patients tell nothing of a third
        return f"{row['value']:.1f}"
    return f"{row['value']:.1f} ({row['low']:.1f} to {row['high']:.1f})"


def label(user: str) -> str:
    name, _, options = user.partition("?")
    if name != "scribble-refinement":
        return f"`{user}`"
    given = dict(option.split("=") for option in options.split("&"))
    return f"`{given['start']}?n={given['n']}`, then five scribbles"


def table(titles: Sequence[str], runs: Sequence[Found]) -> Iterator[str]:
    yield f"| user | interactions ({titles[0]}) | model | {' | '.join(titles)} |"
    yield "|---|---:|---|" + "---:|" * len(titles)
    for user in USERS:
        for model in MODELS:
            cells = [cell(run.get((plain(user), model, "dice"))) for run in runs]
            spent = runs[0].get((plain(user), model, "interactions"))
            if any(cells):
                count = f"{spent['value']:.0f}" if spent else ""
                yield f"| {label(user)} | {count} | {model} | {' | '.join(cells)} |"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    asked.add_argument("runs", nargs="+", metavar="TITLE=RUN")
    asked.add_argument("--protocol", default="corrected")
    given = asked.parse_args()
    pairs = [text.partition("=")[::2] for text in given.runs]
    runs = [read(source, given.protocol) for _, source in pairs]
    print("\n".join(table([title for title, _ in pairs], runs)))


if __name__ == "__main__":
    main()
