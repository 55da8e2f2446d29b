"""Formats that pages and tables are written in, by their names and by their files' endings."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from segmeter.report import exports, writing

__all__ = ["Format"]


class Format(StrEnum):
    """What is written; `md` is Markdown and `tex` is LaTeX."""

    html = "html"
    csv = "csv"
    md = "md"
    tex = "tex"
    markdown = "markdown"
    latex = "latex"

    @property
    def ending(self) -> writing.Kind:
        """As files end.

        >>> Format.latex.ending
        'tex'
        """
        match self:
            case Format.md | Format.markdown:
                return "md"
            case Format.tex | Format.latex:
                return "tex"
            case Format.csv:
                return "csv"
            case _:
                return "html"

    @property
    def text_ending(self) -> Literal["csv", "md", "tex"]:
        """As files of tables end; a page is none of them."""
        ending = self.ending
        return "csv" if ending == "html" else ending

    @property
    def language(self) -> exports.Language:
        """As people call it.

        >>> Format.md.language
        'markdown'
        """
        match self.ending:
            case "md":
                return "markdown"
            case "tex":
                return "latex"
            case other:
                return other
