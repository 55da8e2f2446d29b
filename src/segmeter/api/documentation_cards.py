"""Documentation cards: dataset, model and annotation cards, filled from data and runs.

The questions are those of Segment Anything's supplement G (datasheets for datasets,
CrowdWorkSheets, model cards). segmeter fills what it can measure; the rest is marked for a person
to answer, and answers are kept when a card is made again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import prod
from pathlib import Path
from statistics import median, stdev
from typing import Any, Literal

from segmeter.analysis.breakdown import splits
from segmeter.api.loading import as_model, load_dataset
from segmeter.api.runs import open_run
from segmeter.core.citations import cited
from segmeter.core.errors import BadInput, BadWeights, check_choice
from segmeter.core.grouping import grouped_pairs
from segmeter.core.wording import counted
from segmeter.datasets.groups import read_table
from segmeter.datasets.image_files import named_errors
from segmeter.models import weights as weight_files
from segmeter.store.local import write_file

Kind = Literal["dataset", "model", "annotation"]
TODO = "TODO(author)"
Facts = dict[tuple[str, int], str]

QUESTIONS: Mapping[str, Mapping[str, Sequence[str]]] = json.loads(
    (files("segmeter.api") / "card_questions.json").read_text("utf-8")
)
"""Sections and questions of each card; a question's number is its place, from 1 on."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card: segmeter's entries, a person's answers, and metadata for a hub.

    `filled` and `answers` have texts by section and question number; a person's answer is shown
    instead of what was filled in.
    """

    kind: Kind
    subject: str
    filled: Mapping[tuple[str, int], str]
    answers: Mapping[tuple[str, int], str]
    metadata: Mapping[str, Any]

    @property
    def open_questions(self) -> int:
        """Questions that a person still has to answer."""
        known = {*self.filled, *self.answers}
        return sum((s, n) not in known for s, n, _ in self._questions())

    def to_json(self) -> str:
        """The card as JSON; people write into `answer`, which `make_card` keeps."""
        entries = [
            {"section": section, "number": number, "topic": topic,
             "filled": self.filled.get((section, number)),
             "answer": self.answers.get((section, number))}
            for section, number, topic in self._questions()
        ]  # fmt: skip
        head = {"card": self.kind, "subject": self.subject, "metadata": dict(self.metadata)}
        return json.dumps(head | {"questions": entries}, indent=1, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """The card as Markdown with metadata that Hugging Face reads."""
        lines = ["---", *(f"{k}: {json.dumps(v)}" for k, v in self.metadata.items()), "---", ""]
        lines += [f"# {self.kind.capitalize()} card: {self.subject}", ""]
        section = ""
        for own, number, topic in self._questions():
            if own != section:
                section = own
                lines += [f"## {section}", ""]
            key = (own, number)
            text = self.answers.get(key) or self.filled.get(key) or TODO
            lines += [f"**{number}. {topic[0].upper()}{topic[1:]}.** {text}", ""]
        return "\n".join(lines)

    def write(self, folder: str | Path) -> list[Path]:
        """Write `card.json` and `README.md` into a folder; returns the files."""
        texts = {"card.json": self.to_json(), "README.md": self.to_markdown()}
        for name, text in texts.items():
            write_file(Path(folder) / name, text.encode())
        return [Path(folder) / name for name in texts]

    def _questions(self) -> list[tuple[str, int, str]]:
        return [
            (section, number, topic)
            for section, topics in QUESTIONS[self.kind].items()
            for number, topic in enumerate(topics, start=1)
        ]


def make_card(
    kind: Kind,
    subject: str,
    *,
    runs: Sequence[str | Path] = (),
    data: str | Path | None = None,
    weights: str | Path | None = None,
    study: str | Path | None = None,
    by: str = "",
    watts: float | None = None,
    earlier: str | Path | None = None,
) -> Card:
    """Make a dataset, model or annotation card.

    Parameters
    ----------
    kind
        `"dataset"`, `"model"` or `"annotation"`.
    subject
        The name of the dataset (or a folder) or of the model.
    runs
        Run folders whose results and hardware the card reports.
    data, weights
        Folders of datasets and of weights.
    study
        Folder that `segmeter study export` wrote, for an annotation card.
    by
        Groups of the fairness table of a model card, as in `segmeter report --by`.
    watts
        Power of the machine that trained the model, for the energy in its card.
    earlier
        A card made before (`card.json`); its answers by people are kept.

    Examples
    --------
    >>> import segmeter
    >>> card = segmeter.make_card("dataset", "mini")
    >>> card.filled["Composition", 2].startswith("11 images")
    True
    """
    check_choice("card", kind, QUESTIONS)
    opened = [open_run(run) for run in runs]
    if kind == "model":
        filled, metadata = _model_facts(subject, weights, opened)
        filled |= _fairness(opened, subject, by) if by else {}
        filled |= trained_facts(getattr(as_model(subject, weights), "weights_path", None), watts)
    elif kind == "dataset":
        filled, metadata = _dataset_facts(subject, data, opened)
    else:
        name = load_dataset(subject, data).card.name
        filled = {} if study is None else _study_facts(Path(study))
        metadata = {"pretty_name": name, "tags": ["segmeter", "annotation-card"]}
    answers = {} if earlier is None else kept_answers(Path(earlier), kind)
    return Card(kind, subject, filled, answers, metadata)


def kept_answers(path: Path, kind: str) -> Facts:
    with named_errors(path, "cannot be read as a card"):
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["card"] != kind:
            raise BadInput(f"'{path}' is a {content['card']} card, not a {kind} card")
        entries = content["questions"]
        return {(e["section"], e["number"]): str(e["answer"]) for e in entries if e.get("answer")}


def _dataset_facts(
    subject: str, data: str | Path | None, runs: Sequence[Any]
) -> tuple[Facts, dict[str, Any]]:
    source = load_dataset(subject, data)
    counts: list[int] = []
    sizes: list[tuple[int, ...]] = []
    labels: Counter[str] = Counter()
    areas: list[int] = []
    repeated = covered = 0
    for scene in source:
        masks = [target.mask for target in scene.targets]
        counts.append(len(masks))
        sizes.append(scene.shape)
        labels.update(target.label for target in scene.targets if target.label)
        areas += [mask.area for mask in masks]
        repeated += len(masks) - len(set(masks))
        covered += sum(a.overlap(b) > 0 for i, a in enumerate(masks) for b in masks[:i])
    card = source.card
    per = f"{sum(counts) / max(1, len(counts)):.1f} per image, at most {max(counts, default=0)}"
    ends = [" x ".join(map(str, size[::-1])) for size in (min(sizes), max(sizes))] if sizes else []
    span = f"sizes from {' to '.join(ends)}" if ends else "no image"
    small = sum(area < 32 * 32 for area in areas) / max(1, len(areas))
    most = ", ".join(f"{name} {many}" for name, many in labels.most_common(10))
    filled: Facts = {
        ("Composition", 1): "Images or volumes with a mask per object.",
        ("Composition", 2): f"{counted(len(counts), 'image')} and {sum(counts)} masks ({per}); "
        f"{span}.",
        ("Composition", 4): f"Median mask area {median(areas):.0f} pixels; {100 * small:.0f} % are "
        "below 32 x 32." if areas else "No mask.",
        ("Composition", 5): f"{counted(len(labels), 'class')}, most frequent: {most}." if labels
        else "Objects have no class.",
        ("Composition", 6): f"{sum(n == 0 for n in counts)} images have no mask."
        + (f" {card.missing}" if card.missing else ""),
        ("Composition", 8): f"{repeated} masks repeat another of their image exactly; {covered} "
        "pairs of masks overlap.",
        ("Preprocessing, cleaning, labelling", 1): "Read by segmeter as stored; "
        + (card.notes.strip() or "no conversion is noted."),
    }  # fmt: skip
    if card.licence:
        filled["Distribution", 4] = card.licence
    if card.homepage:
        filled["Maintenance", 1] = card.homepage
    if runs:
        filled["Uses", 1] = "; ".join(_described_run(run) for run in runs)
    return filled, {**_licence(card.licence), "pretty_name": card.name,
                    "tags": ["segmeter", "image-segmentation"]}  # fmt: skip


def _model_facts(
    subject: str, weights: str | Path | None, runs: Sequence[Any]
) -> tuple[Facts, dict[str, Any]]:
    model = as_model(subject, weights)
    card = model.card
    path = getattr(model, "weights_path", None)  # their headers have the number of parameters
    sizes = None if path in (None, weight_files.ABSENT) else weight_files.sizes(path)
    count = sum(prod(shape) for shape in sizes.values()) if sizes else 0
    numbers = f", {count / 1e6:.1f} M parameters stored" if count else ""
    filled: Facts = {
        ("Overview", 1): card.name,
        ("Overview", 2): f"weights with the digest {card.fingerprint or 'unknown'}",
        ("Overview", 5): f"{card.summary}; takes {', '.join(sorted(card.abilities))}",
        ("Overview", 6): f"{card.family or 'unknown family'}{numbers}",
    }
    if card.citation:
        filled["Overview", 8] = cited(card.citation)
    if card.licence:
        filled["Overview", 9] = card.licence
    results = [entry for run in runs for entry in _results(run, subject)]
    if results:
        sentences = []
        for data, metrics in ((entry["dataset"], entry["metrics"]) for entry in results):
            values = [(m["name"], _limited(m["value"], *m["args"].values())) for m in metrics]
            numbers = ", ".join(f"{name} {value}" for name, value in values)
            sentences.append(f"{data['name']} ({data['config']}): {numbers}")
        filled["Metrics", 1] = "; ".join(sentences) + "."
        names = dict.fromkeys(str(spec) for run in runs for spec in run.plan.datasets)
        filled["Evaluation data", 1] = ", ".join(names)
        filled["Factors", 2] = "; ".join(_described_run(run) for run in runs)
    index = {"model-index": [{"name": card.name, "results": results}]} if results else {}
    return filled, {**_licence(card.licence), "pipeline_tag": "mask-generation",
                    "tags": ["segmeter", "image-segmentation"], **index}  # fmt: skip


def _licence(text: str) -> dict[str, str]:
    """A licence as Hugging Face writes it: an identifier, or `other` with a name."""
    known = ("apache-2.0", "mit", "bsd-3-clause", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0",
             "cc-by-nc-4.0", "agpl-3.0", "unknown")  # fmt: skip
    name = (text or "unknown").lower().replace("cc by", "cc-by").replace(" ", "-")
    return {"license": name} if name in known else {"license": "other", "license_name": text}


def _fairness(runs: Sequence[Any], subject: str, by: str) -> Facts:
    """Means of every group with intervals, and the differences that are significant."""
    sentences = []
    for run in runs:
        found_splits = splits(run.benchmark, run, by)
        name = _named(subject, [split.model for split in found_splits])
        for split in found_splits:
            if (split.model, split.protocol) != (name, run.plan.leading_protocol):
                continue
            intervals = [(m.group, m.interval) for m in split.means]
            means = ", ".join(f"{g} {_limited(i.value, i.low, i.high)}" for g, i in intervals)
            gaps = [f"{d.first} and {d.second}" for d in split.differences if d.significant]
            found = f"significant: {'; '.join(gaps)}" if gaps else "no significant difference"
            if means:
                what = f"{split.statistic.title} on {split.dataset} by {by}"
                sentences.append(f"{what}: {means} ({found})")
    if not sentences:
        raise BadInput(f"no run has results of '{subject}' by '{by}'; give its run with runs=")
    return {("Factors", 1): "; ".join(sentences) + "."}


def _limited(value: float, *limits: float) -> str:
    """A value with its limits, where there are any: a group of one image has none."""
    texts = [f"{round(n, 2 if abs(n) >= 1 else 3):.12g}" for n in (value, *limits) if n == n]
    return f"{texts[0]} [{', '.join(texts[1:])}]" if texts[1:] else "".join(texts)


def trained_facts(path: Path | None, watts: float | None) -> Facts:
    """Data and compute of a training by segmeter, which its weights carry."""
    from safetensors import SafetensorError, safe_open

    if path is None or not path.is_file() or path.suffix != ".safetensors":
        return {}
    try:
        with safe_open(path, framework="numpy") as file:
            notes = file.metadata() or {}
        if "segmeter.seconds" not in notes:
            return {}
        seconds, device, data, annotator = (
            notes[f"segmeter.{name}"] for name in ("seconds", "device", "data", "annotator")
        )
        hours = float(seconds) / 3600
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise BadWeights(f"'{path}' has damaged notes on its training: {error}") from error
    cost = f"{hours:.2f} hours on {device} for the decoder"
    if watts is not None:
        cost += f", {hours * watts / 1000:.3f} kWh at {watts:g} W"
    return {
        ("Training data", 1): f"Decoder: {data}, annotator {annotator}; the rest as published.",
        ("Ethics", 2): f"{cost}; the compute of the original weights is not known here.",
    }


def _study_facts(folder: Path) -> Facts:
    """Participants, checks and disagreement by the files that `segmeter study export` wrote."""
    people = read_table(folder / "participants.csv", "table of a study", "person")
    trials = read_table(folder / "trials.csv", "table of a study", "person")
    try:
        answers, counted_ = (sum(int(p[name]) for p in people) for name in ("answers", "counted"))
        checks, right = (sum(int(p[name]) for p in people) for name in ("checks", "checks_right"))
        minutes = median(float(p["minutes"]) for p in people)
        out = sum(p["excluded"] == "True" for p in people)
        kinds = [
            ", ".join(f"{k or 'not stated'} {n}" for k, n in Counter(p[of] for p in people).items())
            for of in ("language", "device")
        ]
    except (KeyError, ValueError, TypeError) as error:
        raise BadInput(f"'{folder}' is not an export of a study: {error}") from error
    several = f"{counted(len(people), 'participant')}, {out} of them excluded by the plan's rules"
    images = len({row.get("scene") for row in trials})
    filled: Facts = {
        ("Selecting annotators", 4): f"{several}; languages: {kinds[0]}; devices: {kinds[1]}.",
        ("Platform and infrastructure", 1): "segmeter study, a web tool; "
        f"{counted(answers, 'answer')} on {counted(images, 'image')}, median {minutes:.1f} "
        "minutes per participant.",
        ("Analysis and evaluation", 1): f"{right} of {checks} checks with known answers are right; "
        f"{several}.",
        ("Analysis and evaluation", 3): f"{counted_} of {answers} answers count by the rules of "
        "the plan; the export has all of them.",
    }
    spread = _rater_spread(folder / "ratings.csv")
    agreed = [float(p["agreement"]) for p in people if p.get("agreement")]
    if agreed and not spread:
        spread = f"Agreement of a participant with the others: median {median(agreed):.2f}."
    return filled | ({("Analysis and evaluation", 2): spread} if spread else {})


def _rater_spread(path: Path) -> str:
    """Standard deviation between raters of the same mask, over masks rated more than once."""
    rows = read_table(path, "table of a study", "job") if path.is_file() else []
    by_job = grouped_pairs((row["job"], float(row["score"])) for row in rows)
    several = [scores for scores in by_job.values() if len(scores) > 1]
    if not several:
        return ""
    mean = sum(stdev(scores) for scores in several) / len(several)
    over = counted(len(several), "mask")
    return f"Standard deviation between raters {mean:.2f} points, mean of {over}."


def _named(subject: str, models: Sequence[str]) -> str:
    """A model as a run names it: with the same options, or the first of the same name."""
    name = subject.partition("?")[0]
    alike = (model for model in models if model.partition("?")[0] == name)
    return subject if subject in models else next(alike, name)


def _results(run: Any, subject: str) -> list[dict[str, Any]]:
    """The headline of a run as results of a model-index, one per dataset, user and protocol."""
    benchmark = run.benchmark
    cards = {card.name: card for card in benchmark.statistics(run)}
    rows = run.summary()
    name = _named(subject, [row.model for row in rows])
    own = [row for row in rows if row.model == name and row.statistic in benchmark.headline]
    if not own:
        raise BadInput(f"run '{run.address}' has no results of model '{name}'")
    task = {"type": "mask-generation", "name": f"segmeter {run.plan.benchmark}"}
    by_key = grouped_pairs((row.key, row) for row in own)
    return [
        {"task": task,
         "metrics": [{"type": row.statistic, "name": cards[row.statistic].title,
                      "value": round(row.value, 4),
                      "args": {end: round(limit, 4) for end in ("low", "high")
                               if (limit := getattr(row, end)) == limit}}
                     for row in some],
         "dataset": {"name": dataset, "type": dataset,
                     "config": " ".join(filter(None, (user, protocol)))}}
        for (_, dataset, user, protocol), some in by_key.items()
    ]  # fmt: skip


def _described_run(run: Any) -> str:
    """A run in a phrase: benchmark, and the hardware that its provenance names."""
    entries = run.provenance.get("commands") or []
    machine = entries[-1].get("machine", {}) if entries else {}
    on = f" on {machine['processor']}, {machine['cores']} cores" if "processor" in machine else ""
    return f"segmeter {run.plan.benchmark}, {counted(len(run.plan.segmenters), 'model')}{on}"
