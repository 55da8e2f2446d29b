"""Runs: open one, read its numbers, and write its report, tables, figures and masks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from segmeter.api.loading import listed, roots_of
from segmeter.core.capabilities import ChoosesUsers, WritesChallengeTable
from segmeter.core.errors import BadInput, SegmeterError, check_choice
from segmeter.core.plans import display_names, with_titles
from segmeter.core.sections import Section, Table, Value
from segmeter.runtime.remote_files import Roots
from segmeter.store import Run as StoredRun
from segmeter.store.local import write_file

if TYPE_CHECKING:
    from segmeter.api.gates import Gate
    from segmeter.engine import Tally
    from segmeter.report.browsing import BrowseServer

_COST_KEYS = {
    "time": "hours",
    "waiting": "waiting_hours",
    "with waiting": "total_hours",
    "saved": "saved_percent",
}
_ENDINGS = {"markdown": "md", "latex": "tex"}


class _Split(NamedTuple):
    """Groups to split a report by, and the project whose costs it adds."""

    by: str | None = None
    groups: str | Path | None = None
    objects: int | None = None
    hourly_rate: float | None = None


def open_run(
    path: str | Path | Sequence[str | Path],
    *,
    data: str | Path | None = None,
    cost: str | Path | None = None,
    goal: str | None = None,
    trust: bool = False,
) -> Run:
    """Open a finished or unfinished run; several runs of one benchmark are read as one.

    Parameters
    ----------
    path
        A run folder, an address such as `s3://bucket/run`, or a list of either.
    data
        The folder of the datasets, for reports and exports that show images; by default the one
        that the run's last command named.
    cost
        A cost model (TOML): seconds of a click, a box, a failure.
    goal
        The goal: IoU in percent or a measure, such as `"85,90"` or `"dice>=0.9"`.
    trust
        Let the run name Python files, which are then executed. Never for a run that you were sent.

    Examples
    --------
    >>> import tempfile
    >>> import segmeter
    >>> folder = f"{tempfile.mkdtemp()}/run"
    >>> _ = segmeter.evaluate("synthetic-oracle", "mini", out=folder, rounds=2, limit=1)
    >>> segmeter.open_run(folder).plan.benchmark
    'noc'
    """
    addresses = [path] if isinstance(path, str | Path) else list(path)
    settings = {"cost": None if cost is None else Path(cost), "goal": goal}
    kept = {name: value for name, value in settings.items() if value is not None}
    run = Run.open(addresses, None, kept, trust=trust)
    run.roots = data_roots(run, data)
    return run


_INHERITED = "address plan sql summary sessions rows errors to_pandas verify"


class Run(StoredRun):
    """The results of an evaluation: numbers, sessions, tables, figures, masks and the report.

    `evaluate` and `open_run` return one. A notebook shows it as a table.

    Examples
    --------
    >>> import tempfile
    >>> import segmeter
    >>> run = segmeter.evaluate(
    ...     ["synthetic-oracle", "disc"], "mini", out=f"{tempfile.mkdtemp()}/run", rounds=2, limit=2
    ... )
    >>> len(run.sessions()), len(run.rows())
    (32, 64)
    >>> run.compare()[0].statistic
    'noc@90'
    >>> run.report().name, run.figure(f"{run.address}/iou.svg").name
    ('report.html', 'iou.svg')
    """

    tally: Tally | None = None
    """Jobs done, done before and failed, of the call of `evaluate` that returned the run."""

    def __dir__(self) -> list[str]:
        """Names for completion: those of the reference, not all that reports read of a run."""
        shown = {*vars(Run), *_INHERITED.split()}
        return [name for name in super().__dir__() if name in shown or name.startswith("_")]

    def masks(self, rounds: Literal["last", "best", "all"] | int = "last") -> Iterator[Any]:
        """Masks of the run: pairs of a row's facts and a boolean array of the scene's size."""
        from segmeter.export.masks import masks_of, rounds_of

        for row, mask in masks_of(self, rounds_of(str(rounds))):
            yield row, mask.dense()

    def compare(
        self, protocol: str = "corrected", by: str | None = None, groups: str | Path | None = None
    ) -> list[Any]:
        """Differences between models on the same targets, with corrected p values.

        Parameters
        ----------
        protocol
            `"corrected"`, `"published"` or `"both"`.
        by, groups
            Compare group by group: by class, size, shape, boundary or another group of the data,
            or by a CSV file of `mask,group`. p values are then corrected over all groups.

        Returns
        -------
        list of Difference
            Each with `first`, `second`, `measure`, `value`, `low`, `high`, `p_holm` and
            `significant`; with `by` or `groups`, each inside of an object with its `group`.
        """
        wanted = ("published", "corrected") if protocol == "both" else (protocol,)
        check_choice("protocol", protocol, ("corrected", "published", "both"))
        if by is None and groups is None:
            found = self.differences()
            if not found:  # one model, or models without results in common
                have = list(dict.fromkeys(row.model for row in self.summary()))
                named = " and ".join(f"'{name}'" for name in have) or "no model"
                why = f"only {named} has results" if len(have) < 2 else f"{named} share no object"
                lacking = [f"there is nothing to compare: {why}.", *self.unfinished()]
                raise BadInput(" ".join(lacking))
            return [d for d in found if d.protocol in wanted]
        from segmeter.analysis.breakdown import differences_by_group

        file = None if groups is None else Path(groups)
        split = differences_by_group(self.benchmark, self, by or "group", file)
        chosen = [g for g in split if g.difference.protocol in wanted]
        if not chosen:
            raise BadInput("no group has two models on the same targets; nothing can be compared")
        return chosen

    def unfinished(self) -> list[str]:
        """A sentence for each model and dataset that lacks scenes; none for a complete run."""
        from segmeter.report.provenance import unfinished

        return unfinished(self)

    @property
    def models_by_run(self) -> list[dict[str, str]]:
        """The models of each opened run by name, with their labels here."""
        sources = self._labelled if self._several else self._sources
        return [
            {name: source.labels.get(name, name) for name in map(str, source.plan.segmenters)}
            for source in sources
        ]

    def gate(self, conditions: Sequence[str], protocol: str = "corrected") -> Gate:
        """Judge new models against old ones on the same objects, as a check of a model's change.

        Open the old run first, as `open_run([old, new])`; of a single run the first model is the
        old one. Objects without a result of the new model fail the gate.

        Parameters
        ----------
        conditions
            `"noc@90 worse"`: significantly worse (Holm); `"noc@90 worse by 0.2"`: the 95 %
            interval is beyond a margin; `"noc@90 possibly worse by 0.2"`: it reaches beyond one.

        Returns
        -------
        Gate
            True if it passes; `lines`, `facts()` and `markdown()`.
        """
        from segmeter.api.gates import judge

        check_choice("protocol", protocol, ("published", "corrected"))
        return judge(self, conditions, protocol)

    def table(
        self,
        format: str = "markdown",
        protocol: str = "corrected",
        *,
        columns: str | Sequence[str] = (),
        models: str | Sequence[str] = (),
        datasets: str | Sequence[str] = (),
        names: Mapping[str, str] | None = None,
    ) -> str:
        """The table that papers on this benchmark print, as text.

        Parameters
        ----------
        format
            `"latex"` (`"tex"`), `"markdown"` (`"md"`), `"csv"` or `"html"`; `"challenge"` for the
            CSV that the challenge of the run's users expects, of one model.
        columns
            Statistics instead of those that the benchmark's papers print, such as `["noc@80"]`.
        models, datasets
            Which of them, in this order; all in the order of the run by default.
        names
            Display names of models and datasets, such as `{"net.py:predict": "Ours"}`.
        """
        from segmeter.report.exports import WRITERS
        from segmeter.report.result_tables import TableChoice, paper_table

        if format == "challenge":
            benchmark, known = self.benchmark, [str(spec) for spec in self.plan.segmenters]
            if not isinstance(benchmark, WritesChallengeTable):
                raise BadInput(f"benchmark '{self.plan.benchmark}' has no challenge")
            chosen = listed(models) or known
            if len(chosen) != 1 or chosen[0] not in known:
                raise BadInput(
                    f"the challenge's table has one model: give --model {' or '.join(known)}"
                )
            return benchmark.challenge_table(self, chosen[0], protocol)
        check_choice("format", format, ("md", "tex", *_ENDINGS, "csv", "html"))
        ending: Any = _ENDINGS.get(format, format)
        choice = TableChoice(listed(columns), listed(models), listed(datasets), names or {})
        return WRITERS[ending](paper_table(self, protocol, choice), limits=False)

    def leaderboard(self, out: str | Path = "leaderboard.html") -> Path:
        """Write a page that ranks the models; returns where it is."""
        from segmeter.report.page import render
        from segmeter.report.result_tables import leaderboard_page

        write_file(Path(out), render(leaderboard_page(self, len(self._sources))).encode())
        return Path(out)

    def figure(self, out: str | Path, measure: str = "iou", protocol: str = "corrected") -> Path:
        """Draw a measure over the rounds with 95 % bands (.pdf, .svg or .png)."""
        from segmeter.report.figures import draw_measure

        check_choice("protocol", protocol, ("published", "corrected"))
        path = Path(out)
        if path.suffix not in (".pdf", ".svg", ".png"):
            raise BadInput(f"a figure is a .pdf, .svg or .png, not '{path.name}'")
        draw_measure(self, measure, protocol, path)
        return path

    def report(
        self,
        out: str | Path | None = None,
        *,
        by: str | None = None,
        groups: str | Path | None = None,
        objects: int | None = None,
        hourly_rate: float | None = None,
    ) -> Path:
        """Write the report, one HTML page; by default `report.html` in the run folder.

        Parameters
        ----------
        by, groups
            Split the results by a group, as in `compare`.
        objects, hourly_rate
            Add what a project of so many objects would cost, at so much money per hour.
        """
        if out is not None and Path(out).is_dir():
            page = Path(out) / "report.html"
            raise BadInput(f"--out '{out}' is a folder; name the page, such as '{page}'")
        split = _Split(by, groups, objects, hourly_rate)
        return self.report_tables(out, "html", **split._asdict())[0]

    def report_tables(
        self,
        out: str | Path | None = None,
        format: str = "csv",
        *,
        by: str | None = None,
        groups: str | Path | None = None,
        objects: int | None = None,
        hourly_rate: float | None = None,
    ) -> list[Path]:
        """Write the tables of the report, a file each; with CSV also one line per session.

        `format` is `"csv"`, `"markdown"` (`"md"`) or `"latex"` (`"tex"`).
        """
        from segmeter.report.writing import write_sections

        ending: Any = _ENDINGS.get(format, format)
        check_choice("format", ending, ("html", "csv", "md", "tex"))
        sections = self._report_sections(_Split(by, groups, objects, hourly_rate))
        place = None if out is None else Path(out)
        return [Path(file) for file in write_sections(self, sections, place, ending)]

    def conclusion(self, objects: int | None = None, hourly_rate: float | None = None) -> str:
        """The first sentence of the report: the answer to the benchmark's question.

        With `objects`, which way of annotating so many takes least, and with `hourly_rate` its
        price. Missing scenes come first.
        """
        from segmeter.report.writing import answer_of, titled

        split = _Split(objects=objects, hourly_rate=hourly_rate)
        made = self.sections() if objects is None else self._added_sections(split)
        return "\n".join(filter(None, (*self.unfinished(), answer_of(titled(self, made)))))

    def cost(
        self,
        objects: int,
        hourly_rate: float | None = None,
        *,
        by: str | None = None,
        groups: str | Path | None = None,
    ) -> list[dict[str, Any]]:
        """Costs of annotating so many objects with each model, and all by hand.

        Returns
        -------
        list of dict
            Per dataset and way: hours of a person, hours of waiting for the machine, both
            together, and of these money at `hourly_rate` and percent saved; each with `value`,
            `low` and `high` (95 %). With `by` or `groups` (as in `compare`) also clicks, hours
            and money of each group.
        """
        sections = self._added_sections(_Split(by, groups, objects, hourly_rate))
        found = []
        for table in (table for section in sections for table in _cost_tables(section)):
            heads = [_COST_KEYS.get(column.title, column.title) for column in table.columns]
            for row in table.rows:
                cells = dict(zip(heads, map(_plain_cell, row), strict=True))
                found.append({"table": table.caption or "", **cells})
        return found

    def cost_sheet(
        self,
        out: str | Path | None = None,
        objects: int = 1000,
        hourly_rate: float | None = None,
        *,
        by: str | None = None,
        groups: str | Path | None = None,
    ) -> Path:
        """Write what annotating so many objects would cost as a page that prints on one sheet.

        With `by` or `groups` (as in `compare`) the costs of each group follow.
        """
        from segmeter.report.page import render
        from segmeter.report.writing import page_of, warned, written

        whole, *split = self._added_sections(_Split(by, groups, objects, hourly_rate))
        kept = [whole, *(replace(s, blocks=_cost_tables(s)) for s in split if _cost_tables(s))]
        made = page_of(self, warned(self, kept))
        page = replace(made, title="Annotation costs", subtitle=made.title)
        place = None if out is None else Path(out)
        return Path(written(self, "cost.html", render(page), place))

    def _report_sections(self, split: _Split) -> list[Section]:
        from segmeter.report.writing import sections_of

        if split.hourly_rate is not None and split.objects is None:
            raise BadInput("--hourly-rate needs --objects, the number of objects")
        added = self._added_sections(split)
        costs = 0 if split.objects is None else 1  # the sections that come first
        return sections_of(self, added[costs:], added[:costs])

    def _added_sections(self, split: _Split) -> list[Section]:
        """Sections for the cost of `objects` and for results by group."""
        by, groups, objects, hourly_rate = split
        whole = None if objects is None else self.benchmark.cost_section(self, objects, hourly_rate)
        found = [] if whole is None else [whole]
        if by is not None or groups is not None:
            from segmeter.analysis.breakdown import breakdown

            file = None if groups is None else Path(groups)
            named = (by or "group", file, objects or 1000, hourly_rate)
            found.append(breakdown(self.benchmark, self, *named))
        if objects is not None and not any(map(_cost_tables, found)):
            name = self.plan.benchmark
            raise BadInput(f"--objects: benchmark '{name}' has no total of a person's time")
        return [with_titles(section, display_names(self.plan.datasets)) for section in found]

    def export(
        self,
        out: str | Path,
        format: str | None = None,
        rounds: str | int = "last",
        images: bool = True,
    ) -> list[Any]:
        """Write masks as files for other programs.

        Parameters
        ----------
        out
            Folder for the files.
        format
            `"png"`, `"nifti"`, `"coco"`, `"cvat"`, `"fiftyone"` or `"labelstudio"`; by default PNG
            for images and NIfTI for volumes.
        rounds
            Masks of the `"last"` or the `"best"` round, of `"all"`, or after so many rounds.
        images
            Whether lists (COCO, CVAT, FiftyOne, Label Studio) come with the images.

        Returns
        -------
        list of MaskFile
            `path`, `scene`, `target`, `image` (the original file's name) and `voxels` of each mask.
        """
        from segmeter.export.formats import FORMATS
        from segmeter.export.masks import export_masks, rounds_of

        if format is not None:
            check_choice("format", format, FORMATS)
        return export_masks(self, Path(out), format, rounds_of(str(rounds)), images)

    def export_hint(self, format: str | None) -> str:
        """How to open the files of an export in the target tool."""
        from segmeter.export.formats import FORMATS

        return FORMATS[format].hint if format is not None and format in FORMATS else ""

    def score(self, measure: str) -> int:
        """Add a measure, computed from the stored masks; returns how many jobs were scored."""
        from segmeter.engine.scoring import score_run

        return score_run(self.address, measure, self.roots, trust=self.trust)

    def statistics(self) -> list[Any]:
        """Cards of the statistics: name, title, unit, digits, direction."""
        return list(self.benchmark.statistics(self))

    def notes(self) -> list[str]:
        """Sentences about sessions that the summary leaves out."""
        benchmark = self.benchmark
        return list(benchmark.left_out(self)) if isinstance(benchmark, ChoosesUsers) else []

    def browse(self, port: int = 0) -> BrowseServer:
        """A local server with a page of all sessions; `serve_forever()` starts it."""
        from segmeter.report.browsing import BrowseServer, Sessions

        return BrowseServer(Sessions(self), port)

    def missing_images(self) -> dict[str, str]:
        """Datasets whose images are not found here, and why: the report lacks their images."""
        found = {}
        for name, shown in display_names(self.plan.datasets).items():
            try:
                self.scenes(name)
            except SegmeterError as error:
                found[shown] = str(error)
        return found

    def cite(self) -> str:
        """BibTeX of every model, dataset, measure and benchmark that the run used."""
        from segmeter.report.provenance import bibtex, citations_of

        return bibtex(citations_of(self))


def data_roots(run: StoredRun, data: str | Path | None) -> Roots:
    """The folder of the data: as given, else as noted by the run's last command."""
    if data is not None:
        return roots_of(data)
    for entry in reversed(run.commands):
        try:
            words = shlex.split(str(entry.get("command", "")), posix=True)
        except ValueError:  # not a typed command
            continue
        for word, following in pairwise([*words, ""]):
            given = following if word == "--data" else word.removeprefix("--data=")
            if word.startswith("--data") and given != word and Path(given).is_dir():
                return Roots(Path(given), None, noted=True)
    return Roots()


def _cost_tables(section: Section) -> list[Table]:
    tables = [block for block in section.blocks if isinstance(block, Table)]
    return [table for table in tables if any(column.title == "time" for column in table.columns)]


def _plain_cell(cell: Any) -> Any:
    """A cell of a table as JSON can hold it."""
    if isinstance(cell, Value):
        return {"value": cell.value, "low": cell.low, "high": cell.high}
    return None if cell is None else str(cell)
