"""A click map to look into: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["map_page"]

UNKNOWN = 65535
"""Stands for a place where no click would be valid."""


def map_page(
    title: str,
    picture: bytes,
    shape: tuple[int, int],
    maps: Mapping[str, npt.NDArray[np.float64]],
    low: tuple[int, int],
    stride: int,
    centre: tuple[int, int],
    facts: Sequence[tuple[str, str]],
    figures: Sequence[tuple[str, bytes]] = (),
) -> str:
    """The page as HTML text.

    Parameters
    ----------
    picture
        The scene as JPEG or PNG bytes.
    maps
        Scores 0 to 1 by name, `(rows, columns)`, NaN where nothing was tried; the pixel of
        row i and column j is `low + stride * (i, j)`.
    facts
        Names and values of the statistics to print.
    figures
        Captions and PNG or JPEG bytes of pictures to show beneath.
    """
    from markupsafe import escape

    names = list(maps)
    rows, columns = maps[names[0]].shape
    data: dict[str, Any] = {
        "shape": list(shape),
        "low": list(low),
        "stride": stride,
        "size": [rows, columns],
        "centre": list(centre),
        "names": names,
        "values": [_packed(maps[name]) for name in names],
    }
    listed = "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in facts)
    choices = "".join(f'<option value="{i}">{escape(n)}</option>' for i, n in enumerate(names))
    shown = "".join(
        f'<figure><img src="{_address(image)}" alt="{escape(caption)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
        for caption, image in figures
    )
    page = resources.files("segmeter.report").joinpath("assets/clickmap.html").read_text()
    # The data hold numbers and names of measures only; "<" is escaped all the same.
    texts = {
        "TITLE": str(escape(title)),
        "PICTURE": _address(picture),
        "FIGURES": shown,
        "FACTS": listed,
        "CHOICES": choices,
        "DATA": json.dumps(data).replace("<", "\\u003c"),
    }
    # All at once: a title that reads %DATA% stays what it is.
    return re.sub(r"%([A-Z]+)%", lambda mark: texts.get(mark[1], mark[0]), page)


def _address(picture: bytes) -> str:
    """A picture inside the page."""
    kind = "png" if picture.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


def _packed(values: npt.NDArray[np.float64]) -> str:
    """Ten-thousandths as little-endian 16-bit numbers."""
    whole = np.where(np.isnan(values), UNKNOWN, np.round(np.nan_to_num(values) * 10000))
    return base64.b64encode(whole.astype("<u2").tobytes()).decode()
