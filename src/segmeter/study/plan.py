"""The plan of a study: one TOML file with everything that is decided before the study begins."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.core.seeds import fingerprint

Kind = Literal["clicks", "clicks-round2", "rate", "interact"]
KINDS: tuple[str, ...] = get_args(Kind)
AnswerFlag = Literal[
    "late", "left_page", "too_fast", "clock", "unseen", "wrong_device", "shown_again", "no_click"
]
ANSWER_FLAGS: tuple[str, ...] = get_args(AnswerFlag)
PersonFlag = Literal["flagged", "checks", "straight_lining", "speeding", "disagrees"]
PERSON_FLAGS: tuple[str, ...] = get_args(PersonFlag)
CONSENT_SECTIONS = ("voluntary", "data", "leaving")
"""Built-in sections of the consent page; each stays unless the plan replaces it."""
_LARGEST_FILE = 1 << 20


def near(name: str, known: Any) -> str:
    """`"; did you mean 'x'?"` for the nearest known name, or nothing.

    >>> near("clikcs", ["clicks", "rate"]), near("zebra", ["clicks"])
    ("; did you mean 'clicks'?", '')
    """
    found = suggestion(name, known)
    return f";{found}" if found else ""


def _known(name: str, known: list[str]) -> str:
    """A suggestion, or else the list of known names."""
    return near(name, known) or f"; known: {', '.join(known)}"


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise ValueError(f"'{twice[0]}' is listed twice")
    return names


def _printable(text: str) -> str:
    if any(ord(c) < 32 and c not in "\n\t" for c in text):
        raise ValueError("control characters are not allowed")
    return text


def _whole(low: int, high: int) -> Any:
    return Field(strict=True, ge=low, le=high)


def _number(low: float, high: float) -> Any:
    return Field(strict=True, ge=low, le=high, allow_inf_nan=False)


Text = Annotated[str, Field(max_length=20_000), AfterValidator(_printable)]
Line = Annotated[str, Field(max_length=500), AfterValidator(_printable)]
Name = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_printable)]
Names = Annotated[tuple[Name, ...], AfterValidator(_unique)]
Texts = Annotated[dict[str, Text], BeforeValidator(lambda v: {"": v} if isinstance(v, str) else v)]
"""`{language: text}`; a plain text holds for every language, `""`."""
Share = Annotated[float, _number(0, 1)]
Flag = Annotated[bool, Field(strict=True)]
Device = Literal["pc", "mobile"]
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")]


def in_language(versions: Mapping[str, str], language: str) -> str:
    """A text in this language, or for all languages, or in another one."""
    return versions.get(language) or versions.get("") or next(iter(versions.values()), "")


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Show = Literal["image", "text", "cutout", "shifted", "silhouette", "highlight", "overlay"]


class Screen(_Table):
    """One screen, shown for `seconds`; None: until the participant has answered."""

    show: Show
    seconds: Annotated[float, _number(0.05, 120)] | None = None


class Mode(_Table):
    """`[[mode]]`: a display mode; the last screen waits for the answer."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,60}$")]
    screens: Annotated[tuple[Screen, ...], Field(min_length=1, max_length=12)]

    @model_validator(mode="after")
    def _only_the_last_waits(self) -> Self:
        *before, last = self.screens
        if last.seconds is not None:
            raise ValueError("the last screen waits for the answer; leave out its seconds")
        if any(screen.seconds is None for screen in before):
            raise ValueError("only the last screen may have no seconds")
        return self

    @property
    def seconds(self) -> float:
        """How long all timed screens take together."""
        return sum(screen.seconds or 0.0 for screen in self.screens)


_ONCE, _AGAIN = ("image", 1.5), ("image", 1.5)  # the second time clicks are not taken
_TIMED: Mapping[str, tuple[tuple[str, float], ...]] = {
    "Text_Description": (_ONCE, ("text", 2.5), _AGAIN),
    "Object_CutOut": (_ONCE, ("cutout", 2.0), _AGAIN),
    # The paper does not say how long the shifted cut-out is shown; we use half a second.
    "Shifted_CutOut": (_ONCE, ("cutout", 2.0), ("shifted", 0.5), _AGAIN),
    "Silhouette_Mask": (_ONCE, ("silhouette", 2.0), _AGAIN),
    "Highlighted_Instance": (_ONCE, ("highlight", 2.0), _AGAIN),
    "Overlay": (_ONCE, ("overlay", 2.0)),
}
_IMAGE = Screen(show="image")
BUILT_IN = {
    name: Mode(
        name=name,
        screens=(*(Screen.model_validate({"show": s, "seconds": t}) for s, t in timed), _IMAGE),
    )
    for name, timed in _TIMED.items()
}
"""The five modes of the RClicks ablation (Antonov et al. 2024, appendix) and TETRIS' overlay."""


