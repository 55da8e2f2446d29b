"""Prose and names: plain technical English, in the words of the field.

Run this file to see what remains, line by line:

    python tests/test_prose.py [room]
"""

from __future__ import annotations

import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

WORDS = [
    r"anew", r"whoever", r"nobody", r"somebody", r"beside", r"go(?:es)?\s+on(?:\s+with)?",
    r"(?:is|are)\s+told", r"stands\s+in", r"lies\s+in", r"no\s+part\s+of", r"hears",
    r"of\s+one's\s+own", r"for\s+good", r"foretells?", r"lifelike", r"verdicts?", r"established",
    r"photographs?", r"pictures?", r"good\s+sense\s+part", r"at\s+hand", r"mend(?:s|ed|ing)?",
    r"hangs?\s+on", r"anybody", r"every\s+value\s+but",
    r"(?:clicks|masks|images|slices|rows|jobs)\s+a\s+second",
]  # fmt: skip
TURN = re.compile(r"(?<![\w-])(?:" + "|".join(WORDS) + r")(?![\w-])", re.IGNORECASE)

# A docstring states what a thing is or does: "What was found." is a riddle, "What is it?" is not.
RIDDLE = re.compile(r'"""(?:What|Whoever|Who|Where)\b(?![^"]*\?)')

# Former names: words that names of the code are made of, and whole names of classes.
OLD_WORDS = {"look", "played", "player", "players", "reading", "shelf", "sound", "trail", "trails"}
OLD_CLASSES = {"View", "Ask", "Picture", "Reading", "Player"}
OLD = re.compile("|".join(sorted(OLD_WORDS | {name.lower() for name in OLD_CLASSES})), re.I)

# What is allowed, by file and word, with the reason.
ALLOWED = {
    ("src/segmeter/core/catalogue.py", "picture"): "an argument's name in users' functions",
    ("src/segmeter/clickability/click_files.py", "lifelike"): "seeds the draws",
}

# Rooms that are not rewritten yet and the most lines they may still have. Only ever lower these.
REMAINING: dict[str, int] = {}

SUFFIXES = {".py", ".md", ".html", ".js", ".css", ".cpp", ".h", ".toml", ".ipynb"}


def files() -> Iterator[Path]:
    """Everything people read: sources, templates, documentation, examples."""
    for folder in ("src/segmeter", "docs", "examples", "perf"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES:
                yield path
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile"))


def room_of(path: Path) -> str:
    """The package of a source file; the page of a document."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[1:3]) if parts[0] == "src" else "/".join(parts[:2])


def findings() -> Iterator[tuple[Path, int, str]]:
    """File, line and word of every turn or former name that is not allowed."""
    for path in files():
        text = path.read_text() if path.suffix != ".ipynb" else sources(path)
        found = [(match.start(), match[0]) for match in TURN.finditer(text)]
        if path.suffix == ".py":
            found += [(match.start(), match[0]) for match in RIDDLE.finditer(text)]
        for start, word in found:
            if (str(path.relative_to(ROOT)), word.lower()) not in ALLOWED:
                yield path, text.count("\n", 0, start) + 1, word.strip('"')
        if path.suffix == ".py":
            yield from ((path, line, name) for line, name in former_names(text))


def sources(notebook: Path) -> str:
    """The cells of a notebook, without outputs, which commands print."""
    cells = json.loads(notebook.read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells)


def former_names(code: str) -> Iterator[tuple[int, str]]:
    """Line and name of each definition, argument or variable with a former name."""
    if not OLD.search(code):
        return
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.NAME and before != ".":
            words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", token.string)
            if token.string in OLD_CLASSES or OLD_WORDS & {word.lower() for word in words}:
                yield token.start[0], token.string
        before = token.string


def test_no_package_has_words_to_avoid_or_former_names() -> None:
    found = list(findings())
    counts = Counter(room_of(path) for path, _, _ in found)
    over = {room for room, count in counts.items() if count > REMAINING.get(room, 0)}
    lines = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path, line, word in found
        if room_of(path) in over
    ]
    assert not over, "\n".join(lines)


def test_every_allowed_word_occurs() -> None:
    for (name, word), reason in ALLOWED.items():
        assert re.search(rf"\b{word}\b", (ROOT / name).read_text(), re.IGNORECASE), (name, reason)


if __name__ == "__main__":
    everything = list(findings())
    for path, line, word in everything:
        if room_of(path) in sys.argv[1:]:
            text = path.read_text().splitlines()[line - 1].strip()
            print(f"{path.relative_to(ROOT)}:{line}: [{word}] {text}")
    for room, count in sorted(Counter(room_of(path) for path, _, _ in everything).items()):
        print(f'    "{room}": {count},')
