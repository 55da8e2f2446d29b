"""`segmeter compare`: which differences between models are significant."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from operator import attrgetter
from shutil import get_terminal_size
from typing import Annotated, Any

from typer import Option

import segmeter
from segmeter.api import counted, display_names, grouped, printable, short
from segmeter.api.gates import differences_markdown
from segmeter.cli import _options as options
from segmeter.cli._printing import differences_json, print_json, print_rows, say_answer
from segmeter.cli.app import Exit, app

_PAIR: dict[str, Any] = {"overflow": "fold", "max_width": 24}
_PLACE = attrgetter("dataset", "user", "protocol")
_NARROW = 72  # columns of a terminal below which a measure and its models share a column


@app.command()
def compare(
    runs: options.Runs,
    protocol: options.ProtocolChoice = "corrected",
    cost: options.Cost = None,
    goal: options.GoalChoice = None,
    by: options.By = None,
    groups: options.GroupsFile = None,
    trust: options.Trust = False,
    fail_if: Annotated[
        list[str] | None,
        Option(
            help="Exit with code 1 if this holds: 'noc@90 worse', 'noc@90 worse by 0.2' or "
            "'noc@90 possibly worse by 0.2'; can be repeated."
        ),
    ] = None,
    kind: Annotated[str, Option("--format", help="text, or markdown for a pull request.")] = "text",
    as_json: options.AsJson = False,
) -> int:
    """Report which differences between models are statistically significant.

    Models are compared in pairs on the same objects. Intervals come from resampling images,
    p values are corrected for the number of comparisons (Holm). With `--by`, models are compared
    in each group, and p values are corrected over all groups.

    With `--fail-if`, the first run is the baseline. The exit code is 1 if a model of a later run is
    significantly worse, worse by more than a given margin, or has no result for some objects.

    Example: `segmeter compare runs/mine`, `segmeter compare runs/old runs/new --fail-if 'noc@90
    worse'`
    """
    if kind not in ("text", "markdown", "md"):
        raise segmeter.BadInput(f"--format is text or markdown, not '{kind}'")
    opened = segmeter.open_run(runs, cost=cost, goal=goal, trust=trust)
    if fail_if:
        return _gate(opened, fail_if, protocol, kind, as_json)
    found = opened.compare(protocol, by, groups)
    names = display_names(opened.plan.datasets)  # a folder by its last part
    left = opened.unfinished()
    if as_json:
        print_json({"rows": differences_json(found)} | ({"unfinished": left} if left else {}))
        return Exit.DONE
    if left:
        say_answer("\n".join([*left, "Pairs are compared on the objects that both models have."]))
    flat = [getattr(d, "difference", d) for d in found]
    if kind != "text":
        print(printable(differences_markdown(flat)))
        return Exit.DONE
    print(textwrap.fill(_conclusion(flat), min(80, get_terminal_size().columns)))
    for (place, group), here in grouped(found, _table_of).items():
        dataset, user, protocol = place
        words = (names.get(dataset, dataset), user, f"protocol {protocol}", group)
        _print([getattr(d, "difference", d) for d in here], ", ".join(filter(None, words)))
    return Exit.DONE


def _table_of(found: Any) -> tuple[tuple[str, str, str], str]:
    """Dataset, user and protocol of a difference, and the group that it is of, if any."""
    if isinstance(found, segmeter.Difference):
        return _PLACE(found), ""
    objects = counted(found.difference.targets, "object")
    return _PLACE(found.difference), f"{found.by} {found.group}, {objects}"


def _gate(
    opened: segmeter.Run, conditions: list[str], protocol: str, kind: str, as_json: bool
) -> int:
    """Print whether new models pass; exit code 1 if not."""
    found = opened.gate(conditions, protocol)
    if as_json:
        print_json(found.facts())
    elif kind != "text":
        print(printable(found.markdown()))
    else:
        for line in found.lines:
            result = "FAIL" if line.failed else "ok"
            span = f"{line.value:+.2f} ({line.low:+.2f} to {line.high:+.2f})"
            span = span if line.objects else "no result"
            missing = f", {counted(line.missing, 'object')} missing" if line.missing else ""
            where = f"{line.dataset}, {counted(line.objects, 'object')}{missing}"
            why = f"; {line.untested}" if line.untested else ""
            print(printable(f"{result:<5}{line.condition}: {short(line.new)} {span}; {where}{why}"))
        print("passed" if found else "failed")
    return Exit.DONE if found else Exit.WITH_ERRORS


def _conclusion(found: Sequence[segmeter.Difference]) -> str:
    count = sum(d.significant for d in found)
    many = counted(len(found), "difference")
    if found and all(d.too_few for d in found):
        most = ": at most " if len({d.cases for d in found}) > 1 else ": "
        return f"{many} {max(found, key=attrgetter('cases')).too_few.replace(': ', most)}"
    if not count:
        return f"none of {many} is significant (at 5 %, Holm-corrected)"
    return f"{count} of {many} {'is' if count == 1 else 'are'} significant (at 5 %, Holm-corrected)"


def _print(found: Sequence[segmeter.Difference], title: str) -> None:
    """A table, the significant differences first."""
    narrow = get_terminal_size().columns < _NARROW
    rows = [_row(d, narrow) for d in sorted(found, key=lambda d: not d.significant)]
    numbers = {"justify": "right", "no_wrap": True}
    columns: dict[str, dict[str, Any]] = {} if narrow else {"statistic": {"no_wrap": True}}
    columns |= {
        "statistic, first\nminus second" if narrow else "first minus\nsecond": _PAIR,
        "difference\n95 % interval": numbers,
        "p\n(Holm)": numbers,
        "signi-\nficant" if narrow else "conclusion": {"no_wrap": True},
    }
    print_rows(list(columns), rows, title, list(columns.values()))


def _row(d: segmeter.Difference, narrow: bool) -> tuple[str, ...]:
    low, high = f"{d.low:+.2f}", f"{d.high:+.2f}"
    known = low != high and "nan" not in low  # one image, or no spread, gives no interval
    span = f"{d.value:+.2f}\n" + (f"{low} to {high}" if known else "")
    pair = f"{short(d.first)}\n{short(d.second)}"
    p = "" if d.too_few else f"{d.p_holm:.3f}" if d.p_holm >= 0.001 else "<0.001"
    if narrow:
        word = "yes" if d.significant else "not\ntested" if d.too_few else "no"
        return f"{d.statistic}\n{pair}", span, p, word
    word = "significant" if d.significant else "not\nsignificant"
    return d.statistic, pair, span, p, d.too_few.replace(": ", ":\n").replace(", ", ",\n") or word
