"""Provenance: missing results of a run, and the plan, weights, data and commands behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from segmeter.core.benchmarks import Results
from segmeter.core.errors import SegmeterError
from segmeter.core.plans import Plan, display_names
from segmeter.core.sections import Column, Note, Section, Table

_FEW = 6
_LIBRARIES = (
    "segmeter",
    "python",
    "numpy",
    "scipy",
    "opencv-python-headless",
    "torch",
    "transformers",
    "pyarrow",
)


def missing(run: Results) -> Section:
    """Every result that should be there and is not, by name."""
    failed = run.sql("select model, dataset, scene, error from errors order by all").to_pylist()
    names = display_names(run.plan.datasets)
    rows = [
        [r["model"], f"{names.get(r['dataset'], r['dataset'])}/{r['scene']}", r["error"]]
        for r in failed
    ]
    lacking = _not_run(run, {(r["model"], r["dataset"], r["scene"]) for r in failed})
    rows += [
        [
            model,
            f"{names.get(dataset, dataset)}: {_named(scenes)}",
            "not run yet; the same command resumes the run",
        ]
        for (model, dataset), scenes in lacking.items()
    ]
    rows += [["", part, _damage(part, why)] for part, why in run.damaged.items()]
    if not rows:
        segmenters = "model" if run.plan.kind == "model" else "method"
        return Section("Missing results", f"None: every scene has a result for every {segmenters}.")
    known = len(failed) + sum(map(len, lacking.values()))
    count = max(known, _jobs_without_rows(run)) if run.damaged else known
    results = (
        "1 result is missing and counts" if count == 1 else f"{count} results are missing and count"
    )
    columns = [Column("model"), Column("scene"), Column("why")]
    return Section(
        "Missing results",
        blocks=[
            Note(f"{results} in no number on this page.", "warning"),
            Table("missing", columns, rows),
        ],
    )


def provenance(run: Results) -> Section:
    """Plan, models, data, commands and machines."""
    blocks = [_plan_table(run), _segmenter_table(run), _data_table(run), _command_table(run)]
    text = "The same plan, weights and data give the same scores, whatever the number of workers."
    return Section("Provenance", text, blocks, folded=True)


def _not_run(run: Results, failed: set[tuple[str, str, str]]) -> dict[tuple[str, str], list[str]]:
    """Scenes without rows or error, by model and data set."""
    known = run.sql(
        f"select distinct model, dataset, scene from {run.objects} order by all"
    ).to_pylist()
    done = failed | {(r["model"], r["dataset"], r["scene"]) for r in known}
    lacking: dict[tuple[str, str], list[str]] = {}
    for dataset in map(str, run.plan.datasets):
        begun = {scene for _, name, scene in done if name == dataset}
        try:
            scenes = run.scenes(dataset)
        except SegmeterError:  # without the data, what others have is what can be known
            scenes = sorted(begun)
        for segmenter in map(str, run.plan.segmenters):
            left = [s for s in scenes if (segmenter, dataset, s) not in done]
            if left:
                lacking[segmenter, dataset] = left
    return lacking


def _jobs_without_rows(run: Results) -> int:
    """By the count of the last command: a damaged compacted file may be all that names a scene."""
    noted = [entry["jobs"] for entry in run.provenance.get("commands", []) if "jobs" in entry]
    (found,) = run.sql(
        f"select count(distinct (model, dataset, scene)) as jobs from {run.objects}"
    ).to_pylist()
    return noted[-1] - found["jobs"] if noted else 0


def _damage(part: str, why: str) -> str:
    jobs = "what is left out" if "/compacted-" in part else "its job"
    return f"damaged ({why}); the same command runs {jobs} again"


def _named(scenes: Sequence[str]) -> str:
    """A few names, and how many more."""
    if len(scenes) <= _FEW:
        return ", ".join(scenes)
    return f"{', '.join(scenes[:_FEW])} and {len(scenes) - _FEW} more"


def _plan_table(run: Results) -> Table:
    plan = run.plan
    facts = {
        "plan": plan.id,
        "benchmark": plan.benchmark,
        "users": ", ".join(map(str, plan.users)),
        "rounds": str(plan.rounds),
        "protocols": ", ".join(plan.protocols),
        "measures": ", ".join(plan.measures),
        "seed": str(plan.seed),
        "threads per worker": str(plan.threads),
        "scenes": _scenes(plan),
        **{key: str(value) for key, value in plan.options.items()},
    }
    rows = [[key, value] for key, value in facts.items() if value]
    return Table("plan", [Column("setting"), Column("value")], rows, "Plan")


def _segmenter_table(run: Results) -> Table:
    """Weights, device and licence of each model; empty columns are left out."""
    provenances: Mapping[str, Mapping[str, str]] = run.provenance.get("segmenters", {})
    names = list(dict.fromkeys(key for provenance in provenances.values() for key in provenance))
    own = [n for n in names if n not in _LIBRARIES and any(t.get(n) for t in provenances.values())]
    rows = [
        [name, *(provenance.get(n, "") for n in own)] for name, provenance in provenances.items()
    ]
    columns = [Column(run.plan.kind), *(Column(n) for n in own)]
    return Table("segmenters", columns, rows, "Models" if run.plan.kind == "model" else "Methods")


def _data_table(run: Results) -> Table:
    """Scenes of each data set, and targets where rows are of targets."""
    known = run.sql(f"select * from {run.objects} limit 0").column_names
    counts = {"scenes": "scene", "targets": "(scene, target)"}
    if "target" not in known:
        del counts["targets"]
    chosen = ", ".join(f"count(distinct {what}) as {name}" for name, what in counts.items())
    counted = run.sql(
        f"select dataset, {chosen} from {run.objects} group by all order by all"
    ).to_pylist()
    rows = [
        [r["dataset"], *(r[name] for name in counts), run.plan.fingerprints.get(r["dataset"], "")]
        for r in counted
    ]
    numbers = [Column(name, digits=0) for name in counts]
    return Table("data", [Column("data set"), *numbers, Column("fingerprint")], rows, "Data")


def _command_table(run: Results) -> Table:
    rows = [
        [entry.get("at", ""), _typed(entry.get("command", "")), _machine(entry), _versions(entry)]
        for entry in run.provenance.get("commands", [])
    ]
    columns = [Column("when"), Column("command"), Column("machine"), Column("libraries")]
    return Table("commands", columns, rows, "Commands and machines")


def _typed(command: str) -> str:
    """A command as it was typed: the program by its name, not by where it is installed."""
    program, _, words = command.partition(" ")
    return f"{PurePath(program).name} {words}".strip()


def _machine(entry: Mapping[str, Any]) -> str:
    machine = entry.get("machine", {})
    return ", ".join(
        f"{value} cores" if key == "cores" else str(value) for key, value in machine.items()
    )


def _versions(entry: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in entry.get("libraries", {}).items())


def _scenes(plan: Plan) -> str:
    """Which scenes of each data set were used."""
    drawn = "" if plan.sample is None else f"a random sample of {plan.sample} of each data set"
    first = "" if plan.limit is None else f"the first {plan.limit} of each data set"
    return ", then ".join(filter(None, (drawn, first))) or "all"
