"""Exports: a study's answers as CSV and parquet files with a codebook, and as one archive."""

from __future__ import annotations

import csv
import io
import json
import math
import platform
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.grouping import grouped_pairs
from segmeter.datasets.recorded_clicks import COLUMNS, full_stem
from segmeter.report.exports import harmless
from segmeter.study import database as db
from segmeter.study.plan import Plan
from segmeter.study.preview import preregistration
from segmeter.study.records import steps_of
from segmeter.study.running import RunningStudy
from segmeter.study.stimuli import Stimuli
from segmeter.study.validity import Screened, excluded_people, screen_people
from segmeter.study.wording import questions_of, text_page

Rows = list[dict[str, Any]]
RATING_COLUMNS = (
    "job", "dataset", "scene", "target", "model", "rater", "role", "score", "seconds",
    "server_seconds", "order", "answered", "changes", "excluded", "plan",
)  # fmt: skip
_OF_TRIAL = ("trial", "person", "scene", "target", "condition", "device", "counts")
_OF_STEP = ("positive", "user_ms", "server_ms", "model_ms", "pointer", "zoom", "model_score")
_OF_PERSON = (
    "person", "number", "role", "label", "state", "language", "device", "condition", "joined",
    "finished", "minutes", "answers", "counted", "checks", "checks_right", "agreement", "flags",
    "excluded", "payable",
)  # fmt: skip
RESPONSE_COLUMNS = ("person", "question", "value", "answered")


def export(
    connection: sa.Connection,
    plan: Plan,
    stimuli: Stimuli,
    folder: Path,
    *,
    identifiers: bool = False,
) -> list[Path]:
    """Write all files of the study; each is written whole or not at all.

    Always: `trials` with every answer, counted or not, and `participants`, both as CSV and
    parquet, and `codebook.csv`. Clicks: `clicks.csv` in RClicks' columns (counted clicks only),
    and with several modes `previews.csv`. Ratings: `ratings.csv`. With a model in the loop:
    `steps`. `identifiers` adds what the recruiting platform calls participants.
    """
    trials = list(trial_rows(connection, plan))
    if not trials:
        raise BadInput("no participant has begun yet: there is nothing to export")
    folder.mkdir(parents=True, exist_ok=True)
    tables: dict[str, tuple[Sequence[str], Rows]] = {
        "trials": (_names(trials), trials),
        "participants": (participant_columns(identifiers), participant_rows(connection, plan)),
    }
    if plan.kind == "interact":
        steps = list(step_rows(connection, plan))
        tables["steps"] = (_names(steps), steps)
    written = [_write(folder / f"{n}.parquet", *table) for n, table in tables.items()]
    if plan.clicks:
        tables["clicks"] = (COLUMNS, list(click_rows(connection, plan, stimuli)))
    if plan.clicks and len(plan.modes) > 1:
        by_mode = list(click_rows(connection, plan, stimuli, by_mode=True))
        tables["previews"] = (COLUMNS, by_mode)
    if plan.kind == "rate":
        tables["ratings"] = (RATING_COLUMNS, list(rating_rows(connection, plan)))
    if plan.questions or plan.questionnaires:
        r = db.responses.c
        answers = sa.select(r.person, r.question, r.value, r.at.label("answered"))
        rows = connection.execute(answers.order_by(r.number)).mappings()
        tables["questionnaire"] = (RESPONSE_COLUMNS, [dict(row) for row in rows])
    book = codebook_rows({name: columns for name, (columns, _) in tables.items()}, plan)
    tables["codebook"] = (("file", "column", "unit", "meaning"), book)
    return written + [_write(folder / f"{n}.csv", *table) for n, table in tables.items()]


@cache
def meanings() -> dict[str, dict[str, str]]:
    """Unit and meaning of every column that an export may have."""
    text = (files("segmeter.study") / "codebook.csv").read_text("utf-8")
    return {row["column"]: row for row in csv.DictReader(io.StringIO(text))}


def codebook_rows(tables: Mapping[str, Sequence[str]], plan: Plan) -> Rows:
    """One row per column of every file, and one per question of the plan."""
    lacking = {name for names in tables.values() for name in names} - meanings().keys()
    if lacking:
        raise SegmeterError(f"the codebook lacks the column '{min(lacking)}'")
    rows = [{"file": file, **meanings()[name]} for file, names in tables.items() for name in names]
    for question in (*questions_of(plan, "before"), *questions_of(plan, "after")):
        text = next(iter(question.text.values()))
        choices = "; ".join(f"{k}: {next(iter(v.values()))}" for k, v in question.answers.items())
        unit = "0 to 100" if question.kind == "scale" else question.kind
        row = {"file": "questionnaire", "column": f"question={question.name}", "unit": unit}
        rows.append({**row, "meaning": f"{text} ({choices})" if choices else text})
    return rows


