"""Documentation cards: data set, model and annotation cards, filled from data and runs.

The questions are those of Segment Anything's supplement G (datasheets for data sets,
CrowdWorkSheets, model cards). segmeter fills what it can measure; the rest is marked for a person
to answer, and answers are kept when a card is made again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any, Literal

from segmeter.api.loading import as_model, load_dataset
from segmeter.api.runs import open_run
from segmeter.core.errors import BadInput, check_choice
from segmeter.core.references import cited
from segmeter.core.wording import counted

__all__ = ["make_card"]

Kind = Literal["dataset", "model", "annotation"]
TODO = "TODO(author)"
Facts = dict[tuple[str, int], str]

QUESTIONS: Mapping[str, Mapping[str, Sequence[str]]] = json.loads(
    (files("segmeter.api") / "card_questions.json").read_text("utf-8")
)
"""Sections and questions of each card; a question's number is its place, from 1 on."""

_TITLES = {"dataset": "Data set card", "model": "Model card", "annotation": "Annotation card"}


@dataclass(frozen=True, slots=True)
class Card:
    """A card: what segmeter filled in, what a person answered, and metadata for a hub.

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
            {
                "section": section,
                "number": number,
                "topic": topic,
                "filled": self.filled.get((section, number)),
                "answer": self.answers.get((section, number)),
            }
            for section, number, topic in self._questions()
        ]
        head = {"card": self.kind, "subject": self.subject, "metadata": dict(self.metadata)}
        return json.dumps(head | {"questions": entries}, indent=1, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """The card as Markdown with metadata that Hugging Face reads."""
        lines = ["---", *(f"{k}: {json.dumps(v)}" for k, v in self.metadata.items()), "---", ""]
        lines += [f"# {_TITLES[self.kind]}: {self.subject}", ""]
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
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        made = []
        for name, text in (("card.json", self.to_json()), ("README.md", self.to_markdown())):
            fresh = place / f"{name}.partial"
            fresh.write_text(text, encoding="utf-8")
            made.append(fresh.replace(place / name))
        return made

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
    earlier: str | Path | None = None,
) -> Card:
    """Make a data set, model or annotation card.

    Parameters
    ----------
    kind
        `"dataset"`, `"model"` or `"annotation"`.
    subject
        The name of the data set (or a folder) or of the model.
    runs
        Run folders whose results and hardware the card reports.
    data, weights
        Folders of data sets and of weights.
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
    elif kind == "dataset":
        filled, metadata = _dataset_facts(subject, data, opened)
    else:
        name = load_dataset(subject, data).card.name
        filled, metadata = {}, {"pretty_name": name, "tags": ["segmeter", "annotation-card"]}
    answers = {} if earlier is None else _answers(Path(earlier), kind)
    return Card(kind, subject, filled, answers, metadata)


