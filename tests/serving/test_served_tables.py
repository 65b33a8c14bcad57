"""The tables in Postgres: they fold as `rollup` does, and a comparison makes them equal to `sessions`."""

import random
from datetime import UTC, timedelta
from io import BytesIO
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import utc, wall_clock_ms
from sessionization.core.events import ChangeKind, EndReason
from sessionization.serving.served_tables import ServedTables
from sessionization.serving.session_rows import flattened, write_in_parts
from sessionization.spark.tables.rollup import fold_by_session, to_session_rows
from tests.support.changes import T, frame, random_changes
from tests.support.serving import in_delta, in_postgres

pytestmark = pytest.mark.spark

LABELS = ("title", "order")


@pytest.fixture
def tables(schema: str, connection: psycopg.Connection[Any]) -> ServedTables:
    tables = ServedTables(schema, LABELS, "bigint", "UTC")
    tables.create(connection)
    return tables


def rows_of(folded: DataFrame) -> BytesIO:
    file = BytesIO()
    write_in_parts(flattened(folded), file)
    return file


@pytest.mark.parametrize("seed", range(4))
def test_changes_in_any_order_fold_as_in_sessions(
    spark: SparkSession, connection: psycopg.Connection[Any], tables: ServedTables, seed: int
) -> None:
    changes = random_changes(seed, 150)
    expected = in_delta(to_session_rows(fold_by_session(frame(spark, changes, LABELS), LABELS)), LABELS)
    random.Random(seed).shuffle(changes)
    batches = [changes[:50], changes[40:90], changes[90:], changes[:10]]
    for number, batch in enumerate(batches):
        rows = rows_of(fold_by_session(frame(spark, batch, LABELS), LABELS))
        tables.write(connection, rows, str(number), T)
    assert in_postgres(connection, tables.schema, LABELS) == expected
    assert tables.position(connection) == "3"


def test_a_comparison_puts_right_what_somebody_changed(
    spark: SparkSession, connection: psycopg.Connection[Any], tables: ServedTables
) -> None:
    changes = frame(spark, random_changes(1, 150), LABELS)
    sessions = to_session_rows(fold_by_session(changes, LABELS))
    rows, newest_ms = rows_of(sessions), T + 10
    tables.write(connection, rows, "1", newest_ms)
    expected = in_postgres(connection, tables.schema, LABELS)
    assert tables.compare(connection, rows, newest_ms, "2") == 0
    some = f"(SELECT device_id, session_id FROM {tables.schema}.served_sessions ORDER BY 1, 2 LIMIT 3)"
    for change in (
        f"DELETE FROM {tables.schema}.served_sessions WHERE (device_id, session_id) IN {some}",
        f"UPDATE {tables.schema}.served_sessions SET shown_end = NULL WHERE shown_end IS NOT NULL",
        f"UPDATE {tables.schema}.served_sessions SET started_at = 'epoch', updated_at = 'epoch'",
        f"INSERT INTO {tables.schema}.served_sessions (device_id, session_id, updated_at) VALUES ('other', 1, 'epoch')",
    ):
        connection.execute(change)
        assert in_postgres(connection, tables.schema, LABELS) != expected
        tables.compare(connection, rows, newest_ms, "2")
        assert in_postgres(connection, tables.schema, LABELS) == expected


def test_a_comparison_leaves_what_is_ahead_of_sessions(
    spark: SparkSession, connection: psycopg.Connection[Any], tables: ServedTables
) -> None:
    changes = frame(spark, random_changes(2, 60), LABELS)
    tables.write(connection, rows_of(fold_by_session(changes, LABELS)), "1", None)
    expected = in_postgres(connection, tables.schema, LABELS)
    older = changes.where(F.unix_millis("processed_at") < T + 5)
    assert tables.compare(connection, rows_of(fold_by_session(older, LABELS)), T, "2") == 0
    assert in_postgres(connection, tables.schema, LABELS) == expected


