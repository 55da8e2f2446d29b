"""Segment Anything's points and boxes with real weights on real images, as tables.

    python perf/zeroshot.py detect --out found           detectors' boxes as COCO results
    python perf/zeroshot.py points --out runs/points     run (resumes where it stopped)
    python perf/zeroshot.py boxes --out runs/boxes --boxes found/picodet_coco80.json
    python perf/zeroshot.py tables runs/points runs/boxes
    python perf/zeroshot.py together runs/points-a runs/points-b   several runs of points as one

`--limit N` runs N images of each dataset, `--device cuda` and `--model NAME` choose.
`together` is the table of `docs/benchmarks/points.md`: models and datasets that were run as
runs of their own, and the unweighted mean over datasets with the interval of the report, images
resampled inside every dataset. `points` and `boxes` need torch, transformers and pyarrow,
`detect` needs onnxruntime, `tables` and `together` need duckdb: runs may be made on
one machine and told on another.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from segmeter.core import catalogue
from segmeter.core.benchmarks import SummaryRow
from segmeter.core.catalogue import Spec
from segmeter.evaluation import evaluate
from segmeter.models.detectors import COCO_CATEGORIES
from segmeter.store import Run

SHARED = Path(os.environ.get("SEGMETER_SHARED", "../shared"))
MODELS = ("sam2-hiera-tiny", "mobile-sam", "eiseg-hrnet18-ocr64")
SETS = ("coco80", "bbbc038", "grabcut", "berkeley", "davis", "coco-mval")
POINTS = ("iou@1", "oracle@1", "iou@2", "iou@3", "iou@5", "iou@9")
BOXES = ("ap", "ap50", "ap75", "ap-small", "ap-medium", "ap-large", "boundary-ap", "box-ap",
         "boxes-found", "mask-iou", "mask-boundary-iou")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("detect", "points", "boxes", "tables", "together"))
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--model", action="append")
    parser.add_argument("--dataset", action="append")
    parser.add_argument("--user", action="append")
    parser.add_argument("--boxes", default="ground_truth")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    {
        "detect": detect,
        "points": points,
        "boxes": boxes,
        "tables": tables,
        "together": together,
    }[asked.what](asked)


def opened(name: str) -> Any:
    """A dataset of the reference folder; `coco80` and `coco` are two parts of COCO."""
    if name == "coco80":
        return catalogue.datasets.make("coco", data=SHARED / "data" / "coco80")
    return catalogue.datasets.make(name, data=SHARED / "data")


def models(asked: argparse.Namespace, default: Sequence[str]) -> list[str]:
    made = []
    for name in asked.model or default:
        spec = Spec.parse(name)
        made.append(str(Spec(spec.name, {"device": asked.device, **spec.options})))
    return made if asked.device != "auto" else list(asked.model or default)


def points(asked: argparse.Namespace) -> None:
    evaluate(
        models(asked, MODELS),
        [opened(name) for name in asked.dataset or SETS],
        benchmark="points",
        users=asked.user or ["centre-point", "random-point"],
        out=asked.out,
        limit=asked.limit,
        weights=SHARED / "weights",
        options={"baseline": MODELS[2]} if MODELS[2] in (asked.model or MODELS) else {},
    )


def boxes(asked: argparse.Namespace) -> None:
    evaluate(
        models(asked, MODELS[:2]),
        [opened(name) for name in asked.dataset or ("coco80",)],
        benchmark="boxes",
        out=asked.out,
        limit=asked.limit,
        weights=SHARED / "weights",
        options={"boxes": asked.boxes},
    )


def detect(asked: argparse.Namespace) -> None:
    """Detectors' boxes with the data's own class numbers; LVIS's are found by name."""
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in asked.dataset or ("coco80",):
        data = opened(name)
        numbers = lvis_numbers() if name == "lvis" else {n: n for n in COCO_CATEGORIES}
        for entry in catalogue.detectors:
            detector = catalogue.detectors.make(entry.name, weights=str(SHARED / "weights"))
            found = []
            for scene in data.scenes()[: asked.limit]:
                loaded = data.load(scene)
                found += [
                    {"image_id": loaded.detection_ground_truth.image,
                     "category_id": numbers[d.category],
                     "bbox": [round(n, 2) for n in d.xywh], "score": round(d.score, 4)}
                    for d in detector.detect(loaded.pixels) if d.category in numbers
                ]  # fmt: skip
            file = asked.out / f"{entry.name}_{name}.json"
            file.write_text(json.dumps(found))
            print(f"{file}: {len(found)} boxes")


