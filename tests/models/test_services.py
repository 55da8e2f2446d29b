"""Models behind HTTP, in real processes on the loopback: same rows, and one sentence if broken."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import segmeter
from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound, SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.models import Request
from segmeter.core.prompts import Box, Click, Scribble
from segmeter.core.received_runs import received
from segmeter.core.scenes import Image, SceneHeader, Volume
from segmeter.models.conformance import check, drawn_scene
from segmeter.models.service_protocols import decoded_brush
from segmeter.models.services import ServiceModel

from .volume_services import painted

HERE = Path(__file__).parent
ROWS = """select scene, target, protocol, round, prompt, iou from rows order by all"""


@contextmanager
def process(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A service as a process of its own, and its address."""
    started = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert started.stdout is not None
        line = started.stdout.readline()
        port = next(
            w
            for w in line.replace(";", " ").replace(":", " ").split()
            if w.isdigit() and len(w) > 3
        )
        yield started, f"http://127.0.0.1:{port}"
    finally:
        started.kill()
        started.wait()


def served(model: str, port: int = 0) -> Any:
    return process("-m", "segmeter", "models", "serve", "--model", model, "--port", str(port))


def run(model: str, out: Path) -> list[dict[str, Any]]:
    done = segmeter.evaluate(model, "drawn", out=out, limit=3, rounds=4)
    assert done.errors() == []
    return done.sql(ROWS).to_pylist()


def test_our_service_gives_the_rows_of_the_library(tmp_path: Path) -> None:
    with served("disc?radius=9") as (_, address):
        model = ServiceModel(address)
        assert model.card.family == "service"
        assert check(model, drawn_scene()) == []
        assert run(address, tmp_path / "service") == run("disc?radius=9", tmp_path / "library")
        assert segmeter.check(address).kind == "model"


def test_a_model_that_fails_in_our_service_states_its_error(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "def broken(image, clicks):\n    raise RuntimeError('CUDA out of memory')\n"
    )
    with served(f"{tmp_path}/own.py:broken") as (_, address):
        encoded = ServiceModel(address).encode(drawn_scene())
        with pytest.raises(SegmeterError, match=r"failed \(500\): .*RuntimeError: CUDA out of mem"):
            encoded.predict([Request((Click((40, 60)),))])[0].mask()


def test_a_label_studio_backend_gives_the_rows_of_the_library(tmp_path: Path) -> None:
    with process(str(HERE / "label_studio_backend.py"), "disc?radius=7") as (_, address):
        there = run(f"{address}?protocol=label-studio", tmp_path / "service")
        assert there == run("disc?radius=7", tmp_path / "library")
        encoded = ServiceModel(address, "label-studio").encode(drawn_scene())
        (found,) = encoded.predict([Request((Box((10, 12), (30, 40)),))])
        own = catalogue.models.make("disc?radius=7").encode(drawn_scene())
        assert found.mask() == own.predict([Request((Box((10, 12), (30, 40)),))])[0].mask()


@pytest.mark.parametrize("protocol", ["monai-label", "nninteractive"])
def test_servers_of_volumes_give_the_rows_of_the_library(tmp_path: Path, protocol: str) -> None:
    asked: dict[str, Any] = {"benchmark": "volumes", "limit": 1, "rounds": 3}
    asked["users"] = ["centre-click" if protocol == "monai-label" else "cvpr25-clicks"]
    stand_in = str(HERE / "volume_services.py")
    with process(stand_in, protocol) as (_, address):
        name = f"{address}?protocol={protocol}"
        there = segmeter.evaluate(name, "mini-volumes", out=tmp_path / "service", **asked)
        assert there.errors() == []
    here = segmeter.evaluate(f"{stand_in}:ball", "mini-volumes", out=tmp_path / "here", **asked)
    query = "select scene, target, protocol, round, prompt, dice from rows order by all"
    assert there.sql(query).num_rows
    assert there.sql(query) == here.sql(query)


