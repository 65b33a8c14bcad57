"""The backfill on real tables reproduces what a stream made of dirty messages while maintenance ran."""

import itertools
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionization.backfill import backfill_job as backfill
from sessionization.durations import DAY_MS
from sessionization.errors import CheckpointError, DifferenceError
from sessionization.ops.maintain import maintenance_steps, run_steps
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.backlog import refuse_backlog
from sessionization.spark.checkpoint.folder import ROLLUP
from sessionization.spark.checkpoint.spark_logs import newest_committed_batch
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, SESSIONS, TABLES
from tests.backfill.streamed_evening import StreamedEvening
from tests.support.event_maps import WITH_PINGS
from tests.support.in_process import job_running
from tests.support.sent import deliver, message
from tests.support.settings import settings_of

pytestmark = [pytest.mark.spark, pytest.mark.long]

STREAMS = {"pc_sessions": "hostPcId", "console_sessions": "openPsid"}
PLAYED_S = 20
SETTLED_S = 10
"""How long after the last message sessions may still time out, and late Ends become orphaned."""
LONG_TRIGGER_MS = 60_000
"""The first micro-batches run at once, and the pauses between them leave time to stop."""
MAINTENANCE = {f"{verb} of {SESSION_CHANGES.name}" for verb in ("OPTIMIZE", "VACUUM", "ALTER")}


def write_files(folder: Path, kinds: Sequence[str], stop: threading.Event) -> None:
    """Write a file every few tenths of a second: repeated, lost, late, contradictory and broken messages.

    Each file also starts a session of its own, and ends one that never started. Their changes show which micro-batch
    read the file. Without a change that is unknown if files come while a slow machine plans a micro-batch
    (docs/adr/0019-backfill.md).
    """
    rng = random.Random(7)
    for number in range(10_000):
        stream = rng.choice(list(STREAMS))
        of_stream = partial(message, id_field=STREAMS[stream])
        lines = [b"{broken"] if rng.random() < 0.2 else []
        for _ in range(rng.randrange(1, 12)):
            at = datetime.now(UTC) - timedelta(milliseconds=rng.choice([0, 0, 100, 900, 4_000]))
            more: dict[str, Any] = {"psnAccountId": rng.choice(["ann", "bob"])} if rng.random() < 0.5 else {}
            more |= {"totalFgTime": rng.randrange(5)} if rng.random() < 0.5 else {}
            lines.append(of_stream(rng.randrange(8), rng.choice(kinds), f"d{rng.randrange(40)}", at, **more))
        lines += [
            of_stream(number, "Start", f"of {number}"), of_stream(1_000_000 + number, "EndBi", f"of {number}"),
        ]  # fmt: skip
        deliver(folder / stream, str(number), lines)
        if stop.wait(rng.choice([0.1, 0.3, 1.5])):
            return


def maintain_repeatedly(spark: SparkSession, location: TableLocation, lines: list[str], stop: threading.Event) -> None:
    """Run the statements of `maintain` repeatedly: they also compact today's rows and change table settings."""
    for retention_ms in itertools.cycle([8 * DAY_MS, 7 * DAY_MS]):
        found = {table.name: location.properties(spark, table) for table in TABLES}
        todo = [
            replace(step, sql=step.sql.replace("< current_date()", "<= current_date()"))
            for step in maintenance_steps(location, 1, dict.fromkeys(found, retention_ms), found)
        ]
        lines += run_steps(todo, lambda sql: spark.sql(sql).collect(), lines.append, stop)
        if stop.wait(1):
            return


def finished_statements(maintained: list[str]) -> set[str]:
    return {line.removesuffix(" is done") for line in maintained if line.endswith(" is done")}


def is_at_rest(spark: SparkSession, location: TableLocation, checkpoints: Path) -> bool:
    """Whether the job has committed and read everything, which a merge requires, and every session has ended."""
    try:
        refuse_backlog(checkpoints, partial(location.has_append_since, spark, SESSION_CHANGES))
    except CheckpointError:
        return False
    return location.read(spark.read, SESSIONS).where("status = 'live'").isEmpty()


