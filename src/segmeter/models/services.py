"""Models behind HTTP: our own small protocol, Label Studio's ML backends, CVAT's functions.

    segmeter run noc --model http://127.0.0.1:8008 --dataset mini
    segmeter run noc --model "http://127.0.0.1:9090?protocol=label-studio" --dataset mini

A service that is down, slow, or answers something strange fails the scene at hand with one
sentence; the run continues. Times in rows include the network.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args
from urllib.parse import quote, urlsplit

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard, Request
from segmeter.core.prompts import Box, Click, Prompt, round_to_json
from segmeter.core.scenes import Scene

__all__ = ["Protocol", "ServiceModel"]

Protocol = Literal["segmeter", "label-studio", "cvat"]
Bytes = npt.NDArray[np.uint8]

_MOST = 1 << 28
"""Bytes of an answer that are read at most."""


class ServiceModel:
    """A model that a service runs.

    Parameters
    ----------
    address
        `http://host:port` and a path where the service has one.
    protocol
        `segmeter` (what `segmeter models serve` speaks), `label-studio` or `cvat`.
    timeout
        Seconds to wait for an answer.
    label
        For Label Studio: the label that prompts are given for, as its configuration names it.
    """

    def __init__(
        self,
        address: str,
        protocol: Protocol = "segmeter",
        timeout: float = 60.0,
        label: str = "object",
    ) -> None:
        if protocol not in get_args(Protocol):
            raise BadInput(
                f"'{address}': protocol={protocol} is none of {', '.join(get_args(Protocol))}"
            )
        self.address, self.protocol, self.label = address.rstrip("/"), protocol, label
        self._line = _Line(self.address, float(timeout))

    @cached_property
    def card(self) -> ModelCard:
        """Asked of the service where its protocol has an answer."""
        if self.protocol != "segmeter":
            takes = frozenset({"click", "box"})
            about = f"the service at {self.address} by the protocol of {self.protocol}"
            return ModelCard(self.address, about, takes, family="service")
        said = self._line.call("GET", "/")
        try:
            takes = frozenset(str(word) for word in said["takes"])
            return ModelCard(
                self.address,
                f"the service at {self.address}: {said['summary']}",
                takes,
                family="service",
                fingerprint=str(said["fingerprint"]),
            )
        except (KeyError, TypeError) as error:
            raise _strange(
                self.address, "its description lacks summary, takes or fingerprint"
            ) from error

    def encode(self, scene: Scene) -> Any:
        if scene.header.kind != "image":
            raise BadInput(f"{scene.name} is a {scene.header.kind}; '{self.address}' takes images")
        if self.protocol == "segmeter":
            return _Remote(self, scene, _sent(self, scene))
        ask = _ask_label_studio if self.protocol == "label-studio" else _ask_cvat
        return _Stateless(self, scene, ask, base64.b64encode(_png(scene.pixels)).decode())

    def call(self, verb: str, path: str, content: Any = None) -> Any:
        """The service's answer as JSON."""
        return self._line.call(verb, path, content)


def _sent(model: ServiceModel, scene: Scene) -> str:
    """Give the service an image; the name it has there."""
    said = model.call("POST", "/image", _png(scene.pixels))
    if not isinstance(said, dict) or tuple(said.get("shape", ())) != tuple(scene.shape):
        raise _strange(model.address, f"it took the image for {_short(said)}")
    return str(said.get("image"))


@dataclass(slots=True)
class _Remote:
    """An image at a service that speaks our protocol; states stay there under names."""

    model: ServiceModel
    scene: Scene
    image: str

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        return [self._one(request) for request in requests]

    def _one(self, request: Request) -> MaskPrediction:
        prompts = json.loads(round_to_json(request.prompts) or "[]")
        asked = {"image": self.image, "prompts": prompts, "state": request.state}
        said = self.model.call("POST", "/predict", asked)
        if isinstance(said, dict) and said.get("gone") == "image":  # the service was restarted
            self.image = _sent(self.model, self.scene)
            said = self.model.call("POST", "/predict", {**asked, "image": self.image})
        mask = _mask_of_counts(self.model.address, said, self.scene.shape)
        return MaskPrediction(mask, float(said.get("score", 1.0)), said.get("state"))


@dataclass(frozen=True, slots=True)
class _Stateless:
    """An image that is sent with every request, as annotation tools do."""

    model: ServiceModel
    scene: Scene
    ask: Callable[..., MaskPrediction]
    image: str

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        return [self.ask(self.model, self.scene, self.image, request) for request in requests]


