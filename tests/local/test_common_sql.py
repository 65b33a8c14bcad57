"""What DuckDB answers in Spark's place, it answers as Spark does: queries and views over one evening, by both."""

import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlglot.errors import SqlglotError

from sessionization.event_map.reading import PLAYSTATION, package_map
from sessionization.players.players_job import create_player_tables
from sessionization.spark.tables.creation import fit_to_events
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import QUARANTINE, SESSION_CHANGES, SESSIONS
from sessionization.spark.tables.view_sql import VIEWS
from sessionization_laptop.query import common_sql, duckdb_answers
from sessionization_laptop.query.answer import Answer
from sessionization_laptop.query.spark_answers import spark_answer
from tests.support.delta import live_files
from tests.support.warehouse import empty_tables, evening_rows, frame_of, merge_changes

ROOT = Path(__file__).parents[2]
ALL = 10_000
DOCUMENTED = [
    query
    for page in ("runbook", "tables", "players")
    for query in re.findall(r"```sql\n(.*?)```", (ROOT / f"docs/{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    if query.startswith("SELECT")
]

COMMON = (
    "SELECT end_reason, count(*) FROM sessions GROUP BY ALL",
    "SELECT * FROM sessions",
    "SELECT * FROM session_changes ORDER BY processed_at DESC, device_id, session_id, change",
    "SELECT DISTINCT account_id FROM sessions ORDER BY account_id",
    "SELECT account_id, ended_at FROM sessions ORDER BY ended_at DESC, account_id, session_id",
    "SELECT account_id, count(DISTINCT device_id) AS n, count(account_id) FROM sessions GROUP BY 1 ORDER BY n DESC, 1",
    "SELECT sum(duration_ms) AS duration_ms, min(ended_at), max(account_id) FROM sessions",
    "SELECT sum(beat), avg(beat), count_if(beat > 3), count_if(revision IS NULL) FROM session_changes WHERE beat > 9",
    "SELECT cast(avg(duration_ms) / 1000 AS int), cast(duration_ms / 7 AS bigint) FROM sessions GROUP BY duration_ms",
    "SELECT count_if(cast(duration_ms / 7 AS int) > 99), cast(cast(duration_ms / 7 AS int) / 7 AS int) FROM sessions "
    "GROUP BY duration_ms",
    "SELECT duration_ms / 10, duration_ms DIV 7, duration_ms % 7, -duration_ms DIV 7, -duration_ms % 7 FROM sessions",
    "SELECT sum(duration_ms) / 7, 10000000 * duration_ms / 3, duration_ms / 100000000 FROM sessions GROUP BY ALL",
    "SELECT count(*) FROM sessions WHERE started_at >= '2026-01-01' AND ended_at < '2026-01-01 12:30:00.5'",
    "SELECT count(*) FROM sessions WHERE started_at BETWEEN TIMESTAMP '2026-01-01 12:10:00' AND '2026-01-01T13:00:00'",
    "SELECT count(*) FROM session_changes WHERE change_date = '2026-01-01' OR change_date = DATE '2026-01-02'",
    "SELECT count(*) FROM session_changes WHERE change_date > current_date() - 1 AND due_at < current_timestamp()",
    "SELECT date_trunc('HOUR', started_at) AS hour, count(*) FROM sessions GROUP BY 1 ORDER BY 1 DESC",
    "SELECT date_trunc('MONTH', started_at), date(ended_at), CAST(ended_at AS date), to_date(ended_at) FROM sessions",
    "SELECT unix_millis(started_at), started_at + INTERVAL 90 MINUTES, ended_at - INTERVAL '1' DAY FROM sessions",
    "SELECT title || ' on ' || platform AS game, count(*) FROM sessions WHERE title LIKE 'PP%0_' GROUP BY ALL",
    "SELECT count(*) AS n FROM sessions WHERE platform = \"pc\" AND NOT (title IN ('PPSA1', '') OR account_id IS NULL)",
    "SELECT CASE WHEN duration_ms > 60000 THEN 'long' WHEN duration_ms IS NULL THEN 'live' ELSE 'short' END AS kind, "
    "if(account_id <=> NULL, 1, 0) AS n, coalesce(account_id, device_id, '?') FROM sessions",
    "SELECT status, change FROM sessions JOIN session_changes c USING (device_id, session_id) WHERE c.revision = 0",
    "SELECT s.account_id, c.beat FROM session_changes c LEFT JOIN sessions AS s "
    "ON c.session_id = s.session_id AND s.status = 'live' WHERE c.change <> 'started'",
    "WITH of_device AS (SELECT device_id, count(*) AS n FROM sessions GROUP BY device_id HAVING count(*) > 1) "
    "SELECT max(n), min(n) FROM of_device",
    "SELECT session_id, row_number() OVER (PARTITION BY device_id ORDER BY ended_at DESC, session_id) AS place, "
    "sum(duration_ms) OVER (PARTITION BY device_id ORDER BY ended_at, session_id) FROM sessions",
    "SELECT day, started, ended_reported FROM (SELECT * FROM session_quality) ORDER BY day",
    "SELECT value, reason FROM quarantine",
    "SELECT count(*) > 0 AS has_rows FROM live_sessions WHERE device_id = (SELECT max(device_id) FROM sessions)",
    "SELECT platform FROM sessions LIMIT 0",
    "SELECT 1 + 1 AS two, NULL AS nothing, true AND false",
)

FOR_SPARK = (
    "SELECT round(x, 1) FROM t",
    "SELECT x / y FROM t",
    "SELECT x DIV 0 FROM t",
    "SELECT x % y FROM t",
    "SELECT x * 1.5 FROM t",
    "SELECT count(*) FROM t WHERE name = 3",
    "SELECT count(*) FROM t WHERE x = '3'",
    "SELECT count(*) FROM t WHERE at = day",
    "SELECT count(*) FROM t WHERE at > '1/2/2026'",
    "SELECT count(*) FROM t WHERE x",
    "SELECT coalesce(at, '2026-01-01') FROM t",
    "SELECT cast(name AS int) FROM t",
    "SELECT cast(at AS string) FROM t",
    "SELECT day - INTERVAL 1 DAY FROM t",
    "SELECT at + INTERVAL 1 MONTH FROM t",
    "SELECT at - at FROM t",
    "SELECT timestampdiff(HOUR, at, at) FROM t",
    "SELECT date_trunc('WEEK', at) FROM t",
    "SELECT max_by(name, x) FROM t",
    "SELECT max(pair) FROM t",
    "SELECT pair.a FROM t",
    "SELECT percentile(x, 0.5) FROM t",
    "SELECT name LIKE other FROM t",
    r"SELECT name LIKE '10\%' FROM t",
    "SELECT upper(name) FROM t",
    "SELECT concat(name, name) FROM t",
    "SELECT x AS name, count(name) FROM t GROUP BY name",
    "SELECT sum(x) AS x, avg(x) FROM t",
    "SELECT count(*) AS x FROM t GROUP BY name HAVING x > 1",
    "SELECT x FROM t WHERE x IN (SELECT x FROM t)",
    "SELECT x FROM t UNION ALL SELECT x FROM t",
    "SELECT x FROM t TABLESAMPLE (10 PERCENT)",
    "SELECT x FROM t VERSION AS OF 3",
    "SELECT x FROM t LEFT SEMI JOIN t AS o ON t.x = o.x",
    "SELECT name, count(*) FROM t GROUP BY ROLLUP (name)",
    "SELECT sum(x) OVER (ORDER BY x ROWS 3 PRECEDING) FROM t",
    "SELECT explode(sequence(1, x)) FROM t",
    "OPTIMIZE t",
    "SELECT nobody FROM t",
    "SELEC x FROM t",
)


@pytest.mark.parametrize("sql", FOR_SPARK)
def test_what_differs_is_for_spark(sql: str) -> None:
    types = {"x": "BIGINT", "y": "BIGINT", "name": "VARCHAR", "other": "VARCHAR", "day": "DATE"}
    types |= {"at": "TIMESTAMP WITH TIME ZONE", "pair": "STRUCT(a INTEGER, b INTEGER)"}
    with pytest.raises((common_sql.NotCommonError, SqlglotError)):
        common_sql.translate(common_sql.parse(sql), {"t": types})


def test_a_cast_within_a_part_that_is_rewritten_truncates_too() -> None:
    query = common_sql.parse("SELECT count_if(cast(cast(x / 7 AS int) / 7 AS bigint) > 99) AS n FROM t")
    translated = common_sql.translate(query, {"t": {"x": "BIGINT"}})
    assert (translated.count("TRUNC("), "TRY_CAST" in translated, "COUNT_IF" in translated) == (2, False, False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12.5, "12.5"), (0.0, "0.0"), (1e7, "1.0E7"), (-123456789.25, "-1.2345678925E8"), (0.0001, "1.0E-4"),
        (1e300, "1.0E300"), (float("nan"), "NaN"), (float("-inf"), "-Infinity"), (True, "true"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01 00:00:00"), ({"a": 1, "b": None}, "{1, null}"), ([1], "[1]"),
    ],
)  # fmt: skip
def test_values_are_written_as_spark_writes_them(value: object, text: str) -> None:
    assert duckdb_answers._text(value) == text


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of an evening with nulls in all columns that may have them, and with rows that MERGE replaced."""
    folder = tmp_path_factory.mktemp("sql") / "warehouse"
    location, events = empty_tables(spark, TableLocation(folder), owner="test"), package_map(PLAYSTATION)
    fit_to_events(spark, location, events, events.label_columns())
    create_player_tables(spark, location)
    rng, now = random.Random(56), datetime.now(UTC)
    rows = evening_rows(now)
    del rows[SESSIONS]
    rows[QUARANTINE][0]["value"] = "{é".encode()
    for number in range(3, 60):
        rows[SESSION_CHANGES] += played(number, rng, now)
    for table, table_rows in rows.items():
        labels = ("title",) if table is SESSION_CHANGES else ()
        location.append(frame_of(spark, table, table_rows, labels), table)
    for change in ("started", "ended"):
        merge_changes(spark, location, location.read(spark.read, SESSION_CHANGES).where(f"change = '{change}'"))
    assert any(file.get("deletionVector") for file in live_files(folder / SESSIONS.name).values())
    return folder


def played(number: int, rng: random.Random, now: datetime) -> list[dict[str, Any]]:
    """The changes of a session that ended on 2026-01-01, or that is live since the last hour."""
    is_live, second = rng.random() < 0.2, timedelta(seconds=rng.randrange(3_600))
    start = now - second if is_live else datetime(2026, 1, 1, 12, tzinfo=UTC) + second
    length = timedelta(milliseconds=rng.randrange(200_000))
    session = {"device_id": f"d{rng.randrange(9)}", "session_id": number, "platform": rng.choice(["pc", "console"])}
    session |= {"revision": 0, "started_at": start, "account_id": rng.choice(["ann", "Bob", "é", None])}
    session |= {"title": rng.choice(["PPSA1", "PPSA02", None]), "change_date": start.date(), "processed_at": start}
    end = {"change": "ended", "end_reason": rng.choice(["reported", "superseded"]), "ended_at": start + length}
    end |= {"duration_ms": length // timedelta(milliseconds=1), "processed_at": start + length}
    started = session | {"change": "started", "duration_ms": 0}
    return [started] if is_live else [started, session | end]


def by_both(spark: SparkSession, warehouse: Path, sql: str) -> tuple[Answer | None, Answer]:
    by_duckdb = duckdb_answers.duckdb_answer(warehouse, sql, ALL)
    return by_duckdb, spark_answer(spark, TableLocation(warehouse), sql, ALL, lambda _: None)


def without_ages(answer: Answer, *, ordered: bool) -> list[tuple[str | None, ...]]:
    """The rows, without the columns that count up to now."""
    shown = [index for index, name in enumerate(answer.names) if "age_ms" not in name and "oldest_beat" not in name]
    rows = [tuple(row[index] for index in shown) for row in answer.rows]
    return rows if ordered else sorted(rows, key=repr)


@pytest.mark.spark
@pytest.mark.parametrize("sql", COMMON)
def test_duckdb_answers_as_spark_does(spark: SparkSession, warehouse: Path, sql: str) -> None:
    by_duckdb, by_spark = by_both(spark, warehouse, sql)
    assert by_duckdb is not None
    assert len(by_duckdb.names) == len(by_spark.names)
    ordered = "ORDER BY" in sql and "OVER" not in sql
    assert without_ages(by_duckdb, ordered=ordered) == without_ages(by_spark, ordered=ordered)


@pytest.mark.spark
def test_the_views_and_the_queries_of_the_documentation_are_the_same_in_both(
    spark: SparkSession, warehouse: Path
) -> None:
    answered = []
    for sql in [*(f"SELECT * FROM {view}" for view in VIEWS), *DOCUMENTED]:
        by_duckdb, by_spark = by_both(spark, warehouse, sql)
        if by_duckdb is not None:
            answered.append(sql)
            assert without_ages(by_duckdb, ordered=False) == without_ages(by_spark, ordered=False), sql
    assert {sql.split()[-1] for sql in answered if sql not in DOCUMENTED} == {*VIEWS} - {"freshness", "session_quality"}
