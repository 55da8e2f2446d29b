"""The rules of the house: who may import whom, what stays light, what every name carries."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from segmeter.core import catalogue

from .syntax import MODULES, PACKAGE, nodes, parsed

ROOT = Path(__file__).resolve().parents[1]

SCIENCE = {"datasets", "models", "users", "measures", "stats", "clickability"}
MAY_IMPORT = {
    "kernels": set(),
    "core": {"kernels"},
    "runtime": {"core"},
    "datasets": {"core", "runtime"},
    # Rooms whose arithmetic a kernel does call it themselves.
    "models": {"core", "runtime", "kernels"},
    "measures": {"core", "kernels"},
    "stats": {"core"},
    # Click models are fitted to recorded clicks, and replays repeat them: both are data. The
    # networks are read and built with the tools of models.
    "clickability": {"core", "kernels", "measures", "datasets", "models"},
    "users": {"core", "clickability", "measures", "datasets"},
    # What benchmarks share: groups, costs, responses to prompts, tables and cases of reports.
    "analysis": {"core", "datasets", "models", "users", "measures", "stats"},
    "benchmarks": {"core", *SCIENCE, "analysis"},
    # Trains a model's decoder; annotators are passed in.
    "training": {"core", "models", "measures", "stats"},
    "store": {"core", "runtime"},
    # The engine writes finished jobs into a run folder (store) and sets the kernels' threads.
    "engine": {"core", "runtime", "kernels", "store"},
    # Masks are exported on the grids of the files that they belong to.
    "export": {"core", "store", "datasets"},
    "report": {"core", "store", "stats"},
    # The public API: what `import segmeter` offers.
    "api": {
        *("core", "runtime", "kernels", *SCIENCE, "analysis", "benchmarks", "engine", "store"),
        *("report", "export", "evaluation", "model_parity", "training"),
    },
    # The command line parses options, calls the public API and prints.
    "cli": {"api", "study"},
    "study": {
        *("core", "runtime", *SCIENCE - {"models"}),
        *("analysis", "store", "engine", "report"),
    },
    # The front doors: `import segmeter`, `segmeter.evaluate`, `python -m segmeter`.
    "__init__.py": {
        *("api", "core", "evaluation", "measures", "metrics", "model_parity", "serving", "store"),
    },
    "evaluation.py": {"api", "core", "runtime", "engine"},
    "metrics.py": {"core"},
    "model_parity.py": {"api", "core", "measures", "report", "stats"},
    # Images that are sent are read with the checks of datasets.
    "serving.py": {"api", "core", "datasets"},
    "__main__.py": {"cli"},
}
# What a room may look up in the catalogue beyond what it may import, and why.
MAY_LOOK_UP = {
    "users": {"models"},  # sessions start from the masks of a named method or model
    "core": {"measures"},  # a measure registers itself, and is found by its name
    "engine": {*SCIENCE, "benchmarks"},  # makes what a plan names
    "store": {"datasets", "benchmarks"},  # a run's own, of those that are installed
    "report": {"benchmarks", "measures", "datasets"},  # what they cite
    "api": {*SCIENCE, "benchmarks"},  # loads and lists everything that has a name
    "evaluation.py": {"users", "datasets"},
    "model_parity.py": {"models", "datasets", "users"},
    "study": {"models"},  # the model that people segment with
}
HEAVY = ("torch", "transformers", "duckdb", "matplotlib", "skimage", "cv2", "pyarrow", "scipy")
HEAVY_TO_LIST = ("torch", "transformers", "duckdb", "matplotlib", "skimage")
REGISTRIES = [
    catalogue.models,
    catalogue.methods,
    catalogue.detectors,
    catalogue.datasets,
    catalogue.users,
    catalogue.measures,
    catalogue.benchmarks,
]


def module_id(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def rooms_imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and room of every import of segmeter, late and type-only ones included."""
    for node in nodes(path, ast.Import, ast.ImportFrom):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.level == 0 and node.module == "segmeter":
            names = [f"segmeter.{alias.name}" for alias in node.names]
        elif node.level == 0:
            names = [node.module or ""]
        for name in names:
            top, *inner = name.split(".")
            if top == "segmeter" and inner and inner[0] != "__version__":
                yield node.lineno, inner[0]


def test_a_room_imports_only_rooms_below_it() -> None:
    wrong = [
        f"{module_id(path)}, line {line}: {other}"
        for path in MODULES
        for line, other in rooms_imported(path)
        if other not in MAY_IMPORT[room_of(path)] | {room_of(path)}
    ]
    assert not wrong


def rooms_looked_up(path: Path) -> Iterator[tuple[int, str]]:
    """Line and room of every look-up in the catalogue."""
    rooms = {registry.kind + "s": registry.room.rpartition(".")[2] for registry in REGISTRIES}
    for node in nodes(path, ast.Attribute):
        if node.attr in rooms and ast.unparse(node.value) == "catalogue":
            yield node.lineno, rooms[node.attr]


def test_a_package_looks_up_only_what_it_may_use() -> None:
    wrong = []
    for path in MODULES:
        room = room_of(path)
        allowed = MAY_IMPORT[room] | MAY_LOOK_UP.get(room, set()) | {room}
        for line, other in rooms_looked_up(path):
            if other not in allowed:
                wrong.append(f"{module_id(path)}, line {line}: {other}")
    assert not wrong