def _ask_label_studio(
    model: ServiceModel, scene: Scene, image: str, request: Request
) -> MaskPrediction:
    """Prompts as percentages of the image's sides; a brush mask in Label Studio's run lengths."""
    height, width = scene.shape
    drawn = [
        {
            **_label_studio_prompt(prompt, (height, width), model.label),
            "id": str(number),
            "to_name": "image",
            "image_rotation": 0,
            "original_width": width,
            "original_height": height,
            "is_positive": int(getattr(prompt, "positive", True)),
        }
        for number, prompt in enumerate(request.prompts)
    ]
    asked = {
        "tasks": [{"id": 1, "data": {"image": f"data:image/png;base64,{image}"}}],
        "project": "1.1",
        "label_config": _LABEL_CONFIG.replace("LABEL", model.label),
        "params": {"context": {"result": drawn}},
    }
    said = model.call("POST", "/predict", asked)
    try:
        brushes = [r for r in said["results"][0]["result"] if r["type"] == "brushlabels"]
        if not brushes:
            return MaskPrediction(Mask.empty(scene.shape), 0.0)
        flat = decoded_brush(bytes(brushes[0]["value"]["rle"]))
        array = flat.reshape(height, width, 4)[..., 3] > 0
        score = float(brushes[0].get("score") or said["results"][0].get("score") or 1.0)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise _strange(model.address, f"not the result of a brush ({_short(said)})") from error
    return MaskPrediction(Mask.of(array), score)


def _label_studio_prompt(prompt: Prompt, shape: tuple[int, int], label: str) -> dict[str, Any]:
    """A click or a box as a key point or rectangle; a click is sent as its pixel's centre.

    Backends cut off decimals, and then find the same pixel.
    """
    height, width = shape
    if isinstance(prompt, Click):
        y, x = prompt.point
        value = {"x": 100 * (x + 0.5) / width, "y": 100 * (y + 0.5) / height, "width": 0.3}
        kind = "keypointlabels"
    elif isinstance(prompt, Box):
        (y0, x0), (y1, x1) = prompt.low, prompt.high
        value = {"x": 100 * (x0 + 0.5) / width, "y": 100 * (y0 + 0.5) / height}
        value |= {"width": 100 * (x1 - x0) / width, "height": 100 * (y1 - y0) / height}
        kind = "rectanglelabels"
    else:
        raise BadInput(f"Label Studio's backends take no {type(prompt).__name__.lower()}")
    return {"type": kind, "from_name": kind, "value": {**value, kind: [label]}}


_LABEL_CONFIG = (
    '<View><Image name="image" value="$image"/>'
    '<BrushLabels name="tag" toName="image"><Label value="LABEL"/></BrushLabels>'
    '<KeyPointLabels name="keypointlabels" toName="image" smart="true"><Label value="LABEL"/>'
    '</KeyPointLabels><RectangleLabels name="rectanglelabels" toName="image" smart="true">'
    '<Label value="LABEL"/></RectangleLabels></View>'
)


def decoded_brush(packed: bytes) -> Bytes:
    """Label Studio's run lengths of an RGBA image: a header of widths, then runs and literals.

    Bits: 32 for the count, 5 for the word's width, 4 times 4 for the widths of lengths; then for
    each piece 1 bit whether it is a run, 2 for the width of its length, the length, the words.
    """
    bits = np.unpackbits(np.frombuffer(packed, np.uint8))
    place = 0

    def read(width: int) -> int:
        nonlocal place
        if place + width > len(bits):
            raise ValueError("run lengths end too early")
        value = int("".join(map(str, bits[place : place + width])), 2)
        place += width
        return value

    count, word = read(32), read(5) + 1
    if count > _MOST:
        raise ValueError("run lengths of too large an image")
    widths = [read(4) + 1 for _ in range(4)]
    out = np.zeros(count, np.uint8)
    at = 0
    while at < count:
        run = read(1)
        end = at + 1 + read(widths[read(2)])
        if run:
            out[at:end] = read(word)
        else:
            for i in range(at, min(end, count)):
                out[i] = read(word)
        at = end
    return out


