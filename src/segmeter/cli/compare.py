"""`segmeter compare`: which differences between models are significant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import segmeter
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
from segmeter.cli._tables import rows_json
from segmeter.cli._words import printable
from segmeter.cli.app import Exit, app
from segmeter.core.benchmarks import Difference
from segmeter.core.dataset_names import display_names
from segmeter.core.wording import counted

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
    """Report which differences between models are statistically significant.

    Models are compared in pairs on the same objects. Intervals come from resampling images,
    p values are corrected for the number of comparisons (Holm). With `--by`, models are compared
    in each group, and p values are corrected over all groups.

    Example: `segmeter compare runs/mine`
    """
    opened = segmeter.open_run(runs, cost=cost, goal=goal, trust=trust)
    found = opened.compare(protocol, by, groups)
    names = display_names(opened.plan.datasets)  # a folder by its last part
    if as_json:
        print(rows_json(list(map(_facts, found))))
    elif by is not None or groups is not None:
        print(_conclusion([g.difference for g in found]))
        _print_groups(found, names)
    else:
        print(_conclusion(found))
        _print([replace(d, dataset=names.get(d.dataset, d.dataset)) for d in found])
    return Exit.DONE


def _facts(found: Any) -> dict[str, Any]:
    """A difference as JSON shows it, with its group where it has one."""
    difference, group = getattr(found, "difference", found), getattr(found, "group", None)
    more = {} if group is None else {"group": group}
    return asdict(difference) | {"significant": difference.significant} | more


def _print_groups(found: Sequence[Any], names: Mapping[str, str]) -> None:
    """One sentence per group, pair and statistic, the benchmark's leading one first."""
    from segmeter.benchmarks.by_group.breakdown import in_words

    places = dict.fromkeys((d.dataset, d.user, d.protocol) for d in (g.difference for g in found))
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