def lvis_numbers() -> dict[int, int]:
    """COCO's class numbers as LVIS's, where LVIS has a class of that name or a synonym of it."""
    folder = SHARED / "data" / "coco" / "annotations"
    coco, lvis = (
        json.loads(next(folder.glob(f"{start}*val*.json")).read_text())["categories"]
        for start in ("instances", "lvis")
    )
    known = {plain(word): c["id"] for c in lvis for word in (c["name"], *c.get("synonyms", ()))}
    return {c["id"]: known[plain(c["name"])] for c in coco if plain(c["name"]) in known}


def plain(name: str) -> str:
    return name.replace("_", "").replace(" ", "").lower()


def tables(asked: argparse.Namespace) -> None:
    for place in asked.runs:
        run = Run.open(place)
        rows = run.summary()
        shown = [m for m in (*POINTS, *BOXES) if any(r.statistic == m for r in rows)]
        print(f"\n{place}\n")
        print(f"| model | data | by | reading | masks | {' | '.join(shown)} |")
        print("|---|---|---|---|---:|" + "---:|" * len(shown))
        for who in dict.fromkeys((r.model, r.dataset, r.user, r.protocol) for r in rows):
            mine = {r.statistic: r for r in rows if (r.model, r.dataset, r.user, r.protocol) == who}
            masks = max(r.targets for r in mine.values())
            print(f"| {' | '.join(who)} | {masks} | " + " | ".join(
                told(mine.get(m)) for m in shown) + " |")  # fmt: skip


def together(asked: argparse.Namespace) -> None:
    """Every run's sessions in one table; of duplicates the fuller run counts."""
    from segmeter.benchmarks.zeroshot.points.statistics import ALL, STATISTICS, with_means
    from segmeter.core.scores_by_step import Tables
    from segmeter.stats.statistics import summary_of

    groups: dict[tuple[str, ...], Tables] = {}
    for place in asked.runs:
        for group in Tables.load(Run.open(place), ["iou", "oracle_iou"]):
            key = (group.dataset, group.user, group.protocol, group.model)
            if key not in groups or len(group.keys) > len(groups[key].keys):
                groups[key] = group
    rows: dict[tuple[str, ...], dict[str, SummaryRow]] = {}
    for row in summary_of(with_means(list(groups.values())), STATISTICS):
        rows.setdefault((row.dataset, row.user, row.protocol, row.model), {})[row.statistic] = row
    print(f"| data | first point | reading | model | masks | {' | '.join(POINTS)} |")
    print("|---|---|---|---|---:|" + "---:|" * len(POINTS))
    for (data, user, protocol, model), mine in sorted(rows.items(), key=lambda r: r[0][0] == ALL):
        sets = sum(key[1:] == (user, protocol, model) for key in groups)
        name = f"**unweighted**, {sets} sets" if data == ALL else data
        masks = max(row.targets for row in mine.values())
        cells = " | ".join(told(mine.get(measure)) for measure in POINTS)
        print(f"| {name} | {user} | {protocol} | {model} | {masks} | {cells} |")


def told(row: SummaryRow | None) -> str:
    if row is None:
        return ""
    half = (row.high - row.low) / 2
    return f"{row.value:.1f}" if half != half else f"{row.value:.1f} ± {half:.1f}"


if __name__ == "__main__":
    main()
