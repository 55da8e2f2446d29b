"""`segmeter study` as it is typed."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra 'study'")

from segmeter.study.people import fill_with_people
from segmeter.study.plan import read_plan
from segmeter.study.server import default_url, open_study

Typed = Callable[..., tuple[int, str, str]]
SMALL = """
kind = "clicks"
title = "A study"
[data]
scenes = ["coffee", "rocket"]
[design]
modes = ["Text_Description", "Object_CutOut"]
per_cell = 2
batch = 2
open_to_all = true
[validity]
exclude = ["late", "left_page", "unseen", "wrong_device"]
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(SMALL)
    return path


def test_a_new_plan_is_written_once(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert typed("study", "new", path, "--kind", "rate")[0] == 0
    assert 'kind = "rate"' in path.read_text()
    code, _, said = typed("study", "new", path)
    assert (code, "choose another name" in said) == (2, True)
    assert typed("study", "new", tmp_path / "other.toml", "--kind", "film")[0] == 2
    assert not (tmp_path / "other.toml").exists()


def test_check_shows_what_people_will_see(typed: Typed, plan: Path) -> None:
    code, said, _ = typed("study", "check", plan)
    assert code == 0
    page = plan.with_suffix(".html").read_text()
    assert str(plan.with_suffix(".html")) in said
    for words in ("Object_CutOut", "2. cutout, 2 s", "4. image, until the answer"):
        assert words in page
    plan.write_text(SMALL.replace("per_cell", "per_sell"))
    code, _, said = typed("study", "check", plan)
    assert (code, "did you mean 'per_cell'" in said) == (2, True)


@pytest.mark.long
def test_from_links_to_results(typed: Typed, plan: Path, tmp_path: Path) -> None:
    code, link, warning = typed("study", "invite", plan)
    assert code == 0
    assert link.startswith("http://127.0.0.1:8000/join/")
    assert "open on this machine only" in warning
    code, links, _ = typed("study", "invite", plan, "-n", "3", "--url", "https://x.example/")
    assert code == 0
    assert [link.startswith("https://x.example/join/") for link in links.split()] == [True] * 3
    code, _, said = typed("study", "export", plan, "-o", tmp_path / "none")
    assert (code, "nothing to export" in said) == (2, True)
    assert not (tmp_path / "none").exists()
    study = open_study(read_plan(plan), default_url(plan))
    fill_with_people(study)
    code, said, _ = typed("study", "export", plan, "-o", tmp_path / "out")
    names = {Path(line).name for line in said.split()}
    assert {"trials.parquet", "clicks.csv", "previews.csv", "codebook.csv"} <= names
    assert typed("study", "report", plan)[0] == 0
    small = ("study", "power", plan, "--people", "8", "--studies", "10", "--effect", "1")
    code, said, _ = typed(*small, "--pilot", plan, "--sd", "target=0")
    assert (code, f"(as in {plan}, with target=0): person " in said) == (0, True)
    assert "Display modes" in plan.with_suffix(".report.html").read_text()
    assert typed("study", "costs", plan)[0] == 2
    assert typed("study", "withdraw", plan, "nobody")[0] == 2
    assert typed("study", "withdraw", plan, "-K2M-4XR9-TBAC")[0] == 2  # not taken for an option
    kept, again = tmp_path / "kept.db", f"sqlite:///{tmp_path / 'again.db'}"
    assert typed("study", "backup", plan, "-o", kept)[0] == 0
    assert typed("study", "restore", kept, "--db", again)[0] == 0
    code, first, _ = typed("study", "participants", plan)
    assert (code, typed("study", "participants", plan, "--db", again)[1]) == (0, first)
    assert typed("study", "archive", plan, "-o", tmp_path / "study.zip")[0] == 0
    assert typed("study", "preregister", plan)[0] == 0
    assert "Holm" not in plan.with_suffix(".preregistration.md").read_text()
    clicks = tmp_path / "out" / "clicks.csv"
    code, said, _ = typed("clicks", "fit", "--clicks", clicks, "-d", "mini", "-o", tmp_path / "fit")
    assert (code, "fitted on" in said) == (0, True)
    assert (tmp_path / "fit" / "prior.json").is_file()


def test_a_port_in_use_is_reported(typed: Typed, plan: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, said = typed("study", "serve", plan, "--port", taken.getsockname()[1])
    assert (code, "choose another --port" in said) == (2, True)


def test_power_grows_with_the_effect(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "rate.toml"
    path.write_text('kind = "rate"\n[[masks]]\nname = "a"\n[[masks]]\nname = "b"\n')
    small = ("study", "power", path, "--people", "8", "--targets", "10", "--studies", "10")
    code, said, _ = typed(*small, "--effect", "0")
    assert (code, said.startswith("power ")) == (0, True)
    large = typed(*small, "--effect", "5")[1]
    assert float(large.split()[1]) > float(said.split()[1])
    wide = typed(*small, "--effect", "5", "--sd", "rest=30", "--sd", "person=0")[1]
    assert float(wide.split()[1]) < float(large.split()[1])
    assert "with rest=30 person=0): person 0, target 1.2" in wide
    assert "one condition" not in wide
    path.write_text('kind = "rate"\n[[masks]]\nname = "a"\n')
    alone = typed(*small, "--effect", "1")[1]
    assert "the plan has one condition; this is the power of a study that compares two" in alone
    for wrong in ("people=1", "rest=-1", "rest=much"):
        code, _, said = typed(*small, "--effect", "5", "--sd", wrong)
        assert (code, f"--sd {wrong}" in said) == (2, True)


def test_files_to_deploy_name_the_plan_and_the_domain(
    typed: Typed, plan: Path, tmp_path: Path
) -> None:
    out = tmp_path / "deploy"
    assert typed("study", "deploy", plan, "--domain", "study.example.org", "-o", out)[0] == 0
    assert "study.example.org {" in (out / "Caddyfile").read_text()
    assert '"study.toml"' in (out / "Dockerfile").read_text()
    assert "$http_host" in (out / "nginx.conf").read_text()
    assert typed("study", "deploy", plan, "--domain", "a b", "-o", out)[0] == 2
