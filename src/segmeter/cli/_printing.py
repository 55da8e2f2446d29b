"""Printing: tables, JSON, progress and sentences, in 80 columns and without control characters."""

from __future__ import annotations

import codecs
import json
import logging
import math
import shlex
import sys
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from operator import attrgetter
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import typer

import segmeter
from segmeter.api import counted, display_names, grouped, printable, short

if TYPE_CHECKING:
    from rich.table import Table

    from segmeter.api.progress import Bar

_WIDTH = 5  # statistics that fit
_LONG = 40  # characters of a model's name; a longer one is shortened in the middle

# What an ASCII terminal sees of the few other characters that we print.
_PLAIN = {"–": "-", "—": "-", "−": "-", "×": "x", "…": "...", "±": "+-"}


class VOLUME:
    """How much is printed on stderr: `-q` for errors only, `-v` for a line per scene."""

    quiet = False
    verbose = False


def say(sentence: str) -> None:
    """Print a sentence on stderr, unless `-q` was given."""
    if not VOLUME.quiet:
        typer.echo(printable(sentence), err=True)


def say_answer(sentence: str) -> None:
    """Print the conclusions of a report in lines of a terminal; nothing if there are none."""
    for line in sentence.splitlines():
        print(textwrap.fill(printable(line), 80, break_long_words=False, break_on_hyphens=False))


def progress_line(text: str, *, lasting: bool) -> None:
    """Print progress on stderr: over the line before on a terminal, else only lasting lines."""
    live = sys.stderr.isatty()
    if not VOLUME.quiet and (live or lasting):
        start = "\r\x1b[K" if live else ""
        typer.echo(start + printable(text), err=True, nl=lasting)


def progress_bar() -> Bar:
    """A progress bar on stderr, unless `-q` was given."""
    from segmeter.api.progress import Bar

    return Bar(quiet=VOLUME.quiet, every=VOLUME.verbose)


def print_json(facts: Any) -> None:
    """Print facts as JSON; a number that is not known, as the limits of one scene, is null."""
    print(json.dumps(_plain(facts), indent=1, allow_nan=False, default=str))


def differences_json(found: Sequence[Any]) -> list[dict[str, Any]]:
    """Differences as JSON shows them, with their groups where they have some."""
    facts = []
    for one in found:
        difference, group = getattr(one, "difference", one), getattr(one, "group", None)
        more = {} if group is None else {"group": group}
        facts.append(asdict(difference) | {"significant": difference.significant} | more)
    return facts


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def print_table(table: Table) -> None:
    from rich.console import Console

    Console(width=_terminal_width(), markup=False).print(table)


def _terminal_width() -> int:
    return min(get_terminal_size().columns, 100)


