"""`segmeter.serve`: a model behind HTTP, in the protocol of `--model http://...`.

    GET  /          {"protocol": 1, "model", "summary", "takes", "fingerprint"}
    POST /image     body: a PNG or JPEG file -> {"image": name, "shape": [height, width]}
    POST /predict   {"image": name, "prompts": [...], "state": name or null}
                    -> {"mask": {"size": [height, width], "counts": run lengths}, "score", "state"}

Prompts are those of a run's rows: {"click": [y, x], "positive": true}, {"box": [...]}. An image
or state that the service no longer holds is answered with {"gone": "image"} and status 410.
"""

from __future__ import annotations

import json
import threading
import traceback
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

from segmeter.api.loading import as_model
from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.models import Request
from segmeter.core.prompts import check_inside, round_from_json
from segmeter.core.scenes import Image
from segmeter.datasets.image_files import decode_rgb

_LARGEST = 1 << 28
_IMAGES, _STATES = 4, 4096


class ModelServer(ThreadingHTTPServer):
    """Serves one model; requests are predicted one after the other."""

    daemon_threads = True

    def __init__(self, model: Any, host: str = "127.0.0.1", port: int = 0) -> None:
        self.model = model
        self.images: OrderedDict[str, Any] = OrderedDict()
        self.states: OrderedDict[str, Any] = OrderedDict()
        self.lock = threading.Lock()
        super().__init__((host, port), _Handler)

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def described(self) -> dict[str, Any]:
        card = self.model.card
        return {
            "protocol": 1,
            "model": card.name,
            "summary": card.summary,
            "takes": sorted(card.abilities & {"click", "box", "scribble", "mask"}),
            "fingerprint": card.fingerprint,
        }

    def set_image(self, packed: bytes) -> dict[str, Any]:
        name = uuid4().hex
        scene = Image("service", name, decode_rgb(packed, "the body"), [])
        with self.lock:
            _keep(self.images, name, (self.model.encode(scene), scene), _IMAGES)
        return {"image": name, "shape": list(scene.shape)}

    def predict(self, asked: Any) -> dict[str, Any]:
        if not isinstance(asked, dict):
            raise BadInput("a request is an object with image and prompts")
        with self.lock:
            if asked.get("image") not in self.images:
                return {"gone": "image"}
            encoded, scene = self.images[asked["image"]]
            state = asked.get("state")
            if state is not None and state not in self.states:
                return {"gone": "state"}
            prompts = round_from_json(json.dumps(asked.get("prompts")))
            check_inside(prompts, scene)
            request = Request(prompts, None if state is None else self.states[state])
            found = encoded.predict([request])[0]
            name = None
            if found.state is not None:
                name = uuid4().hex
                _keep(self.states, name, found.state, _STATES)
            mask = found.mask()
            score = float(found.scores[min(found.shown, len(found.scores) - 1)])
        counts = {"size": list(scene.shape), "counts": mask.encoded()}
        return {"mask": counts, "score": score, "state": name}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # header and body leave together
    server: ModelServer

    def do_GET(self) -> None:
        found = self.path.rstrip("/") == ""
        self._reply(200 if found else 404, self.server.described() if found else {"error": "GET /"})

    def do_POST(self) -> None:
        stated = self.headers.get("Content-Length", "")
        length = int(stated) if stated.isdecimal() else 0
        if not 0 < length <= _LARGEST:
            self.close_connection = True
            self._reply(413, {"error": "a body of 1 byte to 256 MB is needed"})
            return
        body = self.rfile.read(length)
        status, reply = 404, {"error": "POST /image or POST /predict"}
        try:
            if self.path == "/image":
                status, reply = 200, self.server.set_image(body)
            elif self.path == "/predict":
                reply = self.server.predict(json.loads(body))
                status = 410 if "gone" in reply else 200
        except (SegmeterError, ValueError, TypeError, RecursionError) as error:
            status, reply = 400, {"error": str(error)}
        except Exception as error:  # noqa: BLE001  a model may raise anything
            traceback.print_exc()
            status, reply = 500, {"error": f"{type(error).__name__}: {error}"}
        self._reply(status, reply)

    def _reply(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: there would be a line per click."""


def _keep(held: OrderedDict[str, Any], name: str, thing: Any, most: int) -> None:
    held[name] = thing
    while len(held) > most:
        held.popitem(last=False)


def serve(
    model: Any, host: str = "127.0.0.1", port: int = 8008, weights: str | Path | None = None
) -> ModelServer:
    """A server for a model by name, path or as an object; call `serve_forever` on it.

    >>> server = serve("disc", port=0)
    >>> server.described()["model"]
    'disc'
    >>> server.server_close()
    """
    loaded = as_model(model, weights)
    try:
        return ModelServer(loaded, host, port)
    except OSError as error:
        taken = f"{host}:{port} cannot be used ({error.strerror})"
        raise BadInput(f"{taken}; choose another --port or --host") from None
