"""`segmeter compare`: which differences between models are significant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from segmeter.cli._option_values import settings
from segmeter.cli._options import (
    AsJson,
    By,
    Cost,
    GoalChoice,
    GroupsFile,
    ProtocolChoice,
    Runs,
    Trust,
)
from segmeter.cli._words import printable
from segmeter.cli.app import Exit, app
from segmeter.core.benchmarks import Difference
from segmeter.core.dataset_names import display_names
from segmeter.core.wording import counted

if TYPE_CHECKING:
    from segmeter.store import Run

__all__ = ["compare"]


@app.command()
def compare(
    runs: Runs,
    protocol: ProtocolChoice = "corrected",
    cost: Cost = None,
    goal: GoalChoice = None,
    by: By = None,
    groups: GroupsFile = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> int:
    """Say which differences between models are significant, in one run or over several.

    Pairs are compared on the same targets, intervals come from resampling
    images, and p-values are corrected for the number of comparisons (Holm).
    With `--by` they are compared group by group, corrected over all groups.

    Example: `segmeter compare runs/mine`
    """
    from segmeter.cli._option_values import protocols
    from segmeter.core.errors import BadInput
    from segmeter.store import Run

    wanted = protocols(protocol)
    results = Run.open(runs, settings=settings(cost, goal), trust=trust)
    if by is not None or groups is not None:
        _by_group(results, by or "group", groups, wanted, as_json)
        return Exit.DONE
    found = results.differences()
    names = display_names(results.plan.datasets)  # a folder by its last part
    if not found:
        named = ", ".join(f"'{path}'" for path in runs)
        raise BadInput(f"{named} has only one model; there is nothing to compare")
    found = [difference for difference in found if difference.protocol in wanted]
    if as_json:
        from segmeter.cli._tables import rows_json

        print(rows_json([asdict(d) | {"significant": d.significant} for d in found]))
    else:
        print(_conclusion(found))
        _print([replace(d, dataset=names.get(d.dataset, d.dataset)) for d in found])
    return Exit.DONE


def _by_group(
    results: Run,
    by: str,
    groups: Path | None,
    wanted: Sequence[str],
    as_json: bool,
) -> None:
    """One sentence per group, pair and measure, the benchmark's leading measure first."""
    from segmeter.benchmarks.by_group.model_differences import differences_by_group, in_words
    from segmeter.core.errors import BadInput

    found = differences_by_group(results.benchmark, results, by, groups)
    found = [g for g in found if g.difference.protocol in wanted]
    if not found:
        raise BadInput("no group has two models on the same targets; there is nothing to compare")
    if as_json:
        from segmeter.cli._tables import rows_json

        rows = [(asdict(g.difference), g) for g in found]
        told = [d | {"significant": g.difference.significant, "group": g.group} for d, g in rows]
        print(rows_json(told))
        return
    print(_conclusion([g.difference for g in found]))
    places = dict.fromkeys((d.dataset, d.user, d.protocol) for d in (g.difference for g in found))
    names = display_names(results.plan.datasets)
    for place in places:
        where = (names.get(place[0], place[0]), place[1], f"protocol {place[2]}")
        print(printable(", ".join(filter(None, where))))
        for g in found:
            if (g.difference.dataset, g.difference.user, g.difference.protocol) == place:
                print(printable(f"  {in_words(g)}"))


def _conclusion(found: Sequence[Difference]) -> str:
    """How many differences are significant."""
    count = sum(d.significant for d in found)
    many = counted(len(found), "difference")
    if not count:
        return f"none of {many} is significant (at 5 %, Holm-corrected)"
    return f"{count} of {many} {'is' if count == 1 else 'are'} significant (at 5 %, Holm-corrected)"


def _print(found: Sequence[Difference]) -> None:
    """One table per data set, user and reading, the significant differences first."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(markup=False)
    for place in dict.fromkeys((d.dataset, d.user, d.protocol) for d in found):
        here = [d for d in found if (d.dataset, d.user, d.protocol) == place]
        title = printable(", ".join(filter(None, (*place[:2], f"protocol {place[2]}"))))
        table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("measure", no_wrap=True)
        table.add_column("first\nless second", overflow="fold", max_width=24)
        for name in ("difference\n95 % interval", "p\n(Holm)"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("conclusion", no_wrap=True)
        for d in sorted(here, key=lambda d: not d.significant):
            table.add_row(*(Text(printable(cell)) for cell in _row(d)))
        console.print(table)


def _row(d: Difference) -> tuple[str, ...]:
    from segmeter.core.catalogue import short

    return (
        d.measure,
        f"{short(d.first)}\n{short(d.second)}",
        f"{d.value:+.2f}\n{_span(d)}",
        f"{d.p_holm:.3f}",
        "significant" if d.significant else "not\nestablished",
    )


def _span(d: Difference) -> str:
    """The interval; none where one image, or no spread, gives none."""
    low, high = f"{d.low:+.2f}", f"{d.high:+.2f}"
    return "" if low == high or "nan" in low else f"{low} to {high}"
