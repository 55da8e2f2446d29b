"""The plan of a study: one TOML file that says what people will see and what is wanted."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.core.seeds import fingerprint
from segmeter.study.modes import BUILT_IN, Mode, Screen, read_mode

__all__ = ["KINDS", "Masks", "Plan", "Rating", "Reference", "Validity", "read_plan"]

KINDS = ("clicks", "clicks-round2", "rate", "interact")
_DEVICES = ("pc", "mobile")
_LARGEST_FILE = 1 << 20
_TEXTS = ("consent", "pay", "welcome", "contact")


@dataclass(frozen=True, slots=True)
class Validity:
    """When an answer counts.

    `radius` is the share of the picture's diagonal by which a click may miss the target;
    a batch counts when `batch_minimum` of its clicks (without margin) are on their targets;
    a screen may miss its time by `late_ms`; a batch of ratings counts when at least the share
    `gold` of its masks with known answers was rated within their range.
    """

    radius: float = 0.01
    batch_minimum: int = 7
    late_ms: float = 50.0
    focus: bool = True
    gold: float = 0.5


@dataclass(frozen=True, slots=True)
class Masks:
    """Where masks come from: the truth, a run's model and round, or a folder of PNG files."""

    name: str
    source: str = "truth"
    run: str = ""
    model: str = ""
    round: int = 1
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A job with a known answer: the scores that pass for it."""

    scene: str
    target: str
    masks: str
    low: int
    high: int

    def passes(self, score: int) -> bool:
        return self.low <= score <= self.high


@dataclass(frozen=True, slots=True)
class Rating:
    """How masks are rated; `training` comes first, one of `gold` hides in every batch."""

    prompt: str = "point"
    overlap: float = 0.1
    pilot: int = 1
    spot_checks: float = 0.05
    least_area: int = 576
    pass_mark: float = 0.8
    training: tuple[Reference, ...] = ()
    gold: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything about a study that is decided before it begins.

    `conditions` are what is compared: display modes, mask sources or models. `text` is the
    file itself, and `hash` its fingerprint, which stands beside every answer.
    """

    text: str
    kind: str
    title: str
    dataset: str
    modes: tuple[Mode, ...]
    per_cell: int
    seed: int = 0
    scenes: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    largest_side: int = 2048
    people: str = "between"
    devices: tuple[str, ...] = _DEVICES
    batch: int = 10
    batches_per_person: int = 0
    lease_minutes: float = 30.0
    open_to_all: bool = False
    languages: tuple[str, ...] = ("en", "de")
    words: str = ""
    texts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    descriptions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    validity: Validity = Validity()
    masks: tuple[Masks, ...] = ()
    best_below: float = 0.95
    rating: Rating = Rating()
    models: tuple[str, ...] = ()
    rounds: int = 20
    folder: Path = Path()

    @property
    def hash(self) -> str:
        return fingerprint("study plan", self.text, size=8)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What is compared: modes, masks to rate, or models."""
        if self.kind == "rate":
            return tuple(masks.name for masks in self.masks)
        if self.kind == "interact":
            return self.models
        return tuple(mode.name for mode in self.modes)

    @property
    def fixed(self) -> bool:
        """Whether a person keeps to one condition."""
        return self.people == "between" and self.kind != "rate"

    @property
    def clicks(self) -> bool:
        return self.kind in ("clicks", "clicks-round2")

    @property
    def cell_devices(self) -> tuple[str, ...]:
        """Devices that are counted apart; ratings are not."""
        return ("any",) if self.kind == "rate" else self.devices

    def mode(self, condition: str) -> Mode:
        """The screens that belong to a condition."""
        if self.clicks:
            return next(mode for mode in self.modes if mode.name == condition)
        return self.modes[0]


def read_plan(path: Path) -> Plan:
    """Read and check a plan; the first fault is said in one sentence."""
    if not path.is_file():
        raise NotFound(f"no plan '{path}'; 'segmeter study new' writes one")
    if path.stat().st_size > _LARGEST_FILE:
        raise BadInput(f"'{path}' is larger than a plan can be (1 MB)")
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"'{path}' is not UTF-8 text") from None
    return parse_plan(text, path.resolve().parent)


def parse_plan(text: str, folder: Path) -> Plan:
    """A plan from its text; `folder` is where the files it names lie."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"the plan is not TOML: {error}") from None
    top = _Reader(table, "the plan")
    kind = top.choice("kind", KINDS)
    data, design = top.part("data"), top.part("design")
    modes = _modes(top.tables("mode"), design, kind)
    batch = design.whole("batch", 10, 1, 100)
    plan = Plan(
        text=text,
        kind=kind,
        title=top.words("title", "A study", 200),
        seed=top.whole("seed", 0, 0, 2**31),
        dataset=data.words("dataset", "mini", 500),
        scenes=data.names("scenes"),
        targets=data.names("targets"),
        largest_side=data.whole("largest_side", 2000 if kind == "rate" else 2048, 64, 8192),
        descriptions=_texts(top.part("descriptions"), None),
        modes=modes,
        per_cell=design.whole("per_cell", 1, 1, 1000),
        people=design.choice("people", ("between", "within"), "between"),
        devices=_devices(design),
        batch=batch,
        batches_per_person=design.whole("batches_per_person", 0, 0, 10_000),
        lease_minutes=design.number("lease_minutes", 30.0, 0.01, 24 * 60),
        open_to_all=design.flag("open_to_all", False),
        best_below=design.number("best_below", 0.95, 0.0, 1.0),
        rounds=design.whole("rounds", 20, 1, 100),
        models=design.names("models"),
        languages=top.names("languages") or ("en", "de"),
        words=top.words("words", "", 500),
        texts=_texts(top.part("texts"), _TEXTS),
        validity=_validity(top.part("validity"), kind, batch),
        masks=tuple(_masks(part) for part in top.tables("masks")),
        rating=_rating(top.part("rating")),
        folder=folder,
    )
    for part in (top, data, design):
        part.done()
    _check(plan)
    return plan


