"""The tables in Postgres, and what writes them: the statements in `sessionization/sql/serving`."""

import shutil
from collections.abc import Sequence
from hashlib import sha256
from string import Template
from typing import Any, BinaryIO

import psycopg

from sessionization.serving.session_rows import FIRST, SHOWN, ordered_field
from sessionization.spark.tables.rollup import SHOWN_END
from sessionization.spark.tables.schemas import FIRST_START
from sessionization.spark.tables.statements import names_of, read_statement

_TABLES = ("served_sessions", "serving_progress")
_CREATED = (*_TABLES, "live_sessions", "account_now")
_LOCK_CLASS = 0x5E551055
"""Marks the advisory locks of this job in a database."""
_BYTES_AT_ONCE = 1024 * 1024


class ServedTables:
    """The tables and views in one schema of Postgres.

    Args:
        schema: its name, which needs no quotes.
        labels: the label columns of the Delta tables.
        session_id: the type of session ids in Spark, `bigint` or `string`.
        time_zone: where today begins.
    """

    def __init__(self, schema: str, labels: Sequence[str], session_id: str, time_zone: str) -> None:
        self.schema = schema
        values = {
            f"{kind}_{name}": ordered_field(encoding, number, name)
            for kind, encoding, fields in (("first", FIRST, FIRST_START), ("shown", SHOWN, SHOWN_END))
            for number, name in enumerate((*fields, *labels), start=1)
        }
        columns = (
            f"{_quoted(label)} text GENERATED ALWAYS AS "
            f"(coalesce({values[f'first_{label}']}, {values[f'shown_{label}']})) STORED,\n  "
            for label in labels
        )
        values |= {
            "schema": schema,
            "session_id": "bigint" if session_id == "bigint" else 'text COLLATE "C"',
            "labels": "".join(columns),
            "label_names": "".join(f", {_quoted(label)}" for label in labels),
            "time_zone": time_zone,
        }
        self._statements = {
            name: Template(read_statement("serving", name)).substitute(values) for name in names_of("serving")
        }

    def try_lock(self, connection: psycopg.Connection[Any]) -> bool:
        """Lock the schema against other runs, until the connection ends; False where another one holds it."""
        locked = connection.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", (_LOCK_CLASS, self.schema))
        return bool(_only(locked))

    def create(self, connection: psycopg.Connection[Any]) -> None:
        """Create tables and views, where they are not there as they should be: anew and empty, because it is a copy.

        What is as it should be stays, for a view that is created again would wait for all who read it, and they for it.
        """
        if not self._is_complete(connection):
            with connection.transaction():
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self.schema}")
                for name in _TABLES:
                    connection.execute(f"DROP TABLE IF EXISTS {self.schema}.{name} CASCADE")
                for name in _CREATED:
                    connection.execute(self._statements[name])
                connection.execute(f"COMMENT ON TABLE {self.schema}.{_TABLES[0]} IS '{self._digest()}'")
        connection.execute(self._statements["incoming"])

    def _is_complete(self, connection: psycopg.Connection[Any]) -> bool:
        names = [f"{self.schema}.{name}" for name in _CREATED]
        found = connection.execute(
            "SELECT count(to_regclass(name)), obj_description(to_regclass(%s), 'pg_class') "
            "FROM unnest(%s::text[]) name",
            (names[0], names),
        )
        return found.fetchone() == (len(names), self._digest())

    def _digest(self) -> str:
        """Of the statements that create all, as the table's comment has it."""
        return sha256("".join(self._statements[name] for name in _CREATED).encode()).hexdigest()

    def position(self, connection: psycopg.Connection[Any]) -> str | None:
        """How far the changes are written; None where nothing is."""
        found: str | None = _only(connection.execute(f"SELECT max(position) FROM {self.schema}.serving_progress"))
        return found

    def write(
        self, connection: psycopg.Connection[Any], changes: BinaryIO, position: str, newest_ms: int | None
    ) -> None:
        """Fold rows into the table, and note the position, in one transaction.

        Args:
            connection: to Postgres.
            changes: rows as CSV (`session_rows.write_csv`), read from the begin of the file.
            position: how far the changes are read with these.
            newest_ms: when the newest change was processed; None leaves it as it is.
        """
        with connection.transaction():
            self._receive(connection, changes)
            connection.execute(self._statements["fold"])
            connection.execute(self._statements["note_progress"], (position, newest_ms))

    def compare(self, connection: psycopg.Connection[Any], sessions: BinaryIO, bound_ms: int, position: str) -> int:
        """Make the table equal to the rows of a version of `sessions`, in one transaction; return how many differed.

        Args:
            connection: to Postgres.
            sessions: the rows, as in `write`.
            bound_ms: a row of Postgres with a newer change stays.
            position: noted as in `write`.
        """
        with connection.transaction():
            self._receive(connection, sessions)
            connection.execute("ANALYZE incoming")
            deleted = connection.execute(self._statements["delete_differing"], (bound_ms,))
            newest_ms = _only(connection.execute("SELECT extract(epoch FROM max(updated_at)) * 1000 FROM incoming"))
            connection.execute(self._statements["fold"])
            connection.execute(self._statements["note_progress"], (position, newest_ms))
            return deleted.rowcount

    def _receive(self, connection: psycopg.Connection[Any], rows: BinaryIO) -> None:
        rows.seek(0)
        with connection.cursor() as cursor, cursor.copy("COPY incoming FROM STDIN (FORMAT csv)") as copy:
            shutil.copyfileobj(rows, copy, _BYTES_AT_ONCE)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _only(result: psycopg.Cursor[Any]) -> Any:
    row = result.fetchone()
    assert row is not None
    return row[0]
