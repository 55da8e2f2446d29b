"""The run folder: which file holds what, and which jobs are done.

RUN/plan.json          what was to be run
RUN/provenance.json    every command that worked on it, and on what machine
RUN/jobs/JOB.parquet   the rows of one finished job
RUN/jobs/compacted-MODEL+DATA-CONTENT.parquet  the rows of many, once there are many
RUN/errors/JOB.parquet the error row of a job that failed, compacted in the same way
RUN/quarantine/JOB.parquet  damaged files
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segmeter.core.errors import BadInput, NotFound, RunConflict, SegmeterError
from segmeter.core.plans import Job, Plan, in_words
from segmeter.core.rows import ERROR_ROWS, Schema
from segmeter.core.wording import some
from segmeter.runtime.redaction import redacted
from segmeter.store.compacted_files import CompactedFile, group_rows, groups_of, stored_file
from segmeter.store.job_files import decode, encode, encode_table
from segmeter.store.job_index import Layout, layout_of
from segmeter.store.storage import Address, Place, place_of
from segmeter.store.write_lock import Lease

_MOST_BYTES = 64 << 20  # of a plan or provenance; real ones have a few kB
_OURS = {"jobs", "errors", "quarantine", "provenance.json"}


class RunFolder:
    """A folder, or an address of a storage, that holds one plan and what is finished of it."""

    def __init__(self, address: Address | Place) -> None:
        self.place = place_of(address)
        self._footers: dict[str, dict[str, CompactedFile]] = {}
        self._group: dict[str, Any] = {}
        self._lease: Lease | None = None

    @property
    def address(self) -> str:
        return self.place.address

    @property
    def path(self) -> Path:
        """The folder of a run on a local disk."""
        return Path(self.address)

    @classmethod
    def existing(cls, address: Address | Place) -> RunFolder:
        """A folder that already holds a run."""
        folder = cls(address)
        if not folder.begun:
            inside = folder.place.folders() or folder.place.others()
            what = "it has no plan.json" if inside else "nothing is there"
            below = sorted(_found(folder.place, "", _DEEP)) if inside else []
            advice = "'segmeter run' creates one"
            if below:
                named = some([f"'{name}'" for name in below], 5)
                advice = f"name one of the runs in it: {named}"
            raise NotFound(f"'{folder.address}' is not a run ({what}); {advice}")
        return folder

    @classmethod
    @contextmanager
    def claimed(cls, address: Address | Place, plan: Plan) -> Iterator[RunFolder]:
        """The folder for a plan, held alone: a new one, or the one that holds the very same plan.

        A folder with other files is refused, and so is one that another command writes to.
        """
        folder = cls(address)
        folder._refuse_other_files()  # before a lock is put there
        folder.place.begin()
        with folder.locked():
            folder._refuse_other_files()
            folder._keep_plan(plan)
            yield folder

    @property
    def begun(self) -> bool:
        """Whether it has a plan."""
        try:
            return self.place.exists("plan.json")
        except NotADirectoryError:
            if not self.path.is_file():
                raise
            raise RunConflict(f"'{self.address}' exists and is not a run; choose another") from None

    @property
    def plan(self) -> Plan:
        try:
            return Plan.from_json(self._text("plan.json"))
        except BadInput as error:
            raise BadInput(
                f"'{self.address}/plan.json': {error}; copy the run again or restore this file"
            ) from error

    @property
    def provenance(self) -> list[dict[str, Any]]:
        """One entry for each command that worked on this run."""
        if not self.place.exists("provenance.json"):
            return []
        try:
            entries = json.loads(self._text("provenance.json"))
        except (ValueError, RecursionError) as error:
            raise BadInput(f"'{self.address}/provenance.json' is damaged: {error}") from error
        if not isinstance(entries, list):
            raise BadInput(
                f"'{self.address}/provenance.json' is damaged: it is not a list of commands"
            )
        return [_entry(entry, self.address) for entry in entries]

    def sign(self, entry: Mapping[str, Any]) -> None:
        """Add a command to the provenance; one that is damaged is moved to quarantine first."""
        try:
            held = self.provenance
        except BadInput:
            self.place.put("quarantine/provenance.json", self.place.read("provenance.json"))
            held = []
        text = json.dumps([*held, dict(entry)], indent=1)
        self.place.put("provenance.json", text.encode())

    def finished(self) -> set[str]:
        """Ids of all jobs with rows here."""
        return self.layout().jobs

    def layout(self, where: str = "jobs") -> Layout:
        """The jobs in a folder, and their files; by one listing."""
        return layout_of(self.place, where, self._footers.setdefault(where, {}))

    def finish(
        self,
        job: Job,
        rows: Sequence[Mapping[str, Any]],
        provenance: Mapping[str, str],
        schema: Schema | None = None,
    ) -> None:
        """Store a finished job's rows; an earlier error of it is removed.

        What compacted files hold of the job must be extracted before (`compaction.extract`).
        """
        self.place.put(f"jobs/{job.id}.parquet", encode(rows, provenance, schema))
        self.place.remove(f"errors/{job.id}.parquet")

    def fail(self, job: Job, message: str, detail: str) -> None:
        """Keep an error row without credentials, so that what is missing has a name."""
        row = job.identity() | {"error": redacted(message), "detail": redacted(detail)}
        self.place.put(f"errors/{job.id}.parquet", encode([row], schema=ERROR_ROWS))

    def put_rows(self, job_id: str, table: Any) -> None:
        """Replace the rows of a finished job by newer ones."""
        self.place.put(f"jobs/{job_id}.parquet", encode_table(table))

    def rows(self, job_id: str) -> Any:
        """The rows of a finished job as an Arrow table; BadInput if they cannot be read."""
        try:
            return decode(self.place.read(f"jobs/{job_id}.parquet"))
        except FileNotFoundError:
            return self._compacted_rows(job_id)

    def _compacted_rows(self, job_id: str) -> Any:
        """Read and keep the row group with a job: jobs are requested in the order of files."""
        if job_id not in self._group:
            file = next((f for f in self.layout().files if job_id in f.jobs), None)
            if file is None or file.compacted is None:
                raise FileNotFoundError(f"{self.address} has no rows of {job_id}")
            with stored_file(self.place, file.path) as opened:
                groups = enumerate(groups_of(file.compacted, opened))
                number, inside = next((k, held) for k, held in groups if job_id in dict(held))
                found = group_rows(file.compacted, opened, number, inside)
            self._group = {job.id: job.table for job in found}
        return self._group[job_id]

    def quarantine(self, name: str) -> None:
        """Move a file of rows out of the way; its job can run again."""
        self.place.put(f"quarantine/{name}", self.place.read(f"jobs/{name}"))
        self.place.remove(f"jobs/{name}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the run, so that no other command writes; `check_lease` verifies it."""
        with self.place.lease() as self._lease:
            yield

    def check_lease(self) -> None:
        """RunConflict if another command has taken over since this one began to write."""
        if self._lease is not None:
            self._lease.check()

    def _keep_plan(self, plan: Plan) -> None:
        if not self.begun:
            for file in self.place.files("jobs"):  # of a run whose folder was removed under it
                self.quarantine(file.name)
            self.place.put("plan.json", plan.to_json().encode())
            return
        held = self.plan
        if held != plan:
            raise RunConflict(
                f"'{self.address}' holds a run with {_differences(held, plan)}; "
                f"{_way_out(held, plan)}"
            )

    def _refuse_other_files(self) -> None:
        """Refuse a folder with things that no run has put there."""
        if not self.begun and set(self.place.others()) - _OURS:
            raise RunConflict(f"'{self.address}' exists and is not a run; choose another --out")

    def _text(self, name: str) -> str:
        try:
            return self.place.read(name, _MOST_BYTES).decode()
        except UnicodeDecodeError as error:
            raise BadInput(f"'{self.address}/{name}' is damaged: it is not text") from error