def test_every_allowed_import_is_used() -> None:
    """A permission that is not used is an opening that nobody watches."""
    used: dict[str, set[str]] = {}
    for path in MODULES:
        room = room_of(path)
        used.setdefault(room, set()).update(other for _, other in rooms_imported(path))
    assert {room: may - used[room] for room, may in MAY_IMPORT.items() if may - used[room]} == {}


def test_the_import_rules_name_every_room() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert rooms <= MAY_IMPORT.keys()


def test_modules_are_named_by_what_they_hold() -> None:
    vague = re.compile(r"^_?(utils?|helpers?|common|misc|tools?)$")
    assert not [p for p in MODULES if vague.match(p.stem) or vague.match(p.parent.name)]


def test_a_module_has_a_docstring() -> None:
    begins = re.compile(r"[A-Z`']|segmeter")
    bare = [
        module_id(path)
        for path in MODULES
        if not begins.match(ast.get_docstring(parsed(path)) or "")
    ]
    assert not bare


def test_a_module_begins_with_the_definition_of_its_name() -> None:
    """In the rooms that others build on: whoever reads a list of names finds the words again."""
    strange = []
    rooms = (
        "core",
        "runtime",
        "engine",
        "store",
        "stats",
        "measures",
        "datasets",
        "clickability",
        "study",
    )
    for path in (path for room in rooms for path in (PACKAGE / room).rglob("[!_]*.py")):
        if "migrations" in path.parts:
            continue  # named as Alembic wants them
        docstring = ast.get_docstring(parsed(path)) or ""
        first = docstring.partition("\n\n")[0].lower().replace("-", "")
        words = [word for word in path.stem.split("_") if word != "and"]
        if not all(word[:5].rstrip("s") in first for word in words):
            strange.append(f"{module_id(path)}: {first}")
    assert not strange


def test_functions_fit_a_screen() -> None:
    """Signature and docstring included."""
    long = [
        f"{module_id(path)}: {node.name}"
        for path in MODULES
        for node in nodes(path, ast.FunctionDef, ast.AsyncFunctionDef)
        if (node.end_lineno or 0) - node.lineno + 1 >= 60
    ]
    assert not long


def loaded_by(code: str, heavy: tuple[str, ...]) -> list[str]:
    """Which heavy libraries a fresh Python has loaded after running some code."""
    probe = f"{code}\nimport sys; print([n for n in {heavy!r} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = ast.literal_eval(done.stdout.strip().splitlines()[-1])
    assert isinstance(loaded, list)
    return loaded


def test_importing_segmeter_loads_nothing_heavy() -> None:
    assert loaded_by("import segmeter", HEAVY) == []


def test_listing_everything_loads_nothing_heavy() -> None:
    code = (
        "from segmeter.core import catalogue as c\n"
        "for shelf in (c.models, c.methods, c.datasets, c.users, c.measures, c.benchmarks):\n"
        "    shelf.names()"
    )
    assert loaded_by(code, HEAVY_TO_LIST) == []


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_everything_in_a_registry_has_a_name_to_type_and_a_line_about_it(
    registry: catalogue.Registry[object],
) -> None:
    entries = list(registry)
    assert entries
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.@_-]*", entry.name), entry.name
        assert len(entry.summary) >= 8, entry.name
        assert "\n" not in entry.summary, entry.name


def tracked_texts() -> Iterator[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and path.stat().st_size < 1 << 20:
            try:
                yield name, path.read_text()
            except UnicodeDecodeError:
                continue


def test_no_tracked_file_names_a_machine() -> None:
    """No home folders, no work folders, no package hosts."""
    folders = "|".join(("root", "work", "home/[a-z]+", "Users/[A-Za-z]+", "opt"))
    hosts = "|".join(("py" + r"pi\.org", "python" + "hosted", "ana" + r"conda\.(?:org|com)"))
    told = re.compile(rf"(?<![\w.}}*~])/(?:{folders})/|{hosts}")
    found = {
        f"{name}: {match[0]}"
        for name, text in tracked_texts()
        if (match := told.search(text)) and name != "tests/test_architecture.py"
    }
    assert not found


@cache
def used_elsewhere() -> frozenset[tuple[str, str]]:
    """Modules and names in them that another room imports."""
    return frozenset(
        (node.module, alias.name)
        for path in MODULES
        for node in nodes(path, ast.ImportFrom)
        if node.module and node.module.startswith("segmeter.")
        if node.module.split(".")[1] != path.relative_to(PACKAGE).parts[0]
        for alias in node.names
    )


def test_a_named_file_is_written_whole_or_not_at_all() -> None:
    """By `write_file`: on a full disk an older file stays."""
    rooms = ("api", "cli", "export", "report")
    found = {
        f"{module_id(path)}, line {call.lineno}"
        for path in MODULES
        if path.relative_to(PACKAGE).parts[0] in rooms
        for call in nodes(path, ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("write_text", "write_bytes")
    }
    assert not found


def test_public_functions_of_core_measures_and_stats_show_an_example() -> None:
    """Each is run by the doctests."""
    bare = [
        f"{module_id(path)}: {node.name}"
        for room in ("core", "measures", "stats")
        for path in sorted((PACKAGE / room).glob("[!_]*.py"))
        for node in parsed(path).body
        if isinstance(node, ast.FunctionDef)
        and (f"segmeter.{room}.{path.stem}", node.name) in used_elsewhere()
        and ">>>" not in (ast.get_docstring(node) or "")
    ]
    assert not bare
