"""Provenance: missing results of a run, and the plan, weights, data and commands behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

from segmeter.core import catalogue
from segmeter.core.benchmarks import Results, once_per_run
from segmeter.core.catalogue import short
from segmeter.core.citations import entries, sources
from segmeter.core.errors import SegmeterError
from segmeter.core.grouping import grouped_pairs
from segmeter.core.measures import Measure
from segmeter.core.plans import display_names
from segmeter.core.received_runs import received
from segmeter.core.sections import Column, Note, Section, Table
from segmeter.core.seeds import fingerprint
from segmeter.core.wording import counted, joined, some
from segmeter.report.exports import latex_text
from segmeter.store import Run

_FEW = 6


@dataclass(frozen=True, slots=True)
class _Finished:
    model: str
    dataset: str
    scene: str


_LIBRARIES = (
    "segmeter", "python", "numpy", "scipy", "opencv-python-headless", "torch", "transformers",
    "pyarrow",
)  # fmt: skip


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
            f"{names.get(dataset, dataset)}: {some(scenes, _FEW)}",
            "not run yet; the same command resumes the run",
        ]
        for (model, dataset), scenes in lacking.items()
    ]
    for part, why in run.damaged.items():
        jobs = "the jobs left out" if "/compacted-" in part else "its job"
        rows.append(["", part, f"damaged ({why}); the same command runs {jobs} again"])
    if not rows:
        segmenters = "model" if run.plan.kind == "model" else "method"
        return Section("Missing results", f"None: every scene has a result for every {segmenters}.")
    known = len(failed) + sum(map(len, lacking.values()))
    count = max(known, _jobs_without_rows(run)) if run.damaged else known
    results = "1 result is missing and is" if count == 1 else f"{count} results are missing and are"
    note = Note(f"{results} not part of any number on this page.", "warning")
    table = Table("missing", [Column("model"), Column("scene"), Column("why")], rows)
    return Section("Missing results", blocks=[note, table])


def rounds_text(run: Results) -> str:
    """Number of prompted rounds: one for users who prompt once, whatever the plan allows."""
    most = run.plan.rounds
    if most == 1 or run.objects != "sessions" or "stopped" not in run.columns():
        return counted(most, "round")
    found = run.sql("""
        select max(round) as made
        from (select "user", unnest(stopped) as stopped, generate_subscripts(stopped, 1) as round
              from sessions)
        where not stopped or round = 1 group by "user" order by "user"
    """)["made"].to_pylist()
    if not found or 1 not in found:
        return counted(most, "round")
    return "1 round" if max(found) == 1 else f"1 to {most} rounds"


def unfinished(run: Run) -> list[str]:
    """A sentence for each dataset of which models lack scenes; none for a complete run.

    Each of several runs is compared with its own plan; scenes that another run has count as done.
    """
    together = _with_rows(run)
    models: dict[str, list[str]] = {}  # by what they lack
    for part, labels in run.parts():
        names = display_names(part.plan.datasets)
        not_run = _not_run(part, set())
        errors = part.errors() if not_run else []
        failed = {(r["model"], r["dataset"], r["scene"]) for r in errors}
        for (model, dataset), lacking in not_run.items():
            label = labels.get(model, model)
            scenes = [scene for scene in lacking if (label, dataset, scene) not in together]
            if not scenes:
                continue
            total = len(_all_scenes(part, dataset, _with_rows(part)))
            broken = sum((model, dataset, scene) in failed for scene in scenes)
            jobs = [fingerprint(model, dataset, scene, size=10) for scene in scenes]
            damaged = sum(any(job in file for file in part.damaged) for job in jobs)
            counts = {"failed": broken, "in a damaged file": damaged}
            counts["not run yet"] = len(scenes) - broken - damaged
            whys = [f"{n} {why}" for why, n in counts.items() if n > 0]
            why = whys[0].partition(" ")[2] if len(whys) == 1 else ", ".join(whys)
            remedy = "see 'Missing results' in the report" if why == "failed" else (
                "the same command resumes the run")  # fmt: skip
            lack = f"no result for {len(scenes)} of {total} scenes of {names.get(dataset, dataset)}"
            lack += f": {some(scenes, _FEW)} ({why}; {remedy})."
            models.setdefault(lack, []).append(short(label))
    return [
        f"Unfinished: {joined(found)} {'has' if len(found) == 1 else 'have'} {lack}"
        for lack, held in models.items()
        for found in (list(dict.fromkeys(held)),)
    ]


def provenance(run: Results) -> Section:
    blocks = [_plan_table(run), _segmenter_table(run), _data_table(run), _command_table(run)]
    text = "The same plan, weights and data give the same scores, whatever the number of workers."
    return Section("Provenance", text, blocks, folded=True)


def _not_run(run: Results, failed: set[tuple[str, str, str]]) -> dict[tuple[str, str], list[str]]:
    """Scenes without rows or error, by model and dataset."""
    done = failed | _with_rows(run)
    lacking: dict[tuple[str, str], list[str]] = {}
    for dataset in map(str, run.plan.datasets):
        scenes = _all_scenes(run, dataset, done)
        for segmenter in map(str, run.plan.segmenters):
            left = [s for s in scenes if (segmenter, dataset, s) not in done]
            if left:
                lacking[segmenter, dataset] = left
    return lacking


def _with_rows(run: Results) -> set[tuple[str, str, str]]:
    """Model, dataset and scene of every job that has rows."""

    def found() -> list[_Finished]:
        jobs = f"select distinct model, dataset, scene from {run.objects} order by all"
        return [_Finished(**row) for row in run.sql(jobs).to_pylist()]

    def keys() -> set[tuple[str, str, str]]:
        return {(j.model, j.dataset, j.scene) for j in run.cached("finished", _Finished, found)}

    return once_per_run(run, "finished", keys)


def _all_scenes(run: Results, dataset: str, done: set[tuple[str, str, str]]) -> list[str]:
    """Scenes of the plan; without the data, those on which any model was run or failed."""
    try:
        return run.scenes(dataset)
    except SegmeterError:
        failed = run.sql(
            "select distinct scene from errors where dataset = ? order by all", [dataset]
        )
        known = {scene for _, name, scene in done if name == dataset}
        return sorted(known.union(failed["scene"].to_pylist()))


def _jobs_without_rows(run: Results) -> int:
    """By the count of the last command: a damaged compacted file may be all that names a scene."""
    noted = [entry["jobs"] for entry in run.provenance.get("commands", []) if "jobs" in entry]
    (found,) = run.sql(
        f"select count(distinct (model, dataset, scene)) as jobs from {run.objects}"
    ).to_pylist()
    return noted[-1] - found["jobs"] if noted else 0


def _plan_table(run: Results) -> Table:
    plan = run.plan
    drawn = "" if plan.sample is None else f"a random sample of {plan.sample} of each dataset"
    first = "" if plan.limit is None else f"the first {plan.limit} of each dataset"
    facts = {
        "plan": plan.id,
        "benchmark": plan.benchmark,
        "users": ", ".join(map(str, plan.users)),
        "rounds": str(plan.rounds),
        "protocols": ", ".join(plan.protocols),
        "measures": ", ".join(plan.measures),
        "seed": str(plan.seed),
        "threads per worker": str(plan.threads),
        "scenes": ", then ".join(filter(None, (drawn, first))) or "all",
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
    """Scenes of each dataset, and targets where rows are of targets."""
    known = run.columns()
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
    return Table("data", [Column("dataset"), *numbers, Column("fingerprint")], rows, "Data")


def _command_table(run: Results) -> Table:
    rows, words = [], {"cores": "{} cores", "load": "load {}"}
    for entry in run.provenance.get("commands", []):
        # The program by its name, not by where it is installed.
        program, _, more = entry.get("command", "").partition(" ")
        facts = {k: v for k, v in entry.get("machine", {}).items() if v is not None}
        machine = ", ".join(words.get(key, "{}").format(v) for key, v in facts.items())
        versions = ", ".join(f"{name} {v}" for name, v in entry.get("libraries", {}).items())
        typed = f"{PurePath(program).name} {more}".strip()
        rows.append([entry.get("at", ""), typed, machine, versions])
    columns = [Column("when"), Column("command"), Column("machine"), Column("libraries")]
    return Table("commands", columns, rows, "Commands and machines")


def citations_of(run: Results) -> dict[str, str]:
    """The citation of each thing that the run used; nothing that it names is run or contacted.

    Benchmarks that are not installed and datasets that are not on this machine are left out.
    """
    plan, found = run.plan, {"the evaluation": "segmeter"}
    with received():
        with suppress(SegmeterError):
            found |= catalogue.benchmarks.make(plan.benchmark).citations
        for name, facts in run.provenance["segmenters"].items():
            found[f"{plan.kind} {name}"] = str(facts.get("citation", ""))
        for spec in plan.datasets:
            with suppress(SegmeterError):
                made = catalogue.datasets.make(str(spec))
                found[f"dataset {spec.name}"] = str(made.card.citation)
        for name in plan.measures:
            card = catalogue.measures.make(name) if name in catalogue.measures.names() else None
            found[f"measure {name}"] = card.cite if isinstance(card, Measure) else ""
    return {what: text for what, text in found.items() if text and text != "nothing to cite"}


def bibtex(citations: dict[str, str]) -> str:
    """One entry for each source, with what it was used for; free text is a note."""
    used = grouped_pairs((s, what) for what, text in citations.items() for s in sources(text))
    return "\n".join(_entry(number, *item) for number, item in enumerate(used.items(), 1))


def _entry(number: int, source: str, whats: Sequence[str]) -> str:
    """An entry below a comment: bibliography styles would print a note."""
    uses = latex_text(" ".join(", ".join(whats).split()))
    comment = f"% used for: {uses.replace('@', '(at)')}\n"  # an @ would begin an entry
    if source in entries():
        return comment + entries()[source]
    return f"{comment}@misc{{source{number},\n  note = {{{latex_text(source)}}},\n}}\n"
