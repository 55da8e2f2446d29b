"""Sections: the contents of a report as plain data.

A benchmark returns sections and never writes HTML; `segmeter.report` draws them, as one
page, and as CSV, Markdown and LaTeX where a block is a table. Texts are plain: a blank
line separates paragraphs, `` `code` `` and ``**strong**`` are the only marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask
from segmeter.core.prompts import Prompt
from segmeter.core.scenes import SceneHeader

Record = TypeVar("Record")
Numbers = Sequence[float] | npt.NDArray[np.floating] | npt.NDArray[np.integer]
SCENE_NUMBERS = (("z", 0, 1), ("y", 0, 1), ("x", 0, 1))
"""For each axis `(z, y, x)` the file's word for a slice, the first number and the step; these
count along the axes of the scene, where a file's own numbers are unknown."""


class WithLimits(Protocol):
    """A value with its limits: an interval, a row of a summary, a difference."""

    @property
    def value(self) -> float: ...

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Value:
    """A number with its interval; `link` leads to the cases behind it (a replay's key).

    `best` sets whether it is bold, where the direction of its column alone must not
    decide: a number is the best of its column only where that is significant.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    link: str = ""
    best: bool | None = None

    @classmethod
    def of(cls, found: WithLimits | None, best: bool | None = None) -> Value:
        """An estimate as a cell; a dash where there is none."""
        return cls(None) if found is None else cls(found.value, found.low, found.high, best=best)

    def times(self, factor: float) -> Value:
        """The same in another unit; a negative factor turns the limits round.

        >>> Value(2.0, 1.0, 4.0).times(-1)
        Value(value=-2.0, low=-4.0, high=-1.0, link='', best=None)
        """
        value, low, high = (
            None if number is None else number * factor
            for number in (self.value, self.low, self.high)
        )
        ends = (low, high) if factor >= 0 else (high, low)
        return replace(self, value=value, low=ends[0], high=ends[1])

    def limits(self, digits: int, words: str = "", to: str = " to ") -> str:
        """The interval in brackets after `words`; empty without one, or one of no width.

        >>> Value(2.0, 1.0, 4.0).limits(1), Value(2.0, 2.01, 2.02).limits(1)
        ('(1.0 to 4.0)', '')
        """
        if self.low is None or self.high is None or np.isnan([self.low, self.high]).any():
            return ""
        low, high = (f"{end:.{digits}f}".replace("-", "−") for end in (self.low, self.high))
        return "" if low == high else f"({words}{low}{to}{high})"

    def text(self, digits: int) -> str:
        """The number, and its interval where it has one.

        >>> Value(2.0, 1.0, 4.0).text(1)
        '2.0 (1.0 to 4.0)'
        """
        if self.value is None:
            return "–"
        return f"{self.value:.{digits}f} {self.limits(digits)}".strip()


@dataclass(frozen=True, slots=True)
class Label:
    """A word in a table; `protocol` is shown as a small tag next to it."""

    text: str
    protocol: str = ""


Cell = str | float | int | None | Value | Label


@dataclass(frozen=True, slots=True)
class Column:
    """How a table's column is shown."""

    title: str  # the heading
    unit: str = ""  # set small beneath the title
    digits: int | None = None  # decimals of numbers; None for a column of words
    percent: bool = False  # numbers are fractions and shown times 100
    better: Literal["higher", "lower", ""] = ""  # the best number is set strong
    plot: bool = False  # draw each number and its interval on a common scale next to it
    shade: bool = False  # tint each cell by its value, for matrices
    group: str = ""  # a heading over neighbouring columns, such as a dataset
    least: float = 0.0  # smaller numbers are shown as below it: a p value is never 0


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns. `name` is the stem of exported files; `caption` is its title."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    note: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        records: Iterable[Record],
        columns: Mapping[Column, Callable[[Record], Cell]],
        caption: str = "",
        note: str = "",
    ) -> Table:
        """A row per record, with the value of each column's function.

        >>> sides = {Column("side"): lambda s: s, Column("area"): lambda s: s * s}
        >>> Table.of("squares", [2, 3], sides).rows
        [[2, 4], [3, 9]]
        """
        rows = [[cell(record) for cell in columns.values()] for record in records]
        return cls(name, list(columns), rows, caption, note)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: limits are found from the data where they are None."""

    title: str
    low: float | None = None
    high: float | None = None
    ticks: Sequence[float] | None = None
    scale: Literal["linear", "log"] = "linear"
    percent: bool = False
    digits: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A curve, with a band where `low` and `high` are given.

    `role` "guide" is a thin grey line behind the data (an iso-F line, a diagonal), labelled
    at its end; "step" holds each value until the next.
    """

    name: str
    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    role: Literal["curve", "step", "guide"] = "curve"