@pytest.mark.parametrize("protocol", ["monai-label", "nninteractive"])
def test_a_restarted_server_of_volumes_is_sent_the_volume_again(protocol: str) -> None:
    stand_in = str(HERE / "volume_services.py")
    volume = small_volume()
    request = Request((Click((3, 4, 5)), Click((3, 0, 5), False)))
    with process(stand_in, protocol) as (_, address):
        encoded = ServiceModel(address, protocol).encode(volume)  # type: ignore[arg-type]
        (first,) = encoded.predict([request])
    with process(stand_in, protocol, address.rpartition(":")[2]):
        if protocol == "nninteractive":  # it cannot be seen that a server lost its session
            with pytest.raises(SegmeterError, match=r"not a mask of .4, 5, 6. .*No image uploaded"):
                encoded.predict([Request((*request.prompts, Click((3, 3, 5))))])
        (again,) = encoded.predict([request])
    assert again.mask() == first.mask()
    assert again.mask().area > 0


def small_volume(name: str = "1") -> Volume:
    voxels = np.arange(4 * 5 * 6, dtype=np.float32).reshape(4, 5, 6)
    header = SceneHeader("volume", (4, 5, 6), spacing_mm=(3.0, 1.0, 2.0))
    return Volume("mine", name, voxels if name == "1" else voxels[::-1], [], header=header)


@pytest.mark.parametrize("name", ["graphcut", "labelled"])
def test_a_model_of_scribbles_receives_strokes_and_a_box(name: str) -> None:
    with process(str(HERE / "volume_services.py"), "monai-label") as (_, address):
        model = ServiceModel(address, "monai-label", model=name)
        assert model.card.abilities == {"click", "box", "scribble", "volume"}
        assert ServiceModel(address, "monai-label").card.abilities == {"click", "volume"}
        stroke = Scribble(((1, 0, 1), (1, 0, 4)), True)
        against = Click((1, 0, 2), False)
        encoded = model.encode(small_volume())
        found = encoded.predict(
            [Request((stroke, against)), Request((Box((0, 0, 3), (3, 4, 5)), stroke))]
        )
        assert np.argwhere(found[0].mask().dense()).tolist() == [[1, 0, 1], [1, 0, 3], [1, 0, 4]]
        assert np.argwhere(found[1].mask().dense()).tolist() == [[1, 0, 3], [1, 0, 4]]
        with pytest.raises(BadInput, match="'deepedit' takes clicks only"):
            ServiceModel(address, "monai-label").encode(small_volume()).predict(
                [Request((stroke,))]
            )


def test_two_users_of_a_server_with_one_session_take_turns() -> None:
    prompts = (Click((3, 4, 5)), Click((3, 0, 5), False))
    with process(str(HERE / "volume_services.py"), "nninteractive") as (_, address):
        users = [ServiceModel(address, "nninteractive").encode(small_volume(name)) for name in "12"]
        alone = [user.predict([Request(prompts)])[0].mask() for user in users]
        assert alone[0] != alone[1]
        for end in (1, 2):
            turns = [user.predict([Request(prompts[:end])])[0].mask() for user in users]
        assert turns == alone


REMOTE = """
import sys

sys.path.insert(0, {here!r})
from volume_services import painted
from segmeter.core.prompts import Click


class nnInteractiveRemoteInferenceSession:
    supported_interactions, preferred_scribble_thickness = {{}}, (2, 2, 2)
    opened, fails = [], False

    def __init__(self, server_url, api_key=None, read_timeout=60.0):
        self.opened.append(server_url)
        if self.fails:
            raise RuntimeError("server is at capacity (1 sessions)")

    def set_image(self, image):
        self.image, self.prompts = image[0], []

    def set_target_buffer(self, target_buffer):
        self.target_buffer = target_buffer

    def reset_interactions(self):
        self.prompts = []

    def add_point_interaction(self, coordinates, include_interaction):
        self.prompts.append(Click(coordinates, include_interaction))
        self.target_buffer[:] = painted(self.image, self.prompts)
"""