class Data(_Table):
    """`[data]`: which images and targets are shown."""

    dataset: Line = "mini"
    scenes: Names = ()
    targets: Names = ()
    largest_side: Annotated[int, _whole(64, 8192)] = 2048


class Quota(_Table):
    """At most `people` participants who answered a question in this way."""

    question: Id
    answer: Name
    people: Annotated[int, _whole(0, 100_000)]


class Design(_Table):
    """`[design]`: conditions, sizes, and who gets what.

    `assignment` decides which condition a participant of a between-subject study gets: `random`
    (rarest condition first, ties by lot), `blocked` (every block of as many participants as there
    are conditions has each once, in random order) or `latin-square` (rows of a balanced square;
    within subjects it orders the conditions).
    """

    modes: Names = ()
    models: Names = ()
    per_cell: Annotated[int, _whole(1, 1000)] = 1
    people: Literal["between", "within"] = "between"
    assignment: Literal["random", "blocked", "latin-square"] = "random"
    devices: Annotated[tuple[Device, ...], Field(min_length=1), AfterValidator(_unique)] = (
        "pc",
        "mobile",
    )
    batch: Annotated[int, _whole(1, 100)] = 10
    batches_per_person: Annotated[int, _whole(0, 10_000)] = 0
    start_minutes: Annotated[float, _number(0.01, 60)] = 4.0
    lease_minutes: Annotated[float, _number(0.01, 24 * 60)] = 15.0
    open_to_all: Flag = False
    best_below: Share = 0.95
    rounds: Annotated[int, _whole(1, 100)] = 20
    practice: Names = ()
    checks: Names = ()
    quotas: tuple[Quota, ...] = ()


class Validity(_Table):
    """`[validity]`: which answers and which participants count; nothing is ever deleted."""

    # Share of the image's diagonal by which a click may miss its target.
    radius: Share = 0.01
    # Clicks of a batch that must lie on their targets (without the radius); None: 7 of 10.
    batch_minimum: Annotated[int, _whole(0, 100)] | None = None
    # A screen may miss its planned duration by so much.
    late_ms: Annotated[float, _number(1, 10_000)] = 50.0
    # Less than this between two requests, by the server's clock, is too fast; None: 2 s for
    # ratings, the timed screens for clicks.
    least_seconds: Annotated[float, _number(0, 3600)] | None = None
    # A click sooner after the screens is too fast to be a reaction.
    least_latency_ms: Annotated[float, _number(0, 10_000)] = 100.0
    # Share of answers to known masks or targets that must be right, in a batch and over a person.
    checks: Share = 0.5
    # Failed practice rounds after which a participant is screened out.
    practice_tries: Annotated[int, _whole(1, 100)] = 3
    # Flags for which an answer does not count, and for which a participant is left out of analyses.
    exclude: tuple[AnswerFlag, ...] = ANSWER_FLAGS  # type: ignore[assignment]  # the same words
    exclude_people: tuple[PersonFlag, ...] = PERSON_FLAGS  # type: ignore[assignment]  # the same
    # Limits of the flags of a person: see `segmeter.study.validity`.
    flagged_share: Share = 0.5
    straight_share: Share = 0.9
    least_agreement: Annotated[float, _number(-1, 1)] = 0.25
    speed_share: Share = 0.25


class Masks(_Table):
    """One table of `[[masks]]`: the ground truth, a round of a run, or a folder of PNG files."""

    name: Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_printable)]
    source: Literal["ground_truth", "run", "folder"] = "ground_truth"
    run: Line = ""
    model: Line = ""
    round: Annotated[int, _whole(1, 1000)] = 1
    folder: Line = ""
    rated: Flag = True  # false: only for practice and checks

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.source == "run" and not (self.run and self.model):
            raise ValueError("masks of a run need 'run' and 'model'")
        if self.source == "folder" and not self.folder:
            raise ValueError("'folder' is missing: the folder with the PNG files")
        return self


class Reference(_Table):
    """One table of `[[rating.training]]` or `[[rating.gold]]`: a mask with known scores."""

    scene: Name
    target: Line = ""
    masks: Name
    low: Annotated[int, _whole(1, 10)] = 1
    high: Annotated[int, _whole(1, 10)] = 10

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError("'low' is above 'high'")
        return self

    def passes(self, score: int) -> bool:
        return self.low <= score <= self.high


