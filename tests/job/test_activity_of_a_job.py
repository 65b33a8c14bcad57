"""A job with an inactivity timeout: sessions that fall silent, go on, and whose Start is missing."""

from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.ops.state_reader import StateReader
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.output.progress_log import ProgressLog
from sessionization.spark.tables.schemas import QUARANTINE, SESSIONS, STREAM_PROGRESS
from tests.support.event_maps import WITH_PINGS
from tests.support.stream_job import Job, message
from tests.support.waiting import wait_for

pytestmark = pytest.mark.spark


def revisions(job: Job, session_id: int) -> list[tuple[str, str | None, int]]:
    """The changes of a session but heartbeats, in the order in which they were emitted."""
    rows = [row for row in job.changes(session_id=session_id) if row["change"] != "heartbeat"]
    in_order = sorted(rows, key=itemgetter("processed_ms", "revision"))  # a later `started` comes before its `ended`
    return [(row["change"], row["end_reason"], row["revision"]) for row in in_order]


def ping(session_id: int, device: str) -> dict:
    return message(session_id, "Start", device) | {"eventId": "Ping"}


@pytest.mark.parametrize("groups", [1, pytest.param(None, marks=pytest.mark.long)])
def test_a_running_checkpoint_gets_signs_of_life(spark: SparkSession, tmp_path: Path, groups: int | None) -> None:
    (tmp_path / "pings.yml").write_text(WITH_PINGS)
    job = Job(spark, tmp_path, events=str(tmp_path / "pings.yml"), late_retention="10m", device_groups=groups)
    reports: list[BatchProgress] = []
    with job.running(report=reports.append) as queries:
        job.send(message(1, "Start", "d1"), ping(1, "d1"), ping(7, "d2"))
        wait_for(lambda: job.count(change="heartbeat") > 0 and job.archived() == 3, "a session without signs")
        job.stop(queries)
    assert {row["change"] for row in job.changes()} == {"started", "heartbeat"}
    assert sum(report.skipped or 0 for report in reports) == 2
    assert all(report.activities is None for report in reports)

    job.change(inactivity_timeout="10s")
    with job.running(report=reports.append) as queries:
        job.send(ping(2, "d2"))
        wait_for(lambda: job.count(end_reason="inactive") == 2, "both sessions to fall silent")
        job.stop(queries)

    job.change(inactivity_timeout="1h", late_retention="1h")  # from here on nothing falls silent
    with job.running(report=reports.append) as queries:
        last_ping = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=1)
        job.send(
            ping(1, "d1"), message(2, "Start", "d2"), message(3, "Start", "d3"),
            ping(3, "d3") | {"timestamp": last_ping.isoformat()},
        )  # fmt: skip
        wait_for(lambda: job.count(change="resumed") == 1 and job.archived() == 8, "one to go on")
        job.stop(queries)

    assert revisions(job, 1) == [
        ("started", None, 0),
        ("ended", "inactive", 0),
        ("resumed", None, 1),
    ]
    assert revisions(job, 2) == [
        ("started", None, 0),
        ("ended", "inactive", 0),
        ("started", None, 0),
        ("ended", "inactive", 1),
    ]
    assert job.rows(QUARANTINE) == []
    progress_has_the_counts(job, reports)

    for file in job.input.glob("*/*.json"):
        file.unlink()
    job.change(checkpoints=tmp_path / "other", device_groups=None if groups else 1, from_sessions=True)
    with job.running() as queries:
        job.send(message(1, "EndBi", "d1"))
        wait_for(lambda: job.count(end_reason="reported") == 1, "the End, after a warm start")
        wait_for(lambda: [row["end_reason"] for row in job.rows(SESSIONS, session_id=1)] == ["reported"], "its session")
        job.stop(queries)
    assert revisions(job, 1)[-1] == ("ended", "reported", 2)
    shown = StateReader(spark, job.settings.state.checkpoints).sessions().collect()
    assert {(row.session_id, row.status) for row in shown} == {(1, "closed"), (2, "closed"), (3, "live")}
    assert [row.ended_at.astimezone(UTC) for row in shown if row.session_id == 3] == [last_ping]


def progress_has_the_counts(job: Job, reports: list[BatchProgress]) -> None:
    log = ProgressLog(job.context)
    for report in reports:
        log.store(report)
    log.append()
    rows = job.rows(STREAM_PROGRESS)
    sums = {name: sum(row.get(name) or 0 for row in rows) for name in ("activities", "resumed", "implied_starts")}
    assert sums == {"activities": 3, "resumed": 1, "implied_starts": 1}