def test_nninteractives_server_is_used_through_its_client(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Odd.answers = {"/healthz": {"ok": True}}
    request = Request((Click((3, 4, 5)), Click((3, 0, 5), False)))
    model = ServiceModel(odd, "nninteractive")
    for name in [name for name in sys.modules if name.partition(".")[0] == "nnInteractive"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nnInteractive", None)
    with pytest.raises(NotFound, match=r"needs its client: pip install nninteractive-client"):
        model.encode(small_volume()).predict([request])
    monkeypatch.delitem(sys.modules, "nnInteractive")
    package = tmp_path / "nnInteractive" / "inference" / "remote"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(REMOTE.format(here=str(HERE)))
    for parent in (package.parent, package.parent.parent):
        (parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    encoded = model.encode(small_volume())
    (found,) = encoded.predict([request])
    assert np.array_equal(found.mask().dense(), painted(small_volume().voxels, request.prompts) > 0)
    remote: Any = sys.modules["nnInteractive.inference.remote"].nnInteractiveRemoteInferenceSession
    remote.fails = True
    model.session = model.holds = None
    with pytest.raises(SegmeterError, match=rf"the service at {odd} failed: server is at capacity"):
        encoded.predict([request])
    remote.fails = False
    assert encoded.predict([request])[0].mask() == found.mask()
    assert remote.opened == [odd] * 3


def test_one_of_several_models_of_a_server_is_chosen_by_name(odd: str) -> None:
    Odd.answers = {"/info/": {"models": {"a": {"type": "deepgrow"}, "b": {"type": "deepedit"}}}}
    header = SceneHeader("volume", (2, 3, 4))
    volume = Volume("mine", "1", np.zeros((2, 3, 4), np.float32), [], header=header)
    with pytest.raises(BadInput, match=r"has the models a, b; choose one: .*&model=NAME"):
        ServiceModel(odd, "monai-label").encode(volume)
    with pytest.raises(BadInput, match=r"takes volumes, and .* is of kind image"):
        ServiceModel(odd, "monai-label").encode(drawn_scene())


DYING = """
import os
from pathlib import Path
from segmeter.core import catalogue

DISC = catalogue.models.make("disc?radius=7")


class Dying:
    \"\"\"Ends its process at the second image, unless a file says that it was mended.\"\"\"

    card, seen = DISC.card, set()

    def encode(self, scene):
        self.seen.add(scene.pixels.tobytes())
        if len(self.seen) == 2 and not Path(__file__).with_name("mended").exists():
            os._exit(9)
        return DISC.encode(scene)
"""


@pytest.mark.parametrize("protocol", ["segmeter", "label-studio"])
def test_a_run_is_resumed_after_its_service_was_killed(tmp_path: Path, protocol: str) -> None:
    (tmp_path / "dying.py").write_text(DYING)
    model = f"{tmp_path / 'dying.py'}:Dying"
    words: tuple[str, ...] = (str(HERE / "label_studio_backend.py"), model)
    if protocol == "segmeter":
        words = ("-m", "segmeter", "models", "serve", "--model", model, "--port")
    asked: dict[str, Any] = {"out": tmp_path / "run", "limit": 3, "rounds": 3}
    with process(*words, "0") as (started, address):
        name = f"{address}?protocol={protocol}"
        with pytest.warns(UserWarning, match="2 jobs failed"):
            broken = segmeter.evaluate(name, "mini", **asked)
        assert started.wait(10) == 9
        assert all(
            f"the service at {address} cannot be reached" in e["error"] for e in broken.errors()
        )
        assert broken.sql("select count(distinct scene) as n from rows").to_pylist() == [{"n": 1}]
    (tmp_path / "mended").touch()
    with process(*words, address.rpartition(":")[2]) as (_, again):
        assert again == address
        whole = segmeter.evaluate(name, "mini", **asked)
        assert whole.errors() == []
    plain = segmeter.evaluate("disc?radius=7", "mini", **{**asked, "out": tmp_path / "plain"})
    assert whole.sql(ROWS).to_pylist() == plain.sql(ROWS).to_pylist()


class Odd(BaseHTTPRequestHandler):
    """Answers what it is told to."""

    answers: ClassVar[dict[str, Any]] = {}

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self.answers[self.path]
        if answer == "hang":
            time.sleep(3)
            return
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def odd() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Odd)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("image", "predict", "sentence"),
    [
        ({"image": "a", "shape": [9, 9]}, {}, "it took the image for"),
        (b"<html>", {}, "no JSON"),
        (None, {"score": 1}, "no mask"),
        (None, {"mask": {"size": [3, 3], "counts": "1"}}, r"a mask of \[3, 3\] for an image"),
        (None, {"mask": {"size": [20, 30], "counts": "zz%"}}, "cannot be decoded"),
        (None, "hang", "gave no answer in 0.5 seconds"),
    ],
)
def test_invalid_responses_are_reported_in_one_sentence(
    odd: str, image: Any, predict: Any, sentence: str
) -> None:
    scene = Image("drawn", "grey", np.full((20, 30, 3), 99, np.uint8), [])
    Odd.answers = {"/image": image or {"image": "a", "shape": [20, 30]}, "/predict": predict}
    model = ServiceModel(odd, timeout=0.5)
    with pytest.raises(SegmeterError, match=sentence) as refusal:
        model.encode(scene).predict([Request((Click((3, 4), True),))])
    assert odd in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_cvats_functions_answer_with_rows_or_a_polygon(odd: str) -> None:
    scene = Image("drawn", "grey", np.full((20, 30, 3), 99, np.uint8), [])
    encoded = ServiceModel(odd, "cvat").encode(scene)
    request = Request((Click((3, 4), True), Click((9, 9), False)))
    rows = np.zeros((20, 30), int)
    rows[2:6, 3:8] = 255
    Odd.answers = {"": {"mask": rows.tolist()}, "/": {"mask": rows.tolist()}}
    assert encoded.predict([request])[0].mask() == Mask.of(rows > 0)
    Odd.answers = {"/": [[3, 2], [7, 2], [7, 5], [3, 5]]}
    assert encoded.predict([request])[0].mask() == Mask.of(rows > 0)
    Odd.answers = {"/": {"blob": "AAAA"}}
    with pytest.raises(SegmeterError, match="embeddings for a decoder in the browser"):
        encoded.predict([request])


def test_brush_masks_are_read_with_runs_and_literals() -> None:
    bits = f"{6:032b}" + f"{7:05b}" + "".join(f"{w - 1:04b}" for w in (1, 2, 4, 8))
    bits += "1" + "01" + f"{2:02b}" + f"{255:08b}"  # a run of three
    bits += "0" + "10" + f"{2:04b}" + f"{1:08b}{2:08b}{3:08b}"  # three by themselves
    bits += "0" * (-len(bits) % 8)
    packed = bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))
    assert decoded_brush(packed, 6).tolist() == [255, 255, 255, 1, 2, 3]
    with pytest.raises(ValueError, match="end too early"):
        decoded_brush(packed[:-2], 6)
    with pytest.raises(ValueError, match="too large an image"):
        decoded_brush(packed, 5)


def test_addresses_and_protocols_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadInput, match="no protocol 'soap'; it is segmeter, label-studio"):
        catalogue.models.make("http://127.0.0.1:1?protocol=soap")
    with pytest.raises(SegmeterError, match="cannot be reached"):
        catalogue.models.make("http://127.0.0.1:1").encode(drawn_scene())
    with received(), pytest.raises(NotFound, match="reading a run does not open"):
        catalogue.models.make("http://127.0.0.1:1")


@pytest.mark.parametrize("address", ["http://[::1", "http://h:99999", "http://h:x", "http://a b"])
def test_invalid_addresses_are_refused_in_one_sentence(address: str) -> None:
    with pytest.raises(BadInput, match="is not an address of a service"):
        _ = ServiceModel(address).card


def test_a_port_that_is_taken_is_refused_by_name() -> None:
    with segmeter.serve("disc", port=0) as server:
        port = server.server_address[1]
        with pytest.raises(BadInput, match=rf":{port} cannot be used .*; choose another --port"):
            segmeter.serve("disc", port=int(port))