def _answers(path: Path, kind: str) -> Facts:
    """The answers by people of an earlier card."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["card"] != kind:
            raise BadInput(f"'{path}' is a {content['card']} card, not a {kind} card")
        entries = content["questions"]
        return {(e["section"], e["number"]): str(e["answer"]) for e in entries if e.get("answer")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"'{path}' cannot be read as a card: {error}") from error


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
    filled: Facts = {
        ("Composition", 1): "Images or volumes with a mask per object.",
        ("Composition", 2): f"{counted(len(counts), 'image')} and {sum(counts)} masks ({per}); "
        f"{_size_range(sizes)}.",
        ("Composition", 4): _areas(areas),
        ("Composition", 5): _labels(labels),
        ("Composition", 6): f"{sum(n == 0 for n in counts)} images have no mask."
        + (f" {card.missing}" if card.missing else ""),
        ("Composition", 8): f"{repeated} masks repeat another of their image exactly; {covered} "
        "pairs of masks overlap.",
        ("Preprocessing, cleaning, labelling", 1): "Read by segmeter as stored; "
        + (card.notes.strip() or "no conversion is noted."),
    }
    if card.licence:
        filled["Distribution", 4] = card.licence
    if card.homepage:
        filled["Maintenance", 1] = card.homepage
    if runs:
        filled["Uses", 1] = "; ".join(_told(run) for run in runs)
    return filled, {"license": card.licence or "unknown", "pretty_name": card.name,
                    "tags": ["segmeter", "image-segmentation"]}  # fmt: skip


def _size_range(sizes: Sequence[tuple[int, ...]]) -> str:
    if not sizes:
        return "no image"
    ordered = sorted(sizes)
    low, high = (" x ".join(map(str, size[::-1])) for size in (ordered[0], ordered[-1]))
    return f"sizes from {low} to {high}"


def _areas(areas: Sequence[int]) -> str:
    if not areas:
        return "No mask."
    small = sum(area < 32 * 32 for area in areas) / len(areas)
    return f"Median mask area {median(areas):.0f} pixels; {100 * small:.0f} % are below 32 x 32."


def _labels(labels: Counter[str]) -> str:
    if not labels:
        return "Objects have no class."
    most = ", ".join(f"{name} {many}" for name, many in labels.most_common(10))
    return f"{counted(len(labels), 'class')}, most frequent: {most}."


def _model_facts(
    subject: str, weights: str | Path | None, runs: Sequence[Any]
) -> tuple[Facts, dict[str, Any]]:
    model = as_model(subject, weights)
    card = model.card
    numbers = _parameters(model)
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
        filled["Metrics", 1] = "; ".join(_metric(entry) for entry in results) + "."
        names = dict.fromkeys(entry["dataset"]["name"] for entry in results)
        filled["Evaluation data", 1] = ", ".join(names)
        filled["Factors", 2] = "; ".join(_told(run) for run in runs)
    metadata: dict[str, Any] = {
        "license": (card.licence or "unknown").lower(),
        "pipeline_tag": "mask-generation",
        "tags": ["segmeter", "image-segmentation"],
    }
    if results:
        metadata["model-index"] = [{"name": card.name, "results": results}]
    return filled, metadata


def _parameters(model: Any) -> str:
    """The number of parameters by the headers of the weights, where they are at hand."""
    from math import prod

    from segmeter.models import weights as weight_files

    path = getattr(model, "weights_path", None)
    if path is None or path == weight_files.ABSENT:
        return ""
    sizes = weight_files.sizes(path)
    if not sizes:
        return ""
    return f", {sum(prod(shape) for shape in sizes.values()) / 1e6:.1f} M parameters stored"


def _results(run: Any, subject: str) -> list[dict[str, Any]]:
    """The headline of a run as results of a model-index, one per data set, user and protocol."""
    benchmark = run.benchmark
    cards = {card.name: card for card in benchmark.statistics(run)}
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    name = subject.partition("?")[0]
    for row in run.summary():
        if row.model.partition("?")[0] == name and row.measure in benchmark.headline:
            metric = {
                "type": row.measure,
                "name": cards[row.measure].title,
                "value": round(row.value, 4),
                "args": {"low": round(row.low, 4), "high": round(row.high, 4)},
            }
            groups.setdefault((row.dataset, row.user, row.protocol), []).append(metric)
    if not groups:
        raise BadInput(f"run '{run.address}' has no results of model '{name}'")
    return [
        {
            "task": {"type": "mask-generation", "name": f"segmeter {run.plan.benchmark}"},
            "dataset": {
                "name": dataset,
                "type": dataset,
                "config": " ".join(filter(None, (user, protocol))),
            },
            "metrics": metrics,
        }
        for (dataset, user, protocol), metrics in groups.items()
    ]


def _metric(entry: Mapping[str, Any]) -> str:
    numbers = ", ".join(
        f"{m['name']} {m['value']:g} [{m['args']['low']:g}, {m['args']['high']:g}]"
        for m in entry["metrics"]
    )
    return f"{entry['dataset']['name']} ({entry['dataset']['config']}): {numbers}"


def _told(run: Any) -> str:
    """A run in a phrase: benchmark, and the hardware that its provenance names."""
    entries = run.provenance.get("commands") or []
    machine = entries[-1].get("machine", {}) if entries else {}
    on = f" on {machine['processor']}, {machine['cores']} cores" if "processor" in machine else ""
    return f"segmeter {run.plan.benchmark}, {len(run.plan.segmenters)} models{on}"
