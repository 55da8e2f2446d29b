"""Recruiting platforms: identifiers in links, and the codes that participants take back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import quote

from segmeter.study.plan import Recruiting

_PARAMETERS = {
    "none": (),
    "prolific": ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"),
    "mturk": ("workerId", "assignmentId", "hitId"),
    "sona": ("survey_code", "id"),
    "other": (),
}
_LONGEST = 200
_PROLIFIC = "https://app.prolific.com/submissions/complete?cc={code}"


def platform_ids(recruiting: Recruiting, query: Mapping[str, str]) -> dict[str, str]:
    """The platform's parameters of a link; the first one identifies the participant.

    >>> platform_ids(Recruiting(platform="prolific"), {"PROLIFIC_PID": "5f", "x": "y"})
    {'PROLIFIC_PID': '5f'}
    """
    own = (recruiting.id_parameter,) if recruiting.id_parameter else ()
    names = (*own, *_PARAMETERS[recruiting.platform])
    found = {name: query[name] for name in names if query.get(name)}
    return {
        name: value
        for name, value in found.items()
        if len(value) <= _LONGEST and value.isprintable()
    }


def return_link(recruiting: Recruiting, outcome: str, stored: str) -> tuple[str, str]:
    """`(code, address)` for an outcome: `completed`, `screened_out` or `quota_full`.

    `{code}` and the platform's parameters are filled into `return_url`; Prolific's address is
    built in. Either may be empty.

    >>> return_link(Recruiting(platform="prolific", completion_code="C1"), "completed", "{}")[1]
    'https://app.prolific.com/submissions/complete?cc=C1'
    """
    code = {
        "completed": recruiting.completion_code,
        "screened_out": recruiting.screen_out_code,
        "quota_full": recruiting.quota_full_code,
    }[outcome]
    template = recruiting.return_url
    if not template and recruiting.platform == "prolific":
        template = _PROLIFIC
    if not template or ("{code}" in template and not code):
        return code, ""
    address = template.replace("{code}", quote(code, safe=""))
    for name, value in json.loads(stored or "{}").items():
        address = address.replace(f"{{{name}}}", quote(value, safe=""))
    return code, address if address.startswith(("https://", "http://")) else ""
