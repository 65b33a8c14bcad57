"""A job without an archive reads a table's columns; backfill, erasure and a warm start then read its source."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.backfill.backfill_job import backfill
from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.errors import CheckpointError, ConfigurationError, IncompleteWorkError, StreamError
from sessionization.job.preparation import open_job_checkpoint
from sessionization.ops.erase import erase
from sessionization.ops.maintenance_settings import EraseSettings
from sessionization.ops.preflight import check_messages
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.input.source_tables import describe_source_tables
from sessionization.spark.tables.location import TableLocation
from tests.support.checkpoints import last_committed, last_started
from tests.support.delta import read_table
from tests.support.in_process import RunningJob, job_running
from tests.support.settings import settings_of

pytestmark = pytest.mark.spark

EVENTS = """
version: 1
streams: {games: {platform: pc, table: FOLDER}}
device_id: device.id
session_id: sid
event: kind
kinds: {start: [open], end: [close]}
other_events: skip
event_time: {path: at, format: iso8601}
account_id: user
ingested_at: at
"""


class Played:
    """A table of events, and a job that reads it; starts share the tables."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.bronze = f"delta.`{folder}/bronze`"
        (folder / "my.yml").write_text(EVENTS.replace("FOLDER", f"{folder}/bronze"))
        spark.sql(
            f"CREATE TABLE {self.bronze} (device STRUCT<id: STRING>, sid BIGINT, kind STRING, user STRING, "
            "at TIMESTAMP) USING delta"
        )

    def settings(self, **options: object) -> SessionizeSettings:
        places = {"warehouse": self.folder / "w", "checkpoints": self.folder / "c", "events": self.folder / "my.yml"}
        quick = {"archive_every": "500ms", "rollup_every": "500ms", "trigger": "200ms", "late_retention": "1h"}
        source = {"source": "table", "archive": "off", "mlflow": "off", "heartbeat": "1s"}
        return settings_of(
            SessionizeSettings, {**places, **quick, **source, **options, "events": str(places["events"])}
        )

    def add(self, *events: str) -> None:
        """Each is `DEVICE SESSION KIND USER`, at this time."""
        rows = [event.split() for event in events]
        values = ", ".join(f"('{device}', {sid}, '{kind}', '{user}')" for device, sid, kind, user in rows)
        columns = (
            "named_struct('id', nullif(col1, '-')) AS device, col2 AS sid, col3 AS kind, nullif(col4, '-') AS user"
        )
        source = f"(SELECT {columns} FROM VALUES {values})"
        self.spark.sql(
            f"MERGE INTO {self.bronze} AS t USING {source} AS s ON false WHEN NOT MATCHED THEN "
            "INSERT (device, sid, kind, user, at) VALUES (s.device, s.sid, s.kind, s.user, current_timestamp())"
        )

    def shown(self) -> set[tuple[object, ...]]:
        """The rows of `sessions`."""
        table = self.folder / "w" / "sessions"
        if not table.exists():
            return set()
        return set(read_table(table).of("device_id", "session_id", "account_id", "end_reason"))

    def quarantined(self) -> list[tuple[object, ...]]:
        table = self.folder / "w" / "quarantine"
        return list(read_table(table).of("reason")) if table.exists() else []

    def wait_for(self, job: RunningJob, *sessions: tuple[object, ...]) -> None:
        job.wait_for(lambda: self.shown() == set(sessions), f"the sessions {sessions}")


@pytest.fixture
def played(spark: SparkSession, tmp_path: Path) -> Played:
    return Played(spark, tmp_path)


def come_to_rest(played: Played) -> None:
    """Start and stop the job until no micro-batch is left half done, as an erasure requires."""
    queries = [played.folder / "c" / name for name in ("sessionize", "archive", "rollup")]

    def is_at_rest() -> bool:
        return all(last_committed(query) == last_started(query) for query in queries)

    for _ in range(5):
        if is_at_rest():
            return
        with job_running(played.settings(trigger="1m")) as job:
            job.wait_for(is_at_rest, "every micro-batch is committed")