def test_an_account_has_what_lies_in_today_of_sessions_with_a_start(
    spark: SparkSession, connection: psycopg.Connection[Any], tables: ServedTables
) -> None:
    now_ms = wall_clock_ms()
    [(_, change)] = random_changes(0, 1)
    live = change._replace(
        account_id="ann", kind=ChangeKind.STARTED, started_ms=now_ms - 60_000, end_reason=None, ended_ms=None
    )
    ended = live._replace(
        session_id=98, kind=ChangeKind.ENDED, started_ms=now_ms - 90_000_000, end_reason=EndReason.REPORTED,
        ended_ms=now_ms - 30_000,
    )  # fmt: skip
    orphan = ended._replace(session_id=99, started_ms=None, end_reason=EndReason.ORPHANED)
    changes = frame(spark, [("d", live), ("d", ended), ("d", orphan)], LABELS)
    tables.write(connection, rows_of(fold_by_session(changes, LABELS)), "1", None)
    row = connection.execute(f"SELECT *, now() FROM {tables.schema}.account_now WHERE account_id = 'ann'").fetchone()
    assert row is not None
    *shown, now = row
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    played = (now - max(utc(now_ms - 60_000), today)) + max(utc(now_ms - 30_000) - today, timedelta())
    assert shown == ["ann", 1, utc(now_ms - 60_000), round(played / timedelta(milliseconds=1))]


@pytest.mark.parametrize("text", ["", "a\0b", "a\x01b", 'q"uo,te\n', "'; DROP TABLE x --", "\\N", "{}", "é😀"])
def test_any_text_has_its_place(
    spark: SparkSession, connection: psycopg.Connection[Any], tables: ServedTables, text: str
) -> None:
    [(_, change)] = random_changes(0, 1)
    changes = frame(spark, [(text, change._replace(account_id=text, labels=(text, None)))], LABELS)
    tables.write(connection, rows_of(fold_by_session(changes, LABELS)), "1", None)
    [row] = in_postgres(connection, tables.schema, LABELS)
    expected = text.replace("\0", "\ufffd").replace("\x01", "\ufffd")
    assert (row[0], row[2], row[7]) == (expected, expected, expected)


def test_two_ids_that_postgres_cannot_tell_apart_are_one(
    spark: SparkSession, connection: psycopg.Connection[Any], tables: ServedTables
) -> None:
    [(_, change)] = random_changes(0, 1)
    changes = frame(spark, [(device_id, change) for device_id in ("a\0", "a\x01", "a\ufffd", "b")], LABELS)
    rows = rows_of(fold_by_session(changes, LABELS))
    tables.write(connection, rows, "1", None)
    for _ in range(2):
        assert [row[0] for row in in_postgres(connection, tables.schema)] == ["a\ufffd", "b"]
        tables.compare(connection, rows, T + 10, "2")


@pytest.mark.parametrize(("before", "after"), [((), ("title",)), (("title", "x"), ("x",)), (("title", "x"), ())])
def test_tables_with_other_columns_are_made_anew(
    schema: str, connection: psycopg.Connection[Any], before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    ServedTables(schema, before, "bigint", "UTC").create(connection)
    connection.execute(
        f"INSERT INTO {schema}.served_sessions (device_id, session_id, updated_at) VALUES ('d', 1, now())"
    )
    connection.execute("DROP TABLE incoming")
    ServedTables(schema, after, "string", "UTC").create(connection)
    found = connection.execute(f"SELECT * FROM {schema}.live_sessions")
    assert found.fetchall() == []
    assert found.description is not None
    assert [column.name for column in found.description][7:] == list(after)


def test_what_is_there_waits_for_no_reader_and_what_is_not_is_created(
    connection: psycopg.Connection[Any], tables: ServedTables
) -> None:
    def create(time_zone: str) -> None:
        connection.execute("DROP TABLE incoming")
        ServedTables(tables.schema, LABELS, "bigint", time_zone).create(connection)

    connection.execute("SET lock_timeout = '200ms'")
    login = connection.info
    with psycopg.connect(login.dsn, password=login.password) as reader:  # in a transaction
        reader.execute(f"SELECT * FROM {tables.schema}.account_now")
        create("UTC")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            create("Europe/Berlin")
    connection.execute(f"DROP VIEW {tables.schema}.live_sessions")
    ServedTables(tables.schema, LABELS, "bigint", "Europe/Berlin").create(connection)
    connection.execute(f"SELECT * FROM {tables.schema}.live_sessions")
    [view] = connection.execute("SELECT pg_get_viewdef(%s::regclass)", [f"{tables.schema}.account_now"]).fetchall()
    assert "Europe/Berlin" in view[0]
