"""Stand-ins for servers of volumes: `python volume_services.py monai-label|nninteractive`.

MONAI Label's server takes a NIfTI file into a session and points as (x, y, z); the server of
nnInteractive's 3D Slicer extension holds one array and one session, and answers with bits. Both
segment with `ball`. Prints its port.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import nibabel
import numpy as np

from segmeter.core.prompts import Box, Click


def ball(volume: Any, prompts: Any) -> Any:
    """Balls of bright voxels around clicks and the middle slice of boxes, less negative balls."""
    return painted(np.asarray(volume.voxels), prompts)


def painted(voxels: Any, prompts: Any) -> Any:
    made = np.zeros(voxels.shape, np.uint8)
    places = np.indices(voxels.shape)
    for prompt in sorted(prompts, key=lambda p: not getattr(p, "positive", True)):
        if isinstance(prompt, Click):
            away = sum((p - round(c)) ** 2 for p, c in zip(places, prompt.point, strict=True))
            made[(away <= 30) & (voxels >= voxels.mean())] = prompt.positive
        elif isinstance(prompt, Box):
            ends = [[round(a), round(b)] for a, b in zip(prompt.low, prompt.high, strict=True)]
            ends[0] = [sum(ends[0]) // 2] * 2
            made[tuple(slice(a, b + 1) for a, b in ends)] = 1
    return made


class Server(BaseHTTPRequestHandler):
    volumes: ClassVar[dict[str, Any]] = {}
    prompts: ClassVar[list[Any]] = []

    def form(self) -> dict[str, bytes]:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kind = self.headers["Content-Type"]
        if kind == "application/json":
            return {"json": body}
        whole = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
        return {
            str(part.get_param("name", header="Content-Disposition")): part.get_payload(decode=True)
            for part in whole.get_payload()  # type: ignore[union-attr]  # a form has parts
        }  # type: ignore[return-value]

    def answer(self, body: Any, status: int = 200) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None: ...


class MonaiLabel(Server):
    def do_GET(self) -> None:
        assert self.path == "/info/"
        kinds = {"deepedit": "deepedit", "segmentation": "segmentation", "graphcut": "scribbles"}
        models = {name: {"type": kind, "labels": None} for name, kind in kinds.items()}
        models["labelled"] = {"type": "scribbles", "labels": {"a": 0, "b": 1, "c": 2}}
        self.answer({"name": "stand-in", "models": models})

    def do_PUT(self) -> None:
        assert self.path == "/session/"
        image = nibabel.Nifti1Image.from_bytes(gzip.decompress(self.form()["files"]))
        name = f"session-{len(self.volumes)}"
        self.volumes[name] = np.asarray(image.dataobj), image.affine
        self.answer({"session_id": name, "expiry": 3600})

    def do_POST(self) -> None:
        where = urlsplit(self.path)
        session = parse_qs(where.query)["session_id"][0]
        form = self.form()
        params = json.loads(form["params"])
        if session not in self.volumes:
            self.answer({"detail": "Failed to execute infer"}, 500)
            return
        values, affine = self.volumes[session]
        if where.path in ("/infer/graphcut", "/infer/labelled"):  # foreground strokes in the region
            foreground = 3 if where.path == "/infer/graphcut" else 5
            strokes = nibabel.Nifti1Image.from_bytes(gzip.decompress(form["label"]))
            assert np.array_equal(strokes.affine, affine)
            made = np.asarray(strokes.dataobj).copy()
            x0, x1, y0, y1, z0, z1 = params.get("roi", [0, 999] * 3)
            made[x0:x1, y0:y1, z0:z1] += 10
            made = nibabel.Nifti1Image(
                np.where(made == 10 + foreground, 1, 0).astype(np.uint8), affine
            )
            self.answer(gzip.compress(made.to_bytes()))
            return
        assert where.path == "/infer/deepedit"
        assert params["object"] == params["foreground"]
        points = [(p, True) for p in params["foreground"]]
        points += [(p, False) for p in params["background"]]
        clicks = [Click(tuple(point), positive) for point, positive in points]
        made = nibabel.Nifti1Image(painted(values, clicks), affine)
        self.answer(gzip.compress(made.to_bytes()))


class Slicer(Server):
    def do_POST(self) -> None:
        form = self.form()
        if self.path == "/upload_image":
            self.volumes["one"] = np.load(io.BytesIO(form["file"]))
            self.prompts.clear()
            self.answer({"status": "ok"})
        elif "one" not in self.volumes:
            self.answer({"status": "error", "message": "No image uploaded"})
        elif self.path == "/upload_segment":
            assert not np.load(io.BytesIO(gzip.decompress(form["file"]))).any()
            self.prompts.clear()
            self.answer({"status": "ok"})
        else:
            asked = json.loads(form["json"])
            if self.path == "/add_point_interaction":
                self.prompts.append(Click(tuple(asked["voxel_coord"]), asked["positive_click"]))
            else:
                high = [c - 1 for c in asked["outer_point_two"]]  # an exclusive end
                self.prompts.append(Box(tuple(asked["outer_point_one"]), tuple(high)))
            bits = np.packbits(painted(self.volumes["one"], self.prompts).astype(bool), axis=None)
            self.answer(gzip.compress(bits.tobytes()))


if __name__ == "__main__":
    handler = {"monai-label": MonaiLabel, "nninteractive": Slicer}[sys.argv[1]]
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    server = HTTPServer(("127.0.0.1", port), handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