_MAY_GROW = ("segmenters", "datasets", "users")


def _differences(held: Plan, plan: Plan) -> str:
    """Settings in which the plan of a folder differs, each as stored and as requested."""
    names = held.differs_in(plan)
    changed = _changed(held, plan)
    differences = [f"another version of {quoted_list(changed)}"] if changed else []
    for name in names:
        there, asked = getattr(held, name), getattr(plan, name)
        if name != "fingerprints":
            differences.append(f"{in_words(name)} {value_text(there)} (not {value_text(asked)})")
    return " and ".join(differences)


def _changed(held: Plan, plan: Plan) -> list[str]:
    """Datasets, users and measures that have changed since the plan was made."""
    return [n for n, d in plan.fingerprints.items() if held.fingerprints.get(n, d) != d]


def value_text(value: Any) -> str:
    """The value of a field of a plan, in a message."""
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={v}" for k, v in value.items()) or "none"
    if isinstance(value, tuple):
        return quoted_list(value)
    return "unset" if value is None else str(value)


def _way_out(held: Plan, plan: Plan) -> str:
    """How to run a plan although a folder holds another: --add if it only has more names."""
    pairs = [(getattr(held, name), getattr(plan, name)) for name in _MAY_GROW]
    new = [spec for there, asked in pairs for spec in asked if spec not in there]
    apart = "or choose another --out for a run of its own"
    if _changed(held, plan):
        return f"restore that to resume the run, {apart}"
    if not {*held.differs_in(plan)} <= {*_MAY_GROW, "fingerprints"}:
        return f"resume it with its own settings, {apart}"
    if new:
        return f"--add adds {quoted_list(new)} to it, {apart} ('segmeter compare' reads both)"
    return (
        "it already has all of them: 'segmeter report' shows it, its full command resumes it, "
        f"{apart}"
    )