def _check(plan: Plan) -> None:
    """What only the parts together can get wrong."""
    if plan.kind in ("rate", "clicks-round2") and not plan.masks:
        raise BadInput(f"a plan of kind '{plan.kind}' needs [[masks]]: whose masks are shown")
    if plan.kind == "interact" and not plan.models:
        raise BadInput("a plan of kind 'interact' needs design.models, such as [\"mobile-sam\"]")
    if plan.kind == "clicks-round2" and any(m.source == "truth" for m in plan.masks):
        raise BadInput("clicks-round2 asks for mistakes; masks with source 'truth' have none")
    names = [*plan.conditions]
    if len(set(names)) != len(names):
        raise BadInput("two conditions have the same name; rename one")
    known = {"training": plan.rating.training, "gold": plan.rating.gold}
    for name, references in known.items():
        for reference in references:
            if reference.masks not in plan.conditions:
                raise BadInput(
                    f"[[rating.{name}]] names masks '{reference.masks}', which [[masks]] lacks"
                )


def _modes(tables: Sequence[Mapping[str, Any]], design: _Reader, kind: str) -> tuple[Mode, ...]:
    own = {mode.name: mode for mode in map(read_mode, tables)}
    known = {**BUILT_IN, **own}
    if kind == "rate":
        return (Mode("rate", (Screen("picture", None, False),)),)
    named = design.names("modes") or (tuple(own) or ("Object_CutOut",))
    for name in named:
        if name not in known:
            raise BadInput(
                f"design.modes: there is no mode '{name}';{suggestion(name, known)}"
                f" there are {', '.join(known)}, or write a [[mode]]"
            )
    return tuple(known[name] for name in named)


def _devices(design: _Reader) -> tuple[str, ...]:
    devices = design.names("devices") or _DEVICES
    for device in devices:
        if device not in _DEVICES:
            raise BadInput(f"design.devices are pc and mobile, not '{device}'")
    return devices


