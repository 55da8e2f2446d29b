"""The plan: every fault is one sentence that says what and where."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from segmeter.core.errors import BadInput, NotFound, SegmeterError
from segmeter.study.plan import BUILT_IN, KINDS, Question, parse_plan, read_plan
from segmeter.study.wording import read_answers, read_words

FAULTS = {
    'kind = "click"': "did you mean 'clicks'",
    "": "'kind' is missing",
    'kind = "clicks"\nseeds = 1': "unknown key 'seeds'; did you mean 'seed'",
    'kind = "clicks"\n[design]\nmodes = ["Object_Cutout"]': "did you mean 'Object_CutOut'",
    'kind = "clicks"\n[design]\nbatch = 0': "'batch' should be greater than or equal to 1, not 0",
    'kind = "clicks"\n[design]\nbatch = true': "'batch' should be a valid integer, not True",
    'kind = "clicks"\n[design]\ndevices = ["tv"]': "not 'tv'",
    'kind = "clicks"\n[validity]\nradius = -1': "'radius' should be greater than or equal to 0",
    'kind = "clicks"\n[validity]\nradius = nan': "'radius' should be a finite number",
    'kind = "clicks"\n[texts]\nconsnt = "x"': "did you mean 'consent'",
    'kind = "clicks"\n[[mode]]\nname = "A"\nscreens = [{ show = "image", seconds = 1 }]': "waits",
    'kind = "clicks"\n[[mode]]\nname = "A"\nscreens = [{ show = "film" }]': "'show' is one of",
    'kind = "clicks"\n[[mode]]\nname = "<b>"\nscreens = [{ show = "image" }]': "should match",
    'kind = "rate"': "needs [[masks]]",
    'kind = "clicks"\n[validity]\nexclude = ["lat"]': "did you mean 'late'",
    'kind = "clicks"\n[[questions]]\nname = "age"\ntext = "Age?"': "at least two",
    'kind = "clicks"\n[[design.quotas]]\nquestion = "a"\nanswer = "x"\npeople = 3': "no question",
    'kind = "clicks"\ntext = "x"': "unknown key 'text'",
    'kind = "rate"\n[[masks]]\nsource = "ground_truth"': "'name' is missing",
    'kind = "rate"\n[[masks]]\nname = "a"\nsource = "run"': "need 'run' and 'model'",
    'kind = "rate"\n[[masks]]\nname = "a"\n[[masks]]\nname = "a"': "same name",
    'kind = "interact"': "needs design.models",
    'kind = "clicks-round2"\n[[masks]]\nname = "a"': "have none",
    "kind = [": "not TOML",
}


@pytest.mark.parametrize(("text", "sentence"), FAULTS.items())
def test_a_fault_is_reported_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as said:
        parse_plan(text, Path())
    assert sentence in str(said.value)
    assert "\n" not in str(said.value)


def test_a_missing_or_huge_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="study new"):
        read_plan(tmp_path / "no.toml")
    (tmp_path / "huge.toml").write_bytes(b"#" * (2 << 20))
    with pytest.raises(BadInput, match="1 MB"):
        read_plan(tmp_path / "huge.toml")
    (tmp_path / "latin.toml").write_bytes(b'kind = "\xff"')
    with pytest.raises(BadInput, match="UTF-8"):
        read_plan(tmp_path / "latin.toml")


@pytest.mark.parametrize("kind", KINDS)
def test_the_plans_that_study_new_writes_are_valid(kind: str) -> None:
    text = (files("segmeter.study") / "plans" / f"{kind}.toml").read_text("utf-8")
    plan = parse_plan(text, Path())
    assert plan.kind == kind
    # What is commented out is right too, once it is taken in.
    lines = [line for line in text.splitlines() if not line.startswith("# A ")]
    taken = "\n".join(line.removeprefix("# ") if _is_code(line) else line for line in lines)
    assert parse_plan(taken, Path()).kind == kind


def _is_code(line: str) -> bool:
    return line.startswith("# ") and ("=" in line or line.startswith(("# [", "#   {", "# ]")))


def test_modes_have_the_times_of_the_paper() -> None:
    seconds = {name: [s.seconds for s in mode.screens] for name, mode in BUILT_IN.items()}
    assert seconds["Text_Description"] == [1.5, 2.5, 1.5, None]
    assert seconds["Object_CutOut"] == [1.5, 2.0, 1.5, None]
    assert seconds["Silhouette_Mask"] == [1.5, 2.0, 1.5, None]
    for mode in BUILT_IN.values():
        assert all(screen.seconds for screen in mode.screens[:-1])
        assert mode.screens[-1].seconds is None


def test_the_hash_changes_with_every_letter() -> None:
    one, other = 'kind = "clicks"', 'kind = "clicks"  # a remark'
    assert parse_plan(one, Path()).hash != parse_plan(other, Path()).hash


def test_a_custom_language_is_one_file(tmp_path: Path) -> None:
    english = (files("segmeter.study") / "words" / "en.toml").read_text("utf-8")
    (tmp_path / "fr.toml").write_text(english.replace('"Start"', '"Commencer"'), "utf-8")
    text = 'kind = "clicks"\nlanguages = ["fr", "en"]\nwords = "."'
    assert read_words(parse_plan(text, tmp_path))["fr"]["start"] == "Commencer"
    with pytest.raises(SegmeterError, match="no texts for the language 'it'"):
        read_words(parse_plan('kind = "clicks"\nlanguages = ["it"]', tmp_path))
    with pytest.raises(BadInput, match="language code"):
        read_words(parse_plan('kind = "clicks"\nlanguages = ["../en"]\nwords = "."', tmp_path))
    (tmp_path / "fr.toml").write_text('start = "Commencer"', "utf-8")
    with pytest.raises(BadInput, match=r"fr.toml has no"):
        read_words(parse_plan(text, tmp_path))


def test_both_shipped_languages_are_complete() -> None:
    words = read_words(parse_plan('kind = "clicks"', Path()))
    assert words["en"].keys() == words["de"].keys()
    for name, text in words["en"].items():
        holes = {part.split("}")[0] for part in text.split("{")[1:]}
        assert holes == {part.split("}")[0] for part in words["de"][name].split("{")[1:]}, name


@pytest.mark.parametrize(
    ("given", "kept"),
    [("1234567.25", "1234567.25"), ("30.0", "30"), ("0.1", "0.1"), ("1e9", None), ("nan", None)],
)
def test_a_number_is_kept_with_all_its_digits(given: str, kept: str | None) -> None:
    asked = Question.model_validate({"name": "n", "text": "How many?", "kind": "number"})
    found, wrong = read_answers([asked], {"n": [given]})
    assert found == ({"n": kept} if kept else {})
    assert wrong == ([] if kept else ["n"])
