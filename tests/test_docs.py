"""Every Python block in the README and the documentation runs, and none escapes."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from segmeter.cli.app import commands
from segmeter.core import catalogue

from .forking import Interpreter

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "examples/README.md", *sorted(DOCS.rglob("*.md"))]
PAPERS = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]

# Languages of blocks that are shown and not run.
SHOWN = {"sh", "text", "json", "csv", "toml", "yaml", "sql", "bibtex", "latex", "mermaid"}

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")


def blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    """Line number, language and text of each fenced block."""
    opened: tuple[int, str, str, str] | None = None
    inside: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence:
                opened, inside = (number, fence[1], fence[2], fence[3].strip()), []
        elif fence and fence[2].startswith(opened[2]) and not fence[3].strip():
            indent = len(opened[1])
            yield opened[0], opened[3], "\n".join(text[indent:] for text in inside)
            opened = None
        else:
            inside.append(line)
    assert opened is None, f"{page.name}: the block of line {opened[0]} is never closed"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


PYTHON = [
    pytest.param(text, id=f"{name_of(page)}:{line}")
    for page in PAGES
    for line, language, text in blocks(page)
    if language == "python"
]


@pytest.mark.parametrize("code", PYTHON)
def test_a_block_runs_as_a_separate_script(code: str, python: Interpreter, tmp_path: Path) -> None:
    """In a process of its own and an empty folder that sees the repository's `examples`."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "block.py").write_text(code)
    done = python.run("block.py", folder=tmp_path, OMP_NUM_THREADS="1", MPLBACKEND="Agg")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_block_escapes(page: Path) -> None:
    """Each fence says its language, Python is called `python`, and no session hides in text."""
    found = list(blocks(page))
    for line, language, text in found:
        assert language == "python" or language in SHOWN, f"line {line}: '{language}'"
        assert language == "python" or not re.search(r"^>>> ", text, re.MULTILINE), f"line {line}"
    told = len(re.findall(r"^ *[`~]{3,} *\{?\.?py", page.read_text(), re.MULTILINE))
    assert told == sum(language == "python" for _, language, _ in found)


@pytest.mark.parametrize("page", [*PAGES, *PAPERS], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    targets = re.findall(r"\]\(([^)#\s]*)(#[^)]*)?\)", text)
    targets += [(source, "") for source in re.findall(r"<img[^>]*src=\"([^\"]+)\"", text)]
    for target, anchor in targets:
        if not re.match(r"[a-z]+:", target):
            there = page.parent / target if target else page
            assert there.exists(), target
            assert not anchor or anchor[1:] in anchors(there), f"{target}{anchor}"


def anchors(page: Path) -> set[str]:
    """What the headings of a page are linked by."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", head).strip().lower() for head in heads)
    return {re.sub(r"[\s-]+", "-", head) for head in plain}


def shown_commands() -> Iterator[tuple[str, list[str]]]:
    """Where a `segmeter ...` stands in a shell block, and its words, those of later lines too."""
    for page in PAGES:
        for line, language, text in blocks(page):
            for typed in text.replace("\\\n", " ").splitlines() if language == "sh" else []:
                if typed.startswith(("segmeter ", "$ segmeter ")):
                    words = shlex.split(typed.removeprefix("$ "), comments=True)
                    yield f"{name_of(page)}:{line}", words[1:]


def test_commands_that_are_shown_exist_and_have_these_options() -> None:
    known = dict(leaves(typer.main.get_command(commands())))
    checked = 0
    for place, words in shown_commands():
        name = next((name for name in known if words[: len(name.split())] == name.split()), None)
        if words in (["--help"], ["run", "--help"], ["--install-completion"]):
            continue
        assert name is not None, f"{place}: no command 'segmeter {words[0]}'"
        taken = {o for p in known[name].params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
        for word in words:
            if re.match(r"-{1,2}[a-z]", word):
                assert word.partition("=")[0] in taken, f"{place}: '{name}' has no {word}"
                checked += 1
    assert checked > 200


def test_the_page_of_commands_repeats_their_help() -> None:
    page = (DOCS / "commands.md").read_text()
    for name, command in leaves(typer.main.get_command(commands())):
        if name.startswith("run ") and name != "run noc":
            continue  # the page shows the options of one, and those that others declare
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert section, f"docs/commands.md has no section '## {name}'"
        assert f"\n<!-- options of {name} -->\n" in section
        said, _, examples = " ".join(command.help.split()).partition("Example")
        told = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(section.split()))
        for sentence in re.split(r"(?<=[.?]) ", said.strip()):
            assert sentence in told, f"{name}: the page lacks '{sentence}'"
        shown = re.findall(r"`(segmeter [^`]+)`", examples)
        assert shown, f"the help of '{name}' has no example"
        for example in shown:
            assert " ".join(example.split()) in section, f"{name}: {example}"


def test_tables_of_columns_are_current() -> None:
    """`python docs/hooks.py` writes them."""
    hooks = runpy.run_path(str(DOCS / "hooks.py"))
    marks = 0
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        assert hooks["filled"](text) == text, f"{page.name}: run 'python docs/hooks.py'"
        marks += len(re.findall(r"^<!-- columns of ", text, re.MULTILINE))
    assert marks == 3


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command that does something, by the words that one types."""
    if not hasattr(command, "commands"):
        yield " ".join(path), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from leaves(inner, (*path, name))


@pytest.mark.long
def test_the_site_builds_without_a_warning_and_with_every_page(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for page in DOCS.rglob("*.md"):
        assert (tmp_path / page.relative_to(DOCS).with_suffix(".html")).is_file(), page
    assert "<td><code>--protocol</code></td>" in (tmp_path / "commands.html").read_text()


def test_names_that_are_shown_are_in_the_catalogue() -> None:
    """`--model NAME` and the like in a shell block name what can be listed, or the user's own."""
    registries = {
        "model": catalogue.models,
        "method": catalogue.methods,
        "dataset": catalogue.datasets,
        "user": catalogue.users,
        "measure": catalogue.measures,
    }
    for page in PAGES:
        for line, language, text in blocks(page):
            found = re.findall(r"--(model|method|dataset|user|measure) (\S+)", text)
            for kind, name in found if language == "sh" else []:
                own = "/" in name or ".py:" in name or name.split("?")[0].strip("'").isupper()
                known = registries[kind].names()
                assert own or name.split("?")[0].strip("'\"") in known, f"{page.name}:{line} {name}"


@pytest.mark.parametrize("page", [*PAGES, *PAPERS], ids=name_of)
def test_files_and_modules_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    for path in re.findall(r"\b(?:perf|tests|examples|docs|src)/[\w./-]+\w", text):
        named = path.removesuffix("/NAME").removesuffix("/NAME.py").removesuffix("/NAME.md")
        assert (ROOT / named).exists(), path
    for name in re.findall(r"\bsegmeter\.([a-z_]+(?:\.[a-z_]+)+)", text):
        assert is_module(name) or is_module(name.rpartition(".")[0], file=True), name


def is_module(name: str, *, file: bool = False) -> bool:
    """Whether there is such a module below `segmeter`, a package or else a file."""
    place = ROOT.joinpath("src", "segmeter", *name.split("."))
    return place.with_suffix(".py").is_file() or (place.is_dir() and not file)
