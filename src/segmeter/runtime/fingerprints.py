"""Fingerprints of models of the user's own: whether one has changed since a run was made.

`object_fingerprint` covers a Python object: code, closure, referenced globals, attributes, arrays,
parameters of torch modules, files of ONNX sessions and files named by attributes.
`source_fingerprint` covers `file.py:name?options`: the file, its neighbours that it imports, and
files that options or constants in the source name. Installed packages and the standard library
count by name.
"""

from __future__ import annotations

import ast
import copyreg
import hashlib
import os
import re
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from mmap import ACCESS_READ, mmap
from modulefinder import ModuleFinder
from pathlib import Path
from pickle import PickleError
from typing import Any

UNKNOWN = "unknown"
"""The fingerprint of an object whose state is not accessible; never counted as unchanged."""

_MOST_FILES = 1000  # of a folder that an option names
_WRITERS = frozenset(
    {"write_text", "write_bytes", "touch", "save", "savez", "savez_compressed", "savetxt", "tofile",
     "imwrite", "to_csv", "to_json", "to_parquet", "FileHandler", "save_file"}
)  # fmt: skip
_SIMPLE = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice)


class _NoFingerprint(Exception):
    """An object whose state is not accessible, such as a lock or a socket."""


def object_fingerprint(thing: object) -> str:
    """Digest of an object's code and state, or `UNKNOWN` where some state is not accessible.

    Inside `fingerprinted` an object keeps the digest that it had at the beginning.

    >>> low, high = (lambda image, clicks, t=t: image[..., 0] > t for t in (9, 10))
    >>> object_fingerprint(low) == object_fingerprint(high)
    False
    """
    inner = _inner(thing)
    held = _held.get(id(inner))
    known = held is not None and held.active and held.reference() is inner
    digest = held.before if held is not None and known else _digest(inner)
    if isinstance(thing, types.MethodType) and digest != UNKNOWN:
        return f"{digest}.{thing.__name__}"
    return digest


def _inner(thing: Any) -> Any:
    """The user's own object: the one that an adapter wraps, or the owner of a bound method."""
    if isinstance(thing, types.MethodType):
        return thing.__self__
    wrapped = getattr(thing, "wrapped", None)
    return thing if wrapped is None else _inner(wrapped)


def _digest(thing: object) -> str:
    walk = _Walk()
    try:
        walk.add(thing)
    except (_NoFingerprint, RecursionError):
        return UNKNOWN
    return walk.hash.hexdigest()


def installed(thing: object) -> bool:
    """Whether the code of a function, or of an object's class, belongs to an installed package.

    >>> installed(Path()), installed(lambda image: image > 9)
    (True, False)
    """
    code = getattr(thing, "__code__", None)
    return _is_library(_file_of(type(thing)) if code is None else code.co_filename)


class _Held:
    """The fingerprint of an object before its run, and after it."""

    def __init__(self, thing: object, before: str) -> None:
        self.before, self.after, self.active = before, "", True
        try:
            self.reference: Callable[[], object] = weakref.ref(thing)
        except TypeError:  # takes no weak references: held while it works
            self.reference = lambda: thing


_held: dict[int, _Held] = {}


@contextmanager
def fingerprinted(things: Iterable[object]) -> Iterator[None]:
    """Fix the fingerprints of objects while they work.

    A predictor keeps the last image, a function may keep a cache: such state changes during a run
    and is not a change of the model. An object that is as the last run left it has the fingerprint
    that it had before that run.

    >>> class Counter:
    ...     calls = 0
    >>> counter = Counter()
    >>> with fingerprinted([counter]):
    ...     before = object_fingerprint(counter)
    ...     counter.calls += 1
    >>> with fingerprinted([counter]):
    ...     object_fingerprint(counter) == before
    True
    """
    mine = []
    for thing in map(_inner, things):
        now, known = _digest(thing), _held.get(id(thing))
        same = known is not None and known.reference() is thing and now == known.after
        held = _Held(thing, known.before if same and known is not None else now)
        _held[id(thing)] = held
        mine.append((thing, held))
    try:
        yield
    finally:
        for thing, held in mine:
            held.after, held.active = _digest(thing), False
            if isinstance(held.reference, weakref.ref):
                weakref.finalize(thing, _held.pop, id(thing), None)
            else:
                del _held[id(thing)]


