"""Site hooks: tables of options from the real commands, pages made of notebooks, new pages."""

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

sys.path.insert(0, str(Path(__file__).parent))
from notebooks import as_markdown  # next to this file

_MARK = re.compile(r"^<!-- options of (.+) -->$", re.MULTILINE)


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
    """Link to pages of notebooks; fill in tables of options."""
    markdown = re.sub(r"(?<!notebook)\]\(([\w./-]+)\.ipynb\)", r"](\1.md)", markdown)
    return _MARK.sub(lambda found: options_of(found[1].split()), markdown)


def options_of(words: list[str]) -> str:
    """A command's arguments and options as a table."""
    command: Any = typer.main.get_command(commands())
    for word in words:
        command = command.commands[word]
    rows = [row for parameter in command.params for row in _row(parameter)]
    return "\n".join(["| option | what it does |", "|---|---|", *rows]) if rows else ""


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
