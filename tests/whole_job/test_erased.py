"""An account in the operator's state is erased: after all retentions have passed, no file contains any of it."""

import contextlib
import itertools
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.ops.erase import Receipt, erase
from sessionization.ops.input_files import delete_read_files
from sessionization.ops.maintenance_settings import EraseSettings
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import QUARANTINE, RAW_EVENTS, SESSION_CHANGES, SESSIONS
from tests.support.job import Job
from tests.support.remains import encodings, files_that_contain
from tests.support.sent import deliver, message
from tests.support.settings import settings_of

pytestmark = [pytest.mark.job, pytest.mark.long]

ACCOUNT = "AnnQzJvWkYpGfB"
OVER, LIVE = 3_141_592_653_589_793, 2_718_281_828_459_045
TEXTS = (ACCOUNT.encode(), *encodings(OVER), *encodings(LIVE))
OTHERS = tuple(f"pc-{number}" for number in range(12))
OPTIONS = ("--heartbeat=1s", "--trigger=500ms")
CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
    "spark.sql.streaming.stateStore.rocksdb.compression": "none",
}
HOUR_MS, LONG_AGO_S = 3_600_000, 40 * 86_400
CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


def play_others(job: Job, number: int) -> None:
    """Start another session of another account on every other device."""
    messages = [message(number, "Start", device, psnAccountId=f"bob-{device}") for device in OTHERS]
    deliver(job.input / "pc_sessions", str(number), messages)


def file_names_the_account(folder: Path, pattern: str = "*") -> bool:
    """Whether a file contains the account uncompressed; files may come and go meanwhile."""
    for file in folder.rglob(pattern):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            if TEXTS[0] in file.read_bytes():
                return True
    return False


def erase_account(job: Job) -> Receipt:
    settings = settings_of(EraseSettings, warehouse=job.warehouse, checkpoints=job.checkpoints, account=(ACCOUNT,))
    return erase(settings, lambda _: None)


def let_retentions_pass(spark: SparkSession, job: Job) -> None:
    """Delete files that no table names, each log up to a checkpoint that is old then, and the input that was read."""
    location = TableLocation(job.warehouse)
    spark.conf.set(CHECK, "false")
    try:
        for table in (SESSION_CHANGES, SESSIONS, RAW_EVENTS, QUARANTINE):
            alter = f"ALTER TABLE {location.sql_name(table.name)} SET TBLPROPERTIES"
            spark.sql(f"{alter} ('delta.deletedFileRetentionDuration' = 'interval 0 hours')")
            spark.sql(f"VACUUM {location.sql_name(table.name)}")
            spark.sql(f"{alter} ('delta.checkpointInterval' = '1')")
            spark.sql(f"{alter} ('checkpoint' = 'of these days')")
            for file in (job.warehouse / table.name / "_delta_log").iterdir():
                os.utime(file, (time.time() - LONG_AGO_S,) * 2)
            spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
            spark.sql(f"{alter} ('checkpoint' = 'much later')")
    finally:
        spark.conf.unset(CHECK)
    assert delete_read_files(job.checkpoints, 0, wall_clock_ms() + HOUR_MS, threading.Event()) > 0


def test_no_file_contains_an_erased_account_after_all_retentions(tmp_path: Path, spark: SparkSession) -> None:
    """Compression hides no hit.

    The search decodes Parquet, changelogs and the archives of snapshots, and RocksDB's own files are not compressed
    here: the first search finds the account in all of them.
    """
    job = Job(tmp_path / "data", *OPTIONS, "--session-timeout=1h", "--late-retention=1h")
    job.conf = CONF
    now = datetime.now(UTC)
    events = (OVER, "Start", 9), (OVER, "EndBi", 6), (LIVE, "Start", 3), (LIVE, "Unknown", 0)
    messages = [
        message(session_id, event, "pc-ann", now - timedelta(seconds=ago_s), psnAccountId=ACCOUNT)
        for session_id, event, ago_s in events
    ]
    deliver(job.input / "pc_sessions", "0", messages)
    play_others(job, 1)
    with job:
        job.start()
        job.wait_until_done()
        job.wait_until(lambda: file_names_the_account(job.checkpoints, "*.sst"), "it is in a snapshot", poll_s=0.5)
        job.come_to_rest()
    suffixes = {file.suffix for file in files_that_contain(tmp_path, spark, *TEXTS)}
    assert {".json", ".parquet", ".changelog", ".sst"} <= suffixes
    assert erase_account(job).state == 2

    # The job runs past the retention of the state and its files, and writes a change of the player once more.
    job = Job(tmp_path / "data", *OPTIONS, "--session-timeout=10s", "--late-retention=1s")
    job.conf = CONF | {"spark.sql.streaming.minBatchesToRetain": "2"}

    numbers = itertools.count(2)

    def is_gone() -> bool:
        play_others(job, next(numbers))
        return not file_names_the_account(job.checkpoints)

    with job:
        job.start()
        job.wait_until(is_gone, "no file of the checkpoint names it", poll_s=1)
        job.come_to_rest()
    receipt = erase_account(job)
    assert (receipt.state, receipt.deleted["sessions"]) == (0, 1), "the session that was live has timed out"

    assert list(files_that_contain(job.checkpoints, spark, *TEXTS)) == []
    let_retentions_pass(spark, job)
    assert list(files_that_contain(tmp_path, spark, *TEXTS)) == []
