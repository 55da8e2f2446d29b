"""Writing: a run's report as a page, or its tables as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from segmeter import __version__
from segmeter.core import catalogue
from segmeter.core.benchmarks import Results
from segmeter.core.catalogue import short
from segmeter.core.plans import display_names, with_titles
from segmeter.core.received_runs import received
from segmeter.core.sections import Answer, Block, Note, Section
from segmeter.core.wording import counted, joined
from segmeter.report.exports import Format, exported, objects_csv
from segmeter.report.page import Page, render
from segmeter.report.provenance import missing, provenance, rounds_text, unfinished
from segmeter.store import Run
from segmeter.store.local import write_file


def write_sections(
    run: Run, sections: Sequence[Section], to: Path | None = None, kind: Format = "html"
) -> list[str]:
    """Write sections of a run as a page or as tables; the files written.

    A page goes to `report.html` in the run, tables go to `tables/`, unless `to` is given; `csv`
    also writes `objects.csv`, one line per session.
    """
    if kind == "html":
        return [written(run, "report.html", render(page_of(run, sections)), to)]
    files = exported(sections, [kind])
    if kind == "csv" and (each := objects_csv(run)) is not None:
        files["objects.csv"] = each
    return [
        written(run, f"tables/{name}", text, None if to is None else to / name)
        for name, text in files.items()
    ]


def answer_of(sections: Sequence[Section]) -> str:
    """The first section's answers in plain words, a line per dataset; empty without any.

    >>> from segmeter.core.sections import Answer
    >>> answer_of([Section("Which", blocks=[Answer("**a** is ahead.")])])
    'a is ahead.'
    """
    answers = ([b for b in section.blocks if isinstance(b, Answer)] for section in sections)
    first = next(filter(None, answers), [])
    # A terminal breaks lines itself.
    lines = [line for b in first for line in (b.text, *b.lines)]
    return "\n".join(re.sub(r"\*\*|`", "", re.sub(r"\s", " ", line)) for line in lines)


def written(run: Run, name: str, text: str, to: Path | None) -> str:
    """Write a file into the run, or to the given place; its address."""
    if to is not None:
        write_file(to, text.encode())
        return str(to)
    run.folder.place.put(name, text.encode(), leased=False)
    return f"{run.address}/{name}"


def sections_of(
    run: Run, more: Sequence[Section] = (), first: Sequence[Section] = ()
) -> list[Section]:
    """The benchmark's own sections, more before and after, what is missing, and provenance."""
    made = titled(run, [*first, *run.sections(), *more])
    return [*warned(run, made), missing(run), provenance(run)]


def titled(run: Run, sections: Sequence[Section]) -> list[Section]:
    """Sections with models and datasets under their short names."""
    models = {name: short(name) for name in map(str, run.plan.segmenters)}
    shown = models if len({*models.values()}) == len(models) else {}
    shown |= display_names(run.plan.datasets)
    titles = {name: title for name, title in shown.items() if name != title}
    return [with_titles(section, titles) for section in sections]


def warned(run: Run, sections: Sequence[Section]) -> list[Section]:
    """Sections of which the first begins with what the run still lacks."""
    first, *others = sections or [Section("Results", "The run has no results to summarise.")]
    notes: list[Block] = [Note(sentence, "warning") for sentence in unfinished(run)]
    return [replace(first, blocks=[*notes, *first.blocks]), *others]


def page_of(run: Run, sections: Sequence[Section]) -> Page:
    """Title and facts of a run's page: what was measured, on how much, how long."""
    plan, names = run.plan, display_names(run.plan.datasets)
    models = [short(spec.name) for spec in plan.segmenters]
    if len(set(models)) < len(models):  # options tell them apart
        models = [short(str(spec)) for spec in plan.segmenters]
    users = [str(user) for user in plan.users]
    shown = joined(users) if len(users) < 5 else f"{users[0]} and {len(users) - 1} others"
    with received(not run.trust):
        entry = catalogue.benchmarks.entry(plan.benchmark)
    commands = run.provenance["commands"]
    return Page(
        title=f"{plan.benchmark}: {joined(models)} on {joined(names.values())}",
        subtitle=entry.summary,
        facts=[
            _extent(run),
            f"{rounds_text(run)} with {shown}" if users else "",
            f"run {commands[-1]['at'][:10]}" if commands else "",
            f"segmeter {__version__}",
        ],
        sections=sections,
    )


def _extent(run: Results) -> str:
    """How many objects or pairs in how many scenes, or how many images."""
    columns, cases = run.columns(), run.benchmark.cases
    objects = "count(distinct (dataset, scene, target))" if "target" in columns else "0"
    (row,) = run.sql(
        f"select count(distinct (dataset, scene)) as scenes, {objects} as objects "
        f"from {run.objects}"
    ).to_pylist()
    if cases == "image" or not row["objects"]:
        return counted(row["scenes"], "image" if cases == "image" else "scene")
    return f"{counted(row['objects'], cases)} in {counted(row['scenes'], 'scene')}"
