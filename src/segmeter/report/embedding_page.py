"""The page of mask embeddings: a query, its neighbours and a threshold, in one HTML file."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput

__all__ = ["write_page"]

_MOST = 2000
"""Objects on a page; the similarities of so many take 5 MB."""

_HTML = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Mask embeddings: {title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 75rem;
  padding: 0 1rem; color: #1a1a1a; background: #fff; }}
h1 {{ font-size: 1.3rem; }}
h2 {{ font-size: 1.05rem; margin: 1.5rem 0 .5rem; }}
.bar {{ position: sticky; top: 0; background: #fff; padding: .6rem 0; border-bottom: 1px solid #ccc;
  display: flex; gap: 1rem; align-items: center; flex-wrap: wrap; z-index: 1; }}
.bar input[type=range] {{ width: min(22rem, 90vw); }}
.grid {{ display: flex; flex-wrap: wrap; align-items: flex-start; gap: .5rem; margin-top: .8rem; }}
button.object {{ border: 3px solid transparent; min-height: 108px; padding: 0;
  display: flex; flex-direction: column; justify-content: flex-start;
  background: none; width: 78px;
  text-align: left; cursor: pointer; font: 11px/1.25 system-ui, sans-serif; color: inherit; }}
button.object img {{ width: 72px; height: 72px; display: block; }}
button.object.above {{ border-color: #0060b0; }}
button.object.query {{ border-color: #c05000; border-style: double; }}
button.object:focus-visible {{ outline: 2px solid #000; }}
</style></head><body>
<h1>Mask embeddings: {title}</h1>
<p>{count} objects. Click an object to make it the query; the others are sorted by cosine
similarity. Objects at or above the threshold have a blue frame.</p>
<div class="bar"><label>threshold <input id="least" type="range" min="0" max="1" step="0.005"
  value="0.8"></label> <output id="value"></output> <span id="told"></span>
<label><input id="within" type="checkbox"> same image only</label></div>
<div id="grid" class="grid"></div>
{lists}
<script id="facts" type="application/json">{facts}</script>
<script>
const facts = JSON.parse(document.getElementById("facts").textContent);
const raw = Uint8Array.from(atob(facts.similarity), c => c.charCodeAt(0));
const codes = new Int16Array(raw.buffer), n = facts.objects.length;
const cosine = (a, b) => codes[a * n + b] / 32767;
const grid = document.getElementById("grid"), least = document.getElementById("least");
const within = document.getElementById("within");
let query = 0;
function card(i, similar) {{
  const made = document.createElement("button"), image = document.createElement("img");
  made.className = "object"; made.type = "button";
  image.src = "data:image/jpeg;base64," + facts.objects[i].image;
  image.alt = facts.objects[i].label || "object"; image.loading = "lazy";
  const text = document.createElement("span");
  text.textContent = (facts.objects[i].label || facts.objects[i].target)
    + (similar === null ? "" : " " + similar.toFixed(3));
  made.title = facts.objects[i].scene + " / " + facts.objects[i].target;
  made.append(image, text);
  made.onclick = () => {{ query = i; draw(); window.scrollTo(0, 0); }};
  return made;
}}
function draw() {{
  const order = [...Array(n).keys()].filter(i => i !== query
    && (!within.checked || facts.objects[i].scene === facts.objects[query].scene));
  order.sort((a, b) => cosine(query, b) - cosine(query, a) || a - b);
  const first = card(query, null);
  first.classList.add("query");
  grid.replaceChildren(first, ...order.slice(0, 96).map(i => card(i, cosine(query, i))));
  mark();
}}
function mark() {{
  const limit = Number(least.value);
  document.getElementById("value").textContent = limit.toFixed(3);
  let above = 0, same = 0;
  for (let i = 0; i < n; i++) {{
    if (i === query || (within.checked && facts.objects[i].scene !== facts.objects[query].scene))
      continue;
    if (cosine(query, i) >= limit) {{
      above++;
      same += facts.objects[i].label === facts.objects[query].label;
    }}
  }}
  document.getElementById("told").textContent = above + " above the threshold"
    + (facts.objects[query].label ? ", " + same + " of class " + facts.objects[query].label : "");
  const shown = grid.querySelectorAll(".object:not(.query)");
  shown.forEach((made, k) => made.classList.toggle("above", k < above));
}}
document.querySelectorAll("[data-list]").forEach(list =>
  list.append(...JSON.parse(list.dataset.list).map(i => card(i, null))));
least.oninput = mark; within.onchange = draw; draw();
</script></body></html>
"""


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
    facts = {"objects": objects, "similarity": base64.b64encode(codes.tobytes()).decode()}
    title = f"{found.dataset}, {found.model}"
    lists = "".join(_list(*one) for one in _lists(found))
    text = _HTML.format(
        title=escape(title),
        count=count,
        lists=lists,
        facts=json.dumps(facts).replace("<", "\\u003c"),
    )
    out.write_text(text, encoding="utf-8")
    return out


def _lists(found: Any) -> list[tuple[str, list[int]]]:
    doubles = [i for pair in found.near_duplicates()[:8] for i in pair[:2]]
    return [
        ("Annotate next: each object is least like those before it", found.annotate_next(12)),
        ("Most unusual objects", [i for i, _ in found.unusual(12)]),
        ("Near-duplicates, in pairs", doubles),
    ]


def _list(title: str, places: list[int]) -> str:
    if not places:
        return f"<h2>{escape(title)}</h2><p>None.</p>"
    return f'<h2>{escape(title)}</h2><div class="grid" data-list="{places}"></div>'


def _jpeg(pixels: npt.NDArray[np.uint8]) -> str:
    import cv2

    _, coded = cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 80])
    return base64.b64encode(coded.tobytes()).decode()