def _ask_cvat(model: ServiceModel, scene: Scene, image: str, request: Request) -> MaskPrediction:
    """CVAT's interactors: points in pixels, a mask of rows or a polygon."""
    clicks = [p for p in request.prompts if isinstance(p, Click)]
    boxes = [p for p in request.prompts if isinstance(p, Box)]
    if len(clicks) + len(boxes) != len(request.prompts):
        raise BadInput("CVAT's interactors take clicks and boxes only")
    points = {True: [], False: []}  # type: dict[bool, list[list[float]]]
    for click in clicks:
        points[click.positive].append([click.point[1], click.point[0]])
    asked: dict[str, Any] = {
        "image": image,
        "pos_points": points[True],
        "neg_points": points[False],
    }
    if boxes:
        asked["obj_bbox"] = [list(boxes[-1].low[::-1]), list(boxes[-1].high[::-1])]
    said = model.call("POST", "", asked)
    if isinstance(said, dict) and "blob" in said:
        raise _strange(model.address, "it sends embeddings for a decoder in the browser, no masks")
    try:
        if isinstance(said, dict):
            array = np.asarray(said["mask"]) > 0
        else:
            array = _filled(np.asarray(said, float), scene.shape)
    except (KeyError, TypeError, ValueError) as error:
        raise _strange(model.address, f"neither a mask nor a polygon ({_short(said)})") from error
    if array.shape != tuple(scene.shape):
        raise _strange(model.address, f"a mask of {array.shape} for an image of {scene.shape}")
    return MaskPrediction(Mask.of(array))


def _filled(polygon: npt.NDArray[np.float64], shape: Sequence[int]) -> npt.NDArray[np.bool_]:
    import cv2

    canvas = np.zeros(tuple(shape), np.uint8)
    cv2.fillPoly(canvas, [polygon.reshape(-1, 2).round().astype(np.int32)], 1)
    return canvas > 0


def _mask_of_counts(address: str, said: Any, shape: Sequence[int]) -> Mask:
    if not isinstance(said, dict) or "mask" not in said:
        raise _strange(address, f"no mask ({_short(said)})")
    held = said["mask"]
    try:
        if tuple(held["size"]) != tuple(shape):
            raise _strange(address, f"a mask of {held['size']} for an image of {list(shape)}")
        return Mask.decoded(held["counts"], tuple(shape))
    except (BadInput, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise _strange(address, f"a mask that cannot be decoded ({_short(held)})") from error


@dataclass
class _Line:
    """One kept-open connection; opened again where the service closed it."""

    address: str
    timeout: float
    _open: list[http.client.HTTPConnection] = field(default_factory=list)  # one at most

    def call(self, verb: str, path: str, content: Any = None) -> Any:
        raw = isinstance(content, bytes)
        body = content if raw or content is None else json.dumps(content).encode()
        kind = "image/png" if raw else "application/json"
        try:
            status, answer = self._exchange(verb, path, body, kind)
        except TimeoutError as error:
            self._close()
            raise SegmeterError(
                f"the service at {self.address} gave no answer in {self.timeout:g} seconds"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            self._close()
            raise SegmeterError(f"the service at {self.address} is not reached: {error}") from error
        try:
            said = json.loads(answer)
        except ValueError as error:
            raise _strange(self.address, f"no JSON ({_short(answer[:80])})") from error
        if status >= 400 and not (isinstance(said, dict) and "gone" in said):
            told = said.get("error", said) if isinstance(said, dict) else said
            raise SegmeterError(f"the service at {self.address} failed ({status}): {_short(told)}")
        return said

    def _exchange(self, verb: str, path: str, body: bytes | None, kind: str) -> tuple[int, bytes]:
        for again in (True, False):
            reused = bool(self._open)
            line = self._connection()
            try:
                line.request(verb, self._base + path, body, {"Content-Type": kind})
                answer = line.getresponse()
                held = answer.read(_MOST + 1)
                if len(held) > _MOST:
                    raise http.client.HTTPException("an answer of more than 256 MB")
                return answer.status, held
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                self._close()
                if not (again and reused):  # a kept connection may have been closed meanwhile
                    raise
        raise AssertionError

    @property
    def _base(self) -> str:
        return quote(urlsplit(self.address).path.rstrip("/"))

    def _connection(self) -> http.client.HTTPConnection:
        if not self._open:
            parts = urlsplit(self.address)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise BadInput(f"'{self.address}' is no address of a service: http://host:port")
            secure = parts.scheme == "https"
            make = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            line = make(parts.hostname, parts.port, timeout=self.timeout)
            line.connect()
            line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.append(line)
        return self._open[0]

    def _close(self) -> None:
        while self._open:
            self._open.pop().close()


def _png(pixels: Bytes) -> bytes:
    import cv2

    made, packed = cv2.imencode(".png", np.ascontiguousarray(pixels[..., ::-1]))
    if not made:
        raise BadInput("an image could not be packed as PNG")
    return bytes(packed)


def _strange(address: str, what: str) -> SegmeterError:
    return SegmeterError(f"the service at {address} answered something strange: {what}")


def _short(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) < 100 else text[:97] + "..."
