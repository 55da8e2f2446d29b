"""Plug-in files: your own Python files, run as modules; they may import their neighbours."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from segmeter.core.errors import BadInput
from segmeter.core.seeds import fingerprint

_neighbours: dict[str, dict[str, Path]] = {}  # of each module made here: what it imported


def module_of(path: Path) -> ModuleType:
    """Run a file and return its module; run again once it or a neighbour has changed.

    The file's folder is searched for imports first, as for a script.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "net.py").write_text("SIZE = 3")
    >>> _ = (folder / "model.py").write_text("from net import SIZE")
    >>> module_of(folder / "model.py").SIZE
    3
    """
    resolved = path.resolve()
    source = resolved.read_bytes()
    title = f"segmeter_file_{fingerprint(resolved, source, size=6)}"
    known = sys.modules.get(title)
    if known is not None and known.__dict__["__neighbours__"] == _contents(_neighbours[title]):
        return known
    for name in {name for names in _neighbours.values() for name in names}:
        sys.modules.pop(name, None)  # another folder's module of that name, or an older one
    spec = importlib.util.spec_from_file_location(title, resolved)
    if spec is None or spec.loader is None:
        raise BadInput(f"'{path}' is not a Python file")
    module = importlib.util.module_from_spec(spec)
    before = set(sys.modules)
    sys.modules[title] = module
    sys.path.insert(0, str(resolved.parent))
    try:
        # From the source: the cache of compiled files compares only size and whole seconds.
        exec(compile(source, str(resolved), "exec"), module.__dict__)
    except Exception as error:
        del sys.modules[title]
        raise BadInput(f"'{path}' cannot be run: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(resolved.parent))
        if str(resolved.parent) not in sys.path:
            sys.path.append(str(resolved.parent))  # for imports inside functions
    _neighbours[title] = _imported_from(resolved.parent, set(sys.modules) - before - {title})
    module.__dict__["__neighbours__"] = _contents(_neighbours[title])
    return module


def _imported_from(folder: Path, names: set[str]) -> dict[str, Path]:
    """Those of some modules whose files lie below a folder."""
    files = {name: getattr(sys.modules[name], "__file__", None) for name in names}
    paths = {name: Path(file).resolve() for name, file in files.items() if file}
    installed = {"site-packages", "dist-packages"}
    return {
        name: path
        for name, path in paths.items()
        if path.is_relative_to(folder) and installed.isdisjoint(path.parts)
    }


def _contents(files: Mapping[str, Path]) -> dict[str, str]:
    return {
        name: fingerprint(path.read_bytes()) if path.is_file() else ""
        for name, path in files.items()
    }


def objects_in(path: Path) -> list[str]:
    """Public classes and functions that a file defines, by its source; the file is not run.

    >>> objects_in(Path("nowhere.py"))
    []
    """
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []
    kinds = (ast.ClassDef, ast.FunctionDef)
    return [node.name for node in body if isinstance(node, kinds) and node.name[0] != "_"]
