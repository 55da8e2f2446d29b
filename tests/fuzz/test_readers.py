"""A short run of `make fuzz`: a few hundred mutated files for each reader, and no trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import fuzz
from .readers import READERS

SEED, INPUTS = 1, 250
AT_LEAST = 5  # of those that take long: each input opens a run


@pytest.mark.parametrize("name", READERS)
def test_mutated_files_give_values_or_a_sentence(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    if not reader.at_hand:
        pytest.skip(f"needs the package {reader.needs}")
    inputs = max(INPUTS, AT_LEAST * reader.share)
    found = list(fuzz(reader, tmp_path, SEED, inputs))
    assert not found, f"input {found[0].number} of seed {SEED}: {found[0].what}"


def test_a_reader_that_faults_is_found(tmp_path: Path) -> None:
    """The harness itself: a trace and a sentence of two lines are findings, values are not."""
    from dataclasses import replace

    from segmeter.core.errors import BadInput

    def faulty(path: Path) -> None:
        raw = path.read_bytes()
        if not raw.startswith(b"9 9 9 9 9 9"):
            _ = raw.decode("ascii")
        if len(raw) < 10:
            raise BadInput("two\nlines")

    reader = replace(READERS["encoded"], read=faulty)
    kinds = {finding.kind.split(":")[0] for finding in fuzz(reader, tmp_path, 3, 300)}
    assert {"UnicodeDecodeError", "a sentence of several lines"} <= kinds
