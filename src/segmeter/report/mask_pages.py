"""Pages to look at: automatic masks, click-response maps, embeddings, as self-contained HTML."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.report.elements import as_script, data_address, filled
from segmeter.report.images import colour_of

Facts = Sequence[tuple[str, str]]
Floats = npt.NDArray[np.float64]


def masks_page(
    title: str, image: bytes, shape: tuple[int, int], masks: Sequence[Any], facts: Facts
) -> str:
    """The page of one image, as HTML text that needs nothing else.

    Parameters
    ----------
    image
        The image as JPEG or PNG bytes.
    shape
        `(H, W)` of the masks.
    masks
        Objects with a `mask`, the model's `score` of it, its `stability`, and the `point` of the
        click that made it, `(y, x)`.
    facts
        Names and values to print next to it.
    """
    data = {
        "image": data_address(image),
        "shape": shape,
        "masks": [_fields(one) for one in masks],
        "colours": ["#{:02x}{:02x}{:02x}".format(*colour_of(i)) for i in range(len(masks))],
    }
    return filled("masks.html", title=title, facts=facts, data=as_script(data))


def _fields(one: Any) -> list[Any]:
    stability = None if one.stability != one.stability else round(one.stability, 4)
    y, x = one.point
    counts = one.mask.encoded()
    return [counts, one.mask.area, round(one.score, 4), stability, round(y, 2), round(x, 2)]


_UNKNOWN = 65535  # stands for a place where no click would be valid


@dataclass(frozen=True, slots=True)
class ShownMap:
    """Scores of clicks on an image.

    `maps` has scores 0 to 1 by name, `(rows, columns)`, NaN where nothing was tried; the pixel of
    row i and column j is `low + stride * (i, j)`.
    """

    image: bytes  # the scene as JPEG or PNG
    shape: tuple[int, int]  # (H, W)
    maps: Mapping[str, Floats]
    low: tuple[int, int]
    stride: int
    centre: tuple[int, int]  # the click of the usual simulated user, (y, x)


def map_page(
    title: str, shown: ShownMap, facts: Facts, figures: Sequence[tuple[str, bytes]] = ()
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
        "click-response.html",
        title=title,
        names=list(shown.maps),
        facts=facts,
        figures=figures,
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


def _packed(values: Floats) -> str:
    """Ten-thousandths as little-endian 16-bit numbers."""
    whole = np.where(np.isnan(values), _UNKNOWN, np.round(np.nan_to_num(values) * 10000))
    return base64.b64encode(whole.astype("<u2").tobytes()).decode()


def shift_image(iou: Floats, down: Floats, across: Floats) -> bytes:
    """A PNG of IoU over shifts of the box in pixels, with a cross at the unmoved box."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 4.2), dpi=120, layout="constrained")
    axes = figure.subplots()
    image = axes.pcolormesh(
        across, down, 100 * iou, cmap="cividis", vmin=0, vmax=100, shading="nearest"
    )
    axes.plot([0], [0], marker="+", color="black", markersize=12, markeredgewidth=4)
    axes.plot([0], [0], marker="+", color="white", markersize=11, markeredgewidth=1.5,
              linestyle="none", label="not moved")  # fmt: skip
    axes.invert_yaxis()  # as in the image: down is down
    axes.set_xlabel("box moved across, px (right is positive)")
    axes.set_ylabel("box moved down, px")
    axes.legend(loc="upper right", facecolor="#555b6c", labelcolor="white", framealpha=0.9)
    figure.colorbar(image, label="IoU, %")
    held = io.BytesIO()
    figure.savefig(held, format="png", metadata={"Software": None})
    return held.getvalue()


_MOST = 2000
"""Objects on a page; the similarities of so many take 5 MB."""


def embeddings_page(found: Any, thumbnails: Sequence[npt.NDArray[np.uint8]]) -> str:
    """The page of `MaskEmbeddings`: a query, its neighbours and a threshold."""
    count = len(found.scenes)
    if count > _MOST:
        raise BadInput(f"a page shows at most {_MOST} objects, not {count}; use --limit")
    codes = np.clip(np.rint(found.similarity() * 32767), -32767, 32767).astype("<i2")
    objects = [
        {"scene": scene, "target": target, "label": label, "image": _jpeg(image)}
        for scene, target, label, image in zip(
            found.scenes, found.targets, found.labels, thumbnails, strict=True
        )
    ]
    lists = [
        ("Annotate next: each object is least like those before it", found.annotate_next(12)),
        ("Most unusual objects", [i for i, _ in found.unusual(12)]),
        ("Near-duplicates, in pairs", [i for p in found.near_duplicates()[:8] for i in p[:2]]),
    ]
    facts = {"objects": objects, "similarity": base64.b64encode(codes.tobytes()).decode()}
    title, script = f"{found.dataset}, {found.model}", as_script(facts)
    return filled("embeddings.html", title=title, count=count, lists=lists, facts=script)


def _jpeg(pixels: npt.NDArray[np.uint8]) -> str:
    import cv2

    _, coded = cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 80])
    return base64.b64encode(coded.tobytes()).decode()