class _Walk:
    """Feeds everything that an object consists of to a hash, each part once."""

    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=16)
        self._seen: dict[int, int] = {}
        self._alive: list[object] = []  # ids are reused once an object is gone

    def text(self, *parts: object) -> None:
        for part in parts:
            raw = part if isinstance(part, bytes) else str(part).encode("utf-8", "replace")
            self.hash.update(len(raw).to_bytes(8, "little"))
            self.hash.update(raw)

    def add(self, thing: Any) -> None:
        if isinstance(thing, str) and _is_file(thing):
            self.text("file", _file_digest(Path(thing)))
        if isinstance(thing, _SIMPLE):
            self.text(type(thing).__name__, repr(thing))
            return
        if id(thing) in self._seen:
            self.text("seen", self._seen[id(thing)])
            return
        self._seen[id(thing)] = len(self._seen)
        self._alive.append(thing)
        self._add_compound(thing)

    def _add_compound(self, thing: Any) -> None:
        if isinstance(thing, types.ModuleType):
            file = getattr(thing, "__file__", None)
            own = () if not file or _is_library(file) else (_file_digest(Path(file)),)
            self.text("module", thing.__name__, *own)
        elif isinstance(thing, type):
            self._class(thing)
        elif isinstance(thing, types.FunctionType):
            self._function(thing)
        elif isinstance(thing, types.CodeType):
            self._code(thing)
        elif isinstance(thing, types.BuiltinFunctionType | types.MethodWrapperType):
            self.text("builtin", thing.__qualname__)
            self.add(getattr(thing, "__self__", None))
        elif isinstance(thing, Mapping):
            self.text("mapping", type(thing).__name__, len(thing))
            for part in (part for pair in thing.items() for part in pair):
                self.add(part)
        elif isinstance(thing, set | frozenset):
            self.text("set", *sorted(map(_digest, thing)))
        elif isinstance(thing, list | tuple):
            self.text(type(thing).__name__, len(thing))
            for one in thing:
                self.add(one)
        elif isinstance(thing, os.PathLike):
            self.add(os.fspath(thing))
        elif not (self._array(thing) or self._onnx(thing)):
            self._instance(thing)

    def _array(self, thing: Any) -> bool:
        """Arrays and tensors, by their values."""
        if hasattr(thing, "detach") and hasattr(thing, "cpu"):
            import torch

            plain = thing.detach().cpu().contiguous()
            self.text("tensor", plain.dtype, tuple(plain.shape))
            self.hash.update(plain.reshape(-1).view(torch.uint8).numpy().data)
            return True
        if type(thing).__module__ != "numpy" or not hasattr(thing, "tobytes"):
            return False
        self.text("array", thing.dtype, thing.shape)
        if thing.dtype == object:
            self.add(thing.tolist())
        else:
            self.text(thing.tobytes())
        return True

    def _onnx(self, thing: Any) -> bool:
        """An ONNX session, by the model it was made of."""
        if not str(type(thing).__module__).startswith("onnxruntime"):
            return False
        path, data = getattr(thing, "_model_path", None), getattr(thing, "_model_bytes", None)
        if data is None and not path:
            raise _NoFingerprint
        self.text("onnx", _file_digest(Path(str(path))) if data is None else bytes(data))
        return True

    def _class(self, cls: type) -> None:
        self.text("class", cls.__qualname__)
        if _is_library(_file_of(cls)):
            self.text(cls.__module__)
            return
        for base in cls.__bases__:
            self.add(base)
        for name, value in sorted(vars(cls).items()):
            if name not in _NOT_STATE:
                self.text(name)
                self.add(value)

    def _function(self, function: types.FunctionType) -> None:
        self.text("function", function.__qualname__)
        code = function.__code__
        if _is_library(code.co_filename):
            self.text(function.__module__)
            return
        self._code(code)
        self.add(function.__defaults__)
        self.add(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:  # a name that was never bound
                self.text("empty cell")
        for name in sorted(_names_in(code)):
            if name in function.__globals__:
                self.text(name)
                self.add(function.__globals__[name])

    def _code(self, code: types.CodeType) -> None:
        self.text("code", code.co_code, code.co_names, code.co_varnames, code.co_freevars)
        for constant in code.co_consts:
            self.add(constant)

    def _instance(self, thing: Any) -> None:
        self.add(type(thing))
        try:
            registered = copyreg.dispatch_table.get(type(thing))
            reduced = registered(thing) if registered else thing.__reduce_ex__(4)
        except (TypeError, ValueError, AttributeError, PickleError) as error:
            if not getattr(thing, "__dict__", None):
                raise _NoFingerprint from error
            reduced = (vars(thing),)
        for part in (reduced,) if isinstance(reduced, str) else reduced:
            self.add(list(part) if isinstance(part, Iterator) else part)


_NOT_STATE = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__slotnames__",
     "__firstlineno__", "__static_attributes__", "__dataclass_fields__", "__abstractmethods__",
     "_abc_impl"}
)  # fmt: skip


def _names_in(code: types.CodeType) -> set[str]:
    """Global names that a function or one inside it may use."""
    inner = [_names_in(one) for one in code.co_consts if isinstance(one, types.CodeType)]
    return set(code.co_names).union(*inner)


def _file_of(cls: type) -> str:
    if not isinstance(cls.__module__, str):  # compiled by Cython 3.1: a descriptor
        return _BUILT_IN
    module = sys.modules.get(cls.__module__)
    return getattr(module, "__file__", None) or ("" if module is None else _BUILT_IN)


