"""`jobs/query.py` runs SQL on the tables, as the runbook does."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES
from sessionization_laptop.print_query import as_table, print_query
from tests.support.warehouse import empty_tables

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
RUNBOOK_SENTENCE = "No beat is missing or double where this has no row:"


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Heartbeats of three sessions: one complete, one with a missing beat, one older than yesterday."""
    folder = tmp_path_factory.mktemp("query") / "warehouse"
    location = empty_tables(spark, TableLocation(folder), owner="test")
    now = datetime.now(UTC)
    beats = [(1, 1, 0, 30_000), (1, 2, 0, 60_000), (1, 4, 1, 120_000), (2, 2, 0, 60_000), (3, 5_000, 0, 172_800_000)]
    rows = [
        ("pc-1", session, beat, missed, duration_ms, now + timedelta(milliseconds=duration_ms % 86_400_000))
        for session, beat, missed, duration_ms in beats
    ]
    heartbeats = spark.createDataFrame(
        rows,
        "device_id string, session_id bigint, beat int, missed_beats int, duration_ms bigint, processed_at timestamp",
    ).withColumns(
        {
            "platform": F.lit("pc"),
            "change": F.lit("heartbeat"),
            "revision": F.lit(0),
            "started_at": F.lit(now),
            "due_at": F.col("processed_at"),
            "change_date": F.to_date("processed_at"),
        }
    )
    location.append(heartbeats, SESSION_CHANGES)
    return folder


@pytest.mark.parametrize(("width", "lines"), [(80, 2 * 9 + 3), (200, 6)])
def test_rows_too_wide_for_the_terminal_are_shown_one_column_below_the_other(
    spark: SparkSession, width: int, lines: int
) -> None:
    names = [f"column_{number}" for number in range(9)]
    row = tuple(f"{name}-value" for name in names)
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(as_table(spark.createDataFrame([row, row], names), console))
    text = console.export_text()
    assert len(text.splitlines()) == lines
    assert all(text.count(f"{name}-value") == 2 for name in names)


def test_times_are_utc_and_a_column_may_be_there_twice(
    spark: SparkSession, warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    print_query(warehouse, "SELECT TIMESTAMP '2026-11-21T12:00:00Z' AS at, 1 AS at, 2 AS last", rows=1)
    output = capsys.readouterr().out
    assert "2026-11-21 12:00:00" in output
    assert [name.strip() for name in output.splitlines()[1].strip("┃").split("┃")] == ["at", "at", "last"]


def test_the_runbook_query_finds_the_session_with_a_missing_beat(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    sql = text.split(RUNBOOK_SENTENCE)[1].split("```sql")[1].split("```")[0]
    print_query(warehouse, sql, rows=100)
    [row] = [line for line in capsys.readouterr().out.splitlines() if "pc-1" in line]
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["pc-1", "2", "2", "1"]
