"""Site hooks: pages made of notebooks, and pages that the navigation does not name.

    python docs/hooks.py

writes the tables of options and columns into the pages that have a mark such as
`<!-- options of run noc -->`, from the commands and the schemas of rows; `make docs` does it first.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from mkdocs.structure.files import File

from segmeter.cli.app import commands
from segmeter.core.rows import DETECTION_ROWS, ERROR_ROWS, SESSION_ROWS

sys.path.insert(0, str(Path(__file__).parent))
from notebooks import as_markdown  # next to this file

_MARK = re.compile(r"^<!-- (options|columns) of (.+) -->\n(?:\n(?:\|.*\n)+)?", re.MULTILINE)
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
    """Link to pages of notebooks."""
    return re.sub(r"(?<!notebook)\]\(([\w./-]+)\.ipynb\)", r"](\1.md)", markdown)


def filled(markdown: str) -> str:
    """A page with the current tables below its marks."""

    def table(found: re.Match[str]) -> str:
        kind, name = found.groups()
        rows = options_of(name.split()) if kind == "options" else columns_of(name)
        return f"<!-- {kind} of {name} -->\n\n{rows}\n"

    return _MARK.sub(table, markdown)


def columns_of(name: str) -> str:
    """The columns of a kind of rows as a table."""
    rows = [f"| `{c.name}` | {c.kind} | {c.says} |" for c in _SCHEMAS[name].columns]
    return "\n".join(["| column | type | meaning |", "|---|---|---|", *rows])


def options_of(words: list[str]) -> str:
    """A command's arguments and options as a table."""
    command: Any = typer.main.get_command(commands())
    for word in words:
        command = command.commands[word]
    rows = [row for parameter in command.params for row in _row(parameter)]
    return "\n".join(["| option | what it does |", "|---|---|", *rows])


def _row(parameter: Any) -> Iterator[str]:
    if parameter.name == "help":
        return
    names = [*parameter.opts, *parameter.secondary_opts]
    if parameter.param_type_name == "argument":
        names = [(parameter.metavar or parameter.name).upper()]
    said = " ".join((parameter.help or "").split()).replace("|", "\\|")
    default = parameter.default
    if isinstance(default, int | float | str | Path) and not isinstance(default, bool):
        said += f" Default: `{getattr(default, 'value', default)}`."
    if parameter.required:
        said += " Required."
    yield f"| {', '.join(f'`{name}`' for name in names)} | {said} |"


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
