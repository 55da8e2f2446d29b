"""Training, similarity and calibration from the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from segmeter.clickability.click_files import ClickTarget, write_simulated
from segmeter.core import catalogue

from .conftest import Done
from .conftest import type_here as segmeter


def _sentence(done: Done) -> str:
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip()


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lifelike first-round clicks on one object of each built-in image."""
    path = tmp_path_factory.mktemp("clicks") / "clicks.csv"
    data = catalogue.datasets.make("mini")
    things = [
        ClickTarget("mini", name, target.mask, target.id)
        for name in data.scenes()
        for target in data.load(name).targets[:1]
    ]
    write_simulated(path, things, per_target=40, later=False)
    return path


def test_a_network_is_trained_reported_on_and_found_again(clicks: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    names = list(catalogue.datasets.make("mini").scenes())
    (tmp_path / "report.txt").write_text("\n".join(names[:2]))
    command = (
        "clicks", "train", "--clicks", clicks, "-d", "mini", "--size", "tiny",
        "--frame", 64, "--epochs", 1, "--report", tmp_path / "report.txt", "-o", tmp_path / "net",
    )  # fmt: skip
    done = segmeter(*command)
    assert done.returncode == 0, done.stderr
    assert "epoch 1" in done.stderr
    told = {tuple(line.split()[:2]) for line in done.stdout.splitlines()}
    assert {("network", "nss"), ("uniform", "ks"), ("distance", "pde"), ("prior", "wd")} <= told
    weights = tmp_path / "net" / "clickability.safetensors"
    before = weights.read_bytes()
    again = segmeter(*command)
    assert again.returncode == 0, again.stderr
    assert weights.read_bytes() == before
    assert "other settings" in _sentence(segmeter(*command, "--seed", 5))


def test_training_refuses_in_one_sentence(clicks: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    start = ("clicks", "train", "--clicks", clicks, "-o", tmp_path / "net", "-d")
    assert "no clicks on the given datasets" in _sentence(
        segmeter(*start, "drawn", "--size", "tiny")
    )
    assert "did you mean 'published'" in _sentence(segmeter(*start, "mini", "--recipe", "publishd"))
    assert "no checkpoint" in _sentence(
        segmeter(*start, "mini", "--size", "tiny", "--backbone", tmp_path / "none.pth")
    )


def test_devices_with_one_distribution_are_similar_unless_columns_replace_rows(
    clicks: Path,
) -> None:
    done = segmeter("clicks", "compare", "--clicks", clicks, "-d", "mini", "--json")
    assert done.returncode == 0, done.stderr
    rows = {(r["protocol"], r["score"]): r for r in json.loads(done.stdout)}
    assert abs(rows["corrected", "energy"]["value"]) < 0.02
    assert rows["corrected", "ks"]["value"] > 0.8
    assert rows["published", "wd"]["value"] > 3 * rows["corrected", "wd"]["value"]
    assert (
        rows["corrected", "wd"]["low"]
        <= rows["corrected", "wd"]["value"]
        <= rows["corrected", "wd"]["high"]
    )


def test_people_against_people_and_display_modes(clicks: Path, tmp_path: Path) -> None:
    done = segmeter("clicks", "compare", "--clicks", clicks, "-d", "mini", "--compare", "halves")
    assert done.returncode == 0, done.stderr
    assert "energy" in done.stdout
    previews = tmp_path / "previews.csv"
    with clicks.open(newline="") as file, previews.open("w", newline="") as made:
        reader = csv.DictReader(file)
        writer = csv.DictWriter(made, reader.fieldnames or [])
        writer.writeheader()
        for number, row in enumerate(reader):
            mode = ("Text_Description", "Object_CutOut")[number % 2]
            moved = {"x": int(row["w"]) - 1} if number % 4 == 1 else {}
            writer.writerow({**row, "dataset": mode, **moved})
    done = segmeter(
        "clicks", "compare", "--clicks", previews, "-d", "mini", "--compare", "modes", "--json"
    )
    assert done.returncode == 0, done.stderr
    found = {(r["what"], r["protocol"], r["score"]): r["value"] for r in json.loads(done.stdout)}
    halves = "Text_Description (halves)"
    assert (
        found["Object_CutOut", "corrected", "energy"] > 0.1 > found[halves, "corrected", "energy"]
    )
    assert found["Object_CutOut", "corrected", "ks"] < found[halves, "corrected", "ks"]
    sentence = _sentence(
        segmeter("clicks", "compare", "--clicks", clicks, "-d", "mini", "--compare", "x")
    )
    assert "devices, modes, halves, maps or scribbles" in sentence


def test_the_error_of_calibration_names_the_missing_input(tmp_path: Path) -> None:
    assert "--data" in _sentence(segmeter("clicks", "fit", "--click-tables", tmp_path))
    missing = _sentence(segmeter("clicks", "fit", "--click-tables", tmp_path, "--data", tmp_path))
    assert "GrabCut_per_image.csv" in missing


def test_maps_are_judged_by_recorded_clicks(clicks: Path) -> None:
    done = segmeter(
        "clicks", "compare", "--clicks", clicks, "-d", "mini", "--compare", "maps", "--json"
    )
    assert done.returncode == 0, done.stderr
    found = {(r["what"], r["protocol"], r["score"]): r["value"] for r in json.loads(done.stdout)}
    for protocol in ("published", "corrected"):
        for score in ("nss", "pde", "ks"):  # the clicks were drawn from the prior
            values = [found[name, protocol, score] for name in ("uniform", "distance", "prior")]
            assert values == sorted(values), (protocol, score)
    assert found["uniform", "corrected", "pde"] > 0.9 > 0.1 > found["uniform", "published", "pde"]
    assert (
        abs(found["prior", "corrected", "energy"]) < 0.01 < found["uniform", "corrected", "energy"]
    )
    said = segmeter("clicks", "compare", "--clicks", clicks, "-d", "mini", "--compare", "maps",
                    "--map", "uniform", "--protocol", "published").stdout  # fmt: skip
    (density,) = (line.split()[3] for line in said.splitlines() if " pde " in line)
    assert float(density) == pytest.approx(found["uniform", "published", "pde"], rel=0.01)
    wrong = segmeter("clicks", "compare", "--clicks", clicks, "-d", "mini", "--compare", "maps",
                     "--map", "network")  # fmt: skip
    assert "needs weights" in _sentence(wrong)


def test_clicks_that_are_left_out_are_reported(clicks: Path, tmp_path: Path) -> None:
    data = catalogue.datasets.make("mini")
    name = data.scenes()[0]
    target = data.load(name).targets[0]
    path = tmp_path / "clicks.csv"
    write_simulated(path, [ClickTarget("mini", name, target.mask, target.id)], per_target=40)
    done = segmeter("clicks", "compare", "--clicks", path, "-d", "mini", "--compare", "maps",
                    "--json", "--map", "uniform", "--protocol", "corrected")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {row["keys"] for row in json.loads(done.stdout)} == {1}
    (line,) = done.stderr.splitlines()
    assert line.startswith("clicks.csv: 80 of 120 clicks are left out: 80 (2 keys) of later rounds")
    assert "--previous" in line
    done = segmeter("clicks", "train", "--clicks", path, "-d", "mini", "--size", "tiny",
                    "-o", tmp_path / "net")  # fmt: skip
    first, *_ = done.stderr.splitlines()
    assert first == line


def test_recorded_clicks_are_for_the_benchmarks_that_replay_them(
    clicks: Path, tmp_path: Path
) -> None:
    start = ("-m", "grabcut", "-d", "mini", "-o", tmp_path / "run", "--clicks")
    refused = _sentence(segmeter("run", "noc", *start, clicks))
    assert "no such option: --clicks" in refused  # which rclicks and tetris have
    text = clicks.read_text().replace(",first,", ",second,", 1)
    wrong = tmp_path / "wrong.csv"
    wrong.write_text(text)
    for benchmark in ("rclicks", "tetris"):
        refused = _sentence(segmeter("run", benchmark, *start, wrong))
        assert "wrong.csv, row 2: 'click_type' is none of first, fn, fp" in refused
    assert not (tmp_path / "run").exists()


def test_a_run_warns_of_clicks_that_are_left_out_or_miss(clicks: Path, tmp_path: Path) -> None:
    header, *rows = clicks.read_text().splitlines()
    fields = [row.split(",") for row in rows]
    false_negatives = [",".join([*row[:7], "0", "0", *row[9:]]) for row in fields]
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join([header, *false_negatives]) + "\n")
    done = segmeter("run", "tetris", "-m", "disc", "-d", "mini", "--limit", 1, "--rounds", 1,
                    "--exhaustive", "0", "--clicks", path, "-o", tmp_path / "r")  # fmt: skip
    assert done.returncode == 0, done.stderr
    scene = catalogue.datasets.make("mini").scenes()[0]
    other = sum(row[1] != scene for row in fields)
    assert f"clicks.csv: {other} of {len(rows)} clicks are left out" in done.stderr
    assert "clicks.csv: most first clicks lie outside the object" in done.stderr


def test_nothing_to_click_on_is_refused(tmp_path: Path, real_data: Path) -> None:
    done = segmeter("clicks", "simulate", "-d", "bsds500", "--data", real_data, "--limit", 1,
                    "--out", tmp_path / "clicks.csv")  # fmt: skip
    assert "no targets" in _sentence(done)
    assert not list(tmp_path.iterdir())


def test_recorded_scribbles_are_compared_with_simulated_ones(tmp_path: Path) -> None:
    import segmeter
    from segmeter.api.click_files import compare_clicks
    from segmeter.core.prompts import Scribble, to_json
    from segmeter.users.error_prompts import stroke

    data = segmeter.load_dataset("mini")
    lines = ["scene,target,round,prompt"]
    for name in data.scenes()[:3]:
        target = data[name].targets[0]
        points = stroke(target.mask)[:8]
        prompt = json.dumps(to_json(Scribble(points)))[1:-1].replace('\\"', '""')
        lines.append(f'{name},{target.id},1,"{prompt}"')
    (tmp_path / "prompts.csv").write_text("\n".join(lines))
    rows = compare_clicks(tmp_path / "prompts.csv", ["mini"], "scribbles")
    found = {(row.what, row.score): row.value for _, row in rows}
    assert found["recorded", "length"] < found["simulated", "length"]
    assert found["recorded", "coverage"] < found["simulated", "coverage"]
    gap = found["recorded", "centredness"] - found["simulated", "centredness"]
    assert found["recorded - simulated", "centredness"] == pytest.approx(gap)
