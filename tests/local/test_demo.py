"""The queries of the demo's live view."""

import errno
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output.sinks import to_session_changes
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import QUARANTINE, SESSION_CHANGES
from sessionization_laptop import demo
from sessionization_laptop.demo import new_changes, refused_since
from tests.support.changes import NOW_MS, a_change
from tests.support.failing import failing_with
from tests.support.warehouse import empty_tables

pytestmark = pytest.mark.spark

NOW = datetime.fromtimestamp(NOW_MS / 1_000, UTC)


def test_the_live_view_reads_the_rows_after_an_instant_and_ends_come_last(spark: SparkSession, tmp_path: Path) -> None:
    location = empty_tables(spark, TableLocation(tmp_path), owner="test")
    end = {"change": "ended", "end_reason": "reported", "ended_ms": NOW_MS}
    changes = [
        a_change(session_id=1), a_change(session_id=2, processed_ms=NOW_MS + 1, **end),
        a_change(session_id=3, processed_ms=NOW_MS + 1), a_change(session_id=4, processed_ms=NOW_MS + 2),
    ]  # fmt: skip
    location.append(to_session_changes(spark.createDataFrame(changes, OUTPUT_SCHEMA)), SESSION_CHANGES)
    assert [row.session_id for row in new_changes(spark, location, NOW)] == [3, 2, 4]

    def refused(seconds: int, reason: str) -> dict[str, object]:
        at = NOW + timedelta(seconds=seconds)
        return dict.fromkeys(QUARANTINE.column_names) | {
            "stream": "pc_sessions", "ingested_at": at, "ingest_date": at.date(), "reason": reason
        }  # fmt: skip

    rows = [
        refused(0, "oversized"),
        refused(1, "oversized"),
        refused(2, "malformed_json"),
        refused(3, "malformed_json"),
    ]
    location.append(spark.createDataFrame([tuple(row.values()) for row in rows], QUARANTINE.schema), QUARANTINE)
    assert refused_since(spark, location, NOW) == [("malformed_json", 2), ("oversized", 1)]


@pytest.mark.parametrize("below", ["", "new/.demo"])
def test_a_folder_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, below: str) -> None:
    monkeypatch.setattr(demo, "refuse_unwritable", failing_with(errno.EROFS))
    if below:
        monkeypatch.setattr(Path, "mkdir", failing_with(errno.EROFS))
    folder = tmp_path / below
    with pytest.raises(
        ConfigurationError, match=rf"^--folder {folder} cannot be written \(Read-only file system\): give"
    ):
        demo.demo(folder, Path("simulate.py"), "files")