def _validity(part: _Reader, kind: str, batch: int) -> Validity:
    counted = kind in ("clicks", "clicks-round2")
    found = Validity(
        radius=part.number("radius", 0.01, 0.0, 1.0),
        batch_minimum=part.whole("batch_minimum", -(-7 * batch // 10) if counted else 0, 0, batch),
        late_ms=part.number("late_ms", 50.0, 1.0, 10_000.0),
        focus=part.flag("focus", True),
        gold=part.number("gold", 0.5, 0.0, 1.0),
    )
    part.done()
    return found


def _masks(table: Mapping[str, Any]) -> Masks:
    part = _Reader(table, "[[masks]]")
    found = Masks(
        name=part.words("name", "", 100),
        source=part.choice("source", ("truth", "run", "folder"), "truth"),
        run=part.words("run", "", 1000),
        model=part.words("model", "", 300),
        round=part.whole("round", 1, 1, 1000),
        folder=part.words("folder", "", 1000),
    )
    part.done()
    if not found.name:
        raise BadInput("[[masks]]: 'name' is missing; people never see it, the export has it")
    if found.source == "run" and not (found.run and found.model):
        raise BadInput(f"[[masks]] {found.name}: a run's masks need 'run' and 'model'")
    if found.source == "folder" and not found.folder:
        raise BadInput(f"[[masks]] {found.name}: say which 'folder' the PNG files lie in")
    return found


def _rating(part: _Reader) -> Rating:
    found = Rating(
        prompt=part.choice("prompt", ("point", "box"), "point"),
        overlap=part.number("overlap", 0.1, 0.0, 1.0),
        pilot=part.whole("pilot", 1, 1, 50),
        spot_checks=part.number("spot_checks", 0.05, 0.0, 1.0),
        least_area=part.whole("least_area", 576, 0, 10**8),
        pass_mark=part.number("pass_mark", 0.8, 0.0, 1.0),
        training=_references(part, "training"),
        gold=_references(part, "gold"),
    )
    part.done()
    return found


def _references(rating: _Reader, name: str) -> tuple[Reference, ...]:
    return tuple(_reference(table, f"[[rating.{name}]]") for table in rating.tables(name))


def _reference(table: Mapping[str, Any], where: str) -> Reference:
    part = _Reader(table, where)
    found = Reference(
        part.words("scene", "", 300),
        part.words("target", "", 300),
        part.words("masks", "", 100),
        part.whole("low", 1, 1, 10),
        part.whole("high", 10, 1, 10),
    )
    part.done()
    if found.low > found.high:
        raise BadInput(f"{where} {found.scene}: 'low' is above 'high'")
    return found


def _texts(part: _Reader, known: Sequence[str] | None) -> dict[str, dict[str, str]]:
    """`{name: {language: text}}`; a plain text stands for every language."""
    found = {}
    for name, value in part.table.items():
        if known is not None and name not in known:
            raise BadInput(f"[texts]: there is no '{name}'; there are {', '.join(known)}")
        versions = {"": value} if isinstance(value, str) else value
        texts = versions.values() if isinstance(versions, dict) else [None]
        if not all(isinstance(text, str) and len(text) < 20_000 for text in texts):
            raise BadInput(f'{part.where}: \'{name}\' is a text, or {{ en = "...", de = "..." }}')
        found[name] = dict(versions)
    return found


class _Reader:
    """A table of the plan; every value is asked for once, and what nobody asked for is wrong."""

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        self.table = table
        self.where = where
        self._asked: set[str] = set()

    def part(self, name: str) -> _Reader:
        return _Reader(self._typed(name, {}, dict, "a table"), f"[{name}]")

    def tables(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._typed(name, [], list, "a list of tables")
        if not all(isinstance(each, dict) for each in found):
            raise BadInput(f"{self.where}: '{name}' is written as [[{name}]] tables")
        return found

    def words(self, name: str, default: str, longest: int) -> str:
        text: str = self._typed(name, default, str, "a text")
        if len(text) > longest or any(ord(c) < 32 and c not in "\n\t" for c in text):
            raise BadInput(f"{self.where}: '{name}' is a text of at most {longest} letters")
        return text

    def names(self, name: str) -> tuple[str, ...]:
        found = self._typed(name, [], list, "a list of texts")
        if not all(isinstance(each, str) and 0 < len(each) < 500 for each in found):
            raise BadInput(f"{self.where}: '{name}' is a list of texts")
        if len(set(found)) != len(found):
            raise BadInput(f"{self.where}: '{name}' names something twice")
        return tuple(found)

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        chosen = self._typed(name, default, str, f"one of {', '.join(choices)}")
        if chosen not in choices:
            near = suggestion(str(chosen), choices)
            raise BadInput(
                f"{self.where}: '{name}' is one of {', '.join(choices)}, not '{chosen}';{near}"
            )
        return str(chosen)

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        value = self._typed(name, default, int, "a whole number")
        if isinstance(value, bool) or not low <= value <= high:
            raise BadInput(f"{self.where}: '{name}' is from {low} to {high}, not {value}")
        return int(value)

    def number(self, name: str, default: float, low: float, high: float) -> float:
        value = self._typed(name, default, (int, float), "a number")
        if isinstance(value, bool) or not low <= value <= high:
            raise BadInput(f"{self.where}: '{name}' is from {low:g} to {high:g}, not {value}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        return bool(self._typed(name, default, bool, "true or false"))

    def done(self) -> None:
        """Refuse what nobody asked for: a misspelt rule would silently not hold."""
        for name in self.table:
            if name not in self._asked:
                raise BadInput(
                    f"{self.where}: there is no '{name}';{suggestion(name, self._asked)} "
                    f"there are {', '.join(sorted(self._asked))}"
                )

    def _typed(self, name: str, default: Any, kind: Any, what: str) -> Any:
        self._asked.add(name)
        value = self.table.get(name, default)
        if value is None:
            raise BadInput(f"{self.where}: '{name}' is missing; it is {what}")
        if not isinstance(value, kind):
            raise BadInput(f"{self.where}: '{name}' is {what}, not {value!r}")
        return value
