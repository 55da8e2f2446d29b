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

from segmeter.core.errors import BadInput, NotFound, first_line

METADATA = sa.MetaData()
VERSION = 1
PENDING = -1
"""`trials.counts` before a batch is closed; then 1 (counts) or 0."""
_PRAGMAS = ("journal_mode=wal", "synchronous=full", "foreign_keys=on", "secure_delete=on")
_ROWS_AT_ONCE = 2000


_TYPES = {"": sa.Text, "int": sa.Integer, "float": sa.Double, "bool": sa.Boolean}


def _table(name: str, columns: str, *indexes: sa.Index) -> sa.Table:
    """A table from words such as `id*`, `at:float`, `label?` and `batch>batches`.

    `*` marks the primary key, `?` a column that may be empty, `>` a reference to another table's
    id; columns are texts unless a type follows.
    """
    made: list[sa.Column[Any]] = []
    for word in columns.split():
        column, _, to = word.rstrip("*?").partition(">")
        column, _, kind = column.partition(":")
        references = [sa.ForeignKey(f"{to}.id")] if to else []
        key, optional = word.endswith("*"), word.endswith("?")
        made.append(
            sa.Column(column, _TYPES[kind], *references, primary_key=key, nullable=optional)
        )
    return sa.Table(name, METADATA, *made, *indexes)


study = _table("study", "id:int* version:int secret plan state")
plans = _table("plans", "hash* text since:float")
tasks = _table("tasks", "id* scene target condition part source role place:int")
cells = _table("cells", "task>tasks* device* wanted:int valid:int open:int")
people = _table(
    "people",
    "id* number:int session role label language device? condition? joined:float finished:float? "
    "state passed:bool platform plan platform_id?",
    sa.Index("people_session", "session", unique=True),
    sa.Index("people_platform", "platform_id", unique=True),
)
invitations = _table("invitations", "id* role label made:float person?")
batches = _table(
    "batches",
    "id* person>people device condition role state reason opened:float deadline:float "
    "closed:float? plan",
    sa.Index("batches_person", "person"),
    sa.Index("batches_state", "state", "deadline"),
)
trials = _table(
    "trials",
    "id* batch>batches place:int task>tasks answered:float? flags counts:int shown_again:int plan",
    sa.Index("trials_batch", "batch", "place"),
    sa.Index("trials_task", "task"),
)
answers = _table(
    "answers",
    "number:int* trial>trials kind at:float body",
    sa.Index("answers_trial", "trial", "number"),
)
responses = _table(
    "responses",
    "number:int* person>people question at:float value",
    sa.Index("responses_person", "person"),
)
ALL = trials.join(tasks).join(batches).join(people)
"""Trials with their tasks, batches and people."""
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
            raise NotFound(
                f"the database cannot be opened: {first_line(error.orig or error)}"
            ) from None
        except sa.exc.DatabaseError as error:
            raise BadInput(f"not a study's database: {first_line(error.orig or error)}") from None
        with self._begin() as connection:
            found = find(connection, study)
            if found is None:
                new = {"id": 1, "version": VERSION, "secret": secrets.token_hex(32)}
                connection.execute(sa.insert(study), {**new, "plan": "", "state": "new"})
            elif found["version"] != VERSION:
                raise BadInput(
                    f"this database has version {found['version']}, this segmeter needs {VERSION}"
                )

    @contextlib.contextmanager
    def _begin(self) -> Iterator[sa.Connection]:
        with self.engine.connect().execution_options(writes=True) as connection, connection.begin():
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
            if not count(connection, people.c.id == person):
                return False
            own = sa.select(batches.c.id).where(batches.c.person == person)
            of_batches = sa.select(trials.c.id).where(trials.c.batch.in_(own))
            for trial in connection.execute(of_batches).scalars().all():
                settle(connection, trial, 0)
            connection.execute(sa.delete(answers).where(answers.c.trial.in_(of_batches)))
            connection.execute(sa.delete(trials).where(trials.c.batch.in_(own)))
            for column in (batches.c.person, responses.c.person, people.c.id):
                connection.execute(sa.delete(column.table).where(column == person))
            used = sa.update(invitations).where(invitations.c.person == person)
            connection.execute(used.values(person=""))
        if self.engine.dialect.name == "sqlite":
            with contextlib.closing(self.engine.raw_connection()) as raw:
                raw.cursor().execute("pragma wal_checkpoint(truncate)")
        return True


def count(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> int:
    return int(connection.execute(sa.select(sa.func.count()).where(*where)).scalar_one())


def find(connection: sa.Connection, table: sa.Table, **values: Any) -> sa.RowMapping | None:
    return connection.execute(sa.select(table).filter_by(**values)).mappings().first()


def rows(connection: sa.Connection, asked: sa.Select[Any]) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(asked).mappings()]


def change(connection: sa.Connection, table: sa.Table, id: str, **values: Any) -> None:
    connection.execute(sa.update(table).where(table.c.id == id).values(**values))


def latest_answers() -> sa.Subquery:
    """The valid answer of each trial: the last one given."""
    last = (
        sa.select(answers.c.trial, sa.func.max(answers.c.number).label("number"))
        .where(answers.c.kind == "answer")
        .group_by(answers.c.trial)
    ).subquery()
    found = sa.select(answers.c.trial, answers.c.body, answers.c.at)
    return found.join(last, last.c.number == answers.c.number).subquery()


def settle(connection: sa.Connection, trial: str, counts: int) -> None:
    """Let a trial count or not, and keep the counters of its cell right."""
    asked = sa.select(trials.c.counts, trials.c.task, batches.c.device).join(batches)
    found = connection.execute(asked.where(trials.c.id == trial)).one()
    if found.counts == counts:
        return
    opened = -1 if found.counts == PENDING else 0
    valid = (counts == 1) - (found.counts == 1)
    change(connection, trials, trial, counts=counts)
    cell = sa.update(cells).where(cells.c.task == found.task, cells.c.device == found.device)
    connection.execute(cell.values(open=cells.c.open + opened, valid=cells.c.valid + valid))


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
    own = source.engine.url.database
    if own and path.exists() and path.samefile(own):
        raise BadInput(f"'{path}' is the study's own database; choose another file")
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    engine = open_engine(f"sqlite:///{part}")
    copied = copy_study(source, engine)
    with contextlib.closing(engine.raw_connection()) as raw:
        raw.cursor().execute("pragma journal_mode=delete")  # one file, without a journal
    engine.dispose()
    part.replace(path)
    return copied
