"""A Label Studio ML backend of the tests' own: `python label_studio_backend.py MODEL [PORT]`.

It answers `/predict` as Label Studio's SAM example does: points in percent are cut off to
pixels, masks come back as brush labels in Label Studio's run lengths. Prints its port.
"""

from __future__ import annotations

import base64
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import cv2
import numpy as np

from segmeter.core import catalogue
from segmeter.core.models import Request
from segmeter.core.prompts import Box, Click
from segmeter.core.scenes import Image


def packed(values: Any) -> list[int]:
    """Label Studio's run lengths of bytes: runs only, lengths of 8 or 16 bits."""
    bits = [f"{len(values):032b}", f"{7:05b}", *(f"{w - 1:04b}" for w in (3, 4, 8, 16))]
    ends = np.flatnonzero(np.diff(values)) + 1
    for start, end in zip([0, *ends], [*ends, len(values)], strict=True):
        while start < end:
            length = min(end - start, 1 << 16)
            bits += ["1", "11", f"{length - 1:016b}", f"{values[start]:08b}"]
            start += length
    whole = "".join(bits)
    whole += "0" * (-len(whole) % 8)
    return [int(whole[i : i + 8], 2) for i in range(0, len(whole), 8)]


class Backend(BaseHTTPRequestHandler):
    model: Any = None

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        file = base64.b64decode(asked["tasks"][0]["data"]["image"].partition(",")[2])
        pixels = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
        prompts = [self.prompt(one) for one in asked["params"]["context"]["result"]]
        encoded = self.model.encode(Image("task", "1", pixels.copy(), []))
        found = encoded.predict([Request(tuple(prompts))])[0]
        rgba = np.repeat(255 * found.mask().dense().astype(np.uint8).reshape(-1), 4)
        value = {"format": "rle", "rle": packed(rgba), "brushlabels": ["object"]}
        result = {"type": "brushlabels", "value": value, "score": float(found.scores[0])}
        body = json.dumps({"results": [{"result": [result], "model_version": "1"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @staticmethod
    def prompt(one: Any) -> Any:
        width, height, value = one["original_width"], one["original_height"], one["value"]
        x, y = int(value["x"] * width / 100), int(value["y"] * height / 100)
        if one["type"] == "keypointlabels":
            return Click((y, x), bool(one["is_positive"]))
        right = x + int(value["width"] * width / 100 + 1e-6)
        return Box((y, x), (y + int(value["height"] * height / 100 + 1e-6), right))

    def log_message(self, format: str, *args: Any) -> None: ...


if __name__ == "__main__":
    Backend.model = catalogue.models.make(sys.argv[1])
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    server = HTTPServer(("127.0.0.1", port), Backend)
    print(server.server_address[1], flush=True)
    server.serve_forever()