def click_rows(
    connection: sa.Connection, plan: Plan, stimuli: Stimuli, *, by_mode: bool = False
) -> Iterator[dict[str, Any]]:
    """Counted clicks in RClicks' columns; coordinates are rounded down to the pixel hit."""
    from segmeter.users.replay import NAMES

    name = NAMES.get(stimuli.dataset.card.name, stimuli.dataset.card.name)
    for row in counted_rows(connection, plan):
        several = len(stimuli.shown(row["scene"]).targets) > 1
        object = row["target"] if several else ""
        yield {
            "dataset": row["condition"] if by_mode else name,
            "image_stem": row["scene"],
            "object_stem": object,
            "model_type": row["source"],
            "click_type": row["part"],
            "full_stem": full_stem(row["scene"], object, row["source"], row["part"]),
            "device": row["device"],
            "x": math.floor(row["x"]),
            "y": math.floor(row["y"]),
            "w": row["natural_width"],
            "h": row["natural_height"],
        }


def rating_rows(connection: sa.Connection, plan: Plan) -> Iterator[dict[str, Any]]:
    """Every rating that counts; `order` counts a rater's answers, `changes` earlier scores.

    Ratings of excluded raters are marked `excluded`.
    """
    order, rows = Counter[str](), list(trial_rows(connection, plan))
    excluded, a = excluded_people(plan, rows), db.answers.c
    asked = sa.select(a.trial, a.body).where(a.kind == "answer").order_by(a.number)
    answers = connection.execute(asked)
    scores = grouped_pairs((trial, json.loads(body)["given"]["score"]) for trial, body in answers)
    for row in rows:
        if row["answered"] is None or row["training"] or row["check"]:
            continue
        order[row["person"]] += 1
        if not row["counts"]:
            continue
        yield {
            **{name: row[name] for name in RATING_COLUMNS if name in row},
            "job": row["task"],
            "model": row["condition"],
            "rater": row["person"],
            "server_seconds": row["server_ms"] / 1000,
            "order": order[row["person"]],
            "changes": sum(a != b for a, b in pairwise(scores[row["trial"]])),
            "excluded": row["person"] in excluded,
        }


def trial_rows(connection: sa.Connection, plan: Plan) -> Iterator[dict[str, Any]]:
    """Every trial with all its columns; what does not apply is empty."""
    t, b, p = db.tasks.c, db.batches.c, db.people.c
    last = db.latest_answers()
    asked = (
        sa.select(
            *(db.trials, db.trials.c.id.label("trial"), t.scene, t.target, t.condition, t.part),
            *(t.source, t.role.label("task_role"), last.c.body, b.person, b.device, b.opened),
            *(b.state.label("batch_state"), b.reason.label("batch_reason")),
            *(b.role.label("batch_role"), p.role, p.number.label("person_number")),
            p.device.label("declared"),
        )
        .select_from(db.ALL.outerjoin(last, last.c.trial == db.trials.c.id))
        .order_by(b.opened, b.id, db.trials.c.place)
    )
    for row in connection.execute(asked).mappings().all():
        body = json.loads(row["body"]) if row["body"] else {"given": {}, "server": {}}
        given, flags = dict(body["given"]), json.loads(row["flags"]) if row["flags"] else {}
        screens = given.pop("screens", [])
        given.pop("nonce", None)
        rating = plan.kind == "rate"
        yield {
            **{name: row[name] for name in ("trial", "person", "person_number", "role", "batch")},
            **{name: row[name] for name in ("batch_state", "batch_reason", "place")},
            "training": row["batch_role"] == "training",
            "check": row["task_role"] == "gold",
            "task": row["task"],
            "dataset": plan.data.dataset,
            **{name: row[name] for name in ("scene", "target", "condition", "part", "source")},
            "device": row["declared"] if rating or not row["device"] else row["device"],
            "counts": row["counts"] == 1,
            "opened": row["opened"],
            "answered": row["answered"],
            "planned_ms": [float(screen["planned_ms"]) for screen in screens],
            "true_ms": [float(screen["true_ms"]) for screen in screens],
            "server_ms": body["server"].get("ms"),
            "server_total_ms": body["server"].get("total_ms"),
            **{f"flag_{name}": value for name, value in flags.items()},
            **given,
            "seed": plan.seed,
            "plan": row["plan"],
        }


