"""Models behind HTTP: our own small protocol, and those of annotation tools.

    segmeter run noc --model http://127.0.0.1:8008 --dataset mini
    segmeter run noc --model "http://127.0.0.1:9090?protocol=label-studio" --dataset mini

A service that is down, slow, or returns an invalid response fails the current scene with one
sentence; the run continues. Times in rows include the network.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, Literal, get_args
from urllib.parse import quote, urlsplit
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, SegmeterError, check_choice
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard, Request
from segmeter.core.prompts import round_to_json
from segmeter.core.scenes import Scene

Protocol = Literal["segmeter", "label-studio", "cvat", "monai-label", "nninteractive"]
_OF_VOLUMES = ("monai-label", "nninteractive")
Bytes = npt.NDArray[np.uint8]

_MOST = 1 << 28
"""Maximum number of bytes of a response."""


class ServiceModel:
    """A model that a service runs.

    Parameters
    ----------
    address
        `http://host:port` and a path where the service has one.
    protocol
        `segmeter` (of `segmeter models serve`), `label-studio` or `cvat` for images;
        `monai-label` or `nninteractive` (its own server, or that of its 3D Slicer extension) for
        volumes.
    timeout
        Seconds to wait for a response.
    label
        For Label Studio and MONAI Label: the label that prompts are given for.
    model
        For MONAI Label: which of its models; by default its only interactive one.
    """

    def __init__(
        self,
        address: str,
        protocol: Protocol = "segmeter",
        timeout: float = 60.0,
        label: str = "object",
        model: str = "",
    ) -> None:
        check_choice("protocol", protocol, get_args(Protocol))
        self.address, self.protocol, self.label = address.rstrip("/"), protocol, label
        self.model = model
        self.line = Line(self.address, float(timeout))
        self.holds: object = None  # the encoded scene whose volume a server's session has
        self.session: Any = None  # with nnInteractive's own server

    @cached_property
    def card(self) -> ModelCard:
        """Metadata from the service, if its protocol provides any."""
        if self.protocol != "segmeter":
            from segmeter.models.service_protocols import monai_model

            abilities = {"click", "box", "scribble", "volume"}
            if self.protocol not in _OF_VOLUMES:
                abilities = {"click", "box"}
            elif self.protocol == "monai-label" and monai_model(self)[1]["type"] != "scribbles":
                abilities = {"click", "volume"}
            about = f"the service at {self.address} by the protocol of {self.protocol}"
            return ModelCard(self.address, about, frozenset(abilities), family="service")
        reply = self.line.call("GET", "/")
        try:
            takes = frozenset(str(word) for word in reply["takes"])
            summary, digest = reply["summary"], str(reply["fingerprint"])
        except (KeyError, TypeError, IndexError) as error:
            what = "its description lacks summary, takes or fingerprint"
            raise invalid(self.address, what) from error
        about = f"the service at {self.address}: {summary}"
        return ModelCard(self.address, about, takes, family="service", fingerprint=digest)

    def encode(self, scene: Scene) -> Any:
        from segmeter.models import service_protocols

        wanted = "volume" if self.protocol in _OF_VOLUMES else "image"
        if scene.header.kind != wanted:
            kind = scene.header.kind
            raise BadInput(f"'{self.address}' takes {wanted}s, and {scene.name} is of kind {kind}")
        if self.protocol == "segmeter":
            return _Remote(self, scene)
        return service_protocols.ENCODED[self.protocol](self, scene)


class _Remote:
    def __init__(self, model: ServiceModel, scene: Scene) -> None:
        self.model, self.scene = model, scene
        self.image = self._sent()

    def _sent(self) -> str:
        """Send the image to the service; returns the name it has there."""
        reply = self.model.line.call("POST", "/image", png(self.scene.pixels))
        if not isinstance(reply, dict) or reply.get("shape") != list(self.scene.shape):
            raise invalid(self.model.address, f"it took the image for {short(reply)}")
        return str(reply.get("image"))

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        return [self._one(request) for request in requests]

    def _one(self, request: Request) -> MaskPrediction:
        held = json.loads(round_to_json(request.prompts) or "[]")
        prompts = held if isinstance(held, list) else [held]
        asked = {"image": self.image, "prompts": prompts, "state": request.state}
        reply = self.model.line.call("POST", "/predict", asked)
        if isinstance(reply, dict) and reply.get("gone") == "image":  # the service was restarted
            self.image = self._sent()
            reply = self.model.line.call("POST", "/predict", {**asked, "image": self.image})
        address, shape = self.model.address, tuple(self.scene.shape)
        if not isinstance(reply, dict) or "mask" not in reply:
            raise invalid(address, f"no mask ({short(reply)})")
        held = reply["mask"]
        try:
            if tuple(held["size"]) != shape:
                size = short(held["size"])
                raise invalid(address, f"a mask of {size} for an image of {list(shape)}")
            mask = Mask.decoded(held["counts"], shape)
        except (BadInput, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise invalid(address, f"a mask that cannot be decoded ({short(held)})") from error
        return MaskPrediction(mask, score_of(address, reply.get("score", 1.0)), reply.get("state"))


def score_of(address: str, value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value):
        raise invalid(address, f"a score that is not a number ({short(value)})")
    return float(value)


@dataclass(frozen=True, slots=True)
class Form:
    """A form with texts and files, packed; `kind` is its content type."""

    kind: str
    body: bytes

    @classmethod
    def of(cls, fields: Mapping[str, str], files: Mapping[str, tuple[str, bytes]]) -> Form:
        limit = uuid4().hex
        parts = [(f'name="{name}"', text.encode()) for name, text in fields.items()]
        parts += [(f'name="{n}"; filename="{file}"', held) for n, (file, held) in files.items()]
        body = b"".join(
            f"--{limit}\r\nContent-Disposition: form-data; {about}\r\n\r\n".encode()
            + held
            + b"\r\n"
            for about, held in parts
        )
        return cls(f"multipart/form-data; boundary={limit}", body + f"--{limit}--\r\n".encode())


@dataclass
class Line:
    """One kept-open connection; opened again where the service closed it."""

    address: str
    timeout: float

    @cached_property
    def _connection(self) -> http.client.HTTPConnection:
        plain, secure = http.client.HTTPConnection, http.client.HTTPSConnection
        kinds: dict[str, type[http.client.HTTPConnection]] = {"http": plain, "https": secure}
        try:
            parts = urlsplit(self.address)
            make = kinds[parts.scheme if parts.hostname else ""]
            return make(str(parts.hostname), parts.port, timeout=self.timeout)
        except (KeyError, ValueError, http.client.InvalidURL) as error:
            raise BadInput(
                f"'{self.address}' is not an address of a service: http://host:port"
            ) from error

    def call(self, verb: str, path: str, content: Any = None) -> Any:
        status, answer = self.fetch(verb, path, content)
        try:
            reply = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise invalid(self.address, f"no JSON ({short(answer[:80])})") from error
        if status >= 400 and not (isinstance(reply, dict) and "gone" in reply):
            value = reply.get("error", reply) if isinstance(reply, dict) else reply
            raise SegmeterError(f"the service at {self.address} failed ({status}): {short(value)}")
        return reply

    def fetch(self, verb: str, path: str, content: Any = None) -> tuple[int, bytes]:
        """Status and body of the response; `content` is a PNG file, a form or is sent as JSON."""
        kind, body = "application/json", None
        if isinstance(content, Form):
            kind, body = content.kind, content.body
        elif isinstance(content, bytes):
            kind, body = "image/png", content
        elif content is not None:
            body = json.dumps(content).encode()
        line, base = self._connection, quote(urlsplit(self.address).path.rstrip("/"))
        reused = line.sock is not None
        try:
            line.request(verb, base + path, body, {"Content-Type": kind})
            answer = line.getresponse()
            held = answer.read(_MOST + 1)
            if len(held) > _MOST:
                raise http.client.HTTPException("an answer of more than 256 MB")
        except (OSError, http.client.HTTPException) as error:
            line.close()
            if reused and isinstance(error, ConnectionError):  # it may have been closed meanwhile
                return self.fetch(verb, path, content)
            reason = f"cannot be reached: {' '.join(str(error).split())}"
            if isinstance(error, TimeoutError):
                reason = f"gave no answer in {self.timeout:g} seconds"
            raise SegmeterError(f"the service at {self.address} {reason}") from error
        return answer.status, held


def png(pixels: Bytes) -> bytes:
    import cv2

    made, packed = cv2.imencode(".png", np.ascontiguousarray(pixels[..., ::-1]))
    if not made:
        raise BadInput("an image could not be packed as PNG")
    return bytes(packed)


def invalid(address: str, what: str) -> SegmeterError:
    return SegmeterError(f"the service at {address} returned an invalid response: {what}")


def short(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) < 100 else text[:97] + "..."
