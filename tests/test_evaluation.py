"""`segmeter.evaluate` as people use it: functions, folders, objects, protocols, scripts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import segmeter
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, RunConflict, SegmeterError
from segmeter.core.measures import measure
from segmeter.core.plans import Plan
from segmeter.core.prompts import Click
from segmeter.core.users import Observation
from segmeter.engine import run_plan
from segmeter.users.error_prompts import CentreClick

from .forking import Interpreter


def bright(image: Any, clicks: Any) -> Any:
    """Pixels as bright as the first click's."""
    y, x, _ = clicks[0]
    return abs(image[..., 0].astype(int) - int(image[int(y), int(x), 0])) < 30


def test_a_function_on_a_folder_in_one_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("own/images", "own/masks"):
        (tmp_path / folder).mkdir(parents=True)
    image, mask = np.full((40, 50, 3), 20, np.uint8), np.zeros((40, 50), np.uint8)
    image[5:20, 5:30], mask[5:20, 5:30] = 200, 255
    cv2.imwrite("own/images/a.png", image)
    cv2.imwrite("own/masks/a.png", mask)
    run = segmeter.evaluate(bright, tmp_path / "own", rounds=2, protocols="corrected")
    assert run.folder.path == Path("runs/noc-1")
    assert run.plan.protocols == ("corrected",)
    (session,) = run.sessions()
    assert session["rounds_to_goal"] == 1
    assert "bright" in repr(run)
    assert "<td>bright</td>" in run._repr_html_()
    assert run.report().is_file()
    assert "NoC@90" in run.table()


def test_users_and_measures_may_be_objects(tmp_path: Path) -> None:
    @measure("covered", both_empty=1.0)
    def covered(ground_truth: Any, prediction: Any, ignore: Any = None) -> float:
        """Share of the object that is covered."""
        return float(ground_truth.overlap(prediction) / max(ground_truth.area, 1))

    try:
        run = segmeter.evaluate("synthetic-oracle", "drawn", out=tmp_path / "r", limit=1, rounds=1,
                                users=CentreClick(), measures=covered)  # fmt: skip
    finally:
        from segmeter.core import catalogue

        catalogue.measures.drop("covered")
    assert run.sql("select min(covered) as least from rows").to_pylist() == [{"least": 1.0}]


def test_an_own_user_or_measure_does_not_replace_a_built_in_one(tmp_path: Path) -> None:
    class Robot:
        name = "centre-click"

        def next(self, observation: Observation, rng: np.random.Generator) -> Click:
            return Click((0, 0))

    with pytest.raises(BadInput, match="a built-in user 'centre-click'; give yours another name"):
        segmeter.evaluate("disc", "drawn", users=Robot(), out=tmp_path / "r")
    with pytest.raises(BadInput, match="a built-in measure 'iou'"):
        measure("iou")(lambda ground_truth, prediction, ignore=None: 0.5)
    image, mask = np.zeros((9, 9), np.uint8), np.zeros((9, 9), bool)
    mask[2:7, 2:7] = True
    (first,) = segmeter.simulate("synthetic-oracle", image, mask, rounds=1)
    assert (first.prompts, first.scores) == ((Click((4, 4)),), {"iou": 1.0})
    for wrong in (Robot, object()):
        with pytest.raises(BadInput, match="an object with a name and next"):
            segmeter.evaluate("disc", "drawn", users=wrong, out=tmp_path / "r")


def test_failures_are_reported_and_total_failure_is_raised(tmp_path: Path) -> None:
    def moody(image: Any, clicks: Any) -> Any:
        if image[0, 0, 0] % 2:
            raise RuntimeError("not this one")
        return image[..., 0] > 128

    def broken(image: Any, clicks: Any) -> Any:
        raise RuntimeError("never")

    with pytest.raises(SegmeterError, match=r"every job failed.*never.*test_evaluation.py, line"):
        segmeter.evaluate(broken, "drawn", out=tmp_path / "b", limit=2, rounds=1)
    with pytest.warns(UserWarning, match="failed; run.errors") as told:
        run = segmeter.evaluate(moody, "drawn", out=tmp_path / "m", limit=8, rounds=1)
    assert told[0].filename == __file__  # where evaluate was called
    assert "not this one" in run.errors()[0]["error"]


