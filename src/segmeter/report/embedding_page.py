"""The page of mask embeddings: a query, its neighbours and a threshold, in one HTML file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.report.elements import as_script, filled

__all__ = ["write_page"]

_MOST = 2000
"""Objects on a page; the similarities of so many take 5 MB."""


def write_page(found: Any, thumbnails: Sequence[npt.NDArray[np.uint8]], out: Path) -> Path:
    """Write the page of `MaskEmbeddings`; nothing is loaded from elsewhere."""
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
    text = filled(
        "embeddings.html",
        title=f"{found.dataset}, {found.model}",
        count=count,
        lists=lists,
        facts=as_script(facts),
    )
    out.write_text(text, encoding="utf-8")
    return out


def _jpeg(pixels: npt.NDArray[np.uint8]) -> str:
    import cv2

    _, coded = cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 80])
    return base64.b64encode(coded.tobytes()).decode()
