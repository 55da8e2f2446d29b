"""The codebook: unit and meaning of every exported column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from segmeter.core.errors import SegmeterError
from segmeter.study.plan import Plan
from segmeter.study.questionnaires import questions_of

MEANINGS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "agreement": ("", "correlation of a rater's scores with those of others on the same masks"),
        "answered": ("s", "when the answer arrived, seconds since 1970 (UTC), server's clock"),
        "answers": ("", "answers given, practice left out"),
        "accepted": ("", "true: the participant accepted the mask; false: gave up"),
        "batch": ("", "random name of the batch (round)"),
        "batch_reason": ("", "why a batch does not count or was given back"),
        "batch_state": ("", "open, done, dropped (fails the rules) or returned (timed out)"),
        "blocked_clicks": ("", "clicks made while screens were shown and clicking was blocked"),
        "boundary_iou": ("0 to 1", "boundary IoU of the mask after this click"),
        "changes": ("", "how often the score was changed to another one before handing in"),
        "check": ("", "true: a trial with a known answer, never counted"),
        "checks": ("", "trials with a known answer that the participant answered"),
        "checks_right": ("", "of these, how many were right"),
        "click_type": ("", "first, fn (missing area) or fp (extra area)"),
        "condition": ("", "display mode, source of the mask, or model"),
        "counted": ("", "answers that count"),
        "counts": ("", "true: the answer counts by the plan's rules"),
        "dataset": ("", "data set; in previews.csv the display mode"),
        "dice": ("0 to 1", "Dice of a volume's mask after this click with the ground truth"),
        "device": ("", "pc or mobile, as declared for the batch"),
        "excluded": ("", "true: the participant is left out of analyses"),
        "finished": ("", "when the participant finished, ISO 8601 (UTC); empty: not yet"),
        "flag_bad": ("", "flags of the answer; see [validity] of the plan"),
        "flag_distance_px": ("px", "distance of the click to the target; 0 on it"),
        "flag_inside": ("", "true: the click is on the target"),
        "flag_near": ("", "true: on the target or within the radius of the plan"),
        "flag_right": ("", "practice and checks: true if the answer was right"),
        "flag_worst_ms": ("ms", "largest deviation of a screen from its planned duration"),
        "flags": ("", "flags of the participant, separated by ;"),
        "focus_lost": ("", "true: the page lost the focus during the trial"),
        "full_stem": ("", "unique key of what was clicked, as in RClicks"),
        "h": ("px", "height of the shown image"),
        "image_stem": ("", "image"),
        "iou": ("0 to 1", "IoU of the mask after this click with the ground truth"),
        "job": ("", "random name of the mask that was rated"),
        "joined": ("", "when the participant consented, ISO 8601 (UTC)"),
        "label": ("", "note of the invitation"),
        "language": ("", "language of the pages"),
        "latency_ms": ("ms", "from the end of the screens to the click, browser's clock"),
        "minutes": ("min", "from consent to the end, or to the last answer"),
        "model": ("", "source of the rated mask"),
        "model_ms": ("ms", "time that the model took for this click"),
        "model_score": ("", "the model's own score of its mask"),
        "model_type": ("", "second round: whose mask has the error"),
        "natural_height": ("px", "height of the shown image file"),
        "natural_width": ("px", "width of the shown image file"),
        "number": ("", "participants are numbered from 0 as they join; decides random draws"),
        "object_stem": ("", "target, if the image has several"),
        "opened": ("s", "when the batch was reserved, seconds since 1970 (UTC)"),
        "order": ("", "counts the rater's ratings from 1"),
        "part": ("", "first (the target), fn, fp, or mask"),
        "payable": ("", "true: the participant finished"),
        "person": ("", "random code of the participant"),
        "person_number": ("", "number of the participant, from 0"),
        "pixel_ratio": ("", "device pixels per CSS pixel"),
        "place": ("", "place in the batch, from 0"),
        "plan": ("", "hash of the plan under which the row was made"),
        "planned_ms": ("ms", "planned durations of the timed screens"),
        "platform": ("", "identifiers of the recruiting platform as JSON; personal data"),
        "pointer": ("", "mouse, touch, pen or keyboard"),
        "positive": ("", "true: the click adds; false: it removes"),
        "question": ("", "name of the question in the plan"),
        "rater": ("", "random code of the participant"),
        "review_ms": ("ms", "from the last mask to accepting or giving up, browser's clock"),
        "role": ("", "person, or tester for spot checks"),
        "scene": ("", "image"),
        "score": ("1 to 10", "rating of the mask"),
        "seconds": ("s", "time for the rating, browser's clock"),
        "seed": ("", "seed of the plan; with the participant's number it decides all draws"),
        "server_ms": ("ms", "since the last answer or click arrived, server's clock"),
        "server_seconds": ("s", "since the last answer arrived, server's clock"),
        "server_total_ms": ("ms", "since the last answer arrived, server's clock"),
        "shown_height": ("CSS px", "height of the image on the screen"),
        "shown_width": ("CSS px", "width of the image on the screen"),
        "source": ("", "whose mask, or which model"),
        "state": ("", "joined, working, finished, screened_out or quota_full"),
        "step": ("", "place of the click in the session, from 1, undone clicks included"),
        "target": ("", "object"),
        "task": ("", "random name of the task"),
        "training": ("", "true: a practice trial"),
        "trial": ("", "random name of the trial"),
        "true_ms": ("ms", "measured durations of the timed screens, browser's clock"),
        "undone": ("", "true: the participant took this click back"),
        "user_ms": ("ms", "from the last mask to this click, browser's clock"),
        "value": ("", "answer; several choices are separated by ;"),
        "w": ("px", "width of the shown image"),
        "x": ("px", "column of the click, from the left edge of the image"),
        "y": ("px", "row of the click, from the top edge of the image"),
        "z": (
            "",
            "volumes: slice of the click; x and y are then voxels, x to the patient's right, "
            "y to the front, z to the head",
        ),
        "zoom": ("", "magnification of the image when the click was made"),
    }
)


def codebook_rows(tables: Mapping[str, Sequence[str]], plan: Plan) -> list[dict[str, str]]:
    """One row per column of every file, and one per question of the plan."""
    rows = []
    for file, columns in tables.items():
        for column in columns:
            if column not in MEANINGS:
                raise SegmeterError(f"the codebook lacks the column '{column}' of {file}")
            unit, meaning = MEANINGS[column]
            rows.append({"file": file, "column": column, "unit": unit, "meaning": meaning})
    for question in (*questions_of(plan, "before"), *questions_of(plan, "after")):
        text = next(iter(question.text.values()))
        choices = "; ".join(f"{k}: {next(iter(v.values()))}" for k, v in question.answers.items())
        unit = "0 to 100" if question.kind == "scale" else question.kind
        meaning = f"{text} ({choices})" if choices else text
        row = {"file": "questionnaire", "column": f"question={question.name}"}
        rows.append({**row, "unit": unit, "meaning": meaning})
    return rows
