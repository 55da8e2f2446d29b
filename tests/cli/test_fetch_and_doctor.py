"""`segmeter fetch` and `segmeter doctor` as a person types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cache_home(tmp_path: Path) -> Path:
    """A cache of its own for each test: some fetch into it."""
    return tmp_path / "cache"


def test_fetch_lists_what_can_be_had(typed: Typed) -> None:
    code, out, _ = typed("fetch", "--list")
    assert code == 0
    assert "mobile-sam" in out
    rows = json.loads(typed("fetch", "--list", "--json")[1])
    assert all(row["sources"] and row["here"] is False for row in rows)


def test_a_slip_of_the_pen_is_understood(typed: Typed) -> None:
    code, out, err = typed("fetch", "mobil-sam")
    assert (code, out) == (2, "")
    assert "did you mean 'mobile-sam'?" in err


def test_a_benchmark_names_its_settings(typed: Typed) -> None:
    assert "exhaustive=0.2, stride=4, clicks" in typed("list", "benchmarks", "tetris")[1]
    facts = json.loads(typed("list", "benchmarks", "rclicks", "--json")[1])
    assert list(facts["options"]) == ["draws", "samples", "clicks", "absent", "consistency"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("grabcut", "--data"),
        ("drawn", "nothing to fetch"),
        ("synthetic-oracle", "needs no weights"),
        ("eiseg-hrnet18-ocr64", "no known source of weights"),
    ],
)
def test_the_error_for_a_failed_fetch_has_the_reason(
    typed: Typed, name: str, sentence: str
) -> None:
    code, _, err = typed("fetch", name)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1


def test_weights_fetched_from_a_folder_are_found_by_their_model(
    typed: Typed, real_weights: Path
) -> None:
    code, out, _ = typed("fetch", "mobile-sam", "--from", real_weights / "mobile-sam", "--json")
    assert code == 0
    folder = json.loads(out)["folder"]
    facts = json.loads(typed("doctor", "--json")[1])
    models = {model["name"]: model for model in facts["models"]}
    assert models["mobile-sam"] == {"name": "mobile-sam", "state": "ready", "note": folder}
    assert "was already there" in typed("fetch", "mobile-sam")[1]


def test_doctor_fits_80_columns_and_lists_what_needs_nothing(typed: Typed) -> None:
    code, out, _ = typed("doctor")
    assert "synthetic-" not in out  # for tests; `list models --all` has them
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "needs no weights" in out
    assert "mini" in out


def test_doctor_finds_data_sets(typed: Typed, real_data: Path) -> None:
    facts = json.loads(typed("doctor", "--data", real_data, "--json")[1])
    states = {found["name"]: found["state"] for found in facts["datasets"]}
    assert states["grabcut"] == states["davis"] == "ready"
    assert facts["kernels"] in ("compiled", "plain")


def test_doctor_names_broken_weights(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "mobile-sam").mkdir()
    (tmp_path / "mobile-sam" / "model.safetensors").write_bytes(b"not a safetensors file")
    facts = json.loads(typed("doctor", "--weights", tmp_path, "--json")[1])
    found = next(model for model in facts["models"] if model["name"] == "mobile-sam")
    assert found["state"] == "broken"
    assert "damaged" in found["note"]


def test_list_prints_the_details_of_one_entry(typed: Typed) -> None:
    card = json.loads(typed("list", "datasets", "mini", "--json")[1])
    assert card["targets"] == 34
    assert "Apache-2.0" in card["licence"]
    assert card["citation"]
    card = json.loads(typed("list", "models", "grabcut", "--json")[1])
    assert "click" in card["abilities"]
    assert card["options"]["side"] == {"default": 192}
    card = json.loads(typed("list", "measures", "iou", "--json")[1])
    assert (card["both_empty"], card["one_empty"], card["better"]) == (1.0, 0.0, "higher")


def test_list_shows_what_is_not_available_and_what_is_required(typed: Typed) -> None:
    code, out, _ = typed("list", "datasets", "grabcut")
    assert code == 0
    assert "--data" in out
    assert "path (required), kind, ignore" in typed("list", "datasets", "folder")[1]
    code, _, err = typed("list", "models", "mobil-sam")
    assert code == 2
    assert "did you mean 'mobile-sam'?" in err


def test_methods_that_benchmarks_bring_are_listed_too(typed: Typed) -> None:
    names = [e["name"] for e in json.loads(typed("list", "methods", "--json")[1])["methods"]]
    assert {"automatic", "automatic-edges", "canny-edges", "sobel-edges", "people"} <= set(names)


@pytest.mark.parametrize("kind", ["models", "methods", "datasets", "users", "measures"])
def test_every_name_has_a_card_to_show(typed: Typed, kind: str) -> None:
    for entry in json.loads(typed("list", kind, "--json")[1])[kind]:
        code, out, _ = typed("list", kind, entry["name"])
        assert code == 0
        assert entry["name"] in out
