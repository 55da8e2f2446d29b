"""The catalogue: registries of models, datasets, users and everything else with a name.

A name is a built-in (`sam2-hiera-tiny`), an installed plug-in (an entry point), or an
object in your own file (`my_models.py:Mine`); options follow a question mark,
`sam2-hiera-tiny?dtype=bfloat16&device=cuda`. Built-in packages are imported when first needed;
their modules import heavy libraries only inside the functions that need them.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from segmeter.core.errors import BadInput, NotFound, error_text, suggestion
from segmeter.core.received_runs import check_chosen
from segmeter.core.seeds import fingerprint

T = TypeVar("T")
ENGINE_OPTIONS = frozenset({"data", "weights"})
"""Options that the engine offers to all it makes; what does not take them is made without."""
EXTRAS = {
    **dict.fromkeys(("torch", "transformers", "safetensors", "huggingface_hub"), "models"),
    **dict.fromkeys(("nibabel", "pydicom", "SimpleITK", "highdicom"), "volumes"),
    **{"onnxruntime": "detectors", "h5py": "hdf5", "fsspec": "remote", "s3fs": "s3", "ray": "ray"},
}
"""Packages that are installed with an extra of segmeter, and its name."""
OPTIONS_ARE = "options are text, numbers, true or false, and lists of these"
_IMAGE_NAMES = frozenset({"image", "img", "pixels", "picture", "frame", "x"})
# Of each module made here: the files of the neighbours that it imported, with their digests.
_neighbours: dict[str, dict[str, tuple[Path, str]]] = {}


@dataclass(frozen=True, slots=True)
class Spec:
    """A name and its options, as requested; stored in plans."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Spec:
        """`name?key=value&key=value`; values are read as JSON, else as text.

        >>> Spec.parse("disc?radius=5&mode=soft")
        Spec(name='disc', options={'radius': 5, 'mode': 'soft'})
        """
        name, _, query = text.partition("?")
        options: dict[str, Any] = {}
        for pair in filter(None, query.split("&")):
            key, equals, value = pair.partition("=")
            if not equals:
                raise BadInput(f"'{text}': option '{pair}' has no value; write '{pair}=VALUE'")
            options[key] = _value(value)
        return cls(name, options)

    def __str__(self) -> str:
        """The canonical spelling, whatever the order of the options: rows refer to it.

        >>> str(Spec.parse("disc?radius=5&mode=soft"))
        'disc?mode=soft&radius=5'
        """
        pairs = "&".join(f"{k}={_text(v)}" for k, v in sorted(self.options.items()))
        return f"{self.name}?{pairs}" if pairs else self.name


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """One registered name: how to make the object, and a one-line summary."""

    name: str
    make: Callable[..., T]
    summary: str
    source: str


