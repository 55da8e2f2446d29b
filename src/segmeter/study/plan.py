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
from segmeter.study.plan_parts import Masks, Rating, Validity
from segmeter.study.plan_tables import PlanTable

__all__ = ["KINDS", "Plan", "parse_plan", "read_plan"]

KINDS = ("clicks", "clicks-round2", "rate", "interact")
_DEVICES = ("pc", "mobile")
_LARGEST_FILE = 1 << 20
_TEXTS = ("title", "welcome", "consent", "pay", "contact")


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
    validity: Validity = field(default_factory=Validity)
    masks: tuple[Masks, ...] = ()
    best_below: float = 0.95
    rating: Rating = field(default_factory=Rating)
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
    plan = _read(PlanTable(table, "the plan"), text, folder)
    _check(plan)
    return plan


def _read(top: PlanTable, text: str, folder: Path) -> Plan:
    """Every value of a plan with its default and its range."""
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
        validity=Validity.read(top.part("validity"), kind, batch),
        masks=tuple(map(Masks.read, top.tables("masks"))),
        rating=Rating.read(top.part("rating")),
        folder=folder,
    )
    for part in (top, data, design):
        part.done()
    return plan


def _check(plan: Plan) -> None:
    """What only the parts together can get wrong."""
    if plan.kind in ("rate", "clicks-round2") and not plan.masks:
        raise BadInput(f"a plan of kind '{plan.kind}' needs [[masks]]: whose masks are shown")
    if plan.kind == "interact" and not plan.models:
        raise BadInput("a plan of kind 'interact' needs design.models, such as [\"mobile-sam\"]")
    if plan.kind == "clicks-round2" and any(m.source == "ground_truth" for m in plan.masks):
        raise BadInput(
            "clicks-round2 asks for mistakes; masks with source 'ground truth' have none"
        )
    names = [*plan.conditions]
    if len(set(names)) != len(names):
        raise BadInput("two conditions have the same name; rename one")
    for name, references in plan.rating.known.items():
        for reference in references:
            if reference.masks not in plan.conditions:
                raise BadInput(
                    f"[[rating.{name}]] names masks '{reference.masks}', which [[masks]] lacks"
                )


def _modes(tables: Sequence[Mapping[str, Any]], design: PlanTable, kind: str) -> tuple[Mode, ...]:
    own = {mode.name: mode for mode in map(read_mode, tables)}
    known = {**BUILT_IN, **own}
    if kind == "rate":
        return (Mode("rate", (Screen("image", None, False),)),)
    named = design.names("modes") or (tuple(own) or ("Object_CutOut",))
    for name in named:
        if name not in known:
            raise BadInput(
                f"design.modes: there is no mode '{name}';{suggestion(name, known)}"
                f" there are {', '.join(known)}, or write a [[mode]]"
            )
    return tuple(known[name] for name in named)


def _devices(design: PlanTable) -> tuple[str, ...]:
    devices = design.names("devices") or _DEVICES
    for device in devices:
        if device not in _DEVICES:
            raise BadInput(f"design.devices are pc and mobile, not '{device}'")
    return devices


def _texts(part: PlanTable, known: Sequence[str] | None) -> dict[str, dict[str, str]]:
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