_BUILT_IN = "built-in"
_PATHS = sysconfig.get_paths()
_LIBRARIES = tuple(
    {os.path.realpath(_PATHS[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {str(Path(__file__).resolve().parents[1])}
)


def _is_library(file: str) -> bool:
    """Whether code is installed: part of Python, of a package or of segmeter."""
    if file == _BUILT_IN or file.startswith("<frozen"):
        return True
    real = os.path.realpath(file)
    installed = "site-packages" in Path(real).parts or "dist-packages" in Path(real).parts
    return installed or real.startswith(tuple(f"{folder}{os.sep}" for folder in _LIBRARIES))


def _is_file(text: str) -> bool:
    try:
        return 0 < len(text) < 4096 and "\0" not in text and os.path.isfile(text)
    except OSError:
        return False


def _file_digest(path: Path) -> str:
    try:
        about = path.stat()
    except OSError as error:
        raise _NoFingerprint from error
    digest = _content(str(path.resolve()), about.st_size, about.st_mtime_ns)
    return digest + "".join(map(_file_digest, external_data(path)))


_LOCATION = re.compile(rb"\n\x08location\x12(.)", re.DOTALL)  # of protobuf, then its length


def external_data(path: Path) -> list[Path]:
    """The files next to an ONNX graph that hold its weights; none for other files."""
    if path.suffix != ".onnx" or not path.stat().st_size:
        return []
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as graph:
        names = {graph[m.end() : m.end() + m[1][0]] for m in _LOCATION.finditer(graph)}
    found = (path.parent / os.fsdecode(name) for name in names)
    return sorted(file for file in found if _is_file(str(file)) and file.suffix != ".onnx")


@lru_cache(maxsize=4096)
def _content(path: str, size: int, changed_ns: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def source_fingerprint(file: Path, options: Mapping[str, object] | None = None) -> str:
    """Digest of a Python file, the neighbours that it imports, and the files that both name.

    A file is named by an option's value or by a constant in the source, relative to the working
    directory or to the source; a folder in an option means the files below it. Files that the
    source writes, such as logs, do not count unless it also loads them.
    """
    if not file.is_file():
        return ""
    digest = hashlib.blake2b(digest_size=16)
    named: set[Path] = set()
    for source in _with_neighbours(file.resolve()):
        digest.update(source.read_bytes())
        named.update(_named_by_constants(source))
    for key, value in sorted((options or {}).items()):
        digest.update(f"{key}={value!r}".encode())
        named.update(_named_by_option(value, file.parent))
    for path in sorted(named):
        digest.update(_file_digest(path).encode())
    return digest.hexdigest()


def _with_neighbours(file: Path) -> list[Path]:
    """A source and all that it imports from its own folder, directly or not."""
    finder = ModuleFinder([str(file.parent)])
    with suppress(SyntaxError, ValueError):  # of one that cannot be parsed nothing is known
        finder.run_script(str(file))
    found = (getattr(module, "__file__", None) for module in finder.modules.values())
    return sorted({file, *map(Path, filter(None, found))})


def _named_by_constants(source: Path) -> Iterator[Path]:
    tree = _parsed(source)
    for name in _texts_in(tree) - _only_written(tree):
        for place in (Path(name), source.parent / name):
            if _is_file(str(place)) and place.suffix != ".py":
                yield place.resolve()


def _texts_in(tree: ast.AST) -> set[str]:
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str)}


def _only_written(tree: ast.Module) -> set[str]:
    """Texts in calls that write files, directly or by a variable, and in none that loads them."""
    held: dict[str, set[str]] = {}  # texts by the variable or attribute that they are assigned to
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in filter(None, map(_last_name, targets)):
                held.setdefault(name, set()).update(_texts_in(node.value))
    found: dict[str, set[str]] = {"writes": set(), "loads": set()}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        kind = _kind_of_call(call)
        if kind:
            names = {_last_name(node) for node in ast.walk(call)}
            found[kind] |= _texts_in(call).union(*(held.get(name, set()) for name in names))
    return found["writes"] - found["loads"]


def _kind_of_call(call: ast.Call) -> str:
    name = _last_name(call.func)
    modes = [c for c in _texts_in(call) if 0 < len(c) < 4 and not set(c) - set("rwaxbt+")]
    if name in _WRITERS or (name == "open" and any(set(mode) & set("wax+") for mode in modes)):
        return "writes"
    return "loads" if name.startswith(("load", "from_", "imread", "InferenceSession")) else ""


def _last_name(node: ast.AST) -> str:
    """`log` of `log` and of `self.log`; empty for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _parsed(source: Path) -> ast.Module:
    try:
        return ast.parse(source.read_bytes())
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _named_by_option(value: object, near: Path) -> Iterator[Path]:
    if isinstance(value, list | tuple):
        for one in value:
            yield from _named_by_option(one, near)
    if not isinstance(value, str | os.PathLike):
        return
    for place in (Path(value), near / value):
        if _is_file(str(place)):
            yield place.resolve()
        elif os.fspath(value) and place.is_dir():
            inside = sorted(path for path in place.rglob("*") if path.is_file())
            yield from (path.resolve() for path in inside[:_MOST_FILES])
