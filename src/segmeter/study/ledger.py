"""The ledger: every change is an event, and the tables are what the events add up to.

An event is applied to the tables and kept in the table `events` in one transaction; then it
is appended to the log, one JSON object a line. What a killed server had committed but not
logged is logged at the next start, so an acknowledged answer is in both. The log alone
rebuilds the database. When a person withdraws, all their events leave both.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from segmeter.core.errors import BadInput, NotFound
from segmeter.study import tables as t
from segmeter.study.event_log import (
    append_lines,
    event_line,
    numbers_in,
    read_events,
    replace_lines,
)
from segmeter.study.folding import apply, erase_person
from segmeter.study.migrations import upgrade

__all__ = ["Ledger", "Writing", "open_engine", "rebuild"]

_LARGEST_GROUP = 64
# What people withdraw is overwritten, not only left out.
_SQLITE_RULES = ("journal_mode=wal", "synchronous=full", "foreign_keys=on", "secure_delete=on")


def open_engine(url: str) -> sa.Engine:
    """An engine on SQLite (write-ahead log, every commit on disk) or PostgreSQL."""
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
    engine = sa.create_engine(address, connect_args={"timeout": 60}, pool_size=20)

    @sa.event.listens_for(engine, "connect")
    def _(connection: Any, record: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        for rule in _SQLITE_RULES:
            connection.execute(f"pragma {rule}")

    @sa.event.listens_for(engine, "begin")
    def _(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("begin immediate" if writes else "begin")

    return engine


class Writing:
    """A transaction that may read, and record events."""

    def __init__(self, connection: sa.Connection, first: int) -> None:
        self.connection = connection
        self.lines: list[str] = []
        self._next = first

    def record(self, kind: str, body: Mapping[str, Any], person: str | None = None) -> None:
        """Apply an event and keep it."""
        event = {"number": self._next, "at": time.time(), "kind": kind, "person": person}
        event["body"] = dict(body)
        self._next += 1
        self.lines.append(keep(self.connection, event))


def keep(connection: sa.Connection, event: Mapping[str, Any]) -> str:
    """Apply one event, put it into the table of events, and return its line."""
    apply(connection, event)
    row = {**event, "body": json.dumps(event["body"])}
    connection.execute(sa.insert(t.events), row)
    return event_line(event)


@dataclass
class _Group:
    """Writes that share one commit."""

    connection: sa.Connection
    next: int
    members: int = 0
    lines: list[str] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class Ledger:
    """A study's database and log."""

    def __init__(self, url: str, log: Path | None) -> None:
        self.engine = open_engine(url)
        self.log = log
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._waiting = 0
        self._group: _Group | None = None
        try:
            upgrade(self.engine)
        except sa.exc.OperationalError as error:
            reason = str(error.orig).splitlines()[0]
            raise NotFound(f"the database cannot be opened: {reason}") from None
        with self.engine.begin() as connection:
            if connection.execute(sa.select(t.study)).first() is None:
                secret = secrets.token_hex(32)
                empty = {"id": 1, "secret": secret, "plan": "", "state": "new"}
                connection.execute(sa.insert(t.study), empty)
        self.catch_up()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Writing]:
        """Write, one after the other; returns when it is committed and logged.

        Whoever waits meanwhile joins the same commit, each behind a savepoint of their own:
        a disk takes about as long for one commit of fifty answers as for one of one.
        """
        self._arrive()
        try:
            group = self._group or self._begin()
            try:
                with group.connection.begin_nested():
                    work = Writing(group.connection, group.next)
                    yield work
                group.next += len(work.lines)
                group.lines += work.lines
            finally:
                group.members += 1
                if not self._waiting or group.members >= _LARGEST_GROUP:
                    self._commit(group)
        finally:
            self._lock.release()
        group.done.wait()
        if group.error is not None:
            raise group.error

    def _arrive(self) -> None:
        with self._counting:
            self._waiting += 1
        self._lock.acquire()
        with self._counting:
            self._waiting -= 1

    def _begin(self) -> _Group:
        connection = self.engine.connect().execution_options(writes=True)
        connection.begin()
        # On PostgreSQL this row is the lock that all servers of a study share.
        connection.execute(sa.select(t.study.c.id).with_for_update())
        self._group = _Group(connection, _last_number(connection) + 1)
        return self._group

    def _commit(self, group: _Group) -> None:
        """Commit what came together, log it, and let everybody go."""
        self._group = None
        try:
            with group.connection:
                group.connection.commit()
            self._append(group.lines)
        except BaseException as error:
            group.error = error
            raise
        finally:
            group.done.set()

    @contextlib.contextmanager
    def protocol(self) -> Iterator[sa.Connection]:
        with self.engine.connect() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else writes, and nothing waits to be committed."""
        self._arrive()
        try:
            if self._group is not None:
                self._commit(self._group)
            yield
        finally:
            self._lock.release()

    def secret(self) -> str:
        with self.protocol() as connection:
            return str(connection.execute(sa.select(t.study.c.secret)).scalar_one())

    def withdraw(self, person: str) -> bool:
        """Delete a person: rows, events and lines; False where there is none."""
        with self._alone(), self.engine.connect().execution_options(writes=True) as connection:
            with connection.begin():
                connection.execute(sa.select(t.study.c.id).with_for_update())
                invited = sa.select(t.invitations.c.id).where(t.invitations.c.person == person)
                invitation = connection.execute(invited).scalar() or ""
                if not erase_person(connection, person):
                    return False
                connection.execute(sa.delete(t.events).where(t.events.c.person == person))
                work = Writing(connection, _last_number(connection) + 1)
                work.record("erased", {"invitation": invitation})
            self._rewrite(connection)
        self._scrub()
        return True

    def _scrub(self) -> None:
        """Empty SQLite's write-ahead log, which still has what was deleted."""
        if self.engine.dialect.name == "sqlite":
            with contextlib.closing(self.engine.raw_connection()) as connection:
                connection.cursor().execute("pragma wal_checkpoint(truncate)")

    def catch_up(self) -> int:
        """Log what was committed before a crash and not logged; a torn last line is redone."""
        if self.log is None:
            return 0
        with self._lock, self.protocol() as connection:
            known = numbers_in(self.log)
            lines = [line for number, line in _event_lines(connection) if number not in known]
        self._append(lines)
        return len(lines)

    def _append(self, lines: list[str]) -> None:
        if self.log is not None and lines:
            append_lines(self.log, lines)

    def _rewrite(self, connection: sa.Connection) -> None:
        """The log without what was erased, exchanged in one step."""
        if self.log is not None:
            with connection.begin():
                replace_lines(self.log, (line for _, line in _event_lines(connection)))


def rebuild(log: Path, url: str) -> int:
    """A new database from a log; returns the number of events."""
    ledger = Ledger(url, None)
    events = read_events(log)
    connecting = ledger.engine.connect().execution_options(writes=True)
    with connecting as connection, connection.begin():
        if _last_number(connection):
            raise BadInput("the database to rebuild is not empty; give a new one")
        for event in events:
            try:
                keep(connection, event)
            except (KeyError, TypeError, ValueError, sa.exc.SQLAlchemyError) as error:
                raise BadInput(
                    f"event {event['number']} of '{log}' does not fit what came before it"
                ) from error
    return len(events)


def _event_lines(connection: sa.Connection) -> Iterator[tuple[int, str]]:
    for row in connection.execute(sa.select(t.events).order_by(t.events.c.number)).mappings():
        event = {**row, "body": json.loads(row["body"])}
        yield int(row["number"]), event_line(event)


def _last_number(connection: sa.Connection) -> int:
    return int(connection.execute(sa.select(sa.func.max(t.events.c.number))).scalar() or 0)
