"""A click map to look into: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.report.elements import as_script, data_address, filled

__all__ = ["ShownMap", "map_page"]

_UNKNOWN = 65535  # stands for a place where no click would be valid


@dataclass(frozen=True, slots=True)
class ShownMap:
    """Scores of clicks on an image.

    Attributes
    ----------
    image
        The scene as JPEG or PNG bytes, of `shape` `(H, W)`.
    maps
        Scores 0 to 1 by name, `(rows, columns)`, NaN where nothing was tried; the pixel of
        row i and column j is `low + stride * (i, j)`.
    centre
        The click of the usual simulated user, `(y, x)`.
    """

    image: bytes
    shape: tuple[int, int]
    maps: Mapping[str, npt.NDArray[np.float64]]
    low: tuple[int, int]
    stride: int
    centre: tuple[int, int]


def map_page(
    title: str,
    shown: ShownMap,
    facts: Sequence[tuple[str, str]],
    figures: Sequence[tuple[str, bytes]] = (),
) -> str:
    """The page as HTML text.

    Parameters
    ----------
    facts
        Names and values of the statistics to print.
    figures
        Captions and PNG or JPEG bytes of images to show beneath.
    """
    return filled(
        "clickmap.html",
        title=title,
        names=list(shown.maps),
        facts=facts,
        figures=[(caption, data_address(image)) for caption, image in figures],
        data=as_script(
            {
                "image": data_address(shown.image),
                "shape": shown.shape,
                "low": shown.low,
                "stride": shown.stride,
                "size": next(iter(shown.maps.values())).shape,
                "centre": shown.centre,
                "names": list(shown.maps),
                "values": [_packed(values) for values in shown.maps.values()],
            }
        ),
    )


def _packed(values: npt.NDArray[np.float64]) -> str:
    """Ten-thousandths as little-endian 16-bit numbers."""
    whole = np.where(np.isnan(values), _UNKNOWN, np.round(np.nan_to_num(values) * 10000))
    return base64.b64encode(whole.astype("<u2").tobytes()).decode()
