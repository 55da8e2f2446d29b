"""Several runs read as one: nothing is dropped, whatever the order in which they are named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.plans import Plan
from segmeter.engine import run_plan
from segmeter.models.synthetic import Disc
from segmeter.store import Run, RunFolder

Typed = Callable[..., tuple[int, str, str]]
PLAN = Plan("noc", (Spec("disc"), Spec("synthetic-noisy")), (Spec("drawn"),), rounds=3, limit=6)
WEIGHTED = replace(PLAN, segmenters=(Spec("weighted"),))


class Weighted(Disc):
    """A model whose weights, and thus masks, may be of two versions."""

    def __init__(self, version: str, radius: int) -> None:
        super().__init__(radius=radius)
        self.card = replace(Disc.card, name="weighted", fingerprint=version)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Two shards of a plan, and the whole."""
    base = tmp_path_factory.mktemp("several")
    for k in (1, 2):
        run_plan(PLAN, base / str(k), workers=0, shard=(k, 2))
    run_plan(PLAN, base / "whole", workers=0)
    return base / "1", base / "2", base / "whole"


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("versions")
    for name, radius in (("old", 9), ("new", 14)):
        objects = {"weighted": Weighted(name, radius)}
        run_plan(WEIGHTED, base / name, objects=objects)
    return base / "old", base / "new"


def facts(run: Run) -> list[tuple[object, ...]]:
    found = sorted(run.summary(), key=lambda r: (r.key, r.statistic))
    return [(r.key, r.statistic, r.value, r.low, r.high, r.targets) for r in found]


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 0), (0, 2), (2, 1)])
def test_shards_of_one_model_are_joined_in_any_order(
    shards: tuple[Path, Path, Path], order: tuple[int, ...]
) -> None:
    whole, joined = Run.open(shards[2]), Run.open([shards[k] for k in order])
    key = "model, scene, target, protocol, round"
    query = f"select {key}, iou, mask from rows order by {key}"
    assert joined.sql(query).equals(whole.sql(query))
    names = [str(model) for model in joined.plan.segmenters]
    assert names == ["disc", "synthetic-noisy"]
    if order != (0, 2):
        times = ("seconds", "waiting")  # measured, and other in every run
        told = [f for f in facts(joined) if not any(t in str(f[1]) for t in times)]
        assert told == [f for f in facts(whole) if not any(t in str(f[1]) for t in times)]


def test_tables_of_two_shards_count_all_objects(
    shards: tuple[Path, Path, Path], typed: Typed
) -> None:
    counts = []
    for runs in ((shards[0], shards[1]), (shards[1], shards[0]), (shards[2],)):
        code, out, err = typed("compare", *runs, "--json")
        assert code == 0, err
        counts.append({row["targets"] for row in json.loads(out)["rows"]})
    assert counts[0] == counts[1] == counts[2]


def test_two_versions_of_a_model_get_the_names_of_their_runs(
    versions: tuple[Path, Path],
) -> None:
    for runs in (versions, versions[::-1]):
        opened = Run.open(list(runs))
        names = [f"weighted ({run})" for run in runs]
        assert [str(model) for model in opened.plan.segmenters] == names
        assert list(opened.provenance["segmenters"]) == names
        for name, run in zip(names, runs, strict=True):
            query = 'select scene, target, "user", protocol, round, iou from rows'
            mine = opened.sql(f"{query} where model = ? order by all", [name])
            assert mine.equals(Run.open(run).sql(f"{query} order by all"))
            assert opened.job_rows(name, "drawn", "000")[0]["model"] == name


def test_comparing_old_with_new_keeps_the_order_in_which_they_are_named(
    versions: tuple[Path, Path], typed: Typed
) -> None:
    old, new = (f"weighted ({run})" for run in versions)
    forth, back = Run.open(list(versions)), Run.open(list(versions[::-1]))
    assert {(d.first, d.second) for d in forth.differences()} == {(old, new)}
    assert {(d.first, d.second) for d in back.differences()} == {(new, old)}
    values = {(d.protocol, d.statistic): d for d in back.differences()}
    for d in forth.differences():
        other = values[d.protocol, d.statistic]
        turned = (-other.value, -other.high, -other.low, other.p)
        assert (d.value, d.low, d.high, d.p) == pytest.approx(turned, rel=1e-9, abs=1e-9)
    code, _, err = typed("compare", *versions)
    assert code == 0, err
    assert forth.summary()[0].model == old


def test_models_of_unknown_weights_are_distinguished_by_their_results(tmp_path: Path) -> None:
    for name, radius in (("a", 9), ("same", 9), ("b", 14)):
        run_plan(WEIGHTED, tmp_path / name, objects={"weighted": Weighted("", radius)})
    opened = Run.open([tmp_path / name for name in ("a", "same", "b")])
    assert [str(m) for m in opened.plan.segmenters] == [
        f"weighted ({tmp_path / name})" for name in ("a", "b")
    ]


def test_errors_of_jobs_that_another_run_finished_are_not_shown(
    shards: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    first = RunFolder(shutil.copytree(shards[0], tmp_path / "first"))
    second = RunFolder(shards[1])
    plan = first.plan
    from segmeter.core.plans import Job

    jobs = [Job(m, plan.datasets[0], f"{k:03}") for m in plan.segmenters for k in range(6)]
    (done, *_) = (job for job in jobs if job.id in second.finished())
    first.fail(done, "it failed here", "")
    assert len(Run(first).sql("select * from errors")) == 1
    assert len(Run([first, second]).sql("select * from errors")) == 0


def test_runs_that_cannot_be_compared_are_refused(
    shards: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    run_plan(replace(PLAN, rounds=2), tmp_path / "r", workers=0)
    with pytest.raises(BadInput, match="different rounds"):
        Run.open([shards[0], tmp_path / "r"])
