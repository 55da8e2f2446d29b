"""Protocols of annotation tools: Label Studio, CVAT, MONAI Label, nnInteractive's server."""

from __future__ import annotations

import base64
import gzip
import importlib
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, partialmethod
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound, SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, Request
from segmeter.core.prompts import Box, Click, Prompt, Scribble, points_of
from segmeter.core.scenes import Scene, Volume
from segmeter.models.adapters import OneByOne, as_sam
from segmeter.models.services import Form, ServiceModel, invalid, png, score_of, short
from segmeter.models.volumes.nninteractive import NnInteractiveEncodedScene, drawn
from segmeter.models.weights import DAMAGED
from segmeter.runtime.remote_files import alone, cache_folder

Bytes = npt.NDArray[np.uint8]
Files = Mapping[str, tuple[str, bytes]]


def _stateless(
    predict: Callable[..., MaskPrediction], model: ServiceModel, scene: Scene
) -> OneByOne:
    """The image is sent with every request, as annotation tools do."""
    return OneByOne(partial(predict, model, scene, base64.b64encode(png(scene.pixels)).decode()))


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
    reply = model.line.call("POST", "/predict", asked)
    try:
        brushes = [r for r in reply["results"][0]["result"] if r["type"] == "brushlabels"]
        if not brushes:
            return MaskPrediction(Mask.empty(scene.shape), 0.0)
        packed = brushes[0]["value"]["rle"]
        if not isinstance(packed, list):
            raise TypeError("run lengths are a list")
        flat = decoded_brush(bytes(packed), 4 * height * width)
        array = flat.reshape(height, width, 4)[..., 3] > 0
        score = brushes[0].get("score") or reply["results"][0].get("score") or 1.0
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise invalid(model.address, f"not the result of a brush ({short(reply)})") from error
    return MaskPrediction(Mask.of(array), score_of(model.address, score))


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


def decoded_brush(packed: bytes, most: int) -> Bytes:
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
    if count > most:
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
    points, labels, box = as_sam(request.prompts, "a CVAT interactor")
    signed = list(zip(points, labels, strict=True))
    asked: dict[str, Any] = {"image": image}
    asked["pos_points"] = [point for point, label in signed if label]
    asked["neg_points"] = [point for point, label in signed if not label]
    if box:
        asked["obj_bbox"] = [box[:2], box[2:]]
    reply = model.line.call("POST", "", asked)
    if isinstance(reply, dict) and "blob" in reply:
        raise invalid(model.address, "it sends embeddings for a decoder in the browser, no masks")
    try:
        if isinstance(reply, dict):
            array = np.asarray(reply["mask"]) > 0
        else:
            array = _filled(np.asarray(reply, float), scene.shape)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise invalid(model.address, f"neither a mask nor a polygon ({short(reply)})") from error
    if array.shape != tuple(scene.shape):
        raise invalid(model.address, f"a mask of {array.shape} for an image of {scene.shape}")
    return MaskPrediction(Mask.of(array))


def _filled(polygon: npt.NDArray[np.float64], shape: Sequence[int]) -> npt.NDArray[np.bool_]:
    import cv2

    if not polygon.size or not (np.abs(polygon) < 1 << 15).all():
        raise ValueError("a polygon has points in the image")
    canvas = np.zeros(tuple(shape), np.uint8)
    cv2.fillPoly(canvas, [polygon.reshape(-1, 2).round().astype(np.int32)], 1)
    return canvas > 0


