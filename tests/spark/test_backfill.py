"""The backfill on real tables: what a stream made of dirty messages is found again, and what was changed is told."""

import json
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from sessionization.backfill import run as backfill
from sessionization.backfill.settings import BackfillSettings
from sessionization.core.state import Rules
from sessionization.durations import parse_duration_ms
from sessionization.errors import DifferenceError
from sessionization.settings import SessionizeSettings
from sessionization.spark import run
from sessionization.spark.checkpoint import Fixed, open_checkpoint
from sessionization.spark.table_home import TableHome, create_tables
from sessionization.spark.tables import RAW_EVENTS, SESSIONS, STREAM_PROGRESS

STREAMS = {"pc_sessions": "hostPcId", "console_sessions": "openPsid"}
PLAYED_S, RUN_FOR = 30, "60s"
DAY = datetime.now(UTC).date() - timedelta(days=10)
MIDNIGHT = datetime.combine(DAY + timedelta(days=1), time(), UTC)


@dataclass
class Streamed:
    """What the real job has made of an evening of few devices that report whatever they like."""

    spark: SparkSession
    folder: Path

    def settings(self, **options: object) -> BackfillSettings:
        home = {"warehouse": self.folder / "warehouse", "checkpoints": self.folder / "checkpoints"}
        return BackfillSettings.model_validate(home | options)

    def backfill(self, **options: object) -> list[str]:
        said: list[str] = []
        backfill.backfill(self.settings(**options), said.append)
        return said

    @property
    def home(self) -> TableHome:
        return TableHome(self.folder / "warehouse")

    @property
    def sessions(self) -> str:
        return self.home.sql_name(SESSIONS.name)

    def rows(self) -> list[Row]:
        """All of `sessions` but when it was."""
        return self.spark.sql(
            f"SELECT * EXCEPT (updated_at) FROM {self.sessions} ORDER BY device_id, session_id"
        ).collect()


def report(folder: Path, over: threading.Event) -> None:
    """A file every few tenths of a second: repeats, lost and late messages, disagreeing ones, broken ones.

    Each starts a session of its own as well, so that the micro-batch that took the file is known of all its messages: of one
    that changes nothing it otherwise is not, when files come while a slow machine plans a micro-batch (docs/adr/0019-backfill.md).
    """
    rng = random.Random(7)
    for number in range(10_000):
        stream = rng.choice(list(STREAMS))
        lines = [b"{broken"] if rng.random() < 0.2 else []
        for _ in range(rng.randrange(1, 12)):
            at = datetime.now(UTC) - timedelta(milliseconds=rng.choice([0, 0, 100, 900, 4_000]))
            message = {
                "appSessionId": rng.randrange(8),
                "eventId": rng.choice(["ApplicationSessionStart", "ApplicationSessionEndBi"]),
                STREAMS[stream]: f"d{rng.randrange(40)}",
                "timestamp": at.isoformat(timespec="milliseconds"),
            }
            if rng.random() < 0.5:
                message["psnAccountId"] = rng.choice(["ann", "bob"])
            if rng.random() < 0.5:
                message["totalFgTime"] = rng.randrange(5)
            lines.append(json.dumps(message).encode())
        own = {"appSessionId": number, "eventId": "ApplicationSessionStart", STREAMS[stream]: f"of {number}"}
        lines.append(json.dumps(own | {"timestamp": datetime.now(UTC).isoformat(timespec="milliseconds")}).encode())
        hidden = folder / stream / ".next.tmp"
        hidden.write_bytes(b"\n".join(lines) + b"\n")
        hidden.rename(folder / stream / f"{number}.json")
        if over.wait(rng.choice([0.1, 0.3, 1.5])):
            return


