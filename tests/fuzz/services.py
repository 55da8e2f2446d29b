"""What comes over HTTP: answers of services that we ask, and requests to a service of ours."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np

from segmeter.core.errors import SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.models import Request
from segmeter.core.prompts import Click, round_to_json
from segmeter.core.scenes import Image, SceneHeader, Volume
from segmeter.models.service_protocols import monai_model
from segmeter.models.services import ServiceModel

from .mutations import Mutate, bytes_changed, json_changed, png_changed
from .reader import Reader

__all__ = ["SERVICES"]

IMAGE = Image("fuzzed", "grey", np.full((6, 8, 3), 99, np.uint8), [])
VOXELS = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
VOLUME = Volume("fuzzed", "volume", VOXELS, [], header=SceneHeader("volume", (2, 3, 4)))
REQUEST = Request((Click((1, 2)),))
IN_VOLUME = Request((Click((1, 2, 3)),))
MASK = Mask.box((6, 8), (1, 1), (4, 5))


class Answers(BaseHTTPRequestHandler):
    """Answers every path with the bytes that are set for it, or with those for `*`."""

    bodies: ClassVar[dict[str, bytes]] = {}
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = self.bodies.get(self.path, self.bodies["*"])
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    do_GET = do_PUT = do_POST

    def log_message(self, format: str, *args: Any) -> None: ...


@cache
def _address() -> str:
    """One server for the whole process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


@cache
def _model(protocol: Any) -> ServiceModel:
    return ServiceModel(_address(), protocol, model="deepedit")


def _answered(protocol: str, ask: Callable[[ServiceModel], object], **fixed: Any) -> Any:
    """Reads a file as the answer of a service; other paths have fixed answers."""

    def read(path: Path) -> None:
        held = {f"/{name}": json.dumps(body).encode() for name, body in fixed.items()}
        Answers.bodies = {**held, "*": path.read_bytes()}
        ask(_model(protocol))

    return read


def _described(model: ServiceModel) -> object:
    return ServiceModel(model.address).card


def _answer(protocol: str, seed: Any, mutate: Mutate = json_changed, **fixed: Any) -> Reader:
    volume = protocol in ("monai-label", "nninteractive")
    scene, request = (VOLUME, IN_VOLUME) if volume else (IMAGE, REQUEST)

    def ask(model: ServiceModel) -> None:
        model.holds = None
        for found in model.encode(scene).predict([request]):
            found.mask()

    def seeds() -> list[bytes]:
        return [seed() if callable(seed) else json.dumps(seed).encode()]

    needs = "nibabel" if protocol == "monai-label" else ""
    return Reader(seeds, _answered(protocol, ask, **fixed), "a.bin", mutate, needs=needs)


def _brush() -> Any:
    """Run lengths of an image of one value."""
    count = 4 * 6 * 8
    bits = f"{count:032b}{7:05b}" + "".join(f"{w - 1:04b}" for w in (1, 2, 4, 8))
    bits += f"111{count - 1:08b}{255:08b}"
    bits += "0" * (-len(bits) % 8)
    rle = [int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)]
    result = {"type": "brushlabels", "score": 0.5, "value": {"format": "rle", "rle": rle}}
    return {"results": [{"result": [result], "score": 0.5}]}


def _label_map() -> bytes:
    import nibabel

    return gzip.compress(nibabel.Nifti1Image(np.ones((4, 3, 2), np.uint8), np.eye(4)).to_bytes())


def _bits() -> bytes:
    return gzip.compress(np.packbits(np.ones(24, bool)).tobytes())


@cache
def _served() -> Any:
    """Our own service with an image set; the image's name is part of requests."""
    from segmeter.serving import serve

    server = serve("disc?radius=2", port=0)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


def _posted(path: str) -> Callable[[Path], None]:
    """Posts a file to our service, which answers with JSON whatever it is sent."""

    def read(file: Path) -> None:
        server = _served()
        if not server.images:
            server.set_image(_png())
        server.images["a"] = next(iter(server.images.values()))
        line = http.client.HTTPConnection(*server.server_address[:2], timeout=30)
        try:
            line.request("POST", path, file.read_bytes() or b" ")
            answer = line.getresponse()
            said = json.loads(answer.read())
        finally:
            line.close()
        assert isinstance(said, dict)
        if answer.status >= 400 and "gone" not in said:
            raise SegmeterError(str(said["error"]))

    return read


def _png() -> bytes:
    return bytes(cv2.imencode(".png", IMAGE.pixels)[1])


def _request() -> list[bytes]:
    prompts = json.loads(round_to_json(REQUEST.prompts) or "")
    asked = {"image": "a", "prompts": [prompts], "state": None}
    return [json.dumps(asked).encode()]


DESCRIPTION = {"protocol": 1, "model": "disc", "summary": "a", "takes": ["click"],
               "fingerprint": "0"}  # fmt: skip
SENT = {"image": "a", "shape": [6, 8]}
INFO = {"models": {"deepedit": {"type": "deepedit", "labels": {"spleen": 1}}}}
COUNTS = {"mask": {"size": [6, 8], "counts": MASK.encoded()}, "score": 0.5, "state": "b"}
SERVICES: dict[str, Reader] = {
    "service-description": Reader(
        lambda: [json.dumps(DESCRIPTION).encode()],
        _answered("segmeter", _described),
        "a.json",
        json_changed,
    ),
    "service-image": _answer("segmeter", SENT, predict=COUNTS),
    "service-masks": _answer("segmeter", COUNTS, image=SENT),
    "label-studio": _answer("label-studio", _brush()),
    "cvat": _answer("cvat", {"mask": MASK.dense().astype(int).tolist()}),
    "cvat-polygons": _answer("cvat", [[1, 1], [5, 1], [5, 4]]),
    "monai-label": _answer(
        "monai-label", _label_map, bytes_changed, **{"session/": {"session_id": "a"}, "info/": INFO}
    ),
    "monai-label-models": Reader(
        lambda: [json.dumps(INFO).encode()],
        _answered("monai-label", monai_model),
        "a.json",
        json_changed,
    ),
    "nninteractive-server": _answer(
        "nninteractive", _bits, bytes_changed, upload_image={"status": "ok"}
    ),
    "service-requests": Reader(_request, _posted("/predict"), "a.json", json_changed),
    "service-uploads": Reader(lambda: [_png()], _posted("/image"), "a.png", png_changed),
}
