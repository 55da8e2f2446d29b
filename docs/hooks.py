"""Site hooks: pages made of notebooks, and pages that the navigation does not name.

Tables of options come from the commands when the site is built, below marks such as
`<!-- options of run noc -->`. Tables of columns are stored in the pages;

    python docs/hooks.py

writes them again, from the schemas of rows; `make docs` does it first.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer.main
from mkdocs.structure.files import File

from segmeter.cli.app import commands
from segmeter.core.rows import DETECTION_ROWS, ERROR_ROWS, SESSION_ROWS

sys.path.insert(0, str(Path(__file__).parent))
from notebooks import as_markdown  # next to this file

_OPTIONS = re.compile(r"^<!-- options of (.+) -->$", re.MULTILINE)
_COLUMNS = re.compile(r"^<!-- columns of (.+) -->\n(?:\n(?:\|.*\n)+)?", re.MULTILINE)
# Options that mean the same in many commands, and a command that has each: listed once.
_SHARED = {
    "--data": "check", "--weights": "check", "--json": "check", "--cost": "report",
    "--goal": "report", "--by": "report", "--groups": "report", "--trust": "report",
    "--db": "study serve",
}  # fmt: skip
_SCHEMAS = {schema.name: schema for schema in (SESSION_ROWS, DETECTION_ROWS, ERROR_ROWS)}


def on_config(config: Any) -> Any:
    """Put pages that the navigation does not name at the end of their folder's section."""
    docs = Path(config["docs_dir"])
    sections = {title: pages for entry in config["nav"] for title, pages in entry.items()}
    named = set(_pages(config["nav"]))
    for path in sorted(docs.rglob("*.md")):
        page = path.relative_to(docs).as_posix()
        if page not in named:
            folder = page.rpartition("/")[0]
            title = folder.replace("-", " ").capitalize() or "Explanation"
            if title not in sections:
                sections[title] = []
                config["nav"].append({title: sections[title]})
            sections[title].append(page)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each notebook."""
    for path in sorted(Path(config["docs_dir"], "tutorials").glob("*.ipynb")):
        page = as_markdown(json.loads(path.read_text()), path.stem)
        files.append(File.generated(config, f"tutorials/{path.stem}.md", content=page))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Link to pages of notebooks, and list options."""
    markdown = _OPTIONS.sub(lambda found: options_of(found[1]), markdown)
    return re.sub(r"(?<!notebook)\]\(([\w./-]+)\.ipynb\)", r"](\1.md)", markdown)


def filled(markdown: str) -> str:
    """A page with the current tables of columns below its marks."""
    return _COLUMNS.sub(
        lambda found: f"<!-- columns of {found[1]} -->\n\n{columns_of(found[1])}\n", markdown
    )


def columns_of(name: str) -> str:
    """The columns of a kind of rows as a table."""
    rows = [f"| `{c.name}` | {c.kind} | {c.meaning} |" for c in _SCHEMAS[name].columns]
    return "\n".join(["| column | type | meaning |", "|---|---|---|", *rows])


def options_of(command: str) -> str:
    """A command's arguments and options as a table, then the names of shared options."""
    if command == "many commands":
        return _table([p for flag, name in _SHARED.items() for p in _parameters(name, flag)])
    found = _parameters(command)
    table = _table([p for p in found if not _SHARED.keys() & p.opts])
    shared = [f"`{flag}`" for flag in _SHARED if any(flag in p.opts for p in found)]
    also = f"Also {', '.join(shared)}: see [shared options](#shared-options)."
    return "\n\n".join(filter(None, (table, also if shared else "")))


def _parameters(command: str, flag: str = "") -> list[Any]:
    """The parameters of a command without `--help`, or the one with a flag."""
    found = _command(command)
    return [p for p in found.params if p.name != "help" and (not flag or flag in p.opts)]


@cache
def _command(name: str) -> Any:
    """The command of these words; each group is built once, which takes most of the time."""
    if not name:
        return typer.main.get_command(commands())
    group, _, last = name.rpartition(" ")
    return _command(group).commands[last]


def _table(parameters: list[Any]) -> str:
    rows = [_row(parameter) for parameter in parameters]
    return "\n".join(["| option | what it does |", "|---|---|", *rows]) if rows else ""


def _row(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    if parameter.param_type_name == "argument":
        names = [(parameter.metavar or parameter.name).upper()]
    said = " ".join((parameter.help or "").split()).replace("|", "\\|")
    default = parameter.default
    if isinstance(default, int | float | str | Path) and default != "" and default is not False:
        said += f" Default: `{getattr(default, 'value', default)}`."
    if parameter.required:
        said += " Required."
    return f"| {', '.join(f'`{name}`' for name in names)} | {said} |"


def _pages(entries: Any) -> Iterator[str]:
    """The pages that a navigation names, at any depth."""
    if isinstance(entries, str):
        yield entries
    elif isinstance(entries, dict):
        for inner in entries.values():
            yield from _pages(inner)
    else:
        for inner in entries:
            yield from _pages(inner)


if __name__ == "__main__":
    for page in sorted(Path(__file__).parent.rglob("*.md")):
        before = page.read_text()
        if (after := filled(before)) != before:
            page.write_text(after)
            print(page)