class Rating(_Table):
    """`[rating]`: how masks are rated."""

    prompt: Literal["point", "box"] = "point"
    overlap: Share = 0.1
    pilot: Annotated[int, _whole(1, 50)] = 1
    spot_checks: Share = 0.05
    least_area: Annotated[int, _whole(0, 10**8)] = 576
    pass_mark: Share = 0.8
    training: tuple[Reference, ...] = ()
    gold: tuple[Reference, ...] = ()


class Question(_Table):
    """One table of `[[questions]]`.

    `answers` are shown in the participant's language and exported by their `name`s; answers named
    in `screen_out` end the participation.
    """

    name: Id
    text: Texts
    when: Literal["before", "after"] = "before"
    kind: Literal["single", "multiple", "likert", "scale", "text", "number"] = "single"
    answers: dict[Id, Texts] = {}
    low: Texts = {}
    high: Texts = {}
    steps: Annotated[int, _whole(2, 101)] = 7
    optional: Flag = False
    screen_out: Names = ()

    @model_validator(mode="after")
    def _has_answers(self) -> Self:
        if self.kind in ("single", "multiple") and len(self.answers) < 2:
            raise ValueError('\'answers\' needs at least two, such as { yes = "Yes", no = "No" }')
        for name in self.screen_out:
            if name not in self.answers:
                raise ValueError(f"'screen_out' names '{name}', which is none of the answers")
        return self


class Recruiting(_Table):
    """`[recruiting]`: the platform that participants come from, and its codes."""

    platform: Literal["none", "prolific", "mturk", "sona", "other"] = "none"
    id_parameter: Line = ""
    completion_code: Line = ""
    screen_out_code: Line = ""
    quota_full_code: Line = ""
    return_url: Line = ""


