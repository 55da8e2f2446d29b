"""A short run of `make fuzz`: 150 mutated files for each reader, and no trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import fuzz
from .parsers import functions_run, parsers
from .readers import READERS

SEED, INPUTS = 1, 150
AT_LEAST = 3  # of those that take long: each input opens a run


@pytest.mark.parametrize("name", READERS)
def test_mutated_files_give_values_or_a_sentence(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    if not reader.available:
        pytest.skip(f"needs the package {reader.needs}")
    inputs = max(INPUTS, AT_LEAST * reader.share)
    found = list(fuzz(reader, tmp_path, SEED, inputs))
    assert not found, f"input {found[0].number} of seed {SEED}: {found[0].what}"


# What decodes nothing that others write, or is reached otherwise: by module, function or folder.
NOT_FUZZED = {
    "datasets/": "files that the user chose: a library's error is wrapped (SECURITY.md)",
    "clickability/fitting/": "files that the user chose, or a cache of the command's own",
    "clickability/maps.py": "a table of the package",
    "analysis/report_parts.py": "tables of the package",
    "core/catalogue.py:_value": "any text is a value",
    "models/sam/_hiera.py:encoder_of": "the config that _check_config has read before",
    "models/videos/memory_trackers.py:get": "a temporary file of the tracker's own",
    "report/images.py:_size": "images that the report has drawn itself",
    "runtime/remote_files.py:_index": "a cache of the machine's own",
    "store/summary_cache.py": "a cache of the machine's own",
    "training/decoder_training.py": "the training's own state and embeddings",
    "study/": "the server's own database; plans are fuzzed, requests are checked field by field",
}


def test_every_function_that_decodes_files_is_fuzzed(tmp_path: Path) -> None:
    """A new reader without a fuzz entry fails here: give it one in `readers.py`."""
    reached: set[tuple[str, int]] = set()
    for name, reader in READERS.items():
        if not reader.available:
            continue
        folder = tmp_path / name
        folder.mkdir()
        if reader.around is not None:
            reader.around(folder)
        for raw in reader.seeds():
            path = folder / reader.file
            path.write_bytes(raw)
            reached |= functions_run(lambda r=reader, p=path: r.read(p))  # type: ignore[misc]
    found = list(parsers())
    missed = {where for where, line in found if (where.partition(":")[0], line) not in reached}
    unexplained = {w for w in missed if not w.startswith(tuple(NOT_FUZZED))}
    assert not sorted(unexplained), "\n".join(sorted(unexplained))
    known = {where for where, _ in found}
    assert not [name for name in NOT_FUZZED if not any(w.startswith(name) for w in known)]


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
