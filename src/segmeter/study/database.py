"""The database of a study: its tables on SQLite or PostgreSQL, transactions, erasure and copies.

Answers are kept once, in the append-only table `answers`; a trigger refuses updates. SQLite runs
in WAL mode with every commit synced to disk, so an acknowledged answer survives `kill -9`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from segmeter.core.errors import BadInput, NotFound

__all__ = ["Database", "backup", "copy_study", "open_engine"]

METADATA = sa.MetaData()
VERSION = 1
PENDING = -1
"""`trials.counts` before a batch is closed; then 1 (counts) or 0."""
_PRAGMAS = ("journal_mode=wal", "synchronous=full", "foreign_keys=on", "secure_delete=on")
_ROWS_AT_ONCE = 2000


def _text(*names: str, optional: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text, nullable=optional) for name in names]


def _number(*names: str, optional: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Double, nullable=optional) for name in names]


def _whole(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer, nullable=False) for name in names]


def _key(name: str, *to: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, *map(sa.ForeignKey, to), primary_key=True)


def _refers(name: str, to: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, sa.ForeignKey(to), nullable=False)


study = sa.Table(
    "study",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    *_whole("version"),
    *_text("secret", "plan", "state"),
)
plans = sa.Table("plans", METADATA, _key("hash"), *_text("text"), *_number("since"))
tasks = sa.Table(
    "tasks",
    METADATA,
    _key("id"),
    *_text("scene", "target", "condition", "part", "source", "role"),
    *_whole("place"),
)
cells = sa.Table(
    "cells", METADATA, _key("task", "tasks.id"), _key("device"), *_whole("wanted", "valid", "open")
)
people = sa.Table(
    "people",
    METADATA,
    _key("id"),
    *_whole("number"),
    *_text("session", "role", "label", "language"),
    *_text("device", "condition", optional=True),
    *_number("joined"),
    *_number("finished", optional=True),
    *_text("state"),
    sa.Column("passed", sa.Boolean, nullable=False),
    *_text("platform", "plan"),
    *_text("platform_id", optional=True),
    sa.Index("people_session", "session", unique=True),
    sa.Index("people_platform", "platform_id", unique=True),
)
invitations = sa.Table(
    "invitations",
    METADATA,
    _key("id"),
    *_text("role", "label"),
    *_number("made"),
    *_text("person", optional=True),
)
batches = sa.Table(
    "batches",
    METADATA,
    _key("id"),
    _refers("person", "people.id"),
    *_text("device", "condition", "role", "state", "reason"),
    *_number("opened", "deadline"),
    *_number("closed", optional=True),
    *_text("plan"),
    sa.Index("batches_person", "person"),
    sa.Index("batches_state", "state", "deadline"),
)
trials = sa.Table(
    "trials",
    METADATA,
    _key("id"),
    _refers("batch", "batches.id"),
    *_whole("place"),
    _refers("task", "tasks.id"),
    *_number("answered", optional=True),
    *_text("flags"),
    *_whole("counts", "shown_again"),
    *_text("plan"),
    sa.Index("trials_batch", "batch", "place"),
    sa.Index("trials_task", "task"),
)
answers = sa.Table(
    "answers",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    _refers("trial", "trials.id"),
    *_text("kind"),
    *_number("at"),
    *_text("body"),
    sa.Index("answers_trial", "trial", "number"),
)
responses = sa.Table(
    "responses",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    _refers("person", "people.id"),
    *_text("question"),
    *_number("at"),
    *_text("value"),
    sa.Index("responses_person", "person"),
)

_APPEND_ONLY = {
    "sqlite": (
        "create trigger answers_append_only before update on answers "
        "begin select raise(abort, 'answers are append-only'); end",
    ),
    "postgresql": (
        "create or replace function refuse_update() returns trigger language plpgsql as "
        "'begin raise exception ''answers are append-only''; end'",
        "create trigger answers_append_only before update on answers "
        "for each row execute function refuse_update()",
    ),
}
for _dialect, _statements in _APPEND_ONLY.items():
    for _statement in _statements:
        _ddl = sa.DDL(_statement).execute_if(dialect=_dialect)  # type: ignore[no-untyped-call]  # SQLAlchemy's
        sa.event.listen(answers, "after_create", _ddl)


def open_engine(url: str) -> sa.Engine:
    """An engine on SQLite or PostgreSQL; a new SQLite file is readable by its owner only."""
    try:
        address = sa.make_url(url)
        if address.get_backend_name() == "sqlite":
            return _sqlite(address)
        if address.get_backend_name() == "postgresql":
            return sa.create_engine(address.set(drivername="postgresql+psycopg"), pool_size=20)
    except sa.exc.ArgumentError:
        pass
    raise BadInput("--db is an address such as sqlite:///study.db or postgresql://user@host/name")


def _sqlite(address: sa.URL) -> sa.Engine:
    if address.database:
        try:
            os.close(os.open(address.database, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise NotFound(
                f"the database '{address.database}' cannot be opened: {error.strerror}"
            ) from None
    engine = sa.create_engine(address, connect_args={"timeout": 60}, pool_size=20)

    @sa.event.listens_for(engine, "connect")
    def _(connection: Any, record: object) -> None:
        connection.isolation_level = None  # transactions begin below, not in the driver
        for pragma in _PRAGMAS:
            connection.execute(f"pragma {pragma}")

    @sa.event.listens_for(engine, "begin")
    def _(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("begin immediate" if writes else "begin")

    return engine


class Database:
    """A study's database; all writes of a process go one after the other."""

    def __init__(self, url: str) -> None:
        self.engine = open_engine(url)
        self._lock = threading.Lock()
        try:
            with self._begin() as connection:
                METADATA.create_all(connection)
        except sa.exc.OperationalError as error:
            reason = str(error.orig).splitlines()[0]
            raise NotFound(f"the database cannot be opened: {reason}") from None
        except sa.exc.DatabaseError as error:
            raise BadInput(f"not a study's database: {str(error.orig).splitlines()[0]}") from None
        with self._begin() as connection:
            found = connection.execute(sa.select(study)).mappings().first()
            if found is None:
                new = {"id": 1, "version": VERSION, "secret": secrets.token_hex(32)}
                connection.execute(sa.insert(study), {**new, "plan": "", "state": "new"})
            elif found["version"] != VERSION:
                raise BadInput(
                    f"this database has version {found['version']}, this segmeter needs {VERSION}"
                )

    @contextlib.contextmanager
    def _begin(self) -> Iterator[sa.Connection]:
        with (
            self.engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that may write; it is on disk when the block has ended."""
        with self._lock, self._begin() as connection:
            # On PostgreSQL this row is the lock that all processes of a study share.
            connection.execute(sa.select(study.c.id).with_for_update())
            yield connection

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the database throughout."""
        connecting = self.engine.connect()
        if self.engine.dialect.name == "postgresql":
            connecting = connecting.execution_options(isolation_level="REPEATABLE READ")
        with connecting as connection, connection.begin():
            yield connection

    def secret(self) -> str:
        with self.snapshot() as connection:
            return str(connection.execute(sa.select(study.c.secret)).scalar_one())

    def withdraw(self, person: str) -> bool:
        """Delete everything about a person; False if there is no such person.

        The invitation stays used. SQLite overwrites deleted content, and its write-ahead log is
        emptied afterwards.
        """
        with self.writing() as connection:
            known = sa.select(people.c.id).where(people.c.id == person)
            if connection.execute(known).first() is None:
                return False
            own = sa.select(batches.c.id).where(batches.c.person == person)
            of_batches = sa.select(trials.c.id).where(trials.c.batch.in_(own))
            for trial in connection.execute(of_batches).scalars().all():
                settle(connection, trial, 0)
            connection.execute(sa.delete(answers).where(answers.c.trial.in_(of_batches)))
            connection.execute(sa.delete(trials).where(trials.c.batch.in_(own)))
            connection.execute(sa.delete(batches).where(batches.c.person == person))
            connection.execute(sa.delete(responses).where(responses.c.person == person))
            connection.execute(sa.delete(people).where(people.c.id == person))
            used = sa.update(invitations).where(invitations.c.person == person)
            connection.execute(used.values(person=""))
        if self.engine.dialect.name == "sqlite":
            with contextlib.closing(self.engine.raw_connection()) as raw:
                raw.cursor().execute("pragma wal_checkpoint(truncate)")
        return True


def latest_answers() -> sa.Subquery:
    """The answer that stands for each trial: the last one that was given."""
    last = (
        sa.select(answers.c.trial, sa.func.max(answers.c.number).label("number"))
        .where(answers.c.kind == "answer")
        .group_by(answers.c.trial)
    ).subquery()
    found = sa.select(answers.c.trial, answers.c.body, answers.c.at)
    return found.join(last, last.c.number == answers.c.number).subquery()


def settle(connection: sa.Connection, trial: str, counts: int) -> None:
    """Let a trial count or not, and keep the counters of its cell right."""
    asked = (
        sa.select(trials.c.counts, trials.c.task, batches.c.device)
        .join(batches, batches.c.id == trials.c.batch)
        .where(trials.c.id == trial)
    )
    found = connection.execute(asked).one()
    if found.counts == counts:
        return
    opened = -1 if found.counts == PENDING else 0
    valid = (counts == 1) - (found.counts == 1)
    connection.execute(sa.update(trials).where(trials.c.id == trial).values(counts=counts))
    cell = (cells.c.task == found.task) & (cells.c.device == found.device)
    change = {"open": cells.c.open + opened, "valid": cells.c.valid + valid}
    connection.execute(sa.update(cells).where(cell).values(**change))


def copy_study(source: Database, target: sa.Engine) -> int:
    """Copy a study, also a running one, into an empty database; returns the number of answers."""
    copying = target.connect().execution_options(writes=True)
    with source.snapshot() as held, copying as writing, writing.begin():
        METADATA.create_all(writing)
        if writing.execute(sa.select(study.c.id)).first() is not None:
            raise BadInput("the database to copy into is not empty; give a new one")
        copied = {}
        for table in METADATA.sorted_tables:
            rows = held.execute(sa.select(table)).mappings()
            copied[table.name] = 0
            for part in rows.partitions(_ROWS_AT_ONCE):
                writing.execute(sa.insert(table), [dict(row) for row in part])
                copied[table.name] += len(part)
        if target.dialect.name == "postgresql":
            for table in (answers, responses):  # rows came with their numbers
                sequence = f"pg_get_serial_sequence('{table.name}', 'number')"
                last = f"(select coalesce(max(number), 0) + 1 from {table.name})"
                writing.exec_driver_sql(f"select setval({sequence}, {last}, false)")
    return copied["answers"]


def backup(source: Database, path: Path) -> int:
    """Write a consistent copy as one SQLite file, also while people answer."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    engine = open_engine(f"sqlite:///{part}")
    copied = copy_study(source, engine)
    with contextlib.closing(engine.raw_connection()) as raw:
        raw.cursor().execute("pragma journal_mode=delete")  # one file, without a journal
    engine.dispose()
    part.replace(path)
    return copied