def test_a_job_without_an_archive_keeps_its_tables_right(spark: SparkSession, played: Played) -> None:
    ann, bob = ("d1", 1, "ann", "reported"), ("d2", 2, "bob", None)
    played.add("d1 1 open ann", "d1 1 chat ann", "- 6 open -")
    lines: list[str] = []
    assert describe_source_tables(spark, played.settings()) == "games is at version 1 of its table"
    assert check_messages(spark, played.settings(), lines.append) == "1 of 3 are events"
    with job_running(played.settings()) as job:
        played.wait_for(job, ("d1", 1, "ann", None))
        played.add("d1 1 close -", "d2 2 open bob", "d3 3 open -")
        spark.sql(f"OPTIMIZE {played.bronze}")
        played.wait_for(job, ann, bob, ("d3", 3, None, None))
        spark.sql(f"ALTER TABLE {played.bronze} ADD COLUMNS (extra STRING)")
        played.add("d3 3 close -", "d3 4 open -")
        played.wait_for(job, ann, bob, ("d3", 3, None, "reported"), ("d3", 4, None, None))
        job.wait_for(lambda: len(played.quarantined()) == 1, "quarantine")
    assert sum("a table that it reads has other columns" in line for line in job.lines) == 2
    assert not (played.folder / "w" / "raw_events").exists()

    # backfill reads the source
    places = {"warehouse": played.folder / "w", "checkpoints": played.folder / "c"}
    backfill(settings_of(BackfillSettings, places, verify=True), lines.append)
    assert lines[-1] == "4 sessions, all the same"

    # an erasure waits until the owner of the source has deleted the rows there
    come_to_rest(played)
    erasure = settings_of(EraseSettings, places, account=("ann",))
    with pytest.raises(IncompleteWorkError, match="has 3 rows of the accounts, of which 2 name one: delete") as error:
        erase(erasure, lines.append)
    assert ann in played.shown()
    [statement] = re.findall(r"\((DELETE FROM .*); malformed", str(error.value))
    assert "'ann'" not in statement
    assert spark.sql(statement.replace("ACCOUNT", "'ann'")).collect()[0].num_affected_rows == 3
    assert erase(erasure, lines.append).deleted["sessions"] == 1
    assert ann not in played.shown()

    # which the job passes over when it is told to
    with (
        pytest.raises(StreamError, match=r"rows of a source table were changed or deleted.*once with --accept-data"),
        job_running(played.settings()) as job,
    ):
        job.wait_for(lambda: False, "its end")
    with job_running(played.settings(accept_data_loss=True)) as job:
        played.add("d2 2 close bob")
        played.wait_for(job, ("d2", 2, "bob", "reported"), ("d3", 3, None, "reported"), ("d3", 4, None, None))

    # a warm start begins with what the source has, and reads each row once
    played.add("d3 4 close -", "d4 7 open -", "- 7 open -")
    warm = {"checkpoints": played.folder / "groups", "device_groups": 3, "from_sessions": True}
    others = [("d2", 2, "bob", "reported"), ("d3", 3, None, "reported"), ("d3", 4, None, "reported")]
    with job_running(played.settings(**warm)) as job:
        played.wait_for(job, *others, ("d4", 7, None, None))
        played.add("d4 7 close dan", "- 8 open -")
        played.wait_for(job, *others, ("d4", 7, "dan", "reported"))
        job.wait_for(lambda: len(played.quarantined()) == 3, "quarantine")
    changes = read_table(played.folder / "w" / "session_changes").of("change", "device_id", "session_id", "end_reason")
    counts = Counter(change for change in changes if change[0] != "heartbeat")
    assert set(counts.values()) == {1}, counts

    with pytest.raises(CheckpointError, match="was created with --archive off, not on: give the same again"):
        open_job_checkpoint(played.settings(**warm, archive="on"), TableLocation(played.folder / "w"), lines.append)


def test_latest_begins_after_the_newest_row(spark: SparkSession, played: Played) -> None:
    played.add("d1 1 open ann")
    with job_running(played.settings(starting_offsets="latest", archive="on")) as job:
        job.wait_for(lambda: last_started(played.folder / "c" / "sessionize") >= 0, "a micro-batch")
        played.add("d2 2 open bob")
        played.wait_for(job, ("d2", 2, "bob", None))
        job.wait_for(lambda: last_committed(played.folder / "c" / "archive") >= 0, "the archive")
    archived = list(read_table(played.folder / "w" / "raw_events").of("stream", "partition", "offset", "file"))
    assert archived == [("games", None, 2, None)]
    # The table is made anew: a warm start knows that it reads another one.
    shutil.rmtree(played.folder / "bronze")
    Played(spark, played.folder)
    with (
        pytest.raises(ConfigurationError, match="the table of games does not reach version 2, which was read: it was"),
        job_running(played.settings(checkpoints=played.folder / "d", archive="on", from_sessions=True)) as job,
    ):
        job.wait_for(lambda: False, "its end")
    with (
        pytest.raises(
            StreamError, match="a source table was dropped, or made anew: bring it back, or begin with a new"
        ),
        job_running(played.settings(starting_offsets="latest", archive="on")) as job,
    ):
        job.wait_for(lambda: False, "its end")