@dataclass(frozen=True, slots=True)
class Points:
    """Dots, each with a label where `labels` are given and whiskers where limits are."""

    name: str
    x: Numbers
    y: Numbers
    labels: Sequence[str] = ()
    low: Numbers | None = None
    high: Numbers | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves and dots over two axes; marks of one name share colour, dash and shape."""

    title: str
    x: Axis
    y: Axis
    marks: Sequence[Line | Points]
    caption: str = ""

    @property
    def data(self) -> list[Line | Points]:
        """The marks that are no guides."""
        return [m for m in self.marks if isinstance(m, Points) or m.role != "guide"]


@dataclass(frozen=True, slots=True)
class Multiples:
    """Small charts side by side, on the same axes."""

    charts: Sequence[Chart]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of every bar: its name and its length in each."""

    name: str
    values: Numbers


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars, one per category, of stacked parts."""

    title: str
    axis: Axis
    categories: Sequence[str]
    parts: Sequence[Part]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Outline:
    """A mask drawn over an image: ground truth dashed, prediction solid, wrong parts filled.

    `colour` numbers the colour of a mask's class, which a key below the image names.
    """

    mask: Mask
    role: Literal["ground_truth", "prediction", "false_negatives", "false_positives", "group"] = (
        "prediction"
    )
    name: str = ""
    colour: int | None = None


@dataclass(frozen=True, slots=True)
class Illustration:
    """An image with what is drawn over it.

    `pixels` are uint8 `(H, W, 3)` or `(H, W)`, shrunk and compressed by the report; or the bytes
    of a PNG, JPEG or WebP file, shown as they are.
    """

    pixels: npt.NDArray[np.uint8] | bytes
    caption: str = ""
    alt: str = ""
    size: tuple[int, int] | None = None  # of outlines and prompts, `(H, W)`; else the array's own
    outlines: Sequence[Outline] = ()
    prompts: Sequence[Prompt] = ()
    close: bool = False  # show only the neighbourhood of what is drawn over it
    link: str = ""  # key of a replay that shows more


@dataclass(frozen=True, slots=True)
class Gallery:
    """Images side by side, each with its caption."""

    images: Sequence[Illustration]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """One round of a session on an image or a volume: prompts, mask, scores (fractions)."""

    mask: Mask
    prompts: Sequence[Prompt] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Replay:
    """A session, round by round. Replays that follow each other share one chooser."""

    key: str
    title: str
    image: Illustration
    frames: Sequence[Frame]
    ground_truth: Mask | None = None
    goal: float | None = None
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Greys:
    """The values that the codes 0 to 255 of a volume's voxels represent, linear between knots.

    A window of values has 160 of the codes, so that it stays fine while a viewer can still show
    other windows. `knots` are the smallest value, the ends of the window, the largest value.

    >>> greys = Greys((-1000.0, -160.0, 240.0, 1400.0))
    >>> greys.codes(np.array([-1000.0, -160.0, 40.0, 240.0, 1400.0]))
    array([  0,  48, 128, 208, 255], dtype=uint8)
    >>> greys.windowed(np.array([0, 48, 128, 208, 255], np.uint8))
    array([  0,   0, 127, 255, 255], dtype=uint8)
    """

    knots: tuple[float, float, float, float]
    unit: str = ""
    presets: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    CODES: ClassVar[tuple[int, int, int, int]] = (0, 48, 208, 255)

    def codes(self, values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        found = np.interp(values, self.knots, self.CODES).round()
        return np.asarray(found, dtype=np.uint8)

    def windowed(self, codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Grey values 0 to 255 of codes, in the window."""
        low, high = self.CODES[1:3]
        return np.asarray(np.interp(codes, (low, high), (0, 255)), dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Slices:
    """A volume or video to scroll through, with ground truth, mask and prompts of each step.

    `voxels` are uint8 `(Z, Y, X)`, z to the head, y to the front, x to the right. The report keeps
    the neighbourhood of ground truth and masks, and thins out what is still large.
    """

    key: str
    title: str
    voxels: npt.NDArray[np.uint8]
    frames: Sequence[Frame]
    ground_truth: Mask | None = None
    caption: str = ""
    every_frame: int = 0  # of a video `(T, H, W)`, so many frames apart; 0 for a volume
    header: SceneHeader | None = None  # spacing and position of the voxels, if known
    greys: Greys | None = None  # the values of the voxels, where the window can be changed
    numbers: tuple[tuple[str, int, int], ...] = SCENE_NUMBERS  # of slices, along each axis


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in a sentence: its text, the text of its interval, and the value itself.

    `statistic` names the statistic. A page sets the interval quieter than the number.
    """

    text: str
    value: Value
    limits: str = ""
    statistic: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.limits}" if self.limits else self.text


Phrase = tuple[str | Quantity, ...]


def phrase(*parts: str | Quantity | Phrase) -> Phrase:
    """Words and quantities in their order.

    >>> needed = phrase(Quantity("9.7 s", Value(9.7, 6.5, 16.1), "(6.5–16.1)"))
    >>> "".join(map(str, phrase("needs ", needed, ".")))
    'needs 9.7 s (6.5–16.1).'
    """
    return tuple(p for part in parts for p in (part if isinstance(part, tuple) else (part,)))


@dataclass(frozen=True, slots=True)
class Answer:
    """The report's main conclusion; `lines` follow it, also in a terminal; `detail` is evidence.

    Numbers in the sentence are quantities, whose values a program can read.

    >>> answer = Answer(phrase("It takes ", Quantity("2.0 clicks", Value(2.0)), "."))
    >>> answer.text, answer.parts[1].value.value
    ('It takes 2.0 clicks.', 2.0)
    """

    sentence: str | Phrase
    detail: str = ""
    lines: tuple[str, ...] = ()

    @property
    def parts(self) -> Phrase:
        return phrase(self.sentence)

    @property
    def text(self) -> str:
        """The sentence in plain words."""
        return "".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class Note:
    """A remark: how something was computed, or a warning that something is missing."""

    text: str
    role: Literal["method", "warning"] = "method"


Block = Answer | Table | Chart | Multiples | Bars | Gallery | Replay | Slices | Note


@dataclass(frozen=True, slots=True)
class Section:
    """A chapter of the report; `folded` ones open on demand (always open in print)."""

    title: str
    text: str = ""
    blocks: Sequence[Block] = ()
    folded: bool = False