class Plan(_Table):
    """A study's plan; `text` is the file itself and `hash` its fingerprint."""

    kind: Kind
    title: Annotated[str, Field(max_length=200), AfterValidator(_printable)] = "A study"
    seed: Annotated[int, _whole(0, 2**31)] = 0
    languages: Annotated[Names, Field(min_length=1)] = ("en", "de")
    words: Line = ""
    data: Data = Data()
    design: Design = Design()
    validity: Validity = Validity()
    rating: Rating = Rating()
    recruiting: Recruiting = Recruiting()
    texts: dict[
        Literal[
            "title", "welcome", "consent", "voluntary", "data", "leaving", "pay", "contact",
            "debriefing",
        ],
        Texts,
    ] = {}  # fmt: skip
    consent_boxes: tuple[Texts, ...] = ()
    descriptions: dict[Name, Texts] = {}
    mode: tuple[Mode, ...] = ()
    masks: tuple[Masks, ...] = ()
    questions: tuple[Question, ...] = ()
    questionnaires: Annotated[tuple[Literal["nasa-tlx"], ...], AfterValidator(_unique)] = ()
    text: Annotated[str, Field(exclude=True)] = ""
    folder: Annotated[Path, Field(exclude=True)] = Path()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Rules that involve several tables."""
        if self.kind in ("rate", "clicks-round2") and not any(m.rated for m in self.masks):
            raise ValueError(f"kind '{self.kind}' needs [[masks]]: whose masks are shown")
        if self.kind == "interact" and not self.design.models:
            raise ValueError("kind 'interact' needs design.models, such as [\"mobile-sam\"]")
        if self.kind == "clicks-round2" and any(m.source == "ground_truth" for m in self.masks):
            raise ValueError(
                "clicks-round2 shows errors; masks with source 'ground truth' have none"
            )
        assert self.modes
        questions = {question.name: question for question in self.questions}
        named = {masks.name for masks in self.masks}
        if len(questions) < len(self.questions) or len(named) < len(self.masks):
            raise ValueError("two tables have the same name; rename one")
        if self.validity.batch_minimum and self.validity.batch_minimum > self.design.batch:
            raise ValueError("validity.batch_minimum is larger than design.batch")
        for where in ("training", "gold"):
            for reference in getattr(self.rating, where):
                if reference.masks not in named:
                    lacks = f"names masks '{reference.masks}', which [[masks]] lacks"
                    raise ValueError(f"[[rating.{where}]] {lacks}")
        for quota in self.design.quotas:
            asked = questions.get(quota.question)
            if asked is None or quota.answer not in asked.answers:
                lacking = f"no question '{quota.question}' with the answer '{quota.answer}'"
                raise ValueError(f"design.quotas: {lacking}")
        return self

    @cached_property
    def hash(self) -> str:
        return fingerprint("study plan", self.text, size=8)

    @cached_property
    def modes(self) -> tuple[Mode, ...]:
        """The display modes in use."""
        if self.kind == "rate":
            return (Mode(name="rate", screens=(_IMAGE,)),)
        own = {mode.name: mode for mode in self.mode}
        known = {**BUILT_IN, **own}
        named = self.design.modes or tuple(own) or ("Object_CutOut",)
        for name in named:
            if name not in known:
                raise ValueError(f"design.modes: no mode '{name}'{_known(name, list(known))}")
        return tuple(known[name] for name in named)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions that are compared: display modes, sources of masks, or models."""
        if self.kind == "rate":
            return tuple(masks.name for masks in self.masks if masks.rated)
        if self.kind == "interact":
            return self.design.models
        return tuple(mode.name for mode in self.modes)

    @property
    def fixed(self) -> bool:
        """Whether a participant keeps to one condition."""
        return self.design.people == "between" and self.kind != "rate"

    @property
    def clicks(self) -> bool:
        return self.kind in ("clicks", "clicks-round2")

    @property
    def batch_minimum(self) -> int:
        """Clicks of a full batch that must lie on their targets."""
        given = self.validity.batch_minimum
        if given is not None:
            return given
        return -(-7 * self.design.batch // 10) if self.clicks else 0

    @property
    def least_seconds(self) -> float:
        """The shortest plausible time for one rating."""
        given = self.validity.least_seconds
        return (2.0 if self.kind == "rate" else 0.0) if given is None else given

    def mode_of(self, condition: str) -> Mode:
        """The screens that belong to a condition."""
        if self.clicks:
            return next(mode for mode in self.modes if mode.name == condition)
        return self.modes[0]


def read_plan(path: Path) -> Plan:
    """Read and check a plan; the first error is reported in one sentence."""
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
    """A plan from its text; relative paths in it start at `folder`."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"the plan is not TOML: {error}") from None
    for name in ("text", "folder"):
        if name in table:
            raise BadInput(f"the plan: unknown key '{name}'")
    try:
        return Plan.model_validate({**table, "text": text, "folder": folder})
    except ValidationError as error:
        raise BadInput(_sentence(error.errors()[0])) from None


def _sentence(error: Mapping[str, Any]) -> str:
    """A pydantic error as one sentence: where, what, and the nearest known word."""
    *parents, last = error["loc"] or ("",)
    tables = [str(part) for part in parents if isinstance(part, str) and part != "[key]"]
    where = f"[{'.'.join(tables)}]" if tables else "the plan"
    if isinstance(last, int):
        where, last = f"{where} {last + 1}", tables[-1] if tables else ""
    given, kind, context = error.get("input"), error["type"], error.get("ctx", {})
    shown = f"not {given!r}"[:120]
    if kind == "missing":
        choices = f"; one of {', '.join(KINDS)}" if last == "kind" else ""
        return f"{where}: '{last}' is missing{choices}"
    if kind == "extra_forbidden":
        known = _fields(parents)
        return f"{where}: unknown key '{last}'{_known(str(last), known)}"
    if kind == "literal_error":
        words = [word.strip(" '") for word in context["expected"].replace(" or ", ",").split(",")]
        name = tables[-1] if last == "[key]" else last
        return f"{where}: '{name}' is one of {', '.join(words)}, {shown}{near(str(given), words)}"
    if kind == "value_error":
        reason = str(context["error"])
        if not error["loc"]:
            return reason
        return f"{where}: {reason}" if f"[{last}]" in where else f"{where} '{last}': {reason}"
    message = error["msg"].removeprefix("Input ").replace("\n", " ")
    return f"{where}: '{last}' {message}, {shown}"


def _fields(parents: list[Any]) -> list[str]:
    """Known keys of the table that a path of pydantic leads to."""
    model: type[BaseModel] = Plan
    for part in parents:
        field = model.model_fields.get(part) if isinstance(part, str) else None
        if field is None:
            continue
        inner = [field.annotation, *get_args(field.annotation)]
        found = [t for t in inner if isinstance(t, type) and issubclass(t, BaseModel)]
        model = found[0] if found else model
    hidden = {"text", "folder"} if model is Plan else set()
    return sorted(set(model.model_fields) - hidden)
