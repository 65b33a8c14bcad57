"""Writes to Postgres for as long as it takes: an outage, a full disk, a lock or a failover only makes it wait."""

import re
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

import psycopg
from tenacity import (
    RetryCallState,
    RetryError,
    Retrying,
    retry_if_exception,
    sleep_using_event,
    stop_when_event_set,
)
from tenacity.wait import wait_exponential

from sessionization.errors import ConfigurationError, StoppedError, StreamError
from sessionization.say import Say
from sessionization.serving.postgres_login import Login
from sessionization.serving.served_tables import ServedTables

T = TypeVar("T")

_TRANSIENT = re.compile(
    r"starting up|shutting down|recovery|read-only|refused|timeout|timed out|No route|Temporary failure|too many|"
    r"connection slots|closed the connection"
)
"""What Postgres, or the network, says where a first connection is worth another try; other reasons need a person."""
_LONGEST_WAIT_S = 30
_LOCK_TIMEOUT = "30s"
"""After this a statement gives up on a lock of somebody else, and the job says so."""
_SETTINGS = {
    # So Postgres notices within a minute that this machine is gone, not after two hours, and frees the schema's lock.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "statement_timeout": "0",  # a comparison takes as long as it takes
    "TimeZone": "UTC",
}


class PostgresWriter:
    """The one connection of a run, which holds the lock of the schema. It connects again where it has to.

    Its methods may be called by several threads, one after the other. They raise `StoppedError` where `stop` is set
    while they wait.
    """

    def __init__(self, login: Login, tables: ServedTables, say: Say, stop: threading.Event) -> None:
        self._login, self._tables, self._say, self._stop = login, tables, say, stop
        self._connection: psycopg.Connection[Any] | None = None
        self.position = ""
        """How far this run has written."""
        self._one_at_a_time = threading.Lock()
        self._is_open = False
        self._waits_since_s: float | None = None
        self.has_lost_position = False
        """Whether Postgres is no longer where this run has left it; `begin` puts it right."""

    @property
    def is_waiting(self) -> bool:
        """Whether Postgres takes nothing now."""
        return self._waits_since_s is not None

    def open(self) -> None:
        """Connect for the first time; raises `ConfigurationError` where Postgres refuses for a reason that stays."""
        try:
            self._retry(lambda _connection: None)
            self._is_open = True
        except psycopg.Error as error:
            msg = f"--postgres: {_cause(error)} (docs/serving.md)"
            raise ConfigurationError(msg) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def begin(self, sessions: BinaryIO, bound_ms: int, position: str) -> int:
        """Make the tables equal to a version of `sessions`, whatever they hold; return how many rows differed.

        Args:
            sessions: its rows as CSV.
            bound_ms: a row of Postgres with a newer change stays.
            position: from where the changes are read after this.
        """

        def attempt(connection: psycopg.Connection[Any]) -> int:
            differed = self._tables.compare(connection, sessions, bound_ms, position)
            self.position, self.has_lost_position = position, False
            return differed

        return self._retry(attempt)

    def write(self, changes: BinaryIO, position: str, newest_ms: int | None) -> None:
        """Fold rows of CSV into the tables, once: also where a connection breaks while it commits.

        Raises `StreamError` where Postgres is not where this run has left it.
        """

        def attempt(connection: psycopg.Connection[Any]) -> None:
            stored = self._tables.position(connection)
            if stored not in {position, self.position}:
                self.has_lost_position = True
                msg = "Postgres is not where this run has left it"
                raise StreamError(msg)
            if stored != position:
                self._tables.write(connection, changes, position, newest_ms)
            self.position = position

        self._retry(attempt)

    def correct(self, sessions: BinaryIO, bound_ms: int) -> int:
        """As `begin`, in the midst of a run.

        Changes nothing, and sets `has_lost_position`, where Postgres is not where this run has left it: it may lack
        changes that `sessions` has not got either.
        """

        def attempt(connection: psycopg.Connection[Any]) -> int:
            if self._tables.position(connection) != self.position:
                self.has_lost_position = True
                return 0
            return self._tables.compare(connection, sessions, bound_ms, self.position)

        return self._retry(attempt)

    def _retry(self, attempt: Callable[[psycopg.Connection[Any]], T]) -> T:
        with self._one_at_a_time:
            trials = Retrying(
                retry=retry_if_exception(self._is_transient),
                wait=wait_exponential(multiplier=0.5, max=_LONGEST_WAIT_S),
                stop=stop_when_event_set(self._stop),
                sleep=sleep_using_event(self._stop),
                before_sleep=self._explain_wait,
            )
            try:
                result = trials(lambda: attempt(self._connected()))
            except RetryError as error:
                msg = "stopped while Postgres took nothing; the next start does what this one could not"
                raise StoppedError(msg) from error
            if self._waits_since_s is not None:
                self._say(f"Postgres takes changes again, after {time.monotonic() - self._waits_since_s:.0f} s")
                self._waits_since_s = None
            return result

    def _connected(self) -> psycopg.Connection[Any]:
        """The connection, a new one where it is broken; it waits while another run holds the lock."""
        if self._connection is not None and not self._connection.broken and not self._connection.closed:
            return self._connection
        connection = self._login()
        try:
            for name, value in (_SETTINGS | {"lock_timeout": _LOCK_TIMEOUT}).items():
                connection.execute(f"SET {name} = '{value}'")
            self._lock_schema(connection)
            self._tables.create(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _lock_schema(self, connection: psycopg.Connection[Any]) -> None:
        if self._tables.try_lock(connection):
            return
        self._say(f"another run serves schema {self._tables.schema}: waits until that one ends")
        while not self._tables.try_lock(connection):
            if self._stop.wait(1):
                msg = "stopped before it could begin"
                raise StoppedError(msg)

    def _is_transient(self, error: BaseException) -> bool:
        """Once it has begun, whatever Postgres refuses may pass, or a person puts it right meanwhile."""
        return isinstance(error, psycopg.Error) and (self._is_open or _TRANSIENT.search(str(error)) is not None)

    def _explain_wait(self, state: RetryCallState) -> None:
        assert state.outcome is not None
        self._waits_since_s = self._waits_since_s or time.monotonic()
        if self._connection is not None:
            self._connection.close()  # what it had begun ends, and its locks with it
        cause = _cause(state.outcome.exception())
        self._say(f"Postgres does not take changes ({cause}): waits, and tries again; nothing is lost")


def _cause(error: BaseException | None) -> str:
    return " ".join(str(error).split())