class MonaiLabelScene:
    """A volume in a session of MONAI Label.

    Every request has all prompts: points `(x, y, z)` for DeepGrow and DeepEdit; for a model of
    scribbles a label map and the last box as its region of interest. The map's values follow on the
    model's labels: background, then foreground (2 and 3 for a model without labels).
    """

    def __init__(self, model: ServiceModel, scene: Scene) -> None:
        self.model, self.scene = model, scene
        self.name, about = monai_model(model)
        self.kind, labels = str(about["type"]), about.get("labels")
        self.background = 1 + len(labels) if isinstance(labels, list | dict) and labels else 2
        self.session = self._sent()

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        return [MaskPrediction(self._one(request)) for request in requests]

    def _sent(self) -> str:
        """Send the volume to the service; returns the name of its session there."""
        file = ("image.nii.gz", self._nifti(np.asarray(self.scene.pixels, np.float32)))
        reply = self.model.line.call("PUT", "/session/", Form.of({}, {"files": file}))
        if not isinstance(reply, dict) or not isinstance(reply.get("session_id"), str):
            raise invalid(self.model.address, f"no session ({short(reply)})")
        return str(reply["session_id"])

    def _nifti(self, values: npt.NDArray[Any]) -> bytes:
        spacing = self.scene.header.spacing_mm or (1.0, 1.0, 1.0)
        image = _nibabel().Nifti1Image(values.T, np.diag([*spacing[::-1], 1.0]))
        return gzip.compress(image.to_bytes(), 1)

    def _one(self, request: Request) -> Mask:
        asking = self._scribbled if self.kind == "scribbles" else self._pointed
        asked, files = asking(request)
        params = json.dumps(asked | {"result_extension": ".nii.gz", "result_dtype": "uint8"})
        for again in (True, False):
            path = f"/infer/{quote(self.name)}?session_id={quote(self.session)}&output=image"
            status, answer = self.model.line.fetch("POST", path, Form.of({"params": params}, files))
            if status < 400 or not again:
                break
            self.session = self._sent()  # sessions expire, and end with the service
        if status >= 400:
            raise SegmeterError(
                f"the service at {self.model.address} failed ({status}): {short(answer[:80])}"
            )
        return self._mask(answer)

    def _pointed(self, request: Request) -> tuple[dict[str, Any], Files]:
        points: dict[bool, list[list[int]]] = {True: [], False: []}
        for prompt in request.prompts:
            if not isinstance(prompt, Click):
                raise BadInput(f"MONAI Label's model '{self.name}' takes clicks only")
            points[prompt.positive].append([round(c) for c in prompt.point[::-1]])
        asked: dict[str, Any] = {"foreground": points[True], "background": points[False]}
        return asked | {"label": self.model.label, self.model.label: points[True]}, {}

    def _scribbled(self, request: Request) -> tuple[dict[str, Any], Files]:
        shape = tuple(self.scene.shape)
        strokes = np.zeros(shape, np.uint8)
        asked: dict[str, Any] = {}
        for prompt in request.prompts:
            if isinstance(prompt, Box):
                ends = zip(prompt.low[::-1], prompt.high[::-1], strict=True)
                asked["roi"] = [end for a, b in ends for end in (round(a), round(b) + 1)]
            elif isinstance(prompt, Click | Scribble):
                stroke = drawn(points_of(prompt), shape, (1, 1, 1))
                strokes[stroke > 0] = self.background + prompt.positive
            else:
                kind = type(prompt).__name__.lower()
                raise BadInput(f"MONAI Label's model '{self.name}' takes no {kind}")
        return asked, {"label": ("scribbles.nii.gz", self._nifti(strokes))}

    def _mask(self, packed: bytes) -> Mask:
        """The label map in a NIfTI file; all non-zero values are foreground."""
        shape = tuple(self.scene.shape)
        most = 8 * int(np.prod(shape)) + (1 << 16)
        nibabel = _nibabel()
        faults = (
            nibabel.filebasedimages.ImageFileError,
            nibabel.spatialimages.HeaderDataError,
            nibabel.wrapstruct.WrapStructError,
        )
        try:
            image = nibabel.Nifti1Image.from_bytes(_unzipped(packed, most))
            if tuple(image.shape) != shape[::-1]:
                raise ValueError(f"a label map of {image.shape} for a volume of {shape[::-1]}")
            return Mask.of(np.asarray(image.dataobj).T != 0)
        except (*faults, *DAMAGED, zlib.error) as error:
            reason = short(str(error))
            raise invalid(self.model.address, f"not a NIfTI label map ({reason})") from error