def print_rows(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    columns: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Print rows of text as a table; the text may come from a run and is made safe.

    `columns` has options of the columns; by default text is wrapped, between words if it fits.
    Where not all of these fit the terminal, each row is printed as lines.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if title:
        print(printable(title))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    shown = [["\n".join(map(printable, cell.split("\n"))) for cell in row] for row in rows]
    least = [
        min(max(map(len, "\n".join(cells).split("\n"))), 99 if "no_wrap" in options else 8)
        for *cells, options in zip(titles, *shown, columns, strict=False)
    ]
    if sum(least) > _terminal_width() - 3 * len(least) + 1:  # less the gaps
        for row in shown:
            for name, cell in zip(titles, row, strict=True):
                print(" ".join(f"{name}: {cell}".replace("-\n", "").split()))
            print()
        return
    wrapped = [{"overflow": "fold", "width": wide} for wide in _widths([titles, *shown])]
    for name, options in zip(titles, columns or wrapped, strict=True):
        table.add_column(name, **options)
    for row in shown:
        table.add_row(*map(Text, row))
    print_table(table)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Widths of columns that fit the terminal: no word is broken while another line can be."""
    columns = list(zip(*rows, strict=True))
    words = [max(len(word) for word in " ".join(cells).split()) for cells in columns]
    widths = [max(len(line) for cell in cells for line in cell.split("\n")) for cells in columns]
    room = _terminal_width() - 3 * len(columns) + 1  # less the gaps
    while sum(widths) > max(room, len(columns)):
        longer = [k for k, wide in enumerate(widths) if wide > words[k]] or range(len(widths))
        widths[max(longer, key=widths.__getitem__)] -= 1
    return widths


def print_summary(run: segmeter.Run, as_json: bool, *, reported: bool = False) -> None:
    """Print the results of a run, then where to look further unless a report is written anyway."""
    rows = summary_rows(run)
    if as_json:
        print_json({"rows": [asdict(row) for row in rows]})
        return
    names = display_names(run.plan.datasets)  # a folder by its last part
    rows = [replace(row, dataset=names.get(row.dataset, row.dataset)) for row in rows]
    cards = {card.name: card for card in run.statistics()} if rows else {}
    shown = run.headline() if rows else []
    hidden = _print_tables(rows, shown, cards, run.benchmark.cases)
    seen = set(shown or cards).difference(hidden)
    printed = [row for row in rows if row.statistic in seen]
    legend = _legend(printed, [cards[name] for name in shown], run.plan.rounds)
    notes = [*legend, *run.notes()] if rows else []
    if hidden:
        notes.append(f"left out to fit the terminal: {', '.join(hidden)}; --json has all")
    say_answer("\n".join(notes))
    for sentence in _closing(run, reported):
        print(printable(sentence))


def summary_rows(run: segmeter.Run) -> list[segmeter.SummaryRow]:
    """The summary of a run that is done; nothing where it has none."""
    try:
        return run.summary()
    except segmeter.BadInput:  # every job failed
        return []
    except segmeter.NotFound as error:  # what computes it is not installed
        print(error, file=sys.stderr)
        return []


def _closing(run: segmeter.Run, reported: bool) -> list[str]:
    """How many jobs failed, and where to look next; a run without rows has no report."""
    tally, out, named = run.tally, run.address, []
    if tally is not None and tally.failed:
        finished = tally.done + tally.before
        named = [  # a job is one model on one scene
            f"{tally.failed} of {counted(finished + tally.failed, 'job')} failed, as named above "
            f"and in {out}/errors; fix the cause and repeat the command, which runs only them"
        ]
        if not finished:
            return named
    if reported:
        return [*named, f"rows in {out}"]
    costs = any(card.effort == "seconds" and card.waiting for card in run.statistics())
    hint = ["  with --objects N --hourly-rate R: hours and money for N objects"] if costs else []
    return [*named, f"rows in {out}; next: segmeter report {shlex.quote(out)}", *hint]


def _print_tables(
    rows: Sequence[segmeter.SummaryRow],
    headline: Sequence[str],
    cards: Mapping[str, Any],
    unit: str,
) -> list[str]:
    """One table per dataset, user and protocol; models down, headline statistics across.

    Protocols whose numbers are all equal share a table. A table without headline is left out
    where its dataset has one with. Returns statistics that do not fit.
    """
    hidden: list[str] = []
    answered = {row.dataset for row in rows if row.statistic in headline}
    for (dataset, user, protocol), here in _by_protocol(rows, headline).items():
        known = [row.statistic for row in here if row.statistic in cards]
        if dataset in answered and not set(headline) & set(known):
            continue
        shown = [m for m in headline if m in known] or list(dict.fromkeys(known))[:_WIDTH]
        count = counted(here[0].targets, unit)
        title = ", ".join(filter(None, (dataset, user, count, protocol)))
        fitting = _fitting(here, shown, cards)
        hidden += [name for name in shown if name not in fitting]
        lines = []
        for model, own in grouped(here, attrgetter("model")).items():
            values = {row.statistic: row for row in own}
            cells = [_cell(values.get(name), cards[name]) for name in fitting]
            lines += [[_shortened(short(model)), *cells]] if any(cells) else []
        numbers = [{"justify": "right", "no_wrap": True}] * len(fitting)
        print_rows(["model", *fitting], lines, title, [{"no_wrap": True}, *numbers])
    return list(dict.fromkeys(hidden))


def _by_protocol(
    rows: Sequence[segmeter.SummaryRow], headline: Sequence[str]
) -> dict[tuple[str, str, str], list[segmeter.SummaryRow]]:
    """Rows by dataset, user and protocol; one group where the headline does not differ."""
    found: dict[tuple[str, str, str], list[segmeter.SummaryRow]] = {}
    for (dataset, user), here in grouped(rows, attrgetter("dataset", "user")).items():
        by_protocol = grouped(here, attrgetter("protocol"))
        names, apart = list(by_protocol), list(by_protocol.values())
        distinct = {  # as text, for nan is not nan
            repr([replace(r, protocol="") for r in part if not headline or r.statistic in headline])
            for part in apart
        }
        if len(names) > 1 and len(distinct) == 1:
            names, apart = ["the same in both protocols"], apart[:1]
        else:
            names = [f"protocol {name}" if name else "" for name in names]
        found |= {(dataset, user, n): part for n, part in zip(names, apart, strict=True)}
    return found


def _legend(rows: Sequence[segmeter.SummaryRow], cards: Sequence[Any], rounds: int) -> list[str]:
    """A line on what ranges and seconds are, where there are any; one on clicks at the cap."""
    ranges = ["ranges: 95 % intervals"] if any(row.low < row.high for row in rows) else []
    timed = any(card.effort == "seconds" for card in cards)
    seconds = ["seconds: annotation time by cost model, no waiting"] if timed else []
    first = ["; ".join([*ranges, *seconds])] if ranges or seconds else []
    # Interactions of volumes, of which fewer are not better by themselves, have no cap.
    counts = {card.name for card in cards if card.effort == "clicks" and card.better}
    capped = [r for r in rows if r.statistic in counts and r.value >= rounds]
    parts = [f for f in ("dataset", "user") if len({getattr(r, f) for r in rows}) > 1]
    for name, here in grouped(capped, attrgetter("statistic")).items():
        places = [", ".join(getattr(r, f) for f in parts) for r in here]
        who = (short(r.model) + f" ({p})" * bool(p) for r, p in zip(here, places, strict=True))
        cap = f"{name} of {', '.join(dict.fromkeys(who))} is the cap of "
        cap += f"{counted(rounds, 'round')}: no object reached the goal earlier"
        first += textwrap.wrap(cap, 80, subsequent_indent="  ", break_on_hyphens=False)
    return first


def _shortened(model: str) -> str:
    """A name on one line: a very long one loses its middle.

    >>> _shortened("mobile-sam?masks=zeroshot"), len(_shortened("net.py:Net?weights=" + 40 * "w"))
    ('mobile-sam?masks=zeroshot', 40)
    """
    half = _LONG // 2
    return model if len(model) <= _LONG else f"{model[: half - 1]}…{model[-half:]}"


def _fitting(
    rows: Sequence[segmeter.SummaryRow], shown: Sequence[str], cards: Mapping[str, Any]
) -> list[str]:
    """As many statistics as fit next to the models' names without breaking these."""
    left = _terminal_width() - max(len(_shortened(short(r.model))) for r in rows) - 2
    fitting: list[str] = []
    for name in shown:
        cells = [_cell(r, cards[name]) for r in rows if r.statistic == name]
        lines = [line for cell in cells for line in cell.split("\n")]
        left -= max(map(len, (name, *lines))) + 3  # the gap
        if left < 0 and fitting:
            break
        fitting.append(name)
    return fitting


def _cell(row: segmeter.SummaryRow | None, card: Any) -> str:
    """A value over its interval, whose limits have one decimal less."""
    if row is None:
        return ""
    value, places = f"{row.value:.{card.digits}f}", max(0, card.digits - 1)
    if not (math.isfinite(row.low) and math.isfinite(row.high)):
        return value  # one image has no spread
    return f"{value}\n{interval_text(row.low, row.high, places)}"


def interval_text(low: float, high: float, digits: int) -> str:
    """Both limits; nothing where they are printed the same."""
    lower, upper = f"{low:z.{digits}f}", f"{high:z.{digits}f}"
    to = " to " if "-" in lower + upper else "–"  # no dash next to a minus
    return "" if lower == upper else f"{lower}{to}{upper}"


def speak_plainly() -> None:
    """Replace characters that the terminal lacks; spell control characters in warnings out."""
    warnings.showwarning = _warn
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Plain())
    codecs.register_error("segmeter-plain", _replaced)
    for stream in (sys.stdout, sys.stderr):
        change = getattr(stream, "reconfigure", None)  # a test's stream may not have it
        if change is not None:
            change(errors="segmeter-plain")


def _warn(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """A library's warning on stderr; it may quote names of a run, which are not trusted."""
    print(printable(f"{category.__name__}: {message}"), file=sys.stderr)


class _Plain(logging.Formatter):
    """Log messages of libraries without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found: Any = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c, "?") for c in found), error.end