def counted_rows(connection: sa.Connection, plan: Plan) -> Rows:
    """The trials that count, of participants who are not excluded."""
    rows = list(trial_rows(connection, plan))
    excluded = excluded_people(plan, rows)
    return [row for row in rows if row["counts"] and row["person"] not in excluded]


def step_rows(connection: sa.Connection, plan: Plan) -> Iterator[dict[str, Any]]:
    """Every click of every session with a model, those that were taken back included."""
    for trial in trial_rows(connection, plan):
        for number, event in enumerate(steps_of(connection, trial["trial"], all_kinds=True), 1):
            if event["kind"] != "undo":
                yield {
                    **{name: trial[name] for name in _OF_TRIAL},
                    "step": number,
                    "undone": event["undone"],
                    "answered": event["at"],
                    **dict(zip("xyz", reversed(event["point"]), strict=False)),
                    **{name: event[name] for name in _OF_STEP},
                    **event["scores"],
                }


def participant_columns(identifiers: bool = False) -> list[str]:
    """Columns of the list of participants; identifiers of the platform only on request."""
    return [*_OF_PERSON, "platform"] if identifiers else list(_OF_PERSON)


def participant_rows(connection: sa.Connection, plan: Plan) -> Rows:
    """One row per participant: answers, time, flags, and whether to pay."""
    trials = list(trial_rows(connection, plan))
    screened = screen_people(plan, trials)
    given = [row for row in trials if row["answered"] is not None and not row["training"]]
    answered = grouped_pairs((row["person"], row) for row in given)
    found: Rows = []
    asked = sa.select(db.people).order_by(db.people.c.number)
    for person in connection.execute(asked).mappings():
        own = answered.get(person["id"], [])
        end = person["finished"] or max([person["joined"], *(row["answered"] for row in own)])
        about = screened.get(person["id"], Screened((), False, 0, 0, None))
        state = person["state"] or ("finished" if person["finished"] else "")
        found.append(
            {
                **person,
                "person": person["id"],
                "device": person["device"] or "",
                "condition": person["condition"] or "",
                "state": state or ("working" if own else "joined"),
                "joined": _moment(person["joined"]),
                "finished": _moment(person["finished"]),
                "minutes": round((end - person["joined"]) / 60, 2),
                "answers": len(own),
                "counted": sum(row["counts"] for row in own),
                **asdict(about),
                "flags": ";".join(about.flags),
                "payable": person["finished"] is not None and not person["state"],
                "platform": person["platform"] if person["platform"] != "{}" else "",
            }
        )
    return found


def csv_text(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """A table as CSV; no cell is a formula, lists are written as JSON."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(columns)
    for row in rows:
        cells = (row.get(name) for name in columns)
        writer.writerow([json.dumps(c) if isinstance(c, list) else harmless(c) for c in cells])
    return file.getvalue()


def _moment(seconds: float | None) -> str:
    """A time as ISO 8601 in UTC, to the second."""
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _names(rows: Rows) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _write(path: Path, columns: Sequence[str], rows: Rows) -> Path:
    """Write a table as CSV or parquet, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    part = path.with_name(f"{path.name}.part")
    if path.suffix == ".parquet":
        pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in columns}), part)
    else:
        part.write_text(csv_text(columns, rows), encoding="utf-8", newline="")
    return part.replace(path)


_PACKAGES = ("segmeter", "numpy", "scipy", "fastapi", "pydantic", "sqlalchemy")


def archive(study: RunningStudy, *, identifiers: bool = False) -> bytes:
    """One zip file to deposit; identifiers of the recruiting platform only on request."""
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, study.database.snapshot() as connection:
        files = export(connection, study.plan, study.stimuli, Path(folder), identifiers=identifiers)
        plans = connection.execute(sa.select(db.plans).order_by(db.plans.c.since)).all()
        names = sorted(file.name for file in files)
        software = {
            "versions": {name: metadata.version(name) for name in _PACKAGES},
            "python": platform.python_version(),
            "plan": study.plan.hash,
            "database": study.database.engine.dialect.name,
            "written": _moment(time.time()),
        }
        texts = {
            "README.md": text_page("archive.md", plan=study.plan, files=names),
            "plan.toml": study.plan.text,
            "preregistration.md": preregistration(study.plan, study.stimuli),
            "software.json": json.dumps(software, indent=1),
            **{f"earlier-plans/{p.hash}.toml": p.text for p in plans if p.hash != study.plan.hash},
        }
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, text in texts.items():
                zipped.writestr(name, text)
            for file in files:
                zipped.write(file, f"data/{file.name}")
    return packed.getvalue()