class Registry(Generic[T]):
    """All things of one kind, by name."""

    def __init__(self, kind: str, room: str) -> None:
        self.kind = kind
        self.room = room
        self._entries: dict[str, Entry[T]] = {}
        self._complete = False

    def add(self, name: str, summary: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Register a class or function that makes the thing."""

        def register(make: Callable[..., T]) -> Callable[..., T]:
            source = getattr(make, "func", make).__module__  # of a partial: its function's
            self._register(Entry(name, make, summary, source))
            return make

        return register

    def put(self, name: str, thing: T, summary: str) -> None:
        """Register a thing that is ready made."""
        source = getattr(thing, "__wrapped__", type(thing)).__module__  # a function's, if it is one
        self._register(Entry(name, _always(thing), summary, source))

    def _register(self, entry: Entry[T]) -> None:
        """Keep an entry; something of the user's own may not replace what is built in."""
        if not entry.source.startswith("segmeter."):
            if not self._complete and entry.name not in self._entries:
                self._find(entry.name)
            held = self._entries.get(entry.name)
            if held is not None and held.source.startswith("segmeter."):
                raise BadInput(
                    f"there is a built-in {self.kind} '{entry.name}'; give yours another name"
                )
        self._entries[entry.name] = entry

    def drop(self, name: str) -> None:
        """Remove a registered name, such as that of an example."""
        self._entries.pop(name, None)

    def __iter__(self) -> Iterator[Entry[T]]:
        self._fill()
        return iter(sorted(self._entries.values(), key=lambda e: e.name))

    def names(self) -> list[str]:
        return [entry.name for entry in self]

    def entry(self, name: str) -> Entry[T]:
        """The entry of a name, or of an object in a file, `file.py:object`."""
        if ".py:" in name:
            check_chosen(self.kind, name)
            return _from_file(self.kind, name)
        opened = self._opened(name)
        if opened is not None:
            return opened
        if not self._complete and name not in self._entries:
            self._find(name)
        try:
            found = self._entries[name]
        except KeyError:
            if name.endswith(".py") and Path(name).is_file():
                inside = [f"{name}:{thing}" for thing in objects_in(Path(name))]
                raise NotFound(
                    f"'{name}' is a file; name the {self.kind} in it: "
                    f"{' or '.join(inside) or f'{name}:NAME'}"
                ) from None
            own, where = [], ""
            if self.kind == "dataset":  # a folder here may have been meant
                own, where = [p.name for p in Path().iterdir() if p.is_dir()], " and no such folder"
            hint = suggestion(name, [*self._entries, *own])
            raise NotFound(
                f"no {self.kind} '{name}'{where};{hint} 'segmeter list {self.kind}s' shows them all"
            ) from None
        if found.source in sys.modules:  # another thread may still be importing it
            importlib.import_module(found.source)  # waits for the lock of an unfinished import
        return found

    def make(self, spec: Spec | str, **more: Any) -> T:
        """Build the thing; `more` gives options that the spec does not, None for none.

        An option that the thing does not take is refused, except those that the engine offers
        to everything it makes (`ENGINE_OPTIONS`).

        >>> models.make("disc", radus=99)
        Traceback (most recent call last):
        segmeter.core.errors.BadInput: model 'disc' has no option 'radus'; ...
        """
        entry, options = self.check(spec, **more)
        try:
            return entry.make(**options)
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            raise NotFound(
                f"{self.kind} '{entry.name}' needs '{error.name}', which is not installed: "
                f"pip install 'segmeter[{EXTRAS[error.name]}]'"
            ) from error

    def check(self, spec: Spec | str, **more: Any) -> tuple[Entry[T], dict[str, Any]]:
        """Entry and options that `make` would use; refuses wrong options, makes nothing."""
        spec = Spec.parse(spec) if isinstance(spec, str) else spec
        if not isinstance(spec, Spec):
            raise BadInput(f"a {self.kind} must be given as text, not {spec!r:.60}")
        entry = self.entry(spec.name)
        taken = inspect.signature(entry.make).parameters
        anything = any(p.kind is p.VAR_KEYWORD for p in taken.values())
        given = {key: value for key, value in more.items() if value is not None}
        offered = {k: v for k, v in given.items() if k in taken or k not in ENGINE_OPTIONS}
        options = offered | dict(spec.options)
        unknown = [key for key in options if key not in taken and not anything]
        if unknown:
            here = getattr(entry.make, "other_names", {}).get(unknown[0])
            hint = f" it is called '{here}' here;" if here else suggestion(unknown[0], taken)
            raise BadInput(
                f"{self.kind} '{spec.name}' has no option '{unknown[0]}';{hint} it takes "
                f"{', '.join(taken) or 'none'}"
            )
        missing = [name for name in required(entry) if name not in options]
        if missing:
            raise BadInput(
                f"{self.kind} '{spec.name}' needs '{missing[0]}';"
                f" write '{spec.name}?{missing[0]}=...'"
            )
        for name, value in options.items():
            if name in taken and (wanted := _other_kind(value, str(taken[name].annotation))):
                quoted = f'; write {name}="{value}"' if wanted.startswith("text") else ""
                raise BadInput(
                    f"{self.kind} '{spec.name}': option '{name}' is {wanted}, not {value!r}{quoted}"
                )
        return entry, options

    def _opened(self, name: str) -> Entry[T] | None:
        """The entry of a file, folder or service that is named instead of a model."""
        if self.kind != "model" or not re.search(r"[/\\]|\.\w+$", name):
            return None
        found: Entry[T] | None = importlib.import_module(f"{self.room}.opening").entry_of_path(name)
        if found is not None:
            check_chosen(self.kind, name)
        return found

    def takes(self, spec: Spec | str, option: str) -> bool:
        """Whether the object that a spec names has an option."""
        spec = Spec.parse(spec) if isinstance(spec, str) else spec
        return option in inspect.signature(self.entry(spec.name).make).parameters

    def _find(self, name: str) -> None:
        """Import the one module whose source, or the TOML table next to it, has the name in quotes.

        The whole room if none has it.
        """
        for module, source in _sources(self.room):
            files = (file for file in (source, source.with_suffix(".toml")) if file.is_file())
            if any(f'"{name}"' in file.read_text("utf-8") for file in files):
                importlib.import_module(module)
                if name in self._entries:
                    return
        self._fill()

    def _fill(self) -> None:
        """Import the room's modules and see which plug-ins are installed, once."""
        if self._complete:
            return
        for module, _ in _sources(self.room):
            importlib.import_module(module)
        for point in importlib.metadata.entry_points(group=f"segmeter.{self.kind}s"):
            make = functools.partial(_loaded, point)  # imported only when it is made
            entry: Entry[T] = Entry(point.name, make, f"from {point.value}", point.value)
            self._entries.setdefault(point.name, entry)
        self._complete = True


def _sources(room: str) -> Iterator[tuple[str, Path]]:
    """Public modules of a room with their files, in the order of their names, not imported."""
    package = importlib.util.find_spec(room)
    for top in (package.submodule_search_locations or []) if package else []:
        for file in sorted(Path(top).rglob("*.py")):
            parts = file.relative_to(top).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if parts and not any(part.startswith("_") for part in parts):
                yield ".".join((room, *parts)), file


def required(entry: Entry[Any]) -> list[str]:
    """The options that a thing cannot be made without.

    >>> required(datasets.entry('folder'))
    ['path']
    """
    return [
        name
        for name, p in inspect.signature(entry.make).parameters.items()
        if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]


def short(name: str) -> str:
    """A short name for tables: a user's own file without its folders.

    >>> short("models/mine.py:Net?side=512"), short("runs/epoch_9.pth?device=cpu")
    ('mine.py:Net?side=512', 'epoch_9.pth?device=cpu')
    """
    file, py, rest = name.partition(".py:")
    if py:
        return Path(file).name + py + rest
    path, question, options = name.partition("?")
    own = "/" in path and "://" not in path and Path(path).suffix
    return Path(path).name + question + options if own else name


_PLAIN: dict[str, tuple[str, set[type]]] = {
    "str": ("text", {str}),
    "Path": ("text", {str}),
    "int": ("a whole number", {int}),
    "float": ("a number", {int, float}),
    "bool": ("true or false", {bool, int}),
    "None": ("", set()),
}
"""Kinds of options by their annotation: in words, and the types that fit."""


def _other_kind(value: object, annotation: str) -> str:
    """The types of an annotation in words, if a text or number fits none of them.

    Annotations of other classes, and values that are no text or number, are not judged.
    """
    kinds = annotation.split(" | ")
    if type(value) not in (str, int, float, bool) or not _PLAIN.keys() >= set(kinds):
        return ""
    fitting = set[type]().union(*(_PLAIN[kind][1] for kind in kinds))
    words = dict.fromkeys(word for kind in kinds if (word := _PLAIN[kind][0]))
    return "" if type(value) in fitting else " or ".join(words)


def _loaded(point: importlib.metadata.EntryPoint, **options: Any) -> Any:
    return point.load()(**options)


def _from_file(kind: str, name: str) -> Entry[Any]:
    """An object in a user's file. The file is run, as any Python of the user's would be."""
    path_text, _, attribute = name.rpartition(":")
    path = Path(path_text)
    if not path.is_file():
        raise NotFound(f"no file '{path}' to take the {kind} '{attribute}' from")
    module = module_of(path)
    if not hasattr(module, attribute):
        homes = {
            name: getattr(inspect.unwrap(thing), "__module__", module.__name__)
            for name, thing in vars(module).items()
            if name[0] != "_" and not inspect.ismodule(thing)
        }
        names = [name for name, home in homes.items() if home == module.__name__]  # not imported
        hint, known = suggestion(attribute, names), ", ".join(names) or "nothing"
        raise NotFound(f"'{path}' has nothing named '{attribute}';{hint} it has {known}")
    thing = getattr(module, attribute)
    # Measures are functions that are ready made; everything else callable makes the thing.
    make = thing if callable(thing) and kind != "measure" else _always(thing)
    if kind == "model":
        make = _adapted(thing, attribute)
    return Entry(name, make, (inspect.getdoc(thing) or "").split("\n")[0], str(path))


def adapted_model(thing: Any, name: str = "") -> Any:
    """A model of a function `predict(image, clicks)` or of a predictor with `set_image`.

    >>> adapted_model(lambda image, clicks: image[..., 0] > 9, 'bright').card.name
    'bright'
    """
    return importlib.import_module(f"{models.room}.adapters").as_model(thing, name)


def _adapted(thing: Any, name: str) -> Callable[..., Any]:
    """Makes a model of a class, a function without needs, or what adapters take.

    A function that needs arguments is `predict(image, clicks)` itself, not a maker of models.
    """
    adapters = importlib.import_module(f"{models.room}.adapters")
    made, ready = not isinstance(thing, type), hasattr(thing, "encode")
    if not callable(thing) or (made and (ready or adapters.is_network(type(thing)))):
        return _always(adapters.as_model(thing, name))
    if isinstance(thing, type) and not hasattr(thing, "set_image"):
        if not ready:
            raise BadInput(adapters.no_model(thing, name))
        return thing
    needed = [
        p
        for p in inspect.signature(thing).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if made and len(needed) == 2:
        return _always(adapters.as_model(thing, name))
    if needed and made and needed[0].name in _IMAGE_NAMES:
        takes = ", ".join(p.name for p in needed)
        raise BadInput(
            f"'{name}' takes ({takes}); a model function takes (image, clicks), where clicks is a "
            "list of (y, x, positive)"
        )
    make: Callable[..., Any] = functools.wraps(thing)(
        lambda *args, **options: adapters.as_model(thing(*args, **options), name)
    )
    return make


def _always(thing: T) -> Callable[[], T]:
    return lambda: thing


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(value: Any) -> str:
    """A value as `parse` reads it back: text that looks like JSON, or contains `&`, is quoted.

    >>> _text("soft"), _text(2024), _text("2024")
    ('soft', '2024', '"2024"')
    """
    if isinstance(value, str) and "&" not in value and _value(value) == value:
        return value
    try:
        return json.dumps(value).replace("&", "\\u0026")
    except TypeError as error:
        raise BadInput(f"option {value!r} cannot be stored; {OPTIONS_ARE}") from error


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
    if known is not None and all(_digest(p) == old for p, old in _neighbours[title].values()):
        return known
    for name in {name for names in _neighbours.values() for name in names}:
        sys.modules.pop(name, None)  # another folder's module of that name, or an older one
    module = ModuleType(title)
    module.__file__ = str(resolved)
    before = set(sys.modules)
    sys.modules[title] = module
    sys.path.insert(0, str(resolved.parent))
    try:
        # From the source: the cache of compiled files compares only size and whole seconds.
        exec(compile(source, str(resolved), "exec"), module.__dict__)
    except Exception as error:
        del sys.modules[title]
        raise BadInput(f"'{path}' cannot be run: {error_text(error)}") from error
    finally:
        sys.path.remove(str(resolved.parent))
        if str(resolved.parent) not in sys.path:
            sys.path.append(str(resolved.parent))  # for imports inside functions
    imported = _imported_from(resolved.parent, set(sys.modules) - before - {title})
    _neighbours[title] = {name: (path, _digest(path)) for name, path in imported.items()}
    return module


def _imported_from(folder: Path, names: set[str]) -> dict[str, Path]:
    """Those modules whose files are below a folder."""
    files = {name: getattr(sys.modules[name], "__file__", None) for name in names}
    paths = {name: Path(file).resolve() for name, file in files.items() if file}
    below = {name: path for name, path in paths.items() if path.is_relative_to(folder)}
    installed = {"site-packages", "dist-packages"}
    return {name: path for name, path in below.items() if installed.isdisjoint(path.parts)}


def _digest(path: Path) -> str:
    return fingerprint(path.read_bytes()) if path.is_file() else ""


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


models: Registry[Any] = Registry("model", "segmeter.models")
methods: Registry[Any] = Registry("method", "segmeter.models")
detectors: Registry[Any] = Registry("detector", "segmeter.models")
datasets: Registry[Any] = Registry("dataset", "segmeter.datasets")
users: Registry[Any] = Registry("user", "segmeter.users")
measures: Registry[Any] = Registry("measure", "segmeter.measures")
benchmarks: Registry[Any] = Registry("benchmark", "segmeter.benchmarks")
