"""Bad input from the command line: one clear sentence, the rest goes on, the exit code tells.

Exit 1: done, but some jobs failed, each named. Exit 2: refused, nothing written.
"""

from __future__ import annotations

import json
import pickle
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.store import Run

from ..forking import Interpreter

Typed = Callable[..., tuple[int, str, str]]
Refused = Callable[..., str]
Done = subprocess.CompletedProcess[str]
Segmeter = Callable[..., Done]


@pytest.fixture(scope="module")
def segmeter(python: Interpreter) -> Segmeter:
    """Type a command; it never answers with a trace."""

    def typed(*words: object) -> Done:
        nowhere = {"SEGMETER_WEIGHTS": "", "SEGMETER_DATA": ""}
        done = python.run("-m", "segmeter", *words, **nowhere, COLUMNS="80")
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return typed


@pytest.fixture
def refused(typed: Typed, tmp_path: Path) -> Refused:
    """Run the click benchmark on drawn scenes; the sentence it is refused with."""

    def run(*words: object) -> str:
        out = tmp_path / "run"
        code, said, complaint = typed("run", "noc", *words, "-d", "drawn", "-o", out)
        assert (code, said) == (2, ""), complaint
        assert not out.exists()
        (line,) = complaint.strip().splitlines()
        return line.removeprefix("segmeter: ")

    return run