@pytest.fixture(scope="module")
def evening(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamedEvening:
    return stream_an_evening(spark, tmp_path_factory.mktemp("an evening"))


def stream_an_evening(
    spark: SparkSession, folder: Path, kinds: Sequence[str] = ("Start", "EndBi"), **options: object
) -> StreamedEvening:
    for stream in STREAMS:
        (folder / "input" / stream).mkdir(parents=True)
    settings = settings_of(SessionizeSettings,
        {
            "input": folder / "input", "warehouse": folder / "warehouse", "checkpoints": folder / "checkpoints",
            "heartbeat": "2s", "session_timeout": "6s", "late_retention": "3s", "max_sessions_per_device": 4,
            "mlflow": "off", **options,
        }
    )  # fmt: skip
    location, stop, maintained = TableLocation(folder / "warehouse"), threading.Event(), list[str]()
    reporter = threading.Thread(target=write_files, args=(folder / "input", kinds, stop))
    maintainer = threading.Thread(target=maintain_repeatedly, args=(spark, location, maintained, stop))
    with job_running(settings) as job:
        job.wait_for(lambda: newest_committed_batch(folder / "checkpoints" / ROLLUP) >= 0, "the queries run")
        reporter.start()
        maintainer.start()
        try:
            time.sleep(PLAYED_S)
            job.wait_for(lambda: finished_statements(maintained) >= MAINTENANCE, "maintenance")
        finally:
            stop.set()
            reporter.join()
            maintainer.join()
        time.sleep(SETTLED_S)
    for _ in range(5):  # on a busy machine a micro-batch may be cut off
        if is_at_rest(spark, location, folder / "checkpoints"):
            break
        pace = settings.pace.model_copy(update={"trigger_ms": LONG_TRIGGER_MS})
        with job_running(settings.model_copy(update={"pace": pace})) as job:
            job.wait_for(partial(is_at_rest, spark, location, folder / "checkpoints"), "the job to have done all")
    return StreamedEvening(spark, folder, maintained)


@pytest.fixture
def streamed(evening: StreamedEvening) -> Iterator[StreamedEvening]:
    """The evening; its table `sessions` is restored after the test."""
    sessions = evening.location.delta_table(evening.spark, SESSIONS)
    version = sessions.history(1).collect()[0].version
    yield evening
    sessions.restoreToVersion(version)


def test_the_backfill_finds_the_sessions_that_the_stream_made(streamed: StreamedEvening) -> None:
    assert finished_statements(streamed.maintained) >= MAINTENANCE
    assert not any("failed" in line for line in streamed.maintained)
    reasons = streamed.spark.sql(f"SELECT DISTINCT end_reason FROM {streamed.sessions}").collect()
    assert {row.end_reason for row in reasons} >= {"reported", "superseded", "timed_out", "orphaned"}
    corrected = streamed.spark.sql(f"SELECT count(*) AS n FROM {streamed.sessions} WHERE revision > 0").first()
    assert corrected.n > 0
    count = streamed.spark.sql(f"SELECT count(*) AS n FROM {streamed.sessions}").first().n
    assert count > 100
    assert streamed.backfill(verify=True)[-1] == f"{count:,} sessions, all the same"


def test_the_backfill_finds_the_sessions_of_players_who_send_pings(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "pings.yml").write_text(WITH_PINGS.replace("[Ping]", "[ApplicationSessionPing]"))
    streamed = stream_an_evening(
        spark, tmp_path, ("Start", "EndBi", "Ping", "Ping"), events=str(tmp_path / "pings.yml"), inactivity_timeout="3s"
    )
    changes = streamed.location.read(spark.read, SESSION_CHANGES)
    assert not changes.where("change = 'resumed'").isEmpty()
    reasons = spark.sql(f"SELECT DISTINCT end_reason FROM {streamed.sessions}").collect()
    assert {row.end_reason for row in reasons} >= {"reported", "superseded", "inactive", "orphaned"}
    assert streamed.backfill(verify=True)[-1].endswith(" sessions, all the same")


def test_verify_lists_changed_rows_and_a_merge_repairs_them(streamed: StreamedEvening) -> None:
    sql = streamed.spark.sql
    wrong, lost = sql(
        f"SELECT device_id, session_id FROM {streamed.sessions} WHERE end_reason = 'reported' ORDER BY 1, 2 LIMIT 2"
    ).collect()
    key = "device_id = '{0.device_id}' AND session_id = {0.session_id}"
    (original,) = sql(f"SELECT * EXCEPT (updated_at) FROM {streamed.sessions} WHERE {key.format(lost)}").collect()
    sql(f"UPDATE {streamed.sessions} SET foreground_s = 999 WHERE {key.format(wrong)}")
    sql(f"DELETE FROM {streamed.sessions} WHERE {key.format(lost)}")
    lines: list[str] = []
    with pytest.raises(DifferenceError, match=r"^2 of \d+ sessions differ"):
        backfill.backfill(streamed.settings(verify=True), lines.append)
    difference_lines = [line for line in lines if line.startswith("device ")]
    assert len(difference_lines) == 2
    assert difference_lines[0].startswith(
        f"device {wrong.device_id!r}, session {wrong.session_id}: foreground_s 999, not "
    )
    assert difference_lines[1] == f"device {lost.device_id!r}, session {lost.session_id}: is not in sessions"
    assert streamed.backfill(merge=True)[-1].startswith("1 sessions are new in sessions")
    assert sql(f"SELECT * EXCEPT (updated_at) FROM {streamed.sessions} WHERE {key.format(lost)}").collect() == [
        original
    ]


def damage_sessions(streamed: StreamedEvening, bad: str) -> None:
    """Damage `sessions` as a bad run may: wrong ends that win every merge, and lost, endless and invented sessions."""
    sessions = streamed.location.delta_table(streamed.spark, SESSIONS)
    end, late = F.col("_shown_end"), F.expr("ended_at + INTERVAL 1 HOUR")
    sessions.update(
        F.expr(f"end_reason IN ('reported', 'orphaned') AND {bad}"),
        {
            "_shown_end": end.withField("rank", F.lit(2)).withField("revision", F.lit(9)).withField("ended_at", late),
            "revision": F.lit(9), "ended_at": late, "duration_ms": F.expr("duration_ms + 3600000"),
        },
    )  # fmt: skip
    nothing = dict.fromkeys(("ended_at", "duration_ms", "foreground_s", "end_reason", "_shown_end"), F.expr("NULL"))
    endless = {"status": F.lit("live"), "_part": F.lit("live"), "revision": F.lit(0), "updated_at": F.col("started_at")}
    sessions.update(F.expr(f"end_reason = 'timed_out' AND {bad}"), nothing | endless)
    sessions.delete(f"end_reason = 'superseded' AND {bad}")
    copies = streamed.location.read(streamed.spark.read, SESSIONS).where(bad)
    streamed.location.append(copies.withColumn("session_id", F.expr("session_id + 1000000")), SESSIONS)


def test_rows_of_a_bad_run_are_repaired_as_the_runbook_says(streamed: StreamedEvening) -> None:
    """docs/runbook.md, "A deploy was bad": its rows are deleted, merged anew and compared."""
    sql, original_rows = streamed.spark.sql, streamed.rows()
    clocks = [row.at for row in sql(f"SELECT string(updated_at) AS at FROM {streamed.sessions} ORDER BY 1").collect()]
    begin, end = clocks[len(clocks) // 3], clocks[len(clocks) * 2 // 3]
    bad = f"updated_at BETWEEN TIMESTAMP '{begin}' AND TIMESTAMP '{end}'"
    reasons = sql(f"SELECT DISTINCT end_reason FROM {streamed.sessions} WHERE {bad}").collect()
    assert {row.end_reason for row in reasons} == {"reported", "superseded", "timed_out", "orphaned"}
    sooner = f"SELECT * FROM {streamed.sessions} WHERE {bad} AND started_at < TIMESTAMP '{begin}'"
    assert sql(sooner).count(), "sessions that began before the bad run"
    damage_sessions(streamed, bad)
    day = {"from": datetime.now(UTC).date() - timedelta(days=1)}
    with pytest.raises(DifferenceError):
        streamed.backfill(**day, verify=True)
    sql(f"DELETE FROM {streamed.sessions} WHERE {bad}")
    streamed.backfill(**day, merge=True)
    assert streamed.backfill(**day, verify=True)[-1] == f"{len(original_rows):,} sessions, all the same"
    assert streamed.rows() == original_rows