def test_data_may_be_remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs the extra 'remote'")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    image = np.full((20, 20, 3), 90, np.uint8)
    image[5:12, 5:12] = 255
    for folder, pixels in (("images", image), ("masks", (image > 90) * np.uint8(255))):
        stopped = cv2.imencode(".png", pixels)[1].tobytes()
        fsspec.filesystem("memory").pipe_file(f"/evaluated-data/{folder}/a.png", stopped)
    run = segmeter.evaluate(
        "synthetic-oracle", "memory://evaluated-data", out=tmp_path / "r", rounds=1
    )
    assert run.sql("select distinct scene from rows").to_pylist() == [{"scene": "a"}]


def test_a_run_may_be_remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = segmeter.evaluate(
        "synthetic-oracle", "drawn", out="memory://evaluated", limit=1, rounds=1
    )
    assert run.address == "memory://evaluated"
    assert run.sql("select count(*) as many from rows").to_pylist() == [{"many": 2}]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("asked", [{"limit": -1}, {"sample": 0}, {"limit": 2.5}])
def test_a_wrong_number_is_refused_before_anything_is_written(
    asked: dict[str, Any], tmp_path: Path
) -> None:
    (name, value) = next(iter(asked.items()))
    with pytest.raises(BadInput, match=f"{name} is a whole number from ., not {value}"):
        segmeter.evaluate("disc", "drawn", out=tmp_path / "run", **asked)
    assert not (tmp_path / "run").exists()


def test_a_misspelt_protocol_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no protocol 'sond'"):
        segmeter.evaluate("synthetic-oracle", "drawn", out=tmp_path / "r", protocols="sond")


def test_all_entries_of_segmeter_are_listed() -> None:
    assert {"Run", "__version__", "evaluate"} <= set(dir(segmeter))