@pytest.fixture(scope="module")
def evening(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Streamed:
    folder = tmp_path_factory.mktemp("an evening")
    for stream in STREAMS:
        (folder / "input" / stream).mkdir(parents=True)
    settings = SessionizeSettings.model_validate(
        {
            "input": folder / "input", "warehouse": folder / "warehouse", "checkpoints": folder / "checkpoints",
            "heartbeat": "2s", "session_timeout": "6s", "late_retention": "3s", "max_sessions_per_device": 4,
            "mlflow": "off",
        }
    )  # fmt: skip
    over = threading.Event()
    reporter = threading.Thread(target=report, args=(folder / "input", over))

    def begin(_spark: SparkSession, _home: TableHome) -> None:
        if over.is_set() or reporter.is_alive():
            return
        reporter.start()
        threading.Timer(PLAYED_S, over.set).start()

    try:
        for run_for in (RUN_FOR, *(["5s"] * 5)):  # on a busy machine the last micro-batch of rollup may be cut off
            said: list[str] = []
            settings = settings.model_copy(update={"run_for": parse_duration_ms(run_for)})
            run.run(settings, threading.Event(), run.Watch(said.append, started=begin, routine=lambda _: None))
            if not any("is behind" in line for line in said):
                break
    finally:
        over.set()
        reporter.join()
    return Streamed(spark, folder)


@pytest.fixture
def streamed(evening: Streamed) -> Iterator[Streamed]:
    """The evening; its `sessions` are put back as they were."""
    sessions = evening.home.delta_table(evening.spark, SESSIONS)
    version = sessions.history(1).collect()[0].version
    yield evening
    sessions.restoreToVersion(version)


def test_what_the_stream_made_is_found_again(streamed: Streamed) -> None:
    reasons = streamed.spark.sql(f"SELECT DISTINCT end_reason FROM {streamed.sessions}").collect()
    assert {row.end_reason for row in reasons} >= {"reported", "superseded", "timed_out", "orphaned"}
    corrected = streamed.spark.sql(f"SELECT count(*) AS n FROM {streamed.sessions} WHERE revision > 0").first()
    assert corrected.n > 0
    count = streamed.spark.sql(f"SELECT count(*) AS n FROM {streamed.sessions}").first().n
    assert count > 100
    assert streamed.backfill(verify=True)[-1] == f"{count:,} sessions, all the same"


def test_what_was_changed_is_listed_and_a_merge_mends_it(streamed: Streamed) -> None:
    sql = streamed.spark.sql
    wrong, lost = sql(
        f"SELECT device_id, session_id FROM {streamed.sessions} WHERE end_reason = 'reported' ORDER BY 1, 2 LIMIT 2"
    ).collect()
    key = "device_id = '{0.device_id}' AND session_id = {0.session_id}"
    (before,) = sql(f"SELECT * EXCEPT (updated_at) FROM {streamed.sessions} WHERE {key.format(lost)}").collect()
    sql(f"UPDATE {streamed.sessions} SET foreground_s = 999 WHERE {key.format(wrong)}")
    sql(f"DELETE FROM {streamed.sessions} WHERE {key.format(lost)}")
    said: list[str] = []
    with pytest.raises(DifferenceError, match=r"^2 of \d+ sessions differ"):
        backfill.backfill(streamed.settings(verify=True), said.append)
    told = [line for line in said if line.startswith("device ")]
    assert len(told) == 2
    assert told[0].startswith(f"device {wrong.device_id!r}, session {wrong.session_id}: foreground_s 999, not ")
    assert told[1] == f"device {lost.device_id!r}, session {lost.session_id}: is not in sessions"
    streamed.backfill()
    (anew,) = sql(
        f"SELECT * EXCEPT (updated_at) FROM {streamed.sessions.replace('/sessions`', '/sessions_backfill`')} WHERE {key.format(lost)}"
    ).collect()
    assert anew == before
    assert streamed.backfill(merge=True)[-1].startswith("1 sessions are new in sessions")
    assert sql(f"SELECT * EXCEPT (updated_at) FROM {streamed.sessions} WHERE {key.format(lost)}").collect() == [before]


def spoil(streamed: Streamed, bad: str) -> None:
    """What a bad run may do to `sessions`: wrong ends that win every fold, lost and endless sessions, and invented ones."""
    sessions = streamed.home.delta_table(streamed.spark, SESSIONS)
    end, late = F.col("_shown_end"), F.expr("ended_at + INTERVAL 1 HOUR")
    sessions.update(
        F.expr(f"end_reason IN ('reported', 'orphaned') AND {bad}"),
        {
            "_shown_end": end.withField("rank", F.lit(2)).withField("revision", F.lit(9)).withField("ended_at", late),
            "revision": F.lit(9), "ended_at": late, "duration_ms": F.expr("duration_ms + 3600000"),
        },
    )  # fmt: skip
    nothing = dict.fromkeys(("ended_at", "duration_ms", "foreground_s", "end_reason", "_shown_end"), F.expr("NULL"))
    endless = {"status": F.lit("live"), "revision": F.lit(0), "updated_at": F.col("started_at")}
    sessions.update(F.expr(f"end_reason = 'timed_out' AND {bad}"), nothing | endless)
    sessions.delete(f"end_reason = 'superseded' AND {bad}")
    theirs = streamed.home.read(streamed.spark.read, SESSIONS).where(bad)
    streamed.home.append(theirs.withColumn("session_id", F.expr("session_id + 1000000")), SESSIONS)


def test_what_a_bad_run_wrote_is_mended_as_the_runbook_says(streamed: Streamed) -> None:
    """docs/runbook.md, "A deploy was bad": what it wrote is deleted, merged anew and compared."""
    sql, before = streamed.spark.sql, streamed.rows()
    clocks = [row.at for row in sql(f"SELECT string(updated_at) AS at FROM {streamed.sessions} ORDER BY 1").collect()]
    begin, end = clocks[len(clocks) // 3], clocks[len(clocks) * 2 // 3]
    bad = f"updated_at BETWEEN TIMESTAMP '{begin}' AND TIMESTAMP '{end}'"
    reasons = sql(f"SELECT DISTINCT end_reason FROM {streamed.sessions} WHERE {bad}").collect()
    assert {row.end_reason for row in reasons} == {"reported", "superseded", "timed_out", "orphaned"}
    sooner = f"SELECT * FROM {streamed.sessions} WHERE {bad} AND started_at < TIMESTAMP '{begin}'"
    assert sql(sooner).count(), "sessions that began before the bad run"
    spoil(streamed, bad)
    day = {"from": datetime.now(UTC).date() - timedelta(days=1)}
    with pytest.raises(DifferenceError):
        streamed.backfill(**day, verify=True)
    sql(f"DELETE FROM {streamed.sessions} WHERE {bad}")
    streamed.backfill(**day, merge=True)
    assert streamed.backfill(**day, verify=True)[-1] == f"{len(before):,} sessions, all the same"
    assert streamed.rows() == before


def archived(spark: SparkSession, folder: Path, later: timedelta | None) -> Streamed:
    """Tables of a stream around midnight: session 1 lasts across it, 2 is over before. `sessions` is empty.

    The last micro-batch was ten minutes before midnight, or so much `later` than midnight.
    """
    home = TableHome(folder / "warehouse")
    create_tables(spark, home, owner="ours", may_create=True)
    fixed = Fixed("files", "", str(home), None, max_clock_skew_ms=600_000, max_event_age_ms=604_800_000)
    open_checkpoint(folder / "checkpoints", fixed, Rules())

    def message(at: datetime, session_id: int, event: str) -> tuple:
        said = {"appSessionId": session_id, "eventId": f"ApplicationSession{event}", "hostPcId": f"d{session_id}"}
        value = json.dumps(said | {"timestamp": at.isoformat(timespec="milliseconds")}).encode()
        return "pc_sessions", None, None, "f", at, value, at.date()

    started, over, reported = (MIDNIGHT + timedelta(minutes=minutes) for minutes in (-10, -11, 9))
    messages = [
        message(started, 1, "Start"),
        message(over - timedelta(minutes=1), 2, "Start"),
        message(over, 2, "EndBi"),
    ]
    clocks = [at + timedelta(seconds=1) for *_, at, _, _ in messages]
    if later is not None:
        messages.append(message(reported, 1, "EndBi"))
        clocks.append(MIDNIGHT + later)
    home.append(spark.createDataFrame(messages, RAW_EVENTS.schema), RAW_EVENTS)
    progress = [
        {"query": "sessionize", "batch_id": number, "processed_at": at, "rows_in": 1}
        for number, at in enumerate(sorted(clocks))
    ]
    home.append(spark.createDataFrame(progress, STREAM_PROGRESS.schema), STREAM_PROGRESS)
    return Streamed(spark, folder)


@pytest.mark.parametrize("later", [timedelta(minutes=10), timedelta(days=4)])
def test_what_was_live_when_the_days_ended_is_not_merged_where_the_stream_went_on(
    spark: SparkSession, tmp_path: Path, later: timedelta
) -> None:
    streamed = archived(spark, tmp_path, later)
    rows = f"SELECT session_id, status FROM {streamed.sessions} ORDER BY 1"
    said = streamed.backfill(to=DAY, merge=True)
    assert "sessions that were live when these days ended are left out: the stream went on" in said
    assert [tuple(row) for row in spark.sql(rows).collect()] == [(2, "ended")]
    streamed.backfill(merge=True)
    assert [tuple(row) for row in spark.sql(rows).collect()] == [(1, "ended"), (2, "ended")]


def test_what_is_live_yet_is_merged(spark: SparkSession, tmp_path: Path) -> None:
    streamed = archived(spark, tmp_path, None)
    streamed.backfill(to=DAY, merge=True)
    rows = f"SELECT session_id, status FROM {streamed.sessions} ORDER BY 1"
    assert [tuple(row) for row in spark.sql(rows).collect()] == [(1, "live"), (2, "ended")]
