"""SQL over a folder: what is printed, how wide, and what a prompt does; test_common_sql.py says by which engine."""

import io
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from pyspark.sql import SparkSession
from rich.console import Console

from sessionization.errors import ConfigurationError
from sessionization.settings.table_location_settings import FolderTables
from sessionization.spark.engine import session
from sessionization.spark.engine.job_conf import TIME_ZONE_CONF
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import REQUIRED_TABLES, SESSION_CHANGES
from sessionization_laptop.query import shell
from sessionization_laptop.query.answer import Answer, as_table
from sessionization_laptop.query.run_queries import run_queries
from tests.support.warehouse import empty_tables, frame_of

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
        {
            "device_id": "pc-1", "session_id": number, "platform": "pc", "change": "heartbeat", "revision": 0,
            "beat": beat, "missed_beats": missed, "duration_ms": duration_ms, "started_at": now,
            "due_at": (at := now + timedelta(milliseconds=duration_ms % 86_400_000)),
            "processed_at": at, "change_date": at.date(),
        }
        for number, beat, missed, duration_ms in beats
    ]  # fmt: skip
    location.append(frame_of(spark, SESSION_CHANGES, rows), SESSION_CHANGES)
    return folder


@pytest.mark.parametrize(("width", "lines"), [(80, 2 * 9 + 3), (200, 6)])
def test_rows_too_wide_for_the_terminal_are_shown_one_column_below_the_other(width: int, lines: int) -> None:
    names = [f"column_{number}" for number in range(9)]
    row = [f"{name}-value" for name in names]
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(as_table(Answer(names, [row, row]), console))
    text = console.export_text()
    assert len(text.splitlines()) == lines
    assert all(text.count(f"{name}-value") == 2 for name in names)


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("SELECT 1;\r\x04", ["SELECT 1"]),
        ("SELECT\r2 ;\r\x04", ["SELECT\n2"]),
        ("SELECT wrong\x03SELECT 3;\r\x04", ["SELECT 3"]),
        ("\r;\r\x04", []),
    ],
    ids=["one line", "two lines", "Ctrl-C", "nothing"],
)
def test_a_prompt_takes_a_statement_up_to_its_semicolon(
    typed: str, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "HISTORY", tmp_path / "history")
    answered: list[str] = []
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text(typed)
        shell.ask_queries(["sessions"], answered.append)
    assert answered == asked


def test_without_a_terminal_the_query_must_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for table in REQUIRED_TABLES:
        (tmp_path / table.name / "_delta_log").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="--sql is missing"):
        run_queries(FolderTables(warehouse=tmp_path), None, 1, print)


@pytest.mark.spark
def test_an_answer_needs_no_spark(warehouse: Path) -> None:
    query = f"--warehouse={warehouse}", "--sql=SELECT count(*) AS missing FROM session_changes WHERE missed_beats > 0"
    script = f"""
import sys, runpy
sys.argv = ["query", *{query!r}]
try:
    runpy.run_path("jobs/query.py", run_name="__main__")
except SystemExit:
    print([name for name in ("pyspark", "pandas", "pyarrow") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert "│ 1       │" in done.stdout
    assert done.stdout.endswith("[]\n")


@pytest.mark.spark
def test_times_are_utc_and_a_column_may_be_there_twice(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(session, "spark_session", lambda _log, depends_on: asked.append(depends_on) or spark)
    sql = "SELECT TIMESTAMP '2026-11-21T12:00:00Z' AS at, 1 AS at, 2 AS last"
    run_queries(FolderTables(warehouse=warehouse), sql, 1, lambda _: None)
    output = capsys.readouterr().out
    assert asked == [TIME_ZONE_CONF]
    assert "2026-11-21 12:00:00" in output
    assert [name.strip() for name in output.splitlines()[1].strip("┃").split("┃")] == ["at", "at", "last"]


@pytest.mark.spark
def test_the_runbook_query_finds_the_session_with_a_missing_beat(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    sql = text.split(RUNBOOK_SENTENCE)[1].split("```sql")[1].split("```")[0]
    run_queries(FolderTables(warehouse=warehouse), sql, 100, print)
    [row] = [line for line in capsys.readouterr().out.splitlines() if "pc-1" in line]
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["pc-1", "2", "2", "1"]