def test_a_plain_script_needs_no_guard(python: Interpreter, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import segmeter\n"
        "run = segmeter.evaluate('synthetic-oracle', 'drawn', limit=1, rounds=1, progress=True)\n"
        "print(len(run.sessions()))\n"
    )
    done = python.run(script, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
    assert "1 of 1 jobs" in done.stderr


def test_completion_of_a_run_offers_what_the_reference_documents(tmp_path: Path) -> None:
    run = segmeter.evaluate("disc", "drawn", out=tmp_path / "r", limit=1, rounds=1)
    offered = {name for name in dir(run) if not name.startswith("_")}
    docs = Path(__file__).parents[1] / "docs"
    inherited = re.search(r"inherited_members: \[(.*)\]", (docs / "reference/api.md").read_text())
    assert inherited is not None
    own = {name for name in vars(segmeter.Run) if not name.startswith("_")}
    assert offered == own | set(inherited[1].split(", "))
    table = set(re.findall(r"^\| `run\.(\w+)\(", (docs / "runs.md").read_text(), re.MULTILINE))
    assert len(table) > 5
    assert table <= offered


def test_a_run_becomes_data_frames(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is no dependency")
    run = segmeter.evaluate(
        "synthetic-noisy", "drawn", out=tmp_path / "r", limit=1, rounds=2, protocols="corrected"
    )
    rows, sessions, numbers = (run.to_pandas(w) for w in ("rows", "sessions", "summary"))
    assert len(rows) == 2 * len(sessions)
    assert "mask" not in rows.columns
    (noc,) = numbers[numbers.statistic == "noc@90"].value
    reached = sessions.rounds_to_goal.fillna(2)
    assert noc == pytest.approx(reached.mean())


def test_the_callers_process_is_left_as_it_was(python: Interpreter, tmp_path: Path) -> None:
    """In a fresh process: torch is imported by the model itself, then before a second call."""
    pytest.importorskip("torch")
    lines = [
        "import sys, cv2, segmeter",
        "from segmeter.kernels import threads",
        "def predict(image, clicks):",
        "    import torch",
        "    torch.rand(3)",
        "    assert torch.get_num_threads() == 1 and not torch.backends.cudnn.allow_tf32",
        "    return image[..., 0] > 100",
        "def state():",
        "    import torch",
        "    b = torch.backends",
        "    return (torch.get_num_threads(), b.cudnn.allow_tf32, b.cuda.matmul.allow_tf32,",
        "            torch.get_rng_state().sum().item(), cv2.getNumThreads(), threads())",
        "cv2.setNumThreads(3)",
        "for out in ('within', 'before'):",
        "    if out == 'before':",
        "        import torch",
        "        torch.set_num_threads(2); torch.backends.cuda.matmul.allow_tf32 = True",
        "        before = state()",
        "    assert out == 'before' or 'torch' not in sys.modules",
        "    segmeter.evaluate(predict, 'drawn', out=out, limit=1, rounds=1)",
        "    after = state()",
        "    assert out == 'within' or after == before, (before, after)",
        "    assert after[1] and after[4] == 3, after",
        "    hooks = [type(finder).__module__ for finder in sys.meta_path]",
        "    assert not [name for name in hooks if name.startswith('segmeter.eng')]",
    ]
    script = tmp_path / "script.py"
    script.write_text("\n".join(lines))
    done = python.run(script, folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_sessions_are_listed_for_every_benchmark(tmp_path: Path) -> None:
    """Of volumes too, which have a Dice and no IoU."""
    plan = Plan(
        "volumes", (Spec("slicewise", {"model": "disc"}),), (Spec("mini-volumes"),), limit=1
    )
    run_plan(plan, tmp_path / "run", workers=0)
    (first, *_) = segmeter.Run.open(tmp_path / "run").sessions()
    assert 0 <= first["dice"] <= 1
    assert first["rounds"] >= 1
    assert "best_iou" not in first


def test_a_misspelt_argument_is_refused_with_the_right_one() -> None:
    with pytest.raises(TypeError, match=r"no argument 'protocol'; did you mean 'protocols'\?"):
        segmeter.evaluate("disc", "drawn", protocol="corrected")  # type: ignore[call-arg]


def test_arrays_that_are_no_dataset_are_refused_with_the_way_to_make_one() -> None:
    pair = (np.zeros((4, 4, 3), np.uint8), np.ones((4, 4), bool))
    with pytest.raises(BadInput, match=r"'tuple' is not a dataset; .*from_arrays"):
        segmeter.evaluate("disc", [pair])


class Corner:
    """A user that clicks on one pixel of the object."""

    name = "corner"

    def __init__(self, place: int) -> None:
        self.place = place

    def next(self, observation: Any, rng: Any) -> Click:
        y, x = np.argwhere(observation.target.mask.dense())[self.place]
        return Click((int(y), int(x)))


def test_a_user_or_measure_that_has_changed_is_not_resumed(tmp_path: Path) -> None:
    def run(user: Any, limit: float) -> segmeter.Run:
        own = measure("above")(lambda ground_truth, prediction, ignore=None: float(limit))
        return segmeter.evaluate(
            "disc", "drawn", out=tmp_path / "r", limit=1, rounds=1, workers=2, users=user,
            measures=own,
        )  # fmt: skip

    try:
        assert not run(Corner(0), 0.5).errors()
        assert run(Corner(0), 0.5).tally.before == 1  # type: ignore[union-attr]  # just run
        with pytest.raises(RunConflict, match="another version of 'user corner'"):
            run(Corner(-1), 0.5)
        with pytest.raises(RunConflict, match="another version of 'measure above'"):
            run(Corner(0), 0.7)
    finally:
        catalogue.users.drop("corner")
        catalogue.measures.drop("above")


def test_scores_of_a_measure_that_has_changed_are_computed_again(tmp_path: Path) -> None:
    run = segmeter.evaluate("disc", "drawn", out=tmp_path / "r", limit=2, rounds=1)
    try:
        for value in (0.25, 0.75):
            measure("constant")(lambda ground_truth, prediction, ignore=None, v=value: v)
            assert run.score("constant") == 2
            found = segmeter.open_run(tmp_path / "r").sql("select distinct constant as v from rows")
            assert found["v"].to_pylist() == [value]
        assert [run.score("dice"), run.score("dice")] == [2, 0]
    finally:
        catalogue.measures.drop("constant")
