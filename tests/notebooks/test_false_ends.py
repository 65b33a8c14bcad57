"""The share of false ends, of an archive whose pauses are known."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.notebook.false_ends import archived_events, false_ends
from sessionization.notebook.notebook_tables import ArchivedTablesSettings
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS
from tests.support.event_maps import WITH_PINGS
from tests.support.settings import settings_of
from tests.support.warehouse import empty_tables, frame_of

pytestmark = pytest.mark.spark

NOW = datetime.now(UTC)
START, PING, END = "ApplicationSessionStart", "Ping", "ApplicationSessionEndBi"
Event = tuple[str, float, float]
"""The kind, and the minutes of arrival and of the event."""
SESSIONS: list[list[Event]] = [
    [(START, 0, 0), *((PING, minute, minute) for minute in range(1, 9)), (END, 9, 9)],  # a minute each
    [(START, 0, 0), (PING, 3, 3), (PING, 4, 4), (END, 5, 5)],  # goes on after 3
    [(START, 0, 0), (PING, 1, 1), (END, 13, 12)],  # only the End comes, after 12
    [(START, 0, 0), (PING, 40, 5), (PING, 40, 39), (PING, 40.5, 40.5)],  # offline for 40, and live
    [(START, 0, 0), (PING, 1, 1), (PING, 4, 0.5), (PING, 8, 8), (END, 8.5, 8.5)],  # an old ping is no sign
    [(START, 0, 0), (PING, 0.5, 0.5)],  # crashed, or live
    [(START, 0, 0), (END, 0.5, 0.5), (PING, 20, 20), (END, 50, 50)],  # nothing counts after the End
    [(START, 20, 0), (PING, 20, 7), (END, 20, 8)],  # all in one file
    [(END, 50, 50)],  # no session without a sign
]


def raw_events(sessions: list[list[Event]], begin: datetime) -> list[dict[str, Any]]:
    def message(number: int, kind: str, arrives: float, happened: float) -> dict[str, Any]:
        at = (begin + timedelta(minutes=happened)).isoformat(timespec="milliseconds")
        value = {"appSessionId": number, "eventId": kind, "hostPcId": f"d{number}", "timestamp": at}
        ingested_at = begin + timedelta(minutes=arrives)
        return {
            "stream": "pc_sessions", "ingested_at": ingested_at, "ingest_date": ingested_at.date(),
            "value": json.dumps(value).encode(),
        }  # fmt: skip

    return [message(number, *event) for number, events in enumerate(sessions) for event in events]


def test_the_share_of_sessions_that_a_timeout_would_end_too_early(spark: SparkSession, tmp_path: Path) -> None:
    location = empty_tables(spark, TableLocation(tmp_path / "tables"), owner="ours")
    days_ago = raw_events([[(START, 0, 0), (END, 55, 55)]] * 9, NOW - timedelta(days=3))
    rows = raw_events(SESSIONS, NOW - timedelta(hours=2)) + days_ago
    location.append(frame_of(spark, RAW_EVENTS, rows).repartition(3), RAW_EVENTS)
    (tmp_path / "pings.yml").write_text(WITH_PINGS)
    settings = settings_of(ArchivedTablesSettings, warehouse=location.warehouse, events=str(tmp_path / "pings.yml"))
    found = false_ends(archived_events(spark, settings)).collect()
    assert [row.sessions for row in found] == [8] * 5
    shares = {
        row.minutes: tuple(round(row[name] * 8 / 100) for name in row.asDict() if "percent" in name) for row in found
    }
    assert shares == {1: (6, 6, 0), 2: (5, 4, 1), 5: (4, 3, 1), 10: (2, 1, 1), 30: (1, 1, 0)}
