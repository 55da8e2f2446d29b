"""The point evaluation: what is point_sessions, the oracle, the top line, the report."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from segmeter.benchmarks.zeroshot.points import Points
from segmeter.benchmarks.zeroshot.points.statistics import (
    ALL,
    STATISTICS,
    baseline_of,
    sections,
    with_means,
)
from segmeter.core import catalogue
from segmeter.core.capabilities import OffersSome, capable
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ModelCard, Request
from segmeter.core.plans import Plan
from segmeter.core.scenes import Image, Target
from segmeter.core.scores_by_step import Tables
from segmeter.core.sections import Table
from segmeter.evaluation import evaluate
from segmeter.stats.statistics import summary_of

SHAPE = (40, 60)
GROUND_TRUTH = Mask.box(SHAPE, (10, 10), (30, 40))
WHOLES = (Mask.box(SHAPE, (10, 10), (30, 25)), GROUND_TRUTH, Mask.box(SHAPE, (5, 5), (35, 55)))


class ThreeMasks:
    """Offers three masks for one point and trusts the last most; then it knows the ground truth."""

    card = ModelCard("three-masks", "", frozenset({"click"}))

    def encode(self, scene):
        return self

    def predict(self, requests):
        return [Prediction(len(request.prompts) > 1, request) for request in requests]


class Prediction:
    state = None

    def __init__(self, later, request: Request):
        self.masks = (GROUND_TRUTH,) if later else WHOLES
        self.scores = np.linspace(0.1, 0.9, len(self.masks), dtype=np.float32)
        self.shown = len(self.masks) - 1

    def mask(self, candidate=None):
        return self.masks[self.shown if candidate is None else candidate]


def rows_of(model, protocols=("published", "corrected"), rounds=9, users=("centre-point",)):
    scene = Image("made", "one", np.zeros((*SHAPE, 3), np.uint8), [Target("t", GROUND_TRUTH)])
    benchmark = catalogue.benchmarks.make("points")
    specs = tuple(Spec(name) for name in users)
    plan = Plan("points", (Spec("x"),), (), users=specs, protocols=protocols, rounds=rounds)
    return benchmark.work(model, scene, benchmark.plan(plan))


def test_nine_rounds_are_run_and_the_oracle_is_of_the_first_only():
    rows = rows_of(ThreeMasks(), protocols=("corrected",))
    assert [row["round"] for row in rows] == list(range(1, 10))
    assert rows[0]["iou"] == pytest.approx(600 / 1500)
    assert rows[0]["oracle_iou"] == 1.0
    assert [row["oracle_iou"] for row in rows[1:]] == [None] * 8
    assert [row["iou"] for row in rows[1:]] == [1.0] * 8


def test_the_oracle_chooses_among_the_masks_on_offer_only():
    """A SAM also holds its single mask, which it does not offer for a lone point."""

    @capable(OffersSome)
    class Offering(Prediction):
        offered = (0, 2)

    class Two(ThreeMasks):
        def predict(self, requests):
            return [Offering(len(request.prompts) > 1, request) for request in requests]

    class Guessing(Two):
        card = ModelCard("two", "", frozenset({"click"}))

    rows = rows_of(Guessing(), protocols=("corrected",), rounds=1)
    assert rows[0]["oracle_iou"] == pytest.approx(300 / 600)


def test_a_perfect_mask_ends_a_corrected_session_and_a_published_one_clicks_the_corner():
    """Difference 2 of the register."""
    rows = {r["protocol"]: [] for r in rows_of(ThreeMasks())}
    for row in rows_of(ThreeMasks()):
        rows[row["protocol"]].append(row)
    assert [r["stopped"] for r in rows["corrected"]] == [False] * 2 + [True] * 7
    clicks = [(r["y"], r["x"], r["positive"]) for r in rows["published"]]
    assert clicks[2:] == [(0.0, 0.0, False)] * 7
    assert rows["corrected"][-1]["iou"] == rows["published"][-1]["iou"] == 1.0


def test_a_random_first_point_is_on_the_object_and_equal_for_all_workers():
    first, second = (rows_of(ThreeMasks(), users=("random-point",)) for _ in range(2))
    assert [(r["y"], r["x"]) for r in first] == [(r["y"], r["x"]) for r in second]
    assert GROUND_TRUTH[int(first[0]["y"]), int(first[0]["x"])]
    centre = rows_of(ThreeMasks())
    assert (first[0]["y"], first[0]["x"]) != (centre[0]["y"], centre[0]["x"])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    models = ["synthetic-oracle", "disc?radius=9", ThreeMasks()]
    out = tmp_path_factory.mktemp("points") / "run"
    return evaluate(models[:2], ["drawn", "mini"], benchmark="points", out=out, limit=3, workers=0)


def test_the_summary_has_every_n_the_oracle_and_the_unweighted_mean(run):
    rows = {(r.model, r.dataset, r.protocol, r.statistic): r for r in run.summary()}
    model = "disc?radius=9"
    for measure in ("iou@1", "iou@2", "iou@3", "iou@5", "iou@9", "oracle@1"):
        one, other, top = (rows[model, d, "corrected", measure] for d in ("drawn", "mini", ALL))
        assert top.value == pytest.approx((one.value + other.value) / 2)
        assert top.low <= top.value <= top.high
        assert top.targets == one.targets + other.targets


def test_the_oracle_is_never_worse_than_what_is_shown(run):
    for group in Tables.load(run, ["iou", "oracle_iou"]):
        assert (group.table("oracle_iou")[:, 0] >= group.table("iou")[:, 0] - 1e-9).all()


def test_the_report_sets_models_against_the_baseline(run):
    titles = [s.title for s in sections(run)]
    assert titles[:2] == ["Results", "Side by side with the baseline"]
    (table,) = sections(run)[1].blocks
    assert isinstance(table, Table)
    assert table.caption.startswith("disc?radius=9 minus synthetic-oracle")
    data, gaps, oracle = zip(*table.rows, strict=True)
    assert set(data) == {"drawn", "mini"}
    values = [gap.value for gap in gaps]
    assert values == sorted(values, reverse=True)
    assert all(isinstance(gap, float) for gap in oracle)


def test_weights_of_data_sets_are_equal_for_any_size():
    """Difference 24 of the register: the mean hides sizes, so it has an interval."""
    large = _played("large", np.full(100, 0.8))
    small = _played("small", np.array([0.2, 0.4]))
    rows = list(summary_of(with_means([large, small]), STATISTICS))
    assert [r.dataset for r in rows] == ["large", "small", ALL]
    line = rows[-1]
    assert line.value == pytest.approx((80 + 30) / 2)
    assert line.low == pytest.approx((80 + 20) / 2)
    assert line.high == pytest.approx((80 + 40) / 2)


def _played(name, values):
    keys = tuple((str(k), "t") for k in range(len(values)))
    clusters = tuple(str(k) for k in range(len(values)))
    lines = pa.table({"iou": [[v] for v in values], "oracle_iou": [[None] for _ in values]})
    return Tables("m", name, "u", "corrected", keys, clusters, lines, {})


def test_sam_models_follow_the_papers_rules_by_default():
    for asked, options in (
        (Spec("mobile-sam"), {"masks": "zeroshot"}),
        (Spec("mobile-sam", {"masks": "corrected"}), {"masks": "corrected"}),
        (Spec("disc"), {}),
        (Spec("an object of mine"), {}),
    ):
        assert Points().with_defaults(asked).options == options


def test_a_wrong_setting_is_refused():
    with pytest.raises(BadInput, match="has no option 'base'"):
        catalogue.benchmarks.make("points").plan(
            Plan("points", (Spec("disc"),), (), options={"base": "x"})
        )


def test_the_baseline_is_one_of_the_models_by_name_or_with_its_options():
    models = (Spec("disc", {"radius": 5}), Spec("disc", {"radius": 9}), Spec("mobile-sam"))
    benchmark = catalogue.benchmarks.make("points")
    for asked, found in (
        ("disc", "disc?radius=5"),
        ("disc?radius=9", "disc?radius=9"),
        ("mobile-sam", "mobile-sam?masks=zeroshot"),
        ("", "disc?radius=5"),
    ):
        plan = benchmark.plan(Plan("points", models, (), options={"baseline": asked}))
        assert baseline_of(SimpleNamespace(plan=plan)) == found
    with pytest.raises(BadInput, match="baseline 'ritm' is not among the models"):
        benchmark.plan(Plan("points", models, (), options={"baseline": "ritm"}))