def png_that_claims(width: int, height: int) -> bytes:
    """An image of a few bytes that would unfold into gigabytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two good images among bad ones, each bad in its own way."""
    folder = tmp_path_factory.mktemp("data") / "mine"
    (folder / "images").mkdir(parents=True)
    (folder / "masks").mkdir()
    draws = np.random.default_rng(1)
    image = draws.integers(0, 99, (40, 60, 3), dtype=np.uint8)
    mask = np.zeros((40, 60), np.uint8)
    mask[10:30, 15:45] = 255
    image[10:30, 15:45] += 120
    names = ("a-good", "another-good", "bomb", "corrupt", "cut-short", "damaged-mask", "empty",
             "unpaired", "small-mask")  # fmt: skip
    for name in names:
        cv2.imwrite(str(folder / "images" / f"{name}.png"), image)
        cv2.imwrite(str(folder / "masks" / f"{name}.png"), mask)
    whole = (folder / "images" / "cut-short.png").read_bytes()
    (folder / "images" / "bomb.png").write_bytes(png_that_claims(60_000, 60_000))
    (folder / "images" / "corrupt.png").write_bytes(b"this is no image")
    (folder / "images" / "cut-short.png").write_bytes(whole[: len(whole) // 2])
    (folder / "masks" / "damaged-mask.png").write_bytes(whole[:40])
    (folder / "masks" / "unpaired.png").unlink()
    cv2.imwrite(str(folder / "masks" / "empty.png"), 0 * mask)
    cv2.imwrite(str(folder / "masks" / "small-mask.png"), mask[:20])
    return folder


@pytest.fixture(scope="module")
def run_on_trouble(
    segmeter: Segmeter, troubled: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Done, Path]:
    out = tmp_path_factory.mktemp("runs") / "run"
    return segmeter(
        "run", "noc", "-m", "synthetic-oracle", "-d", troubled, "--rounds", 2, "-o", out
    ), out


SENTENCES = {
    "bomb": "exceeds limit of",
    "corrupt": "is not a whole image",
    "cut-short": "is not a whole image",
    "damaged-mask": "is not a whole image",
    "empty": "is empty; fix its mask or leave it out",
    "small-mask": "image is 60 x 40 but its mask is 60 x 20",
}


def test_each_bad_image_is_reported_in_one_sentence(
    run_on_trouble: tuple[Done, Path],
) -> None:
    done, _ = run_on_trouble
    said = [line for line in done.stderr.splitlines() if line.startswith("failed: ")]
    assert len(said) == len(SENTENCES)
    for scene, words in SENTENCES.items():
        (line,) = [line for line in said if f"/{scene}: " in line]
        assert words in line


def test_an_image_without_a_mask_is_reported_as_left_out(
    run_on_trouble: tuple[Done, Path],
) -> None:
    said = run_on_trouble[0].stderr.splitlines()[0]
    assert "1 image without a mask left out" in said
    assert "'unpaired'" in said


def test_the_rest_is_run_and_the_exit_code_is_1(run_on_trouble: tuple[Done, Path]) -> None:
    done, out = run_on_trouble
    assert done.returncode == 1
    assert f"{len(SENTENCES)} of {len(SENTENCES) + 2} jobs failed, as named above" in done.stdout
    run = Run.open(out)
    played = run.sql("select distinct scene from rows order by scene").to_pylist()
    assert [row["scene"] for row in played] == ["a-good", "another-good"]
    assert {row["scene"] for row in run.sql("from errors").to_pylist()} == set(SENTENCES)


def test_the_report_names_what_is_missing(
    segmeter: Segmeter, run_on_trouble: tuple[Done, Path]
) -> None:
    out = run_on_trouble[1]
    assert segmeter("report", out).returncode == 0
    page = (out / "report.html").read_text()
    for scene in SENTENCES:
        assert scene in page


def test_repaired_data_is_another_plan(typed: Typed, troubled: Path, tmp_path: Path) -> None:
    """Rows of old and new data must not be mixed in one run."""
    data, out = tmp_path / "mine", tmp_path / "run"
    shutil.copytree(troubled, data)
    command = (
        "run",
        "noc",
        "-m",
        "synthetic-oracle",
        "-d",
        data,
        "--rounds",
        1,
        "--workers",
        0,
        "-o",
        out,
    )
    assert typed(*command)[0] == 1
    shutil.copy(data / "masks" / "a-good.png", data / "masks" / "empty.png")
    code, _, complaint = typed(*command)
    assert code == 2
    assert (
        f"holds a run with another version of 'folder?path={data}'; restore that to resume"
        in complaint
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-m", "sam2-hiera-tiyn"], "did you mean 'sam2-hiera-tiny'?"),
        (["-m", "sam2-hiera-tiny"], "'segmeter fetch sam2-hiera-tiny' gets them"),
        (["-m", "disc?radios=3"], "has no option 'radios'; did you mean 'radius'?"),
        (["-m", "nowhere.py:Mine"], "no file 'nowhere.py'"),
        (["-m", "disc", "-u", "center-click"], "did you mean 'centre-click'?"),
        (
            ["-m", "disc", "--measure", "fb"],
            "a measure of masks takes (ground_truth, prediction, ignore=None)",
        ),
        (["-m", "disc", "--weights", "nowhere"], "there is no folder 'nowhere'"),
    ],
)
def test_unknown_names_are_refused_before_anything_is_written(
    words: list[str], sentence: str, refused: Refused
) -> None:
    assert sentence in refused(*words)


@pytest.mark.parametrize("source", ["def broken(:\n", "import no_such_module\n", "1 / 0\n"])
def test_a_python_file_that_cannot_be_run_is_named(
    source: str, refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(source)
    assert "mine.py' cannot be run: " in refused("-m", f"{tmp_path / 'mine.py'}:Mine")


def test_a_class_that_is_no_model_is_named(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    pass\n")
    assert "or one with card and encode(scene)" in refused("-m", f"{tmp_path / 'mine.py'}:Mine")


@pytest.mark.parametrize("source", ["name = 3\n    def next(self, seen, rng): pass", "name = 'a'"])
def test_a_class_that_is_no_user_is_named(source: str, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"class Mine:\n    {source}\n")
    sentence = refused("-m", "disc", "-u", f"{tmp_path / 'mine.py'}:Mine")
    assert "mine.py:Mine' is no user: it needs a 'name'" in sentence


def test_a_measure_without_ignore_is_refused_with_what_it_takes(
    refused: Refused, tmp_path: Path
) -> None:
    lines = ("from segmeter.core.measures import measure", '@measure("two")', "def two(g, p): ...")
    (tmp_path / "mine.py").write_text("\n".join(lines))
    sentence = refused("-m", "disc", "--measure", f"{tmp_path / 'mine.py'}:two")
    catalogue.measures.drop("two")
    assert "takes (ground_truth, prediction, ignore=None)" in sentence


def test_a_file_to_check_is_answered_with_the_models_in_it(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def predict(image, clicks): ...\n")
    code, _, complaint = typed("check", tmp_path / "mine.py")
    assert code == 2
    assert f"is a file; name the model in it: {tmp_path / 'mine.py'}:predict" in complaint


def weights_folder(path: Path, name: str) -> Path:
    (path / name).mkdir(parents=True)
    return path / name


def test_weights_of_another_architecture_are_refused(refused: Refused, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    own = weights_folder(tmp_path / "weights", "sam2-hiera-tiny")
    save_file({"some.tensor": np.zeros(3, np.float32)}, own / "model.safetensors")
    (own / "config.json").write_text(json.dumps({"model_type": "resnet"}))
    said = refused("-m", "sam2-hiera-tiny", "--weights", tmp_path / "weights")
    assert "holds weights of another architecture: a 'resnet', not a 'sam2'" in said


def test_tensors_of_another_architecture_are_refused_by_their_header(
    refused: Refused, tmp_path: Path
) -> None:
    from safetensors.numpy import save_file

    pytest.importorskip("torch", reason="needs the extra 'models'")
    own = weights_folder(tmp_path / "weights", "mobile-sam")
    save_file({"some.tensor": np.zeros(3, np.float32)}, own / "model.safetensors")
    said = refused("-m", "mobile-sam", "-m", "disc", "--weights", tmp_path / "weights")
    assert f"'{own}' holds no known network (SAM, SAM-HQ, " in said


def test_a_pickle_of_another_architecture_is_refused_too(refused: Refused, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra 'models'")
    own = weights_folder(tmp_path / "weights", "mobile-sam")
    torch.save({"some.tensor": torch.zeros(3)}, own / "mobile_sam.pt")
    said = refused("-m", "mobile-sam", "-m", "disc", "--weights", tmp_path / "weights")
    assert f"'{own}' holds no known network (SAM, SAM-HQ, " in said


@pytest.mark.parametrize("held", ["state", "module", "tensor"])
def test_a_checkpoint_of_an_unknown_network_is_refused_before_the_first_job(
    refused: Refused, tmp_path: Path, held: str
) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra 'models'")
    net, file = torch.nn.Conv2d(5, 1, 1), tmp_path / "net.pth"
    torch.save({"state": net.state_dict(), "module": net, "tensor": net.weight}[held], file)
    said = refused("-m", file, "-m", "disc")
    assert str(file) in said
    if held == "state":
        assert "its tensors are 'weight', 'bias'; for a network of your own" in said


def test_a_weights_folder_that_is_named_is_not_passed_over(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a data folder: what the environment names does not stand in for what was typed."""
    from safetensors.numpy import save_file

    own = weights_folder(tmp_path / "around", "mobile-sam")
    save_file({"some.tensor": np.zeros(3, np.float32)}, own / "model.safetensors")
    monkeypatch.setenv("SEGMETER_WEIGHTS", str(tmp_path / "around"))
    (tmp_path / "empty").mkdir()
    said = refused("-m", "mobile-sam", "--weights", tmp_path / "empty")
    assert f"no weights for 'mobile-sam' in '{tmp_path / 'empty'}'" in said


def test_a_data_folder_that_is_named_is_not_passed_over(
    typed: Typed, real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEGMETER_DATA", str(real_data))
    words = ("run", "noc", "-m", "disc", "-d", "grabcut", "-o", tmp_path / "run")
    code, _, complaint = typed(*words, "--data", tmp_path)
    assert code == 2
    assert f"'grabcut' is not in '{tmp_path}'" in complaint


BROKEN = """
from segmeter.core.errors import BadInput
from segmeter.models.synthetic import Disc


class Broken(Disc):
    def encode(self, scene):
        raise BadInput("the image is out of focus")
"""


def test_weights_of_another_click_network_are_refused_before_the_run(
    typed: Typed, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra 'models'")
    own, out = weights_folder(tmp_path / "weights", "ritm-h18s"), tmp_path / "run"
    torch.save({"some.tensor": torch.zeros(3)}, own / "model.pth")
    words = ("run", "noc", "-m", "ritm-h18s", "--weights", tmp_path / "weights", "-d", "drawn")
    code, _, complaint = typed(*words, "--limit", 1, "--workers", 0, "-o", out)
    assert code == 2
    assert "for 'ritm-h18s' are of another architecture" in complaint
    assert not out.exists()


def test_a_run_of_which_nothing_was_finished_points_to_no_report(
    typed: Typed, tmp_path: Path
) -> None:
    out, file = tmp_path / "run", tmp_path / "broken.py"
    file.write_text(BROKEN)
    words = ("run", "noc", "-m", f"{file}:Broken", "-d", "drawn", "--limit", 1)
    code, said, complaint = typed(*words, "--workers", 0, "-o", out)
    assert code == 1
    (line,) = said.strip().splitlines()
    assert line.startswith(f"1 of 1 job failed, as named above and in {out}/errors; fix the cause")
    (last,) = complaint.strip().splitlines()
    assert last.startswith(f"failed: {file}:Broken on drawn/000: ")
    assert "the image is out of focus" in last
    assert list((out / "errors").iterdir())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--learning-rate", "nan"], "--learning-rate is a number above 0, not nan"),
        (["--learning-rate", "inf"], "--learning-rate is a number above 0, not inf"),
        (["--learning-rate", "0"], "--learning-rate is a number above 0, not 0"),
        (["--learning-rate", "-0.1"], "--learning-rate is a number above 0, not -0.1"),
        (["--workers", "-1"], "invalid value for '--workers'"),
        (["--frame", "0"], "the frame is a multiple of 32"),
        (["--device", "foo"], "no device 'foo'"),
    ],
)
def test_numbers_that_make_no_sense_train_nothing(
    words: list[str], sentence: str, typed: Typed, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="needs the extra 'models'")
    (tmp_path / "clicks.csv").write_text("")
    command = ("clicks", "train", "--clicks", tmp_path / "clicks.csv", "-d", "drawn")
    code, _, complaint = typed(*command, "-o", tmp_path / "out", *words)
    assert code == 2
    (line,) = complaint.strip().splitlines()
    assert sentence in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["clicks", "fit", "--click-tables", ".", "--scenes", "0"], "invalid value for '--scenes'"),
        (["clicks", "simulate", "-d", "drawn", "--out", "c.csv", "--people", "0"], "'--people'"),
        (["clicks", "simulate", "-d", "drawn", "--out", "c.csv", "--limit", "0"], "'--limit'"),
    ],
)
def test_numbers_out_of_range_are_refused(words: list[str], sentence: str, typed: Typed) -> None:
    code, _, complaint = typed(*words)
    assert code == 2
    (line,) = complaint.strip().splitlines()
    assert sentence in line


class Evil:
    """What an attacker puts into a checkpoint: a call that runs when it is unpickled."""

    def __init__(self, trap: Path) -> None:
        self.trap = trap

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (Path.touch, (self.trap,))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mobile-sam", "is not opened: it holds more than tensors"),
        ("ritm-h18s", "is not opened: it"),
    ],
)
def test_an_unsafe_pickle_is_refused_before_the_run(
    name: str, sentence: str, typed: Typed, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra 'models'")
    trap, out = tmp_path / "sprung", tmp_path / "run"
    own = weights_folder(tmp_path / "weights", name)
    torch.save({"state_dict": Evil(trap)}, own / "model.pth")
    words = ("-m", name, "-m", "disc", "--weights", tmp_path / "weights", "-d", "drawn")
    rest = ("--limit", 1, "--rounds", 1, "--workers", 0, "-o", out)
    code, _, complaint = typed("run", "noc", *words, *rest)
    assert code == 2
    assert not out.exists()
    assert sentence in complaint
    assert not trap.exists()
    # The trap is a real one.
    pickle.loads(pickle.dumps(Evil(trap)))
    assert trap.exists()


def test_a_folder_of_another_plan_is_refused_and_left_alone(typed: Typed, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("run", "noc", "-m", "disc", "-d", "drawn", "--limit", 1, "--workers", 0, "-o", out)
    assert typed(*command, "--rounds", 1)[0] == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    code, _, complaint = typed(*command, "--rounds", 2)
    assert code == 2
    assert (
        "holds a run with rounds 1 (not 2); resume it with its own settings, or choose another"
        in complaint
    )
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert typed(*command, "--rounds", 1)[0] == 0


def test_a_folder_that_is_no_run_is_left_alone(typed: Typed, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "thesis.tex").write_text("years of work")
    code, _, complaint = typed("run", "noc", "-m", "disc", "-d", "drawn", "-o", own)
    assert code == 2
    assert "exists and is not a run; choose another --out" in complaint
    assert [path.name for path in own.iterdir()] == ["thesis.tex"]


def test_an_output_folder_that_cannot_be_made_is_named(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "run"
    code, _, complaint = typed("run", "noc", "-m", "disc", "-d", "drawn", "--limit", 1, "-o", out)
    assert code == 2
    assert f"'{out}' cannot be used: Not a directory" in complaint


def small_disk(folder: Path, kilobytes: int) -> tuple[str, ...]:
    """Words that start a command with a small disk mounted at a folder, for it alone."""
    folder.mkdir()
    script = f'mount -t tmpfs -o size={kilobytes}k tmpfs "{folder}" && exec "$@"'
    words = ("unshare", "-rm", "sh", "-c", script, "sh")
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], check=False).returncode:
        pytest.skip("no small disk: a file system cannot be mounted here")
    return words


def test_a_full_disk_stops_the_run_in_a_sentence(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    words = small_disk(disk, 64)
    command = ("run", "noc", "-m", "disc", "-d", "drawn", "--workers", 0, "-o", disk / "run")
    typed = [*words, sys.executable, "-m", "segmeter", *map(str, command)]
    done = subprocess.run(typed, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout
    (line,) = done.stderr.strip().splitlines()
    assert "is full; free some space and give the same command again" in line


def test_on_a_full_disk_the_previous_table_is_kept(
    run_on_trouble: tuple[Done, Path], tmp_path: Path
) -> None:
    table = tmp_path / "table.tex"
    table.write_text("before")
    command = (sys.executable, "-m", "segmeter", "table", str(run_on_trouble[1]), "-o", str(table))
    full = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh"]  # no file may grow
    done = subprocess.run([*full, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "is full; free some space and give the same command again" in done.stderr
    assert table.read_text() == "before"
