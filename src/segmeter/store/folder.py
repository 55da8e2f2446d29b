"""The run folder: which file holds what, and which jobs are done.

RUN/plan.json          what was to be run
RUN/provenance.json    every command that worked on it, and on what machine
RUN/parts/JOB.parquet  the rows of one finished job
RUN/errors/JOB.parquet the error row of a job that failed
RUN/scores/MEASURE/JOB.parquet  values added later
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from segmeter.core.errors import BadInput, NotFound, RunConflict
from segmeter.core.plans import Job, Plan
from segmeter.store.parts import write_part, write_text

__all__ = ["RunFolder"]

# Fields of a plan whose names a person would not guess.
_PLAIN = {"subjects": "models or methods", "datasets": "data sets"}


class RunFolder:
    """A folder that holds one plan and what is finished of it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        """A folder that already holds a run."""
        if not (path / "plan.json").is_file():
            what = "no such folder" if not path.exists() else "it has no plan.json"
            raise NotFound(f"'{path}' is not a run ({what}); 'segmeter run' makes one")
        return cls(path)

    @classmethod
    def prepare(cls, path: Path, plan: Plan) -> RunFolder:
        """The folder for a plan: a new one, or the one that holds the very same plan."""
        folder = cls(path)
        if (path / "plan.json").is_file():
            held = folder.plan
            if held != plan:
                fields = ", ".join(_PLAIN.get(f, f) for f in held.differs_in(plan))
                raise RunConflict(
                    f"'{path}' holds another plan (different {fields}); "
                    "choose another --out, or remove that folder"
                )
            return folder
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunConflict(f"'{path}' exists and is not a run; choose another --out")
        write_text(path / "plan.json", plan.to_json())
        return folder

    @property
    def plan(self) -> Plan:
        return Plan.from_json((self.path / "plan.json").read_text())

    @property
    def provenance(self) -> list[dict[str, Any]]:
        """One entry a command that worked on this run."""
        file = self.path / "provenance.json"
        if not file.is_file():
            return []
        try:
            entries: list[dict[str, Any]] = json.loads(file.read_text())
        except ValueError as error:
            raise BadInput(f"'{file}' is damaged: {error}") from error
        return entries

    def sign(self, entry: Mapping[str, Any]) -> None:
        """Add a command to the provenance."""
        write_text(
            self.path / "provenance.json", json.dumps([*self.provenance, dict(entry)], indent=1)
        )

    def part(self, job: Job) -> Path:
        return self.path / "parts" / f"{job.id}.parquet"

    def done(self, job: Job) -> bool:
        return self.part(job).is_file()

    def finish(self, job: Job, rows: Sequence[Mapping[str, Any]], trail: Mapping[str, str]) -> None:
        """Keep a finished job's rows; an earlier error of it is forgotten."""
        write_part(self.part(job), rows, trail)
        self._error(job).unlink(missing_ok=True)

    def fail(self, job: Job, message: str, detail: str) -> None:
        """Keep an error row, so that what is missing has a name."""
        row = {
            "model": str(job.subject),
            "dataset": str(job.dataset),
            "scene": job.scene,
            "round": 0,
            "error": message,
            "detail": detail,
        }
        write_part(self._error(job), [row])

    def scores(self, measure: str) -> Path:
        return self.path / "scores" / measure

    def _error(self, job: Job) -> Path:
        return self.path / "errors" / f"{job.id}.parquet"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one command at a time may write here; the system drops the lock at death."""
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunConflict(
                    f"another command is writing to '{self.path}'; wait for it or stop it"
                ) from None
            yield