def monai_model(model: ServiceModel) -> tuple[str, Mapping[str, Any]]:
    """Name and description of a MONAI Label model: the requested or the interactive one."""
    reply = model.line.call("GET", "/info/")
    try:
        kinds = {str(name): about["type"] for name, about in reply["models"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise invalid(model.address, f"no list of models ({short(reply)})") from error
    found = [name for name, kind in kinds.items() if kind in ("deepgrow", "deepedit")]
    chosen = [model.model] if model.model else found
    if len(chosen) != 1 or chosen[0] not in kinds:
        raise BadInput(
            f"the service at {model.address} has the models {', '.join(sorted(kinds))}; "
            f"choose one: {model.address}?protocol=monai-label&model=NAME"
        )
    return chosen[0], reply["models"][chosen[0]]


class NnInteractiveClient:
    """A session on nnInteractive's own server, by its package `nninteractive-client`."""

    def __init__(self, model: ServiceModel) -> None:
        self.service = model

    @property
    def session(self) -> Any:
        if self.service.session is None:
            try:
                package: Any = importlib.import_module("nnInteractive.inference.remote")
            except ImportError as error:
                raise NotFound(
                    f"the service at {self.service.address} is nnInteractive's own server and "
                    "needs its client: pip install nninteractive-client"
                ) from error
            self.service.session = package.nnInteractiveRemoteInferenceSession(
                self.service.address, read_timeout=self.service.line.timeout
            )
        return self.service.session

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Errors of the client in one sentence; the next request opens another session."""
        import httpx

        try:
            yield
        except (httpx.HTTPError, RuntimeError, KeyError, *DAMAGED) as error:
            self.service.session = self.service.holds = None
            raise SegmeterError(
                f"the service at {self.service.address} failed: {' '.join(str(error).split())}"
            ) from error


class NnInteractiveServer:
    """The session of nnInteractive's server for 3D Slicer, as its Python package has it.

    The server holds one volume and one session for all clients. Processes of this machine take
    turns, and send their volume again after another process had its turn.
    """

    def __init__(self, model: ServiceModel) -> None:
        self.supported_interactions: Mapping[str, bool] = {"bbox3d": False}
        self.preferred_scribble_thickness: Sequence[float] = (2, 2, 2)
        self.interactions_storage = "tensor"
        self.service = model
        self._target: Any = np.zeros((0, 0, 0), np.uint8)

    @property
    def session(self) -> NnInteractiveServer:
        return self

    @contextmanager
    def alone(self) -> Iterator[None]:
        name = sha256(self.service.address.encode()).hexdigest()[:16]
        mine = f"{os.getpid()} {id(self.service)}"
        with alone(cache_folder("weights", f"server-{name}.lock")) as file:
            file.seek(0)
            if file.read() != mine:
                self.service.holds = None
            file.truncate(0)
            file.write(mine)
            file.flush()
            yield

    def set_image(self, image: npt.NDArray[Any]) -> None:
        self._upload("/upload_image", "volume.npy", _npy(image[0]))

    def set_target_buffer(self, target_buffer: Any) -> None:
        self._target = target_buffer

    def reset_interactions(self) -> None:
        self.add_initial_seg_interaction(np.zeros(self._target.shape, np.uint8))

    def add_initial_seg_interaction(self, initial_seg: Any) -> None:
        self._upload("/upload_segment", "segment.npy.gz", gzip.compress(_npy(initial_seg), 1))
        self._target[:] = initial_seg

    def add_point_interaction(self, coordinates: Any, include_interaction: bool) -> None:
        asked = {"voxel_coord": list(coordinates), "positive_click": include_interaction}
        self._predicted("/add_point_interaction", asked)

    def add_bbox_interaction(self, bbox_coords: Any, include_interaction: bool) -> None:
        low, high = ([int(side[end]) for side in bbox_coords] for end in (0, 1))
        asked = {"outer_point_one": low, "outer_point_two": high}
        self._predicted("/add_bbox_interaction", asked | {"positive_click": include_interaction})

    def _drawn(self, path: str, mask: Any, positive: bool) -> None:
        file = ("mask.npy.gz", gzip.compress(_npy(mask), 1))
        self._predicted(path, Form.of({"positive_click": str(positive).lower()}, {"file": file}))

    add_lasso_interaction = partialmethod(_drawn, "/add_lasso_interaction")
    add_scribble_interaction = partialmethod(_drawn, "/add_scribble_interaction")

    def _upload(self, path: str, name: str, packed: bytes) -> None:
        reply = self.service.line.call("POST", path, Form.of({}, {"file": (name, packed)}))
        if not isinstance(reply, dict) or reply.get("status") != "ok":
            raise invalid(self.service.address, f"{path} was not accepted ({short(reply)})")

    def _predicted(self, path: str, content: Any) -> None:
        """Read one bit per voxel, gzipped, into the target buffer."""
        status, answer = self.service.line.fetch("POST", path, content)
        voxels = self._target.size
        try:
            bits = _unzipped(answer, (voxels + 7) // 8)
            flat = np.unpackbits(np.frombuffer(bits, np.uint8))[:voxels]
            self._target[:] = flat.reshape(self._target.shape)
        except (ValueError, zlib.error) as error:
            self.service.holds = None
            what = f"not a mask of {self._target.shape} ({status}: {short(answer[:80])})"
            raise invalid(self.service.address, what) from error


def _on_server(model: ServiceModel, scene: Scene) -> NnInteractiveEncodedScene:
    assert isinstance(scene, Volume)
    status, answer = model.line.fetch("GET", "/healthz")
    own = status == 200 and b"".join(answer.split()) == b'{"ok":true}'
    session = NnInteractiveClient(model) if own else NnInteractiveServer(model)
    return NnInteractiveEncodedScene(session, scene)


def _unzipped(packed: bytes, most: int) -> bytes:
    """The content of a gzip file, which may not be larger than `most` bytes."""
    reader = zlib.decompressobj(wbits=31)
    content = reader.decompress(packed, most + 1)
    if len(content) > most or not reader.eof:
        raise ValueError("cut short or larger than it may be")
    return content


def _npy(values: npt.NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.save(out, values)
    return out.getvalue()


def _nibabel() -> Any:
    try:
        import nibabel
    except ImportError as error:
        raise NotFound("MONAI Label sends NIfTI files: pip install 'segmeter[volumes]'") from error
    return nibabel


ENCODED: Mapping[str, Callable[[ServiceModel, Scene], Any]] = {
    "label-studio": partial(_stateless, _ask_label_studio),
    "cvat": partial(_stateless, _ask_cvat),
    "monai-label": MonaiLabelScene,
    "nninteractive": _on_server,
}
"""How a scene is encoded by a protocol."""
