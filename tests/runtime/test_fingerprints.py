"""Fingerprints: every change of a model of the user's own is noticed, and nothing else is."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import segmeter
from segmeter.core.errors import RunConflict
from segmeter.runtime.fingerprints import (
    UNKNOWN,
    fingerprinted,
    object_fingerprint,
    source_fingerprint,
)


def above(threshold: float) -> Callable[[Any, Any], Any]:
    return lambda image, clicks: image[..., 0] > threshold


class Attribute:
    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def __call__(self, image: Any, clicks: Any) -> Any:
        return image[..., 0] > self.threshold


LIMIT = [100]


def by_global(image: Any, clicks: Any) -> Any:
    return image[..., 0] > LIMIT[0]


@pytest.mark.parametrize(
    "make",
    [
        above,
        Attribute,
        lambda value: functools.partial(by_global, value),
        lambda value: Attribute(value).__call__,
        lambda value: {"nested": [np.full(3, value)]},
        lambda value: re.compile(str(value)),
        lambda value: np.random.default_rng(int(value)),
    ],
)
def test_equal_things_have_one_fingerprint_and_others_another(make: Callable[..., Any]) -> None:
    assert object_fingerprint(make(1.0)) == object_fingerprint(make(1.0))
    assert object_fingerprint(make(1.0)) != object_fingerprint(make(2.0))


def test_a_global_that_a_function_uses_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = object_fingerprint(by_global)
    monkeypatch.setitem(globals(), "LIMIT", [101])
    assert object_fingerprint(by_global) != before


def test_a_redefined_function_has_another_fingerprint() -> None:
    made: list[Any] = []
    for text in ("a > 1", "a > 2", "a >= 1"):
        space: dict[str, Any] = {}
        exec(f"def predict(a, clicks):\n    return {text}", space)
        made.append(object_fingerprint(space["predict"]))
    assert len(set(made)) == 3


def test_parameters_and_buffers_of_a_torch_module_count() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).bfloat16()
    before = object_fingerprint(net)
    assert object_fingerprint(net) == before
    other = {key: value + 1 for key, value in net.state_dict().items()}
    net.load_state_dict(other)
    assert object_fingerprint(net) != before


def test_a_file_that_an_attribute_names_counts(tmp_path: Path) -> None:
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"one")
    model = Attribute(0.5)
    model.path = weights  # type: ignore[attr-defined]
    before = object_fingerprint(model)
    weights.write_bytes(b"two")
    assert object_fingerprint(model) != before


def test_an_object_with_a_lock_has_no_fingerprint() -> None:
    model = Attribute(0.5)
    model.lock = threading.Lock()  # type: ignore[attr-defined]
    assert object_fingerprint(model) == UNKNOWN


def test_state_that_a_run_leaves_behind_is_no_change() -> None:
    model = Attribute(0.5)
    with fingerprinted([model]):
        before = object_fingerprint(model)
        model.last_image = np.ones(3)  # type: ignore[attr-defined]
        assert object_fingerprint(model) == before
    with fingerprinted([model]):
        assert object_fingerprint(model) == before
    model.threshold = 0.6
    with fingerprinted([model]):
        assert object_fingerprint(model) != before


@pytest.mark.parametrize("changed", ["net.py", "inner/deep.py", "tiny.pt", "option.pt"])
def test_files_that_a_source_needs_count(tmp_path: Path, changed: str) -> None:
    (tmp_path / "inner").mkdir()
    files = {
        "model.py": "import net\nfrom inner import deep\nWEIGHTS = 'tiny.pt'\n",
        "net.py": "A = 1\n",
        "inner/__init__.py": "",
        "inner/deep.py": "B = 1\n",
        "tiny.pt": "1",
        "option.pt": "1",
        "unused.py": "C = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    options = {"weights": str(tmp_path / "option.pt"), "radius": 5}
    before = source_fingerprint(tmp_path / "model.py", options)
    (tmp_path / "unused.py").write_text("C = 2\n")
    assert source_fingerprint(tmp_path / "model.py", options) == before
    (tmp_path / changed).write_text("D = 2\n")
    assert source_fingerprint(tmp_path / "model.py", options) != before


def scores(run: segmeter.Run) -> list[float]:
    found = run.sql("select iou from rows order by all").to_pylist()
    return [row["iou"] for row in found]


def test_evaluate_never_returns_rows_of_a_changed_model(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rounds": 1, "limit": 2, "protocols": "corrected"}
    model = Attribute(100)
    run = segmeter.evaluate(model, "drawn", out=tmp_path / "run", **settings)
    first = scores(run)
    assert scores(segmeter.evaluate(model, "drawn", out=tmp_path / "run", **settings)) == first
    model.threshold = 254
    with pytest.raises(RunConflict, match=r"other code or state .*rerun_changed=True"):
        segmeter.evaluate(model, "drawn", out=tmp_path / "run", **settings)
    again = segmeter.evaluate(model, "drawn", out=tmp_path / "run", rerun_changed=True, **settings)
    fresh = segmeter.evaluate(model, "drawn", out=tmp_path / "fresh", **settings)
    assert scores(again) == scores(fresh) != first


def test_a_torch_predictor_after_load_state_dict_is_another_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Predictor(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(0.01))

        def set_image(self, image: Any) -> None:
            self.image = torch.from_numpy(image).float().mean(-1)

        def predict(self, point_coords: Any = None, point_labels: Any = None) -> Any:
            return (self.image * self.scale > 1)[None].numpy(), np.ones(1)

    settings: dict[str, Any] = {"rounds": 1, "limit": 1, "protocols": "corrected"}
    model = Predictor()
    first = scores(segmeter.evaluate(model, "drawn", out=tmp_path / "run", **settings))
    same = segmeter.evaluate(model, "drawn", out=tmp_path / "run", **settings)
    assert scores(same) == first
    model.load_state_dict({"scale": torch.tensor(0.05)})
    with pytest.raises(RunConflict, match="other code or state"):
        segmeter.evaluate(model, "drawn", out=tmp_path / "run", **settings)


def test_a_model_that_cannot_be_fingerprinted_is_not_resumed(tmp_path: Path) -> None:
    model = Attribute(100)
    model.lock = threading.Lock()  # type: ignore[attr-defined]
    settings: dict[str, Any] = {"rounds": 1, "limit": 1, "protocols": "corrected"}
    segmeter.evaluate(model, "drawn", out=tmp_path / "run", **settings)
    with pytest.raises(RunConflict, match="cannot be determined"):
        segmeter.evaluate(model, "drawn", out=tmp_path / "run", **settings)


def test_a_replaced_checkpoint_is_refused_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(
        "class Predictor:\n"
        "    def __init__(self, weights):\n"
        "        self.limit = int(open(weights).read())\n"
        "    def set_image(self, image):\n"
        "        self.image = image\n"
        "    def predict(self, point_coords=None, point_labels=None):\n"
        "        return (self.image[..., 0] > self.limit)[None], [1.0]\n"
    )
    Path("tiny.pt").write_text("100")
    model = "net.py:Predictor?weights=tiny.pt"
    settings: dict[str, Any] = {"rounds": 1, "limit": 1, "protocols": "corrected"}
    segmeter.evaluate(model, "drawn", out=tmp_path / "run", **settings)
    segmeter.evaluate(model, "drawn", out=tmp_path / "run", **settings)
    Path("tiny.pt").write_text("250")
    with pytest.raises(RunConflict, match="other code or state"):
        segmeter.evaluate(model, "drawn", out=tmp_path / "run", **settings)


WRITES = """
from pathlib import Path
import numpy as np

LOG = Path(__file__).with_name("calls.log")
WEIGHTS = Path(__file__).with_name("weights.npy")


class Net:
    def __init__(self):
        self.table = "table.csv"

    def predict(self, image, clicks):
        with LOG.open("a") as log:
            log.write("called")
        with open(self.table, "w") as table:
            table.write("1")
        np.save("last.npy", image)
        return image[..., 0] > np.load(WEIGHTS)


def train():
    np.save(WEIGHTS, 3)
"""


def test_files_that_a_source_writes_do_not_count_unless_it_loads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "net.py"
    source.write_text(WRITES)
    for name in ("calls.log", "table.csv", "last.npy", "weights.npy"):
        (tmp_path / name).write_text("before")
    before = source_fingerprint(source)
    for name in ("calls.log", "table.csv", "last.npy"):
        (tmp_path / name).write_text("changed by a call")
    assert source_fingerprint(source) == before
    (tmp_path / "weights.npy").write_text("trained again")
    assert source_fingerprint(source) != before