def quoted_list(things: Iterable[Any]) -> str:
    """Things in quotes, or "none".

    >>> quoted_list(["a", "b"])
    "'a', 'b'"
    """
    return ", ".join(f"'{thing}'" for thing in things) or "none"


def _entry(entry: Any, address: str) -> dict[str, Any]:
    """A command as it should be: texts, and maps from text to plain values."""
    if not isinstance(entry, dict):
        raise BadInput(f"'{address}/provenance.json' is damaged: a command is not an object")
    texts = {key: str(entry.get(key, "")) for key in ("at", "command")}
    maps = {key: entry.get(key, {}) for key in ("machine", "libraries")}
    if any(not isinstance(held, dict) for held in maps.values()):
        raise BadInput(f"'{address}/provenance.json' is damaged: a machine is not an object")
    simple = str | int | float | None
    plain = {
        key: {str(k): v if isinstance(v, simple) else str(v) for k, v in held.items()}
        for key, held in maps.items()
    }
    counts = {key: entry[key] for key in ("jobs", "jobs_left") if type(entry.get(key)) is int}
    return {**texts, **plain, **counts}


_DEEP = 3  # folders below the one that is named
_INSIDE = ("", "jobs", "errors", "quarantine", "tables")


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about a run."""

    run: str  # its folder or address
    benchmark: str = ""
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    plan: str = ""
    done: int = 0
    jobs: int | None = None  # how many its plan has; None where no command has noted it
    errors: int = 0
    last: str = ""  # when the last command worked on it, in UTC
    bytes: int = 0
    files: int = 0
    problem: str = ""  # why it cannot be read


def list_runs(folder: Address = "runs") -> list[RunFacts]:
    """List the runs under a folder or an address: benchmark, models, jobs done, size.

    Links are not followed, and nothing that a run names is executed.

    Examples
    --------
    >>> import segmeter
    >>> folder = getfixture("tmp_path")
    >>> _ = segmeter.evaluate("synthetic-oracle", "mini", out=folder / "first", limit=1, rounds=1)
    >>> [(run.benchmark, run.done) for run in segmeter.list_runs(folder)]
    [('noc', 1)]
    """
    top = place_of(folder)
    names = sorted(_found(top, "", _DEEP)) if top.others() or top.folders() else []
    if not names:
        raise NotFound(f"there is no run under '{top.address}'; 'segmeter run' creates one")
    return [_facts(f"{folder}/{name}".rstrip("/")) for name in names]


def _found(top: Place, folder: str, deep: int) -> Iterator[str]:
    if top.exists(f"{folder}/plan.json".lstrip("/")):
        yield folder
        return
    for name in top.folders(folder) if deep else ():
        if not name.startswith("."):
            yield from _found(top, f"{folder}/{name}".lstrip("/"), deep - 1)


def _facts(address: str) -> RunFacts:
    try:
        folder = RunFolder.existing(address)
        plan, commands = folder.plan, folder.provenance
        files = [held for where in _INSIDE for held in folder.place.files(where)]
        done = folder.finished()
        errors = folder.layout("errors").jobs - done  # a merge keeps those of other runs
    except (SegmeterError, OSError) as error:
        return RunFacts(place_of(address).address, problem=str(error))
    noted = [entry["jobs"] for entry in commands if "jobs" in entry]
    return RunFacts(
        folder.address,
        plan.benchmark,
        tuple(map(str, plan.segmenters)),
        tuple(map(str, plan.datasets)),
        plan.id,
        len(done),
        noted[-1] if noted else None,
        len(errors),
        commands[-1]["at"] if commands else "",
        sum(held.bytes for held in files),
        len(files),
    )
