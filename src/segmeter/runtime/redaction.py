"""Redaction: remove keys and passwords from everything that is stored or shown."""

from __future__ import annotations

import os
import re

from segmeter.core.errors import BadInput

_REDACTED = "***"
# `ftp://user:password@host`; a password may hold what it should not, such as a slash.
_IN_ADDRESS = re.compile(r"(?<=://)(?:[^/\s'\":]*:(?!\d+/)[^\s'\"]*|[^/\s'\"]*)(?=@)")
# `?key=...&secret=...`, signed addresses, and the same words as options.
_WORDS = r"(?:secret|password|passwd|token|signature|credential|access_?key|account_?key|api_?key)"
_AS_OPTION = re.compile(
    rf"(?i)((?:^|[?&;\s\"'{{,(])[\w.-]*(?:{_WORDS}[\w-]*|(?<![\w.-])key|(?<![\w.-])sig))"
    r"(=[\"']?|[\"']\s*:\s*[\"'])([^&\s\"',;)}]+)"
)
_SECRET_NAME = re.compile(
    r"(?i)(secret|password|passwd|token|credential|(?:access|account|api)_?key)"
)
_FSSPEC_NAME = re.compile(r"(?i)fsspec_\w+_(key|secret|token|password|username)")
_SHORT = 8  # shorter values are hardly keys, and replacing them would garble the text


def redacted(text: str) -> str:
    """A text without its credentials and those of this process's environment.

    >>> redacted("segmeter run noc --out ftp://me:hidden@host/run")
    'segmeter run noc --out ftp://***@host/run'
    >>> redacted("https://host/x?X-Amz-Signature=0a1b&page=2")
    'https://host/x?X-Amz-Signature=***&page=2'
    """
    known = {
        value
        for name, value in os.environ.items()
        if len(value) >= _SHORT and (_SECRET_NAME.search(name) or _FSSPEC_NAME.fullmatch(name))
    }
    for value in sorted(known, key=lambda value: (-len(value), value)):
        text = text.replace(value, _REDACTED)
    return _AS_OPTION.sub(rf"\1\2{_REDACTED}", _IN_ADDRESS.sub(_REDACTED, text))


def refuse_credentials(address: str) -> None:
    """Refuse an address with credentials where it would be stored, as in a plan.

    >>> refuse_credentials("s3://key:secret@bucket/images")
    Traceback (most recent call last):
    segmeter.core.errors.BadInput: 's3://***@bucket/images' holds credentials, ...
    """
    if "://" in address and redacted(address) != address:
        raise BadInput(
            f"'{redacted(address)}' holds credentials, and would be kept in the plan; give them by "
            "the environment or the storage's own settings"
        )
